#ifndef TESSERA_TENSOR_DEVICE_SCRATCH_CUDA_H_
#define TESSERA_TENSOR_DEVICE_SCRATCH_CUDA_H_

#include "tessera/tensor/device/scratch.h"

#if defined(__CUDACC__)

#include <vector>

#include "tessera/tensor/device/cuda_check.h"

namespace tessera::tensor_internal {

/// Scratch memory of a GPU. It comes from CUDA's pool in the order of a stream, and goes back in
/// that order. The work enqueued in between may use it, and no thread waits.
template <>
class Scratch<gpu> {
 public:
  /// Opens a scope on `stream`; null stands for the fallback stream. Throws
  /// Error(kFailedPrecondition) if there is none either.
  explicit Scratch(Stream<gpu>* stream) : owner_(stream), stream_(CudaStream(stream)) {}
  ~Scratch() {
    // A destructor must not throw. A failure here means a sticky error, which the next checked call
    // reports.
    for (void* memory : memories_) {
      if (memory != nullptr) static_cast<void>(cudaFreeAsync(memory, stream_));
    }
  }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;

  /// Returns memory of the GPU, valid for work that is enqueued before the scope ends; null for 0
  /// bytes. Throws Error(kResourceExhausted) if there is none.
  void* Allocate(int64_t size_bytes) {
    if (size_bytes == 0) return nullptr;
    memories_.push_back(nullptr);  // stays null if there is no memory
    CheckCuda(cudaMallocAsync(&memories_.back(), static_cast<size_t>(size_bytes), stream_),
              "tensor expression: cudaMallocAsync of a temporary");
    return memories_.back();
  }

  /// Returns 64-byte aligned memory of the host, valid until the scope ends.
  void* AllocateOnHost(int64_t size_bytes) { return host_.Allocate(size_bytes); }

  /// Returns the stream whose work uses the memory.
  Stream<gpu>* stream() const { return owner_; }

  /// Returns the parts that the evaluation has computed before its loop, the newest first; see
  /// materialize.h.
  const ComputedPart* computed() const { return host_.computed(); }
  void set_computed(const ComputedPart* newest) { host_.set_computed(newest); }

 private:
  Scratch<cpu> host_;
  Stream<gpu>* owner_;
  cudaStream_t stream_;
  std::vector<void*> memories_;
};

}  // namespace tessera::tensor_internal

#endif  // defined(__CUDACC__)

namespace tessera::tensor_internal {
inline namespace TESSERA_ISA_NAMESPACE {

/// True if the compiler at work writes loops for Device: nvcc for both, others for cpu alone.
template <typename Device>
inline constexpr bool kCompilesLoops = requires {
  sizeof(Scratch<Device>);
};

/// Does nothing. Does not compile for a device for which the compiler writes no loops.
template <typename Device>
constexpr void RequireCompilerFor() {
  static_assert(
      kCompilesLoops<Device>,
      "a Tensor<gpu> is computed by kernels, which need nvcc: let nvcc compile this file");
}

}  // namespace TESSERA_ISA_NAMESPACE
}  // namespace tessera::tensor_internal

#endif  // TESSERA_TENSOR_DEVICE_SCRATCH_CUDA_H_
