// Arrays side by side, and one array cut into several: Concat, stack, SliceChannel, _split_v2. The
// gradients are the same parts of the head gradients. All element types.
#include <algorithm>
#include <iterator>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tessera/base/checked_size.h"
#include "tessera/ops/gradient_formula.h"
#include "tessera/ops/loops/axes.h"
#include "tessera/ops/loops/movement.h"
#include "tessera/ops/loops/sparse/sparse_parts.h"
#include "tessera/ops/sparse.h"

namespace tessera {
namespace {

using ops_internal::AxisPosition;
using ops_internal::Move;
using ops_internal::MoveCall;
using ops_internal::MoveProperty;
using ops_internal::NumberedNames;
using ops_internal::RegisterMove;
using ops_internal::StridedView;

/// Infers shapes of arrays that lie side by side along `axis` of a whole, all of one rank.
bool InferParts(const OperatorProperty& property, int rank, int axis,
                const std::vector<std::string>& names, std::vector<TShape>* parts,
                std::string_view whole_name, TShape* whole) {
  TShape common = TShape::OfRank(rank);
  const auto merge_others = [&](std::string_view name, const TShape& shape) {
    TShape others = shape;
    if (others.ndim() > axis) others[axis] = TShape::kUnknown;
    if (!others.Merge(common)) {
      throw InvalidArgument(property.TypeString(), ": ", name, " has shape ", shape, ", expected ",
                            common, " outside of dimension ", axis);
    }
    common = others;
  };
  for (size_t i = 0; i < parts->size(); ++i) merge_others(names[i], (*parts)[i]);
  merge_others(whole_name, *whole);
  MergeShape(property, whole_name, whole, common);
  CheckedSize sum = 0;
  index_t* unknown = nullptr;
  int num_unknown = 0;
  for (size_t i = 0; i < parts->size(); ++i) {
    MergeShape(property, names[i], &(*parts)[i], common);
    index_t& extent = (*parts)[i][axis];
    if (extent == TShape::kUnknown) {
      unknown = &extent;
      ++num_unknown;
    } else {
      sum = sum + extent;
    }
  }
  if (!sum.valid()) {
    throw InvalidArgument(property.TypeString(), ": ", whole_name, ": the sum of the extents of ",
                          "dimension ", axis, " does not fit in 63 bits");
  }
  if (num_unknown == 1 && (*whole)[axis] != TShape::kUnknown) {
    *unknown = (*whole)[axis] - *sum.value();
    if (*unknown < 0) {
      throw InvalidArgument(property.TypeString(), ": ", whole_name, " has shape ", *whole,
                            ", expected at least ", *sum.value(), " in dimension ", axis);
    }
  } else if (num_unknown == 0) {
    TShape known = common;
    known[axis] = *sum.value();
    MergeShape(property, whole_name, whole, known);
  }
  return whole->known() &&
         std::all_of(parts->begin(), parts->end(), [](const TShape& s) { return s.known(); });
}

TShape WithAxis(const TShape& shape, int axis, index_t extent) {
  if (!shape.rank_known() || shape.ndim() < axis) return shape;
  std::vector<index_t> extents(shape.begin(), shape.end());
  extents.insert(extents.begin() + axis, extent);
  return TShape(std::span<const index_t>(extents));
}

TShape WithoutAxis(const TShape& shape, int axis) {
  std::vector<index_t> extents(shape.begin(), shape.end());
  extents.erase(extents.begin() + axis);
  return TShape(std::span<const index_t>(extents));
}

/// The part of a whole along an axis.
StridedView PartOf(const TBlob& whole, int axis, index_t begin, index_t extent) {
  StridedView view(whole);
  view.Slice(axis, begin, 1, extent);
  return view;
}

/// The rank that the known shapes have, where parts lack `missing` of the whole's dimensions.
int RankOfWhole(const TShape& whole, const std::vector<TShape>& parts, int missing) {
  if (whole.rank_known()) return whole.ndim();
  for (const TShape& part : parts) {
    if (part.rank_known()) return part.ndim() + missing;
  }
  return -1;
}

// Concat and stack.

struct ConcatParameters {
  int num_args = 1;
  int64_t dim = 1;

