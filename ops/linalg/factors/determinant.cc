// Inverses and determinants of square matrices.
//
//   _linalg_inverse     out = A^-1                        d A = -out^T g out^T
//   _linalg_det         out = det A                       d A = g det(A) A^-T
//   _linalg_slogdet     sign of det A, log |det A|        d A = g A^-T, of the second output's g
//   _linalg_sumlogdiag  out = the sum of log A[i][i]      d A[i][i] = g / A[i][i]
//
// By LU factors with partial pivoting. A singular matrix has determinant 0, sign 0 and logarithm
// -infinity, and then gradient 0; its inverse throws Error(kInvalidArgument) in Forward. Shapes: A
// (b…, n, n), numbers (b…), or (1) without a batch. Types: float32, float64, float16, bfloat16,
// computed in float64. Runs on the CPU.
#include <cmath>
#include <limits>
#include <vector>

#include "tessera/base/error.h"
#include "tessera/ops/gradient_formula.h"
#include "tessera/ops/linalg/factors/matrix_call.h"
#include "tessera/ops/typed_operator.h"

namespace tessera {
namespace {

using namespace ops_internal;  // NOLINT: matrices and registration

using Matrices = std::vector<Matrix>;
using Given = std::span<const Matrix>;

Matrix Number(double value) {
  Matrix number(1, 1);
  number(0, 0) = value;
  return number;
}

/// Returns factor * A^-T, or zeros if A is singular.
Matrix InverseTransposed(const Matrix& a, const LuFactors& factors, double factor) {
  if (factors.sign == 0) return Matrix(a.rows(), a.columns());
  Matrix result = Transposed(InverseOf(factors));
  result *= factor;
  return result;
}

double Determinant(const LuFactors& factors) {
  double product = factors.sign;
  for (index_t i = 0; i < factors.lu.rows(); ++i) product *= factors.lu(i, i);
  return factors.sign == 0 ? 0 : product;
}

struct Inverse {
  static MatrixFunctions<NoParameters> Get() { return {{2}, {2}, Forward, Backward}; }

  static Matrices Forward(const NoParameters&, Given in) {
    const LuFactors factors = FactorLu(in[0]);
    if (factors.sign == 0) throw InvalidArgument("a matrix is singular and has no inverse");
    return {InverseOf(factors)};
  }
  static Matrices Backward(const NoParameters&, Given g, Given, Given out) {
    Matrix result =
        Multiply(Multiply(out[0], g[0], Transpose::kYes), out[0], Transpose::kNo, Transpose::kYes);
    result *= -1;
    return {result};
  }
};

struct Det {
  static MatrixFunctions<NoParameters> Get() { return {{2}, {0}, Forward, Backward}; }

  static Matrices Forward(const NoParameters&, Given in) {
    return {Number(Determinant(FactorLu(in[0])))};
  }
  static Matrices Backward(const NoParameters&, Given g, Given in, Given) {
    const LuFactors factors = FactorLu(in[0]);
    return {InverseTransposed(in[0], factors, g[0](0, 0) * Determinant(factors))};
  }
};

struct Slogdet {
  static MatrixFunctions<NoParameters> Get() { return {{2}, {0, 0}, Forward, Backward}; }

  static Matrices Forward(const NoParameters&, Given in) {
    const LuFactors factors = FactorLu(in[0]);
    if (factors.sign == 0) {
      return {Number(0), Number(-std::numeric_limits<double>::infinity())};
    }
    double sign = factors.sign, sum = 0;
    for (index_t i = 0; i < factors.lu.rows(); ++i) {
      if (factors.lu(i, i) < 0) sign = -sign;
      sum += std::log(std::abs(factors.lu(i, i)));
    }
    return {Number(sign), Number(sum)};
  }
  static Matrices Backward(const NoParameters&, Given g, Given in, Given) {
    return {InverseTransposed(in[0], FactorLu(in[0]), g[1](0, 0))};
  }
};

struct SumLogDiag {
  static MatrixFunctions<NoParameters> Get() { return {{2}, {0}, Forward, Backward}; }

