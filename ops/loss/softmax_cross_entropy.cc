// softmax_cross_entropy: the sum over the samples of -log softmax(data) at the label.
//
//   out = -sum_i log max(p[i][label[i]], 1e-8),  p = softmax(data) along the classes
//   d data[i][j] = g (p[i][j] - (j == label[i]))
//
// Shapes: data (samples, classes), label (samples), out (1). Types: float32, float64, float16,
// bfloat16; the label has data's type and is truncated. A label that is no class throws
// Error(kOutOfRange). Runs on the CPU.
#include <cmath>

#include "tessera/base/error.h"
#include "tessera/ops/gradient_formula.h"
#include "tessera/ops/loops/row_call.h"
#include "tessera/ops/loops/row_loop.h"
#include "tessera/ops/loops/typed_row.h"
#include "tessera/ops/typed_operator.h"
#include "tessera/tensor/expr/cost.h"
#include "tessera/tensor/functors.h"

namespace tessera {
namespace {

using namespace ops_internal;  // NOLINT: the row driver

class SoftmaxCrossEntropyProperty final : public ParameterizedProperty<NoParameters> {
 public:
  std::vector<std::string> ListArguments() const override { return {"data", "label"}; }
  bool ArgumentHasGradient(int argument) const override { return argument == 0; }

  bool InferShape(std::vector<TShape>* in_shape, std::vector<TShape>* out_shape) const override {
    TShape& data = (*in_shape)[0];
    TShape& label = (*in_shape)[1];
    MergeShape(*this, "output", &(*out_shape)[0], {1});
    MergeShape(*this, "data", &data, TShape::OfRank(2));
    MergeShape(*this, "label", &label, {data[0]});
    data[0] = label[0];
    return data.known();
  }
  std::vector<int> DeclareBackwardDependency(std::span<const int> out_grad,
                                             std::span<const int> in_data,
                                             std::span<const int>) const override {
    return {out_grad[0], in_data[0], in_data[1]};
  }
  std::vector<InplacePair> BackwardInplaceOption(std::span<const int>, std::span<const int> in_data,
                                                 std::span<const int>,
                                                 std::span<const int> in_grad) const override {
    return {{in_data[0], in_grad[0]}};
  }
  bool BuildGradient(GradientBuilder* builder) const override {
    const Term g(builder, builder->OutGrad(0)), data(builder, builder->Input(0)),
        label(builder, builder->Input(1));
    // The gradient of the sum of the picked elements is 1 there, else 0.
    const Term picked =
        ApplyAdjoint(
            {.op = "pick", .out_grads = {Apply("ones_like", {label})}, .inputs = {data, label}})
            .front();
    SetInGrad(builder, 0, g.Broadcast() * (Apply("softmax", {data}) - picked));
    return true;
  }
};

/// Returns the label of a row.
index_t LabelOf(const TBlob& label, index_t row, index_t classes) {
  const double value = RowReader<double>(label)[row];
  if (classes == 0 || !(value > -1 && value < static_cast<double>(classes))) {
    throw OutOfRange("softmax_cross_entropy: label ", row, " is ", value, ", expected 0 to ",
                     classes - 1);
  }
  return static_cast<index_t>(value);
}

/// Writes exp(x - largest) to `terms`, and returns their sum.
template <typename T>
double ExpSum(const T* x, index_t n, T largest, T* terms) {
  ForEach(n, [=](index_t i) TESSERA_LOOP_BODY { terms[i] = x[i] - largest; });
  op::exp::ArrayKernel(terms, terms, n);
  return SumOf<T>(n, [=](index_t i) TESSERA_LOOP_BODY { return terms[i]; });
}

class SoftmaxCrossEntropyOperator final : public Operator {
 public:
  explicit SoftmaxCrossEntropyOperator(const NoParameters&) {}

  void Forward(const OpContext&, std::span<const TBlob> in_data, std::span<const OpReqType> req,
               std::span<const TBlob> out_data) override {
    if (req[0] == kNullOp) return;
    const RowLayout rows = RowLayout::Along(in_data[0].shape_, 1);
    const index_t n = rows.Length();
    std::vector<double> losses(static_cast<size_t>(rows.NumRows()));
    RowCall call(rows);
    // The exponentials need memory but are not kept.
    call.Read(in_data[0]).Write(in_data[0], kNullOp);
    VisitComputedIn(ComputedInReal(in_data[0].type_flag_), [&](auto one) {
      using T = decltype(one);
      call.Run<T>(kCost, [&](index_t row, const T* const* in, T* const* out) {
        const index_t label = LabelOf(in_data[1], row, n);
        const T largest = LargestOf(in[0], n);
        const double sum = ExpSum(in[0], n, largest, out[0]);
        const double log = static_cast<double>(in[0][label] - largest) - std::log(sum);
        losses[static_cast<size_t>(row)] = std::min(-log, -std::log(1e-8));
      });
    });
    double total = 0;
    for (const double loss : losses) total += loss;
    RowWriter<double>(out_data[0], req[0]).Write(0, total);
  }

  void Backward(const OpContext&, std::span<const TBlob> out_grad, std::span<const TBlob> in_data,
                std::span<const TBlob>, std::span<const OpReqType> req,
                std::span<const TBlob> in_grad) override {
    if (req[0] == kNullOp) return;
    const RowLayout rows = RowLayout::Along(in_data[0].shape_, 1);
    const index_t n = rows.Length();
    const double head = RowReader<double>(out_grad[0])[0];
    RowCall call(rows);
    call.Read(in_data[0]).Write(in_grad[0], req[0]);
    VisitComputedIn(ComputedInReal(in_data[0].type_flag_), [&](auto one) {
      using T = decltype(one);
      call.Run<T>(kCost, [&](index_t row, const T* const* in, T* const* out) {
        const index_t label = LabelOf(in_data[1], row, n);
        T* const dx = out[0];
        const double sum = ExpSum(in[0], n, LargestOf(in[0], n), dx);
        const T factor = static_cast<T>(head / sum);
        ForEach(n, [=](index_t i) TESSERA_LOOP_BODY { dx[i] *= factor; });
        dx[label] -= static_cast<T>(head);
      });
    });
  }

 private:
  static constexpr index_t kCost = expr::FunctorCost<op::exp, float>();
};

[[maybe_unused]] const bool kRegistered =
    RegisterTypedOperator<SoftmaxCrossEntropyProperty, SoftmaxCrossEntropyOperator>(
        TESSERA_TABLE_PLACE, "softmax_cross_entropy",
        "The sum of -log softmax(data) at the labels.");

}  // namespace
}  // namespace tessera