  static void Declare(ParameterSchema<ConcatParameters>& schema) {
    schema.Required("num_args", &ConcatParameters::num_args, "number of arrays");
    schema.Range(1, 1 << 20);
    schema.Optional("dim", &ConcatParameters::dim, "dimension along which they lie side by side");
  }
};

class ConcatProperty : public MoveProperty<ConcatParameters> {
 public:
  std::vector<std::string> ListArguments() const override {
    return NumberedNames("arg", param_.num_args);
  }
  bool InferShape(std::vector<TShape>* in_shape, std::vector<TShape>* out_shape) const override {
    TShape& out = (*out_shape)[0];
    const int rank = RankOfWhole(out, *in_shape, 0);
    if (rank < 0) return false;
    const int axis = AxisPosition(*this, "dim", param_.dim, rank);
    return InferParts(*this, rank, axis, ListArguments(), in_shape, "output", &out);
  }
  bool BuildGradient(GradientBuilder* builder) const override {
    return ops_internal::BuildLinearGradient(*this, builder);
  }
};

/// Concat along the one dimension of arrays that together are an RNN's parameters.
class RnnParamConcatProperty final : public ConcatProperty {
 public:
  bool InferShape(std::vector<TShape>* in_shape, std::vector<TShape>* out_shape) const override {
    if (ConcatProperty::InferShape(in_shape, out_shape)) return true;
    const TShape& whole = (*out_shape)[0];
    if (!whole.known() || whole.ndim() != 1) return false;
    // Once others are known, weights of unknown size are those that the data's width decides: the
    // first layer's, of one size in each direction.
    index_t rest = whole[0], num_unknown = 0;
    for (const TShape& part : *in_shape) {
      if (part.known()) {
        rest -= part[0];
      } else {
        ++num_unknown;
      }
    }
    if (num_unknown == 0 || num_unknown == std::ssize(*in_shape)) return false;
    if (rest < 0 || rest % num_unknown != 0) return false;
    for (TShape& part : *in_shape) {
      if (!part.known()) part = TShape{rest / num_unknown};
    }
    return true;
  }
};

template <bool kForward>
void MoveConcat(const MoveCall<ConcatParameters>& call, std::span<const TBlob> from,
                std::span<const OpReqType> req, std::span<const TBlob> to) {
  if (kForward && req[0] == kNullOp) return;
  const int axis = AxisPosition(call.param.dim, call.in_shape[0].ndim());
  const TBlob& whole = kForward ? to[0] : from[0];
  index_t begin = 0;
  for (size_t i = 0; i < call.in_shape.size(); ++i) {
    const index_t extent = call.in_shape[i][axis];
    if (kForward) {
      Move(StridedView(from[i]), PartOf(whole, axis, begin, extent), req[0], call.context);
    } else if (req[i] != kNullOp) {
      Move(PartOf(whole, axis, begin, extent), StridedView(to[i]), req[i], call.context);
    }
    begin += extent;
  }
}

const bool kConcat = RegisterMove<ConcatProperty>(TESSERA_TABLE_PLACE, "Concat",
                                                  "Arrays side by side along a dimension.",
                                                  MoveConcat<true>, MoveConcat<false>);
const bool kRnnParamConcat = RegisterMove<RnnParamConcatProperty>(
    TESSERA_TABLE_PLACE, "_rnn_param_concat", "The parameters of an RNN's layers in one array.",
    MoveConcat<true>, MoveConcat<false>);

/// Concat of csr arrays along the first dimension. Its gradients are computed on dense arrays.
class ConcatForm final : public SparseForm {
 public:
  std::optional<StorageTypes> Infer(const OperatorProperty& property,
                                    std::span<const StorageType> in,
                                    std::span<const StorageType>) const override {
    const bool is_csr = std::all_of(in.begin(), in.end(),
                                    [](StorageType type) { return type == StorageType::kCsr; });
    if (!is_csr || !IsOfRows(property)) return std::nullopt;
    return StorageTypes{StorageType::kCsr};
  }
  void Forward(const OperatorProperty&, std::span<SparseBlob> in, std::span<const OpReqType> req,
               std::span<SparseBlob> out) const override {
    if (req[0] != kNullOp) ops_internal::ConcatCsr(in, &out[0]);
  }

