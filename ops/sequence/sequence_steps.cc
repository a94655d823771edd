// SequenceMask, SequenceLast and SequenceReverse: batches of sequences of different lengths.
//
//   SequenceMask     out[t][b] = t < length[b] ? data[t][b] : value
//   SequenceLast     out[b] = data[length[b] - 1][b]
//   SequenceReverse  out[t][b] = data[t < length[b] ? length[b] - 1 - t : t][b]
//
// Without use_sequence_length, every sequence is as long as data: SequenceMask copies. The
// gradients go back the same ways; masked elements have 0.
//
// Shapes: data (steps, batch, …), or (batch, steps, …) with axis=1, which SequenceReverse does not
// take; sequence_length (batch); out like data, that of SequenceLast without the steps. Types: data
// of any type; sequence_length of any type, whose fractions are cut off. Lengths are at least 0, or
// 1 for SequenceLast, and at most the number of steps, or more for SequenceMask; others throw
// Error(kOutOfRange). Runs on the CPU.
#include <algorithm>
#include <vector>

#include "tessera/ops/gradient_formula.h"
#include "tessera/ops/loops/movement.h"
#include "tessera/ops/loops/typed_row.h"
#include "tessera/ops/typed_operator.h"
#include "tessera/tensor/device/parallel.h"

namespace tessera {
namespace {

using namespace ops_internal;  // NOLINT: views and registration

enum class Kind { kMask, kLast, kReverse };

template <Kind kKind>
struct SequenceParameters {
  bool use_sequence_length = false;
  Number value;  // of SequenceMask
  int64_t axis = 0;

  static void Declare(ParameterSchema<SequenceParameters>& schema) {
    using P = SequenceParameters;
    schema.Optional("use_sequence_length", &P::use_sequence_length,
                    "whether there is an input sequence_length");
    if (kKind == Kind::kMask) schema.Optional("value", &P::value, "what masked elements become");
    schema.Optional("axis", &P::axis, "the axis of steps; the other of 0 and 1 is the batch");
    schema.Range(0, kKind == Kind::kReverse ? 0 : 1);
  }
};

template <Kind kKind>
class SequenceProperty final : public ParameterizedProperty<SequenceParameters<kKind>> {
 public:
  std::vector<std::string> ListArguments() const override {
    if (HasLengths()) return {"data", "sequence_length"};
    return {"data"};
  }
  bool ArgumentHasGradient(int argument) const override { return argument == 0; }

  bool InferShape(std::vector<TShape>* in_shape, std::vector<TShape>* out_shape) const override {
    TShape& data = (*in_shape)[0];
    TShape& out = (*out_shape)[0];
    const int axis = Axis();
    if (kKind != Kind::kLast) {
      MergeEqualShapes(*this, {{"data", &data}, {"output", &out}});
    } else if (!data.rank_known() && out.rank_known()) {
      if (out.ndim() < 1 || out.ndim() == TShape::kMaxRank) {
        throw InvalidArgument(this->TypeString(), ": output has shape ", out, ", expected 1 to ",
                              TShape::kMaxRank - 1, " dimensions");
      }
      data = TShape::OfRank(out.ndim() + 1);
    }
    TShape lengths = TShape::OfRank(1);
    if (data.rank_known()) {
      if (data.ndim() < 2) {
        throw InvalidArgument(this->TypeString(), ": data has shape ", data,
                              ", expected at least 2 dimensions");
      }
      if (kKind == Kind::kLast) {
        TShape rest = TShape::OfRank(data.ndim() - 1);
        for (int d = 0, next = 0; d < data.ndim(); ++d) {
          if (d != axis) rest[next++] = data[d];
        }
        MergeEqualShapes(*this, {{"data without the steps", &rest}, {"output", &out}});
        for (int d = 0, next = 0; d < data.ndim(); ++d) {
          if (d != axis) data[d] = rest[next++];
        }
        if (data[axis] == 0) {
          throw InvalidArgument(this->TypeString(), ": data has shape ", data,
                                ", expected at least one step on axis ", axis);
        }
      }
      lengths[0] = data[1 - axis];
    }
    if (HasLengths()) {
      MergeShape(*this, "sequence_length", &(*in_shape)[1], lengths);
      if (data.rank_known()) {
        data[1 - axis] = (*in_shape)[1][0];
        out[kKind == Kind::kLast ? 0 : 1 - axis] = data[1 - axis];
      }
    }
    return data.known();
  }

