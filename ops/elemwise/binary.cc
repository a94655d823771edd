#include "tessera/ops/elemwise/binary.h"

#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "tessera/base/error.h"
#include "tessera/ops/registry.h"
#include "tessera/ops/typed_operator.h"

namespace tessera::ops_internal {
namespace {

using enum OperandGradient;

/// The in-place options that the families have in common.
template <typename Parameters>
class BinaryFamilyProperty : public ParameterizedProperty<Parameters> {
 public:
  explicit BinaryFamilyProperty(const BinaryRow* row) : row_(*row) {}

  std::vector<InplacePair> ForwardInplaceOption(std::span<const int> in_data,
                                                std::span<const int> out_data) const override {
    std::vector<InplacePair> pairs;
    for (const int source : in_data) pairs.push_back({source, out_data[0]});
    return pairs;
  }
  std::vector<InplacePair> BackwardInplaceOption(std::span<const int> out_grad,
                                                 std::span<const int>, std::span<const int>,
                                                 std::span<const int> in_grad) const override {
    if (row_.left_form == kZero && row_.right_form == kZero) return {};
    // The last gradient is written first, while g is complete.
    return {{out_grad[0], in_grad[0]}};
  }

 protected:
  /// Returns whether the gradient of an operand, 0 for lhs and 1 for rhs, is a graph.
  bool HasGraph(int side) const {
    return (side == 0 ? row_.left_form : row_.right_form) == kZero || GraphOf(side) != nullptr;
  }
  /// Returns the form of the value, or of the gradient of operand `side`, for these operands.
  MapForm ValueForm(const MapForm::Operand& lhs, const MapForm::Operand& rhs) const {
    return {&row_.value, {lhs, rhs}};
  }
  MapForm FormOfGradient(int side, const MapForm::Operand& lhs, const MapForm::Operand& rhs) const {
    const MapFunction* const function = side == 0 ? &row_.left : &row_.right;
    switch (side == 0 ? row_.left_form : row_.right_form) {
      case kZero:
        break;
      case kLinear:
        return {function, {MapForm::OutGrad()}};
      case kOther:
        return {function, {MapForm::OutGrad(), side == 0 ? rhs : lhs}};
      case kBoth:
        return {function, {MapForm::OutGrad(), lhs, rhs}};
    }
    return {function, {MapForm::Of(0)}};
  }
  /// Returns the gradient of an operand.
  Term Gradient(int side, const Term& g, const Term& a, const Term& b, const Term& y) const {
    if ((side == 0 ? row_.left_form : row_.right_form) == kZero) return 0;
    return GraphOf(side)(g, a, b, y);
  }

  const BinaryRow& row_;

 private:
  BinaryGraph GraphOf(int side) const { return side == 0 ? row_.left_graph : row_.right_graph; }
};

/// The property of an operator of two arrays.
class TwoArraysProperty : public BinaryFamilyProperty<NoParameters> {
 public:
  using BinaryFamilyProperty::BinaryFamilyProperty;

  std::vector<std::string> ListArguments() const override { return {"lhs", "rhs"}; }
  std::optional<MapForm> ForwardForm() const override {
    return ValueForm(MapForm::Input(0), MapForm::Input(1));
  }
  std::optional<MapForm> GradientForm(int argument) const override {
    return FormOfGradient(argument, MapForm::Input(0), MapForm::Input(1));
  }
  std::vector<int> DeclareBackwardDependency(std::span<const int> out_grad,
                                             std::span<const int> in_data,
                                             std::span<const int>) const override {
    std::vector<int> needed;
    if (row_.left_form == kZero && row_.right_form == kZero) return needed;
    needed.push_back(out_grad[0]);
    const auto reads = [](OperandGradient own, OperandGradient of_other) {
      return own == kBoth || of_other == kBoth || of_other == kOther;
    };
    if (reads(row_.left_form, row_.right_form)) needed.push_back(in_data[0]);
    if (reads(row_.right_form, row_.left_form)) needed.push_back(in_data[1]);
    return needed;
  }

 protected:
  /// Builds the gradients, from values that are marked as `mark` says.
  template <typename Mark>
  bool BuildGradients(GradientBuilder* builder, const Mark& mark, Term* left, Term* right) const {
    if (!HasGraph(0) || !HasGraph(1)) return false;
    const auto term = [&](GradientBuilder::Value value) { return mark(Term(builder, value)); };
    const Term g = term(builder->OutGrad(0)), a = term(builder->Input(0)),
               b = term(builder->Input(1)), y = term(builder->Output(0));
    *left = Gradient(0, g, a, b, y);
    *right = Gradient(1, g, a, b, y);
    return true;
  }
};

class ElementwiseProperty final : public TwoArraysProperty {
 public:
  using TwoArraysProperty::TwoArraysProperty;

