// batch_dot and _linalg_gemm2: products of the matrices in two arrays.
//
//   out[b…] = alpha * op(lhs[b…]) * op(rhs[b…])       op transposes if transpose_a, transpose_b
//   d lhs[b…] = alpha * d out[b…] * op(rhs[b…])^T     transposed if transpose_a
//   d rhs[b…] = alpha * op(lhs[b…])^T * d out[b…]     transposed if transpose_b
//
// A matrix's columns are the last axis, and its rows the one before; `axis` of _linalg_gemm2 names
// another axis for the rows. Shapes: lhs (b…, m, k) or transposed (b…, k, m), rhs (b…, k, n) or
// transposed (b…, n, k), out (b…, m, n); batch_dot takes three dimensions or more. Types: float32,
// float64, float16, bfloat16; the last two accumulate in float32.
#include "tessera/base/error.h"
#include "tessera/ops/gradient_formula.h"
#include "tessera/ops/linalg/matrix_product.h"
#include "tessera/ops/typed_operator.h"

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

  static void Declare(ParameterSchema<Gemm2Parameters>& schema) {
    using P = Gemm2Parameters;
    schema.Optional("transpose_a", &P::transpose_a, "transpose the matrices of A");
    schema.Optional("transpose_b", &P::transpose_b, "transpose the matrices of B");
    schema.Optional("alpha", &P::alpha, "the factor of the products");
    schema.Optional("axis", &P::axis, "the axis of the matrices' rows, from the end if negative");
  }
};

/// Returns the axis of the rows in an array of `rank` dimensions, which may be none of them.
template <typename Parameters>
int RowAxis(const Parameters& param, int rank) {
  return static_cast<int>(param.axis < 0 ? param.axis + rank : param.axis);
}

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
    const int row = RowAxis(param, rank), last = rank - 1;
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

using BatchDotProperty = BatchedProductProperty<BatchDotParameters, 3>;

class Gemm2Property final : public BatchedProductProperty<Gemm2Parameters, 2> {
 public:
  std::vector<std::string> ListArguments() const override { return {"A", "B"}; }
};

template <typename Parameters>
class BatchedProductOperator final : public MatrixProductOperator {
 public:
  BatchedProductOperator(const Parameters& param, std::span<const TShape> in_shape)
      : MatrixProductOperator(
            MatricesOf(in_shape[0], RowAxis(param, in_shape[0].ndim()), param.transpose_a),
            MatricesOf(in_shape[1], RowAxis(param, in_shape[1].ndim()), param.transpose_b),
            param.alpha) {}
};

[[maybe_unused]] const bool kBatchDot =
    RegisterTypedOperator<BatchDotProperty, BatchedProductOperator<BatchDotParameters>>(
        TESSERA_TABLE_PLACE, "batch_dot", "The products of the matrices in two batches.");
[[maybe_unused]] const bool kGemm2 =
    RegisterTypedOperator<Gemm2Property, BatchedProductOperator<Gemm2Parameters>>(
        TESSERA_TABLE_PLACE, "_linalg_gemm2",
        "The products of the matrices in two batches, times alpha.");

}  // namespace
}  // namespace tessera
