// Permutations of dimensions: transpose, SwapAxis, and the two that move blocks of an image between
// channels and pixels. Their gradient is the head gradient, permuted back. All element types.
#include <algorithm>
#include <array>
#include <numeric>
#include <vector>

#include "tessera/ops/gradient_builder.h"
#include "tessera/ops/loops/axes.h"
#include "tessera/ops/loops/movement.h"

namespace tessera {
namespace {

using ops_internal::AxisPosition;
using ops_internal::AxisPositions;
using ops_internal::Move;
using ops_internal::MoveCall;
using ops_internal::MoveProperty;
using ops_internal::RegisterMove;
using ops_internal::StridedView;

std::vector<int> Inverse(const std::vector<int>& axes) {
  std::vector<int> inverse(axes.size());
  for (size_t i = 0; i < axes.size(); ++i) {
    inverse[static_cast<size_t>(axes[i])] = static_cast<int>(i);
  }
  return inverse;
}

/// Infers shapes whose output has dimensions axes[0], axes[1], … of the input.
bool InferPermuted(const OperatorProperty& property, const std::vector<int>& axes, TShape* data,
                   TShape* out) {
  const int rank = static_cast<int>(axes.size());
  TShape forward = TShape::OfRank(rank), backward = TShape::OfRank(rank);
  if (data->rank_known()) {
    for (int d = 0; d < rank; ++d) forward[d] = (*data)[axes[static_cast<size_t>(d)]];
  }
  MergeShape(property, "output", out, forward);
  for (int d = 0; d < rank; ++d) backward[axes[static_cast<size_t>(d)]] = (*out)[d];
  MergeShape(property, "data", data, backward);
  return data->known();
}

/// Returns the rank of an input and output that have the same, or -1 if it is unknown.
int CommonRank(const OperatorProperty& property, const TShape& data, const TShape& out) {
  if (data.rank_known() && out.rank_known() && data.ndim() != out.ndim()) {
    throw InvalidArgument(property.TypeString(), ": data has shape ", data,
                          ", output another rank in shape ", out);
  }
  return data.rank_known() ? data.ndim() : out.ndim();
}

// transpose.

struct TransposeParameters {
  std::vector<int64_t> axes;

  static void Declare(ParameterSchema<TransposeParameters>& schema) {
    schema.Optional("axes", &TransposeParameters::axes,
                    "the input's dimensions in the output's order; by default the reverse order");
  }
};

std::vector<int> TransposeAxes(const TransposeParameters& param, int rank) {
  if (!param.axes.empty()) return AxisPositions(param.axes, rank);
  std::vector<int> axes(static_cast<size_t>(rank));
  std::iota(axes.rbegin(), axes.rend(), 0);
  return axes;
}

class TransposeProperty final : public MoveProperty<TransposeParameters> {
 public:
  bool InferShape(std::vector<TShape>* in_shape, std::vector<TShape>* out_shape) const override {
    TShape& data = (*in_shape)[0];
    TShape& out = (*out_shape)[0];
    const int rank = CommonRank(*this, data, out);
    if (rank < 0) return false;
    if (!param_.axes.empty() && static_cast<int>(param_.axes.size()) != rank) {
      throw InvalidArgument(TypeString(), ": parameter axes has ", param_.axes.size(),
                            " axes, expected one for each dimension of data, of shape ",
                            data.rank_known() ? data : out);
    }
    return InferPermuted(*this, TransposeAxes(param_, rank), &data, &out);
  }
  bool BuildGradient(GradientBuilder* builder) const override {
    ParameterMap parameters;
    if (!param_.axes.empty()) {
      const std::vector<int> inverse =
          Inverse(TransposeAxes(param_, static_cast<int>(param_.axes.size())));
      parameters["axes"] = ops_internal::ParameterText<std::vector<int64_t>>::Print(
          {inverse.begin(), inverse.end()});
    }
    builder->SetInGrad(0, builder->Apply1("transpose", {builder->OutGrad(0)}, parameters));
    return true;
  }

