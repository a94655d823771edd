// Parts of arrays: slice, slice_axis, slice_like, Crop and reverse, whose gradient is the head
// gradient in the same place among zeros; and _slice_assign and _slice_assign_scalar, which replace
// a part and have no gradient. All element types.
#include <algorithm>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tessera/ops/gradient_formula.h"
#include "tessera/ops/loops/axes.h"
#include "tessera/ops/loops/movement.h"
#include "tessera/ops/loops/sparse/sparse_parts.h"
#include "tessera/ops/sparse.h"

namespace tessera {
namespace {

using ops_internal::AxisPosition;
using ops_internal::AxisPositions;
using ops_internal::InferSameShape;
using ops_internal::Move;
using ops_internal::MoveCall;
using ops_internal::MoveFlat;
using ops_internal::MoveProperty;
using ops_internal::MoveZeros;
using ops_internal::RegisterMove;
using ops_internal::StridedView;

/// The positions of one dimension that a slice takes.
struct AxisRange {
  index_t begin = 0;
  index_t step = 1;
  index_t count = 0;
};
using Ranges = std::vector<AxisRange>;

Ranges FullRanges(const TShape& shape) {
  Ranges ranges;
  for (const index_t extent : shape) ranges.push_back({0, 1, extent});
  return ranges;
}

StridedView Sliced(const TBlob& blob, const Ranges& ranges) {
  StridedView view(blob);
  for (size_t d = 0; d < ranges.size(); ++d) {
    view.Slice(static_cast<int>(d), ranges[d].begin, ranges[d].step, ranges[d].count);
  }
  return view;
}

/// Forward and backward functions of operators that take a part of their first input, which
/// RangesOf(parameters, shapes of inputs) gives.
template <typename Parameters>
void TakePart(const MoveCall<Parameters>& call, std::span<const TBlob> from,
              std::span<const OpReqType> req, std::span<const TBlob> to) {
  if (req[0] == kNullOp) return;
  Move(Sliced(from[0], RangesOf(call.param, call.in_shape)), StridedView(to[0]), req[0],
       call.context);
}
template <typename Parameters>
void PutPart(const MoveCall<Parameters>& call, std::span<const TBlob> from,
             std::span<const OpReqType> req, std::span<const TBlob> to) {
  if (req[0] == kNullOp) return;
  MoveZeros(to[0], req[0], call.context);
  Move(StridedView(from[0]), Sliced(to[0], RangesOf(call.param, call.in_shape)), req[0],
       call.context);
}

/// Infers a dimension that a slice takes whole.
void MeetExtents(const OperatorProperty& property, int axis, TShape* data, TShape* out) {
  TShape known = TShape::OfRank(out->ndim());
  known[axis] = (*data)[axis];
  MergeShape(property, "output", out, known);
  (*data)[axis] = (*out)[axis];
}

void SetExtent(const OperatorProperty& property, std::string_view name, int axis, index_t extent,
               TShape* shape) {
  TShape known = TShape::OfRank(shape->ndim());
  known[axis] = extent;
  MergeShape(property, name, shape, known);
}

/// Gives input and output one rank. Returns false if it is unknown.
bool MeetRanks(const OperatorProperty& property, TShape* data, TShape* out) {
  if (data->rank_known()) {
    MergeShape(property, "output", out, TShape::OfRank(data->ndim()));
  } else if (out->rank_known()) {
    MergeShape(property, "data", data, TShape::OfRank(out->ndim()));
  }
  return data->rank_known();
}

// slice.

struct SliceParameters {
  std::vector<std::optional<int64_t>> begin, end, step;

  static void Declare(ParameterSchema<SliceParameters>& schema) {
    using P = SliceParameters;
    schema.Required("begin", &P::begin,
                    "first position of each dimension, from the end if negative");
    schema.Required("end", &P::end, "position of each dimension before which the slice ends");
    schema.Optional("step", &P::step, "distance of positions; negative ones go backwards");
  }
};

struct SliceAssignScalarParameters : SliceParameters {
  Number scalar;

