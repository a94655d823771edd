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

/// Memory for arrays and workspaces, one pool for each device.
///
///     Storage* storage = Storage::Get();
///     Storage::Handle block = storage->Alloc(1 << 20, Device::Cpu(), "weights");
///     ...                       // block.dptr is aligned to 64 bytes; its contents are undefined
///     storage->Free(block);     // back to the pool; the next Alloc of that size is cheap
///
/// A freed block is kept for reuse as StorageOptions say. When memory runs short, Alloc gathers
/// what all threads have cached, gives cached memory back to the system, asks the registered
/// trimmers, and only then throws. For more than the limit itself it gives nothing back and asks
/// nobody.
///
/// If the host has no memory for storage's own records, every member that needs some throws
/// Error(kResourceExhausted) and has changed nothing; Free and DirectFree need none.
///
/// Threads: every member may be called from any thread at any time, and any thread may free what
/// another allocated. The destructor must not overlap other calls; blocks that are still out then
/// become invalid.
///
/// Forks: the child goes on with what the parent had, whatever other threads were doing. Memory
/// that both would write (shared memory, and a GPU's) is handed out by the parent alone: the
/// child's pool of such a device begins empty, with the parent's limit. Blocks from before the
/// child may free, and use as the two agree. A fork waits for calls that are under way, and for
/// trimmers.
class Storage {
 public:
  using Handle = StorageHandle;  ///< what Alloc gives out

  /// The process's storage, set up from the environment (StorageOptions::FromEnvironment) and never
  /// destroyed.
  static Storage* Get();

  /// A storage of its own, in which every device has these options.
  /// Throws Error(kInvalidArgument) if a number in them is out of range.
  explicit Storage(StorageOptions options = {});
  ~Storage();
  Storage(const Storage&) = delete;
  Storage& operator=(const Storage&) = delete;

  /// Returns a block of at least `size_bytes`; none at all, with a null pointer, if that is 0.
  /// Blocks with a tag (an operation's or array's name) are also counted under it.
  ///
  /// Throws Error and changes nothing that is live:
  /// - kInvalidArgument for a size that is negative or cannot exist, or an impossible device;
  /// - kResourceExhausted if neither the pool nor the system has the memory, or the limit forbids
  ///   it: what was requested, in use, cached, and the limit;
  /// - kUnimplemented for a device that this build knows no memory for.
  Handle Alloc(int64_t size_bytes, Device device, std::string_view tag = {}) {
    return MakeHandle(
        tag.empty() ? AllocBlock(size_bytes, device) : AllocTaggedBlock(size_bytes, device, tag),
        size_bytes, device);
  }

  /// Gives a block back to its pool. Throws Error(kFailedPrecondition) if the handle was freed
  /// before or belongs to another Storage.
  void Free(const Handle& handle);

  /// As Alloc and Free, for memory that work on a device's stream uses: `stream` is a cudaStream_t,
  /// or whatever StorageOptions::stream_events watches. A freed block serves AllocOnStream of the
  /// same stream at once, if it is no more than an eighth too large; everybody else gets it only
  /// after the work that the stream has been given by then is done, and never if the device fails
  /// before it can tell. Nobody waits for that, unless memory runs short. Where a device has no
  /// streams, as the CPU, these are Alloc and Free.
  /// Both may throw Error, besides, if there is no such stream, and FreeOnStream if no event can be
  /// recorded; the block is then still live.
  Handle AllocOnStream(int64_t size_bytes, Device device, void* stream, std::string_view tag = {});
  void FreeOnStream(const Handle& handle, void* stream);

  /// As Free, but memory goes back to the system as soon as a whole system allocation is free.
  void DirectFree(const Handle& handle);

  /// Gives everything that is cached for `device` back to the system; waits for the work on blocks
  /// that were freed in stream order.
  void ReleaseAll(Device device);

  /// Changes the limit of StorageOptions for one device; cached memory above it is released. Live
  /// memory may already exceed the new limit: then the system is asked for nothing until enough is
  /// freed, and only what is cached is handed out.
  void SetLimit(Device device, int64_t limit_bytes);

  /// Registers somebody who holds memory that they could do without. When memory runs short, Alloc
  /// calls `trim(device)`, one call at a time; it may call Free, and must not call Alloc,
  /// AddTrimmer, RemoveTrimmer or fork, nor make or end a Storage or an Engine. Returns a number
  /// for RemoveTrimmer, which waits for a call that is under way.
  int64_t AddTrimmer(std::function<void(Device)> trim);
  void RemoveTrimmer(int64_t trimmer);

  /// All zeros for a device that has not been used.
  StorageStats Stats(Device device) const;

  /// The tags that have been used on `device`, the largest live ones first.
  std::vector<StorageTagStats> TagStats(Device device) const;

  /// Starts peak_since_mark_bytes anew from what is live.
  void MarkPeak(Device device);

  /// The devices used so far and their figures, as text for people.
  std::string Report() const;

  /// Records every Alloc and Free of every device from now on, up to `max_events` for each, whose
  /// memory (24 bytes an event) is taken at once. Starts anew if it was recording already.
  /// Throws Error: kInvalidArgument unless 0 < max_events < 2^40.
  void StartTimeline(int64_t max_events = int64_t{1} << 20);

  /// Stops recording. The result is a file for chrome://tracing or Perfetto: counter events, in
  /// microseconds of the steady clock, of live and cached bytes for each device. What there was no
  /// room for is counted in otherData.dropped_events. Without StartTimeline the list is empty.
  ///
  /// With a `trace` in that format, as Engine::StopTrace returns it, the result is the trace with
  /// these events added: memory above the operations that took it. What there was no room for is
  /// then its storage_dropped_events.
  /// Throws Error(kInvalidArgument) for a trace that is none; the recording then goes on.
  std::string StopTimeline(std::string_view trace = {});

 private:
  class Impl;
  explicit Storage(std::unique_ptr<Impl> impl);

  // Alloc is inline as far as it makes the handle, which so comes to lie at once where the caller
  // wants it: an eighth of the time of a block that the thread has at hand. Both return null for no
  // bytes, and throw what Alloc throws.
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
