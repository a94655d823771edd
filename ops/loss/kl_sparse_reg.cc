// IdentityAttachKLSparseReg: data itself, whose gradient draws the mean of each feature to a
// target.
//
//   out = data    average = momentum moving_avg + (1 - momentum) mean of data
//   d data = g + penalty ((1 - t) / (1 - average) - t / average),  t = sparseness_target
//
// The second summand is the derivative, by the average, of the Kullback-Leibler divergence of a
// Bernoulli distribution with mean t from one with mean average (Ng, Sparse autoencoder, lecture
// notes CS294A, 2011). It suits features in (0, 1), such as those of a sigmoid. In training,
// moving_avg becomes the average; MXNet changes it when the gradient is computed. Shapes: data
// (batch, features, …), moving_avg and the hidden output `average` (features). Types: float32,
// float64, float16, bfloat16; the last two are computed in float32. Runs on the CPU.
#include <string>
#include <vector>

#include "tessera/base/error.h"
#include "tessera/ops/loops/row_call.h"
#include "tessera/ops/loops/row_loop.h"
#include "tessera/ops/loops/row_statistics.h"
#include "tessera/ops/loops/typed_row.h"
#include "tessera/ops/typed_operator.h"

namespace tessera {
namespace {

using namespace ops_internal;  // NOLINT: the row driver

struct SparseRegParameters {
  float sparseness_target = 0.1f;
  float penalty = 0.001f;
  float momentum = 0.9f;

  static void Declare(ParameterSchema<SparseRegParameters>& schema) {
    using P = SparseRegParameters;
    schema.Optional("sparseness_target", &P::sparseness_target,
                    "the mean that features should have");
    schema.Range(0, 1);
    schema.Optional("penalty", &P::penalty, "the weight of the divergence's gradient");
    schema.Optional("momentum", &P::momentum, "the weight of the old moving average");
    schema.Range(0, 1);
  }
  /// Returns the divergence's derivative by the average, times the penalty.
  double Slope(double average) const {
    const double target = static_cast<double>(sparseness_target);
    return ((1 - target) / (1 - average) - target / average) * static_cast<double>(penalty);
  }
};

enum Input { kData, kMovingAverage };
enum OutputValue { kOut, kAverage };

class SparseRegProperty final : public ParameterizedProperty<SparseRegParameters> {
 public:
  std::vector<std::string> ListArguments() const override { return {"data", "moving_avg"}; }
  std::vector<std::string> ListOutputs() const override { return {"output", "average"}; }
  int NumVisibleOutputs() const override { return 1; }
  std::vector<int> MutatedInputs() const override { return {kMovingAverage}; }
  bool ArgumentHasGradient(int argument) const override { return argument == kData; }

  bool InferShape(std::vector<TShape>* in_shape, std::vector<TShape>* out_shape) const override {
    TShape& data = (*in_shape)[kData];
    TShape& out = (*out_shape)[kOut];
    MergeEqualShapes(*this, {{"data", &data}, {"output", &out}});
    TShape features = TShape::OfRank(1);
    if (data.rank_known()) {
      if (data.ndim() < 2) {
        throw InvalidArgument(TypeString(), ": data has shape ", data,
                              ", expected (batch, features, ...)");
      }
      features[0] = data[1];
    }
    MergeEqualShapes(*this, {{"data's features", &features},
                             {"moving_avg", &(*in_shape)[kMovingAverage]},
                             {"average", &(*out_shape)[kAverage]}});
    if (!data.rank_known()) return false;
    data[1] = out[1] = features[0];
    return data.known();
  }
  std::vector<int> DeclareBackwardDependency(std::span<const int> out_grad, std::span<const int>,
                                             std::span<const int> out_data) const override {
    return {out_grad[kOut], out_data[kAverage]};
  }
  std::vector<InplacePair> ForwardInplaceOption(std::span<const int> in_data,
                                                std::span<const int> out_data) const override {
    return {{in_data[kData], out_data[kOut]}};
  }
  std::vector<InplacePair> BackwardInplaceOption(std::span<const int> out_grad,
                                                 std::span<const int>, std::span<const int>,
                                                 std::span<const int> in_grad) const override {
    return {{out_grad[kOut], in_grad[kData]}};
  }
};

class SparseRegOperator final : public Operator {
 public:
  explicit SparseRegOperator(const SparseRegParameters& param) : param_(param) {}

  void Forward(const OpContext& context, std::span<const TBlob> in_data,
               std::span<const OpReqType> req, std::span<const TBlob> out_data) override {
    const TBlob& data = in_data[kData];
    const RowLayout rows = RowLayout::Channels(data.shape_, 1);
    const index_t n = rows.Length();
    const double momentum = static_cast<double>(param_.momentum);
    const OpReqType state_req = context.is_train ? req[2] : kNullOp;
    VisitComputedIn(ComputedInReal(data.type_flag_), [&](auto one) {
      using T = decltype(one);
      RowCall(rows)
          .Read(data)
          .Write(out_data[kOut], req[kOut])
          .template Run<T>(0, [&](index_t row, const T* const* in, T* const* out) {
            const T* const x = in[0];
            T* const y = out[0];
            double average = RowReader<double>(in_data[kMovingAverage])[row];
            if (n > 0) {
              const double sum = SumOf<T>(n, [=](index_t i) TESSERA_LOOP_BODY { return x[i]; });
              average = MovedAverage(average, momentum, sum / static_cast<double>(n));
            }
            ForEach(n, [=](index_t i) TESSERA_LOOP_BODY { y[i] = x[i]; });
            RowWriter<double>(out_data[kAverage], req[kAverage]).Write(row, average);
            RowWriter<double>(in_data[kMovingAverage], state_req).Write(row, average);
          });
    });
  }

  void Backward(const OpContext&, std::span<const TBlob> out_grad, std::span<const TBlob>,
                std::span<const TBlob> out_data, std::span<const OpReqType> req,
                std::span<const TBlob> in_grad) override {
    const TBlob& grad = in_grad[kData];
    const RowLayout rows = RowLayout::Channels(grad.shape_, 1);
    const index_t n = rows.Length();
    VisitComputedIn(ComputedInReal(grad.type_flag_), [&](auto one) {
      using T = decltype(one);
      RowCall(rows)
          .Read(out_grad[kOut])
          .Write(grad, req[kData])
          .template Run<T>(0, [&](index_t row, const T* const* in, T* const* out) {
            const T* const g = in[0];
            T* const dx = out[0];
            const double average = RowReader<double>(out_data[kAverage])[row];
            const T slope = static_cast<T>(param_.Slope(average));
            ForEach(n, [=](index_t i) TESSERA_LOOP_BODY { dx[i] = g[i] + slope; });
          });
    });
  }

 private:
  const SparseRegParameters param_;
};

[[maybe_unused]] const bool kRegistered =
    RegisterTypedOperator<SparseRegProperty, SparseRegOperator>(
        TESSERA_TABLE_PLACE, "IdentityAttachKLSparseReg",
        "data itself, whose gradient draws the mean of each feature to a target.");

}  // namespace
}  // namespace tessera