  static void Declare(ParameterSchema<SliceAssignScalarParameters>& schema) {
    using P = SliceAssignScalarParameters;
    schema.Optional("scalar", &P::scalar, "the new value");
    schema.Required("begin", static_cast<std::vector<std::optional<int64_t>> P::*>(&P::begin),
                    "first position of each dimension, from the end if negative");
    schema.Required("end", static_cast<std::vector<std::optional<int64_t>> P::*>(&P::end),
                    "position of each dimension before which the slice ends");
    schema.Optional("step", static_cast<std::vector<std::optional<int64_t>> P::*>(&P::step),
                    "distance of positions; negative ones go backwards");
  }
};

std::optional<int64_t> At(const std::vector<std::optional<int64_t>>& values, int i) {
  return i < static_cast<int>(values.size()) ? values[static_cast<size_t>(i)] : std::nullopt;
}

/// Positions are cut to those that exist.
AxisRange RangeOf(const SliceParameters& param, int axis, index_t extent) {
  // Steps beyond the extent all take one position.
  const index_t limit = std::numeric_limits<index_t>::max() / 4;
  const index_t step = std::clamp<index_t>(At(param.step, axis).value_or(1), -limit, limit);
  const auto position = [&](std::optional<int64_t> given, index_t absent) {
    if (!given) return absent;
    const index_t value = *given < 0 ? *given + extent : *given;
    return step > 0 ? std::clamp<index_t>(value, 0, extent)
                    : std::clamp<index_t>(value, -1, extent - 1);
  };
  const index_t begin = position(At(param.begin, axis), step > 0 ? 0 : extent - 1);
  const index_t end = position(At(param.end, axis), step > 0 ? extent : -1);
  const index_t distance = step > 0 ? end - begin : begin - end;
  if (distance <= 0) return {0, 1, 0};
  const index_t count = (distance - 1) / std::abs(step) + 1;
  return {begin, count == 1 ? 1 : step, count};
}

Ranges RangesOf(const SliceParameters& param, std::span<const TShape> in_shape) {
  Ranges ranges;
  for (int d = 0; d < in_shape[0].ndim(); ++d) {
    ranges.push_back(RangeOf(param, d, in_shape[0][d]));
  }
  return ranges;
}

void CheckSliceParameters(const OperatorProperty& property, const SliceParameters& param) {
  if (param.begin.size() != param.end.size() ||
      (!param.step.empty() && param.step.size() != param.begin.size())) {
    throw InvalidArgument(property.TypeString(), ": parameters begin, end and step have ",
                          param.begin.size(), ", ", param.end.size(), " and ", param.step.size(),
                          " entries, expected as many");
  }
  for (const auto& step : param.step) {
    if (step == 0) {
      throw InvalidArgument(property.TypeString(), ": parameter step has an entry of 0");
    }
  }
}

/// Infers the shape of a slice.
bool InferSlice(const OperatorProperty& property, const SliceParameters& param, TShape* data,
                std::string_view name, TShape* part) {
  if (data->rank_known()) {
    MergeShape(property, name, part, TShape::OfRank(data->ndim()));
  } else if (part->rank_known()) {
    MergeShape(property, "data", data, TShape::OfRank(part->ndim()));
  } else {
    return false;
  }
  if (static_cast<int>(param.begin.size()) > data->ndim()) {
    throw InvalidArgument(property.TypeString(), ": parameter begin has ", param.begin.size(),
                          " entries, but data has shape ", *data);
  }
  for (int d = 0; d < data->ndim(); ++d) {
    const int64_t step = At(param.step, d).value_or(1);
    const bool whole = !At(param.begin, d) && !At(param.end, d) && (step == 1 || step == -1);
    if (whole && (*data)[d] == TShape::kUnknown) (*data)[d] = (*part)[d];
    if ((*data)[d] == TShape::kUnknown) continue;
    SetExtent(property, name, d, RangeOf(param, d, (*data)[d]).count, part);
  }
  return data->known();
}

class SliceProperty final : public MoveProperty<SliceParameters> {
 public:
  bool InferShape(std::vector<TShape>* in_shape, std::vector<TShape>* out_shape) const override {
    return InferSlice(*this, param_, &(*in_shape)[0], "output", &(*out_shape)[0]);
  }
  bool BuildGradient(GradientBuilder* builder) const override {
    return ops_internal::BuildLinearGradient(*this, builder);
  }

