// _training_mode: 1 in training, else 0, like data. Gradients as graphs depend on the mode by it.
//
// Shapes: any; out like data, which has gradient 0. Types: float32, float64, float16, bfloat16.
#include "tessera/ops/loops/map_function.h"
#include "tessera/ops/typed_operator.h"
#include "tessera/tensor/functors.h"

namespace tessera {
namespace {

using namespace ops_internal;  // NOLINT: the map driver

class TrainingModeProperty final : public ParameterizedProperty<NoParameters> {
 public:
  bool ArgumentHasGradient(int) const override { return false; }
  bool InferShape(std::vector<TShape>* in_shape, std::vector<TShape>* out_shape) const override {
    MergeEqualShapes(*this, {{"data", &(*in_shape)[0]}, {"output", &(*out_shape)[0]}});
    return (*in_shape)[0].known();
  }
  std::vector<int> DeclareBackwardDependency(std::span<const int>, std::span<const int>,
                                             std::span<const int>) const override {
    return {};
  }
};

const MapFunction kCopy = MakeMapFunction<op::identity, 1>();

class TrainingModeOperator final : public Operator {
 public:
  explicit TrainingModeOperator(const NoParameters&) {}

  void Forward(const OpContext& context, std::span<const TBlob>, std::span<const OpReqType> req,
               std::span<const TBlob> out_data) override {
    MapCall(out_data[0], req[0]).Add(context.is_train ? 1.0 : 0.0).Run(kCopy, context);
  }
  void Backward(const OpContext& context, std::span<const TBlob>, std::span<const TBlob>,
                std::span<const TBlob>, std::span<const OpReqType> req,
                std::span<const TBlob> in_grad) override {
    MapCall(in_grad[0], req[0]).Add(0.0).Run(kCopy, context);
  }
};

[[maybe_unused]] const bool kRegistered =
    RegisterTypedOperator<TrainingModeProperty, TrainingModeOperator>(
        TESSERA_TABLE_PLACE, "_training_mode", "1 in training, else 0.");

}  // namespace
}  // namespace tessera
