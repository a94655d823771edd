#ifndef TESSERA_RESOURCE_RESOURCE_H_
#define TESSERA_RESOURCE_RESOURCE_H_

#include <cstdint>

#include "tessera/base/checked_size.h"
#include "tessera/base/device.h"
#include "tessera/base/shape.h"
#include "tessera/tensor/stream.h"
#include "tessera/tensor/tblob.h"

namespace tessera {

struct PhiloxState;
template <typename Device>
class Random;

/// A resource that an operator needs besides its inputs and outputs.
struct ResourceRequest {
  /// The kinds of resources.
  enum class Type {
    kTempSpace,  ///< workspace whose contents last until the operation ends
    kRandom,     ///< the device's sequence of random numbers
  };
  Type type = Type::kTempSpace;  ///< the requested kind

  friend constexpr bool operator==(ResourceRequest, ResourceRequest) = default;
};

/// A resource that an operation uses, through OpContext::requested.
///
///     Tensor<cpu, 2> columns = context.requested[0]->get_space<cpu>(Shape2(rows, width), stream);
///     context.requested[1]->get_random<cpu>(stream).SampleBernoulli(&mask, keep);
///
/// Threads: not synchronized. Each operation writes the resource's engine variable, so the engine
/// runs one operation at a time on it.
class Resource {
 public:
  virtual ~Resource() = default;

  /// Return the request and the device of the resource.
  virtual ResourceRequest request() const = 0;
  virtual Device device() const = 0;

  /// Returns workspace for a kTempSpace resource: at least `size_bytes` of the device's memory,
  /// aligned to 64 bytes, with undefined contents; null if size_bytes is 0. The workspace belongs
  /// to the running operation until it ends or calls again, so call once, for all of it. Allocates
  /// from storage only to grow. Throws Error(kFailedPrecondition) for another type of resource, and
  /// what Storage::Alloc throws.
  virtual void* GetSpaceBytes(int64_t size_bytes) = 0;

  /// Returns workspace as GetSpaceBytes does, for an operation that enqueues its work on a device's
  /// stream (RunContext::stream, a cudaStream_t). If the workspace grows, the old memory is freed
  /// in the stream's order, because enqueued work may still use it. Not for functions that a CUDA
  /// graph captures: the memory may be freed between its replays. Also throws what
  /// Storage::FreeOnStream throws.
  virtual void* GetSpaceBytesOnStream(int64_t size_bytes, [[maybe_unused]] void* stream) {
    return GetSpaceBytes(size_bytes);
  }

  /// Returns the position in the sequence of a kRandom resource, from which random numbers are
  /// drawn. Throws Error(kFailedPrecondition) for another type of resource.
  virtual PhiloxState* GetRandomState() = 0;

  /// Return workspace for an operation that enqueues its work on `stream`: GetSpaceBytes for the
  /// CPU and GetSpaceBytesOnStream for a GPU. If `stream` is null, the fallback stream takes its
  /// place.
  void* get_space_bytes(int64_t size_bytes, const Stream<cpu>*) {
    return GetSpaceBytes(size_bytes);
  }
  void* get_space_bytes(int64_t size_bytes, const Stream<gpu>* stream) {
    if (stream == nullptr) stream = FallbackStream();
    return stream == nullptr ? GetSpaceBytes(size_bytes)
                             : GetSpaceBytesOnStream(size_bytes, stream->stream_);
  }

  /// Return the workspace as a tensor of that shape. Throw what GetSpaceBytes throws.
  template <typename Dev, int N, typename T>
  Tensor<Dev, N, T> get_space_typed(const Shape<N>& shape, Stream<Dev>* stream) {
    CheckedSize size_bytes(static_cast<int64_t>(sizeof(T)));
    for (int i = 0; i < N; ++i) size_bytes = size_bytes * shape[i];
    void* space =
        get_space_bytes(size_bytes.ValueOrThrow("Resource::get_space: size in bytes"), stream);
    return Tensor<Dev, N, T>(static_cast<T*>(space), shape, stream);
  }
  template <typename Dev, int N>
  Tensor<Dev, N, float> get_space(const Shape<N>& shape, Stream<Dev>* stream) {
    return get_space_typed<Dev, N, float>(shape, stream);
  }

  /// Returns a generator that draws from the device's sequence. Throws what GetRandomState throws.
  template <typename Dev>
  Random<Dev> get_random(Stream<Dev>* stream) {
    return Random<Dev>(GetRandomState(), stream);
  }
};

}  // namespace tessera

#endif  // TESSERA_RESOURCE_RESOURCE_H_
