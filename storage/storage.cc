#include "tessera/storage/storage.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cstddef>
#include <mutex>
#include <new>
#include <utility>

#include "absl/base/attributes.h"
#include "absl/base/thread_annotations.h"
#include "tessera/base/error.h"
#include "tessera/storage/device/alignment.h"
#include "tessera/storage/device/fork_locks.h"
#include "tessera/storage/pool/block.h"
#include "tessera/storage/pool/device_pool.h"
#include "tessera/storage/pool/timeline.h"
#include "tessera/storage/translate_bad_alloc.h"

namespace tessera {

using storage_internal::Block;
using storage_internal::DevicePool;
using storage_internal::ForkLocks;
using storage_internal::ForkRegistration;
using storage_internal::ForkSide;
using storage_internal::ForkStage;
using storage_internal::TranslateBadAlloc;

namespace {

constexpr unsigned kNumTypes = 8;
constexpr unsigned kMaxDevices = 64;

/// Returns device == Device::Cpu(), by one comparison.
constexpr bool IsCpu(Device device) {
  return std::bit_cast<uint64_t>(device) == std::bit_cast<uint64_t>(Device::Cpu());
}

void CheckOptions(const StorageOptions& options) {
  const auto check = [](bool ok, const char* name, int64_t value, const char* expected) {
    if (!ok) throw InvalidArgument("StorageOptions: ", name, " = ", value, "; expected ", expected);
  };
  check(options.limit_bytes >= 0, "limit_bytes", options.limit_bytes, "at least 0");
  check(options.cached_limit_bytes >= 0, "cached_limit_bytes", options.cached_limit_bytes,
        "at least 0");
  check(options.thread_cache_bytes >= 0, "thread_cache_bytes", options.thread_cache_bytes,
        "at least 0");
  const int64_t cutoff_bytes = options.round_linear_cutoff_bytes;
  check(cutoff_bytes >= storage_internal::kAlignment &&
            std::has_single_bit(static_cast<uint64_t>(cutoff_bytes)),
        "round_linear_cutoff_bytes", cutoff_bytes, "a power of two of at least 64");
}

}  // namespace

class Storage::Impl final : public ForkLocks {
 public:
  using MakeOptions = std::function<StorageOptions(Device)>;

  explicit Impl(MakeOptions make_options) : make_options_(std::move(make_options)) {}

  /// Returns the device's pool, or null if the device has not been used.
  DevicePool* FindPool(Device device) const { return Slot(device).load(std::memory_order_acquire); }

  /// Returns the device's pool, and makes it at the first call.
  DevicePool* Pool(Device device) {
    // The acquire in FindPool pairs with the release in MakePool, so that the pool is complete.
    if (DevicePool* pool = FindPool(device)) [[likely]]
      return pool;
    return MakePool(device);
  }

  DevicePool* MakePool(Device device) {
    // The pool is made without the lock, which a fork takes, because a driver may fork when its
    // device is first used.
    auto pool = std::make_shared<DevicePool>(device, make_options_(device), this,
                                             [this](Device short_of) { Trim(short_of); });
    const std::lock_guard<std::mutex> lock(mutex_);
    if (DevicePool* made_meanwhile = FindPool(device)) return made_meanwhile;
    pools_.reserve(pools_.size() + 1);
    devices_.reserve(devices_.size() + 1);
    retired_pools_.reserve(retired_pools_.size() + pools_.size() + 1);
    if (timeline_events_ > 0)
      pool->StartTimeline(storage_internal::Timeline::WithCapacity(timeline_events_));
    // Nothing below throws.
    // The child of a fork keeps the limit of the parent's pool. The newest retired pool comes last.
    for (const auto& retired : retired_pools_) {
      if (retired->device() == device) pool->SetLimit(retired->limit_bytes());
    }
    pools_.push_back(std::move(pool));
    devices_.push_back(device);
    Slot(device).store(pools_.back().get(), std::memory_order_release);
    return pools_.back().get();
  }

