#ifndef TESSERA_OPS_GRADIENT_FORMULA_H_
#define TESSERA_OPS_GRADIENT_FORMULA_H_

#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/base/number.h"
#include "tessera/ops/gradient_builder.h"
#include "tessera/ops/parameter.h"
#include "tessera/ops/property.h"

// Gradients as graphs of operators (OperatorProperty::BuildGradient), written as formulas.
namespace tessera::ops_internal {

/// An operand of a gradient's formula: a value of the graph, or a number. An operation on a value
/// applies a registered operator, and an operation on two numbers is computed at once:
///
///     SetInGrad(builder, 0, g * Apply("cos", {x}));
///
/// Values of one shape are combined element by element. A value that is marked by Broadcast(), and
/// each result computed from it, is combined by operators that broadcast, until it is marked by
/// Whole() again. A factor 0 makes a product the number 0, whatever the other factor is. A number
/// that an operation on a value results in remembers the value's shape, with which Apply takes it.
class Term {
 public:
  Term(double number) : number_(number) {}         // NOLINT: numbers are operands
  Term(const Number& number) : number_(number) {}  // NOLINT: numbers are operands
  Term(GradientBuilder* builder, GradientBuilder::Value value) : builder_(builder), value_(value) {}

  bool is_number() const { return value_ < 0; }
  bool IsNumber(double number) const { return is_number() && number_.value() == number; }
  /// Returns the double that is nearest to the number, and the number itself.
  double number() const { return number_.value(); }
  const Number& exact_number() const { return number_; }
  /// Returns the builder of the values from which the operand was computed; null if there is none.
  GradientBuilder* builder() const { return builder_; }
  /// Returns the value, or -1 for a number.
  GradientBuilder::Value value() const { return value_; }
  bool broadcasts() const { return broadcasts_; }

  /// Returns the value. A number becomes an array of the shape that it remembers, or else that of
  /// `other`. Requires: one of the two was computed from a value.
  GradientBuilder::Value ValueLike(const Term& other) const;
  /// Returns a number that remembers the shape of `other`.
  Term WithShapeOf(const Term& other) const;

  /// Returns the value as one that may have another shape than the values it is combined with.
  Term Broadcast() const { return Marked(true); }
  /// Returns the value as one with the shape of the values it is combined with.
  Term Whole() const { return Marked(false); }

 private:
  Term Marked(bool broadcasts) const {
    Term term = *this;
    term.broadcasts_ = broadcasts;
    return term;
  }

  Number number_;
  GradientBuilder* builder_ = nullptr;
  GradientBuilder::Value value_ = -1;
  GradientBuilder::Value like_ = -1;  // has the shape of a number that was computed from values
  bool broadcasts_ = false;
};

Term operator+(const Term& a, const Term& b);
Term operator-(const Term& a, const Term& b);
Term operator*(const Term& a, const Term& b);
Term operator/(const Term& a, const Term& b);
Term operator-(const Term& a);
/// Returns a to the power b.
Term PowerOf(const Term& a, const Term& b);

/// Return 1 where the relation holds, else 0.
Term IsGreater(const Term& a, const Term& b);
Term IsGreaterEqual(const Term& a, const Term& b);
Term IsLesser(const Term& a, const Term& b);
Term IsLesserEqual(const Term& a, const Term& b);
Term IsEqual(const Term& a, const Term& b);

/// Returns the first output of an operator applied to values. Numbers among the operands become
/// arrays (Term::ValueLike). Requires: at least one operand was computed from a value.
Term Apply(std::string_view op, std::initializer_list<Term> operands,
           const ParameterMap& parameters = {});

/// Sets the gradient of an input. It has none if `gradient` is the number 0; another number becomes
/// an array of the input's shape.
void SetInGrad(GradientBuilder* builder, int input, const Term& gradient);

/// Returns the text of a number as a parameter.
std::string NumberText(const Number& number);

/// The gradient of a linear operator, applied to other values (ops/adjoint/linear_adjoint.cc).
struct AdjointCall {
  std::string op;             ///< the linear operator
  ParameterMap parameters{};  ///< its parameters
  std::vector<Term> out_grads;
  /// The operator's inputs. Those in which it is linear are only read for their shapes.
  std::vector<Term> inputs;
  /// The argument in which the operator is linear while the others are fixed. By default it is
  /// linear in all arguments that have a gradient together.
  int argument = -1;
};
/// Returns the gradients of `argument`, or of all arguments that have one, in order.
std::vector<Term> ApplyAdjoint(const AdjointCall& call);

/// Builds the gradient of an operator that is linear in all arguments with a gradient together, as
/// a sum or a concatenation is. All outputs are visible. Returns true.
bool BuildLinearGradient(const OperatorProperty& property, GradientBuilder* builder);
/// Builds it for an operator that becomes linear with these parameters in place of its own: they
/// set its constant summand to 0.
bool BuildLinearGradient(const OperatorProperty& property, const ParameterMap& parameters,
                         GradientBuilder* builder);
/// Builds the gradients of the first two inputs of an operator with one output, which is linear in
/// each of them while the other is fixed, as a product is. With `parameters`, it has only these two
/// inputs. Returns true.
bool BuildBilinearGradient(const OperatorProperty& property, const ParameterMap& parameters,
                           GradientBuilder* builder);

}  // namespace tessera::ops_internal

#endif  // TESSERA_OPS_GRADIENT_FORMULA_H_
