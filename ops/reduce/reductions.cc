#include "tessera/ops/reduce/reductions.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "tessera/ops/loops/axes.h"
#include "tessera/ops/loops/typed_row.h"
#include "tessera/ops/registry.h"
#include "tessera/ops/typed_operator.h"
#include "tessera/tensor/device/parallel.h"

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
  std::vector<ResourceRequest> BackwardResource(std::span<const TShape>) const override {
    if (!row_.is_product) return {};
    return {{ResourceRequest::Type::kTempSpace}};
  }
  bool BuildGradient(GradientBuilder* builder) const override {
    if (row_.is_linear) return BuildLinearGradient(*this, builder);
    if (row_.graph == nullptr) return false;
    const Term x(builder, builder->Input(0));
    // The gradient of a sum gives each of its elements a copy.
    const auto copies = [&](const Term& term) {
      return ApplyAdjoint(
                 {.op = "sum", .parameters = GetParams(), .out_grads = {term}, .inputs = {x}})
          .front();
    };
    const auto reduced = [&](std::string_view op, const Term& term) {
      return copies(Apply(op, {term}, GetParams()));
    };
    SetInGrad(builder, 0,
              row_.graph(copies({builder, builder->OutGrad(0)}), x,
                         copies({builder, builder->Output(0)}), reduced));
    return true;
  }

 private:
  const ReductionRow& row_;
};

/// Returns whether a product may have factors 0, or NaN. An array on a GPU is not read: it may.
bool MayHaveZeros(const TBlob& products) {
  if (products.device_.type == DeviceType::kGpu) return true;
  constexpr index_t kPiece = 512;
  const auto may_be_zero = [](double x) { return !(std::abs(x) > 0); };
  std::atomic<bool> found = false;
  ParallelFor(products.shape_.Size(), StepsPerTask(1), [&](index_t begin, index_t end) {
    double buffer[kPiece];
    for (; begin < end; begin += kPiece) {
      const index_t n = std::min(kPiece, end - begin);
      const double* const values = RowReader<double>(products).Read(begin, n, buffer);
      if (std::none_of(values, values + n, may_be_zero)) continue;
      // Others need not be ordered with it: the loop's end is what makes it visible.
      found.store(true, std::memory_order_relaxed);
      return;
    }
  });
  return found;
}

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
    if (req[0] == kNullOp) return;
    const TShape& shape = in_grad[0].shape_;
    const TShape kept = KeepingAxes(shape, param_.Axes(name_, shape.ndim()));
    MapCall call(in_grad[0], req[0]);
    call.Add(out_grad[0].reshape(kept));
    if (row_.is_linear) {
      const bool divides = row_.finish == ReduceFinish::kDivide && kept.Size() > 0;
      call.Add(divides ? static_cast<double>(kept.Size()) / static_cast<double>(shape.Size()) : 1);
    } else {
      call.Add(in_data[0]);
      if (row_.is_product && MayHaveZeros(out_data[0])) {
        AddNonzeroProducts(in_data[0], kept, context, &call);
      } else {
        call.Add(out_data[0].reshape(kept));
        if (row_.is_product) call.Add(0);
      }
    }
    call.Run(row_.gradient, context);
  }
  std::optional<int64_t> BackwardWorkspaceBytes(int, std::span<const TBlob>,
                                                std::span<const TBlob> in_data,
                                                std::span<const TBlob>, std::span<const OpReqType>,
                                                std::span<const TBlob>) const override {
    if (!row_.is_product) return 0;
    const TShape& shape = in_data[0].shape_;
    const TShape kept = KeepingAxes(shape, param_.Axes(name_, shape.ndim()));
    return 2 * Distance(kept) * DTypeSizeBytes(ProductType(in_data[0]));
  }

 private:
  /// The type of the products in the workspace, and the distance of two results there: each begins
  /// with a line of the cache.
  static DType ProductType(const TBlob& data) {
    return data.type_flag_ == DType::kFloat64 ? DType::kFloat64 : DType::kFloat32;
  }
  static index_t Distance(const TShape& kept) { return (kept.Size() + 15) / 16 * 16; }

  /// Adds the products of the elements that are not 0 and the numbers of those that are to a call.
  /// Both have the shape `kept` and lie in the workspace.
  void AddNonzeroProducts(const TBlob& data, const TShape& kept, const OpContext& context,
                          MapCall* call) const {
    const DType dtype = ProductType(data);
    const index_t distance = Distance(kept);
    const TBlob space = WorkspaceArray(context, 0, {2 * distance}, dtype, data.device_);
    index_t first = 0;
    for (const ReduceFunction* const function : {&row_.nonzero_product, &row_.num_zeros}) {
      const TBlob result(ElementAt(space, first), kept, dtype, data.device_);
      Reduce(*function, data, param_.Axes(name_, data.shape_.ndim()), result, kWriteTo, context);
      call->Add(result);
      first += distance;
    }
  }

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
