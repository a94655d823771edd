// Repetition: broadcast_to, broadcast_axis, broadcast_like, tile and repeat. The gradient of an
// element is the sum of the head gradients of its copies. All element types.
#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "tessera/ops/gradient_formula.h"
#include "tessera/ops/loops/axes.h"
#include "tessera/ops/loops/movement.h"
#include "tessera/ops/loops/reduce_function.h"
#include "tessera/ops/loops/reducers.h"

namespace tessera {
namespace {

using ops_internal::AxisPosition;
using ops_internal::AxisPositions;
using ops_internal::Move;
using ops_internal::MoveCall;
using ops_internal::MoveProperty;
using ops_internal::MoveZeros;
using ops_internal::RegisterMove;
using ops_internal::StridedView;

/// A dimension of the output, each of which either copies one of the input's or repeats.
struct Dimension {
  index_t extent;
  bool repeats;
};
using Dimensions = std::vector<Dimension>;

void Repeat(const TBlob& from, const Dimensions& dimensions, const TBlob& to, OpReqType req,
            const OpContext& context) {
  if (req == kNullOp || to.Size() == 0) return;
  StridedView in = StridedView(from), out = StridedView(to);
  in.num_dims = out.num_dims = static_cast<int>(dimensions.size());
  index_t in_stride = 1, out_stride = 1;
  for (size_t d = dimensions.size(); d-- > 0;) {
    const auto& [extent, repeats] = dimensions[d];
    in.extents[d] = out.extents[d] = extent;
    in.strides[d] = repeats ? 0 : in_stride;
    out.strides[d] = out_stride;
    if (!repeats) in_stride *= extent;
    out_stride *= extent;
  }
  Move(in, out, req, context);
}

void SumCopies(const TBlob& from, const Dimensions& dimensions, const TBlob& to, OpReqType req,
               const OpContext& context) {
  if (req == kNullOp) return;
  if (from.Size() == 0) return MoveZeros(to, req, context);
  static const auto sum = ops_internal::MakeReduceFunction<ops_internal::SumReducer>();
  // Neighbours of one kind are one dimension.
  Dimensions merged;
  for (const Dimension& dimension : dimensions) {
    if (dimension.extent == 1) continue;
    if (!merged.empty() && merged.back().repeats == dimension.repeats) {
      merged.back().extent *= dimension.extent;
    } else {
      merged.push_back(dimension);
    }
  }
  if (merged.size() > TShape::kMaxRank) {
    throw Unimplemented("the gradient of repetition where more than ", TShape::kMaxRank,
                        " dimensions alternate with repetitions");
  }
  TShape shape = TShape::OfRank(static_cast<int>(merged.size()));
  ops_internal::ReducedAxes axes{};
  for (size_t d = 0; d < merged.size(); ++d) {
    shape[static_cast<int>(d)] = merged[d].extent;
    axes[d] = merged[d].repeats;
  }
  Reduce(sum, TBlob(from.dptr_, shape, from.type_flag_, from.device_), axes, to, req, context);
}

/// Forward and backward functions. DimensionsOf(parameters, shape of the input, shape of the
/// output) gives the dimensions.
template <typename Parameters>
void RepeatForward(const MoveCall<Parameters>& call, std::span<const TBlob> from,
                   std::span<const OpReqType> req, std::span<const TBlob> to) {
  if (req[0] == kNullOp) return;
  Repeat(from[0], DimensionsOf(call.param, call.in_shape[0], to[0].shape_), to[0], req[0],
         call.context);
}
template <typename Parameters>
void RepeatBackward(const MoveCall<Parameters>& call, std::span<const TBlob> from,
                    std::span<const OpReqType> req, std::span<const TBlob> to) {
  if (req[0] == kNullOp) return;
  SumCopies(from[0], DimensionsOf(call.param, call.in_shape[0], from[0].shape_), to[0], req[0],
            call.context);
}

// Broadcasting: dimensions of extent 1 get another one.

Dimensions BroadcastDimensions(const TShape& in, const TShape& out) {
  Dimensions dimensions;
  for (int d = 0; d < out.ndim(); ++d) dimensions.push_back({out[d], in[d] == 1 && out[d] != 1});
  return dimensions;
}

/// Infers input and output where `target` has the wanted extents: unknown ones are the input's.
/// Requires: they have one rank.
bool InferBroadcast(const OperatorProperty& property, std::string_view name, TShape* data,
                    const TShape& target, TShape* out) {
  MergeShape(property, "output", out, target);
  for (int d = 0; d < data->ndim(); ++d) {
    const index_t in = (*data)[d];
    if (target[d] == TShape::kUnknown || in == TShape::kUnknown || in == 1 || in == target[d]) {
      continue;
    }
    throw InvalidArgument(property.TypeString(), ": ", name, " has shape ", *data,
                          ", which cannot be broadcast to ", target);
  }
  return data->known() && out->known();
}

template <typename Parameters>
class BroadcastProperty : public MoveProperty<Parameters> {
 public:
  bool BuildGradient(GradientBuilder* builder) const override {
    return ops_internal::BuildLinearGradient(*this, builder);
  }

