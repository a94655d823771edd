#include "tessera/ops/linalg/factors/matrix_call.h"

#include <algorithm>
#include <map>

#include "tessera/base/error.h"
#include "tessera/ops/loops/convert_row.h"
#include "tessera/tensor/device/parallel.h"

namespace tessera::ops_internal {
namespace {

/// Returns the rank of the batch, or -1 if no matrix or vector has a known rank.
int BatchRank(const OperatorProperty& property, std::span<const MatrixValue> values) {
  int batch_rank = -1;
  for (const MatrixValue& value : values) {
    const int own = static_cast<int>(value.extents.size());
    if (!value.shape->rank_known()) continue;
    if (value.shape->ndim() < std::max(own, 1)) {
      throw InvalidArgument(property.TypeString(), ": ", value.name, " has shape ", *value.shape,
                            ", expected at least ", std::max(own, 1), " dimensions");
    }
    if (own > 0 && batch_rank < 0) batch_rank = value.shape->ndim() - own;
  }
  return batch_rank;
}

/// The known extents of values that have one batch.
struct Extents {
  std::vector<index_t> batch;
  std::map<char, index_t> letters;

  static void Set(index_t known, index_t* extent) {
    if (*extent == TShape::kUnknown) *extent = known;
  }
  index_t& OfLetter(char letter) {
    return letters.try_emplace(letter, TShape::kUnknown).first->second;
  }

  void Read(const MatrixValue& value) {
    const int own = static_cast<int>(value.extents.size());
    const int first = value.shape->ndim() - own;
    if (own == 0 && batch.empty()) return;
    for (int d = 0; d < first; ++d) Set((*value.shape)[d], &batch[static_cast<size_t>(d)]);
    for (int d = 0; d < own; ++d) {
      Set((*value.shape)[first + d], &OfLetter(value.extents[static_cast<size_t>(d)]));
    }
  }
  TShape Expected(const MatrixValue& value) {
    if (value.extents.empty() && batch.empty()) return {1};
    std::vector<index_t> extents = batch;
    for (const char letter : value.extents) extents.push_back(OfLetter(letter));
    return TShape(std::span<const index_t>(extents));
  }
};

}  // namespace

bool InferMatrices(const OperatorProperty& property, std::span<const MatrixValue> values) {
  const int batch_rank = BatchRank(property, values);
  if (batch_rank < 0) return false;
  Extents extents;
  extents.batch.assign(static_cast<size_t>(batch_rank), TShape::kUnknown);
  for (const MatrixValue& value : values) {
    const int rank = batch_rank + static_cast<int>(value.extents.size());
    if (rank > TShape::kMaxRank) {
      throw InvalidArgument(property.TypeString(), ": ", value.name, " has ", rank,
                            " dimensions, expected at most ", TShape::kMaxRank);
    }
    MergeShape(property, value.name, value.shape, TShape::OfRank(std::max(rank, 1)));
    extents.Read(value);
  }
  bool known = true;
  for (const MatrixValue& value : values) {
    MergeShape(property, value.name, value.shape, extents.Expected(value));
    known = known && value.shape->known();
  }
  return known;
}

index_t BatchSize(const TShape& shape, int rank) { return shape.ProdShape(0, shape.ndim() - rank); }

void ForEachMatrix(index_t batch, index_t n, const std::function<void(index_t)>& function) {
  // An estimate of a matrix's operations, within the range of integers.
  const index_t side = std::min<index_t>(n, 100000), work = side * side * side;
  ParallelFor(batch, StepsPerTask(work), [&](index_t begin, index_t end) {
    for (index_t b = begin; b < end; ++b) function(b);
  });
}

/// Where an element of the batch lies in an array.
struct MatrixArrays::Place {
  index_t rows, columns;
  void* data;
  DType dtype;
};

MatrixArrays::Place MatrixArrays::PlaceOf(size_t i, index_t b) const {
  const TBlob& blob = blobs_[i];
  const int rank = ranks_[i], last = blob.shape_.ndim() - 1;
  Place place = {.rows = rank == 2 ? blob.shape_[last - 1] : 1,
                 .columns = rank == 0 ? 1 : blob.shape_[last],
                 .data = nullptr,
                 .dtype = blob.type_flag_};
  const index_t size_bytes = place.rows * place.columns * DTypeSizeBytes(place.dtype);
  place.data = static_cast<char*>(blob.dptr_) + b * size_bytes;
  return place;
}

std::vector<Matrix> MatrixArrays::Load(index_t b) const {
  std::vector<Matrix> matrices(blobs_.size());
  for (size_t i = 0; i < blobs_.size(); ++i) {
    if (!blobs_[i].shape_.known()) continue;
    const Place place = PlaceOf(i, b);
    const index_t size = place.rows * place.columns;
    if (blobs_[i].dptr_ == nullptr && size > 0) continue;
    matrices[i] = Matrix(place.rows, place.columns);
    if (size > 0) LoadRow(place.data, place.dtype, 1, size, matrices[i].row(0));
  }
  return matrices;
}

bool MatrixArrays::HasRequested(std::span<const OpReqType> req) const {
  for (size_t i = 0; i < blobs_.size(); ++i) {
    if (req[i] != kNullOp && blobs_[i].Size() > 0) return true;
  }
  return false;
}

void MatrixArrays::Store(index_t b, std::span<const Matrix> matrices,
                         std::span<const OpReqType> req) const {
  for (size_t i = 0; i < matrices.size(); ++i) {
    if (req[i] == kNullOp) continue;
    const Place place = PlaceOf(i, b);
    StoreRow(matrices[i].row(0), place.rows * place.columns, req[i] == kAddTo, place.dtype,
             place.data);
  }
}

}  // namespace tessera::ops_internal
