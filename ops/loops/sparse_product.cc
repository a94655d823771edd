#include "tessera/ops/loops/sparse_product.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <span>
#include <type_traits>
#include <vector>

#include "tessera/base/at.h"
#include "tessera/base/dtype.h"
#include "tessera/base/float16.h"
#include "tessera/base/shape.h"
#include "tessera/ops/loops/row_loop.h"
#include "tessera/tensor/device/parallel.h"

namespace tessera::ops_internal {
namespace {

using base_internal::At;
using base_internal::ConvertInLoop;

/// Columns whose sums are kept at a time: 256 bytes of float32, which stay in the L1 cache.
constexpr index_t kBlock = 64;

template <typename T>
using SumOf = std::conditional_t<sizeof(T) == 2, float, T>;

/// Stored elements in groups: group g has those at positions [begins[g], begins[g + 1]), and each
/// of them is a factor of a row of the dense operand.
struct Groups {
  std::span<const int64_t> begins;
  std::span<const int64_t> rows;       ///< of the dense operand, one for each position
  std::span<const int64_t> positions;  ///< of the elements' values; empty for the same positions

  index_t count() const { return static_cast<index_t>(begins.size()) - 1; }
  index_t Position(int64_t k) const { return positions.empty() ? k : positions[At(k)]; }
};

/// Elements whose rows of the dense operand are fetched ahead of their use: the rows come in no
/// order that the processor foresees.
constexpr int64_t kAhead = 8;

/// Computes `count` columns of a group's sum, or adds them to `to`.
template <typename T, typename Count>
__attribute__((always_inline)) inline void SumColumns(const Groups& groups, index_t group,
                                                      const T* values, const T* dense,
                                                      index_t width, bool adds, T* __restrict to,
                                                      Count count) {
  SumOf<T> sums[kBlock];
  for (index_t j = 0; j < count; ++j) {
    sums[j] = adds ? ConvertInLoop<SumOf<T>>(to[j]) : SumOf<T>(0);
  }
  const int64_t end = groups.begins[At(group + 1)];
  for (int64_t k = groups.begins[At(group)]; k < end; ++k) {
    if (k + kAhead < end) {
      const T* const later = dense + groups.rows[At(k + kAhead)] * width;
      constexpr index_t kLine = 64 / sizeof(T);
      for (index_t j = 0; j < count; j += kLine) __builtin_prefetch(later + j);
    }
    const auto factor = ConvertInLoop<SumOf<T>>(values[groups.Position(k)]);
    const T* const row = dense + groups.rows[At(k)] * width;
    for (index_t j = 0; j < count; ++j) sums[j] += factor * ConvertInLoop<SumOf<T>>(row[j]);
  }
  for (index_t j = 0; j < count; ++j) to[j] = ConvertInLoop<T>(sums[j]);
}

/// Computes row row_of(g) of `to` as the sum of group g, or adds it.
template <typename RowOf>
void SumGroups(const Groups& groups, const TBlob& values, const TBlob& dense, index_t width,
               bool adds, const TBlob& to, const RowOf& row_of) {
  const index_t count = groups.count();
  if (count == 0 || width == 0) return;
  const index_t work = (static_cast<index_t>(groups.rows.size()) / count + 1) * width;
  VisitRealDType(to.type_flag_, "dot", [&](auto tag) {
    using T = typename decltype(tag)::type;
    const T* const factors = static_cast<const T*>(values.dptr_);
    const T* const from = static_cast<const T*>(dense.dptr_);
    T* const out = static_cast<T*>(to.dptr_);
    ParallelFor(count, StepsPerTask(work), [&](index_t begin, index_t end) {
      RunLoop([=]() TESSERA_LOOP_BODY {
        for (index_t g = begin; g < end; ++g) {
          T* const row = out + row_of(g) * width;
          index_t j = 0;
          for (; width - j >= kBlock; j += kBlock) {
            SumColumns(groups, g, factors, from + j, width, adds, row + j,
                       std::integral_constant<index_t, kBlock>());
          }
          if (j < width) SumColumns(groups, g, factors, from + j, width, adds, row + j, width - j);
        }
      });
    });
  });
}

/// The stored elements of a csr matrix by columns: those of a column in the order of their rows.
class Columns {
 public:
  explicit Columns(const SparseBlob& matrix) {
    std::vector<int64_t> row_of(matrix.indices.size());
    for (index_t i = 0; i < matrix.shape[0]; ++i) {
      std::fill(row_of.begin() + matrix.indptr[At(i)], row_of.begin() + matrix.indptr[At(i + 1)],
                i);
    }
    Sort(matrix);
    for (size_t k = 0; k < positions_.size(); ++k) {
      const int64_t column = matrix.indices[At(positions_[k])];
      if (columns_.empty() || columns_.back() != column) {
        columns_.push_back(column);
        begins_.push_back(static_cast<int64_t>(k));
      }
      rows_.push_back(row_of[At(positions_[k])]);
    }
    begins_.push_back(static_cast<int64_t>(positions_.size()));
  }