 protected:
  /// Infers the dimensions that keep their extent.
  void MeetExtents(const std::vector<bool>& keeps, TShape* data, TShape* out) const {
    TShape known = TShape::OfRank(data->ndim());
    for (int d = 0; d < data->ndim(); ++d) {
      if (keeps[static_cast<size_t>(d)]) known[d] = (*data)[d];
    }
    MergeShape(*this, "output", out, known);
    for (int d = 0; d < data->ndim(); ++d) {
      if (keeps[static_cast<size_t>(d)]) (*data)[d] = (*out)[d];
    }
  }
};

struct BroadcastToParameters {
  std::vector<int64_t> shape;

  static void Declare(ParameterSchema<BroadcastToParameters>& schema) {
    schema.Optional("shape", &BroadcastToParameters::shape,
                    "extents of the output; 0 keeps the input's");
  }
};

Dimensions DimensionsOf(const BroadcastToParameters&, const TShape& in, const TShape& out) {
  return BroadcastDimensions(in, out);
}

class BroadcastToProperty final : public BroadcastProperty<BroadcastToParameters> {
 public:
  bool InferShape(std::vector<TShape>* in_shape, std::vector<TShape>* out_shape) const override {
    TShape& data = (*in_shape)[0];
    TShape& out = (*out_shape)[0];
    const int rank = static_cast<int>(param_.shape.size());
    MergeShape(*this, "data", &data, TShape::OfRank(rank));
    MergeShape(*this, "output", &out, TShape::OfRank(rank));
    TShape target = TShape::OfRank(rank);
    std::vector<bool> keeps;
    for (int d = 0; d < rank; ++d) {
      const index_t extent = param_.shape[static_cast<size_t>(d)];
      keeps.push_back(extent == 0);
      if (extent != 0) target[d] = extent;
    }
    MeetExtents(keeps, &data, &out);
    return InferBroadcast(*this, "data", &data, target, &out);
  }

 private:
  void CheckParameters() override {
    const bool valid = param_.shape.size() <= TShape::kMaxRank &&
                       std::all_of(param_.shape.begin(), param_.shape.end(),
                                   [](int64_t extent) { return extent >= 0; });
    if (!valid) {
      throw InvalidArgument(TypeString(), ": parameter shape: ",
                            ops_internal::ParameterText<std::vector<int64_t>>::Print(param_.shape),
                            " is no shape; expected at most ", TShape::kMaxRank,
                            " extents, none of them negative");
    }
  }
};

const bool kBroadcastTo = RegisterMove<BroadcastToProperty>(
    TESSERA_TABLE_PLACE, "broadcast_to",
    "data repeated along dimensions of extent 1, to a given shape.", RepeatForward, RepeatBackward);

struct BroadcastAxisParameters {
  std::vector<int64_t> axis, size;

