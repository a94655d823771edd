#ifndef TESSERA_OPS_WINDOWS_POOLING_PARAMETERS_H_
#define TESSERA_OPS_WINDOWS_POOLING_PARAMETERS_H_

#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "tessera/base/tshape.h"
#include "tessera/ops/parameter.h"
#include "tessera/ops/windows/window_parameters.h"

namespace tessera::ops_internal {

/// The function of a window's elements.
enum class PoolType { kMax, kAvg, kSum, kLp };
/// The number of positions: those of whole windows, those that also have a last, partial window, or
/// one for each stride.
enum class PoolConvention { kValid, kFull, kSame };

/// The parameters of Pooling.
struct PoolingParameters {
  TShape kernel;
  PoolType pool_type = PoolType::kMax;
  bool global_pool = false;
  bool cudnn_off = false;
  PoolConvention pooling_convention = PoolConvention::kValid;
  TShape stride;
  TShape pad;
  std::optional<int> p_value;
  std::optional<bool> count_include_pad;
  std::string layout = "None";

  static void Declare(ParameterSchema<PoolingParameters>& schema) {
    using P = PoolingParameters;
    schema.Optional("kernel", &P::kernel,
                    "the window: (x), (y, x) or (z, y, x); not needed by global_pool");
    schema.Choice("pool_type", &P::pool_type,
                  {{"max", PoolType::kMax},
                   {"avg", PoolType::kAvg},
                   {"sum", PoolType::kSum},
                   {"lp", PoolType::kLp}},
                  "what is taken of a window");
    schema.Optional("global_pool", &P::global_pool, "one window over the whole image");
    schema.Optional("cudnn_off", &P::cudnn_off, "accepted for old graphs; not used");
    schema.Choice("pooling_convention", &P::pooling_convention,
                  {{"valid", PoolConvention::kValid},
                   {"full", PoolConvention::kFull},
                   {"same", PoolConvention::kSame}},
                  "whether a last, partial window counts");
    schema.Optional("stride", &P::stride,
                    "distance between windows; 1 if left out; further axes than the kernel's are "
                    "not read");
    schema.Optional(
        "pad", &P::pad,
        "padding on every side; 0 if left out; further axes than the kernel's are not read");
    schema.Optional("p_value", &P::p_value, "the power of lp: 1, 2 or 3");
    schema.Optional("count_include_pad", &P::count_include_pad,
                    "whether an average divides by padding too; True if None");
    schema.Optional("layout", &P::layout, "None, NCW, NCHW, NCDHW, NWC, NHWC or NDHWC");
  }
};

/// The windows over an image, and the number of their positions along each axis.
struct PoolingWindow {
  WindowExtents kernel{};
  WindowExtents stride{};
  WindowExtents pad{};
  WindowExtents positions{};

  /// Resolves Pooling's parameters for an image of the kernel's rank. A number of positions is 0 if
  /// the window does not fit. Throws what ReadWindow throws.
  static PoolingWindow Of(std::string_view op, const PoolingParameters& p,
                          const WindowExtents& image) {
    if (p.global_pool) return Global(image);
    PoolingWindow w = {.kernel = ReadWindow(op, "kernel", p.kernel, p.kernel, 1, 1),
                       .stride = ReadWindow(op, "stride", AlongKernel(p, p.stride), p.kernel, 1, 1),
                       .pad = ReadWindow(op, "pad", AlongKernel(p, p.pad), p.kernel, 0, 0)};
    w.CountPositions(op, image, p.pooling_convention);
    return w;
  }
  /// Returns the entries of stride or pad along the kernel's axes. A longer tuple's other entries
  /// count for nothing, as in MXNet.
  static TShape AlongKernel(const PoolingParameters& p, const TShape& given) {
    if (given.ndim() <= p.kernel.ndim()) return given;
    return TShape(std::span<const index_t>(given.begin(), static_cast<size_t>(p.kernel.ndim())));
  }
  /// Returns one window over the whole image.
  static PoolingWindow Global(const WindowExtents& image) {
    return {.kernel = image, .stride = {1, 1, 1}, .pad = {0, 0, 0}, .positions = {1, 1, 1}};
  }
  /// Returns whether the only window is the whole image.
  bool IsWhole(const WindowExtents& image) const {
    for (size_t i = 0; i < 3; ++i) {
      if (positions[i] != 1 || pad[i] != 0 || kernel[i] < image[i]) return false;
    }
    return true;
  }
  /// Sets the positions over an image. Throws what WindowPositions throws.
  void CountPositions(std::string_view op, const WindowExtents& image, PoolConvention convention) {
    for (size_t i = 0; i < 3; ++i) {
      if (convention == PoolConvention::kSame) {
        positions[i] = WindowPositions(op, image[i], 1, stride[i], 1, 0);
        continue;
      }
      positions[i] = WindowPositions(op, image[i], kernel[i], stride[i], 1, pad[i]);
      const index_t rest = image[i] + 2 * pad[i] - kernel[i] - (positions[i] - 1) * stride[i];
      if (convention == PoolConvention::kFull && positions[i] > 0 && rest > 0) ++positions[i];
    }
  }
};

}  // namespace tessera::ops_internal

#endif  // TESSERA_OPS_WINDOWS_POOLING_PARAMETERS_H_
