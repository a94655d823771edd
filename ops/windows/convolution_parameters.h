#ifndef TESSERA_OPS_WINDOWS_CONVOLUTION_PARAMETERS_H_
#define TESSERA_OPS_WINDOWS_CONVOLUTION_PARAMETERS_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "tessera/base/tshape.h"
#include "tessera/ops/parameter.h"
#include "tessera/ops/windows/window_parameters.h"

namespace tessera::ops_internal {

/// The parameters of Convolution, which Deconvolution's extend.
struct ConvolutionParameters {
  TShape kernel;
  TShape stride;
  TShape dilate;
  TShape pad;
  int64_t num_filter = 0;
  int64_t num_group = 1;
  int64_t workspace = 1024;
  bool no_bias = false;
  std::string cudnn_tune = "None";
  bool cudnn_off = false;
  std::string layout = "None";

  /// Declares the fields above for the schema of this struct or of one derived from it.
  template <typename Schema>
  static void DeclareShared(Schema& schema) {
    using C = ConvolutionParameters;
    schema.template Required<TShape>("kernel", &C::kernel, "the window: (x), (y, x) or (z, y, x)");
    schema.template Optional<TShape>("stride", &C::stride,
                                     "distance between windows; 1 if left out");
    schema.template Optional<TShape>("dilate", &C::dilate,
                                     "distance between a window's taps; 1 if left out");
    schema.template Optional<TShape>("pad", &C::pad, "zeros added on every side; 0 if left out");
    schema.template Required<int64_t>("num_filter", &C::num_filter, "output channels");
    schema.Range(1, 1 << 24);
    schema.template Optional<int64_t>("num_group", &C::num_group,
                                      "groups of channels that do not mix");
    schema.Range(1, 1 << 24);
    schema.template Optional<int64_t>("workspace", &C::workspace,
                                      "accepted for old graphs; not used");
    schema.template Optional<bool>("no_bias", &C::no_bias, "leave the bias out");
    schema.template Optional<std::string>("cudnn_tune", &C::cudnn_tune,
                                          "accepted for old graphs; not used");
    schema.template Optional<bool>("cudnn_off", &C::cudnn_off, "accepted for old graphs; not used");
    schema.template Optional<std::string>("layout", &C::layout,
                                          "None, NCW, NCHW, NCDHW, NWC, NHWC or NDHWC");
  }
  static void Declare(ParameterSchema<ConvolutionParameters>& schema) { DeclareShared(schema); }
};

/// The window that parameters with kernel, stride, dilate and pad describe. Throws what ReadWindow
/// throws.
struct ConvolutionWindow {
  template <typename Parameters>
  ConvolutionWindow(std::string_view op, const Parameters& p)
      : kernel(ReadWindow(op, "kernel", p.kernel, p.kernel, 1, 1)),
        stride(ReadWindow(op, "stride", p.stride, p.kernel, 1, 1)),
        dilate(ReadWindow(op, "dilate", p.dilate, p.kernel, 1, 1)),
        pad(ReadWindow(op, "pad", p.pad, p.kernel, 0, 0)) {}

  WindowExtents kernel;
  WindowExtents stride;
  WindowExtents dilate;
  WindowExtents pad;
};

}  // namespace tessera::ops_internal

#endif  // TESSERA_OPS_WINDOWS_CONVOLUTION_PARAMETERS_H_
