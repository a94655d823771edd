// _adjoint: the gradient of a linear operator, as an operator that has a gradient itself.
//
//   f(x) = A x:        out = A^T g                            d g = A v
//   f(a, b) = A(a) b:  out = d f / d a applied to g           d g = f(v, b), d b = d f / d b
//                                                             applied to g at (v, b)
//
// v is out's head gradient. `op` and `parameters` are f. Without `argument`, f is linear in all its
// arguments with a gradient together, and the outputs are the gradients of these. With `argument`,
// f has one output and is linear in this argument and in each other one with a gradient, while the
// rest is fixed, and the output is the gradient of this argument. Inputs: the head gradients of f's
// outputs, then all inputs of f, of which those that f is linear in together, or `argument`, are
// read for their shapes alone. Shapes, types and devices are those of f and its Backward.
#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tessera/base/at.h"
#include "tessera/base/error.h"
#include "tessera/ops/gradient_builder.h"
#include "tessera/ops/registry.h"
#include "tessera/ops/table.h"

namespace tessera {
namespace {

using base_internal::At;

struct AdjointParameters {
  std::string op;
  std::string parameters;
  std::optional<int> argument;

  static void Declare(ParameterSchema<AdjointParameters>& schema) {
    using P = AdjointParameters;
    schema.Required("op", &P::op, "the linear operator");
    schema.Optional("parameters", &P::parameters, "its parameters: name=value;name=value");
    schema.Optional("argument", &P::argument,
                    "the argument in which it is linear while the others are fixed; None if it is "
                    "linear in all with a gradient together");
  }
};

class AdjointProperty final : public ParameterizedProperty<AdjointParameters> {
 public:
  /// Returns the linear operator's property.
  const std::shared_ptr<const OperatorProperty>& linear() const { return linear_; }
  /// Returns the number of the linear operator's outputs.
  int num_out_grads() const { return num_out_grads_; }
  /// Returns the linear operator's arguments whose gradients are the outputs.
  const std::vector<int>& targets() const { return targets_; }
  bool has_argument() const { return param_.argument.has_value(); }

  std::vector<std::string> ListArguments() const override {
    std::vector<std::string> names = linear_->ListOutputs();
    for (std::string& name : names) name += "_grad";
    names.insert(names.end(), inputs_.begin(), inputs_.end());
    return names;
  }
  std::vector<std::string> ListOutputs() const override {
    std::vector<std::string> names;
    for (const int i : targets_) names.push_back(inputs_[At(i)] + "_grad");
    return names;
  }

  bool InferShape(std::vector<TShape>* in_shape, std::vector<TShape>* out_shape) const override {
    const auto merge = [this](int target, TShape* known, TShape* shape) {
      MergeShape(*this, inputs_[At(target)], shape, *known);
    };
    const auto infer = [this](auto* in, auto* out) { linear_->InferShape(in, out); };
    Infer(in_shape, out_shape, merge, infer);
    const auto known = [](const TShape& shape) { return shape.known(); };
    return std::all_of(in_shape->begin(), in_shape->end(), known) &&
           std::all_of(out_shape->begin(), out_shape->end(), known);
  }
  bool InferType(std::vector<DType>* in_type, std::vector<DType>* out_type) const override {
    const auto merge = [this](int target, const DType* known, DType* dtype) {
      if (*known == DType::kUnknown) return;
      if (*dtype != DType::kUnknown && *dtype != *known) {
        throw InvalidArgument(TypeString(), ": ", inputs_[At(target)], " has element type ", *dtype,
                              ", expected that of its gradient, ", *known);
      }
      *dtype = *known;
    };
    const auto infer = [this](auto* in, auto* out) { linear_->InferType(in, out); };
    Infer(in_type, out_type, merge, infer);
    const auto known = [](DType dtype) { return dtype != DType::kUnknown; };
    return std::all_of(in_type->begin(), in_type->end(), known) &&
           std::all_of(out_type->begin(), out_type->end(), known);
  }

  std::vector<ResourceRequest> ForwardResource(std::span<const TShape> in_shape) const override {
    return linear_->BackwardResource(in_shape.subspan(At(num_out_grads())));
  }
  /// Returns what Forward of the linear operator needs, then what Backward does.
  std::vector<ResourceRequest> BackwardResource(std::span<const TShape> in_shape) const override {
    auto requests = linear_->ForwardResource(in_shape.subspan(At(num_out_grads())));
    const auto more = ForwardResource(in_shape);
    requests.insert(requests.end(), more.begin(), more.end());
    return requests;
  }
  std::vector<int> DeclareBackwardDependency(std::span<const int> out_grad,
                                             std::span<const int> in_data,
                                             std::span<const int>) const override {
    std::vector<int> needed(out_grad.begin(), out_grad.end());
    // The gradient of a linear function does not depend on the point.
    const size_t first = has_argument() ? 0 : At(num_out_grads());
    needed.insert(needed.end(), in_data.begin() + static_cast<ptrdiff_t>(first), in_data.end());
    return needed;
  }

