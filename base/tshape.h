#ifndef TESSERA_BASE_TSHAPE_H_
#define TESSERA_BASE_TSHAPE_H_

#include <array>
#include <initializer_list>
#include <ostream>
#include <span>
#include <string>
#include <string_view>

#include "tessera/base/shape.h"

namespace tessera {

/// A shape whose rank is known at run time: what graphs and arrays carry.
///
/// Shape inference needs two kinds of ignorance: a shape of unknown rank (the default value,
/// ndim() == -1) and a dimension of unknown extent (kUnknown). Rank 0 is a scalar with one element;
/// an extent of 0 is an empty array. A plain value without heap storage.
class TShape {
 public:
  static constexpr int kMaxRank = 8;       ///< the largest rank
  static constexpr index_t kUnknown = -1;  ///< the extent of a dimension that is not known yet

  /// Unknown rank.
  TShape() = default;

  /// Throws Error(kInvalidArgument) for a rank above kMaxRank or an extent below kUnknown.
  TShape(std::initializer_list<index_t> extents);
  explicit TShape(std::span<const index_t> extents);
  template <int N>
  TShape(const Shape<N>& shape) : TShape(std::span<const index_t>(shape.shape_, N)) {}  // NOLINT

  /// A shape of the given rank with every extent unknown.
  static TShape OfRank(int rank);

  /// Reads "(2,3)", "(2,)", "()", "[2, 3]" or "2,3"; "None" is an unknown extent, and an unknown
  /// rank in place of the whole. Throws Error(kInvalidArgument) that quotes the text.
  static TShape Parse(std::string_view text);

  /// The rank, or -1 if unknown.
  int ndim() const { return ndim_; }
  /// True if the rank is known, whatever the extents are.
  bool rank_known() const { return ndim_ >= 0; }

  /// True if the rank and every extent are known.
  bool known() const;

  /// Extent i, which must lie in [0, ndim()).
  index_t& operator[](int i) { return extents_[i]; }
  const index_t& operator[](int i) const { return extents_[i]; }
  /// The extents as a range, empty where the rank is unknown.
  const index_t* begin() const { return extents_.data(); }
  const index_t* end() const { return extents_.data() + (ndim_ > 0 ? ndim_ : 0); }

  /// The number of elements. Throws Error(kFailedPrecondition) unless known(), and
  /// Error(kInvalidArgument) if the product does not fit in 63 bits.
  index_t Size() const;

  /// The product of the extents in [begin, end); all of them must be known. If it does not fit in
  /// 63 bits, an extent of 0 outside of [begin, end) makes it 0, since such an array has no
  /// elements anywhere: its result then serves for offsets and counts only, never as an extent to
  /// compare. Throws Error(kInvalidArgument) otherwise.
  index_t ProdShape(int begin, int end) const;

  /// The shape as a static one. Throws Error(kInvalidArgument) unless ndim() == N.
  template <int N>
  Shape<N> get() const {
    RequireRank(N);
    Shape<N> shape;
    for (int i = 0; i < N; ++i) shape[i] = extents_[i];
    return shape;
  }

  /// All leading dimensions as one: (rows, last extent). A scalar is (1, 1).
  Shape<2> FlatTo2D() const;

  /// (product before axis_begin, product of [axis_begin, axis_end], product after axis_end).
  Shape<3> FlatTo3D(int axis_begin, int axis_end) const;
  Shape<3> FlatTo3D(int axis) const { return FlatTo3D(axis, axis); }

  /// Fills what is unknown here from `other`; false, and no change, if the two contradict.
  bool Merge(const TShape& other);

  /// Compares ranks and extents; what is unknown equals what is unknown.
  bool operator==(const TShape& other) const;
  bool operator!=(const TShape& other) const { return !(*this == other); }

  /// "(2,3)", "(2,)", "()"; "None" for an unknown extent and for an unknown rank.
  std::string ToString() const;

 private:
  void RequireRank(int rank) const;

  int ndim_ = -1;
  std::array<index_t, kMaxRank> extents_{};
};

/// Prints ToString().
std::ostream& operator<<(std::ostream& os, const TShape& shape);

}  // namespace tessera

#endif  // TESSERA_BASE_TSHAPE_H_
