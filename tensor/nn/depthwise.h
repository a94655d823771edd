#ifndef TESSERA_TENSOR_NN_DEPTHWISE_H_
#define TESSERA_TENSOR_NN_DEPTHWISE_H_

#include <cstdint>

#include "tessera/tensor/nn/depthwise_window.h"

/// The products of a convolution whose groups have one channel or few, on one thread. Sums stay in
/// registers while the taps run. Planes, results and weights are stored without gaps, the weights
/// as kernel x kernel elements for each channel of each filter. The padding takes part as zeros: a
/// weight of infinity beside it gives NaN.
///
/// Accuracy: a result is one sum in the order of the channels and their taps, with fused
/// multiply-adds if the instruction set has them. Its bits depend neither on the rows that a call
/// computes nor on their place in a tile. Threads: concurrent calls are safe if their outputs are
/// distinct rows.
namespace tessera::tensor_internal {

/// Computes rows [begin, end) of a result: out[y][x] = start + the sum of weights[ky][kx] times the
/// element under each tap. Adds this to the old out[y][x] if `add`.
void DepthwiseCorrelate(const DepthwiseWindow& window, const float* plane, const float* weights,
                        float start, bool add, int64_t begin, int64_t end, float* out);

/// Computes rows [begin, end) of the results of a group: outs[f][y][x] = biases[f] + the sum of
/// weights[f][c][ky][kx] times the element of planes[c] under each tap. Adds this to the old
/// outs[f][y][x] if `add`. `biases` may be null.
void GroupCorrelate(const DepthwiseWindow& window, const GroupExtents& group, const float* planes,
                    const float* weights, const float* biases, bool add, int64_t begin, int64_t end,
                    float* outs);

/// Computes rows [begin, end) of a plane by the transpose: plane[y][x] = start + the sum of
/// weights[ky][kx] * out[…] over the positions whose tap (ky, kx) lies on (y, x). Adds this to the
/// old plane[y][x] if `add`. Requires: no negative padding.
void DepthwiseSpread(const DepthwiseWindow& window, const float* out, const float* weights,
                     float start, bool add, int64_t begin, int64_t end, float* plane);

/// The arrays of a sum over several samples: each has a plane and a result.
struct DepthwiseSamples {
  const float* planes;   ///< the first sample's plane
  int64_t plane_stride;  ///< elements from one sample's plane to the next one's
  const float* outs;     ///< the first sample's result
  int64_t out_stride;    ///< elements from one sample's result to the next one's
};

/// Computes sums[ky][kx] = the sum of out[y][x] times the element under tap (ky, kx), over rows
/// [begin, end) of the samples' results, which are counted through: row y of sample n is row
/// n * out_height + y. Each lane of a packet adds at most about a thousand products in float, then
/// the sum continues in double. The order of adding depends on the arguments alone.
void DepthwiseWeightGradient(const DepthwiseWindow& window, const DepthwiseSamples& samples,
                             int64_t begin, int64_t end, double* sums);

/// Computes the sums of DepthwiseWeightGradient for the weights of a group: sums[f][c][ky][kx] from
/// results f and planes c. A sample's planes and its results are adjacent. Each lane of a packet
/// adds at most two hundred products in float.
void GroupWeightGradient(const DepthwiseWindow& window, const GroupExtents& group,
                         const DepthwiseSamples& samples, int64_t begin, int64_t end, double* sums);

}  // namespace tessera::tensor_internal

#endif  // TESSERA_TENSOR_NN_DEPTHWISE_H_
