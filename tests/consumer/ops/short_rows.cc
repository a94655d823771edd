// short_rows: one more implementation of Tessera's operator L2Normalization, for rows of at most 16
// floats, in plain loops. Backward is that of "native".
#include <charconv>
#include <cmath>
#include <memory>
#include <span>
#include <string>
#include <utility>

#include "tessera/ops/registry.h"

namespace {

using namespace tessera;  // NOLINT

constexpr index_t kLongestRow = 16;

index_t RowLength(const TShape& shape) { return shape.ProdShape(1, shape.ndim()); }

std::string Refusal(const OperatorProperty& property, std::span<const TShape> in_shape,
                    std::span<const DType> in_type) {
  if (property.GetParams().at("mode") != "instance") return "mode is not instance";
  if (in_type[0] != DType::kFloat32) return "data is not float32";
  if (RowLength(in_shape[0]) > kLongestRow) return "a row has more than 16 elements";
  return "";
}

class ShortRows final : public Operator {
 public:
  ShortRows(double eps, std::unique_ptr<Operator> native) : eps_(eps), native_(std::move(native)) {}

  void Forward(const OpContext&, std::span<const TBlob> in_data, std::span<const OpReqType> req,
               std::span<const TBlob> out_data) override {
    if (req[0] == kNullOp) return;
    const index_t n = RowLength(in_data[0].shape_);
    const float* x = static_cast<const float*>(in_data[0].dptr_);
    float* y = static_cast<float*>(out_data[0].dptr_);
    for (index_t row = 0; row < in_data[0].shape_[0]; ++row, x += n, y += n) {
      double sum = eps_;  // squares of floats do not overflow in it
      for (index_t i = 0; i < n; ++i) sum += static_cast<double>(x[i]) * static_cast<double>(x[i]);
      const double factor = 1 / std::sqrt(sum);
      for (index_t i = 0; i < n; ++i) {
        const float value = static_cast<float>(static_cast<double>(x[i]) * factor);
        y[i] = req[0] == kAddTo ? y[i] + value : value;
      }
    }
  }

  void Backward(const OpContext& context, std::span<const TBlob> out_grad,
                std::span<const TBlob> in_data, std::span<const TBlob> out_data,
                std::span<const OpReqType> req, std::span<const TBlob> in_grad) override {
    native_->Backward(context, out_grad, in_data, out_data, req, in_grad);
  }

 private:
  const double eps_;
  const std::unique_ptr<Operator> native_;
};

std::unique_ptr<Operator> Create(const OperatorProperty& property, std::span<const TShape> in_shape,
                                 std::span<const DType> in_type) {
  const std::string text = property.GetParams().at("eps");
  double eps = 0;
  std::from_chars(text.data(), text.data() + text.size(), eps);
  return std::make_unique<ShortRows>(
      eps, property.CreateImplementation("native", Device::Cpu(), in_shape, in_type));
}

[[maybe_unused]] const bool kAdded =
    OperatorRegistry::Get().AddImplementation("L2Normalization",
                                              {.device = DeviceType::kCpu,
                                               .name = "short_rows",
                                               .rank = 1,
                                               .refusal = Refusal,
                                               .create = Create},
                                              __FILE__, __LINE__);

}  // namespace