  static void Declare(ParameterSchema<BroadcastAxisParameters>& schema) {
    schema.Optional("axis", &BroadcastAxisParameters::axis, "dimensions of extent 1");
    schema.Optional("size", &BroadcastAxisParameters::size, "their extents in the output");
  }
};

Dimensions DimensionsOf(const BroadcastAxisParameters&, const TShape& in, const TShape& out) {
  return BroadcastDimensions(in, out);
}

class BroadcastAxisProperty final : public BroadcastProperty<BroadcastAxisParameters> {
 public:
  bool InferShape(std::vector<TShape>* in_shape, std::vector<TShape>* out_shape) const override {
    TShape& data = (*in_shape)[0];
    TShape& out = (*out_shape)[0];
    if (data.rank_known()) MergeShape(*this, "output", &out, TShape::OfRank(data.ndim()));
    if (!out.rank_known()) return false;
    MergeShape(*this, "data", &data, TShape::OfRank(out.ndim()));
    std::vector<bool> keeps(static_cast<size_t>(data.ndim()), true);
    TShape target = TShape::OfRank(data.ndim()), ones = target;
    const std::vector<int> axes = AxisPositions(*this, "axis", param_.axis, data.ndim());
    for (size_t i = 0; i < axes.size(); ++i) {
      keeps[static_cast<size_t>(axes[i])] = false;
      target[axes[i]] = param_.size[i];
      ones[axes[i]] = 1;
    }
    MergeShape(*this, "data", &data, ones);
    MeetExtents(keeps, &data, &out);
    return InferBroadcast(*this, "data", &data, target, &out);
  }

 private:
  void CheckParameters() override {
    if (param_.axis.size() != param_.size.size()) {
      throw InvalidArgument(TypeString(), ": parameters axis and size have ", param_.axis.size(),
                            " and ", param_.size.size(), " entries, expected as many");
    }
    for (const int64_t size : param_.size) {
      if (size < 0) {
        throw InvalidArgument(TypeString(), ": parameter size: extent ", size, " is negative");
      }
    }
  }
};

const bool kBroadcastAxis = RegisterMove<BroadcastAxisProperty>(
    TESSERA_TABLE_PLACE, "broadcast_axis", "data repeated along some dimensions of extent 1.",
    RepeatForward, RepeatBackward);

struct BroadcastLikeParameters {
  std::optional<std::vector<int64_t>> lhs_axes, rhs_axes;

  static void Declare(ParameterSchema<BroadcastLikeParameters>& schema) {
    using P = BroadcastLikeParameters;
    schema.Optional("lhs_axes", &P::lhs_axes, "dimensions of extent 1; by default all of them");
    schema.Optional("rhs_axes", &P::rhs_axes, "the dimensions of rhs that give their extents");
  }
};

Dimensions DimensionsOf(const BroadcastLikeParameters&, const TShape& in, const TShape& out) {
  return BroadcastDimensions(in, out);
}

class BroadcastLikeProperty final : public BroadcastProperty<BroadcastLikeParameters> {
 public:
  std::vector<std::string> ListArguments() const override { return {"lhs", "rhs"}; }
  bool ArgumentHasGradient(int argument) const override { return argument == 0; }
  bool InferShape(std::vector<TShape>* in_shape, std::vector<TShape>* out_shape) const override {
    TShape& lhs = (*in_shape)[0];
    TShape& rhs = (*in_shape)[1];
    TShape& out = (*out_shape)[0];
    if (lhs.rank_known()) MergeShape(*this, "output", &out, TShape::OfRank(lhs.ndim()));
    if (out.rank_known()) MergeShape(*this, "lhs", &lhs, TShape::OfRank(out.ndim()));
    if (!param_.lhs_axes) {
      // The output has the shape of rhs.
      MergeShape(*this, "output", &out, rhs);
      MergeShape(*this, "rhs", &rhs, out);
      if (!out.rank_known()) return false;
      MergeShape(*this, "lhs", &lhs, TShape::OfRank(out.ndim()));
      return InferBroadcast(*this, "lhs", &lhs, rhs, &out) && rhs.known();
    }
    if (!lhs.rank_known() || !rhs.rank_known()) return false;
    const std::vector<int> left = AxisPositions(*this, "lhs_axes", *param_.lhs_axes, lhs.ndim());
    std::vector<bool> keeps(static_cast<size_t>(lhs.ndim()), true);
    TShape target = TShape::OfRank(lhs.ndim());
    for (size_t i = 0; i < left.size(); ++i) {
      const int right = AxisPosition(*this, "rhs_axes", (*param_.rhs_axes)[i], rhs.ndim());
      index_t& extent = rhs[right];
      if (extent == TShape::kUnknown) extent = out[left[i]];
      target[left[i]] = extent;
      keeps[static_cast<size_t>(left[i])] = false;
    }
    MeetExtents(keeps, &lhs, &out);
    return InferBroadcast(*this, "lhs", &lhs, target, &out) && rhs.known();
  }
  bool InferType(std::vector<DType>* in_type, std::vector<DType>* out_type) const override {
    ops_internal::MergeType(*this, "output", &(*out_type)[0], (*in_type)[0]);
    ops_internal::MergeType(*this, "lhs", &(*in_type)[0], (*out_type)[0]);
    if ((*in_type)[1] == DType::kUnknown) (*in_type)[1] = (*in_type)[0];
    return (*in_type)[0] != DType::kUnknown;
  }

