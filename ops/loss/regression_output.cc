// Outputs whose gradient is that of a loss against a label of the same size.
//
//                             out                 d data = grad_scale / m times
//   LinearRegressionOutput    data                out - label
//   LogisticRegressionOutput  1 / (1 + e^-data)   out - label
//   MAERegressionOutput       data                1 if out > label, else -1
//
// m is the number of a sample's labels. No head gradient is read. Shapes: data (samples, …); label
// like data or with as many elements for as many samples, by default (samples) for data
// (samples, 1). Types: float32, float64, float16, bfloat16; the label has data's type.
#include "tessera/ops/loops/map_function.h"
#include "tessera/ops/typed_operator.h"
#include "tessera/tensor/functors.h"

namespace tessera {
namespace {

using namespace ops_internal;  // NOLINT: the map driver

struct RegressionParameters {
  float grad_scale = 1;

  static void Declare(ParameterSchema<RegressionParameters>& schema) {
    schema.Optional("grad_scale", &RegressionParameters::grad_scale, "factor of the gradient");
  }
};

class RegressionProperty final : public ParameterizedProperty<RegressionParameters> {
 public:
  std::vector<std::string> ListArguments() const override { return {"data", "label"}; }
  bool IsLoss() const override { return true; }
  bool ArgumentHasGradient(int argument) const override { return argument == 0; }

  bool InferShape(std::vector<TShape>* in_shape, std::vector<TShape>* out_shape) const override {
    TShape& data = (*in_shape)[0];
    TShape& label = (*in_shape)[1];
    TShape& out = (*out_shape)[0];
    MergeEqualShapes(*this, {{"data", &data}, {"output", &out}});
    if (!data.rank_known()) return false;
    if (data.ndim() == 0) {
      throw InvalidArgument(TypeString(), ": data is a scalar, expected at least one dimension");
    }
    if (!data.known()) return false;
    if (!label.rank_known()) {
      label = data;
      if (data.ndim() == 2 && data[1] == 1) label = {data[0]};
      return true;
    }
    if (label.ndim() == data.ndim() && !label.known()) {
      MergeShape(*this, "label", &label, data);
    } else if (label.ndim() > 0 && label[0] == TShape::kUnknown) {
      label[0] = data[0];
    }
    if (!label.known()) return false;
    if (label.ndim() == 0 || label[0] != data[0] ||
        ProductOfExtents(*this, "label", label, 1, label.ndim()) !=
            ProductOfExtents(*this, "data", data, 1, data.ndim())) {
      throw InvalidArgument(TypeString(), ": label has shape ", label, ", expected that of data, ",
                            data, ", or as many elements for as many samples");
    }
    return true;
  }
  std::vector<int> DeclareBackwardDependency(std::span<const int>, std::span<const int> in_data,
                                             std::span<const int> out_data) const override {
    return {in_data[1], out_data[0]};
  }
  std::vector<InplacePair> ForwardInplaceOption(std::span<const int> in_data,
                                                std::span<const int> out_data) const override {
    return {{in_data[0], out_data[0]}};
  }
  std::vector<InplacePair> BackwardInplaceOption(std::span<const int>, std::span<const int>,
                                                 std::span<const int> out_data,
                                                 std::span<const int> in_grad) const override {
    return {{out_data[0], in_grad[0]}};
  }
};

struct Difference {
  template <typename T>
  TESSERA_HD static T Map(T out, T label, T scale) {
    return (out - label) * scale;
  }
};
struct SignOfDifference {
  template <typename T>
  TESSERA_HD static T Map(T out, T label, T scale) {
    return out > label ? scale : -scale;
  }
};

template <typename Link, typename Gradient>
class RegressionOperator final : public Operator {
 public:
  explicit RegressionOperator(const RegressionParameters& param) : param_(param) {}

  void Forward(const OpContext& context, std::span<const TBlob> in_data,
               std::span<const OpReqType> req, std::span<const TBlob> out_data) override {
    static const MapFunction kLink = MakeMapFunction<Link, 1>();
    MapCall(out_data[0], req[0]).Add(in_data[0]).Run(kLink, context);
  }

  void Backward(const OpContext& context, std::span<const TBlob>, std::span<const TBlob> in_data,
                std::span<const TBlob> out_data, std::span<const OpReqType> req,
                std::span<const TBlob> in_grad) override {
    static const MapFunction kGradient = MakeMapFunction<Gradient, 3>();
    const TShape& shape = out_data[0].shape_;
    if (req[0] == kNullOp || shape.Size() == 0) return;
    const double labels = static_cast<double>(shape.Size() / shape[0]);
    MapCall(in_grad[0], req[0])
        .Add(out_data[0])
        .Add(in_data[1].reshape(shape))
        .Add(static_cast<double>(param_.grad_scale) / labels)
        .Run(kGradient, context);
  }

 private:
  const RegressionParameters param_;
};

[[maybe_unused]] const bool kRegistered[] = {
    RegisterTypedOperator<RegressionProperty, RegressionOperator<op::identity, Difference>>(
        TESSERA_TABLE_PLACE, "LinearRegressionOutput",
        "data, with the gradient of half the squared error."),
    RegisterTypedOperator<RegressionProperty, RegressionOperator<op::sigmoid, Difference>>(
        TESSERA_TABLE_PLACE, "LogisticRegressionOutput",
        "sigmoid of data, with the gradient of the cross-entropy."),
    RegisterTypedOperator<RegressionProperty, RegressionOperator<op::identity, SignOfDifference>>(
        TESSERA_TABLE_PLACE, "MAERegressionOutput",
        "data, with the gradient of the absolute error."),
};

}  // namespace
}  // namespace tessera