 private:
  void CheckParameters() override { CheckSliceParameters(*this, param_); }
};

const bool kSlice = RegisterMove<SliceProperty>(TESSERA_TABLE_PLACE, "slice",
                                                "A part of data, with steps.", TakePart, PutPart);

/// The part of a csr array that a slice without steps takes.
class SliceForm final : public SparseForm {
 public:
  std::optional<StorageTypes> Infer(const OperatorProperty& property,
                                    std::span<const StorageType> in,
                                    std::span<const StorageType>) const override {
    for (const std::optional<int64_t>& step : ParametersOf(property).step) {
      if (step.value_or(1) != 1) return std::nullopt;
    }
    if (in[0] != StorageType::kCsr) return std::nullopt;
    return StorageTypes{StorageType::kCsr};
  }
  void Forward(const OperatorProperty& property, std::span<SparseBlob> in,
               std::span<const OpReqType> req, std::span<SparseBlob> out) const override {
    if (req[0] == kNullOp) return;
    const Ranges ranges = RangesOf(ParametersOf(property), {&in[0].shape, 1});
    ops_internal::SliceCsr(in[0], ranges[0].begin, ranges[0].begin + ranges[0].count,
                           ranges[1].begin, ranges[1].begin + ranges[1].count, &out[0]);
  }

 private:
  static const SliceParameters& ParametersOf(const OperatorProperty& property) {
    return static_cast<const SliceProperty&>(property).param();
  }
};

const bool kSliceForm = RegisterSparseForm("slice", std::make_unique<SliceForm>());

// slice_axis.

struct SliceAxisParameters {
  int64_t axis = 0;
  int64_t begin = 0;
  std::optional<int64_t> end;

  static void Declare(ParameterSchema<SliceAxisParameters>& schema) {
    using P = SliceAxisParameters;
    schema.Required("axis", &P::axis, "the dimension");
    schema.Required("begin", &P::begin, "first position, from the end if negative");
    schema.Required("end", &P::end, "position before which the slice ends; None is the extent");
  }
};

AxisRange RangeOf(const SliceAxisParameters& param, index_t extent) {
  const auto position = [extent](int64_t at) { return at < 0 ? at + extent : at; };
  const index_t begin = position(param.begin);
  return {begin, 1, (param.end ? position(*param.end) : extent) - begin};
}

Ranges RangesOf(const SliceAxisParameters& param, std::span<const TShape> in_shape) {
  Ranges ranges = FullRanges(in_shape[0]);
  const int axis = AxisPosition(param.axis, in_shape[0].ndim());
  ranges[static_cast<size_t>(axis)] = RangeOf(param, in_shape[0][axis]);
  return ranges;
}

class SliceAxisProperty final : public MoveProperty<SliceAxisParameters> {
 public:
  bool InferShape(std::vector<TShape>* in_shape, std::vector<TShape>* out_shape) const override {
    TShape& data = (*in_shape)[0];
    TShape& out = (*out_shape)[0];
    if (!MeetRanks(*this, &data, &out)) return false;
    const int axis = AxisPosition(*this, "axis", param_.axis, data.ndim());
    for (int d = 0; d < data.ndim(); ++d) {
      if (d != axis) MeetExtents(*this, d, &data, &out);
    }
    if (data[axis] == TShape::kUnknown) return false;
    const index_t extent = data[axis];
    const auto exists = [extent](int64_t at) { return at >= -extent && at <= extent; };
    const bool valid = exists(param_.begin) && exists(param_.end.value_or(extent));
    if (!valid || RangeOf(param_, extent).count < std::min<index_t>(extent, 1)) {
      throw InvalidArgument(TypeString(), ": parameters begin ", param_.begin, " and end ",
                            ops_internal::ParameterText<std::optional<int64_t>>::Print(param_.end),
                            " give no part of dimension ", axis, " of data, which has shape ",
                            data);
    }
    SetExtent(*this, "output", axis, RangeOf(param_, extent).count, &out);
    return data.known();
  }
  bool BuildGradient(GradientBuilder* builder) const override {
    return ops_internal::BuildLinearGradient(*this, builder);
  }
};

const bool kSliceAxis = RegisterMove<SliceAxisProperty>(
    TESSERA_TABLE_PLACE, "slice_axis", "A part of data along one dimension.", TakePart, PutPart);

// slice_like.

struct SliceLikeParameters {
  std::vector<int64_t> axes;

