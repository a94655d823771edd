#ifndef TESSERA_TENSOR_DEVICE_STREAM_H_
#define TESSERA_TENSOR_DEVICE_STREAM_H_

#include <atomic>

#include "tessera/base/device.h"
#include "tessera/base/error.h"

// What CUDA's handles point to, under CUDA's own names: cudaStream_t is CUstream_st*, and
// cublasHandle_t is cublasContext*.
struct CUstream_st;
struct cublasContext;

namespace tessera {

/// The order in which a device runs the work that is given to it.
template <typename Device>
struct Stream;

/// On the CPU an expression has run when the assignment returns.
template <>
struct Stream<cpu> {
  void Wait() {}
  bool CheckIdle() const { return true; }
  /// A stream needs no handles here; and a GPU's has them from NewStream on.
  void CreateBlasHandle() {}
  void DestroyBlasHandle() {}
};

/// A CUDA stream and the cuBLAS handle bound to it. The members have the same layout in every
/// build; they are made by NewStream<gpu>, which builds with CUDA define.
template <>
struct Stream<gpu> {
  CUstream_st* stream_ = nullptr;         ///< CUDA's own
  cublasContext* blas_handle_ = nullptr;  ///< null if created without
  int dev_id = 0;                         ///< the device's number

  /// Blocks until all work on the stream is done. Throws Error if any of it failed.
  void Wait();
  /// Whether all work on the stream is done. Does not wait. Throws Error if any of it failed.
  bool CheckIdle() const;
  /// NewStream has made the handle, and DeleteStream releases it.
  void CreateBlasHandle() {}
  void DestroyBlasHandle() {}

  /// The handles for CUDA's own functions: `kernel<<<grid, block, 0, Stream<gpu>::GetStream(
  /// tensor.stream_)>>>(…)`. A null stream stands for the fallback stream, see below; if there is
  /// none either, Error(kFailedPrecondition).
  static CUstream_st* GetStream(const Stream* stream) { return OrFallback(stream).stream_; }
  static cublasContext* GetBlasHandle(const Stream* stream) {
    return OrFallback(stream).blas_handle_;
  }

 private:
  static const Stream& OrFallback(const Stream* stream);
};

namespace tensor_internal {

inline std::atomic<Stream<gpu>*> fallback_stream = nullptr;

}  // namespace tensor_internal

/// What GPU tensors whose stream_ is null run on: nothing, which makes them an error, unless a
/// program sets a stream for all of them. It is for programs that know no streams; the stream must
/// outlive its use.
inline void SetFallbackStream(Stream<gpu>* stream) { tensor_internal::fallback_stream = stream; }
inline Stream<gpu>* FallbackStream() { return tensor_internal::fallback_stream; }

inline const Stream<gpu>& Stream<gpu>::OrFallback(const Stream* stream) {
  if (stream == nullptr) stream = FallbackStream();
  if (stream == nullptr) {
    throw FailedPrecondition("a gpu tensor needs a stream: set_stream(NewStream<gpu>()) first");
  }
  return *stream;
}

/// Makes a stream on the device with that number; release it with DeleteStream.
/// On a GPU that becomes the thread's current device, and its default memory pool, from which the
/// temporaries of expressions come, keeps up to 1 GiB that is free, unless the program has set
/// cudaMemPoolAttrReleaseThreshold itself.
/// Throws Error(kFailedPrecondition) if CUDA refuses. NewStream<gpu> is defined by CUDA builds
/// only.
template <typename Device>
Stream<Device>* NewStream(int dev_id = 0);
template <>
inline Stream<cpu>* NewStream<cpu>(int) {
  return new Stream<cpu>();
}
template <>
Stream<gpu>* NewStream<gpu>(int dev_id);

/// Ends the life of a stream, of null none; what is enqueued on it still runs. Throws Error if CUDA
/// reports a failure. DeleteStream<gpu> is defined by CUDA builds only.
template <typename Device>
void DeleteStream(Stream<Device>* stream);
template <>
inline void DeleteStream<cpu>(Stream<cpu>* stream) {
  delete stream;
}
template <>
void DeleteStream<gpu>(Stream<gpu>* stream);

/// Chooses the device on which this thread allocates from now on; the CPU has but one.
/// Throws Error if CUDA refuses. SetDevice<gpu> is defined by CUDA builds only.
template <typename Device>
void SetDevice(int dev_id);
template <>
inline void SetDevice<cpu>(int) {}
template <>
void SetDevice<gpu>(int dev_id);

}  // namespace tessera

#endif  // TESSERA_TENSOR_DEVICE_STREAM_H_
