// _contrib_quantized_batch_norm: BatchNorm of codes (codes.h) by the moving statistics.
//
//   out = round(x * R / r * scale / sqrt(1 + eps) + (beta - moving_mean * scale) * 127.5 / r)
//   scale = gamma / sqrt(moving_var + eps)
//
// x is data, or floor(data / 2) for uint8; R is the magnitude of data's range and r that of the
// calibrated range, which is required and is the output's. Halves are rounded to the even integer,
// and results limited to int8. As in MXNet, eps counts twice, and gamma counts also with fix_gamma.
// Shapes: those of BatchNorm; ranges (1,). Types: data int8 or uint8; gamma, beta, statistics and
// ranges float32; out int8. Gradient 0. Runs on the CPU.
#include <algorithm>
#include <cmath>
#include <optional>
#include <string>
#include <type_traits>
#include <vector>

#include "tessera/base/error.h"
#include "tessera/ops/loops/axes.h"
#include "tessera/ops/loops/convert_row.h"
#include "tessera/ops/quantization/codes.h"
#include "tessera/ops/quantization/quantized_property.h"
#include "tessera/ops/typed_operator.h"
#include "tessera/tensor/device/parallel.h"

namespace tessera {
namespace {

using namespace ops_internal;  // NOLINT: codes and registration

struct QuantizedBatchNormParameters {
  double eps = 0.0010000000474974513;
  float momentum = 0.9f;
  bool fix_gamma = true;
  bool use_global_stats = false;
  bool output_mean_var = false;
  int64_t axis = 1;
  bool cudnn_off = false;
  std::optional<float> min_calib_range;
  std::optional<float> max_calib_range;

  static void Declare(ParameterSchema<QuantizedBatchNormParameters>& schema) {
    using P = QuantizedBatchNormParameters;
    schema.Optional("eps", &P::eps, "added to the variance");
    schema.Range(0);
    schema.Optional("momentum", &P::momentum, "accepted; the statistics do not change");
    schema.Range(0, 1);
    schema.Optional("fix_gamma", &P::fix_gamma, "accepted; gamma counts");
    schema.Optional("use_global_stats", &P::use_global_stats, "accepted; statistics are global");
    schema.Optional("output_mean_var", &P::output_mean_var, "accepted; they are not shown");
    schema.Optional("axis", &P::axis, "the axis of channels");
    schema.Optional("cudnn_off", &P::cudnn_off, "accepted for old graphs; not used");
    schema.Optional("min_calib_range", &P::min_calib_range, "the output's low end");
    schema.Optional("max_calib_range", &P::max_calib_range, "the output's high end");
  }
};

enum Input { kData, kGamma, kBeta, kMovingMean, kMovingVar, kMinData, kMaxData };

class QuantizedBatchNormProperty final : public QuantizedProperty<QuantizedBatchNormParameters> {
 public:
  // Graphs hold them as auxiliary states, which Forward leaves unchanged.
  std::vector<int> MutatedInputs() const override { return {kMovingMean, kMovingVar}; }

  bool InferShape(std::vector<TShape>* in_shape, std::vector<TShape>* out_shape) const override {
    if (!param_.min_calib_range || !param_.max_calib_range) {
      throw InvalidArgument(TypeString(),
                            ": parameter min_calib_range or max_calib_range is None, expected the "
                            "output's range");
    }
    return QuantizedProperty::InferShape(in_shape, out_shape);
  }
  bool InferType(std::vector<DType>* in_type, std::vector<DType>* out_type) const override {
    MergeRangeTypes(in_type, out_type);
    const std::vector<std::string> names = BaseArguments();
    for (size_t i = kGamma; i <= kMovingVar; ++i) {
      MergeType(*this, names[i], &(*in_type)[i], DType::kFloat32);
    }
    MergeType(*this, "output", &(*out_type)[0], DType::kInt8);
    RequireCodes("data", (*in_type)[kData]);
    return (*in_type)[kData] != DType::kUnknown;
  }

 private:
  std::unique_ptr<OperatorProperty> CreateBase() const override {
    return OperatorRegistry::Get().Create("BatchNorm", GetParams());
  }
  std::vector<std::string> RangeNames() const override { return {"min_data", "max_data"}; }
};

class QuantizedBatchNormOperator final : public Operator {
 public:
  QuantizedBatchNormOperator(const QuantizedBatchNormParameters& param,
                             std::span<const TShape> in_shape)
      : param_(param), axis_(AxisPosition(param.axis, in_shape[kData].ndim())) {}
  bool AcceptsAddTo() const override { return false; }

  void Forward(const OpContext&, std::span<const TBlob> in_data, std::span<const OpReqType> req,
               std::span<const TBlob> out_data) override {
    if (req[0] != kNullOp && out_data[0].Size() > 0) {
      VisitCodes(in_data[kData].type_flag_,
                 [&](auto code) { Normalize<decltype(code)>(in_data, out_data[0]); });
    }
    StoreRange(*param_.min_calib_range, *param_.max_calib_range, req, out_data);
  }

 private:
  /// The output's code of a code x: x * slope + start.
  struct Line {
    float slope, start;
  };

  template <typename T>
  void Normalize(std::span<const TBlob> in_data, const TBlob& out) const {
    constexpr index_t kBlock = 256;
    const TShape& shape = in_data[kData].shape_;
    const index_t channels = shape[axis_], width = shape.ProdShape(axis_ + 1, shape.ndim());
    const auto* const data = static_cast<const T*>(in_data[kData].dptr_);
    auto* const to = static_cast<int8_t*>(out.dptr_);
    const index_t rows = shape.ProdShape(0, axis_ + 1);
    ParallelFor(rows, StepsPerTask(width), [&](index_t begin, index_t end) {
      float block[kBlock];
      for (index_t row = begin; row < end; ++row) {
        const Line line = LineOf(in_data, row % channels);
        for (index_t i = row * width; i < (row + 1) * width; i += kBlock) {
          const index_t n = std::min(kBlock, (row + 1) * width - i);
          for (index_t k = 0; k < n; ++k) {
            const int x = std::is_signed_v<T> ? data[i + k] : data[i + k] / 2;
            block[k] = std::nearbyint(static_cast<float>(x) * line.slope + line.start);
          }
          StoreRow(block, n, /*add=*/false, DType::kInt8, to + i);
        }
      }
    });
  }

  Line LineOf(std::span<const TBlob> in_data, index_t channel) const {
    const auto number = [&](Input input) {
      return double{static_cast<const float*>(in_data[input].dptr_)[channel]};
    };
    const double range = Magnitude(*param_.min_calib_range, *param_.max_calib_range);
    const double scale = number(kGamma) / std::sqrt(number(kMovingVar) + param_.eps);
    const double slope =
        scale * Magnitude(in_data[kMinData], in_data[kMaxData]) / range / std::sqrt(1 + param_.eps);
    const double start = (number(kBeta) - number(kMovingMean) * scale) * 127.5 / range;
    return {static_cast<float>(slope), static_cast<float>(start)};
  }

  const QuantizedBatchNormParameters param_;
  const int axis_;  ///< the axis of channels
};

[[maybe_unused]] const bool kRegistered =
    RegisterTypedOperator<QuantizedBatchNormProperty, QuantizedBatchNormOperator>(
        TESSERA_TABLE_PLACE, "_contrib_quantized_batch_norm",
        "BatchNorm of integers of 8 bits by the moving statistics.", TakenTypes::kAny);

}  // namespace
}  // namespace tessera