  /// Implements Storage::AllocBlock and AllocTaggedBlock.
  ABSL_ATTRIBUTE_ALWAYS_INLINE
  Block* AllocBlock(int64_t size_bytes, Device device, std::string_view tag) {
    DevicePool* const pool = FindPool(device);
    if (pool == nullptr) [[unlikely]]
      return AllocSlowPath(size_bytes, device, tag);
    Block* const block = pool->AllocFromCache(size_bytes, device, tag);
    if (block == nullptr) [[unlikely]]
      return AllocSlowPath(size_bytes, device, tag);
    return block;
  }

  /// Allocates a block if the thread's cache has none, and makes the pool if needed.
  ABSL_ATTRIBUTE_NOINLINE
  Block* AllocSlowPath(int64_t size_bytes, Device device, std::string_view tag) {
    try {
      return Pool(device)->Alloc(size_bytes, tag);
    } catch (const std::bad_alloc&) {
      throw ResourceExhausted("Storage::Alloc: requested ", size_bytes, " bytes on ", device,
                              "; no host memory is left for the pool's own records");
    }
  }

  /// Frees a block of any device, also if the thread's cache cannot take it.
  ABSL_ATTRIBUTE_NOINLINE
  void FreeSlowPath(const Handle& handle) {
    DevicePool* const pool = PoolOf(handle);
    if (!pool->FreeToCache(handle, pool->device())) pool->Free(handle);
  }

  /// Returns the pool of a block. Throws Error if the block belongs to another storage.
  DevicePool* PoolOf(const Handle& handle) {
    DevicePool* const pool = handle.block->pool;
    if (pool->owner() != this) [[unlikely]]
      ThrowForeign(handle);
    return pool;
  }

  void StartTimeline(int64_t max_events);
  std::string StopTimeline(std::string_view trace);

  std::vector<Device> devices() const {
    const std::lock_guard<std::mutex> lock(mutex_);
    return devices_;
  }

  int64_t AddTrimmer(std::function<void(Device)> trim) {
    const std::lock_guard<std::mutex> lock(trim_mutex_);
    trimmers_.emplace_back(++last_trimmer_, std::move(trim));
    return last_trimmer_;
  }
  void RemoveTrimmer(int64_t trimmer) {
    const std::lock_guard<std::mutex> lock(trim_mutex_);
    std::erase_if(trimmers_, [trimmer](const auto& entry) { return entry.first == trimmer; });
  }

  void LockForFork(ForkStage stage) override ABSL_NO_THREAD_SAFETY_ANALYSIS {
    switch (stage) {
      case ForkStage::kTrimmers:
        return trim_mutex_.lock();
      case ForkStage::kPools:
        mutex_.lock();
        for (const auto& pool : pools_) pool->LockForFork();
        for (const auto& pool : retired_pools_) pool->LockForFork();
        return;
      case ForkStage::kSystem:
        return;
    }
  }
  void UnlockAfterFork(ForkSide side) noexcept override ABSL_NO_THREAD_SAFETY_ANALYSIS {
    for (const auto& pool : retired_pools_) pool->UnlockAfterFork(side);
    for (const auto& pool : pools_) pool->UnlockAfterFork(side);
    if (side == ForkSide::kChild) RetireUncopiedPools();
    mutex_.unlock();
    trim_mutex_.unlock();
  }

 private:
  std::atomic<DevicePool*>& Slot(Device device) const {
    const auto type = static_cast<unsigned>(device.type);
    const auto id = static_cast<unsigned>(device.id);
    if (type >= kNumTypes || id >= kMaxDevices) ThrowNoDevice(device);
    return slots_[type * kMaxDevices + id];
  }

  [[noreturn]] static void ThrowNoDevice(Device device) {
    throw InvalidArgument("Storage: ", device, " is no device: expected a known type and an index ",
                          "in [0, ", kMaxDevices, ")");
  }

  [[noreturn]] static void ThrowForeign(const Handle& handle) {
    throw FailedPrecondition("Storage::Free: the handle of ", handle.size_bytes, " bytes on ",
                             handle.device, " belongs to another Storage");
  }

