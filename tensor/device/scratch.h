#ifndef TESSERA_TENSOR_DEVICE_SCRATCH_H_
#define TESSERA_TENSOR_DEVICE_SCRATCH_H_

#include <cstddef>
#include <cstdint>

#include "tessera/base/device.h"
#include "tessera/tensor/device/stream.h"

namespace tessera::tensor_internal {

/// A record that a part of an expression has been computed; see materialize.h.
struct ComputedPart {
  const ComputedPart* older;  ///< the record made before this one
  const void* type_mark;      ///< identifies the type of the part
};

/// Memory for the temporaries and partial results of one evaluation. It is returned when the
/// Scratch goes out of scope. Scopes of one thread nest.
template <typename Device>
class Scratch;

/// Scratch memory of the CPU. It belongs to the calling thread and stays with it, so that an
/// evaluation that runs again and again allocates memory only the first time. A thread keeps at
/// most kKeptBytes. Memory beyond that returns to the system at the end of the evaluation.
template <>
class Scratch<cpu> {
 public:
  static constexpr int64_t kKeptBytes = int64_t{64} << 20;  ///< 64 MiB

  explicit Scratch(Stream<cpu>* stream = nullptr);
  ~Scratch();
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;

  /// Returns 64-byte aligned memory, valid until the scope ends. Requires: size_bytes >= 0. Throws
  /// Error(kResourceExhausted) if there is none.
  void* Allocate(int64_t size_bytes);
  /// Returns memory of the host, as Allocate does on the CPU. Allocate of Scratch<gpu> returns
  /// memory of the GPU.
  void* AllocateOnHost(int64_t size_bytes) { return Allocate(size_bytes); }

  /// Returns the stream whose work uses the memory.
  Stream<cpu>* stream() const { return stream_; }

  /// Returns the parts that the evaluation has computed before its loop, the newest first; see
  /// materialize.h.
  const ComputedPart* computed() const { return computed_; }
  void set_computed(const ComputedPart* newest) { computed_ = newest; }

 private:
  Stream<cpu>* stream_;
  const ComputedPart* computed_ = nullptr;
  size_t block_;        // the thread's block when this scope began
  int64_t used_bytes_;  // used bytes of that block at that time
};

/// Returns the number of times that this thread's scratch memory was taken from the system. It is
/// for tests.
int64_t ScratchAllocations();

}  // namespace tessera::tensor_internal

#endif  // TESSERA_TENSOR_DEVICE_SCRATCH_H_
