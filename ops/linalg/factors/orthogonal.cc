// Factorizations with orthonormal rows.
//
//   _linalg_gelqf  A = L Q, the outputs Q and L: L lower triangular, the rows of Q orthonormal
//                  d A = L^-T (d Q + S Q), S the symmetric matrix with the lower triangle of
//                  L^T d L - d Q Q^T
//   _linalg_syevd  A = U^T diag(l) U, the outputs U and l: eigenvectors as rows, l ascending
//                  d A = U^T D U, D[i][i] = d l[i],
//                  D[i][j] = (T[i][j] - T[j][i]) / (2 (l[i] - l[j])), T = d U U^T
//
// Signs are MXNet's: those of LAPACK's reflections in L, and in a row of U the element of largest
// magnitude is positive. A of _linalg_syevd is symmetric: its lower triangle is read, and the
// gradient is the symmetric one. Equal eigenvalues count as 1e-8 apart in the gradient.
//
// Shapes: A of _linalg_gelqf (b…, m, n) with m <= n, Q likewise, L (b…, m, m); A of _linalg_syevd
// and U (b…, n, n), l (b…, n). Types: float32, float64, float16, bfloat16, computed in float64.
// Runs on the CPU.
#include <algorithm>
#include <string>
#include <utility>
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

constexpr Transpose kNo = Transpose::kNo, kYes = Transpose::kYes;

struct Gelqf {
  static MatrixFunctions<NoParameters> Get() { return {{2}, {2, 2}, Forward, Backward}; }

  static Matrices Forward(const NoParameters&, Given in) {
    LqFactors factors = FactorLq(in[0]);
    return {std::move(factors.q), std::move(factors.l)};
  }
  static Matrices Backward(const NoParameters&, Given g, Given, Given out) {
    const Matrix &q = out[0], &l = out[1];
    Matrix difference = Multiply(g[0], q, kNo, kYes);
    difference *= -1;
    difference += Multiply(l, TriangleOf(g[1], Triangle::kLower), kYes);
    Matrix result = Multiply(SymmetricFromLower(difference), q);
    result += g[0];
    return {SolveTriangular(l, Triangle::kLower, kYes, std::move(result))};
  }
};

struct Syevd {
  static MatrixFunctions<NoParameters> Get() { return {{2}, {2, 1}, Forward, Backward}; }

  static Matrices Forward(const NoParameters&, Given in) {
    SymmetricEigen eigen = EigenOfSymmetric(in[0]);
    Matrix values(1, in[0].rows());
    std::copy(eigen.values.begin(), eigen.values.end(), values.row(0));
    return {std::move(eigen.vectors), std::move(values)};
  }
  static Matrices Backward(const NoParameters&, Given g, Given, Given out) {
    constexpr double kLeastDistance = 1e-8;
    const Matrix &u = out[0], &values = out[1];
    const Matrix t = Multiply(g[0], u, kNo, kYes);
    Matrix d(u.rows(), u.rows());
    for (index_t i = 0; i < u.rows(); ++i) {
      d(i, i) = g[1](0, i);
      for (index_t j = 0; j < i; ++j) {
        const double distance = std::max(values(0, i) - values(0, j), kLeastDistance);
        d(i, j) = d(j, i) = (t(i, j) - t(j, i)) / (2 * distance);
      }
    }
    return {Multiply(Multiply(u, d, kYes), u)};
  }
};

/// A property of operators with two outputs, which alone the gradient reads.
class TwoFactorsProperty : public ParameterizedProperty<NoParameters> {
 public:
  std::vector<std::string> ListArguments() const override { return {"A"}; }
  std::vector<std::string> ListOutputs() const override { return {"output0", "output1"}; }
  std::vector<int> DeclareBackwardDependency(std::span<const int> out_grad, std::span<const int>,
                                             std::span<const int> out_data) const override {
    return {out_grad[0], out_grad[1], out_data[0], out_data[1]};
  }
};

class GelqfProperty final : public TwoFactorsProperty {
 public:
  bool InferShape(std::vector<TShape>* in_shape, std::vector<TShape>* out_shape) const override {
    TShape& a = (*in_shape)[0];
    const MatrixValue values[] = {
        {"A", &a, "mn"}, {"output0", &(*out_shape)[0], "mn"}, {"output1", &(*out_shape)[1], "mm"}};
    const bool known = InferMatrices(*this, values);
    if (known && a[a.ndim() - 2] > a[a.ndim() - 1]) {
      throw InvalidArgument(TypeString(), ": A has shape ", a,
                            ", expected at least as many columns as rows");
    }
    return known;
  }
  bool BuildGradient(GradientBuilder* builder) const override {
    const Term of_q(builder, builder->OutGrad(0)), of_l(builder, builder->OutGrad(1)),
        q(builder, builder->Output(0)), l(builder, builder->Output(1));
    const auto product = [](const Term& x, const Term& y, const std::string& transposed = "") {
      ParameterMap parameters;
      if (!transposed.empty()) parameters[transposed] = "True";
      return Apply("_linalg_gemm2", {x, y}, parameters);
    };
    const auto triangle = [](const Term& x) {
      return Apply("_linalg_maketrian", {Apply("_linalg_extracttrian", {x})});
    };
    const Term m = product(l, triangle(of_l), "transpose_a") - product(of_q, q, "transpose_b");
    const Term lower = triangle(m);
    const Term diagonal = Apply("_linalg_makediag", {Apply("_linalg_extractdiag", {m})});
    const Term symmetric_q = product(lower - diagonal, q) + product(lower, q, "transpose_a");
    SetInGrad(builder, 0, Apply("_linalg_trsm", {l, of_q + symmetric_q}, {{"transpose", "True"}}));
    return true;
  }
};

class SyevdProperty final : public TwoFactorsProperty {
 public:
  bool InferShape(std::vector<TShape>* in_shape, std::vector<TShape>* out_shape) const override {
    const MatrixValue values[] = {{"A", &(*in_shape)[0], "nn"},
                                  {"output0", &(*out_shape)[0], "nn"},
                                  {"output1", &(*out_shape)[1], "n"}};
    return InferMatrices(*this, values);
  }
};

[[maybe_unused]] const bool kRegistered[] = {
    RegisterTypedOperator<GelqfProperty, MatrixOperator<NoParameters, Gelqf>>(
        TESSERA_TABLE_PLACE, "_linalg_gelqf",
        "Matrices as products of a lower triangular matrix and one with orthonormal rows."),
    RegisterTypedOperator<SyevdProperty, MatrixOperator<NoParameters, Syevd>>(
        TESSERA_TABLE_PLACE, "_linalg_syevd",
        "The eigenvectors and eigenvalues of symmetric matrices."),
};

}  // namespace
}  // namespace tessera
