// Dropout: elements are 0 with probability p, and the others are divided by 1 - p.
//
//   out = data * mask    d data = d out * mask    mask: 0 with probability p, else 1 / (1 - p)
//
// Outside of training, unless mode=always, the mask is 1. The mask is the same along `axes`, and is
// the hidden output "mask". The numbers come from the device's sequence, so that one seed gives one
// mask. With p = 1 everything is 0. Shapes: any; out like data; the mask has extent 1 on `axes`.
// Types: float32, float64, float16, bfloat16. CPU only.

#include <algorithm>
#include <cstdint>
#include <optional>

#include "tessera/ops/gradient_formula.h"
#include "tessera/ops/loops/map_function.h"
#include "tessera/ops/loops/typed_row.h"
#include "tessera/ops/typed_operator.h"
#include "tessera/tensor/device/parallel.h"
#include "tessera/tensor/functors.h"
#include "tessera/tensor/random.h"

namespace tessera {
namespace {

using namespace ops_internal;  // NOLINT: the map driver

struct DropoutParameters {
  float p = 0.5f;
  bool always = false;
  TShape axes = TShape::OfRank(0);
  std::optional<bool> cudnn_off = false;

  static void Declare(ParameterSchema<DropoutParameters>& schema) {
    using P = DropoutParameters;
    schema.Optional("p", &P::p, "the fraction of elements that become 0");
    schema.Range(0, 1);
    schema.Choice("mode", &P::always, {{"always", true}, {"training", false}},
                  "always, or in training only");
    schema.Optional("axes", &P::axes, "axes along which the mask is repeated");
    schema.Optional("cudnn_off", &P::cudnn_off, "accepted for old graphs; not used");
  }
};

class DropoutProperty final : public ParameterizedProperty<DropoutParameters> {
 public:
  std::vector<std::string> ListOutputs() const override { return {"output", "mask"}; }
  int NumVisibleOutputs() const override { return 1; }
  Purity purity() const override { return Purity::kRandom; }

  bool InferShape(std::vector<TShape>* in_shape, std::vector<TShape>* out_shape) const override {
    TShape& data = (*in_shape)[0];
    MergeEqualShapes(*this, {{"data", &data}, {"output", &(*out_shape)[0]}});
    if (!data.rank_known()) return false;
    TShape mask = data;
    for (int i = 0; i < param_.axes.ndim(); ++i) {
      const index_t axis = param_.axes[i];
      if (axis < 0 || axis >= data.ndim()) {
        throw InvalidArgument(TypeString(), ": axes is ", param_.axes, ", but data has shape ",
                              data);
      }
      mask[static_cast<int>(axis)] = 1;
    }
    MergeShape(*this, "mask", &(*out_shape)[1], mask);
    return data.known();
  }
  std::vector<int> DeclareBackwardDependency(std::span<const int> out_grad, std::span<const int>,
                                             std::span<const int> out_data) const override {
    return {out_grad[0], out_data[1]};
  }
  std::vector<InplacePair> ForwardInplaceOption(std::span<const int> in_data,
                                                std::span<const int> out_data) const override {
    return {{in_data[0], out_data[0]}};
  }
  std::vector<InplacePair> BackwardInplaceOption(std::span<const int> out_grad,
                                                 std::span<const int>, std::span<const int>,
                                                 std::span<const int> in_grad) const override {
    return {{out_grad[0], in_grad[0]}};
  }
  std::vector<ResourceRequest> ForwardResource(std::span<const TShape>) const override {
    return {{ResourceRequest::Type::kRandom}, {ResourceRequest::Type::kTempSpace}};
  }
  bool BuildGradient(GradientBuilder* builder) const override {
    const Term g(builder, builder->OutGrad(0)), mask(builder, builder->Output(1));
    SetInGrad(builder, 0, g * (param_.axes.ndim() > 0 ? mask.Broadcast() : mask));
    return true;
  }
};

const MapFunction kCopy = MakeMapFunction<op::identity, 1>();
const MapFunction kTimes = MakeMapFunction<op::mul, 2>();

class DropoutOperator final : public Operator {
 public:
  explicit DropoutOperator(const DropoutParameters& param) : param_(param) {}

