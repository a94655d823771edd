#include <cuda_runtime.h>

#include "tessera/base/error.h"
#include "tessera/ops/testing/test_device.h"
#include "tessera/tensor/stream.h"

namespace tessera::ops_testing {
namespace {

void Check(cudaError_t status, const char* call) {
  if (status != cudaSuccess) throw Internal(call, ": ", cudaGetErrorString(status));
}

class CudaTestDevice final : public TestDevice {
 public:
  CudaTestDevice() : stream_(NewStream<gpu>()) {}
  ~CudaTestDevice() override { DeleteStream(stream_); }

  Device device() const override { return Device::Gpu(); }
  void* stream() override { return stream_; }
  void* Allocate(int64_t size_bytes) override {
    void* memory = nullptr;
    Check(cudaMalloc(&memory, static_cast<size_t>(size_bytes)), "cudaMalloc");
    return memory;
  }
  void Free(void* memory) override { cudaFree(memory); }
  void Upload(void* to, const void* from, int64_t size_bytes) override {
    Check(cudaMemcpy(to, from, static_cast<size_t>(size_bytes), cudaMemcpyHostToDevice),
          "cudaMemcpy to the device");
    // The copy from pageable memory may still be on its way, and stream_ does not wait for it.
    Check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
  }
  void Download(void* to, const void* from, int64_t size_bytes) override {
    stream_->Wait();
    Check(cudaMemcpy(to, from, static_cast<size_t>(size_bytes), cudaMemcpyDeviceToHost),
          "cudaMemcpy from the device");
  }
  std::set<std::string> operators_without_code() const override {
    return {
        "BatchNorm",
        "BatchNorm_v1",
        "Deconvolution",
        "Dropout",
        "Embedding",
        "GroupNorm",
        "InstanceNorm",
        "L2Normalization",
        "LRN",
        "LayerNorm",
        "Pad",
        "Pooling_v1",
        "RNN",
        "SVMOutput",
        "SequenceLast",
        "SequenceMask",
        "SequenceReverse",
        "SoftmaxActivation",
        "UpSampling",
        "_contrib_AdaptiveAvgPooling2D",
        "_contrib_BilinearResize2D",
        "_contrib_allclose",
        "_histogram",
        "_np_cumsum",
        "_onehot_encode",
        "_pick_maxima",
        "_random_exponential",
        "_random_exponential_like",
        "_random_gamma",
        "_random_gamma_like",
        "_random_generalized_negative_binomial",
        "_random_generalized_negative_binomial_like",
        "_random_negative_binomial",
        "_random_negative_binomial_like",
        "_random_poisson",
        "_random_poisson_like",
        "_random_randint",
        "_sample_exponential",
        "_sample_gamma",
        "_sample_generalized_negative_binomial",
        "_sample_multinomial",
        "_sample_negative_binomial",
        "_sample_normal",
        "_sample_poisson",
        "_sample_uniform",
        "_scatter_set_nd",
        "_shuffle",
        "_slice_assign_scalar",
        "all_finite",
        "argmax",
        "argmax_channel",
        "argmin",
        "argsort",
        "batch_take",
        "fill_element_0index",
        "gather_nd",
        "lamb_update_phase2",
        "log_softmax",
        "mp_lamb_update_phase2",
        "multi_all_finite",
        "multi_sum_sq",
        "one_hot",
        "pick",
        "scatter_nd",
        "softmax",
        "softmax_cross_entropy",
        "softmin",
        "sort",
        "take",
        "topk",
        "where",
    };
  }

 private:
  Stream<gpu>* const stream_;
};

}  // namespace

std::unique_ptr<TestDevice> MakeTestDevice() { return std::make_unique<CudaTestDevice>(); }

}  // namespace tessera::ops_testing
