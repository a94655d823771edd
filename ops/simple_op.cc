#include "tessera/ops/simple_op.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>

#include "tessera/base/error.h"
#include "tessera/ops/registry.h"

namespace tessera::ops_internal {
namespace {

/// Merges shapes that must be equal.
void MergeAll(const OperatorProperty& property, std::vector<TShape>* in_shape, TShape* out_shape) {
  const std::vector<std::string> names = property.ListArguments();
  TShape common = *out_shape;
  for (size_t i = 0; i < in_shape->size(); ++i) {
    MergeShape(property, names[i], &(*in_shape)[i], common);
    common = (*in_shape)[i];
  }
  for (TShape& shape : *in_shape) shape = common;
  *out_shape = common;
}

bool AllKnown(const std::vector<TShape>& shapes) {
  return std::all_of(shapes.begin(), shapes.end(), [](const TShape& s) { return s.known(); });
}

/// The parameter of an operator with a scalar, if it has one.
std::vector<ParameterField> ScalarField(const std::optional<double>& scalar) {
  using Text = ParameterText<double>;
  if (!scalar) return {};
  ParameterField field;
  field.info = {.name = "scalar",
                .type = std::string(Text::kType),
                .default_value = Text::Print(*scalar),
                .description = "the last argument of the function"};
  field.parse = [](void* value, std::string_view text) {
    *static_cast<double*>(value) = Text::Parse(text);
  };
  field.print = [](const void* value) { return Text::Print(*static_cast<const double*>(value)); };
  return {std::move(field)};
}

class ElementwiseProperty final : public OperatorProperty {
 public:
  explicit ElementwiseProperty(std::shared_ptr<const SimpleElementwiseOp> op)
      : op_(std::move(op)), scalar_(op_->scalar.value_or(0)) {}

  void Init(const ParameterMap& parameters) override {
    ParseParameters(TypeString(), ScalarField(op_->scalar), parameters, &scalar_);
  }
  ParameterMap GetParams() const override {
    ParameterMap text;
    for (const ParameterField& field : ScalarField(op_->scalar)) {
      text[field.info.name] = field.print(&scalar_);
    }
    return text;
  }
  double scalar() const { return scalar_; }

  std::vector<std::string> ListArguments() const override {
    if (op_->num_inputs == 1) return {"data"};
    return {"lhs", "rhs"};
  }
  bool InferShape(std::vector<TShape>* in_shape, std::vector<TShape>* out_shape) const override {
    MergeAll(*this, in_shape, &(*out_shape)[0]);
    return (*out_shape)[0].known();
  }
  std::vector<int> DeclareBackwardDependency(std::span<const int> out_grad,
                                             std::span<const int> in_data,
                                             std::span<const int>) const override {
    std::vector<int> ids = {out_grad[0]};
    ids.insert(ids.end(), in_data.begin(), in_data.end());
    return ids;
  }
  std::vector<InplacePair> ForwardInplaceOption(std::span<const int> in_data,
                                                std::span<const int> out_data) const override {
    std::vector<InplacePair> pairs;
    for (const int id : in_data) pairs.push_back({id, out_data[0]});
    return pairs;
  }
  std::vector<InplacePair> BackwardInplaceOption(std::span<const int> out_grad,
                                                 std::span<const int>, std::span<const int>,
                                                 std::span<const int> in_grad) const override {
    // The first gradient is written last.
    return {{out_grad[0], in_grad[0]}};
  }
  bool HasGradient() const override { return ArgumentHasGradient(0) || ArgumentHasGradient(1); }
  bool ArgumentHasGradient(int argument) const override {
    return op_->gradients[static_cast<size_t>(argument)].num_operands != 0;
  }
  std::optional<MapForm> ForwardForm() const override { return FormOf(op_->value, {}); }
  std::optional<MapForm> GradientForm(int argument) const override {
    return FormOf(op_->gradients[static_cast<size_t>(argument)], {MapForm::OutGrad()});
  }

 private:
  /// Returns the form of a function of `operands`, the inputs and the scalar.
  MapForm FormOf(const MapFunction& function, std::vector<MapForm::Operand> operands) const {
    for (int i = 0; i < op_->num_inputs; ++i) operands.push_back(MapForm::Input(i));
    if (op_->scalar) operands.push_back(MapForm::Of(scalar_));
    return {&function, std::move(operands)};
  }

  const std::shared_ptr<const SimpleElementwiseOp> op_;
  double scalar_;
};

class ElementwiseOperator final : public Operator {
 public:
  ElementwiseOperator(std::shared_ptr<const SimpleElementwiseOp> op, double scalar)
      : op_(std::move(op)), scalar_(scalar) {}

  void Forward(const OpContext& context, std::span<const TBlob> in_data,
               std::span<const OpReqType> req, std::span<const TBlob> out_data) override {
    if (req[0] == kNullOp) return;
    MapCall call(out_data[0], req[0]);
    Run(&call, in_data, op_->value, context);
  }

