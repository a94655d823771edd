// batch_dot, _linalg_gemm2 and _linalg_gemm: products of the matrices in two arrays.
//
//   out[b…] = alpha * op(lhs[b…]) * op(rhs[b…])       op transposes if transpose_a, transpose_b
//   d lhs[b…] = alpha * d out[b…] * op(rhs[b…])^T     transposed if transpose_a
//   d rhs[b…] = alpha * op(lhs[b…])^T * d out[b…]     transposed if transpose_b
//
// _linalg_gemm adds beta * C[b…], whose gradient is beta * d out[b…]. As in BLAS, C is not read if
// beta is 0, nor the matrices if alpha is.
//
// A matrix's columns are the last axis, and its rows the one before; `axis` of _linalg_gemm2 and
// _linalg_gemm names another axis for the rows. Shapes: lhs (b…, m, k) or transposed (b…, k, m),
// rhs (b…, k, n) or transposed (b…, n, k), out (b…, m, n); batch_dot takes three dimensions or
// more. Types: float32, float64, float16, bfloat16; the last two accumulate in float32.
#include "tessera/base/error.h"
#include "tessera/ops/gradient_formula.h"
#include "tessera/ops/loops/axes.h"
#include "tessera/ops/loops/map_function.h"
#include "tessera/ops/loops/matrix_product.h"
#include "tessera/ops/loops/move.h"
#include "tessera/ops/typed_operator.h"
#include "tessera/tensor/functors.h"

namespace tessera {
namespace {

using namespace ops_internal;  // NOLINT: products and registration

struct BatchDotParameters {
  bool transpose_a = false;
  bool transpose_b = false;
  std::string forward_stype = "None";

  static constexpr double alpha = 1;
  static constexpr int64_t axis = -2;

  static void Declare(ParameterSchema<BatchDotParameters>& schema) {
    using P = BatchDotParameters;
    schema.Optional("transpose_a", &P::transpose_a, "transpose the matrices of lhs");
    schema.Optional("transpose_b", &P::transpose_b, "transpose the matrices of rhs");
    schema.Choice<std::string>(
        "forward_stype", &P::forward_stype,
        {{"None", "None"}, {"csr", "csr"}, {"default", "default"}, {"row_sparse", "row_sparse"}},
        "accepted; outputs are dense");
  }
};

struct Gemm2Parameters {
  bool transpose_a = false;
  bool transpose_b = false;
  double alpha = 1;
  int64_t axis = -2;

  template <typename P>
  static void DeclareProduct(ParameterSchema<P>& schema) {
    schema.Optional("transpose_a", &P::transpose_a, "transpose the matrices of A");
    schema.Optional("transpose_b", &P::transpose_b, "transpose the matrices of B");
    schema.Optional("alpha", &P::alpha, "the factor of the products");
    schema.Optional("axis", &P::axis, "the axis of the matrices' rows, from the end if negative");
  }
  static void Declare(ParameterSchema<Gemm2Parameters>& schema) { DeclareProduct(schema); }
};

struct GemmParameters {
  bool transpose_a = false;
  bool transpose_b = false;
  double alpha = 1;
  double beta = 1;
  int64_t axis = -2;

  static void Declare(ParameterSchema<GemmParameters>& schema) {
    Gemm2Parameters::DeclareProduct(schema);
    schema.Optional("beta", &GemmParameters::beta, "the factor of C");
  }
};

template <typename Parameters, int kMinRank>
class BatchedProductProperty : public MatrixProductProperty<Parameters> {
 public:
  bool InferShape(std::vector<TShape>* in_shape, std::vector<TShape>* out_shape) const override {
    const auto names = this->ListArguments();
    const auto lhs = [&](int axis) { return NamedAxis{names[0], &(*in_shape)[0], axis}; };
    const auto rhs = [&](int axis) { return NamedAxis{names[1], &(*in_shape)[1], axis}; };
    const auto out = [&](int axis) { return NamedAxis{"output", &(*out_shape)[0], axis}; };
    int rank = -1;
    for (const NamedAxis& value : {lhs(0), rhs(0), out(0)}) {
      if (value.shape->rank_known() && rank < 0) {
        rank = value.shape->ndim();
        CheckRank(value.name, *value.shape);
      }
    }
    if (rank < 0) return false;
    for (const NamedAxis& value : {lhs(0), rhs(0), out(0)}) {
      MergeShape(*this, value.name, value.shape, TShape::OfRank(rank));
    }
    const auto& param = this->param_;
    const int row = AxisPosition(param.axis, rank), last = rank - 1;
    for (int i = 0; i < last; ++i) {
      if (i == row) continue;
      MeetExtents(*this, lhs(i), rhs(i));
      MeetExtents(*this, rhs(i), out(i));
      MeetExtents(*this, rhs(i), lhs(i));
    }
    MeetExtents(*this, lhs(param.transpose_a ? row : last), rhs(param.transpose_b ? last : row));
    MeetExtents(*this, lhs(param.transpose_a ? last : row), out(row));
    MeetExtents(*this, rhs(param.transpose_b ? row : last), out(last));
    return (*in_shape)[0].known() && (*in_shape)[1].known();
  }
  bool BuildGradient(GradientBuilder* builder) const override {
    return BuildBilinearGradient(*this, this->GetParams(), builder);
  }