  /// Retires, in the child of a fork, the pools of memory that the parent also writes. Only the
  /// parent allocates from them. The child may still free their blocks.
  void RetireUncopiedPools() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    for (size_t i = pools_.size(); i-- > 0;) {
      if (pools_[i]->copied_by_fork()) continue;
      Slot(devices_[i]).store(nullptr, std::memory_order_relaxed);
      retired_pools_.push_back(std::move(pools_[i]));  // MakePool reserved capacity
      pools_.erase(pools_.begin() + static_cast<ptrdiff_t>(i));
      devices_.erase(devices_.begin() + static_cast<ptrdiff_t>(i));
    }
  }

  void Trim(Device device) {
    const std::lock_guard<std::mutex> lock(trim_mutex_);
    for (const auto& [number, trim] : trimmers_) trim(device);
  }

  const MakeOptions make_options_;
  mutable std::array<std::atomic<DevicePool*>, kNumTypes * kMaxDevices> slots_{};

  mutable std::mutex mutex_;
  std::vector<std::shared_ptr<DevicePool>> pools_ ABSL_GUARDED_BY(mutex_);
  std::vector<Device> devices_ ABSL_GUARDED_BY(mutex_);
  /// The pools that RetireUncopiedPools retired.
  std::vector<std::shared_ptr<DevicePool>> retired_pools_ ABSL_GUARDED_BY(mutex_);
  /// The max_events of the running recording, also for new pools; 0 if no recording runs.
  int64_t timeline_events_ ABSL_GUARDED_BY(mutex_) = 0;

  // This lock is held while trimmers run.
  std::mutex trim_mutex_;
  int64_t last_trimmer_ ABSL_GUARDED_BY(trim_mutex_) = 0;
  std::vector<std::pair<int64_t, std::function<void(Device)>>> trimmers_
      ABSL_GUARDED_BY(trim_mutex_);

  const ForkRegistration fork_registration_{this};
};

Storage* Storage::Get() {
  // The object is never destroyed, because threads and static objects may free blocks until the
  // process ends.
  static Storage* const storage =
      new Storage(std::make_unique<Impl>(&StorageOptions::FromEnvironment));
  return storage;
}

namespace {

// The storage is made before the first thread. Otherwise the child of a fork could wait for ever
// for a thread that was making it.
[[maybe_unused]] const Storage* const made_early = Storage::Get();

}  // namespace