  bool InferShape(std::vector<TShape>* in_shape, std::vector<TShape>* out_shape) const override {
    TShape shape = (*in_shape)[0];
    MergeShape(*this, "rhs", &(*in_shape)[1], shape);
    shape = (*in_shape)[1];
    MergeShape(*this, "output", &(*out_shape)[0], shape);
    shape = (*out_shape)[0];
    MergeShape(*this, "lhs", &(*in_shape)[0], shape);
    MergeShape(*this, "rhs", &(*in_shape)[1], shape);
    return shape.known();
  }
  bool BuildGradient(GradientBuilder* builder) const override {
    Term left = 0, right = 0;
    if (!BuildGradients(builder, std::mem_fn(&Term::Whole), &left, &right)) return false;
    SetInGrad(builder, 0, left);
    SetInGrad(builder, 1, right);
    return true;
  }
};

class BroadcastProperty final : public TwoArraysProperty {
 public:
  using TwoArraysProperty::TwoArraysProperty;

  bool InferShape(std::vector<TShape>* in_shape, std::vector<TShape>* out_shape) const override {
    const TShape& lhs = (*in_shape)[0];
    const TShape& rhs = (*in_shape)[1];
    TShape& out = (*out_shape)[0];
    if (!lhs.rank_known() || !rhs.rank_known()) return false;
    TShape shape = TShape::OfRank(std::max(lhs.ndim(), rhs.ndim()));
    for (int i = 1; i <= shape.ndim(); ++i) {
      const index_t l = i <= lhs.ndim() ? lhs[lhs.ndim() - i] : 1;
      const index_t r = i <= rhs.ndim() ? rhs[rhs.ndim() - i] : 1;
      index_t& extent = shape[shape.ndim() - i];
      if (l == 1 || r == 1) {
        // The other extent, which may be unknown.
        extent = l == 1 ? r : l;
      } else if (l == TShape::kUnknown || r == TShape::kUnknown) {
        // It is 1 or the known extent.
        extent = std::max(l, r);
      } else if (l == r) {
        extent = l;
      } else {
        throw InvalidArgument(TypeString(), ": lhs of shape ", lhs, " and rhs of shape ", rhs,
                              " cannot be broadcast to one shape");
      }
    }
    MergeShape(*this, "output", &out, shape);
    return lhs.known() && rhs.known() && out.known();
  }
  std::vector<ResourceRequest> BackwardResource(std::span<const TShape> in_shape) const override {
    if (in_shape[0] == in_shape[1]) return {};
    return {{ResourceRequest::Type::kTempSpace}};
  }
  bool BuildGradient(GradientBuilder* builder) const override {
    Term left = 0, right = 0;
    if (!BuildGradients(builder, std::mem_fn(&Term::Broadcast), &left, &right)) return false;
    if (!left.is_number() && left.value() == right.value()) {
      const std::vector<Term> sums = SumsOfCopies(builder, left);
      SetInGrad(builder, 0, sums[0]);
      SetInGrad(builder, 1, sums[1]);
      return true;
    }
    SetInGrad(builder, 0, left.is_number() ? left : SumsOfCopies(builder, left)[0]);
    SetInGrad(builder, 1, right.is_number() ? right : SumsOfCopies(builder, right)[1]);
    return true;
  }

 private:
  /// Returns the sums of a gradient like the output over the copies of lhs's elements and of rhs's,
  /// which are the gradients of broadcast_add.
  static std::vector<Term> SumsOfCopies(GradientBuilder* builder, const Term& gradient) {
    return ApplyAdjoint(
        {.op = "broadcast_add",
         .out_grads = {gradient},
         .inputs = {Term(builder, builder->Input(0)), Term(builder, builder->Input(1))}});
  }
};

struct ScalarParameters {
  Number scalar = 1;
  bool is_int = true;

  static void Declare(ParameterSchema<ScalarParameters>& schema) {
    schema.Optional("scalar", &ScalarParameters::scalar, "the number");
    schema.Optional("is_int", &ScalarParameters::is_int, "accepted for MXNet's graphs; not used");
  }
};

class ScalarProperty final : public BinaryFamilyProperty<ScalarParameters> {
 public:
  ScalarProperty(const BinaryRow* row, bool is_reverse)
      : BinaryFamilyProperty(row),
        is_reverse_(is_reverse),
        form_(is_reverse ? row->right_form : row->left_form) {}