  /// Returns the columns that store something, which rise, and their elements.
  std::span<const int64_t> numbers() const { return columns_; }
  Groups groups() const { return {.begins = begins_, .rows = rows_, .positions = positions_}; }

 private:
  /// Orders the positions of the elements by columns.
  void Sort(const SparseBlob& matrix) {
    const std::span<const int64_t> indices = matrix.indices;
    positions_.resize(indices.size());
    // Counting takes memory for each column, so it is for matrices that store enough.
    if (matrix.shape[1] > 4 * matrix.count()) {
      std::iota(positions_.begin(), positions_.end(), int64_t{0});
      std::sort(positions_.begin(), positions_.end(), [indices](int64_t a, int64_t b) {
        return indices[At(a)] != indices[At(b)] ? indices[At(a)] < indices[At(b)] : a < b;
      });
      return;
    }
    std::vector<int64_t> next(At(matrix.shape[1]) + 1, 0);
    for (const int64_t column : indices) ++next[At(column) + 1];
    std::partial_sum(next.begin(), next.end(), next.begin());
    for (size_t k = 0; k < indices.size(); ++k) {
      positions_[At(next[At(indices[k])]++)] = static_cast<int64_t>(k);
    }
  }

  std::vector<int64_t> positions_, rows_, columns_, begins_;
};

/// Returns the number of columns of an array as a matrix.
index_t WidthOf(const TBlob& array) { return array.shape_.ProdShape(1, array.ndim()); }

}  // namespace

void MultiplyCsr(const SparseBlob& a, const SparseBlob& b, OpReqType req, const TBlob& c) {
  if (req == kNullOp) return;
  Groups groups{.begins = a.indptr, .rows = a.indices, .positions = {}};
  std::vector<int64_t> begins = {0}, rows, positions;
  if (b.storage == StorageType::kRowSparse && b.count() < b.shape[0]) {
    // The elements of `a` whose rows of `b` are stored, and these rows' places.
    for (index_t i = 0; i < a.shape[0]; ++i) {
      auto place = b.indices.begin();
      for (int64_t k = a.indptr[At(i)]; k < a.indptr[At(i + 1)]; ++k) {
        place = std::lower_bound(place, b.indices.end(), a.indices[At(k)]);
        if (place == b.indices.end()) break;
        if (*place != a.indices[At(k)]) continue;
        rows.push_back(place - b.indices.begin());
        positions.push_back(k);
      }
      begins.push_back(static_cast<int64_t>(rows.size()));
    }
    groups = {.begins = begins, .rows = rows, .positions = positions};
  }
  SumGroups(groups, a.values, b.values, b.width(), req == kAddTo, c,
            [](index_t row) { return row; });
}

void MultiplyTransposedCsr(const SparseBlob& a, const TBlob& b, OpReqType req, SparseBlob* c) {
  if (req == kNullOp) return;
  const Columns columns(a);
  const std::span<const int64_t> numbers = columns.numbers();
  if (c->storage == StorageType::kRowSparse) {
    c->Allocate(static_cast<index_t>(numbers.size()));
    std::copy(numbers.begin(), numbers.end(), c->indices.begin());
    SumGroups(columns.groups(), a.values, b, WidthOf(b), /*adds=*/false, c->values,
              [](index_t group) { return group; });
    return;
  }
  const TBlob& to = c->values;
  if (req != kAddTo) {
    std::fill_n(static_cast<char*>(to.dptr_), to.Size() * DTypeSizeBytes(to.type_flag_), 0);
  }
  // Sums begin at 0 or at what was there.
  SumGroups(columns.groups(), a.values, b, WidthOf(b), /*adds=*/true, to,
            [numbers](index_t group) { return numbers[At(group)]; });
}

}  // namespace tessera::ops_internal
