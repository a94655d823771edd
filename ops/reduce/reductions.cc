#include "tessera/ops/reduce/reductions.h"

#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "tessera/ops/loops/axes.h"
#include "tessera/ops/registry.h"

namespace tessera::ops_internal {
namespace {

struct ReductionParameters {
  std::optional<std::vector<int>> axis;
  bool keepdims = false;
  bool exclude = false;

  static void Declare(ParameterSchema<ReductionParameters>& schema) {
    using P = ReductionParameters;
    schema.Optional("axis", &P::axis, "the axes to reduce; all if None or ()");
    schema.Optional("keepdims", &P::keepdims, "whether reduced axes stay with extent 1");
    schema.Optional("exclude", &P::exclude, "whether to reduce the axes that are not listed");
  }
  ReducedAxes Axes(std::string_view owner, int ndim) const {
    return FindAxes(owner, axis.value_or(std::vector<int>()), exclude, ndim);
  }
};

class ReductionProperty final : public ParameterizedProperty<ReductionParameters> {
 public:
  explicit ReductionProperty(const ReductionRow* row) : row_(*row) {}

  bool InferShape(std::vector<TShape>* in_shape, std::vector<TShape>* out_shape) const override {
    const TShape& data = (*in_shape)[0];
    if (!data.rank_known()) return false;
    const ReducedAxes axes = param_.Axes(TypeString(), data.ndim());
    MergeShape(*this, "output", &(*out_shape)[0], ReducedShape(data, axes, param_.keepdims));
    return data.known() && (*out_shape)[0].known();
  }
  std::vector<int> DeclareBackwardDependency(std::span<const int> out_grad,
                                             std::span<const int> in_data,
                                             std::span<const int> out_data) const override {
    // A linear one needs no values.
    if (row_.is_linear) return {out_grad[0]};
    return {out_grad[0], in_data[0], out_data[0]};
  }
  bool BuildGradient(GradientBuilder* builder) const override {
    if (row_.is_linear) return BuildLinearGradient(*this, builder);
    if (row_.graph == nullptr) return false;
    const Term x(builder, builder->Input(0));
    // The gradient of a sum gives each of its elements a copy.
    const auto copies = [&](GradientBuilder::Value value) {
      return ApplyAdjoint({.op = "sum",
                           .parameters = GetParams(),
                           .out_grads = {Term(builder, value)},
                           .inputs = {x}})
          .front();
    };
    SetInGrad(builder, 0, row_.graph(copies(builder->OutGrad(0)), x, copies(builder->Output(0))));
    return true;
  }

 private:
  const ReductionRow& row_;
};

class ReductionOperator final : public Operator {
 public:
  ReductionOperator(const ReductionRow* row, const ReductionParameters& param,
                    std::string_view name)
      : row_(*row), param_(param), name_(name) {}

  void Forward(const OpContext& context, std::span<const TBlob> in_data,
               std::span<const OpReqType> req, std::span<const TBlob> out_data) override {
    const ReducedAxes axes = param_.Axes(name_, in_data[0].shape_.ndim());
    Reduce(row_.function, in_data[0], axes, out_data[0], req[0], context, row_.finish);
  }

  void Backward(const OpContext& context, std::span<const TBlob> out_grad,
                std::span<const TBlob> in_data, std::span<const TBlob> out_data,
                std::span<const OpReqType> req, std::span<const TBlob> in_grad) override {
    const TShape& shape = in_grad[0].shape_;
    const TShape kept = KeepingAxes(shape, param_.Axes(name_, shape.ndim()));
    MapCall call(in_grad[0], req[0]);
    call.Add(out_grad[0].reshape(kept));
    if (row_.is_linear) {
      const bool divides = row_.finish == ReduceFinish::kDivide && kept.Size() > 0;
      call.Add(divides ? static_cast<double>(kept.Size()) / static_cast<double>(shape.Size()) : 1);
    } else {
      call.Add(in_data[0]).Add(out_data[0].reshape(kept));
    }
    call.Run(row_.gradient, context);
  }

 private:
  const ReductionRow& row_;
  const ReductionParameters param_;
  const std::string_view name_;
};

}  // namespace

bool RegisterReductions(TablePlace place, std::vector<ReductionRow> rows) {
  for (ReductionRow& entry : rows) {
    // The registration keeps the row.
    const auto row = std::make_shared<const ReductionRow>(std::move(entry));
    RegisterRow<ReductionProperty>(
        place, row->name, std::string(row->description),
        [row] { return std::make_unique<ReductionProperty>(row.get()); },
        [row](const OperatorProperty& property, std::span<const TShape>,
              std::span<const DType>) -> std::unique_ptr<Operator> {
          const auto& typed = static_cast<const ReductionProperty&>(property);
          return std::make_unique<ReductionOperator>(row.get(), typed.param(), row->name);
        });
  }
  return true;
}

}  // namespace tessera::ops_internal
