// _linalg_syrk: the products of matrices and themselves.
//
//   out[b…] = alpha A[b…] A[b…]^T     d A[b…] = alpha (g + g^T) A[b…]
//   out[b…] = alpha A[b…]^T A[b…]     d A[b…] = alpha A[b…] (g + g^T)     with transpose
//
// Shapes: A (b…, m, n), out (b…, m, m), with transpose (b…, n, n). Types: float32, float64,
// float16, bfloat16; the last two accumulate in float32.
#include <string>
#include <vector>

#include "tessera/ops/gradient_formula.h"
#include "tessera/ops/linalg/factors/matrix_call.h"
#include "tessera/ops/loops/matrix_product.h"
#include "tessera/ops/typed_operator.h"

namespace tessera {
namespace {

using namespace ops_internal;  // NOLINT: products and registration

struct SyrkParameters {
  bool transpose = false;
  double alpha = 1;

  static void Declare(ParameterSchema<SyrkParameters>& schema) {
    using P = SyrkParameters;
    schema.Optional("transpose", &P::transpose, "the first factor is the transposed one");
    schema.Optional("alpha", &P::alpha, "the factor of the products");
  }
};

class SyrkProperty final : public ParameterizedProperty<SyrkParameters> {
 public:
  std::vector<std::string> ListArguments() const override { return {"A"}; }
  bool InferShape(std::vector<TShape>* in_shape, std::vector<TShape>* out_shape) const override {
    const MatrixValue values[] = {{"A", &(*in_shape)[0], "mn"},
                                  {"output", &(*out_shape)[0], param_.transpose ? "nn" : "mm"}};
    return InferMatrices(*this, values);
  }
  std::vector<int> DeclareBackwardDependency(std::span<const int> out_grad,
                                             std::span<const int> in_data,
                                             std::span<const int>) const override {
    return {out_grad[0], in_data[0]};
  }
  bool BuildGradient(GradientBuilder* builder) const override {
    const Term g(builder, builder->OutGrad(0)), a(builder, builder->Input(0));
    const std::string alpha = NumberText(param_.alpha);
    const auto product = [&](bool transpose_g) {
      const std::string transpose = transpose_g ? "True" : "False";
      if (param_.transpose) {
        return Apply("_linalg_gemm2", {a, g}, {{"alpha", alpha}, {"transpose_b", transpose}});
      }
      return Apply("_linalg_gemm2", {g, a}, {{"alpha", alpha}, {"transpose_a", transpose}});
    };
    SetInGrad(builder, 0, product(false) + product(true));
    return true;
  }
};

class SyrkOperator final : public Operator {
 public:
  SyrkOperator(const SyrkParameters& param, std::span<const TShape> in_shape)
      : param_(param), a_(MatricesOf(in_shape[0], in_shape[0].ndim() - 2, false)), out_(a_) {
    out_.rows = out_.columns = param.transpose ? a_.columns : a_.rows;
  }

  void Forward(const OpContext& context, std::span<const TBlob> in_data,
               std::span<const OpReqType> req, std::span<const TBlob> out_data) override {
    if (req[0] == kNullOp) return;
    const MatrixBatch a = a_.At(in_data[0]);
    Multiply(param_.transpose ? a.T() : a, param_.transpose ? a : a.T(), out_.At(out_data[0]),
             req[0], out_data[0], context);
  }
  void Backward(const OpContext& context, std::span<const TBlob> out_grad,
                std::span<const TBlob> in_data, std::span<const TBlob>,
                std::span<const OpReqType> req, std::span<const TBlob> in_grad) override {
    if (req[0] == kNullOp) return;
    const MatrixBatch g = out_.At(out_grad[0]), a = a_.At(in_data[0]), to = a_.At(in_grad[0]);
    OpReqType each = req[0];
    for (const MatrixBatch& head : {g, g.T()}) {
      Multiply(param_.transpose ? a : head, param_.transpose ? head : a, to, each, out_grad[0],
               context);
      each = kAddTo;
    }
  }

 private:
  void Multiply(const MatrixBatch& a, const MatrixBatch& b, const MatrixBatch& c, OpReqType req,
                const TBlob& blob, const OpContext& context) const {
    MultiplyMatrices(a, b, c, param_.alpha, blob.type_flag_, req, blob.device_, context);
  }

  const SyrkParameters param_;
  const MatrixBatch a_;
  MatrixBatch out_;
};

[[maybe_unused]] const bool kRegistered = RegisterTypedOperator<SyrkProperty, SyrkOperator>(
    TESSERA_TABLE_PLACE, "_linalg_syrk", "The products of matrices and themselves, transposed.");

}  // namespace
}  // namespace tessera