 private:
  static bool IsOfRows(const OperatorProperty& property) {
    const int64_t dim = static_cast<const ConcatProperty&>(property).param().dim;
    return dim == 0 || dim == -2;
  }
};

const bool kConcatForm = RegisterSparseForm("Concat", std::make_unique<ConcatForm>());

struct StackParameters {
  int64_t axis = 0;
  int num_args = 1;

  static void Declare(ParameterSchema<StackParameters>& schema) {
    schema.Optional("axis", &StackParameters::axis, "position of the new dimension");
    schema.Required("num_args", &StackParameters::num_args, "number of arrays");
    schema.Range(1, 1 << 20);
  }
};

class StackProperty final : public MoveProperty<StackParameters> {
 public:
  std::vector<std::string> ListArguments() const override {
    return NumberedNames("arg", param_.num_args);
  }
  bool InferShape(std::vector<TShape>* in_shape, std::vector<TShape>* out_shape) const override {
    TShape& out = (*out_shape)[0];
    const int rank = RankOfWhole(out, *in_shape, 1);
    if (rank < 0) return false;
    const int axis = AxisPosition(*this, "axis", param_.axis, rank);
    if (rank > TShape::kMaxRank) {
      throw InvalidArgument(TypeString(), ": the output would have rank ", rank,
                            ", expected at most ", TShape::kMaxRank);
    }
    std::vector<TShape> parts;
    for (size_t i = 0; i < in_shape->size(); ++i) {
      const TShape& shape = (*in_shape)[i];
      if (shape.rank_known() && shape.ndim() != rank - 1) {
        throw InvalidArgument(TypeString(), ": arg", i, " has shape ", shape, ", expected rank ",
                              rank - 1);
      }
      parts.push_back(shape.rank_known() ? WithAxis(shape, axis, 1) : TShape::OfRank(rank));
      parts.back()[axis] = 1;
    }
    const bool known = InferParts(*this, rank, axis, ListArguments(), &parts, "output", &out);
    for (size_t i = 0; i < parts.size(); ++i) (*in_shape)[i] = WithoutAxis(parts[i], axis);
    return known;
  }
  bool BuildGradient(GradientBuilder* builder) const override {
    return ops_internal::BuildLinearGradient(*this, builder);
  }
};

template <bool kForward>
void MoveStack(const MoveCall<StackParameters>& call, std::span<const TBlob> from,
               std::span<const OpReqType> req, std::span<const TBlob> to) {
  if (kForward && req[0] == kNullOp) return;
  const int axis = AxisPosition(call.param.axis, call.in_shape[0].ndim() + 1);
  const TShape shape = WithAxis(call.in_shape[0], axis, 1);
  for (size_t i = 0; i < call.in_shape.size(); ++i) {
    const auto begin = static_cast<index_t>(i);
    if (kForward) {
      Move(StridedView(from[i], shape), PartOf(to[0], axis, begin, 1), req[0], call.context);
    } else if (req[i] != kNullOp) {
      Move(PartOf(from[0], axis, begin, 1), StridedView(to[i], shape), req[i], call.context);
    }
  }
}

const bool kStack = RegisterMove<StackProperty>(TESSERA_TABLE_PLACE, "stack",
                                                "Arrays side by side along a new dimension.",
                                                MoveStack<true>, MoveStack<false>);

// SliceChannel and _split_v2.

/// A property whose outputs lie side by side in the input.
template <typename Parameters>
class SplitProperty : public MoveProperty<Parameters> {
 public:
  bool InferShape(std::vector<TShape>* in_shape, std::vector<TShape>* out_shape) const override {
    TShape& data = (*in_shape)[0];
    const bool squeezes = this->param_.squeeze_axis;
    const int rank = RankOfWhole(data, *out_shape, squeezes ? 1 : 0);
    if (rank < 0) return false;
    const int axis = AxisPosition(*this, "axis", this->param_.axis, rank);
    const std::vector<std::string> names = this->ListOutputs();
    std::vector<TShape> parts = *out_shape;
    for (size_t i = 0; i < parts.size(); ++i) {
      if (squeezes) parts[i] = WithAxis(parts[i], axis, 1);
      if (!parts[i].rank_known()) parts[i] = TShape::OfRank(rank);
      if (parts[i].ndim() != rank) {
        throw InvalidArgument(this->TypeString(), ": ", names[i], " has shape ", (*out_shape)[i],
                              ", expected rank ", squeezes ? rank - 1 : rank);
      }
      if (squeezes) parts[i][axis] = 1;
    }
    MergeShape(*this, "data", &data, TShape::OfRank(rank));
    if (data[axis] != TShape::kUnknown) {
      const std::vector<index_t> begins = Begins(data, axis);
      for (size_t i = 0; i < parts.size(); ++i) {
        TShape part = TShape::OfRank(rank);
        part[axis] = begins[i + 1] - begins[i];
        MergeShape(*this, names[i], &parts[i], part);
      }
    } else {
      ExtentsOfOthers(axis, &parts);
    }
    const bool known = InferParts(*this, rank, axis, names, &parts, "data", &data);
    // Parts that are known determine the input, and must be those that it is cut into.
    if (data[axis] != TShape::kUnknown) Begins(data, axis);
    for (size_t i = 0; i < parts.size(); ++i) {
      (*out_shape)[i] = squeezes ? WithoutAxis(parts[i], axis) : parts[i];
    }
    return known;
  }
  bool BuildGradient(GradientBuilder* builder) const override {
    return ops_internal::BuildLinearGradient(*this, builder);
  }