  static void Declare(ParameterSchema<SliceLikeParameters>& schema) {
    schema.Optional("axes", &SliceLikeParameters::axes,
                    "dimensions that get the extents of shape_like; by default all");
  }
};

Ranges RangesOf(const SliceLikeParameters& param, std::span<const TShape> in_shape) {
  Ranges ranges = FullRanges(in_shape[0]);
  const std::vector<int> axes = AxisPositions(param.axes, in_shape[0].ndim());
  for (int d = 0; d < in_shape[0].ndim(); ++d) {
    const bool taken = axes.empty() || std::find(axes.begin(), axes.end(), d) != axes.end();
    if (taken) ranges[static_cast<size_t>(d)].count = in_shape[1][d];
  }
  return ranges;
}

class SliceLikeProperty final : public MoveProperty<SliceLikeParameters> {
 public:
  std::vector<std::string> ListArguments() const override { return {"data", "shape_like"}; }
  bool ArgumentHasGradient(int argument) const override { return argument == 0; }
  bool InferShape(std::vector<TShape>* in_shape, std::vector<TShape>* out_shape) const override {
    TShape& data = (*in_shape)[0];
    TShape& like = (*in_shape)[1];
    TShape& out = (*out_shape)[0];
    const bool has_rank = MeetRanks(*this, &data, &out);
    if (!has_rank || !like.rank_known()) return false;
    if (param_.axes.empty() && data.ndim() != like.ndim()) {
      throw InvalidArgument(TypeString(), ": data has shape ", data, ", shape_like ", like,
                            "; expected one rank");
    }
    std::vector<bool> taken(static_cast<size_t>(data.ndim()), param_.axes.empty());
    for (const int64_t given : param_.axes) {  // MXNet takes one axis several times too
      const int axis = AxisPosition(*this, "axes", given, data.ndim());
      if (axis >= like.ndim()) {
        throw InvalidArgument(TypeString(), ": shape_like has shape ", like,
                              ", expected a dimension ", axis, ", which parameter axes names");
      }
      taken[static_cast<size_t>(axis)] = true;
    }
    for (int d = 0; d < data.ndim(); ++d) {
      if (!taken[static_cast<size_t>(d)]) {
        MeetExtents(*this, d, &data, &out);
        continue;
      }
      SetExtent(*this, "output", d, like[d], &out);
      like[d] = out[d];
      if (data[d] != TShape::kUnknown && like[d] > data[d]) {
        throw InvalidArgument(TypeString(), ": data has shape ", data, ", shape_like ", like,
                              ", which is larger in dimension ", d);
      }
    }
    return data.known() && like.known();
  }
  bool InferType(std::vector<DType>* in_type, std::vector<DType>* out_type) const override {
    ops_internal::MergeType(*this, "output", &(*out_type)[0], (*in_type)[0]);
    ops_internal::MergeType(*this, "data", &(*in_type)[0], (*out_type)[0]);
    if ((*in_type)[1] == DType::kUnknown) (*in_type)[1] = (*in_type)[0];
    return (*in_type)[0] != DType::kUnknown;
  }
  bool BuildGradient(GradientBuilder* builder) const override {
    return ops_internal::BuildLinearGradient(*this, builder);
  }
};

const bool kSliceLike = RegisterMove<SliceLikeProperty>(
    TESSERA_TABLE_PLACE, "slice_like", "The beginning of data, as large as another array.",
    TakePart, PutPart);

// Crop.

struct CropParameters {
  int num_args = 1;
  std::vector<int64_t> offset{0, 0};
  std::vector<int64_t> h_w{0, 0};
  bool center_crop = false;