  bool ArgumentHasGradient(int argument) const override {
    const int input = argument - num_out_grads();
    return input < 0 || IsOtherFactor(input);
  }
  bool BuildGradient(GradientBuilder* builder) const override {
    const int num_inputs = static_cast<int>(inputs_.size());
    std::vector<GradientBuilder::Value> values;
    for (int i = 0; i < num_inputs; ++i) values.push_back(builder->Input(num_out_grads() + i));
    for (size_t k = 0; k < targets_.size(); ++k) {
      values[At(targets_[k])] = builder->OutGrad(static_cast<int>(k));
    }
    // A conversion's output has the type that is wanted, here that of g.
    const bool converts = param_.op == "_copyto";
    if (converts) values.push_back(builder->Input(0));
    const auto of_g = converts ? builder->Apply(TypeString(), values, GetParams())
                               : builder->Apply(param_.op, values, linear_->GetParams());
    for (int i = 0; i < num_out_grads(); ++i) builder->SetInGrad(i, of_g[At(i)]);
    if (!has_argument()) return true;
    values.insert(values.begin(), builder->Input(0));
    for (int i = 0; i < num_inputs; ++i) {
      if (!IsOtherFactor(i)) continue;
      ParameterMap parameters = GetParams();
      parameters["argument"] = std::to_string(i);
      builder->SetInGrad(1 + i, builder->Apply(TypeString(), values, parameters).front());
    }
    return true;
  }
  /// Returns whether the linear operator's argument is a factor whose gradient is not the output.
  bool IsOtherFactor(int input) const {
    return has_argument() && input != *param_.argument && linear_->ArgumentHasGradient(input);
  }

 private:
  void CheckParameters() override {
    if (param_.op == TypeString()) Refuse("is no linear operator of its own");
    try {
      linear_ = OperatorRegistry::Get().FindOrCreate(param_.op, ReadParameters());
    } catch (const Error& error) {
      throw Error(error.code(), TypeString() + ": parameter op: " + error.what());
    }
    inputs_ = linear_->ListArguments();
    num_out_grads_ = static_cast<int>(linear_->ListOutputs().size());
    RequireLinear();
    targets_.clear();
    const int num_inputs = static_cast<int>(inputs_.size());
    for (int i = 0; i < num_inputs; ++i) {
      const bool wanted = !has_argument() || i == *param_.argument;
      if (wanted && linear_->ArgumentHasGradient(i)) targets_.push_back(i);
    }
    if (!targets_.empty()) return;
    if (!has_argument()) Refuse("has no argument with a gradient");
    throw InvalidArgument(TypeString(), ": parameter argument is ", *param_.argument, ", but ",
                          param_.op, " has no argument with a gradient there");
  }

  ParameterMap ReadParameters() const {
    ParameterMap parameters;
    std::string_view rest = param_.parameters;
    while (!rest.empty()) {
      const std::string_view field = rest.substr(0, rest.find(';'));
      rest.remove_prefix(std::min(field.size() + 1, rest.size()));
      const size_t equals = field.find('=');
      if (equals == std::string_view::npos) {
        throw InvalidArgument("parameters: \"", field, "\" is not of the form name=value");
      }
      parameters[std::string(field.substr(0, equals))] = field.substr(equals + 1);
    }
    return parameters;
  }

  /// Refuses operators of which Backward's values tell that they are not linear.
  void RequireLinear() const {
    if (!linear_->HasGradient() || !linear_->HasBackward()) Refuse("has no gradient");
    if (linear_->IsLoss()) Refuse("is a loss");
    if (linear_->purity() != Purity::kPure) Refuse("is no function of its inputs alone");
    const int num_outputs = num_out_grads();
    if (linear_->NumVisibleOutputs() != num_outputs) Refuse("has hidden outputs");
    if (has_argument() && num_outputs != 1) Refuse("has several outputs");
    const std::vector<int> heads(At(num_outputs), 0), outputs(At(num_outputs), 1);
    const std::vector<int> inputs(inputs_.size(), 0);
    for (const int id : linear_->DeclareBackwardDependency(heads, inputs, outputs)) {
      if (id == 1) Refuse("is not linear: its gradient depends on its output");
    }
  }
  [[noreturn]] void Refuse(std::string_view fault) const {
    throw InvalidArgument(TypeString(), ": parameter op: ", param_.op, " ", fault);
  }

  /// Infers shapes or types: those of a gradient are those of the value that it belongs to.
  template <typename T, typename Merge, typename InferLinear>
  void Infer(std::vector<T>* in, std::vector<T>* out, const Merge& merge,
             const InferLinear& infer) const {
    const auto middle = in->begin() + num_out_grads();
    std::vector<T> outputs(in->begin(), middle), inputs(middle, in->end());
    for (size_t k = 0; k < targets_.size(); ++k) {
      merge(targets_[k], &(*out)[k], &inputs[At(targets_[k])]);
    }
    try {
      infer(&inputs, &outputs);
    } catch (const Error& error) {
      throw Error(error.code(), TypeString() + ": " + error.what());
    }
    for (size_t k = 0; k < targets_.size(); ++k) (*out)[k] = inputs[At(targets_[k])];
    *in = std::move(outputs);
    in->insert(in->end(), inputs.begin(), inputs.end());
  }

