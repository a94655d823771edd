// MakeLoss and make_loss: data itself, as the start of a gradient.
//
//   out = data    MakeLoss: d data = grad_scale / m    make_loss: d data = 1
//
// m is 1, the number of rows along the last axis (normalization=batch) or the number of elements
// above valid_thresh (valid; at least 1). No head gradient is read. Shapes: any; out like data.
// Types: float32, float64, float16, bfloat16.
#include <cstdint>
#include <optional>

#include "tessera/ops/gradient_builder.h"
#include "tessera/ops/loops/map_function.h"
#include "tessera/ops/loops/reduce_function.h"
#include "tessera/ops/loops/reducers.h"
#include "tessera/ops/typed_operator.h"
#include "tessera/ops/xpu.h"
#include "tessera/tensor/functors.h"

namespace tessera {
namespace {

using namespace ops_internal;  // NOLINT: the drivers

enum class Normalization { kNull, kBatch, kValid };

struct MakeLossParameters {
  float grad_scale = 1;
  float valid_thresh = 0;
  Normalization normalization = Normalization::kNull;

  static void Declare(ParameterSchema<MakeLossParameters>& schema) {
    using P = MakeLossParameters;
    schema.Optional("grad_scale", &P::grad_scale, "the gradient");
    schema.Optional("valid_thresh", &P::valid_thresh,
                    "elements above it count for normalization=valid");
    schema.Choice("normalization", &P::normalization,
                  {{"batch", Normalization::kBatch},
                   {"null", Normalization::kNull},
                   {"valid", Normalization::kValid}},
                  "what the gradient is divided by");
  }
};

template <typename Parameters>
class LossProperty : public ParameterizedProperty<Parameters> {
 public:
  bool IsLoss() const override { return true; }
  bool InferShape(std::vector<TShape>* in_shape, std::vector<TShape>* out_shape) const override {
    MergeEqualShapes(*this,
                     {{"data", &(*in_shape)[0]}, {this->ListOutputs()[0], &(*out_shape)[0]}});
    return (*in_shape)[0].known();
  }
  std::vector<int> DeclareBackwardDependency(std::span<const int>, std::span<const int>,
                                             std::span<const int>) const override {
    return {};
  }
  std::vector<InplacePair> ForwardInplaceOption(std::span<const int> in_data,
                                                std::span<const int> out_data) const override {
    return {{in_data[0], out_data[0]}};
  }
};

class PlainLossProperty final : public LossProperty<NoParameters> {
 public:
  std::vector<std::string> ListOutputs() const override { return {"loss"}; }
  bool BuildGradient(GradientBuilder* builder) const override {
    builder->SetInGrad(0, builder->Apply1("ones_like", {builder->Input(0)}));
    return true;
  }
};

class MakeLossProperty final : public LossProperty<MakeLossParameters> {
 public:
  std::vector<int> DeclareBackwardDependency(std::span<const int>, std::span<const int> in_data,
                                             std::span<const int>) const override {
    if (param_.normalization == Normalization::kValid) return {in_data[0]};
    return {};
  }
  std::vector<ResourceRequest> BackwardResource(std::span<const TShape>) const override {
    if (param_.normalization == Normalization::kValid) {
      return {{ResourceRequest::Type::kTempSpace}};
    }
    return {};
  }
};

struct IsAbove {
  template <typename T>
  TESSERA_HD static T Map(T x, T threshold) {
    return x > threshold ? T(1) : T(0);
  }
};
struct OverCount {
  template <typename T>
  TESSERA_HD static T Map(T count, T scale) {
    return scale / (count > T(1) ? count : T(1));
  }
};

const MapFunction kCopy = MakeMapFunction<op::identity, 1>();
const MapFunction kIsAbove = MakeMapFunction<IsAbove, 2>();
const MapFunction kOverCount = MakeMapFunction<OverCount, 2>();
const ReduceFunction kSum = MakeReduceFunction<SumReducer>();

class MakeLossOperator : public Operator {
 public:
  explicit MakeLossOperator(const MakeLossParameters& param) : param_(param) {}

  void Forward(const OpContext& context, std::span<const TBlob> in_data,
               std::span<const OpReqType> req, std::span<const TBlob> out_data) override {
    MapCall(out_data[0], req[0]).Add(in_data[0]).Run(kCopy, context);
  }

  void Backward(const OpContext& context, std::span<const TBlob>, std::span<const TBlob> in_data,
                std::span<const TBlob>, std::span<const OpReqType> req,
                std::span<const TBlob> in_grad) override {
    if (req[0] == kNullOp || in_grad[0].shape_.Size() == 0) return;
    const double scale = static_cast<double>(param_.grad_scale);
    const TShape& shape = in_grad[0].shape_;
    if (param_.normalization != Normalization::kValid) {
      const bool by_batch = param_.normalization == Normalization::kBatch;
      MapCall(in_grad[0], req[0])
          .Add(by_batch ? scale / static_cast<double>(shape.FlatTo2D()[0]) : scale)
          .Run(kCopy, context);
      return;
    }
    // The elements that count as ones, then their sum, in a type that counts exactly.
    const index_t n = shape.Size();
    const TBlob space =
        WorkspaceArray<xpu>(context, 0, {n + 1}, DType::kFloat64, in_data[0].device_);
    const TBlob ones(space.dptr_, {n}, space.type_flag_, space.device_);
    const TBlob count(static_cast<double*>(space.dptr_) + n, {1}, space.type_flag_, space.device_);
    MapCall(ones, kWriteTo)
        .Add(in_data[0].reshape({n}))
        .Add(static_cast<double>(param_.valid_thresh))
        .Run(kIsAbove, context);
    ReducedAxes axes{};
    axes[0] = true;
    Reduce(kSum, ones, axes, count, kWriteTo, context);
    MapCall(in_grad[0].reshape({n}), req[0]).Add(count).Add(scale).Run(kOverCount, context);
  }
  std::optional<int64_t> BackwardWorkspaceBytes(int, std::span<const TBlob>,
                                                std::span<const TBlob> in_data,
                                                std::span<const TBlob>, std::span<const OpReqType>,
                                                std::span<const TBlob>) const override {
    if (param_.normalization != Normalization::kValid) return 0;
    return (in_data[0].Size() + 1) * static_cast<int64_t>(sizeof(double));
  }

 private:
  const MakeLossParameters param_;
};

class PlainLossOperator final : public MakeLossOperator {
 public:
  explicit PlainLossOperator(const NoParameters&) : MakeLossOperator(MakeLossParameters()) {}
};

[[maybe_unused]] const bool kRegistered[] = {
    RegisterTypedOperator<MakeLossProperty, MakeLossOperator>(
        TESSERA_TABLE_PLACE, "MakeLoss", "data as a loss: its gradient is grad_scale."),
    RegisterTypedOperator<PlainLossProperty, PlainLossOperator>(
        TESSERA_TABLE_PLACE, "make_loss", "data as a loss: its gradient is 1."),
};

}  // namespace
}  // namespace tessera
