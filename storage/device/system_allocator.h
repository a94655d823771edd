#ifndef TESSERA_STORAGE_DEVICE_SYSTEM_ALLOCATOR_H_
#define TESSERA_STORAGE_DEVICE_SYSTEM_ALLOCATOR_H_

#include <cstdint>
#include <memory>

#include "tessera/base/device.h"

namespace tessera {

/// The source of a pool's memory: the operating system, the CUDA driver, or a test. Calls for one
/// device never overlap.
class SystemAllocator {
 public:
  virtual ~SystemAllocator() = default;

  /// Allocates `size_bytes` > 0, aligned to at least 64 bytes. Returns null if there is not enough
  /// memory. Throws Error only for failures that freeing memory cannot cure, such as a lost device.
  virtual void* Allocate(int64_t size_bytes) = 0;

  /// Releases memory that Allocate(size_bytes) returned, all of it.
  virtual void Release(void* ptr, int64_t size_bytes) noexcept = 0;

  /// Returns true if the host can access the memory. AddressSanitizer then watches freed blocks.
  virtual bool host_accessible() const { return true; }

  /// Returns true if the kernel copies the memory for the child of a fork, which is usual. If it
  /// returns false, the child's pool begins empty, because both processes would write the same
  /// bytes.
  virtual bool copied_by_fork() const { return true; }
};

/// A function that makes the allocator of one device. It throws Error if the device does not exist.
using SystemAllocatorFactory = std::unique_ptr<SystemAllocator> (*)(Device device);

/// Registers the factory for devices of `type`. Each back end calls this once, from a static
/// initializer in its own file. A back end that is not linked in is absent.
/// Returns true, so that the call can initialize a constant.
bool RegisterSystemAllocator(DeviceType type, SystemAllocatorFactory factory);

/// Makes the allocator for `device`.
/// Throws Error(kUnimplemented) if this build has no back end for its type, and the errors of the
/// factory.
std::unique_ptr<SystemAllocator> MakeSystemAllocator(Device device);

}  // namespace tessera

#endif  // TESSERA_STORAGE_DEVICE_SYSTEM_ALLOCATOR_H_