  std::shared_ptr<const OperatorProperty> linear_;
  std::vector<std::string> inputs_;  // the linear operator's arguments
  int num_out_grads_ = 0;            // the number of its outputs
  std::vector<int> targets_;
};

class AdjointOperator final : public Operator {
 public:
  AdjointOperator(const AdjointProperty& property, std::span<const TShape> in_shape,
                  std::span<const DType> in_type)
      : num_out_grads_(At(property.num_out_grads())),
        targets_(property.targets()),
        num_forward_resources_(
            property.linear()->ForwardResource(in_shape.subspan(num_out_grads_)).size()),
        linear_(CreateLinear(property, in_shape.subspan(num_out_grads_),
                             in_type.subspan(num_out_grads_))) {
    if (!property.has_argument()) return;
    for (size_t i = num_out_grads_; i < in_shape.size(); ++i) {
      const int input = static_cast<int>(i - num_out_grads_);
      if (property.IsOtherFactor(input)) other_factors_.push_back(input);
    }
  }

  void Forward(const OpContext& context, std::span<const TBlob> in_data,
               std::span<const OpReqType> req, std::span<const TBlob> out_data) override {
    CallBackward(context, in_data.first(num_out_grads_), in_data.subspan(num_out_grads_), targets_,
                 req, out_data);
  }

  void Backward(const OpContext& context, std::span<const TBlob> out_grad,
                std::span<const TBlob> in_data, std::span<const TBlob>,
                std::span<const OpReqType> req, std::span<const TBlob> in_grad) override {
    std::vector<TBlob> inputs(in_data.begin() + static_cast<ptrdiff_t>(num_out_grads_),
                              in_data.end());
    for (size_t k = 0; k < targets_.size(); ++k) inputs[At(targets_[k])] = out_grad[k];
    const auto wanted = [](OpReqType request) { return request != kNullOp; };
    const auto of_g = req.first(num_out_grads_);
    OpContext part = context;
    part.requested = context.requested.first(num_forward_resources_);
    if (std::any_of(of_g.begin(), of_g.end(), wanted)) {
      linear_->Forward(part, inputs, of_g, in_grad.first(num_out_grads_));
    }
    std::vector<OpReqType> factor_req;
    std::vector<TBlob> factor_grad;
    for (const int i : other_factors_) {
      factor_req.push_back(req[num_out_grads_ + At(i)]);
      factor_grad.push_back(in_grad[num_out_grads_ + At(i)]);
    }
    part.requested = context.requested.subspan(num_forward_resources_);
    CallBackward(part, in_data.first(num_out_grads_), inputs, other_factors_, factor_req,
                 factor_grad);
  }

  bool AcceptsAddTo() const override { return linear_->AcceptsAddTo(); }

 private:
  static std::unique_ptr<Operator> CreateLinear(const AdjointProperty& property,
                                                std::span<const TShape> in_shape,
                                                std::span<const DType> in_type) {
    try {
      return property.linear()->CreateOperator({.type = TESSERA_TABLE_DEVICE}, in_shape, in_type);
    } catch (const Error& error) {
      throw Error(error.code(), property.TypeString() + ": " + error.what());
    }
  }

  /// Computes the gradients of some of the linear operator's arguments.
  void CallBackward(const OpContext& context, std::span<const TBlob> out_grad,
                    std::span<const TBlob> in_data, std::span<const int> arguments,
                    std::span<const OpReqType> req, std::span<const TBlob> gradients) const {
    std::vector<OpReqType> in_req(in_data.size(), kNullOp);
    std::vector<TBlob> in_grad(in_data.size());
    bool any = false;
    for (size_t k = 0; k < arguments.size(); ++k) {
      in_req[At(arguments[k])] = req[k];
      in_grad[At(arguments[k])] = gradients[k];
      any |= req[k] != kNullOp;
    }
    const std::vector<TBlob> no_outputs(out_grad.size());
    if (any) linear_->Backward(context, out_grad, in_data, no_outputs, in_req, in_grad);
  }

  const size_t num_out_grads_;
  const std::vector<int> targets_;
  const size_t num_forward_resources_;
  const std::unique_ptr<Operator> linear_;
  std::vector<int> other_factors_;
};

[[maybe_unused]] const bool kRegistered = [] {
  ops_internal::RegisterRow<AdjointProperty>(
      TESSERA_TABLE_PLACE, "_adjoint", "The gradient of a linear operator, applied to any values.",
      [] { return std::make_unique<AdjointProperty>(); },
      [](const OperatorProperty& property, std::span<const TShape> in_shape,
         std::span<const DType> in_type) -> std::unique_ptr<Operator> {
        return std::make_unique<AdjointOperator>(static_cast<const AdjointProperty&>(property),
                                                 in_shape, in_type);
      });
  return true;
}();

}  // namespace
}  // namespace tessera
