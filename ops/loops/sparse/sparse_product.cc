#include "tessera/ops/loops/sparse/sparse_product.h"

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
  /// `b` has a row for each row of the matrix. If it is row_sparse, rows that it does not store are
  /// left out, and the others are numbered by their place.
  Columns(const SparseBlob& matrix, const SparseBlob& b) {
    std::vector<int64_t> row_of(matrix.indices.size(), -1);
    const auto set_row = [&](int64_t i, int64_t place) {
      std::fill(row_of.begin() + matrix.indptr[At(i)], row_of.begin() + matrix.indptr[At(i + 1)],
                place);
    };
    const bool has_all = b.storage == StorageType::kDefault;
    const index_t count = has_all ? matrix.shape[0] : b.count();
    for (index_t i = 0; i < count; ++i) set_row(has_all ? i : b.indices[At(i)], i);
    Sort(matrix);
    std::erase_if(positions_, [&row_of](int64_t k) { return row_of[At(k)] < 0; });
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

/// Computes rows [begin, end) of the product of `a` and a csr matrix whose stored element k goes to
/// column columns[k] of `width`.
template <typename T>
void MultiplyRowsByCsr(const T* a, const SparseBlob& b, std::span<const int64_t> columns,
                       index_t width, index_t begin, index_t end, T* c) {
  const T* const factors = static_cast<const T*>(b.values.dptr_);
  const index_t inner = b.shape[0];
  std::vector<SumOf<T>> sums(At(width));
  for (index_t i = begin; i < end; ++i) {
    std::fill(sums.begin(), sums.end(), SumOf<T>(0));
    for (index_t k = 0; k < inner; ++k) {
      const auto factor = ConvertInLoop<SumOf<T>>(a[i * inner + k]);
      for (int64_t p = b.indptr[At(k)]; p < b.indptr[At(k + 1)]; ++p) {
        sums[At(columns[At(p)])] += factor * ConvertInLoop<SumOf<T>>(factors[p]);
      }
    }
    for (index_t j = 0; j < width; ++j) c[i * width + j] = ConvertInLoop<T>(sums[At(j)]);
  }
}

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

void MultiplyTransposedCsr(const SparseBlob& a, const SparseBlob& b, OpReqType req, SparseBlob* c) {
  if (req == kNullOp) return;
  const Columns columns(a, b);
  const std::span<const int64_t> numbers = columns.numbers();
  if (c->storage == StorageType::kRowSparse) {
    c->Allocate(static_cast<index_t>(numbers.size()));
    std::copy(numbers.begin(), numbers.end(), c->indices.begin());
    SumGroups(columns.groups(), a.values, b.values, b.width(), /*adds=*/false, c->values,
              [](index_t group) { return group; });
    return;
  }
  const TBlob& to = c->values;
  if (req != kAddTo) {
    std::fill_n(static_cast<char*>(to.dptr_), to.Size() * DTypeSizeBytes(to.type_flag_), 0);
  }
  // Sums begin at 0 or at what was there.
  SumGroups(columns.groups(), a.values, b.values, b.width(), /*adds=*/true, to,
            [numbers](index_t group) { return numbers[At(group)]; });
}

void MultiplyByCsr(const TBlob& a, const SparseBlob& b, SparseBlob* c) {
  std::vector<int64_t> numbers(b.indices.begin(), b.indices.end());
  std::sort(numbers.begin(), numbers.end());
  numbers.erase(std::unique(numbers.begin(), numbers.end()), numbers.end());
  // The place of each stored element's column among these.
  std::vector<int64_t> columns(b.indices.size());
  for (size_t k = 0; k < columns.size(); ++k) {
    columns[k] = std::lower_bound(numbers.begin(), numbers.end(), b.indices[k]) - numbers.begin();
  }
  const index_t rows = c->shape[0], width = static_cast<index_t>(numbers.size());
  c->Allocate(rows * width);
  for (index_t i = 0; i < rows; ++i) {
    c->indptr[At(i)] = i * width;
    std::copy(numbers.begin(), numbers.end(), c->indices.begin() + i * width);
  }
  c->indptr[At(rows)] = rows * width;
  const index_t work = b.count() + width + b.shape[0];
  VisitRealDType(a.type_flag_, "dot", [&](auto tag) {
    using T = typename decltype(tag)::type;
    ParallelFor(rows, StepsPerTask(work), [&](index_t begin, index_t end) {
      MultiplyRowsByCsr(static_cast<const T*>(a.dptr_), b, columns, width, begin, end,
                        static_cast<T*>(c->values.dptr_));
    });
  });
}

}  // namespace tessera::ops_internal