  bool InferType(std::vector<DType>* in_type, std::vector<DType>* out_type) const override {
    DType& data = (*in_type)[0];
    MergeType(*this, "output", &(*out_type)[0], data);
    data = (*out_type)[0];
    if (HasLengths() && (*in_type)[1] == DType::kUnknown) (*in_type)[1] = data;
    return data != DType::kUnknown;
  }

  std::vector<int> DeclareBackwardDependency(std::span<const int> out_grad,
                                             std::span<const int> in_data,
                                             std::span<const int>) const override {
    std::vector<int> needed = {out_grad[0]};
    if (HasLengths()) needed.push_back(in_data[1]);
    return needed;
  }
  std::vector<InplacePair> ForwardInplaceOption(std::span<const int> in_data,
                                                std::span<const int> out_data) const override {
    if (kKind != Kind::kMask) return {};
    return {{in_data[0], out_data[0]}};
  }
  std::vector<InplacePair> BackwardInplaceOption(std::span<const int> out_grad,
                                                 std::span<const int>, std::span<const int>,
                                                 std::span<const int> in_grad) const override {
    if (kKind != Kind::kMask) return {};
    return {{out_grad[0], in_grad[0]}};
  }
  bool BuildGradient(GradientBuilder* builder) const override {
    ParameterMap parameters = this->GetParams();
    if (kKind == Kind::kMask) parameters["value"] = NumberText(0);
    return BuildLinearGradient(*this, parameters, builder);
  }

 private:
  bool HasLengths() const { return this->param().use_sequence_length; }
  int Axis() const { return static_cast<int>(this->param().axis); }
};

/// Neighbouring sequences of one length.
struct Group {
  index_t first;
  index_t count;
  index_t length;
};

template <Kind kKind>
class SequenceOperator final : public Operator {
 public:
  explicit SequenceOperator(const SequenceParameters<kKind>& param) : param_(param) {}

  void Forward(const OpContext& context, std::span<const TBlob> in_data,
               std::span<const OpReqType> req, std::span<const TBlob> out_data) override {
    if (req[0] == kNullOp) return;
    const TBlob& data = in_data[0];
    ForEachGroup(data.shape_, in_data, [&](const Group& group) {
      const StridedView from = Sequences(data, group);
      switch (kKind) {
        case Kind::kMask:
          return Mask(from, Sequences(out_data[0], group), group.length, param_.value, req[0],
                      context);
        case Kind::kLast:
          return Move(Steps(from, group.length - 1, 1, 1), LastSteps(out_data[0], group), req[0],
                      context);
        case Kind::kReverse:
          return Reverse(from, Sequences(out_data[0], group), group.length, req[0], context);
      }
    });
  }

  void Backward(const OpContext& context, std::span<const TBlob> out_grad,
                std::span<const TBlob> in_data, std::span<const TBlob>,
                std::span<const OpReqType> req, std::span<const TBlob> in_grad) override {
    if (req[0] == kNullOp) return;
    const TBlob& grad = in_grad[0];
    if (kKind == Kind::kLast) MoveZeros(grad, req[0], context);
    ForEachGroup(grad.shape_, in_data, [&](const Group& group) {
      const StridedView to = Sequences(grad, group);
      switch (kKind) {
        case Kind::kMask:
          return Mask(Sequences(out_grad[0], group), to, group.length, 0, req[0], context);
        case Kind::kLast:
          return Move(LastSteps(out_grad[0], group), Steps(to, group.length - 1, 1, 1), req[0],
                      context);
        case Kind::kReverse:
          return Reverse(Sequences(out_grad[0], group), to, group.length, req[0], context);
      }
    });
  }

 private:
  index_t NumSteps(const TShape& data) const { return data[static_cast<int>(param_.axis)]; }
  index_t Batch(const TShape& data) const { return data[1 - static_cast<int>(param_.axis)]; }

