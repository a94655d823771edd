#ifndef TESSERA_TENSOR_DEVICE_STREAM_H_
#define TESSERA_TENSOR_DEVICE_STREAM_H_

#include <atomic>

#include "tessera/base/device.h"
#include "tessera/base/error.h"

// The types to which CUDA's handles point, under CUDA's own names: cudaStream_t is CUstream_st*,
// and cublasHandle_t is cublasContext*.
struct CUstream_st;
struct cublasContext;

namespace tessera {

/// The order in which a device runs the work that is given to it.
template <typename Device>
struct Stream;

/// A stream of the CPU, where an expression has run when the assignment returns.
template <>
struct Stream<cpu> {
  void Wait() {}
  bool CheckIdle() const { return true; }
  /// Does nothing, since a stream of the CPU has no handles.
  void CreateBlasHandle() {}
  void DestroyBlasHandle() {}
};

/// A CUDA stream and the cuBLAS handle bound to it. NewStream<gpu> makes them; CUDA builds define
/// it. The members have the same layout in every build.
template <>
struct Stream<gpu> {
  CUstream_st* stream_ = nullptr;         ///< CUDA's stream
  cublasContext* blas_handle_ = nullptr;  ///< null if there is none
  int dev_id = 0;                         ///< the device's number

  /// Blocks until all work on the stream is done. Throws Error if any of it failed.
  void Wait();
  /// Returns whether all work on the stream is done. Does not wait. Throws Error if any of it
  /// failed.
  bool CheckIdle() const;
  /// Does nothing: NewStream has made the handle, and DeleteStream releases it.
  void CreateBlasHandle() {}
  void DestroyBlasHandle() {}

  /// Returns the stream's handle for CUDA's own functions:
  /// `kernel<<<grid, block, 0, Stream<gpu>::GetStream(tensor.stream_)>>>(…)`.
  /// Null stands for the fallback stream, see SetFallbackStream. Throws Error(kFailedPrecondition)
  /// if there is none either.
  static CUstream_st* GetStream(const Stream* stream) { return OrFallback(stream).stream_; }
  /// Returns the cuBLAS handle of the stream. Null stands for the fallback stream, see
  /// SetFallbackStream. Throws Error(kFailedPrecondition) if there is none either.
  static cublasContext* GetBlasHandle(const Stream* stream) {
    return OrFallback(stream).blas_handle_;
  }

 private:
  static const Stream& OrFallback(const Stream* stream);
};

namespace tensor_internal {

inline std::atomic<Stream<gpu>*> fallback_stream = nullptr;

}  // namespace tensor_internal

/// Sets the stream of GPU tensors whose stream_ is null. Such tensors are an error unless a program
/// has set one. It is for programs that know no streams. The stream must outlive its use.
inline void SetFallbackStream(Stream<gpu>* stream) { tensor_internal::fallback_stream = stream; }
/// Returns the stream that SetFallbackStream has set, or null.
inline Stream<gpu>* FallbackStream() { return tensor_internal::fallback_stream; }

inline const Stream<gpu>& Stream<gpu>::OrFallback(const Stream* stream) {
  if (stream == nullptr) stream = FallbackStream();
  if (stream == nullptr) {
    throw FailedPrecondition("a gpu tensor needs a stream: set_stream(NewStream<gpu>()) first");
  }
  return *stream;
}

/// Makes a stream on device number `dev_id`; DeleteStream releases it. The device becomes the
/// thread's current device if it is a GPU. Its default memory pool, from which the temporaries of
/// expressions come, then keeps up to 1 GiB of free memory, unless the program has set
/// cudaMemPoolAttrReleaseThreshold itself. Throws Error(kInternal) if CUDA refuses, or
/// Error(kResourceExhausted) if memory ran out. NewStream<gpu> is defined by CUDA builds only.
template <typename Device>
Stream<Device>* NewStream(int dev_id = 0);
template <>
inline Stream<cpu>* NewStream<cpu>(int) {
  return new Stream<cpu>();
}
template <>
Stream<gpu>* NewStream<gpu>(int dev_id);

/// Destroys a stream; null is allowed. Work that is enqueued on it still runs. Throws Error if CUDA
/// reports a failure. DeleteStream<gpu> is defined by CUDA builds only.
template <typename Device>
void DeleteStream(Stream<Device>* stream);
template <>
inline void DeleteStream<cpu>(Stream<cpu>* stream) {
  delete stream;
}
template <>
void DeleteStream<gpu>(Stream<gpu>* stream);

/// Chooses the device on which this thread allocates from now on. The number has no effect on the
/// CPU, which is a single device. Throws Error if CUDA refuses. SetDevice<gpu> is defined by CUDA
/// builds only.
template <typename Device>
void SetDevice(int dev_id);
template <>
inline void SetDevice<cpu>(int) {}
template <>
void SetDevice<gpu>(int dev_id);

}  // namespace tessera

#endif  // TESSERA_TENSOR_DEVICE_STREAM_H_
