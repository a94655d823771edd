#ifndef TESSERA_STORAGE_DEVICE_SYSTEM_ALLOCATOR_H_
#define TESSERA_STORAGE_DEVICE_SYSTEM_ALLOCATOR_H_

#include <cstdint>
#include <memory>

#include "tessera/base/device.h"

namespace tessera {

/// Where a pool's memory comes from: the operating system, the CUDA driver, or a test. Calls for
/// one device never overlap.
class SystemAllocator {
 public:
  virtual ~SystemAllocator() = default;

  /// Returns `size_bytes` > 0 of memory aligned to at least 64 bytes, or null if there is none.
  /// Throws Error only for what freeing memory cannot cure, such as a device that is gone.
  virtual void* Allocate(int64_t size_bytes) = 0;

  /// Takes back exactly what one Allocate(size_bytes) returned.
  virtual void Release(void* ptr, int64_t size_bytes) noexcept = 0;

  /// True if the host may touch the memory. AddressSanitizer then watches freed blocks.
  virtual bool host_accessible() const { return true; }

  /// True if the child of a fork gets a copy of the memory, as of most. Otherwise parent and child
  /// would write the same bytes, and the child's storage begins without it.
  virtual bool copied_by_fork() const { return true; }
};

/// Makes the allocator of one device. Throws Error if there is no such device.
using SystemAllocatorFactory = std::unique_ptr<SystemAllocator> (*)(Device device);

/// Says how memory of devices of `type` is had. Each back end calls it once, from a static
/// initializer in its own file; a back end that is not linked in is simply absent.
/// The result is true, so that a constant can be initialized with it.
bool RegisterSystemAllocator(DeviceType type, SystemAllocatorFactory factory);

/// The allocator for `device`.
/// Throws Error(kUnimplemented) if this build has no back end for its type, and what the factory
/// throws.
std::unique_ptr<SystemAllocator> MakeSystemAllocator(Device device);

}  // namespace tessera

#endif  // TESSERA_STORAGE_DEVICE_SYSTEM_ALLOCATOR_H_