Storage::Storage(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

Storage::Storage(StorageOptions options)
    : impl_(TranslateBadAlloc("Storage::Storage", [&options] {
        CheckOptions(options);
        return std::make_unique<Impl>([options = std::move(options)](Device) { return options; });
      })) {}

Storage::~Storage() = default;

// The first branch passes a constant device, so that the compiler computes its pool's slot.
Block* Storage::AllocBlock(int64_t size_bytes, Device device) {
  return IsCpu(device) ? impl_->AllocBlock(size_bytes, Device::Cpu(), {})
                       : AllocTaggedBlock(size_bytes, device, {});
}

Block* Storage::AllocTaggedBlock(int64_t size_bytes, Device device, std::string_view tag) {
  return impl_->AllocBlock(size_bytes, device, tag);
}

void Storage::Free(const Handle& handle) {
  if (handle.block == nullptr) return;
  DevicePool* const pool = handle.block->pool;
  if (!IsCpu(handle.device) || pool->owner() != impl_.get() ||
      !pool->FreeToCache(handle, Device::Cpu())) [[unlikely]]
    impl_->FreeSlowPath(handle);
}

void Storage::DirectFree(const Handle& handle) {
  if (handle.block != nullptr) impl_->PoolOf(handle)->DirectFree(handle);
}

Storage::Handle Storage::AllocOnStream(int64_t size_bytes, Device device, void* stream,
                                       std::string_view tag) {
  Block* const block = TranslateBadAlloc("Storage::AllocOnStream", [&] {
    return impl_->Pool(device)->AllocOnStream(size_bytes, stream, tag);
  });
  return MakeHandle(block, size_bytes, device);
}

void Storage::FreeOnStream(const Handle& handle, void* stream) {
  if (handle.block == nullptr) return;
  TranslateBadAlloc("Storage::FreeOnStream",
                    [&] { impl_->PoolOf(handle)->FreeOnStream(handle, stream); });
}

void Storage::ReleaseAll(Device device) {
  if (DevicePool* pool = impl_->FindPool(device)) pool->ReleaseAll();
}

void Storage::SetLimit(Device device, int64_t limit_bytes) {
  if (limit_bytes < 0) {
    throw InvalidArgument("Storage::SetLimit: ", limit_bytes, " bytes; expected at least 0");
  }
  TranslateBadAlloc("Storage::SetLimit", [&] { impl_->Pool(device)->SetLimit(limit_bytes); });
}

int64_t Storage::AddTrimmer(std::function<void(Device)> trim) {
  return TranslateBadAlloc("Storage::AddTrimmer",
                           [&] { return impl_->AddTrimmer(std::move(trim)); });
}

void Storage::RemoveTrimmer(int64_t trimmer) { impl_->RemoveTrimmer(trimmer); }

StorageStats Storage::Stats(Device device) const {
  DevicePool* pool = impl_->FindPool(device);
  return pool == nullptr ? StorageStats() : pool->Stats();
}

std::vector<StorageTagStats> Storage::TagStats(Device device) const {
  return TranslateBadAlloc("Storage::TagStats", [&] {
    DevicePool* pool = impl_->FindPool(device);
    return pool == nullptr ? std::vector<StorageTagStats>() : pool->TagStats();
  });
}

void Storage::MarkPeak(Device device) {
  if (DevicePool* pool = impl_->FindPool(device)) pool->MarkPeak();
}

std::string Storage::Report() const {
  return TranslateBadAlloc("Storage::Report", [&] {
    std::string text;
    for (const Device device : impl_->devices()) {
      text += StorageStatsTable(device, Stats(device), TagStats(device));
    }
    return text;
  });
}

void Storage::Impl::StartTimeline(int64_t max_events) {
  const std::lock_guard<std::mutex> lock(mutex_);
  // All memory is reserved first, so that a failure leaves an earlier recording intact.
  std::vector<storage_internal::Timeline::Recording> empty(pools_.size());
  for (auto& recording : empty) recording = storage_internal::Timeline::WithCapacity(max_events);
  for (size_t i = 0; i < pools_.size(); ++i) pools_[i]->StartTimeline(std::move(empty[i]));
  timeline_events_ = max_events;
}

std::string Storage::Impl::StopTimeline(std::string_view trace) {
  const std::lock_guard<std::mutex> lock(mutex_);
  // The text comes first. If there is no memory for it, the recording continues.
  std::vector<storage_internal::DeviceRecording> recordings(pools_.size());
  for (size_t i = 0; i < pools_.size(); ++i) {
    recordings[i].device = devices_[i];
    recordings[i].recording = pools_[i]->CopyTimeline();
  }
  std::string json = trace.empty() ? TimelineJson(recordings) : AddToTrace(trace, recordings);
  if (json.empty()) {
    throw InvalidArgument("Storage::StopTimeline: the trace of ", trace.size(),
                          " bytes; expected a JSON object with a list traceEvents");
  }
  for (const auto& pool : pools_) pool->StopTimeline();
  timeline_events_ = 0;
  return json;
}

void Storage::StartTimeline(int64_t max_events) {
  if (max_events <= 0 || max_events >= int64_t{1} << 40) {
    throw InvalidArgument("Storage::StartTimeline: max_events = ", max_events,
                          "; expected in (0, 2^40)");
  }
  TranslateBadAlloc("Storage::StartTimeline", [&] { impl_->StartTimeline(max_events); });
}

std::string Storage::StopTimeline(std::string_view trace) {
  return TranslateBadAlloc("Storage::StopTimeline", [&] { return impl_->StopTimeline(trace); });
}

}  // namespace tessera
