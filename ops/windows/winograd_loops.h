#ifndef TESSERA_OPS_WINDOWS_WINOGRAD_LOOPS_H_
#define TESSERA_OPS_WINDOWS_WINOGRAD_LOOPS_H_

#include <string>

#include "tessera/base/dtype.h"
#include "tessera/base/shape.h"
#include "tessera/ops/epilogue.h"
#include "tessera/ops/windows/convolution_loops.h"
#include "tessera/tensor/nn/winograd_tiles.h"

namespace tessera::ops_internal {

/// ConvolutionLoops::Correlate for windows of 3 x 3 and stride 1 by Winograd's convolutions
/// F(2 x 2, 3 x 3) and F(4 x 4, 3 x 3), which tensor/nn/winograd.h describes with their errors.
/// They take 4 and 2.25 multiplications for a result and channel in place of 9.
///
/// A group of at most 48 tiles is transformed for all channels. The products with a block of
/// filters and their inverse transform follow while the group is in the caches. Many groups are
/// distributed over the threads. If there are few, or if a thread has room for few tiles, all
/// threads share the work of one group after the other.
///
/// Results depend neither on the number of threads nor on groups and blocks. Threads: calls may
/// overlap if their workspaces and results are distinct.
class WinogradLoops {
 public:
  /// Returns why the operator should compute the convolution in another way, such as "the stride is
  /// not 1". Empty if it should not: float32, one group of 32 or more channels and filters, a
  /// window of 3 x 3 taps of stride and dilation 1, and a BestTile.
  static std::string Refusal(const ConvolutionGeometry& geometry, DType dtype);

  /// Returns the size of the tiles, 2 or 4, that take the least work, counting the transform of the
  /// weights. It depends on positions and batch, and is 2 for more than about 400 channels, of
  /// which 1 MiB does not hold enough tiles of 4 x 4. Returns 0 if unpacked windows take less.
  static index_t BestTile(const ConvolutionGeometry& geometry);

  /// Plans a call for the threads of the calling thread's arena, or for `threads`. `tile` is 2
  /// or 4. Requires: a window that Refusal does not name.
  WinogradLoops(const ConvolutionGeometry& geometry, index_t tile);
  WinogradLoops(const ConvolutionGeometry& geometry, index_t tile, index_t threads);

  /// Returns the number of elements that TransformWeights writes.
  index_t TransformedSize() const { return terms_ * weight_stride_; }
  /// Returns the number of elements that Correlate needs as workspace: at most 1 MiB for each
  /// thread, or as much as 16 tiles need if BestTile does not allow the tile.
  index_t WorkspaceSize() const {
    return groups_at_once_ * input_size_ + sums_at_once_ * sums_size_;
  }

  /// Transforms the weights (filters, channels, 3, 3). `transformed` is aligned to 64 bytes.
  void TransformWeights(const float* weight, float* transformed) const;
  /// Computes ConvolutionLoops::Correlate with transformed weights. `workspace` is aligned to 64
  /// bytes.
  void Correlate(const float* image, const float* transformed, const float* bias, bool add,
                 float* workspace, float* result, const Epilogue* epilogue = nullptr) const;

 private:
  /// A group's tiles [begin, end).
  struct Group {
    index_t begin, end;
  };
  Group GroupAt(index_t i) const;

  void TransformInput(const Group& group, index_t channel_begin, index_t channel_end,
                      const float* image, float* input) const;
  /// Computes the group's results of a block of filters. `sums` is scratch memory.
  void ComputeFilters(const Group& group, index_t block, const float* input,
                      const float* transformed, const float* bias, bool add, float* sums,
                      float* result, const Epilogue* epilogue) const;
  /// Runs the epilogue on a filter's results of the group.
  void Finish(const Group& group, index_t filter, const Epilogue& epilogue) const;

  ConvolutionGeometry g_;
  tensor_internal::WinogradTiles tiles_;
  index_t terms_;          ///< of a tile: 16 or 36
  index_t tile_count_;     ///< of all images
  index_t units_;          ///< of kWinogradColumns tiles, which groups do not cut
  index_t groups_;         ///< into which the units are divided
  index_t pitch_;          ///< columns of a group's matrices
  index_t filter_blocks_;  ///< into which the filters are divided
  bool one_by_one_;        ///< whether all threads share a group's work
  // Elements between the matrices of two terms, and of the matrices of all terms.
  index_t weight_stride_, input_stride_, sums_stride_;
  index_t input_size_, sums_size_;
  index_t groups_at_once_, sums_at_once_;  ///< of which the workspace holds the matrices
};

}  // namespace tessera::ops_internal

#endif  // TESSERA_OPS_WINDOWS_WINOGRAD_LOOPS_H_
