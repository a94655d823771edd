#ifndef TESSERA_OPS_LOOPS_SPARSE_SPARSE_PATTERN_H_
#define TESSERA_OPS_LOOPS_SPARSE_SPARSE_PATTERN_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "tessera/base/shape.h"
#include "tessera/base/tshape.h"
#include "tessera/ops/sparse.h"
#include "tessera/tensor/tblob.h"

/// Element-wise work on sparse arrays, on the CPU, by operators that know dense arrays alone.
namespace tessera::ops_internal {

/// An index that one or both of two lists have: its positions there, or -1 where it is not.
struct MergedIndex {
  int64_t index;
  index_t a, b;
};

/// Calls add(MergedIndex) for each index of a[i, a_end) and b[k, b_end), which rise, in their
/// order.
template <typename Add>
void MergeIndices(std::span<const int64_t> a, index_t i, index_t a_end, std::span<const int64_t> b,
                  index_t k, index_t b_end, const Add& add) {
  const auto at = [](std::span<const int64_t> list, index_t position) {
    return list[static_cast<size_t>(position)];
  };
  while (i < a_end || k < b_end) {
    const bool takes_a = i < a_end && (k == b_end || at(a, i) <= at(b, k));
    const bool takes_b = k < b_end && (i == a_end || at(b, k) <= at(a, i));
    add(MergedIndex{takes_a ? at(a, i) : at(b, k), takes_a ? i : -1, takes_b ? k : -1});
    i += takes_a ? 1 : 0;
    k += takes_b ? 1 : 0;
  }
}

/// Some rows (row_sparse) or elements (csr) of a shape: those that a call computes.
///
/// Pack gathers the elements that an array has there into a dense array of one axis, which an
/// element-wise operator takes, and Allocate makes a sparse array to hold its result. Threads share
/// rows.
class SparsePattern {
 public:
  /// Constructs the pattern of what a sparse array stores. It refers to the array's parts.
  explicit SparsePattern(const SparseBlob& array);

  /// Return the pattern of what one of two arrays or both store, and of what both store. The arrays
  /// have one storage type and one shape.
  static SparsePattern Union(const SparseBlob& a, const SparseBlob& b);
  static SparsePattern Intersection(const SparseBlob& a, const SparseBlob& b);

  SparsePattern(SparsePattern&&) = default;
  SparsePattern& operator=(SparsePattern&&) = default;

  /// Returns the number of elements.
  index_t size() const { return static_cast<index_t>(indices_.size()) * width_; }

  /// Allocates parts of this pattern for an array of the pattern's storage type and shape. Their
  /// values are undefined.
  void Allocate(SparseBlob* to) const;

  /// Returns the elements of an array at the pattern, in the array's type: in `memory`, or in place
  /// if the array stores nothing else. An element that a sparse array does not store is 0. The
  /// array has the pattern's shape and any storage type; for a csr pattern, a dense one may also be
  /// broadcast to it.
  TBlob Pack(const SparseBlob& array, std::unique_ptr<char[]>* memory) const;

 private:
  SparsePattern(const SparseBlob& a, const SparseBlob& b, bool takes_all);
  template <size_t kBytes>
  void PackElements(const SparseBlob& array, char* to) const;
  void PackRows(const SparseBlob& array, char* to) const;

  StorageType storage_;
  TShape shape_;
  index_t width_;  ///< elements of a row of the pattern: 1 for csr
  std::vector<int64_t> own_indices_ = {}, own_indptr_ = {};
  std::span<const int64_t> indices_, indptr_;
};

}  // namespace tessera::ops_internal

#endif  // TESSERA_OPS_LOOPS_SPARSE_SPARSE_PATTERN_H_
