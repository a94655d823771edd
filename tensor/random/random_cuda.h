#ifndef TESSERA_TENSOR_RANDOM_RANDOM_CUDA_H_
#define TESSERA_TENSOR_RANDOM_RANDOM_CUDA_H_

#include <cstdint>

#include "tessera/tensor/random/random.h"

namespace tessera {

/// Fills GPU tensors with random numbers, by one kernel each. The kernel runs on the tensor's
/// stream, or on this object's stream if the tensor has none. Parameters, types and errors are
/// those of Random<cpu>. A seed gives the same numbers as on the CPU, except for the rounding of a
/// product and a sum, and for normal numbers within the accuracy that Random<cpu>::SampleGaussian
/// has.
template <>
class Random<gpu> : public RandomSequence {
 public:
  explicit Random(uint64_t seed, Stream<gpu>* stream = nullptr)
      : RandomSequence(seed), stream_(stream) {}
  explicit Random(PhiloxState* state, Stream<gpu>* stream = nullptr)
      : RandomSequence(state), stream_(stream) {}

  void set_stream(Stream<gpu>* stream) { stream_ = stream; }

  template <int N, typename T>
  void SampleUniform(Tensor<gpu, N, T>* out, double low = 0, double high = 1) {
    OnStream(*out) = uniform<T>(out->shape_, low, high);
  }
  template <int N, typename T>
  void SampleGaussian(Tensor<gpu, N, T>* out, double mean = 0, double deviation = 1) {
    OnStream(*out) = gaussian<T>(out->shape_, mean, deviation);
  }

 private:
  template <int N, typename T>
  Tensor<gpu, N, T> OnStream(Tensor<gpu, N, T> out) const {
    if (out.stream_ == nullptr) out.stream_ = stream_;
    return out;
  }

  Stream<gpu>* stream_ = nullptr;
};

}  // namespace tessera

#endif  // TESSERA_TENSOR_RANDOM_RANDOM_CUDA_H_
