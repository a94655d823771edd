// FullyConnected: out = data * weight^T + bias.
//
//   out[i][j]  = sum_k data[i][k] * weight[j][k] + bias[j]
//   d data     = d out * weight
//   d weight   = d out^T * data
//   d bias[j]  = sum_i d out[i][j]
//
// Shapes: data (batch, …), read as (batch, k) if flatten, else (…, k); weight (num_hidden, k); bias
// (num_hidden) or (num_hidden, 1); out (batch, num_hidden) or (…, num_hidden).
// Types: float32, float64, float16, bfloat16; the last two accumulate in float32.
#include <algorithm>

#include "tessera/base/error.h"
#include "tessera/ops/gradient_formula.h"
#include "tessera/ops/loops/matrix_product.h"
#include "tessera/ops/loops/move.h"
#include "tessera/ops/loops/reduce_function.h"
#include "tessera/ops/loops/reducers.h"
#include "tessera/ops/typed_operator.h"

namespace tessera {
namespace {

using namespace ops_internal;  // NOLINT: products, copies and registration

struct FullyConnectedParameters {
  int64_t num_hidden = 0;
  bool no_bias = false;
  bool flatten = true;

  static void Declare(ParameterSchema<FullyConnectedParameters>& schema) {
    using P = FullyConnectedParameters;
    schema.Required("num_hidden", &P::num_hidden, "number of outputs for each row");
    schema.Range(1);
    schema.Optional("no_bias", &P::no_bias, "leave the bias out");
    schema.Optional("flatten", &P::flatten, "treat all dimensions after the first as one");
  }

  /// Returns the number of data's dimensions that are rows; the others are columns.
  int NumRowAxes(const TShape& data) const { return flatten ? 1 : data.ndim() - 1; }
};

class FullyConnectedProperty final : public ParameterizedProperty<FullyConnectedParameters> {
 public:
  std::vector<std::string> ListArguments() const override {
    if (param_.no_bias) return {"data", "weight"};
    return {"data", "weight", "bias"};
  }

  bool InferShape(std::vector<TShape>* in_shape, std::vector<TShape>* out_shape) const override {
    TShape& data = (*in_shape)[0];
    TShape& weight = (*in_shape)[1];
    TShape& out = (*out_shape)[0];
    if (!param_.no_bias) InferBias(&(*in_shape)[2]);
    if (param_.flatten) {
      MergeShape(*this, "output", &out, {TShape::kUnknown, param_.num_hidden});
    } else if (!data.rank_known() && out.rank_known()) {
      data = TShape::OfRank(out.ndim());
    }
    // Before data's rank is known, nothing is told of weight, as in MXNet.
    if (!data.rank_known()) return false;
    MergeShape(*this, "weight", &weight, {param_.num_hidden, TShape::kUnknown});
    if (data.ndim() == 0) {
      throw InvalidArgument(TypeString(), ": data is a scalar, expected at least one dimension");
    }
    // The output determines the leading dimensions, which both share.
    const int leading = param_.NumRowAxes(data);
    MergeShape(*this, "output", &out, WithLast(data, leading, param_.num_hidden));
    for (int i = 0; i < leading; ++i) data[i] = out[i];
    InferColumns(weight[1], leading, &data);
    const index_t columns = ProductOfExtents(*this, "data", data, leading, data.ndim());
    MergeShape(*this, "weight", &weight, {param_.num_hidden, columns});
    return data.known();
  }

  std::vector<int> DeclareBackwardDependency(std::span<const int> out_grad,
                                             std::span<const int> in_data,
                                             std::span<const int>) const override {
    return {out_grad[0], in_data[0], in_data[1]};
  }
  bool BuildGradient(GradientBuilder* builder) const override {
    ParameterMap product = GetParams();
    product["no_bias"] = "True";
    BuildBilinearGradient(*this, product, builder);
    if (param_.no_bias) return true;
    const Term g(builder, builder->OutGrad(0));
    SetInGrad(builder, 2, Apply("sum", {g}, {{"axis", "-1"}, {"exclude", "True"}}));
    return true;
  }

 private:
  /// A row_sparse bias has a second axis, as in MXNet.
  void InferBias(TShape* bias) const {
    const bool is_column = bias->rank_known() && bias->ndim() == 2;
    MergeShape(*this, "bias", bias,
               is_column ? TShape{param_.num_hidden, 1} : TShape{param_.num_hidden});
  }

  /// Returns the first `leading` dimensions of `shape`, followed by `last`.
  static TShape WithLast(const TShape& shape, int leading, index_t last) {
    TShape result = TShape::OfRank(leading + 1);
    std::copy_n(shape.begin(), leading, &result[0]);
    result[leading] = last;
    return result;
  }

  /// Completes data's dimensions from `leading` on if all but one are known, and their product is.
  void InferColumns(index_t columns, int leading, TShape* data) const {
    if (columns == TShape::kUnknown) return;
    TShape others = *data;
    int unknown = -1;
    for (int i = leading; i < data->ndim(); ++i) {
      if ((*data)[i] != TShape::kUnknown) continue;
      if (unknown >= 0) return;
      unknown = i;
      others[i] = 1;
    }
    if (unknown < 0) return;
    const index_t product = ProductOfExtents(*this, "data", others, leading, data->ndim());
    if (product == 0 && columns == 0) return;
    if (product == 0 || columns % product != 0) {
      throw InvalidArgument(TypeString(), ": data has shape ", *data, ", but weight has ", columns,
                            " columns, no multiple of ", product);
    }
    (*data)[unknown] = columns / product;
  }
};

const ReduceFunction kSum = MakeReduceFunction<SumReducer>();

class FullyConnectedOperator final : public MatrixProductOperator {
 public:
  FullyConnectedOperator(const FullyConnectedParameters& param, std::span<const TShape> in_shape)
      : MatrixProductOperator(MatrixOf(in_shape[0], param.NumRowAxes(in_shape[0]), false),
                              MatrixOf(in_shape[1], 1, true)),
        no_bias_(param.no_bias) {}

  void Forward(const OpContext& context, std::span<const TBlob> in_data,
               std::span<const OpReqType> req, std::span<const TBlob> out_data) override {
    if (no_bias_ || req[0] == kNullOp) {
      return MatrixProductOperator::Forward(context, in_data, req, out_data);
    }
    // The product is added to the bias, so that 16-bit types are rounded once.
    StridedView rows(in_data[2]);
    rows.num_dims = 0;
    rows.Append(out().rows, 0);
    rows.Append(out().columns, 1);
    Move(rows, StridedView(out_data[0], {out().rows, out().columns}), req[0], context);
    const OpReqType add[] = {kAddTo};
    MatrixProductOperator::Forward(context, in_data, add, out_data);
  }

  void Backward(const OpContext& context, std::span<const TBlob> out_grad,
                std::span<const TBlob> in_data, std::span<const TBlob> out_data,
                std::span<const OpReqType> req, std::span<const TBlob> in_grad) override {
    MatrixProductOperator::Backward(context, out_grad, in_data, out_data, req, in_grad);
    if (no_bias_ || req[2] == kNullOp) return;
    Reduce(kSum, out_grad[0].reshape({out().rows, out().columns}), {true}, in_grad[2], req[2],
           context);
  }

 private:
  const bool no_bias_;
};

[[maybe_unused]] const bool kRegistered =
    RegisterTypedOperator<FullyConnectedProperty, FullyConnectedOperator>(
        TESSERA_TABLE_PLACE, "FullyConnected", "A dense layer: data * weight^T + bias.");

}  // namespace
}  // namespace tessera