  std::vector<int> DeclareBackwardDependency(std::span<const int> out_grad,
                                             std::span<const int> in_data,
                                             std::span<const int>) const override {
    if (form_ == kZero) return {};
    if (form_ == kBoth) return {out_grad[0], in_data[0]};
    return {out_grad[0]};  // the other operand is the number
  }
  bool InferShape(std::vector<TShape>* in_shape, std::vector<TShape>* out_shape) const override {
    MergeShape(*this, "output", &(*out_shape)[0], (*in_shape)[0]);
    MergeShape(*this, "data", &(*in_shape)[0], (*out_shape)[0]);
    return (*in_shape)[0].known();
  }
  bool BuildGradient(GradientBuilder* builder) const override {
    const int side = is_reverse_ ? 1 : 0;
    if (!HasGraph(side)) return false;
    const Term g(builder, builder->OutGrad(0)), data(builder, builder->Input(0)),
        y(builder, builder->Output(0)), number(param_.scalar);
    const Term& a = is_reverse_ ? number : data;
    const Term& b = is_reverse_ ? data : number;
    SetInGrad(builder, 0, Gradient(side, g, a, b, y));
    return true;
  }
  std::optional<MapForm> ForwardForm() const override { return ValueForm(Lhs(), Rhs()); }
  std::optional<MapForm> GradientForm(int) const override {
    return FormOfGradient(is_reverse_ ? 1 : 0, Lhs(), Rhs());
  }

 private:
  MapForm::Operand Lhs() const {
    return is_reverse_ ? MapForm::Of(param_.scalar) : MapForm::Input(0);
  }
  MapForm::Operand Rhs() const {
    return is_reverse_ ? MapForm::Input(0) : MapForm::Of(param_.scalar);
  }

  const bool is_reverse_;
  const OperandGradient form_;
};

/// Computes the gradient of operand `side`, 0 for lhs and 1 for rhs, into the output of `call`.
/// add(call, i) adds operand i.
template <typename AddOperand>
void MapGradient(MapCall call, const BinaryRow& row, int side, const TBlob& g,
                 const AddOperand& add, const OpContext& context) {
  switch (side == 0 ? row.left_form : row.right_form) {
    case kZero:
      call.Add(0);
      break;
    case kLinear:
      call.Add(g);
      break;
    case kOther:
      call.Add(g);
      add(&call, 1 - side);
      break;
    case kBoth:
      call.Add(g);
      add(&call, 0);
      add(&call, 1);
      break;
  }
  call.Run(side == 0 ? row.left : row.right, context);
}

/// The operator of two arrays. The gradient of an array that was broadcast is a sum.
class TwoArrays final : public Operator {
 public:
  TwoArrays(const BinaryRow* row, const ReduceFunction* sum) : row_(*row), sum_(*sum) {}

  void Forward(const OpContext& context, std::span<const TBlob> in_data,
               std::span<const OpReqType> req, std::span<const TBlob> out_data) override {
    MapCall(out_data[0], req[0]).Add(in_data[0]).Add(in_data[1]).Run(row_.value, context);
  }

  void Backward(const OpContext& context, std::span<const TBlob> out_grad,
                std::span<const TBlob> in_data, std::span<const TBlob>,
                std::span<const OpReqType> req, std::span<const TBlob> in_grad) override {
    const TBlob& g = out_grad[0];
    const auto add = [&](MapCall* call, int i) { call->Add(in_data[static_cast<size_t>(i)]); };
    void* space = nullptr;  // as large as the head gradient, asked for once
    for (const int side : {1, 0}) {
      const TBlob& target = in_grad[static_cast<size_t>(side)];
      const OpReqType request = req[static_cast<size_t>(side)];
      if (request == kNullOp) continue;
      const OperandGradient form = side == 0 ? row_.left_form : row_.right_form;
      if (form == kZero || target.shape_.Size() == g.shape_.Size()) {
        MapGradient(MapCall(target, request), row_, side, g, add, context);
        continue;
      }
      const ReducedAxes axes = BroadcastAxes(g.shape_, target.shape_);
      if (g.shape_.Size() == 0) {  // sums of nothing
        Reduce(sum_, g, axes, target, request, context);
        continue;
      }
      if (space == nullptr) {
        space = WorkspaceArray(context, 0, g.shape_, g.type_flag_, g.device_).dptr_;
      }
      if (form == kLinear) {
        // The sum comes first, for it is cheaper.
        const TBlob total(space, target.shape_, g.type_flag_, g.device_);
        Reduce(sum_, g, axes, total, kWriteTo, context);
        MapGradient(MapCall(target, request), row_, side, total, add, context);
      } else {
        const TBlob whole(space, g.shape_, g.type_flag_, g.device_);
        MapGradient(MapCall(whole, kWriteTo), row_, side, g, add, context);
        Reduce(sum_, whole, axes, target, request, context);
      }
    }
  }

