// moments: mean and variance over axes.
//
//   output0 = mean(x)    output1 = mean((x - output0)^2)
//   d x = (g0 + 2 g1 (x - output0)) / n, where n elements make one mean
//
// Shapes: data any; outputs without the reduced axes, or with extents of 1 there if keepdims; (1)
// if no axis is left. Types: data and outputs of one type; 16-bit types are computed in float32,
// integers as integers, whose quotients are cut off.
#include <cstdint>
#include <optional>
#include <vector>

#include "tessera/ops/gradient_formula.h"
#include "tessera/ops/loops/axes.h"
#include "tessera/ops/loops/map_function.h"
#include "tessera/ops/loops/reduce_function.h"
#include "tessera/ops/loops/reducers.h"
#include "tessera/ops/typed_operator.h"
#include "tessera/ops/xpu.h"
#include "tessera/tensor/functors.h"

namespace tessera {
namespace {

using namespace ops_internal;  // NOLINT: the drivers

struct MomentsParameters {
  std::optional<std::vector<int>> axes;
  bool keepdims = false;

  static void Declare(ParameterSchema<MomentsParameters>& schema) {
    using P = MomentsParameters;
    schema.Optional("axes", &P::axes, "the axes to reduce, at least one");
    schema.Optional("keepdims", &P::keepdims, "whether reduced axes stay with extent 1");
  }
  ReducedAxes Axes(int ndim) const { return FindAxes("moments", *axes, /*exclude=*/false, ndim); }
};

class MomentsProperty final : public ParameterizedProperty<MomentsParameters> {
 public:
  std::vector<std::string> ListOutputs() const override { return {"output0", "output1"}; }

  bool InferShape(std::vector<TShape>* in_shape, std::vector<TShape>* out_shape) const override {
    if (!param_.axes || param_.axes->empty()) {
      throw InvalidArgument(TypeString(), ": axes is empty, expected the axes to reduce");
    }
    const TShape& data = (*in_shape)[0];
    TShape reduced;
    if (data.rank_known()) {
      reduced = ReducedShape(data, param_.Axes(data.ndim()), param_.keepdims);
    }
    MergeEqualShapes(*this, {{"the mean of data", &reduced},
                             {"output0", &(*out_shape)[0]},
                             {"output1", &(*out_shape)[1]}});
    return data.known() && reduced.known();
  }
  std::vector<int> DeclareBackwardDependency(std::span<const int> out_grad,
                                             std::span<const int> in_data,
                                             std::span<const int> out_data) const override {
    return {out_grad[0], out_grad[1], in_data[0], out_data[0]};
  }
  std::vector<ResourceRequest> ForwardResource(std::span<const TShape>) const override {
    return {{ResourceRequest::Type::kTempSpace}};
  }
  bool BuildGradient(GradientBuilder* builder) const override {
    const Term x(builder, builder->Input(0));
    const ParameterMap parameters = GetParams();
    // The gradient of a sum gives each of its elements a copy; that of a mean divides them.
    const auto copies = [&](const char* op, GradientBuilder::Value value) {
      return ApplyAdjoint({.op = op,
                           .parameters = {{"axis", parameters.at("axes")},
                                          {"keepdims", parameters.at("keepdims")}},
                           .out_grads = {Term(builder, value)},
                           .inputs = {x}})
          .front();
    };
    const Term of_mean = copies("mean", builder->OutGrad(0));
    const Term of_variance = copies("mean", builder->OutGrad(1));
    SetInGrad(builder, 0, of_mean + of_variance * 2 * (x - copies("sum", builder->Output(0))));
    return true;
  }
};

struct SquareOfDifference {
  template <typename T>
  TESSERA_HD static T Map(T x, T mean) {
    return op::mul::Map(op::minus::Map(x, mean), op::minus::Map(x, mean));
  }
};
/// The gradient of an element x for those of mean and variance; `factor` is 1 / n.
struct MomentsGradient {
  template <typename T>
  TESSERA_HD static T Map(T of_mean, T of_variance, T x, T mean, T factor) {
    return (of_mean + T(2) * of_variance * (x - mean)) * factor;
  }
};

class MomentsOperator final : public Operator {
 public:
  explicit MomentsOperator(const MomentsParameters& param) : param_(param) {}

