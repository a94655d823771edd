#ifndef TESSERA_BASE_SHAPE_H_
#define TESSERA_BASE_SHAPE_H_

#include <cstdint>
#include <istream>
#include <ostream>
#include <span>

#include "tessera/base/host_device.h"

namespace tessera {

/// Counts and offsets of elements; always 64 bits.
using index_t = int64_t;

/// The extents of an N-dimensional array, outermost first. A trivially copyable value, usable in
/// CUDA kernels. The default value has undefined extents, as a built-in array would.
template <int N>
struct Shape {
  static_assert(N >= 1, "a Shape has at least one dimension; a scalar needs none");

  /// The rank, and one less.
  static constexpr int kDimension = N;
  static constexpr int kSubdim = N - 1;

  /// The extents.
  index_t shape_[N];

  /// Extent i, which must lie in [0, N).
  TESSERA_HD index_t& operator[](int i) { return shape_[i]; }
  TESSERA_HD const index_t& operator[](int i) const { return shape_[i]; }

  /// Compares the extents.
  TESSERA_HD bool operator==(const Shape& other) const {
    if constexpr (N <= 2) {  // no loop: each node of an expression would have it to unroll
      return shape_[0] == other.shape_[0] && shape_[N - 1] == other.shape_[N - 1];
    } else {
      for (int i = 0; i < N; ++i) {
        if (shape_[i] != other.shape_[i]) return false;
      }
      return true;
    }
  }
  TESSERA_HD bool operator!=(const Shape& other) const { return !(*this == other); }

  /// The number of elements.
  TESSERA_HD index_t Size() const { return ProdShape(0, N); }

  /// The product of the extents in [begin, end).
  TESSERA_HD index_t ProdShape(int begin, int end) const {
    index_t product = 1;
    for (int i = begin; i < end; ++i) product *= shape_[i];
    return product;
  }

  /// All dimensions as one.
  TESSERA_HD Shape<1> FlatTo1D() const { return Shape<1>{{Size()}}; }

  /// All leading dimensions as one: (rows, last extent).
  TESSERA_HD Shape<2> FlatTo2D() const { return Shape<2>{{ProdShape(0, N - 1), shape_[N - 1]}}; }

  /// The shape without its first dimension.
  TESSERA_HD Shape<N - 1> SubShape() const requires(N > 1) { return Slice<1, N>(); }

  /// The dimensions in [kBegin, kEnd).
  template <int kBegin, int kEnd>
  TESSERA_HD Shape<kEnd - kBegin> Slice() const {
    static_assert(0 <= kBegin && kBegin < kEnd && kEnd <= N, "Slice: need 0 <= begin < end <= N");
    Shape<kEnd - kBegin> slice;
    for (int i = kBegin; i < kEnd; ++i) slice[i - kBegin] = shape_[i];
    return slice;
  }
};

/// Shapes with the given extents, outermost first.
TESSERA_HD Shape<1> Shape1(index_t s0) { return Shape<1>{{s0}}; }
TESSERA_HD Shape<2> Shape2(index_t s0, index_t s1) { return Shape<2>{{s0, s1}}; }
TESSERA_HD Shape<3> Shape3(index_t s0, index_t s1, index_t s2) { return Shape<3>{{s0, s1, s2}}; }
TESSERA_HD Shape<4> Shape4(index_t s0, index_t s1, index_t s2, index_t s3) {
  return Shape<4>{{s0, s1, s2, s3}};
}
TESSERA_HD Shape<5> Shape5(index_t s0, index_t s1, index_t s2, index_t s3, index_t s4) {
  return Shape<5>{{s0, s1, s2, s3, s4}};
}

namespace base_internal {

/// Write and read N extents, for Shape's operators.
void WriteExtents(std::ostream& os, std::span<const index_t> extents);
void ReadExtents(std::istream& is, std::span<index_t> extents);
/// Reads a decimal integer. Anything else sets failbit and leaves the extent as it was. The
/// stream's locale has no effect.
void ReadExtent(std::istream& is, index_t* extent);

}  // namespace base_internal

/// Prints `(2,3)`, and `(2,)` for one dimension, in every locale.
template <int N>
std::ostream& operator<<(std::ostream& os, const Shape<N>& shape) {
  base_internal::WriteExtents(os, shape.shape_);
  return os;
}

/// Reads what operator<< prints; spaces may stand between the parts. Anything else sets failbit and
/// leaves the shape as it was.
template <int N>
std::istream& operator>>(std::istream& is, Shape<N>& shape) {
  base_internal::ReadExtents(is, shape.shape_);
  return is;
}

}  // namespace tessera

#endif  // TESSERA_BASE_SHAPE_H_