 private:
  void CheckParameters() override {
    if (param_.lhs_axes.has_value() != param_.rhs_axes.has_value() ||
        (param_.lhs_axes &&
         (param_.lhs_axes->empty() || param_.lhs_axes->size() != param_.rhs_axes->size()))) {
      throw InvalidArgument(TypeString(), ": parameters lhs_axes and rhs_axes: expected as many ",
                            "axes, or None");
    }
  }
};

const bool kBroadcastLike = RegisterMove<BroadcastLikeProperty>(
    TESSERA_TABLE_PLACE, "broadcast_like",
    "lhs repeated along dimensions of extent 1, to the extents of rhs.", RepeatForward,
    RepeatBackward);

// tile.

struct TileParameters {
  std::vector<int64_t> reps;

  static void Declare(ParameterSchema<TileParameters>& schema) {
    schema.Required("reps", &TileParameters::reps,
                    "number of copies along each dimension, the last ones of data if fewer");
  }
};

/// Returns the copies along dimension d of the output.
index_t Copies(const TileParameters& param, int d, int rank) {
  const int i = d - (rank - static_cast<int>(param.reps.size()));
  return i < 0 ? 1 : param.reps[static_cast<size_t>(i)];
}

Dimensions DimensionsOf(const TileParameters& param, const TShape& in, const TShape& out) {
  Dimensions dimensions;
  const int missing = out.ndim() - in.ndim();
  for (int d = 0; d < out.ndim(); ++d) {
    dimensions.push_back({Copies(param, d, out.ndim()), true});
    dimensions.push_back({d < missing ? 1 : in[d - missing], false});
  }
  return dimensions;
}

class TileProperty final : public MoveProperty<TileParameters> {
 public:
  bool InferShape(std::vector<TShape>* in_shape, std::vector<TShape>* out_shape) const override {
    TShape& data = (*in_shape)[0];
    TShape& out = (*out_shape)[0];
    const int reps = static_cast<int>(param_.reps.size());
    if (!data.rank_known()) return false;
    const int rank = std::max(data.ndim(), reps), missing = rank - data.ndim();
    MergeShape(*this, "output", &out, TShape::OfRank(rank));
    TShape known = TShape::OfRank(rank);
    for (int d = 0; d < rank; ++d) {
      const index_t copies = Copies(param_, d, rank);
      if (d < missing) {
        known[d] = copies;
        continue;
      }
      index_t& extent = data[d - missing];
      if (extent == TShape::kUnknown && out[d] != TShape::kUnknown && copies > 0 &&
          out[d] % copies == 0) {
        extent = out[d] / copies;
      }
      known[d] = ProductOfExtents(*this, "output", TShape({extent, copies}), 0, 2);
    }
    MergeShape(*this, "output", &out, known);
    for (int d = 0; d < rank; ++d) {
      const index_t copies = Copies(param_, d, rank);
      if (d >= missing && out[d] != TShape::kUnknown && copies > 0 && out[d] % copies != 0) {
        throw InvalidArgument(TypeString(), ": output has shape ", out, ", expected a multiple of ",
                              copies, " in dimension ", d);
      }
    }
    return data.known() && out.known();
  }
  bool BuildGradient(GradientBuilder* builder) const override {
    return ops_internal::BuildLinearGradient(*this, builder);
  }

