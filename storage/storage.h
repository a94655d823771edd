#ifndef TESSERA_STORAGE_STORAGE_H_
#define TESSERA_STORAGE_STORAGE_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/base/device.h"
#include "tessera/storage/handle.h"
#include "tessera/storage/options.h"
#include "tessera/storage/pool/block.h"
#include "tessera/storage/statistics.h"

namespace tessera {

/// Allocates memory for arrays and workspaces, from one pool for each device.
///
///     Storage* storage = Storage::Get();
///     Storage::Handle block = storage->Alloc(1 << 20, Device::Cpu(), "weights");
///     ...                       // block.dptr is aligned to 64 bytes; its contents are undefined
///     storage->Free(block);     // back to the pool; the next Alloc of that size is cheap
///
/// The pool keeps freed blocks for reuse, as StorageOptions describe.
///
/// Shortage: Alloc gathers the blocks in all threads' caches, then releases cached memory to the
/// system, then calls the registered trimmers, and only then throws. A request that exceeds the
/// limit by itself releases nothing and calls no trimmer.
///
/// Host memory: if the host has none for storage's own records, the call throws
/// Error(kResourceExhausted) and changes nothing. Free and DirectFree need none.
///
/// Threads: all members are thread-safe, and any thread may free a block that another allocated.
/// The destructor must not overlap other calls, and invalidates all live blocks.
///
/// Forks: a fork waits for running calls and trimmers. The child inherits the pools of memory that
/// the kernel copies. Memory that both processes would write (shared memory and GPU memory) stays
/// in the parent's pools: the child's pools of such devices begin empty, with the parent's limits.
/// The child may use and free blocks from before the fork if it coordinates with the parent.
class Storage {
 public:
  using Handle = StorageHandle;  ///< a block

  /// Returns the process's storage. Its options come from the environment
  /// (StorageOptions::FromEnvironment). It is never destroyed.
  static Storage* Get();

  /// Makes an independent storage with these options for every device.
  /// Throws Error(kInvalidArgument) if a number in them is out of range.
  explicit Storage(StorageOptions options = {});
  ~Storage();
  Storage(const Storage&) = delete;
  Storage& operator=(const Storage&) = delete;

  /// Allocates a block of at least `size_bytes`. The handle's pointer is null if that is 0.
  /// A tag, such as the name of an operation or array, adds the block to that tag's statistics.
  ///
  /// Throws Error and leaves all live blocks unchanged:
  /// - kInvalidArgument if the size is negative or above 2^46, or the device is impossible;
  /// - kResourceExhausted if neither the pool nor the system has the memory, or the limit forbids
  ///   the allocation; the message names the bytes requested, in use and cached, and the limit;
  /// - kUnimplemented if this build has no memory for the device.
  Handle Alloc(int64_t size_bytes, Device device, std::string_view tag = {}) {
    return MakeHandle(
        tag.empty() ? AllocBlock(size_bytes, device) : AllocTaggedBlock(size_bytes, device, tag),
        size_bytes, device);
  }

  /// Returns a block to its pool. Throws Error(kFailedPrecondition) if the handle was already
  /// freed or belongs to another Storage.
  void Free(const Handle& handle);

  /// Allocates and frees memory that work on a device's stream uses. `stream` is a cudaStream_t, or
  /// a stream of StorageOptions::stream_events.
  ///
  /// AllocOnStream of the same stream may reuse a freed block at once, if the block exceeds the
  /// request by at most an eighth of its size. Other allocations reuse it after the stream has done
  /// the work that it had been given when the block was freed. If the device fails before it can
  /// report that, no allocation reuses the block. FreeOnStream does not wait for the stream. An
  /// allocation waits for it only if memory is short.
  ///
  /// On a device without streams, such as the CPU, these calls are Alloc and Free. Otherwise both
  /// also throw Error if the stream does not exist. FreeOnStream also throws Error if it cannot
  /// record an event. The block is then still live.
  Handle AllocOnStream(int64_t size_bytes, Device device, void* stream, std::string_view tag = {});
  void FreeOnStream(const Handle& handle, void* stream);

  /// Frees a block and releases its system allocation to the system if all of that is now free.
  /// Throws as Free does.
  void DirectFree(const Handle& handle);

  /// Releases all cached memory of `device` to the system. Waits for the work on blocks that were
  /// freed in stream order.
  void ReleaseAll(Device device);

  /// Changes StorageOptions::limit_bytes for one device, and releases cached memory above it. Live
  /// memory may exceed the new limit. Until enough of it is freed, allocations use cached memory
  /// only.
  void SetLimit(Device device, int64_t limit_bytes);

  /// Registers a function that frees memory which its owner can do without. Alloc calls
  /// `trim(device)` when memory is short, one call at a time. The function may call Free. It must
  /// not call Alloc, AddTrimmer, RemoveTrimmer or fork, and must not make or destroy a Storage or
  /// an Engine. Returns a number for RemoveTrimmer, which waits for a running call.
  int64_t AddTrimmer(std::function<void(Device)> trim);
  void RemoveTrimmer(int64_t trimmer);

  /// Returns the device's statistics: all zeros if the device has not been used.
  StorageStats Stats(Device device) const;

  /// Returns the tags that have been used on `device`, sorted by live bytes, largest first.
  std::vector<StorageTagStats> TagStats(Device device) const;

  /// Sets peak_since_mark_bytes to the bytes that are live now.
  void MarkPeak(Device device);

  /// Returns the statistics of all devices used so far as readable text.
  std::string Report() const;

  /// Starts to record each Alloc and Free of every device, up to `max_events` for each device. The
  /// call reserves 24 bytes for each event. It discards an earlier recording.
  /// Throws Error(kInvalidArgument) unless 0 < max_events < 2^40.
  void StartTimeline(int64_t max_events = int64_t{1} << 20);

  /// Stops recording and returns the text of a file for chrome://tracing or Perfetto. The file
  /// holds counter events of live and cached bytes for each device, in microseconds of the steady
  /// clock. otherData.dropped_events counts the events that had no room. Without StartTimeline the
  /// list is empty.
  ///
  /// A `trace` in that format, such as the result of Engine::StopTrace, is returned with these
  /// events added, so that memory appears above the operations that allocate it. Its member
  /// storage_dropped_events counts the events that had no room. Throws Error(kInvalidArgument) if
  /// `trace` does not have that format. The recording then continues.
  std::string StopTimeline(std::string_view trace = {});

 private:
  class Impl;
  explicit Storage(std::unique_ptr<Impl> impl);

  // Alloc is inline so that it makes the handle directly in the caller's variable. That saves an
  // eighth of the time of a cached allocation. These two return null for 0 bytes, and throw as
  // Alloc does.
  storage_internal::Block* AllocBlock(int64_t size_bytes, Device device);
  storage_internal::Block* AllocTaggedBlock(int64_t size_bytes, Device device,
                                            std::string_view tag);
  static Handle MakeHandle(storage_internal::Block* block, int64_t size_bytes, Device device) {
    if (block == nullptr) return {.device = device};
    return {block->ptr, size_bytes, device, block->CurrentGeneration(), block};
  }

  std::unique_ptr<Impl> impl_;
};

}  // namespace tessera

#endif  // TESSERA_STORAGE_STORAGE_H_