  static Matrices Forward(const NoParameters&, Given in) {
    double sum = 0;
    for (index_t i = 0; i < in[0].rows(); ++i) sum += std::log(in[0](i, i));
    return {Number(sum)};
  }
  static Matrices Backward(const NoParameters&, Given g, Given in, Given) {
    Matrix result(in[0].rows(), in[0].columns());
    for (index_t i = 0; i < result.rows(); ++i) result(i, i) = g[0](0, 0) / in[0](i, i);
    return {result};
  }
};

class InverseProperty final : public ParameterizedProperty<NoParameters> {
 public:
  std::vector<std::string> ListArguments() const override { return {"A"}; }
  bool InferShape(std::vector<TShape>* in_shape, std::vector<TShape>* out_shape) const override {
    const MatrixValue values[] = {{"A", &(*in_shape)[0], "nn"}, {"output", &(*out_shape)[0], "nn"}};
    return InferMatrices(*this, values);
  }
  std::vector<int> DeclareBackwardDependency(std::span<const int> out_grad, std::span<const int>,
                                             std::span<const int> out_data) const override {
    return {out_grad[0], out_data[0]};
  }
  bool BuildGradient(GradientBuilder* builder) const override {
    const Term g(builder, builder->OutGrad(0)), out(builder, builder->Output(0));
    const Term left = Apply("_linalg_gemm2", {out, g}, {{"transpose_a", "True"}});
    SetInGrad(builder, 0,
              Apply("_linalg_gemm2", {left, out}, {{"transpose_b", "True"}, {"alpha", "-1"}}));
    return true;
  }
};

/// Returns the numbers of a batch as matrices of one element, by the shape of the matrices.
Term AsMatrices(const Term& numbers, const Term& matrices) {
  const ParameterMap column = {{"axis", "-1"}, {"begin", "0"}, {"end", "1"}};
  const ParameterMap row = {{"axis", "-2"}, {"begin", "0"}, {"end", "1"}};
  const Term corner = Apply("slice_axis", {Apply("slice_axis", {matrices}, column)}, row);
  return Apply("reshape_like", {numbers, corner}).Broadcast();
}

/// A property of operators whose outputs are numbers.
class NumberProperty : public ParameterizedProperty<NoParameters> {
 public:
  std::vector<std::string> ListArguments() const override { return {"A"}; }
  bool InferShape(std::vector<TShape>* in_shape, std::vector<TShape>* out_shape) const override {
    const auto names = ListOutputs();
    std::vector<MatrixValue> values = {{"A", &(*in_shape)[0], "nn"}};
    for (size_t i = 0; i < names.size(); ++i) values.push_back({names[i], &(*out_shape)[i], ""});
    return InferMatrices(*this, values);
  }
  std::vector<int> DeclareBackwardDependency(std::span<const int> out_grad,
                                             std::span<const int> in_data,
                                             std::span<const int>) const override {
    return {out_grad.back(), in_data[0]};
  }
};

class DetProperty final : public NumberProperty {
 public:
  /// MXNet's operator has factors as further outputs.
  std::vector<std::string> ListOutputs() const override { return {"output0"}; }
  bool BuildGradient(GradientBuilder* builder) const override {
    const Term g(builder, builder->OutGrad(0)), a(builder, builder->Input(0)),
        out(builder, builder->Output(0));
    const Term inverse =
        Apply("_linalg_inverse", {Apply("SwapAxis", {a}, {{"dim1", "-1"}, {"dim2", "-2"}})});
    SetInGrad(builder, 0, (AsMatrices(g * out, a) * inverse).Whole());
    return true;
  }
};

class SlogdetProperty final : public NumberProperty {
 public:
  std::vector<std::string> ListOutputs() const override { return {"output0", "output1"}; }
  bool BuildGradient(GradientBuilder* builder) const override {
    const Term g(builder, builder->OutGrad(1)), a(builder, builder->Input(0));
    const Term inverse =
        Apply("_linalg_inverse", {Apply("SwapAxis", {a}, {{"dim1", "-1"}, {"dim2", "-2"}})});
    SetInGrad(builder, 0, (AsMatrices(g, a) * inverse).Whole());
    return true;
  }
};

class SumLogDiagProperty final : public NumberProperty {
 public:
  bool BuildGradient(GradientBuilder* builder) const override {
    const Term g(builder, builder->OutGrad(0)), a(builder, builder->Input(0));
    // 1 / diag(A) on the diagonal, times g.
    const Term reciprocals = Apply("_linalg_makediag", {1 / Apply("_linalg_extractdiag", {a})});
    SetInGrad(builder, 0, (AsMatrices(g, a) * reciprocals).Whole());
    return true;
  }
};

[[maybe_unused]] const bool kRegistered[] = {
    RegisterTypedOperator<InverseProperty, MatrixOperator<NoParameters, Inverse>>(
        TESSERA_TABLE_PLACE, "_linalg_inverse", "The inverses of square matrices."),
    RegisterTypedOperator<DetProperty, MatrixOperator<NoParameters, Det>>(
        TESSERA_TABLE_PLACE, "_linalg_det", "The determinants of square matrices."),
    RegisterTypedOperator<SlogdetProperty, MatrixOperator<NoParameters, Slogdet>>(
        TESSERA_TABLE_PLACE, "_linalg_slogdet",
        "The signs of the determinants of square matrices, and the logarithms of their "
        "magnitudes."),
    RegisterTypedOperator<SumLogDiagProperty, MatrixOperator<NoParameters, SumLogDiag>>(
        TESSERA_TABLE_PLACE, "_linalg_sumlogdiag",
        "The sums of the logarithms of matrices' diagonal elements."),
};

}  // namespace
}  // namespace tessera