  void Forward(const OpContext& context, std::span<const TBlob> in_data,
               std::span<const OpReqType> req, std::span<const TBlob> out_data) override {
    static const ReduceFunction sum = MakeReduceFunction<SumReducer>();
    static const MapFunction square =
        MakeMapFunction<SquareOfDifference, 2, MapTypes::kArithmetic>();
    static const MapFunction identity = MakeMapFunction<op::identity, 1, MapTypes::kArithmetic>();
    const TBlob& data = in_data[0];
    const ReducedAxes axes = param_.Axes(data.shape_.ndim());
    const TShape kept = KeepingAxes(data.shape_, axes);
    const DType computed_in = ComputedIn(data.type_flag_);
    const index_t means = SizeOfMeans(kept);
    const bool wants_variance = req[1] != kNullOp;
    const TBlob space = WorkspaceArray<xpu>(
        context, 0, {means + (wants_variance ? data.shape_.Size() : 0)}, computed_in, data.device_);
    const TBlob mean(space.dptr_, kept, computed_in, data.device_);
    Reduce(sum, data, axes, mean, kWriteTo, context, ReduceFinish::kDivide);
    if (req[0] != kNullOp) {
      MapCall(out_data[0], req[0])
          .Add(mean.reshape(out_data[0].shape_))
          .Run(identity, computed_in, context);
    }
    if (!wants_variance) return;
    const TBlob squares(static_cast<char*>(space.dptr_) + means * DTypeSizeBytes(computed_in),
                        data.shape_, computed_in, data.device_);
    MapCall(squares, kWriteTo).Add(data).Add(mean).Run(square, computed_in, context);
    Reduce(sum, squares, axes, out_data[1], req[1], context, ReduceFinish::kDivide);
  }

  std::optional<int64_t> ForwardWorkspaceBytes(int, std::span<const TBlob> in_data,
                                               std::span<const OpReqType> req,
                                               std::span<const TBlob>) const override {
    const TShape& shape = in_data[0].shape_;
    const index_t means = SizeOfMeans(KeepingAxes(shape, param_.Axes(shape.ndim())));
    return (means + (req[1] != kNullOp ? shape.Size() : 0)) *
           DTypeSizeBytes(ComputedIn(in_data[0].type_flag_));
  }

  void Backward(const OpContext& context, std::span<const TBlob> out_grad,
                std::span<const TBlob> in_data, std::span<const TBlob> out_data,
                std::span<const OpReqType> req, std::span<const TBlob> in_grad) override {
    static const MapFunction gradient = MakeMapFunction<MomentsGradient, 5>();
    const TBlob& data = in_data[0];
    const TShape kept = KeepingAxes(data.shape_, param_.Axes(data.shape_.ndim()));
    if (data.shape_.Size() == 0) return;
    MapCall(in_grad[0], req[0])
        .Add(out_grad[0].reshape(kept))
        .Add(out_grad[1].reshape(kept))
        .Add(data)
        .Add(out_data[0].reshape(kept))
        .Add(static_cast<double>(kept.Size()) / static_cast<double>(data.shape_.Size()))
        .Run(gradient, context);
  }

 private:
  /// The elements of the means, which come first in the workspace, in whole lines of the cache.
  static index_t SizeOfMeans(const TShape& kept) { return (kept.Size() + 15) / 16 * 16; }
  static DType ComputedIn(DType dtype) {
    if (dtype == DType::kFloat64) return DType::kFloat64;
    return IsReal(dtype) ? DType::kFloat32 : DType::kInt64;
  }

  const MomentsParameters param_;
};

[[maybe_unused]] const bool kRegistered = RegisterTypedOperator<MomentsProperty, MomentsOperator>(
    TESSERA_TABLE_PLACE, "moments", "Mean and variance over axes.", TakenTypes::kAny);

}  // namespace
}  // namespace tessera
