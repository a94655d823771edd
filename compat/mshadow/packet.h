#ifndef MSHADOW_PACKET_H_
#define MSHADOW_PACKET_H_

// mshadow's packets by name, for loops and functors that a program wrote with them. Tessera's
// assignments use Eigen's packets instead and ignore PacketOp; see tensor/functors/functors.h.

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <new>

#include "mshadow/base.h"

/// The packets of code that names none.
#define MSHADOW_DEFAULT_PACKET ::mshadow::packet::kPlain

namespace mshadow::packet {

/// The size of a packet: one element, or the elements in 16 bytes.
enum PacketArch { kPlain, kSSE2 };

/// The alignment in bytes of memory for packets.
template <PacketArch Arch>
struct AlignBytes {
  static constexpr index_t value = Arch == kPlain ? 4 : 16;
};

/// A few elements that are computed together. It is an array, for which compilers generate vector
/// instructions.
template <typename DType, PacketArch Arch = MSHADOW_DEFAULT_PACKET>
struct Packet {
  static constexpr index_t kSize = Arch == kPlain ? 1 : static_cast<index_t>(16 / sizeof(DType));
  static constexpr index_t size = kSize;

  DType data_[kSize];

  Packet() = default;
  /// Returns a packet with the same number in each element.
  static Packet Fill(DType value) {
    return Made([value](index_t) { return value; });
  }
  Packet& operator=(DType value) { return *this = Fill(value); }

  /// Load from memory and store to it. The address need not be aligned.
  static Packet Load(const DType* src) {
    return Made([src](index_t i) { return src[i]; });
  }
  static Packet LoadUnAligned(const DType* src) { return Load(src); }
  void Store(DType* dst) const {
    for (index_t i = 0; i < kSize; ++i) dst[i] = data_[i];
  }
  /// Returns the sum of the elements, added from the first to the last.
  DType Sum() const {
    DType sum = data_[0];
    for (index_t i = 1; i < kSize; ++i) sum += data_[i];
    return sum;
  }

  /// Compute element by element.
  friend Packet operator+(const Packet& a, const Packet& b) {
    return Made([&](index_t i) { return a.data_[i] + b.data_[i]; });
  }
  friend Packet operator-(const Packet& a, const Packet& b) {
    return Made([&](index_t i) { return a.data_[i] - b.data_[i]; });
  }
  friend Packet operator*(const Packet& a, const Packet& b) {
    return Made([&](index_t i) { return a.data_[i] * b.data_[i]; });
  }
  friend Packet operator/(const Packet& a, const Packet& b) {
    return Made([&](index_t i) { return a.data_[i] / b.data_[i]; });
  }

 private:
  template <typename Function>
  static Packet Made(const Function& element) {
    Packet packet;
    for (index_t i = 0; i < kSize; ++i) packet.data_[i] = static_cast<DType>(element(i));
    return packet;
  }
};

/// Applies the functor OP to packets. It is enabled for the functors below, and for a program's own
/// functor if the program specializes it.
template <typename OP, typename DType, PacketArch Arch = MSHADOW_DEFAULT_PACKET>
struct PacketOp {
  static constexpr bool kEnabled = false;
};
template <typename DType, PacketArch Arch>
struct PacketOp<op::plus, DType, Arch> {
  using TPacket = Packet<DType, Arch>;
  static constexpr bool kEnabled = true;
  static TPacket Map(const TPacket& a, const TPacket& b) { return a + b; }
};
template <typename DType, PacketArch Arch>
struct PacketOp<op::minus, DType, Arch> {
  using TPacket = Packet<DType, Arch>;
  static constexpr bool kEnabled = true;
  static TPacket Map(const TPacket& a, const TPacket& b) { return a - b; }
};
template <typename DType, PacketArch Arch>
struct PacketOp<op::mul, DType, Arch> {
  using TPacket = Packet<DType, Arch>;
  static constexpr bool kEnabled = true;
  static TPacket Map(const TPacket& a, const TPacket& b) { return a * b; }
};
template <typename DType, PacketArch Arch>
struct PacketOp<op::div, DType, Arch> {
  using TPacket = Packet<DType, Arch>;
  static constexpr bool kEnabled = true;
  static TPacket Map(const TPacket& a, const TPacket& b) { return a / b; }
};
template <typename DType, PacketArch Arch>
struct PacketOp<op::identity, DType, Arch> {
  using TPacket = Packet<DType, Arch>;
  static constexpr bool kEnabled = true;
  static TPacket Map(const TPacket& a) { return a; }
};

/// Return the size rounded up, or down, to whole packets.
template <typename DType, PacketArch Arch>
inline index_t UpperAlign(index_t size) {
  constexpr index_t kSize = Packet<DType, Arch>::kSize;
  return (size + kSize - 1) / kSize * kSize;
}
template <typename DType, PacketArch Arch>
inline index_t LowerAlign(index_t size) {
  constexpr index_t kSize = Packet<DType, Arch>::kSize;
  return size / kSize * kSize;
}

/// Returns whether a distance in bytes, or an address, is a multiple of AlignBytes.
template <PacketArch Arch>
inline bool CheckAlign(size_t pitch) {
  return pitch % static_cast<size_t>(AlignBytes<Arch>::value) == 0;
}
template <PacketArch Arch>
inline bool CheckAlign(const void* address) {
  return CheckAlign<Arch>(static_cast<size_t>(reinterpret_cast<uintptr_t>(address)));
}

/// Allocates memory for `num_line` lines of at least `lspace` bytes, each at a multiple of 16
/// bytes. *out_pitch is the number of bytes from one line to the next. AlignedFree frees it. Throws
/// std::bad_alloc.
inline void* AlignedMallocPitch(size_t* out_pitch, size_t lspace, size_t num_line) {
  constexpr size_t kAlignment = 16;
  const size_t pitch = (lspace + kAlignment - 1) / kAlignment * kAlignment;
  size_t size_bytes = 0;
  if (pitch < lspace || __builtin_mul_overflow(pitch, num_line, &size_bytes))
    throw std::bad_alloc();
  void* const memory = std::aligned_alloc(kAlignment, size_bytes);
  if (memory == nullptr && size_bytes > 0) throw std::bad_alloc();
  *out_pitch = pitch;
  return memory;
}
inline void AlignedFree(void* memory) { std::free(memory); }

}  // namespace mshadow::packet

#endif  // MSHADOW_PACKET_H_