 private:
  void CheckRank(std::string_view name, const TShape& shape) const {
    if (shape.ndim() < kMinRank) {
      throw InvalidArgument(this->TypeString(), ": ", name, " has shape ", shape,
                            ", expected at least ", kMinRank, " dimensions");
    }
    const int64_t axis = this->param_.axis, rank = shape.ndim();
    if (axis < -rank || axis >= rank - 1 || axis == -1) {
      throw InvalidArgument(this->TypeString(), ": axis is ", axis, ", but ", name, " has shape ",
                            shape, ", whose rows lie along an axis of [0, ", rank - 2, "]");
    }
  }
};

class BatchDotProperty final : public BatchedProductProperty<BatchDotParameters, 3> {
 public:
  bool InferShape(std::vector<TShape>* in_shape, std::vector<TShape>* out_shape) const override {
    // As in MXNet, matrices whose inner extents are not all stated tell nothing.
    const TShape& lhs = (*in_shape)[0];
    const TShape& rhs = (*in_shape)[1];
    if (lhs.ndim() >= 2 && rhs.ndim() >= 2) {
      const index_t columns = lhs[lhs.ndim() - (param_.transpose_a ? 2 : 1)];
      const index_t rows = rhs[rhs.ndim() - (param_.transpose_b ? 1 : 2)];
      if (columns == TShape::kUnknown || rows == TShape::kUnknown) return false;
    }
    return BatchedProductProperty::InferShape(in_shape, out_shape);
  }
};

class Gemm2Property final : public BatchedProductProperty<Gemm2Parameters, 2> {
 public:
  std::vector<std::string> ListArguments() const override { return {"A", "B"}; }
};

class GemmProperty final : public BatchedProductProperty<GemmParameters, 2> {
 public:
  std::vector<std::string> ListArguments() const override { return {"A", "B", "C"}; }
  bool InferShape(std::vector<TShape>* in_shape, std::vector<TShape>* out_shape) const override {
    TShape& c = (*in_shape)[2];
    TShape& out = (*out_shape)[0];
    MergeShape(*this, "C", &c, out);
    MergeShape(*this, "output", &out, c);
    const bool known = BatchedProductProperty::InferShape(in_shape, out_shape);
    MergeShape(*this, "C", &c, out);
    return known;
  }
  std::vector<InplacePair> ForwardInplaceOption(std::span<const int> in_data,
                                                std::span<const int> out_data) const override {
    return {{in_data[2], out_data[0]}};
  }
  bool BuildGradient(GradientBuilder* builder) const override {
    ParameterMap parameters = this->GetParams();
    parameters.erase("beta");
    AdjointCall call{.op = "_linalg_gemm2", .parameters = parameters};
    const Term g(builder, builder->OutGrad(0));
    call.out_grads = {g};
    for (const int i : {0, 1}) call.inputs.emplace_back(builder, builder->Input(i));
    for (const int i : {0, 1}) {
      call.argument = i;
      SetInGrad(builder, i, ApplyAdjoint(call).front());
    }
    SetInGrad(builder, 2, g * param_.beta);
    return true;
  }
};

const MapFunction kTimes = MakeMapFunction<op::mul, 2>();

class GemmOperator final : public MatrixProductOperator {
 public:
  GemmOperator(const GemmParameters& param, std::span<const TShape> in_shape)
      : MatrixProductOperator(MatricesOf(in_shape[0], AxisPosition(param.axis, in_shape[0].ndim()),
                                         param.transpose_a),
                              MatricesOf(in_shape[1], AxisPosition(param.axis, in_shape[1].ndim()),
                                         param.transpose_b),
                              param.alpha),
        beta_(param.beta) {}

  void Forward(const OpContext& context, std::span<const TBlob> in_data,
               std::span<const OpReqType> req, std::span<const TBlob> out_data) override {
    if (req[0] == kNullOp) return;
    if (beta_ == 0) return MatrixProductOperator::Forward(context, in_data, req, out_data);
    MapCall(out_data[0], req[0]).Add(in_data[2]).Add(beta_).Run(kTimes, context);
    const OpReqType add[] = {kAddTo};
    MatrixProductOperator::Forward(context, in_data, add, out_data);
  }
  void Backward(const OpContext& context, std::span<const TBlob> out_grad,
                std::span<const TBlob> in_data, std::span<const TBlob> out_data,
                std::span<const OpReqType> req, std::span<const TBlob> in_grad) override {
    MatrixProductOperator::Backward(context, out_grad, in_data, out_data, req, in_grad);
    if (beta_ == 0) return MoveZeros(in_grad[2], req[2], context);
    MapCall(in_grad[2], req[2]).Add(out_grad[0]).Add(beta_).Run(kTimes, context);
  }

 private:
  const double beta_;
};

template <typename Parameters>
class BatchedProductOperator final : public MatrixProductOperator {
 public:
  BatchedProductOperator(const Parameters& param, std::span<const TShape> in_shape)
      : MatrixProductOperator(MatricesOf(in_shape[0], AxisPosition(param.axis, in_shape[0].ndim()),
                                         param.transpose_a),
                              MatricesOf(in_shape[1], AxisPosition(param.axis, in_shape[1].ndim()),
                                         param.transpose_b),
                              param.alpha) {}
};

[[maybe_unused]] const bool kBatchDot =
    RegisterTypedOperator<BatchDotProperty, BatchedProductOperator<BatchDotParameters>>(
        TESSERA_TABLE_PLACE, "batch_dot", "The products of the matrices in two batches.");
[[maybe_unused]] const bool kGemm2 =
    RegisterTypedOperator<Gemm2Property, BatchedProductOperator<Gemm2Parameters>>(
        TESSERA_TABLE_PLACE, "_linalg_gemm2",
        "The products of the matrices in two batches, times alpha.");
[[maybe_unused]] const bool kGemm = RegisterTypedOperator<GemmProperty, GemmOperator>(
    TESSERA_TABLE_PLACE, "_linalg_gemm",
    "The products of the matrices in two batches, times alpha, plus beta times a third batch.");

}  // namespace
}  // namespace tessera