  static void Declare(ParameterSchema<CropParameters>& schema) {
    using P = CropParameters;
    schema.Required("num_args", &P::num_args,
                    "1, or 2 if a second image gives height and width of the output");
    schema.Range(1, 2);
    schema.Optional("offset", &P::offset, "row and column of the first pixel: (y, x)");
    schema.Optional("h_w", &P::h_w, "height and width of the output, with num_args=1");
    schema.Optional("center_crop", &P::center_crop, "take the middle, whatever offset is");
  }
};

Ranges RangesOf(const CropParameters& param, std::span<const TShape> in_shape) {
  Ranges ranges = FullRanges(in_shape[0]);
  for (int k = 0; k < 2; ++k) {
    const index_t extent = in_shape[0][2 + k];
    AxisRange& range = ranges[static_cast<size_t>(2 + k)];
    range.count = param.num_args == 2 ? in_shape[1][2 + k] : param.h_w[static_cast<size_t>(k)];
    range.begin =
        param.center_crop ? (extent - range.count) / 2 : param.offset[static_cast<size_t>(k)];
  }
  return ranges;
}

class CropProperty final : public MoveProperty<CropParameters> {
 public:
  std::vector<std::string> ListArguments() const override {
    return ops_internal::NumberedNames("arg", param_.num_args);
  }
  bool ArgumentHasGradient(int argument) const override { return argument == 0; }
  bool InferShape(std::vector<TShape>* in_shape, std::vector<TShape>* out_shape) const override {
    TShape& data = (*in_shape)[0];
    TShape& out = (*out_shape)[0];
    MergeShape(*this, "arg0", &data, TShape::OfRank(4));
    MergeShape(*this, "output", &out, TShape::OfRank(4));
    MeetExtents(*this, 0, &data, &out);
    MeetExtents(*this, 1, &data, &out);
    if (param_.num_args == 2) {
      TShape& like = (*in_shape)[1];
      MergeShape(*this, "arg1", &like, TShape::OfRank(4));
      for (const int d : {2, 3}) {
        SetExtent(*this, "output", d, like[d], &out);
        like[d] = out[d];
      }
    } else {
      for (const int d : {2, 3}) {
        SetExtent(*this, "output", d, param_.h_w[static_cast<size_t>(d - 2)], &out);
      }
    }
    for (const int d : {2, 3}) {
      if (data[d] == TShape::kUnknown || out[d] == TShape::kUnknown) continue;
      const index_t begin = param_.center_crop ? 0 : param_.offset[static_cast<size_t>(d - 2)];
      if (out[d] > data[d] || begin > data[d] - out[d]) {
        throw InvalidArgument(TypeString(), ": arg0 has shape ", data, ", which has no part of ",
                              out[d], " from ", begin, " on in dimension ", d);
      }
    }
    const bool all = std::all_of(in_shape->begin(), in_shape->end(),
                                 [](const TShape& shape) { return shape.known(); });
    return all && out.known();
  }
  bool BuildGradient(GradientBuilder* builder) const override {
    return ops_internal::BuildLinearGradient(*this, builder);
  }

 private:
  void CheckParameters() override {
    if (param_.offset.size() != 2 || param_.h_w.size() != 2 || param_.offset[0] < 0 ||
        param_.offset[1] < 0) {
      throw InvalidArgument(TypeString(), ": parameters offset and h_w: expected (y, x), none ",
                            "of them negative");
    }
    if (param_.num_args == 1 && (param_.h_w[0] < 1 || param_.h_w[1] < 1)) {
      throw InvalidArgument(TypeString(), ": parameter h_w: expected height and width of at ",
                            "least 1, as num_args is 1");
    }
  }
};

const bool kCrop = RegisterMove<CropProperty>(
    TESSERA_TABLE_PLACE, "Crop", "A rectangle of images (batch, channel, height, width).", TakePart,
    PutPart);

// reverse.

struct ReverseParameters {
  std::vector<int64_t> axis;

