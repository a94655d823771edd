#ifndef TESSERA_TENSOR_STREAM_H_
#define TESSERA_TENSOR_STREAM_H_

#include "tessera/base/device.h"

namespace tessera {

/// The order in which a device runs the work that is given to it.
template <typename Device>
struct Stream;

/// On the CPU an expression has run when the assignment returns.
template <>
struct Stream<cpu> {
  void Wait() {}
  bool CheckIdle() const { return true; }
};

/// A CUDA stream and the cuBLAS handle bound to it. The members have the same layout in every
/// build; they are made by NewStream<gpu>, which builds with CUDA define.
template <>
struct Stream<gpu> {
  void* stream_ = nullptr;       ///< cudaStream_t
  void* blas_handle_ = nullptr;  ///< cublasHandle_t, or null if created without
  int dev_id = 0;

  /// Blocks until all work on the stream is done. Throws Error if any of it failed.
  void Wait();
  bool CheckIdle() const;
};

/// Makes a stream on the device with that number; release it with DeleteStream.
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

template <typename Device>
void DeleteStream(Stream<Device>* stream);
template <>
inline void DeleteStream<cpu>(Stream<cpu>* stream) {
  delete stream;
}
template <>
void DeleteStream<gpu>(Stream<gpu>* stream);

}  // namespace tessera

#endif  // TESSERA_TENSOR_STREAM_H_
