#ifndef MXNET_RESOURCE_H_
#define MXNET_RESOURCE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "dmlc/logging.h"
#include "mxnet/base.h"
#include "mxnet/engine.h"
#include "tessera/resource/resource.h"

namespace mxnet {

/// A request for memory or random numbers, which an operator needs besides inputs and outputs.
struct ResourceRequest {
  /// The kinds of resources.
  enum Type {
    kRandom,          ///< random numbers: Resource::get_random
    kTempSpace,       ///< workspace: Resource::get_space
    kParallelRandom,  ///< refused: MXNet's generators for kernels of CUDA
  };
  Type type = kTempSpace;  ///< the requested kind

  ResourceRequest() = default;
  ResourceRequest(Type type) : type(type) {}  // NOLINT: every kind is a request
};

/// A resource that a call of an operator uses. tessera::Resource explains workspace and random
/// numbers. Threads: not synchronized.
class Resource {
 public:
  ResourceRequest req;  ///< the request
  int32_t id = 0;       ///< always 0

  Resource() = default;
  Resource(ResourceRequest request, tessera::Resource* resource)
      : req(request), resource_(resource) {}

  /// Returns a generator that draws from the device's sequence, for the call.
  template <typename xpu, typename DType = real_t>
  mshadow::Random<xpu, DType>* get_random(mshadow::Stream<xpu>* stream) const {
    CHECK_EQ(req.type, ResourceRequest::kRandom) << "get_random needs a request of kRandom";
    const auto random =
        std::make_shared<mshadow::Random<xpu, DType>>(resource_->GetRandomState(), stream);
    kept_.push_back(random);
    return random.get();
  }

  /// Return workspace for the call. Another call may return the same memory.
  template <typename xpu, int ndim>
  mshadow::Tensor<xpu, ndim, real_t> get_space(mshadow::Shape<ndim> shape,
                                               mshadow::Stream<xpu>* stream) const {
    return get_space_typed<xpu, ndim, real_t>(shape, stream);
  }
  template <typename xpu, int ndim, typename DType>
  mshadow::Tensor<xpu, ndim, DType> get_space_typed(mshadow::Shape<ndim> shape,
                                                    mshadow::Stream<xpu>* stream) const {
    CHECK_EQ(req.type, ResourceRequest::kTempSpace) << "get_space needs a request of kTempSpace";
    return resource_->template get_space_typed<xpu, ndim, DType>(shape, stream);
  }
  void* get_space_internal(size_t size_bytes) const {
    CHECK_EQ(req.type, ResourceRequest::kTempSpace) << "get_space needs a request of kTempSpace";
    return resource_->GetSpaceBytes(static_cast<int64_t>(size_bytes));
  }

  /// Return memory of the host for the call, apart from the workspace. Every call returns other
  /// memory.
  template <int ndim>
  mshadow::Tensor<cpu, ndim, real_t> get_host_space(mshadow::Shape<ndim> shape) const {
    return get_host_space_typed<ndim, real_t>(shape);
  }
  template <int ndim, typename DType>
  mshadow::Tensor<cpu, ndim, DType> get_host_space_typed(mshadow::Shape<ndim> shape) const {
    void* const space = get_host_space_internal(static_cast<size_t>(shape.Size()) * sizeof(DType));
    return mshadow::Tensor<cpu, ndim, DType>(static_cast<DType*>(space), shape);
  }
  void* get_host_space_internal(size_t size_bytes) const {
    constexpr size_t kUnit = sizeof(std::max_align_t);
    const auto space = std::make_shared<std::vector<std::max_align_t>>(size_bytes / kUnit + 1);
    kept_.push_back(space);
    return space->data();
  }

 private:
  tessera::Resource* resource_ = nullptr;
  mutable std::vector<std::shared_ptr<void>> kept_;  // lives as long as the call
};

}  // namespace mxnet

#endif  // MXNET_RESOURCE_H_
