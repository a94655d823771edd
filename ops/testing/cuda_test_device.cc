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
        "IdentityAttachKLSparseReg",
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
        "_adamw_update",
        "_contrib_AdaptiveAvgPooling2D",
        "_contrib_BatchNormWithReLU",
        "_contrib_BilinearResize2D",
        "_contrib_DeformablePSROIPooling",
        "_contrib_ModulatedDeformableConvolution",
        "_contrib_MultiBoxDetection",
        "_contrib_MultiBoxPrior",
        "_contrib_MultiBoxTarget",
        "_contrib_MultiProposal",
        "_contrib_Proposal",
        "_contrib_SparseEmbedding",
        "_contrib_SyncBatchNorm",
        "_contrib_allclose",
        "_contrib_bipartite_matching",
        "_contrib_box_decode",
        "_contrib_box_encode",
        "_contrib_count_sketch",
        "_contrib_dequantize",
        "_contrib_edge_id",
        "_contrib_fft",
        "_contrib_getnnz",
        "_contrib_group_adagrad_update",
        "_contrib_hawkesll",
        "_contrib_ifft",
        "_contrib_quantize",
        "_contrib_quantize_v2",
        "_contrib_quantized_act",
        "_contrib_quantized_batch_norm",
        "_contrib_quantized_concat",
        "_contrib_quantized_conv",
        "_contrib_quantized_elemwise_add",
        "_contrib_quantized_elemwise_mul",
        "_contrib_quantized_embedding",
        "_contrib_quantized_flatten",
        "_contrib_quantized_fully_connected",
        "_contrib_quantized_pooling",
        "_contrib_requantize",
        "_histogram",
        "_image_adjust_lighting",
        "_image_normalize",
        "_image_random_brightness",
        "_image_random_color_jitter",
        "_image_random_contrast",
        "_image_random_flip_left_right",
        "_image_random_flip_top_bottom",
        "_image_random_hue",
        "_image_random_lighting",
        "_image_random_saturation",
        "_image_resize",
        "_image_to_tensor",
        "_mp_adamw_update",
        "_multi_adamw_update",
        "_multi_lamb_update",
        "_multi_mp_adamw_update",
        "_multi_mp_lamb_update",
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
        "_random_pdf_dirichlet",
        "_random_pdf_exponential",
        "_random_pdf_gamma",
        "_random_pdf_generalized_negative_binomial",
        "_random_pdf_negative_binomial",
        "_random_pdf_normal",
        "_random_pdf_poisson",
        "_random_pdf_uniform",
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
        "_sample_unique_zipfian",
        "_scatter_set_nd",
        "_shuffle",
        "_slice_assign_scalar",
        "_sparse_retain",
        "all_finite",
        "argmax",
        "argmax_channel",
        "argmin",
        "argsort",
        "batch_take",
        "fill_element_0index",
        "gather_nd",
        "khatri_rao",
        "lamb_update_phase2",
        "log_softmax",
        "mp_lamb_update_phase2",
        "multi_all_finite",
        "multi_lars",
        "multi_sum_sq",
        "one_hot",
        "pick",
        "preloaded_multi_mp_sgd_mom_update",
        "preloaded_multi_mp_sgd_update",
        "preloaded_multi_sgd_mom_update",
        "preloaded_multi_sgd_update",
        "reset_arrays",
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