  /// Returns the begin of each part along `axis` of data, and the end of the last.
  virtual std::vector<index_t> Begins(const TShape& data, int axis) const = 0;

 protected:
  /// Infers extents of parts from those of other parts.
  virtual void ExtentsOfOthers(int axis, std::vector<TShape>* parts) const = 0;
};

struct SliceChannelParameters {
  int num_outputs = 1;
  int64_t axis = 1;
  bool squeeze_axis = false;

  static void Declare(ParameterSchema<SliceChannelParameters>& schema) {
    using P = SliceChannelParameters;
    schema.Required("num_outputs", &P::num_outputs, "number of parts, which have one size");
    schema.Range(1, 1 << 20);
    schema.Optional("axis", &P::axis, "dimension that is cut");
    schema.Optional("squeeze_axis", &P::squeeze_axis, "leave that dimension out, of extent 1");
  }
};

std::vector<index_t> EqualBegins(index_t extent, int64_t count) {
  std::vector<index_t> begins;
  for (int64_t i = 0; i <= count; ++i) begins.push_back(extent / count * i);
  return begins;
}

class SliceChannelProperty final : public SplitProperty<SliceChannelParameters> {
 public:
  std::vector<std::string> ListOutputs() const override {
    return NumberedNames("output", param_.num_outputs);
  }
  std::vector<index_t> Begins(const TShape& data, int axis) const override {
    if (data[axis] % param_.num_outputs != 0) {
      throw InvalidArgument(TypeString(), ": data has shape ", data, ", whose dimension ", axis,
                            " cannot be cut into ", param_.num_outputs, " equal parts");
    }
    return EqualBegins(data[axis], param_.num_outputs);
  }

 private:
  void ExtentsOfOthers(int axis, std::vector<TShape>* parts) const override {
    index_t extent = TShape::kUnknown;
    for (const TShape& part : *parts) extent = std::max(extent, part[axis]);
    for (TShape& part : *parts) {
      if (part[axis] == TShape::kUnknown) part[axis] = extent;
    }
  }
};

struct SplitV2Parameters {
  std::vector<int64_t> indices;
  int64_t axis = 1;
  bool squeeze_axis = false;
  int sections = 0;