  std::optional<int64_t> BackwardWorkspaceBytes(int, std::span<const TBlob> out_grad,
                                                std::span<const TBlob>, std::span<const TBlob>,
                                                std::span<const OpReqType> req,
                                                std::span<const TBlob> in_grad) const override {
    const TBlob& g = out_grad[0];
    const auto is_sum = [&](size_t side) {
      const OperandGradient form = side == 0 ? row_.left_form : row_.right_form;
      return req[side] != kNullOp && form != kZero &&
             in_grad[side].shape_.Size() != g.shape_.Size();
    };
    return is_sum(0) || is_sum(1) ? g.shape_.Size() * DTypeSizeBytes(g.type_flag_) : 0;
  }

 private:
  const BinaryRow& row_;
  const ReduceFunction& sum_;
};

class ArrayAndNumber final : public Operator {
 public:
  ArrayAndNumber(const BinaryRow* row, const Number& number, bool is_reverse)
      : row_(*row), number_(number), data_side_(is_reverse ? 1 : 0) {}

  void Forward(const OpContext& context, std::span<const TBlob> in_data,
               std::span<const OpReqType> req, std::span<const TBlob> out_data) override {
    MapCall call(out_data[0], req[0]);
    for (const int side : {0, 1}) AddOperand(&call, side, in_data[0]);
    call.Run(row_.value, context);
  }

  void Backward(const OpContext& context, std::span<const TBlob> out_grad,
                std::span<const TBlob> in_data, std::span<const TBlob>,
                std::span<const OpReqType> req, std::span<const TBlob> in_grad) override {
    const auto add = [&](MapCall* call, int i) { AddOperand(call, i, in_data[0]); };
    MapGradient(MapCall(in_grad[0], req[0]), row_, data_side_, out_grad[0], add, context);
  }

 private:
  void AddOperand(MapCall* call, int side, const TBlob& data) const {
    if (side == data_side_) {
      call->Add(data);
    } else {
      call->Add(number_);
    }
  }

  const BinaryRow& row_;
  const Number number_;
  const int data_side_;
};

/// A row and the reducer for its gradients, which the registrations of its operators keep.
struct BinaryFunctions {
  BinaryRow row;
  ReduceFunction sum;
};

/// Registers an operator; `arguments` go to the constructor of its property behind the row.
template <typename Property, typename Create, typename... Arguments>
void Register(const TablePlace& place, std::string_view name,
              const std::shared_ptr<const BinaryFunctions>& functions, std::string_view operands,
              const Create& create, Arguments... arguments) {
  if (name.empty()) return;
  RegisterRow<Property>(
      place, name, std::string(functions->row.formula) + std::string(operands),
      [functions, arguments...] {
        return std::make_unique<Property>(&functions->row, arguments...);
      },
      create);
}

}  // namespace

bool RegisterBinary(TablePlace place, const ReduceFunction& sum, std::vector<BinaryRow> rows) {
  for (BinaryRow& entry : rows) {
    const bool is_arithmetic = entry.numbers == NumberBesideIntegers::kTruncate;
    entry.value.numbers = entry.numbers;
    entry.left.numbers = entry.right.numbers =
        is_arithmetic ? NumberBesideIntegers::kTruncate : NumberBesideIntegers::kExact;
    const auto functions =
        std::make_shared<const BinaryFunctions>(BinaryFunctions{std::move(entry), sum});
    const auto two_arrays = [functions](const OperatorProperty&, std::span<const TShape>,
                                        std::span<const DType>) -> std::unique_ptr<Operator> {
      return std::make_unique<TwoArrays>(&functions->row, &functions->sum);
    };
    const auto with_number = [functions](bool is_reverse) {
      return [functions, is_reverse](const OperatorProperty& property, std::span<const TShape>,
                                     std::span<const DType>) -> std::unique_ptr<Operator> {
        const Number number = static_cast<const ScalarProperty&>(property).param().scalar;
        return std::make_unique<ArrayAndNumber>(&functions->row, number, is_reverse);
      };
    };
    const BinaryRow& row = functions->row;
    Register<ElementwiseProperty>(place, row.elementwise, functions, ", of arrays of one shape.",
                                  two_arrays);
    Register<BroadcastProperty>(place, row.broadcast, functions,
                                ", of arrays that are broadcast to one shape.", two_arrays);
    Register<ScalarProperty>(place, row.scalar, functions, ", where lhs is data and rhs is scalar.",
                             with_number(false), /*is_reverse=*/false);
    Register<ScalarProperty>(place, row.reverse_scalar, functions,
                             ", where lhs is scalar and rhs is data.", with_number(true),
                             /*is_reverse=*/true);
  }
  return true;
}

}  // namespace tessera::ops_internal