 private:
  void CheckParameters() override {
    const bool valid = param_.reps.size() <= TShape::kMaxRank &&
                       std::all_of(param_.reps.begin(), param_.reps.end(),
                                   [](int64_t count) { return count >= 1; });
    if (!valid) {
      throw InvalidArgument(TypeString(), ": parameter reps: ",
                            ops_internal::ParameterText<std::vector<int64_t>>::Print(param_.reps),
                            "; expected at most ", TShape::kMaxRank, " numbers, all at least 1");
    }
  }
};

const bool kTile = RegisterMove<TileProperty>(TESSERA_TABLE_PLACE, "tile",
                                              "Copies of data side by side along each dimension.",
                                              RepeatForward, RepeatBackward);

// repeat.

struct RepeatParameters {
  int64_t repeats = 1;
  std::optional<int64_t> axis;

  static void Declare(ParameterSchema<RepeatParameters>& schema) {
    schema.Required("repeats", &RepeatParameters::repeats, "number of copies of each element");
    schema.Range(0);
    schema.Optional("axis", &RepeatParameters::axis,
                    "dimension; by default data is flattened first");
  }
};

Dimensions DimensionsOf(const RepeatParameters& param, const TShape& in, const TShape&) {
  Dimensions dimensions;
  for (const index_t extent : in) dimensions.push_back({extent, false});
  const int axis = AxisPosition(param.axis, in.ndim()).value_or(in.ndim() - 1);
  dimensions.insert(dimensions.begin() + (axis + 1), {param.repeats, true});
  return dimensions;
}

class RepeatProperty final : public MoveProperty<RepeatParameters> {
 public:
  bool InferShape(std::vector<TShape>* in_shape, std::vector<TShape>* out_shape) const override {
    TShape& data = (*in_shape)[0];
    TShape& out = (*out_shape)[0];
    if (!data.rank_known()) return false;
    const auto repeated = [this](index_t extent) {
      return ProductOfExtents(*this, "output", TShape({extent, param_.repeats}), 0, 2);
    };
    if (!param_.axis) {
      const index_t size = ProductOfExtents(*this, "data", data, 0, data.ndim());
      MergeShape(*this, "output", &out, {repeated(size)});
      return data.known();
    }
    const int axis = AxisPosition(*this, "axis", *param_.axis, data.ndim());
    if (param_.repeats == 0) {  // MXNet makes the output a vector
      MergeShape(*this, "output", &out, {0});
      return data.known();
    }
    MergeShape(*this, "output", &out, TShape::OfRank(data.ndim()));
    TShape known = data;
    known[axis] = repeated(data[axis]);
    MergeShape(*this, "output", &out, known);
    for (int d = 0; d < data.ndim(); ++d) {
      if (d != axis) data[d] = out[d];
    }
    if (data[axis] == TShape::kUnknown && out[axis] != TShape::kUnknown) {
      if (out[axis] % param_.repeats != 0) {
        throw InvalidArgument(TypeString(), ": output has shape ", out, ", expected a multiple of ",
                              param_.repeats, " in dimension ", axis);
      }
      data[axis] = out[axis] / param_.repeats;
    }
    return data.known() && out.known();
  }
  bool BuildGradient(GradientBuilder* builder) const override {
    return ops_internal::BuildLinearGradient(*this, builder);
  }
};

const bool kRepeat = RegisterMove<RepeatProperty>(
    TESSERA_TABLE_PLACE, "repeat", "Each element of data several times, side by side.",
    RepeatForward, RepeatBackward);

}  // namespace
}  // namespace tessera
