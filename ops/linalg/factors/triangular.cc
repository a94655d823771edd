// Triangular matrices: factorization of positive definite matrices, products and systems.
//
//   _linalg_potrf  L, of which A = L L^T, or A = L^T L with lower=False; reads that triangle of A
//                  d A = L^-T S L^-1 / 2, S the symmetric matrix whose lower triangle is L^T d L
//   _linalg_potri  B = (L L^T)^-1 from L, which is A's triangle
//                  d L = the triangle of -B (g + g^T) B L
//   _linalg_trmm   out = alpha op(A) B, or alpha B op(A) with rightside
//   _linalg_trsm   out = alpha op(A)^-1 B, or alpha B op(A)^-1 with rightside
//
// op transposes if `transpose` is set, and A's other triangle is not read and has gradient 0,
// except that the gradient of _linalg_potrf is the symmetric one. With lower=False the gradients
// are those of the transposed matrices. Shapes: A (b…, n, n); B (b…, n, m), with rightside (b…, m,
// n); outputs like A and like B. Types: float32, float64, float16, bfloat16, computed in float64. A
// matrix that is not positive definite throws Error(kInvalidArgument) in Forward. Runs on the CPU.
#include <string>
#include <utility>
#include <vector>

#include "tessera/ops/gradient_formula.h"
#include "tessera/ops/linalg/factors/matrix_call.h"
#include "tessera/ops/typed_operator.h"

namespace tessera {
namespace {

using namespace ops_internal;  // NOLINT: matrices and registration

using Matrices = std::vector<Matrix>;
using Given = std::span<const Matrix>;

constexpr Transpose kNo = Transpose::kNo, kYes = Transpose::kYes;

// MXNet 1.9.1 has this parameter of potrf and potri, though its list of operators does not name it.
struct TriangleParameters {
  bool lower = true;

  static void Declare(ParameterSchema<TriangleParameters>& schema) {
    schema.Optional("lower", &TriangleParameters::lower,
                    "the lower triangle is read and written; False for the upper one");
  }
};

struct TriangularParameters {
  bool transpose = false;
  bool rightside = false;
  bool lower = true;
  double alpha = 1;

  Triangle triangle() const { return lower ? Triangle::kLower : Triangle::kUpper; }

  static void Declare(ParameterSchema<TriangularParameters>& schema) {
    using P = TriangularParameters;
    schema.Optional("transpose", &P::transpose, "transpose the matrices of A");
    schema.Optional("rightside", &P::rightside, "A stands to the right of B");
    schema.Optional("lower", &P::lower, "A's lower triangle is read; False for the upper one");
    schema.Optional("alpha", &P::alpha, "the factor of the result");
  }
};

/// A function of the lower triangle, for either triangle of a matrix.
template <typename Function>
Matrix WithLower(bool lower, const Matrix& a, const Function& function) {
  return lower ? function(a) : Transposed(function(Transposed(a)));
}

struct Potrf {
  static MatrixFunctions<TriangleParameters> Get() { return {{2}, {2}, Forward, Backward}; }

  static Matrices Forward(const TriangleParameters& param, Given in) {
    return {WithLower(param.lower, in[0], CholeskyFactor)};
  }
  static Matrices Backward(const TriangleParameters& param, Given g, Given, Given out) {
    const Matrix l = param.lower ? out[0] : Transposed(out[0]);
    const Matrix of_l = param.lower ? g[0] : Transposed(g[0]);
    Matrix result = SymmetricFromLower(Multiply(l, TriangleOf(of_l, Triangle::kLower), kYes));
    result = SolveTriangular(l, Triangle::kLower, kYes, std::move(result));
    result = SolveTriangular(l, Triangle::kLower, kYes, Transposed(result));
    result *= 0.5;
    return {result};
  }
};

struct Potri {
  static MatrixFunctions<TriangleParameters> Get() { return {{2}, {2}, Forward, Backward}; }