 private:
  void CheckParameters() override {
    const int rank = static_cast<int>(param_.axes.size());
    if (rank > TShape::kMaxRank) {
      throw InvalidArgument(TypeString(), ": parameter axes has ", rank, " axes, expected at most ",
                            TShape::kMaxRank);
    }
    AxisPositions(*this, "axes", param_.axes, rank);
  }
};

void TransposeForward(const MoveCall<TransposeParameters>& call, std::span<const TBlob> from,
                      std::span<const OpReqType> req, std::span<const TBlob> to) {
  if (req[0] == kNullOp) return;
  const std::vector<int> axes = TransposeAxes(call.param, call.in_shape[0].ndim());
  Move(StridedView(from[0]).Permuted(axes), StridedView(to[0]), req[0], call.context);
}
void TransposeBackward(const MoveCall<TransposeParameters>& call, std::span<const TBlob> from,
                       std::span<const OpReqType> req, std::span<const TBlob> to) {
  if (req[0] == kNullOp) return;
  const std::vector<int> axes = TransposeAxes(call.param, call.in_shape[0].ndim());
  Move(StridedView(from[0]).Permuted(Inverse(axes)), StridedView(to[0]), req[0], call.context);
}

const bool kTranspose = RegisterMove<TransposeProperty>(
    TESSERA_TABLE_PLACE, "transpose", "data with its dimensions in another order.",
    TransposeForward, TransposeBackward);

// SwapAxis.

struct SwapAxisParameters {
  int64_t dim1 = 0;
  int64_t dim2 = 0;

  static void Declare(ParameterSchema<SwapAxisParameters>& schema) {
    schema.Optional("dim1", &SwapAxisParameters::dim1, "a dimension");
    schema.Optional("dim2", &SwapAxisParameters::dim2, "the dimension that changes places with it");
  }
};

std::vector<int> SwappedAxes(int dim1, int dim2, int rank) {
  std::vector<int> axes(static_cast<size_t>(rank));
  std::iota(axes.begin(), axes.end(), 0);
  std::swap(axes[static_cast<size_t>(dim1)], axes[static_cast<size_t>(dim2)]);
  return axes;
}

class SwapAxisProperty final : public MoveProperty<SwapAxisParameters> {
 public:
  bool InferShape(std::vector<TShape>* in_shape, std::vector<TShape>* out_shape) const override {
    TShape& data = (*in_shape)[0];
    TShape& out = (*out_shape)[0];
    const int rank = CommonRank(*this, data, out);
    if (rank < 0) return false;
    const int dim1 = AxisPosition(*this, "dim1", param_.dim1, rank);
    const int dim2 = AxisPosition(*this, "dim2", param_.dim2, rank);
    return InferPermuted(*this, SwappedAxes(dim1, dim2, rank), &data, &out);
  }
  bool BuildGradient(GradientBuilder* builder) const override {
    builder->SetInGrad(0, builder->Apply1("SwapAxis", {builder->OutGrad(0)}, GetParams()));
    return true;
  }
};

/// The permutation is its own inverse.
void SwapAxis(const MoveCall<SwapAxisParameters>& call, std::span<const TBlob> from,
              std::span<const OpReqType> req, std::span<const TBlob> to) {
  if (req[0] == kNullOp) return;
  const int rank = call.in_shape[0].ndim();
  const std::vector<int> axes =
      SwappedAxes(AxisPosition(call.param.dim1, rank), AxisPosition(call.param.dim2, rank), rank);
  Move(StridedView(from[0]).Permuted(axes), StridedView(to[0]), req[0], call.context);
}

const bool kSwapAxis = RegisterMove<SwapAxisProperty>(
    TESSERA_TABLE_PLACE, "SwapAxis", "data with two dimensions in each other's places.", SwapAxis,
    SwapAxis);

// depth_to_space and space_to_depth, with blocks of b x b pixels:
//   out[n][c][h * b + i][w * b + j] = data[n][(i * b + j) * C + c][h][w], and the inverse.

struct BlockParameters {
  int64_t block_size = 1;

