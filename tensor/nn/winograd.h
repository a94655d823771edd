#ifndef TESSERA_TENSOR_NN_WINOGRAD_H_
#define TESSERA_TENSOR_NN_WINOGRAD_H_

#include <cstdint>

#include "tessera/tensor/nn/winograd_tiles.h"

/// The transforms of Winograd's convolutions F(2 x 2, 3 x 3) and F(4 x 4, 3 x 3), on one thread.
///
/// A tile of results is A' [(G g G') . (B' d B)] A for a kernel g and the elements d under the
/// tile, where ' is the transpose and . multiplies terms one by one (Lavin and Gray, 2015, "Fast
/// Algorithms for Convolutional Neural Networks", section 4.1). Terms are summed over channels
/// before the transform by A, so that each of the (size + 2)^2 terms is a product of matrices.
/// F(2 x 2, 3 x 3) has the paper's matrices. F(4 x 4, 3 x 3) interpolates at 0, ±3/4, ±3/2 and
/// infinity, which takes as many operations as the paper's points 0, ±1 and ±2 and gives a third of
/// their error.
///
/// Term i of kernel or tile k is element i * stride + k of an array of terms.
///
/// Accuracy: over 32 to 512 channels of zero-mean or rectified elements, a result's error is at
/// most 2e-6 (tiles of 2 x 2) and 1e-5 (4 x 4) of the largest result. The bits of a term or a
/// result depend neither on the range that a call computes nor on its place in it. An element that
/// is infinite, NaN or above 1e37 may make all results of its tiles NaN. Threads: concurrent calls
/// are safe if their outputs are distinct.
namespace tessera::tensor_internal {

/// Returns the number of a tile's terms: 16 or 36.
constexpr int64_t WinogradTerms(int64_t size) { return (size + 2) * (size + 2); }

/// The columns that WinogradInput writes are a multiple of this.
inline constexpr int64_t kWinogradColumns = 16;

/// Computes the terms of kernels [begin, end) of 3 x 3 weights each: those of kernel k are in
/// column k.
void WinogradWeights(int64_t size, const float* weights, int64_t begin, int64_t end, float* to,
                     int64_t stride);

/// Computes the terms of tiles [begin, end) of a channel: those of tile begin + k are in column k.
/// Writes zeros to the columns behind them up to a multiple of kWinogradColumns. `plane` is the
/// first image's.
void WinogradInput(const WinogradTiles& tiles, const float* plane, int64_t begin, int64_t end,
                   float* to, int64_t stride);

/// Computes the results of tiles [begin, end) of a filter from sums of terms: those of tile begin +
/// k are in column k. Adds `bias` to them, and the old result if `add`. `out` is the first image's
/// result.
void WinogradOutput(const WinogradTiles& tiles, const float* from, int64_t stride, float bias,
                    bool add, int64_t begin, int64_t end, float* out);

}  // namespace tessera::tensor_internal

#endif  // TESSERA_TENSOR_NN_WINOGRAD_H_
