// diag: of a vector, the matrix with it on a diagonal; of another array, the diagonals of its
// matrices, as the last dimension. The gradient is the inverse movement. All element types.
#include <algorithm>
#include <limits>
#include <vector>

#include "tessera/ops/gradient_formula.h"
#include "tessera/ops/loops/axes.h"
#include "tessera/ops/loops/movement.h"

namespace tessera {
namespace {

using ops_internal::AxisPosition;
using ops_internal::Move;
using ops_internal::MoveCall;
using ops_internal::MoveProperty;
using ops_internal::MoveZeros;
using ops_internal::RegisterMove;
using ops_internal::StridedView;

struct DiagParameters {
  int k = 0;
  int64_t axis1 = 0;
  int64_t axis2 = 1;

  static void Declare(ParameterSchema<DiagParameters>& schema) {
    using P = DiagParameters;
    schema.Optional("k", &P::k, "the diagonal: above the main one if positive, below if negative");
    schema.Optional("axis1", &P::axis1, "the dimension of rows");
    schema.Optional("axis2", &P::axis2, "the dimension of columns");
  }

  index_t FirstRow() const { return k < 0 ? -index_t{k} : 0; }
  index_t FirstColumn() const { return k > 0 ? k : 0; }
};

index_t DiagonalLength(const DiagParameters& param, index_t rows, index_t columns) {
  return std::min(rows - param.FirstRow(), columns - param.FirstColumn());
}

/// The diagonals of matrices with rows along `axis1` and columns along `axis2`.
StridedView DiagonalOf(const DiagParameters& param, const TBlob& matrices, int axis1, int axis2) {
  StridedView view(matrices);
  const auto rows = static_cast<size_t>(axis1), columns = static_cast<size_t>(axis2);
  const index_t length = DiagonalLength(param, view.extents[rows], view.extents[columns]);
  view.Slice(axis1, param.FirstRow(), 1, length);
  view.Slice(axis2, param.FirstColumn(), 1, length);
  std::vector<int> others;
  for (int d = 0; d < view.num_dims; ++d) {
    if (d != axis1 && d != axis2) others.push_back(d);
  }
  StridedView diagonal = view.Permuted(others);
  diagonal.Append(length, view.strides[rows] + view.strides[columns]);
  return diagonal;
}

class DiagProperty final : public MoveProperty<DiagParameters> {
 public:
  bool InferShape(std::vector<TShape>* in_shape, std::vector<TShape>* out_shape) const override {
    TShape& data = (*in_shape)[0];
    TShape& out = (*out_shape)[0];
    if (!data.rank_known()) return false;
    if (data.ndim() == 0) {
      throw InvalidArgument(TypeString(), ": data is a scalar, expected at least one dimension");
    }
    const index_t shift = param_.FirstRow() + param_.FirstColumn();
    if (data.ndim() == 1) {
      MergeShape(*this, "output", &out, TShape::OfRank(2));
      if (data[0] == TShape::kUnknown)
        data[0] = std::max<index_t>(out[0] - shift, TShape::kUnknown);
      if (data[0] == TShape::kUnknown)
        data[0] = std::max<index_t>(out[1] - shift, TShape::kUnknown);
      if (data[0] == TShape::kUnknown) return false;
      if (data[0] > std::numeric_limits<index_t>::max() - shift) {
        throw InvalidArgument(TypeString(), ": data has shape ", data,
                              ", whose matrix with parameter k=", param_.k, " is too large");
      }
      const TShape square = {data[0] + shift, data[0] + shift};
      ProductOfExtents(*this, "output", square, 0, 2);
      MergeShape(*this, "output", &out, square);
      return true;
    }
    const int axis1 = AxisPosition(*this, "axis1", param_.axis1, data.ndim());
    const int axis2 = AxisPosition(*this, "axis2", param_.axis2, data.ndim());
    if (axis1 == axis2) {
      throw InvalidArgument(TypeString(), ": parameters axis1 and axis2 are one dimension, ",
                            axis1);
    }
    MergeShape(*this, "output", &out, TShape::OfRank(data.ndim() - 1));
    TShape known = TShape::OfRank(data.ndim() - 1);
    if (data[axis1] != TShape::kUnknown && data[axis2] != TShape::kUnknown) {
      known[known.ndim() - 1] = DiagonalLength(param_, data[axis1], data[axis2]);
      const index_t least = std::min<index_t>({data[axis1], data[axis2], 1});
      if (known[known.ndim() - 1] < least) {
        throw InvalidArgument(TypeString(), ": data has shape ", data, ", which has no diagonal ",
                              param_.k, " in dimensions ", axis1, " and ", axis2);
      }
    }
    for (int d = 0, next = 0; d < data.ndim(); ++d) {
      if (d != axis1 && d != axis2) known[next++] = data[d];
    }
    MergeShape(*this, "output", &out, known);
    for (int d = 0, next = 0; d < data.ndim(); ++d) {
      if (d != axis1 && d != axis2) data[d] = out[next++];
    }
    return data.known();
  }
  bool BuildGradient(GradientBuilder* builder) const override {
    return ops_internal::BuildLinearGradient(*this, builder);
  }
};

/// Moves diagonals of `matrices` to `vectors`, or back.
void MoveDiagonals(const DiagParameters& param, int rank, bool to_vectors, const TBlob& from,
                   OpReqType req, const TBlob& to, const OpContext& context) {
  if (req == kNullOp) return;
  const int axis1 = rank == 1 ? 0 : AxisPosition(param.axis1, rank);
  const int axis2 = rank == 1 ? 1 : AxisPosition(param.axis2, rank);
  if (to_vectors) {
    Move(DiagonalOf(param, from, axis1, axis2), StridedView(to), req, context);
  } else {
    MoveZeros(to, req, context);
    Move(StridedView(from), DiagonalOf(param, to, axis1, axis2), req, context);
  }
}

const bool kDiag = RegisterMove<DiagProperty>(
    TESSERA_TABLE_PLACE, "diag", "The diagonal of matrices, or the matrix with a given diagonal.",
    [](const MoveCall<DiagParameters>& call, std::span<const TBlob> from,
       std::span<const OpReqType> req, std::span<const TBlob> to) {
      const int rank = call.in_shape[0].ndim();
      MoveDiagonals(call.param, rank, rank > 1, from[0], req[0], to[0], call.context);
    },
    [](const MoveCall<DiagParameters>& call, std::span<const TBlob> from,
       std::span<const OpReqType> req, std::span<const TBlob> to) {
      const int rank = call.in_shape[0].ndim();
      MoveDiagonals(call.param, rank, rank == 1, from[0], req[0], to[0], call.context);
    });

}  // namespace
}  // namespace tessera