  void Forward(const OpContext& context, std::span<const TBlob> in_data,
               std::span<const OpReqType> req, std::span<const TBlob> out_data) override {
    const TBlob& data = in_data[0];
    const bool drops = (context.is_train || param_.always) && param_.p > 0;
    if (!drops) {
      MapCall(out_data[0], req[0]).Add(data).Run(kCopy, context);
      return MapCall(out_data[1], req[1]).Add(1.0).Run(kCopy, context);
    }
    if (param_.axes.ndim() == 0) return ForwardInBlocks(context, data, req, out_data);
    TBlob mask = out_data[1];
    if (!WritesMask(req)) {
      mask = WorkspaceArray<cpu>(context, 1, MaskShape(data), data.type_flag_, data.device_);
    }
    Random<cpu> random(context.requested[0]->GetRandomState());
    DrawMask(&random, mask, context);
    MapCall(out_data[0], req[0]).Add(data).Add(mask).Run(kTimes, context);
    if (req[1] == kAddTo) MapCall(out_data[1], kAddTo).Add(mask).Run(kCopy, context);
  }
  std::optional<int64_t> ForwardWorkspaceBytes(int, std::span<const TBlob> in_data,
                                               std::span<const OpReqType> req,
                                               std::span<const TBlob>) const override {
    if (param_.axes.ndim() == 0 || WritesMask(req)) return 0;
    return MaskShape(in_data[0]).Size() * DTypeSizeBytes(in_data[0].type_flag_);
  }

  void Backward(const OpContext& context, std::span<const TBlob> out_grad, std::span<const TBlob>,
                std::span<const TBlob> out_data, std::span<const OpReqType> req,
                std::span<const TBlob> in_grad) override {
    MapCall(in_grad[0], req[0]).Add(out_grad[0]).Add(out_data[1]).Run(kTimes, context);
  }

 private:
  static bool WritesMask(std::span<const OpReqType> req) {
    return req[1] == kWriteTo || req[1] == kWriteInplace;
  }
  TShape MaskShape(const TBlob& data) const {
    TShape shape = data.shape_;
    for (int i = 0; i < param_.axes.ndim(); ++i) shape[static_cast<int>(param_.axes[i])] = 1;
    return shape;
  }

  /// The elements whose mask is drawn and used while it is in the first cache.
  static constexpr index_t kBlock = 32 * tensor_internal::kElementsPerTile;
  /// The cost of drawing an element.
  static constexpr index_t kCost = 4;

  /// Draws a mask that is not repeated along any axis, and uses it, block after block.
  void ForwardInBlocks(const OpContext& context, const TBlob& data, std::span<const OpReqType> req,
                       std::span<const TBlob> out_data) const {
    PhiloxState* const state = context.requested[0]->GetRandomState();
    const PhiloxState first = *state;
    const index_t size = data.shape_.Size();
    const bool writes_mask = WritesMask(req);
    ParallelFor(
        (size + kBlock - 1) / kBlock, StepsPerTask(kBlock, kCost), [&](index_t begin, index_t end) {
          alignas(64) char unwritten[kBlock * sizeof(double)];
          for (index_t i = begin * kBlock; i < std::min(size, end * kBlock); i += kBlock) {
            const TShape shape = {std::min(kBlock, size - i)};
            const auto block = [&](const TBlob& array) {
              return TBlob(ElementAt(array, i), shape, array.type_flag_, array.device_);
            };
            const TBlob mask = writes_mask ? block(out_data[1])
                                           : TBlob(unwritten, shape, data.type_flag_, data.device_);
            PhiloxState own = tensor_internal::StateAfter(first, i);
            Random<cpu> random(&own);
            DrawMask(&random, mask, context);
            if (req[0] != kNullOp) {
              MapCall(block(out_data[0]), req[0]).Add(block(data)).Add(mask).Run(kTimes, context);
            }
            if (req[1] == kAddTo) {
              MapCall(block(out_data[1]), kAddTo).Add(mask).Run(kCopy, context);
            }
          }
        });
    *state = tensor_internal::StateAfter(first, size);
  }

  void DrawMask(Random<cpu>* random, const TBlob& mask, const OpContext& context) const {
    const double keep = 1 - static_cast<double>(param_.p);
    VisitRealDType(mask.type_flag_, "Dropout", [&](auto tag) {
      auto elements = mask.FlatTo1D<cpu, typename decltype(tag)::type>();
      random->SampleBernoulli(&elements, keep);
    });
    MapCall(mask, kWriteTo).Add(mask).Add(keep > 0 ? 1 / keep : 0).Run(kTimes, context);
  }

  const DropoutParameters param_;
};

[[maybe_unused]] const bool kRegistered = RegisterTypedOperator<DropoutProperty, DropoutOperator>(
    TESSERA_TABLE_PLACE, "Dropout",
    "Sets random elements to 0 in training and enlarges the others.");

}  // namespace
}  // namespace tessera