  void Backward(const OpContext& context, std::span<const TBlob> out_grad,
                std::span<const TBlob> in_data, std::span<const TBlob>,
                std::span<const OpReqType> req, std::span<const TBlob> in_grad) override {
    for (size_t i = in_data.size(); i-- > 0;) {
      if (req[i] == kNullOp) continue;
      MapCall call(in_grad[i], req[i]);
      call.Add(out_grad[0]);
      Run(&call, in_data, op_->gradients[i], context);
    }
  }

 private:
  void Run(MapCall* call, std::span<const TBlob> in_data, const MapFunction& function,
           const OpContext& context) const {
    for (const TBlob& blob : in_data) call->Add(blob);
    if (op_->scalar) call->Add(scalar_);
    call->Run(function, context);
  }

  const std::shared_ptr<const SimpleElementwiseOp> op_;
  const double scalar_;
};

class FunctionProperty final : public OperatorProperty {
 public:
  explicit FunctionProperty(std::shared_ptr<const SimpleOp> op) : op_(std::move(op)) {}

  void Init(const ParameterMap& parameters) override {
    ParseParameters(TypeString(), {}, parameters, nullptr);
  }
  ParameterMap GetParams() const override { return {}; }

  std::vector<std::string> ListArguments() const override { return op_->arguments; }
  bool InferShape(std::vector<TShape>* in_shape, std::vector<TShape>* out_shape) const override {
    if (op_->shape == nullptr) {
      MergeAll(*this, in_shape, &(*out_shape)[0]);
      return AllKnown(*out_shape);
    }
    if (!AllKnown(*in_shape)) return false;
    TShape shape;
    try {
      shape = op_->shape(*in_shape);
    } catch (const Error& error) {
      throw Error(error.code(), TypeString() + ": " + error.what());
    }
    MergeShape(*this, "output", &(*out_shape)[0], shape);
    return AllKnown(*out_shape);
  }
  bool HasGradient() const override { return op_->backward != nullptr; }

 private:
  const std::shared_ptr<const SimpleOp> op_;
};

class FunctionOperator final : public Operator {
 public:
  explicit FunctionOperator(std::shared_ptr<const SimpleOp> op) : op_(std::move(op)) {}

  void Forward(const OpContext& context, std::span<const TBlob> in_data,
               std::span<const OpReqType> req, std::span<const TBlob> out_data) override {
    if (req[0] != kNullOp) op_->forward(context, in_data, out_data[0]);
  }
  void Backward(const OpContext& context, std::span<const TBlob> out_grad,
                std::span<const TBlob> in_data, std::span<const TBlob> out_data,
                std::span<const OpReqType> req, std::span<const TBlob> in_grad) override {
    if (op_->backward == nullptr) {
      return Operator::Backward(context, out_grad, in_data, out_data, req, in_grad);
    }
    std::vector<TBlob> wanted(in_grad.begin(), in_grad.end());
    for (size_t i = 0; i < wanted.size(); ++i) {
      if (req[i] == kNullOp) wanted[i] = TBlob();
    }
    op_->backward(context, out_grad[0], in_data, out_data[0], wanted);
  }
  bool AcceptsAddTo() const override { return false; }

 private:
  const std::shared_ptr<const SimpleOp> op_;
};

/// Registers the property, if the table is the CPU's, and the implementation.
template <typename Property, typename Op, typename Create>
Registration Register(const TablePlace& place, std::string_view name,
                      const std::shared_ptr<const Op>& op, std::vector<ParameterInfo> infos,
                      Create create) {
  OperatorRegistration registration{.name = name, .file = place.file, .line = place.line};
  if (place.device == DeviceType::kCpu) {
    registration.create_property = [op] { return std::make_unique<Property>(op); };
    registration.describe_parameters = [infos = std::move(infos)] { return infos; };
  }
  registration.implementation = {
      .device = place.device, .name = "native", .create = std::move(create)};
  return Registration(OperatorRegistry::Get().Register(std::move(registration)));
}

}  // namespace

Registration RegisterSimpleOp(const TablePlace& place, std::string_view name, SimpleOp op) {
  if (op.forward == nullptr) throw Internal(name, ": a SimpleOp needs the function forward");
  const auto shared = std::make_shared<const SimpleOp>(std::move(op));
  return Register<FunctionProperty>(
      place, name, shared, {},
      [shared](const OperatorProperty& property, std::span<const TShape>,
               std::span<const DType> in_type) -> std::unique_ptr<Operator> {
        if (!in_type.empty()) VisitRealDType(in_type[0], property.TypeString(), [](auto) {});
        return std::make_unique<FunctionOperator>(shared);
      });
}

Registration RegisterSimpleOp(const TablePlace& place, std::string_view name,
                              SimpleElementwiseOp op) {
  const auto shared = std::make_shared<const SimpleElementwiseOp>(std::move(op));
  std::vector<ParameterInfo> infos;
  for (const ParameterField& field : ScalarField(shared->scalar)) infos.push_back(field.info);
  return Register<ElementwiseProperty>(
      place, name, shared, std::move(infos),
      [shared](const OperatorProperty& property, std::span<const TShape>,
               std::span<const DType>) -> std::unique_ptr<Operator> {
        return std::make_unique<ElementwiseOperator>(
            shared, static_cast<const ElementwiseProperty&>(property).scalar());
      });
}

}  // namespace tessera::ops_internal