  static void Declare(ParameterSchema<ReverseParameters>& schema) {
    schema.Required("axis", &ReverseParameters::axis, "dimensions whose order is reversed");
  }
};

class ReverseProperty final : public MoveProperty<ReverseParameters> {
 public:
  bool InferShape(std::vector<TShape>* in_shape, std::vector<TShape>* out_shape) const override {
    const bool known = InferSameShape(*this, "data", &(*in_shape)[0], &(*out_shape)[0]);
    const TShape& data = (*in_shape)[0];
    if (!data.rank_known()) return false;
    for (const int64_t axis : param_.axis) AxisPosition(*this, "axis", axis, data.ndim());
    return known;
  }
  bool BuildGradient(GradientBuilder* builder) const override {
    return ops_internal::BuildLinearGradient(*this, builder);
  }
};

Ranges RangesOf(const ReverseParameters& param, std::span<const TShape> in_shape) {
  Ranges ranges = FullRanges(in_shape[0]);
  for (const int axis : AxisPositions(param.axis, in_shape[0].ndim())) {
    AxisRange& range = ranges[static_cast<size_t>(axis)];
    range.step = -range.step;
    range.begin = range.step < 0 ? range.count - 1 : 0;
  }
  return ranges;
}

/// The operation is its own inverse.
const bool kReverse = RegisterMove<ReverseProperty>(
    TESSERA_TABLE_PLACE, "reverse", "data with the order of some dimensions reversed.", TakePart,
    TakePart);

// _slice_assign and _slice_assign_scalar.

template <typename Parameters>
class SliceAssignProperty : public MoveProperty<Parameters> {
 public:
  static constexpr bool kAcceptsAddTo = false;

  bool HasGradient() const override { return false; }
  std::vector<InplacePair> ForwardInplaceOption(std::span<const int> in_data,
                                                std::span<const int> out_data) const override {
    return {{in_data[0], out_data[0]}};
  }

 private:
  void CheckParameters() override { CheckSliceParameters(*this, this->param_); }
};

class SliceAssignArrayProperty final : public SliceAssignProperty<SliceParameters> {
 public:
  std::vector<std::string> ListArguments() const override { return {"lhs", "rhs"}; }
  bool InferShape(std::vector<TShape>* in_shape, std::vector<TShape>* out_shape) const override {
    InferSameShape(*this, "lhs", &(*in_shape)[0], &(*out_shape)[0]);
    InferSlice(*this, param_, &(*in_shape)[0], "rhs", &(*in_shape)[1]);
    return InferSameShape(*this, "lhs", &(*in_shape)[0], &(*out_shape)[0]) &&
           (*in_shape)[1].known();
  }
};

class SliceAssignScalarProperty final : public SliceAssignProperty<SliceAssignScalarParameters> {
 public:
  bool InferShape(std::vector<TShape>* in_shape, std::vector<TShape>* out_shape) const override {
    const bool known = InferSameShape(*this, "data", &(*in_shape)[0], &(*out_shape)[0]);
    TShape part;
    InferSlice(*this, param_, &(*in_shape)[0], "the slice", &part);
    return known;
  }
};

const bool kSliceAssign = RegisterMove<SliceAssignArrayProperty>(
    TESSERA_TABLE_PLACE, "_slice_assign", "lhs with a part replaced by rhs.",
    [](const MoveCall<SliceParameters>& call, std::span<const TBlob> from,
       std::span<const OpReqType> req, std::span<const TBlob> to) {
      if (req[0] == kNullOp) return;
      MoveFlat(from[0], to[0], req[0], call.context);
      Move(StridedView(from[1]), Sliced(to[0], RangesOf(call.param, call.in_shape)), kWriteTo,
           call.context);
    },
    nullptr);

#if !defined(TESSERA_XPU_GPU)
const bool kSliceAssignScalar = RegisterMove<SliceAssignScalarProperty>(
    TESSERA_TABLE_PLACE, "_slice_assign_scalar", "data with a part replaced by a number.",
    [](const MoveCall<SliceAssignScalarParameters>& call, std::span<const TBlob> from,
       std::span<const OpReqType> req, std::span<const TBlob> to) {
      if (req[0] == kNullOp) return;
      MoveFlat(from[0], to[0], req[0], call.context);
      ops_internal::FillOnCpu(Sliced(to[0], RangesOf(call.param, call.in_shape)), call.param.scalar,
                              kWriteTo, call.context);
    },
    nullptr);
#endif

}  // namespace
}  // namespace tessera