  /// Calls function(group) for groups that together are the batch, in parallel.
  template <typename Function>
  void ForEachGroup(const TShape& data, std::span<const TBlob> in_data,
                    const Function& function) const {
    const std::vector<Group> groups = Groups(data, in_data);
    const index_t count = static_cast<index_t>(groups.size());
    ParallelFor(count, StepsPerTask(data.Size() / std::max<index_t>(1, count), 1),
                [&](index_t begin, index_t end) {
                  for (index_t i = begin; i < end; ++i) function(groups[static_cast<size_t>(i)]);
                });
  }

  std::vector<Group> Groups(const TShape& data, std::span<const TBlob> in_data) const {
    const index_t steps = NumSteps(data), batch = Batch(data);
    if (!param_.use_sequence_length) return {{0, batch, steps}};
    if (batch == 0) return {};
    std::vector<int64_t> lengths(static_cast<size_t>(batch));
    ReadIndices(in_data[1], 0, batch, lengths.data());
    std::vector<Group> groups;
    for (index_t b = 0; b < batch; ++b) {
      int64_t length = lengths[static_cast<size_t>(b)];
      if (kKind == Kind::kMask) length = std::min(length, steps);
      const int64_t least = kKind == Kind::kLast ? 1 : 0;
      if (length < least || length > steps) {
        throw OutOfRange("sequence_length[", b, "] is ", IndexText(length, in_data[1].type_flag_),
                         ", expected ", least, " to ", steps);
      }
      if (!groups.empty() && groups.back().length == length) {
        ++groups.back().count;
      } else {
        groups.push_back({b, 1, length});
      }
    }
    return groups;
  }

  /// Returns a group's elements as (steps, sequences, elements of a step).
  StridedView Sequences(const TBlob& data, const Group& group) const {
    const index_t steps = NumSteps(data.shape_), batch = Batch(data.shape_);
    const index_t width = data.shape_.ProdShape(2, data.shape_.ndim());
    StridedView view;
    view.data = data.dptr_;
    view.dtype = data.type_flag_;
    view.device = data.device_;
    view.Append(steps, param_.axis == 0 ? batch * width : width);
    view.Append(batch, param_.axis == 0 ? width : steps * width);
    view.Append(width, 1);
    view.Slice(1, group.first, 1, group.count);
    return view;
  }
  /// Returns a group's elements in the output of SequenceLast, as (1, sequences, elements).
  static StridedView LastSteps(const TBlob& out, const Group& group) {
    const index_t width = out.shape_.ProdShape(1, out.shape_.ndim());
    StridedView view(out, {1, out.shape_[0], width});
    view.Slice(1, group.first, 1, group.count);
    return view;
  }
  static StridedView Steps(StridedView view, index_t begin, index_t step, index_t count) {
    view.Slice(0, begin, step, count);
    return view;
  }

  static void Mask(const StridedView& from, const StridedView& to, index_t length,
                   const Number& value, OpReqType req, const OpContext& context) {
    const index_t rest = to.extents[0] - length;
    if (length > 0) Move(Steps(from, 0, 1, length), Steps(to, 0, 1, length), req, context);
    if (rest > 0) FillOnCpu(Steps(to, length, 1, rest), value, req, context);
  }
  static void Reverse(const StridedView& from, const StridedView& to, index_t length, OpReqType req,
                      const OpContext& context) {
    const index_t rest = to.extents[0] - length;
    if (length > 0) {
      Move(Steps(from, length - 1, -1, length), Steps(to, 0, 1, length), req, context);
    }
    if (rest > 0) Move(Steps(from, length, 1, rest), Steps(to, length, 1, rest), req, context);
  }

  const SequenceParameters<kKind> param_;
};

template <Kind kKind>
bool Register(const TablePlace& place, std::string_view name, std::string_view description) {
  return RegisterTypedOperator<SequenceProperty<kKind>, SequenceOperator<kKind>>(
      place, name, description, TakenTypes::kAny);
}

[[maybe_unused]] const bool kRegistered[] = {
    Register<Kind::kMask>(TESSERA_TABLE_PLACE, "SequenceMask",
                          "Sequences with a value after their ends."),
    Register<Kind::kLast>(TESSERA_TABLE_PLACE, "SequenceLast", "The last step of each sequence."),
    Register<Kind::kReverse>(TESSERA_TABLE_PLACE, "SequenceReverse",
                             "Sequences in the order of time reversed."),
};

}  // namespace
}  // namespace tessera