  static void Declare(ParameterSchema<SplitV2Parameters>& schema) {
    using P = SplitV2Parameters;
    schema.Required("indices", &P::indices, "first position of each part; the first is 0");
    schema.Optional("axis", &P::axis, "dimension that is cut");
    schema.Optional("squeeze_axis", &P::squeeze_axis, "leave that dimension out, of extent 1");
    schema.Optional("sections", &P::sections,
                    "if not 0, the number of parts, of which the first may be larger by one");
    schema.Range(0, 1 << 20);
  }
};

std::vector<index_t> SplitV2Begins(const SplitV2Parameters& param, index_t extent) {
  std::vector<index_t> begins(param.indices);
  if (param.sections > 0) {
    begins.clear();
    const index_t size = extent / param.sections, larger = extent % param.sections;
    for (index_t i = 0; i < param.sections; ++i) begins.push_back(i * size + std::min(i, larger));
  }
  begins.push_back(extent);
  return begins;
}

class SplitV2Property final : public SplitProperty<SplitV2Parameters> {
 public:
  std::vector<std::string> ListOutputs() const override {
    const auto count =
        static_cast<int64_t>(param_.sections > 0 ? param_.sections : param_.indices.size());
    if (count == 1) return {"output"};
    return NumberedNames("output", count);
  }
  std::vector<index_t> Begins(const TShape& data, int axis) const override {
    std::vector<index_t> begins = SplitV2Begins(param_, data[axis]);
    if (begins[begins.size() - 2] > data[axis]) {
      throw InvalidArgument(TypeString(), ": data has shape ", data, ", expected at least ",
                            begins[begins.size() - 2], " in dimension ", axis,
                            ", as parameter indices says");
    }
    return begins;
  }

 private:
  void CheckParameters() override {
    if (param_.sections > 0) return;
    const bool ascends = std::is_sorted(param_.indices.begin(), param_.indices.end());
    if (param_.indices.empty() || param_.indices[0] != 0 || !ascends) {
      throw InvalidArgument(
          TypeString(), ": parameter indices: ",
          ops_internal::ParameterText<std::vector<int64_t>>::Print(param_.indices),
          " are not ascending positions from 0 on");
    }
  }
  void ExtentsOfOthers(int axis, std::vector<TShape>* parts) const override {
    if (param_.sections > 0) return;
    for (size_t i = 0; i + 1 < parts->size(); ++i) {
      TShape known = TShape::OfRank((*parts)[i].ndim());
      known[axis] = param_.indices[i + 1] - param_.indices[i];
      MergeShape(*this, "output" + std::to_string(i), &(*parts)[i], known);
    }
  }
};

template <bool kForward>
void MoveSplit(int axis, bool squeezes, const std::vector<index_t>& begins,
               const OpContext& context, std::span<const TBlob> from,
               std::span<const OpReqType> req, std::span<const TBlob> to) {
  const size_t count = begins.size() - 1;
  for (size_t i = 0; i < count; ++i) {
    const OpReqType request = kForward ? req[i] : req[0];
    if (request == kNullOp) continue;
    const TBlob& part = kForward ? to[i] : from[i];
    const TShape shape = squeezes ? WithAxis(part.shape_, axis, 1) : part.shape_;
    const StridedView of_whole =
        PartOf(kForward ? from[0] : to[0], axis, begins[i], begins[i + 1] - begins[i]);
    if (kForward) {
      Move(of_whole, StridedView(part, shape), request, context);
    } else {
      Move(StridedView(part, shape), of_whole, request, context);
    }
  }
}

template <bool kForward>
void MoveSliceChannel(const MoveCall<SliceChannelParameters>& call, std::span<const TBlob> from,
                      std::span<const OpReqType> req, std::span<const TBlob> to) {
  const auto& param = call.param;
  const int axis = AxisPosition(param.axis, call.in_shape[0].ndim());
  MoveSplit<kForward>(axis, param.squeeze_axis,
                      EqualBegins(call.in_shape[0][axis], param.num_outputs), call.context, from,
                      req, to);
}

template <bool kForward>
void MoveSplitV2(const MoveCall<SplitV2Parameters>& call, std::span<const TBlob> from,
                 std::span<const OpReqType> req, std::span<const TBlob> to) {
  const auto& param = call.param;
  const int axis = AxisPosition(param.axis, call.in_shape[0].ndim());
  MoveSplit<kForward>(axis, param.squeeze_axis, SplitV2Begins(param, call.in_shape[0][axis]),
                      call.context, from, req, to);
}

const bool kSliceChannel = RegisterMove<SliceChannelProperty>(
    TESSERA_TABLE_PLACE, "SliceChannel", "data cut into equal parts along a dimension.",
    MoveSliceChannel<true>, MoveSliceChannel<false>);
const bool kSplitV2 = RegisterMove<SplitV2Property>(TESSERA_TABLE_PLACE, "_split_v2",
                                                    "data cut into parts at given positions.",
                                                    MoveSplitV2<true>, MoveSplitV2<false>);

}  // namespace
}  // namespace tessera
