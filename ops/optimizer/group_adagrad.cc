// _contrib_group_adagrad_update: AdaGrad (Duchi et al. 2011) with one learning rate for each row:
//
//   g = clip(rescale_grad * grad, clip_gradient)
//   history[i] += mean over row i of g^2;  weight[i] -= lr * g[i] / sqrt(history[i] + epsilon)
//
// A negative bound turns clipping off. The output is the new weight, usually in the weight's
// memory; history changes. Shapes: weight and grad (rows, …); history (rows, 1), (rows) or with
// more extents of 1. A weight without dimensions is one row. Types: float32, float64, float16,
// bfloat16, one for all, computed in float64. There is no gradient. Runs on the CPU.
#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "tessera/ops/loops/typed_row.h"
#include "tessera/ops/optimizer/step_function.h"
#include "tessera/tensor/device/parallel.h"

namespace tessera {
namespace {

using namespace ops_internal;  // NOLINT: the driver of steps

struct GroupParameters {
  float lr = 0;
  float rescale_grad = 1;
  float clip_gradient = -1;
  float epsilon = 1e-5f;

  static void Declare(ParameterSchema<GroupParameters>& schema) {
    using P = GroupParameters;
    schema.Required("lr", &P::lr, "learning rate");
    schema.Optional("rescale_grad", &P::rescale_grad, "factor of the gradient");
    schema.Optional("clip_gradient", &P::clip_gradient,
                    "bound of a gradient's element; none if negative");
    schema.Optional("epsilon", &P::epsilon, "added under the square root");
  }
};

class GroupProperty final : public ParameterizedProperty<GroupParameters> {
 public:
  std::vector<std::string> ListArguments() const override { return {"weight", "grad", "history"}; }
  std::vector<int> MutatedInputs() const override { return {2}; }
  bool HasGradient() const override { return false; }

  bool InferShape(std::vector<TShape>* in_shape, std::vector<TShape>* out_shape) const override {
    TShape& history = (*in_shape)[2];
    const bool known = InferStepShape(*this, {"weight", "grad"}, 0, 2, in_shape, &(*out_shape)[0]);
    TShape& weight = (*in_shape)[0];
    const index_t rows = !weight.rank_known() ? TShape::kUnknown
                         : weight.ndim() == 0 ? 1
                                              : weight[0];
    if (!history.rank_known()) {
      if (weight.rank_known()) history = {rows, 1};
      return known && history.known();
    }
    TShape expected = TShape::OfRank(std::max(history.ndim(), 1));
    for (int i = 0; i < expected.ndim(); ++i) expected[i] = i == 0 ? rows : 1;
    MergeShape(*this, "history", &history, expected);
    return known && history.known();
  }
  std::vector<InplacePair> ForwardInplaceOption(std::span<const int> in_data,
                                                std::span<const int> out_data) const override {
    return {{in_data[0], out_data[0]}};
  }
};

class GroupOperator final : public Operator {
 public:
  explicit GroupOperator(const GroupParameters& param) : param_(param) {}

  void Forward(const OpContext&, std::span<const TBlob> in_data, std::span<const OpReqType> req,
               std::span<const TBlob> out_data) override {
    const TShape& shape = in_data[0].shape_;
    const index_t rows = shape.ndim() == 0 ? 1 : shape[0];
    const index_t length = shape.ndim() == 0 ? 1 : shape.ProdShape(1, shape.ndim());
    if (length == 0) return;
    const RowReader<double> weight(in_data[0]), grad(in_data[1]), history(in_data[2]);
    const RowWriter<double> out =
        req[0] == kNullOp ? RowWriter<double>() : RowWriter<double>(out_data[0], req[0]);
    const RowWriter<double> new_history(in_data[2], req[1]);
    ParallelFor(rows, StepsPerTask(2 * length), [&](index_t begin, index_t end) {
      for (index_t row = begin; row < end; ++row) {
        const double squares = history[row] + MeanSquare(grad, row * length, length);
        if (out.is_wanted()) Step(weight, grad, row * length, length, squares, out);
        new_history.Write(row, squares);
      }
    });
  }

 private:
  // Elements that are converted at a time.
  static constexpr index_t kBlock = 512;

  ClippedGradient<double> Clipped() const { return {param_.rescale_grad, param_.clip_gradient}; }

  double MeanSquare(const RowReader<double>& grad, index_t first, index_t length) const {
    const ClippedGradient<double> clipped = Clipped();
    double buffer[kBlock], sum = 0;
    for (index_t i = 0; i < length; i += kBlock) {
      const index_t n = std::min(kBlock, length - i);
      const double* const g = grad.Read(first + i, n, buffer);
      for (index_t k = 0; k < n; ++k) sum += clipped(g[k]) * clipped(g[k]);
    }
    return sum / static_cast<double>(length);
  }

  void Step(const RowReader<double>& weight, const RowReader<double>& grad, index_t first,
            index_t length, double squares, const RowWriter<double>& out) const {
    const ClippedGradient<double> clipped = Clipped();
    const double rate = double{param_.lr} / std::sqrt(squares + double{param_.epsilon});
    double weights[kBlock], grads[kBlock], results[kBlock];
    for (index_t i = 0; i < length; i += kBlock) {
      const index_t n = std::min(kBlock, length - i);
      const double* const w = weight.Read(first + i, n, weights);
      const double* const g = grad.Read(first + i, n, grads);
      double* const result = out.Out(first + i, results);
      for (index_t k = 0; k < n; ++k) result[k] = w[k] - rate * clipped(g[k]);
      out.Write(first + i, n, result);
    }
  }

  const GroupParameters param_;
};

[[maybe_unused]] const bool kRegistered[] = {
    RegisterTypedOperator<GroupProperty, GroupOperator>(
        TESSERA_TABLE_PLACE, "_contrib_group_adagrad_update",
        "One step of AdaGrad with a rate for each row, for dense arrays."),
};

}  // namespace
}  // namespace tessera
