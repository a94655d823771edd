#ifndef TESSERA_TENSOR_EXPR_ELEMENT_GROUP_H_
#define TESSERA_TENSOR_EXPR_ELEMENT_GROUP_H_

#include <cstdint>
#include <type_traits>

#include "tessera/base/host_device.h"
#include "tessera/base/shape.h"
#include "tessera/tensor/packet/avx2_packet.h"
#include "tessera/tensor/packet/half_packet.h"
#include "tessera/tensor/packet/packet.h"

namespace tessera::tensor_internal {
inline namespace TESSERA_ISA_NAMESPACE {

/// The counterpart of a packet on a GPU: neighbouring elements that one thread loads, computes one
/// by one and stores. A GPU has no arithmetic for groups, but a thread moves 16 bytes at a time.
/// Moving floats in groups takes a quarter of the instructions that moving them one by one takes.
template <typename T>
struct alignas(16) ElementGroup {
  static constexpr index_t kSize = sizeof(T) < 16 ? index_t{16 / sizeof(T)} : 1;  ///< elements

  T elements[static_cast<size_t>(kSize)];  ///< in memory order

  /// Element i, which must lie in [0, kSize).
  TESSERA_HD T& operator[](index_t i) { return elements[i]; }
  TESSERA_HD const T& operator[](index_t i) const { return elements[i]; }
};

/// Returns a packet or a group of the elements at `address`. The address of a group must be a
/// multiple of 16 bytes.
template <typename P, typename T>
TESSERA_HD P LoadPacket(const T* address) {
  if constexpr (IsElementGroup<P>::value) {
    return *reinterpret_cast<const P*>(address);
  } else {
    return pk::ploadu<P>(address);
  }
}
/// Returns a packet or a group that holds `value` in every element.
template <typename P, typename T>
TESSERA_HD P SetPacket(T value) {
  if constexpr (IsElementGroup<P>::value) {
    P group;
    for (index_t i = 0; i < P::kSize; ++i) group[i] = value;
    return group;
  } else {
    return pk::pset1<P>(value);
  }
}
/// Stores a packet or a group at `address`. The address of a group must be a multiple of 16 bytes.
template <typename P, typename T>
TESSERA_HD void StorePacket(T* address, const P& packet) {
  if constexpr (IsElementGroup<P>::value) {
    *reinterpret_cast<P*>(address) = packet;
  } else {
    pk::pstoreu(address, packet);
  }
}

/// Applies functor Op to each element of a group, or to the elements of two or three groups at the
/// same index.
template <typename Op, typename T>
TESSERA_HD ElementGroup<T> MapPackets(const ElementGroup<T>& a) {
  ElementGroup<T> result;
  for (index_t i = 0; i < result.kSize; ++i) result[i] = static_cast<T>(Op::Map(a[i]));
  return result;
}
template <typename Op, typename T>
TESSERA_HD ElementGroup<T> MapPackets(const ElementGroup<T>& a, const ElementGroup<T>& b) {
  ElementGroup<T> result;
  for (index_t i = 0; i < result.kSize; ++i) result[i] = static_cast<T>(Op::Map(a[i], b[i]));
  return result;
}
template <typename Op, typename T>
TESSERA_HD ElementGroup<T> MapPackets(const ElementGroup<T>& a, const ElementGroup<T>& b,
                                      const ElementGroup<T>& c) {
  ElementGroup<T> result;
  for (index_t i = 0; i < result.kSize; ++i) {
    result[i] = static_cast<T>(Op::Map(a[i], b[i], c[i]));
  }
  return result;
}

/// Returns true if all of `rows` rows begin at multiples of 16 bytes. The first row begins at
/// `address`, and rows lie `stride` elements apart.
template <typename T>
bool RowsAreAligned(const T* address, index_t rows, index_t stride) {
  return reinterpret_cast<uintptr_t>(address) % 16 == 0 &&
         (rows <= 1 || stride % ElementGroup<T>::kSize == 0);
}

}  // namespace TESSERA_ISA_NAMESPACE
}  // namespace tessera::tensor_internal

/// Expressions are written with packets and groups.
namespace tessera::expr {

using tensor_internal::Avx2Packet;
using tensor_internal::ConvertPacket;
using tensor_internal::ElementGroup;
using tensor_internal::HasBinaryPacket;
using tensor_internal::HasTernaryPacket;
using tensor_internal::HasUnaryPacket;
using tensor_internal::kHasAvx2PacketsOf;
using tensor_internal::kHasPacketsInSteps;
using tensor_internal::LoadPacket;
using tensor_internal::MapPackets;
using tensor_internal::PacketInSteps;
using tensor_internal::PacketTraits;
using tensor_internal::RowsAreAligned;
using tensor_internal::RunsAvx2;
using tensor_internal::SetPacket;
using tensor_internal::StorePacket;

}  // namespace tessera::expr

#endif  // TESSERA_TENSOR_EXPR_ELEMENT_GROUP_H_
