#ifndef TESSERA_TENSOR_DEVICE_SCRATCH_H_
#define TESSERA_TENSOR_DEVICE_SCRATCH_H_

#include <cstddef>
#include <cstdint>

#include "tessera/base/device.h"
#include "tessera/tensor/device/stream.h"

namespace tessera {

namespace tensor_internal {

/// A note that a part of an expression has been computed; see prepare.h.
struct ComputedPart {
  const ComputedPart* older;  ///< the note made before
  const void* type_mark;      ///< tells of what type the part is
};

}  // namespace tensor_internal

/// Memory for what one evaluation keeps until it is done: temporaries and partial results. It is
/// given back when the Scratch goes out of scope; scopes of one thread nest.
template <typename Device>
class Scratch;

/// On the CPU the memory is the calling thread's own and stays with the thread, so that an
/// evaluation that runs again and again allocates nothing after the first time. A thread keeps at
/// most kKeptBytes; what an evaluation needs beyond that is returned to the system at its end.
template <>
class Scratch<cpu> {
 public:
  static constexpr int64_t kKeptBytes = int64_t{64} << 20;  ///< 64 MiB

  explicit Scratch(Stream<cpu>* stream = nullptr);
  ~Scratch();
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;

  /// 64-byte aligned memory, valid until the scope ends. `size_bytes` is at least 0.
  /// Throws Error(kResourceExhausted) if there is none.
  void* Allocate(int64_t size_bytes);
  /// The same; on a GPU's Scratch, memory of the host.
  void* AllocateOnHost(int64_t size_bytes) { return Allocate(size_bytes); }

  /// The stream whose work uses the memory.
  Stream<cpu>* stream() const { return stream_; }

  /// What the evaluation has computed before its loop, the newest first; see prepare.h.
  const tensor_internal::ComputedPart* computed() const { return computed_; }
  void set_computed(const tensor_internal::ComputedPart* newest) { computed_ = newest; }

 private:
  Stream<cpu>* stream_;
  const tensor_internal::ComputedPart* computed_ = nullptr;
  size_t block_;        // where the thread's memory stood
  int64_t used_bytes_;  // when this scope began
};

namespace tensor_internal {

/// How often this thread's scratch memory was taken from the system, for tests.
int64_t ScratchAllocations();

}  // namespace tensor_internal
}  // namespace tessera

#endif  // TESSERA_TENSOR_DEVICE_SCRATCH_H_
