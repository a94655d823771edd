#ifndef TESSERA_OPS_NN_POOLING_GPU_H_
#define TESSERA_OPS_NN_POOLING_GPU_H_

#include <type_traits>

#include "tessera/ops/kernel.h"
#include "tessera/ops/windows/pooling_parameters.h"
#include "tessera/ops/windows/window_parameters.h"

// Pooling over one or two dimensions on a GPU, as tensor expressions.
namespace tessera::ops_internal {
inline namespace TESSERA_ISA_NAMESPACE {

/// The implementation for elements of T: maxima, averages and sums.
template <typename Device, typename T>
class PoolingOp final : public Operator {
 public:
  explicit PoolingOp(const PoolingParameters& param) : param_(param) {
    if (param.pool_type == PoolType::kLp || param.kernel.ndim() > 2) {
      throw Unimplemented(
          "Pooling: pool_type=lp and three dimensions are not implemented on a GPU");
    }
    if (IsChannelsLast(param.layout)) {
      throw Unimplemented("Pooling: layout=", param.layout, " is not implemented on a GPU");
    }
  }

  void Forward(const OpContext& context, std::span<const TBlob> in_data,
               std::span<const OpReqType> req, std::span<const TBlob> out_data) override {
    auto* stream = context.get_stream<Device>();
    const auto data = Image(in_data[0], stream);
    const auto out = Image(out_data[0], stream);
    const PoolGeometry geometry = Geometry(in_data[0].shape_);
    WithKind([&](auto kind) {
      AssignTo(out, req[0], pool<kind()>(data, out.shape_[2], out.shape_[3], geometry));
    });
  }

  void Backward(const OpContext& context, std::span<const TBlob> out_grad,
                std::span<const TBlob> in_data, std::span<const TBlob> out_data,
                std::span<const OpReqType> req, std::span<const TBlob> in_grad) override {
    auto* stream = context.get_stream<Device>();
    const auto data = Image(in_data[0], stream);
    // Sums only need the output's shape.
    const bool reads_output = param_.pool_type == PoolType::kMax;
    const auto out = Image(reads_output ? out_data[0] : out_grad[0], stream);
    const auto grad = Image(out_grad[0], stream);
    const PoolGeometry geometry = Geometry(in_data[0].shape_);
    WithKind([&](auto kind) {
      AssignTo(Image(in_grad[0], stream), req[0], unpool<kind()>(data, out, grad, geometry));
    });
  }

 private:
  static Tensor<Device, 4, T> Image(const TBlob& blob, Stream<Device>* stream) {
    return blob.get_with_shape<Device, 4, T>(ImageShape(blob.shape_), stream);
  }

  PoolGeometry Geometry(const TShape& data) const {
    const PoolingWindow w = PoolingWindow::Of("Pooling", param_, SpatialExtents(data));
    return {.kernel_y = w.kernel[1],
            .kernel_x = w.kernel[2],
            .stride_y = w.stride[1],
            .stride_x = w.stride[2],
            .pad_y = w.pad[1],
            .pad_x = w.pad[2]};
  }

  template <typename Body>
  void WithKind(const Body& body) const {
    if (param_.pool_type == PoolType::kMax) return body(Kind<PoolKind::kMax>());
    if (param_.pool_type == PoolType::kSum) return body(Kind<PoolKind::kSum>());
    if (param_.count_include_pad.value_or(true)) return body(Kind<PoolKind::kAverage>());
    body(Kind<PoolKind::kAverageWithoutPad>());
  }
  template <PoolKind kKind>
  using Kind = std::integral_constant<PoolKind, kKind>;

  const PoolingParameters param_;
};

}  // namespace TESSERA_ISA_NAMESPACE
}  // namespace tessera::ops_internal

#endif  // TESSERA_OPS_NN_POOLING_GPU_H_