  static Matrices Forward(const TriangleParameters& param, Given in) {
    const auto invert = [](const Matrix& l) {
      Matrix identity(l.rows(), l.rows());
      for (index_t i = 0; i < l.rows(); ++i) identity(i, i) = 1;
      const Matrix inverse = SolveTriangular(l, Triangle::kLower, kNo, std::move(identity));
      return Multiply(inverse, inverse, kYes);
    };
    return {WithLower(param.lower, in[0], invert)};
  }
  static Matrices Backward(const TriangleParameters& param, Given g, Given in, Given out) {
    const Matrix& b = out[0];
    const auto gradient = [&](const Matrix& a) {
      Matrix sum = g[0];
      sum += Transposed(g[0]);
      const Matrix bl = Multiply(b, TriangleOf(a, Triangle::kLower));
      Matrix result = Multiply(Multiply(b, sum), bl);
      result *= -1;
      return TriangleOf(result, Triangle::kLower);
    };
    return {WithLower(param.lower, in[0], gradient)};
  }
};

/// Returns the product of A's triangle and the other operand; `transpose` is that of A.
Matrix TimesTriangle(const TriangularParameters& param, const Matrix& a, const Matrix& other,
                     bool transpose) {
  const Matrix triangle = TriangleOf(a, param.triangle());
  const Transpose op = transpose ? kYes : kNo;
  Matrix result =
      param.rightside ? Multiply(other, triangle, kNo, op) : Multiply(triangle, other, op);
  result *= param.alpha;
  return result;
}

/// Returns the solution of a system with A's triangle.
Matrix Solve(const TriangularParameters& param, const Matrix& a, const Matrix& other,
             bool transpose) {
  if (param.rightside) {
    return Transposed(
        SolveTriangular(a, param.triangle(), transpose ? kNo : kYes, Transposed(other)));
  }
  return SolveTriangular(a, param.triangle(), transpose ? kYes : kNo, other);
}

struct Trmm {
  static MatrixFunctions<TriangularParameters> Get() { return {{2, 2}, {2}, Forward, Backward}; }

  static Matrices Forward(const TriangularParameters& param, Given in) {
    return {TimesTriangle(param, in[0], in[1], param.transpose)};
  }
  static Matrices Backward(const TriangularParameters& param, Given g, Given in, Given) {
    const Matrix &left = param.transpose ? in[1] : g[0], &right = param.transpose ? g[0] : in[1];
    Matrix of_a = param.rightside ? Multiply(right, left, kYes) : Multiply(left, right, kNo, kYes);
    of_a *= param.alpha;
    return {TriangleOf(of_a, param.triangle()),
            TimesTriangle(param, in[0], g[0], !param.transpose)};
  }
};

struct Trsm {
  static MatrixFunctions<TriangularParameters> Get() { return {{2, 2}, {2}, Forward, Backward}; }

