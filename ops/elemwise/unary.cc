#include "tessera/ops/elemwise/unary.h"

#include <memory>
#include <optional>
#include <utility>

#include "tessera/ops/registry.h"

namespace tessera::ops_internal {
namespace {

class UnaryProperty final : public ParameterizedProperty<NoParameters> {
 public:
  explicit UnaryProperty(const UnaryRow* row) : row_(*row) {}

  bool InferShape(std::vector<TShape>* in_shape, std::vector<TShape>* out_shape) const override {
    MergeShape(*this, "output", &(*out_shape)[0], (*in_shape)[0]);
    MergeShape(*this, "data", &(*in_shape)[0], (*out_shape)[0]);
    return (*in_shape)[0].known();
  }
  std::vector<int> DeclareBackwardDependency(std::span<const int> out_grad,
                                             std::span<const int> in_data,
                                             std::span<const int> out_data) const override {
    switch (row_.gradient_reads) {
      case GradientReads::kNothing:
        return {};
      case GradientReads::kHead:
        return {out_grad[0]};
      case GradientReads::kInput:
        return {out_grad[0], in_data[0]};
      case GradientReads::kOutput:
        return {out_grad[0], out_data[0]};
    }
    return {};
  }
  std::vector<InplacePair> ForwardInplaceOption(std::span<const int> in_data,
                                                std::span<const int> out_data) const override {
    return {{in_data[0], out_data[0]}};
  }
  std::vector<InplacePair> BackwardInplaceOption(std::span<const int> out_grad,
                                                 std::span<const int>, std::span<const int>,
                                                 std::span<const int> in_grad) const override {
    if (row_.gradient_reads == GradientReads::kNothing) return {};
    return {{out_grad[0], in_grad[0]}};
  }
  bool BuildGradient(GradientBuilder* builder) const override {
    if (row_.gradient_reads == GradientReads::kNothing) return true;
    if (row_.graph == nullptr) return false;
    const Term g(builder, builder->OutGrad(0)), x(builder, builder->Input(0)),
        y(builder, builder->Output(0));
    SetInGrad(builder, 0, row_.graph(g, x, y));
    return true;
  }
  std::optional<MapForm> ForwardForm() const override {
    return MapForm{&row_.value, {MapForm::Input(0)}};
  }
  std::optional<MapForm> GradientForm(int) const override {
    MapForm form{&row_.gradient, {MapForm::OutGrad()}};
    switch (row_.gradient_reads) {
      case GradientReads::kNothing:
        form.operands = {MapForm::Of(0)};
        break;
      case GradientReads::kHead:
        break;
      case GradientReads::kInput:
        form.operands.push_back(MapForm::Input(0));
        break;
      case GradientReads::kOutput:
        form.operands.push_back(MapForm::Output());
        break;
    }
    return form;
  }

 private:
  const UnaryRow& row_;
};

class UnaryOperator final : public Operator {
 public:
  explicit UnaryOperator(const UnaryRow* row) : row_(*row) {}

  void Forward(const OpContext& context, std::span<const TBlob> in_data,
               std::span<const OpReqType> req, std::span<const TBlob> out_data) override {
    MapCall(out_data[0], req[0]).Add(in_data[0]).Run(row_.value, context);
  }

  void Backward(const OpContext& context, std::span<const TBlob> out_grad,
                std::span<const TBlob> in_data, std::span<const TBlob> out_data,
                std::span<const OpReqType> req, std::span<const TBlob> in_grad) override {
    MapCall call(in_grad[0], req[0]);
    switch (row_.gradient_reads) {
      case GradientReads::kNothing:
        call.Add(0);
        break;
      case GradientReads::kHead:
        call.Add(out_grad[0]);
        break;
      case GradientReads::kInput:
        call.Add(out_grad[0]).Add(in_data[0]);
        break;
      case GradientReads::kOutput:
        call.Add(out_grad[0]).Add(out_data[0]);
        break;
    }
    call.Run(row_.gradient, context);
  }

 private:
  const UnaryRow& row_;
};

}  // namespace

bool RegisterUnary(TablePlace place, std::vector<UnaryRow> rows) {
  for (UnaryRow& entry : rows) {
    // The registration keeps the row.
    const auto row = std::make_shared<const UnaryRow>(std::move(entry));
    RegisterRow<UnaryProperty>(
        place, row->name, std::string(row->description),
        [row] { return std::make_unique<UnaryProperty>(row.get()); },
        [row](const OperatorProperty&, std::span<const TShape>, std::span<const DType>)
            -> std::unique_ptr<Operator> { return std::make_unique<UnaryOperator>(row.get()); });
  }
  return true;
}

}  // namespace tessera::ops_internal