  static void Declare(ParameterSchema<BlockParameters>& schema) {
    schema.Required("block_size", &BlockParameters::block_size,
                    "height and width of a block, in pixels");
    schema.Range(1, 1 << 20);
  }
};

/// Infers the shapes of images with deep pixels (N, b * b * C, H, W) and wide ones (N, C, b * H,
/// b * W).
bool InferBlocks(const OperatorProperty& property, index_t b, std::string_view deep_name,
                 TShape* deep, std::string_view wide_name, TShape* wide) {
  if (!deep->rank_known() && !wide->rank_known()) return false;
  MergeShape(property, deep_name, deep, TShape::OfRank(4));
  MergeShape(property, wide_name, wide, TShape::OfRank(4));
  const auto meet = [&](int axis, std::string_view name, TShape* multiple, TShape* single,
                        index_t factor) {
    index_t& large = (*multiple)[axis];
    index_t& small = (*single)[axis];
    if (large != TShape::kUnknown && large % factor != 0) {
      throw InvalidArgument(property.TypeString(), ": ", name, " has shape ", *multiple,
                            ", expected a multiple of ", factor, " in dimension ", axis);
    }
    if (small == TShape::kUnknown && large != TShape::kUnknown) small = large / factor;
    if (small == TShape::kUnknown) return;
    const TShape factors = {small, factor};
    const index_t product = ProductOfExtents(property, name, factors, 0, 2);
    TShape known = TShape::OfRank(4);
    known[axis] = product;
    MergeShape(property, name, multiple, known);
  };
  for (int axis = 1; axis < 4; ++axis) {
    for (const auto& [name, shape] : {std::pair(deep_name, deep), std::pair(wide_name, wide)}) {
      if ((*shape)[axis] == 0) {
        throw InvalidArgument(property.TypeString(), ": ", name, " has shape ", *shape,
                              ", expected at least one element in dimension ", axis);
      }
    }
  }
  meet(0, deep_name, deep, wide, 1);
  meet(1, deep_name, deep, wide, b * b);
  meet(2, wide_name, wide, deep, b);
  meet(3, wide_name, wide, deep, b);
  return deep->known() && wide->known();
}

/// Returns the dimensions of deep pixels in the order (n, c, h, i, w, j) of wide ones.
StridedView DeepPixels(const TBlob& blob, index_t b) {
  StridedView view(blob);  // n, (i, j, c), h, w
  view.Split(1, b, view.extents[1] / b);
  view.Split(2, b, view.extents[2] / b);
  return view.Permuted(std::array<int, 6>{0, 3, 4, 1, 5, 2});
}

StridedView WidePixels(const TBlob& blob, index_t b) {
  StridedView view(blob);
  view.Split(3, view.extents[3] / b, b);
  view.Split(2, view.extents[2] / b, b);
  return view;
}

template <bool kDeepInput>
class BlockProperty final : public MoveProperty<BlockParameters> {
 public:
  bool InferShape(std::vector<TShape>* in_shape, std::vector<TShape>* out_shape) const override {
    TShape* const data = &(*in_shape)[0];
    TShape* const out = &(*out_shape)[0];
    return kDeepInput ? InferBlocks(*this, param_.block_size, "data", data, "output", out)
                      : InferBlocks(*this, param_.block_size, "output", out, "data", data);
  }
  bool BuildGradient(GradientBuilder* builder) const override {
    builder->SetInGrad(0, builder->Apply1(kDeepInput ? "space_to_depth" : "depth_to_space",
                                          {builder->OutGrad(0)}, GetParams()));
    return true;
  }
};

void DeepToWide(const MoveCall<BlockParameters>& call, std::span<const TBlob> from,
                std::span<const OpReqType> req, std::span<const TBlob> to) {
  if (req[0] == kNullOp) return;
  const index_t b = call.param.block_size;
  Move(DeepPixels(from[0], b), WidePixels(to[0], b), req[0], call.context);
}
void WideToDeep(const MoveCall<BlockParameters>& call, std::span<const TBlob> from,
                std::span<const OpReqType> req, std::span<const TBlob> to) {
  if (req[0] == kNullOp) return;
  const index_t b = call.param.block_size;
  Move(WidePixels(from[0], b), DeepPixels(to[0], b), req[0], call.context);
}

const bool kDepthToSpace = RegisterMove<BlockProperty<true>>(
    TESSERA_TABLE_PLACE, "depth_to_space", "Channels laid out as blocks of pixels.", DeepToWide,
    WideToDeep);
const bool kSpaceToDepth = RegisterMove<BlockProperty<false>>(
    TESSERA_TABLE_PLACE, "space_to_depth", "Blocks of pixels laid out as channels.", WideToDeep,
    DeepToWide);

}  // namespace
}  // namespace tessera