  static Matrices Forward(const TriangularParameters& param, Given in) {
    Matrix result = Solve(param, in[0], in[1], param.transpose);
    result *= param.alpha;
    return {result};
  }
  static Matrices Backward(const TriangularParameters& param, Given g, Given in, Given out) {
    Matrix of_b = Solve(param, in[0], g[0], !param.transpose);
    const Matrix &left = param.transpose ? out[0] : of_b, &right = param.transpose ? of_b : out[0];
    Matrix of_a = param.rightside ? Multiply(right, left, kYes) : Multiply(left, right, kNo, kYes);
    of_a *= -1;
    of_b *= param.alpha;
    return {TriangleOf(of_a, param.triangle()), of_b};
  }
};

std::string Text(bool value) { return value ? "True" : "False"; }

/// Returns the triangle of a matrix among zeros, as a graph.
Term TriangleGraph(const Term& a, bool lower) {
  const ParameterMap parameters = {{"lower", Text(lower)}};
  return Apply("_linalg_maketrian", {Apply("_linalg_extracttrian", {a}, parameters)}, parameters);
}

class PotrfProperty final : public ParameterizedProperty<TriangleParameters> {
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
};

class PotriProperty final : public ParameterizedProperty<TriangleParameters> {
 public:
  std::vector<std::string> ListArguments() const override { return {"A"}; }
  bool InferShape(std::vector<TShape>* in_shape, std::vector<TShape>* out_shape) const override {
    const MatrixValue values[] = {{"A", &(*in_shape)[0], "nn"}, {"output", &(*out_shape)[0], "nn"}};
    return InferMatrices(*this, values);
  }
  bool BuildGradient(GradientBuilder* builder) const override {
    const Term g(builder, builder->OutGrad(0)), a(builder, builder->Input(0)),
        b(builder, builder->Output(0));
    const auto product = [](const Term& x, const Term& y, bool transpose = false) {
      return Apply("_linalg_gemm2", {x, y}, {{"transpose_a", Text(transpose)}});
    };
    const Term triangle = TriangleGraph(a, param_.lower);
    // B L for the lower triangle; for the upper one the transposed order.
    const Term outer = param_.lower ? product(b, triangle) : product(triangle, b);
    const Term inner = param_.lower ? product(g, outer) + product(g, outer, true)
                                    : product(g, b) + product(g, b, true);
    SetInGrad(
        builder, 0,
        -TriangleGraph(param_.lower ? product(b, inner) : product(outer, inner), param_.lower));
    return true;
  }
};

class TriangularProperty : public ParameterizedProperty<TriangularParameters> {
 public:
  std::vector<std::string> ListArguments() const override { return {"A", "B"}; }
  bool InferShape(std::vector<TShape>* in_shape, std::vector<TShape>* out_shape) const override {
    const std::string_view extents = param_.rightside ? "mn" : "nm";
    const MatrixValue values[] = {{"A", &(*in_shape)[0], "nn"},
                                  {"B", &(*in_shape)[1], extents},
                                  {"output", &(*out_shape)[0], extents}};
    return InferMatrices(*this, values);
  }
};

class TrmmProperty final : public TriangularProperty {
 public:
  std::vector<int> DeclareBackwardDependency(std::span<const int> out_grad,
                                             std::span<const int> in_data,
                                             std::span<const int>) const override {
    return {out_grad[0], in_data[0], in_data[1]};
  }
  bool BuildGradient(GradientBuilder* builder) const override {
    return BuildBilinearGradient(*this, GetParams(), builder);
  }
};

class TrsmProperty final : public TriangularProperty {
 public:
  std::vector<int> DeclareBackwardDependency(std::span<const int> out_grad,
                                             std::span<const int> in_data,
                                             std::span<const int> out_data) const override {
    return {out_grad[0], in_data[0], out_data[0]};
  }
  bool BuildGradient(GradientBuilder* builder) const override {
    const Term g(builder, builder->OutGrad(0)), a(builder, builder->Input(0)),
        out(builder, builder->Output(0));
    ParameterMap parameters = GetParams();
    parameters["transpose"] = Text(!param_.transpose);
    parameters["alpha"] = NumberText(1);
    const Term of_b = Apply("_linalg_trsm", {a, g}, parameters);
    const Term &left = param_.transpose ? out : of_b, &right = param_.transpose ? of_b : out;
    const Term of_a = param_.rightside
                          ? Apply("_linalg_gemm2", {right, left}, {{"transpose_a", "True"}})
                          : Apply("_linalg_gemm2", {left, right}, {{"transpose_b", "True"}});
    SetInGrad(builder, 0, -TriangleGraph(of_a, param_.lower));
    SetInGrad(builder, 1, of_b * param_.alpha);
    return true;
  }
};

[[maybe_unused]] const bool kRegistered[] = {
    RegisterTypedOperator<PotrfProperty, MatrixOperator<TriangleParameters, Potrf>>(
        TESSERA_TABLE_PLACE, "_linalg_potrf",
        "The Cholesky factors of symmetric positive definite matrices."),
    RegisterTypedOperator<PotriProperty, MatrixOperator<TriangleParameters, Potri>>(
        TESSERA_TABLE_PLACE, "_linalg_potri",
        "The inverses of the matrices that Cholesky factors belong to."),
    RegisterTypedOperator<TrmmProperty, MatrixOperator<TriangularParameters, Trmm>>(
        TESSERA_TABLE_PLACE, "_linalg_trmm", "The products of triangular and other matrices."),
    RegisterTypedOperator<TrsmProperty, MatrixOperator<TriangularParameters, Trsm>>(
        TESSERA_TABLE_PLACE, "_linalg_trsm", "The solutions of triangular systems."),
};

}  // namespace
}  // namespace tessera
