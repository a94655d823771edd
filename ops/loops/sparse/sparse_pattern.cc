#include "tessera/ops/loops/sparse/sparse_pattern.h"

#include <algorithm>
#include <cstring>

#include "tessera/base/at.h"
#include "tessera/base/dtype.h"
#include "tessera/tensor/device/parallel.h"

namespace tessera::ops_internal {
namespace {

using base_internal::At;

/// Calls function(i) for each row [0, count), in parallel, where a row takes `work` elements.
template <typename Function>
void ForEachRow(index_t count, index_t work, const Function& function) {
  ParallelFor(count, StepsPerTask(work), [&](index_t begin, index_t end) {
    for (index_t i = begin; i < end; ++i) function(i);
  });
}

/// Returns the position of a row among those that a row_sparse array stores, or -1.
index_t FindRow(const SparseBlob& array, int64_t row) {
  const auto found = std::lower_bound(array.indices.begin(), array.indices.end(), row);
  return found != array.indices.end() && *found == row ? found - array.indices.begin() : -1;
}

/// The elements of a dense matrix that is broadcast: element (i, j) is number i * row + j * column.
struct Strides {
  index_t row, column;

  explicit Strides(const TShape& shape) {
    const int rank = shape.ndim();
    const index_t columns = rank < 1 ? 1 : shape[rank - 1], rows = rank < 2 ? 1 : shape[rank - 2];
    row = rows == 1 ? 0 : columns;
    column = columns == 1 ? 0 : 1;
  }
};

}  // namespace

SparsePattern::SparsePattern(const SparseBlob& array)
    : storage_(array.storage),
      shape_(array.shape),
      width_(array.storage == StorageType::kRowSparse ? array.width() : 1),
      indices_(array.indices),
      indptr_(array.indptr) {}

SparsePattern::SparsePattern(const SparseBlob& a, const SparseBlob& b, bool takes_all)
    : SparsePattern(a) {
  const auto add = [this, takes_all](const MergedIndex& each) {
    if (takes_all || (each.a >= 0 && each.b >= 0)) own_indices_.push_back(each.index);
  };
  if (storage_ == StorageType::kRowSparse) {
    MergeIndices(a.indices, 0, a.count(), b.indices, 0, b.count(), add);
  } else {
    own_indptr_.push_back(0);
    for (index_t i = 0; i < shape_[0]; ++i) {
      MergeIndices(a.indices, a.indptr[At(i)], a.indptr[At(i + 1)], b.indices, b.indptr[At(i)],
                   b.indptr[At(i + 1)], add);
      own_indptr_.push_back(static_cast<int64_t>(own_indices_.size()));
    }
  }
  // A vector that moves keeps its memory.
  indices_ = own_indices_;
  indptr_ = own_indptr_;
}

SparsePattern SparsePattern::Union(const SparseBlob& a, const SparseBlob& b) {
  return SparsePattern(a, b, /*takes_all=*/true);
}

SparsePattern SparsePattern::Intersection(const SparseBlob& a, const SparseBlob& b) {
  return SparsePattern(a, b, /*takes_all=*/false);
}

void SparsePattern::Allocate(SparseBlob* to) const {
  to->Allocate(static_cast<index_t>(indices_.size()));
  std::copy(indices_.begin(), indices_.end(), to->indices.begin());
  std::copy(indptr_.begin(), indptr_.end(), to->indptr.begin());
}

TBlob SparsePattern::Pack(const SparseBlob& array, std::unique_ptr<char[]>* memory) const {
  TBlob packed(array.values.dptr_, TShape{size()}, array.values.type_flag_, array.values.device_);
  const bool stores_pattern = array.storage == storage_ &&
                              array.indices.data() == indices_.data() &&
                              array.indices.size() == indices_.size();
  if (stores_pattern || size() == 0) return packed;
  const index_t element_bytes = DTypeSizeBytes(packed.type_flag_);
  *memory = std::make_unique_for_overwrite<char[]>(At(size() * element_bytes));
  packed.dptr_ = memory->get();
  if (storage_ == StorageType::kRowSparse) {
    PackRows(array, memory->get());
  } else if (element_bytes == 1) {
    PackElements<1>(array, memory->get());
  } else if (element_bytes == 2) {
    PackElements<2>(array, memory->get());
  } else if (element_bytes == 4) {
    PackElements<4>(array, memory->get());
  } else {
    PackElements<8>(array, memory->get());
  }
  return packed;
}

void SparsePattern::PackRows(const SparseBlob& array, char* to) const {
  const char* const from = static_cast<const char*>(array.values.dptr_);
  const index_t element_bytes = DTypeSizeBytes(array.values.type_flag_);
  const index_t row_bytes = width_ * element_bytes;
  ForEachRow(static_cast<index_t>(indices_.size()), width_, [&](index_t i) {
    const int64_t row = indices_[At(i)];
    char* const out = to + i * row_bytes;
    if (array.storage == StorageType::kCsr) {
      std::memset(out, 0, At(row_bytes));
      for (int64_t k = array.indptr[At(row)]; k < array.indptr[At(row + 1)]; ++k) {
        std::memcpy(out + array.indices[At(k)] * element_bytes, from + k * element_bytes,
                    At(element_bytes));
      }
      return;
    }
    const index_t found = array.storage == StorageType::kDefault ? row : FindRow(array, row);
    if (found < 0) {
      std::memset(out, 0, At(row_bytes));
    } else {
      std::memcpy(out, from + found * row_bytes, At(row_bytes));
    }
  });
}

template <size_t kBytes>
void SparsePattern::PackElements(const SparseBlob& array, char* to) const {
  constexpr auto kStep = static_cast<index_t>(kBytes);
  const char* const from = static_cast<const char*>(array.values.dptr_);
  const index_t rows = shape_[0];
  ForEachRow(rows, size() / rows + 1, [&](index_t i) {
    const int64_t begin = indptr_[At(i)], end = indptr_[At(i + 1)];
    if (array.storage == StorageType::kCsr) {
      int64_t k = array.indptr[At(i)];
      const int64_t stored = array.indptr[At(i + 1)];
      for (int64_t j = begin; j < end; ++j) {
        while (k < stored && array.indices[At(k)] < indices_[At(j)]) ++k;
        if (k < stored && array.indices[At(k)] == indices_[At(j)]) {
          std::memcpy(to + j * kStep, from + k * kStep, kBytes);
        } else {
          std::memset(to + j * kStep, 0, kBytes);
        }
      }
      return;
    }
    index_t first = 0, column = 1;  // of row i
    if (array.storage == StorageType::kDefault) {
      const Strides strides(array.shape);
      first = i * strides.row;
      column = strides.column;
    } else {
      const index_t found = FindRow(array, i);
      if (found < 0) {
        std::memset(to + begin * kStep, 0, At((end - begin) * kStep));
        return;
      }
      first = found * shape_[1];
    }
    for (int64_t j = begin; j < end; ++j) {
      std::memcpy(to + j * kStep, from + (first + indices_[At(j)] * column) * kStep, kBytes);
    }
  });
}

}  // namespace tessera::ops_internal
