#ifndef TESSERA_OPS_WINDOWS_CONVOLUTION_LOOPS_H_
#define TESSERA_OPS_WINDOWS_CONVOLUTION_LOOPS_H_

#include <cstdint>
#include <functional>

#include "tessera/base/dtype.h"
#include "tessera/ops/epilogue.h"
#include "tessera/ops/operator.h"
#include "tessera/ops/windows/window_parameters.h"
#include "tessera/resource/resource.h"
#include "tessera/tensor/tblob.h"

namespace tessera::ops_internal {

/// A convolution's extents. Images have (batch, groups * channels, image…), results (batch,
/// groups * filters, positions…), weights (groups * filters, channels, kernel…).
struct ConvolutionGeometry {
  index_t batch = 0;
  index_t groups = 1;
  index_t channels = 0;  ///< of an image's group
  index_t filters = 0;   ///< of a result's group
  WindowExtents image{};
  WindowExtents positions{};
  WindowExtents kernel{};
  WindowExtents stride{};
  WindowExtents dilate{};
  WindowExtents pad{};
};

/// The workspace of a call's products, or how much it must be.
struct ConvolutionMemory {
  bool measures = false;  ///< whether products only raise size_bytes to what they need
  int threads = 1;        ///< of the loops over slots
  int64_t size_bytes = 0;
  void* data = nullptr;
};

/// The three products of a convolution, on the CPU. Correlate in float32 is a product of matrices
/// that packs its right side, the unpacked windows (im2col; Chellapilla, Puri and Simard, 2006),
/// straight from the images, at most 1 MiB at a time. The others are computed in tiles of unpacked
/// windows of at most 32 MiB a task, tile by tile a product of matrices. Convolutions with one
/// channel a group are sums of shifted rows. DepthwiseLoops computes what it supports of groups of
/// one channel and of few.
///
/// Types: float32, float64, float16, bfloat16; the last two are computed in float32. Results depend
/// neither on the number of threads nor on the workspace.
class ConvolutionLoops {
 public:
  ConvolutionLoops(const ConvolutionGeometry& geometry, DType dtype);

  /// Returns the bytes of workspace that Run requests for these products on `threads` threads; on
  /// fewer it requests no more. Calls `products`, which computes nothing then: the members below
  /// only read shapes and requests.
  int64_t WorkspaceBytes(int threads, const std::function<void()>& products);

  /// Calls `products`, which calls the members below, twice: they first tell how much workspace
  /// they need, and then compute.
  void Run(Resource* workspace, const std::function<void()>& products);

  /// Computes the result from the image: result[n][f][o] = bias[f] + the sum over f's channels and
  /// the kernel's taps of weight[f][c][t] * image[n][c][o * stride + t * dilate - pad]. `bias` may
  /// be null. `packed` is the weights' form (WeightForm) or null. `epilogue` follows unless it is
  /// null: it takes elements that are in a near cache.
  void Correlate(const void* image, const void* weight, const void* bias, OpReqType req,
                 void* result, const void* packed = nullptr, const Epilogue* epilogue = nullptr);
  /// Returns the form in which Correlate's products take the weights: packed as left operands. The
  /// result has the same bits. There is none for windows without products, for other types than
  /// float32, and where packing does not pay.
  PreparedForm WeightForm() const;
  /// Computes the transpose, image from result: each result's element times the weights is added to
  /// the elements under its window, and bias[c], if not null, to each channel.
  void Spread(const void* result, const void* weight, const void* bias, OpReqType req, void* image);
  /// Computes the sum over images and positions of result * image for each weight.
  void WeightGradient(const void* image, const void* result, OpReqType req, void* weight_grad);

  /// Writes the windows as columns (batch, groups * channels * taps, positions): columns[n][c,
  /// t][o] = image[n][c][o * stride + t * dilate - pad], 0 outside. Needs no workspace.
  void Unpack(const void* image, OpReqType req, void* columns);
  /// Computes the transpose, image from columns: each element is added to that which it came from.
  /// Needs no workspace.
  void Pack(const void* columns, OpReqType req, void* image);

 private:
  const ConvolutionGeometry geometry_;
  const DType dtype_;
  ConvolutionMemory memory_;
};

/// Sums an array of (batch, channel, …) over all but the channels: the gradient of a bias.
void SumByChannel(const TBlob& data, OpReqType req, const TBlob& sums);

}  // namespace tessera::ops_internal

#endif  // TESSERA_OPS_WINDOWS_CONVOLUTION_LOOPS_H_
