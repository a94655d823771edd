#include "tessera/ops/gradient_formula.h"

#include <algorithm>
#include <cmath>
#include <span>

#include "tessera/base/error.h"

namespace tessera::ops_internal {
namespace {

/// The operators of one function of two operands.
struct Names {
  std::string_view elementwise, broadcast, scalar, reverse_scalar;
};

/// Applies one of the operators to operands that are not both numbers.
Term Combine(const Names& names, const Term& a, const Term& b) {
  if (a.is_number() || b.is_number()) {
    const Term& value = a.is_number() ? b : a;
    const Term& number = a.is_number() ? a : b;
    return Apply(a.is_number() ? names.reverse_scalar : names.scalar, {value},
                 {{"scalar", NumberText(number.exact_number())}});
  }
  const bool broadcasts = a.broadcasts() || b.broadcasts();
  return Apply(broadcasts ? names.broadcast : names.elementwise, {a, b});
}

bool AreNumbers(const Term& a, const Term& b) { return a.is_number() && b.is_number(); }

/// Returns the number that an operation on a and b results in.
Term Folded(double number, const Term& a, const Term& b) {
  const bool like_a = b.is_number() && a.builder() != nullptr;
  return Term(number).WithShapeOf(like_a ? a : b);
}

/// Returns the operand that knows a shape.
const Term& FirstComputed(std::span<const Term> operands) {
  const auto found = std::find_if(operands.begin(), operands.end(),
                                  [](const Term& term) { return term.builder() != nullptr; });
  TESSERA_DCHECK(found != operands.end());
  return *found;
}

/// A parameter of `_adjoint` with the parameters of the linear operator.
std::string ParametersText(const std::string& op, const ParameterMap& parameters) {
  std::string text;
  for (const auto& [name, value] : parameters) {
    if (value.find(';') != std::string::npos) {
      throw InvalidArgument(op, ": parameter ", name, ": \"", value,
                            "\" contains a semicolon, so that no graph can have its gradient");
    }
    if (!text.empty()) text += ';';
    text += name + "=" + value;
  }
  return text;
}

}  // namespace

GradientBuilder::Value Term::ValueLike(const Term& other) const {
  if (!is_number()) return value_;
  const Term like = builder_ != nullptr ? *this : WithShapeOf(other);
  if (IsNumber(0)) return like.builder_->Apply1("zeros_like", {like.like_});
  const GradientBuilder::Value ones = like.builder_->Apply1("ones_like", {like.like_});
  if (IsNumber(1)) return ones;
  return like.builder_->Apply1("_mul_scalar", {ones}, {{"scalar", NumberText(number_)}});
}

Term Term::WithShapeOf(const Term& other) const {
  Term term(number_);
  term.builder_ = other.builder_;
  term.like_ = other.is_number() ? other.like_ : other.value_;
  term.broadcasts_ = other.broadcasts_;
  return term;
}

std::string NumberText(const Number& number) { return ParameterText<Number>::Print(number); }

Term operator+(const Term& a, const Term& b) {
  if (AreNumbers(a, b)) return Folded(a.number() + b.number(), a, b);
  if (a.IsNumber(0)) return b;
  if (b.IsNumber(0)) return a;
  return Combine({"elemwise_add", "broadcast_add", "_plus_scalar", "_plus_scalar"}, a, b);
}

Term operator-(const Term& a, const Term& b) {
  if (AreNumbers(a, b)) return Folded(a.number() - b.number(), a, b);
  if (b.IsNumber(0)) return a;
  return Combine({"elemwise_sub", "broadcast_sub", "_minus_scalar", "_rminus_scalar"}, a, b);
}

Term operator*(const Term& a, const Term& b) {
  if (AreNumbers(a, b)) return Folded(a.number() * b.number(), a, b);
  if (a.IsNumber(0) || b.IsNumber(0)) return Folded(0, a, b);
  if (a.IsNumber(1)) return b;
  if (b.IsNumber(1)) return a;
  return Combine({"elemwise_mul", "broadcast_mul", "_mul_scalar", "_mul_scalar"}, a, b);
}

Term operator/(const Term& a, const Term& b) {
  if (AreNumbers(a, b)) return Folded(a.number() / b.number(), a, b);
  if (b.IsNumber(1)) return a;
  return Combine({"elemwise_div", "broadcast_div", "_div_scalar", "_rdiv_scalar"}, a, b);
}

Term operator-(const Term& a) {
  if (a.is_number()) return Term(-a.number()).WithShapeOf(a);
  return Apply("negative", {a});
}

Term PowerOf(const Term& a, const Term& b) {
  if (AreNumbers(a, b)) return Folded(std::pow(a.number(), b.number()), a, b);
  if (b.IsNumber(0)) return Folded(1, a, b);
  if (b.IsNumber(1)) return a;
  return Combine({"_power", "broadcast_power", "_power_scalar", "_rpower_scalar"}, a, b);
}

Term IsGreater(const Term& a, const Term& b) {
  if (AreNumbers(a, b)) return Folded(a.number() > b.number(), a, b);
  return Combine({"_greater", "broadcast_greater", "_greater_scalar", "_lesser_scalar"}, a, b);
}
Term IsGreaterEqual(const Term& a, const Term& b) {
  if (AreNumbers(a, b)) return Folded(a.number() >= b.number(), a, b);
  return Combine({"_greater_equal", "broadcast_greater_equal", "_greater_equal_scalar",
                  "_lesser_equal_scalar"},
                 a, b);
}
Term IsLesser(const Term& a, const Term& b) { return IsGreater(b, a); }
Term IsLesserEqual(const Term& a, const Term& b) { return IsGreaterEqual(b, a); }
Term IsEqual(const Term& a, const Term& b) {
  if (AreNumbers(a, b)) return Folded(a.number() == b.number(), a, b);
  return Combine({"_equal", "broadcast_equal", "_equal_scalar", "_equal_scalar"}, a, b);
}

Term Apply(std::string_view op, std::initializer_list<Term> operands,
           const ParameterMap& parameters) {
  std::vector<GradientBuilder::Value> values;
  bool broadcasts = false;
  const Term& computed = FirstComputed({operands.begin(), operands.size()});
  for (const Term& operand : operands) {
    values.push_back(operand.ValueLike(computed));
    broadcasts |= operand.broadcasts();
  }
  GradientBuilder* const builder = computed.builder();
  const Term result(builder, builder->Apply(op, values, parameters).front());
  return broadcasts ? result.Broadcast() : result;
}

void SetInGrad(GradientBuilder* builder, int input, const Term& gradient) {
  if (gradient.IsNumber(0)) return;
  if (!gradient.is_number()) return builder->SetInGrad(input, gradient.value());
  const Term data(builder, builder->Input(input));
  builder->SetInGrad(input, Term(gradient.exact_number()).ValueLike(data));
}

std::vector<Term> ApplyAdjoint(const AdjointCall& call) {
  std::vector<GradientBuilder::Value> operands;
  const Term& computed = FirstComputed(call.inputs);
  for (const auto* list : {&call.out_grads, &call.inputs}) {
    for (const Term& operand : *list) operands.push_back(operand.ValueLike(computed));
  }
  ParameterMap parameters = {{"op", call.op},
                             {"parameters", ParametersText(call.op, call.parameters)}};
  if (call.argument >= 0) parameters["argument"] = std::to_string(call.argument);
  GradientBuilder* const builder = computed.builder();
  std::vector<Term> gradients;
  for (const GradientBuilder::Value value : builder->Apply("_adjoint", operands, parameters)) {
    gradients.emplace_back(builder, value);
  }
  return gradients;
}

bool BuildLinearGradient(const OperatorProperty& property, GradientBuilder* builder) {
  return BuildLinearGradient(property, property.GetParams(), builder);
}

bool BuildLinearGradient(const OperatorProperty& property, const ParameterMap& parameters,
                         GradientBuilder* builder) {
  AdjointCall call{.op = property.TypeString(), .parameters = parameters};
  const int num_inputs = static_cast<int>(property.ListArguments().size());
  const int num_outputs = property.NumVisibleOutputs();
  for (int i = 0; i < num_outputs; ++i) {
    call.out_grads.emplace_back(builder, builder->OutGrad(i));
  }
  for (int i = 0; i < num_inputs; ++i) call.inputs.emplace_back(builder, builder->Input(i));
  const std::vector<Term> gradients = ApplyAdjoint(call);
  size_t next = 0;
  for (int i = 0; i < num_inputs; ++i) {
    if (property.ArgumentHasGradient(i)) SetInGrad(builder, i, gradients[next++]);
  }
  return true;
}

bool BuildBilinearGradient(const OperatorProperty& property, const ParameterMap& parameters,
                           GradientBuilder* builder) {
  AdjointCall call{.op = property.TypeString(), .parameters = parameters};
  call.out_grads = {Term(builder, builder->OutGrad(0))};
  for (const int i : {0, 1}) call.inputs.emplace_back(builder, builder->Input(i));
  for (const int i : {0, 1}) {
    call.argument = i;
    SetInGrad(builder, i, ApplyAdjoint(call).front());
  }
  return true;
}

}  // namespace tessera::ops_internal
