#include "tessera/kvstore/kvstore_local.h"

#include <mutex>
#include <unordered_map>
#include <utility>

#include "tessera/base/error.h"
#include "tessera/base/quote.h"

namespace tessera::kvstore_internal {
namespace {

/// One key's value. Entries are never removed, so pointers to them stay valid.
struct Entry {
  std::mutex mutex;  // held while related operations on the arrays are pushed
  NDArray stored;
  NDArray sum;  // made by the first push of several values
};

bool IsHost(const NDArray& array) { return array.device().type != DeviceType::kGpu; }

NDArray OnHost(const NDArray& array) { return IsHost(array) ? array : array.Copy(Device::Cpu()); }

class LocalStore final : public KVStore {
 public:
  std::string_view type() const override { return "local"; }

  void Init(const KVKey& key, const NDArray& value) override {
    if (value.is_none()) {
      throw InvalidArgument("KVStore::Init: key ", Excerpt(ToString(key)),
                            ": the value is no array (is_none())");
    }
    const std::lock_guard lock(mutex_);
    if (entries_.contains(key)) {
      throw FailedPrecondition("KVStore::Init: key ", Excerpt(ToString(key)),
                               " has a value already, expected one Init for each key");
    }
    NDArray stored = value.Copy(Device::Cpu());  // before the key exists: this may throw
    entries_.try_emplace(key).first->second.stored = std::move(stored);
  }

  void Push(const KVKey& key, std::span<const NDArray> values, int priority) override {
    const auto [entry, updater] = Find("Push", key);
    const std::lock_guard lock(entry->mutex);
    Check("Push", key, *entry, values);
    const NDArray received = Sum(entry, values, priority);
    if (*updater) {
      (*updater)(key, received, entry->stored);
    } else {
      CopyFromTo(received, entry->stored, priority);
    }
  }

  void Pull(const KVKey& key, std::span<const NDArray> out, int priority) override {
    Entry* const entry = Find("Pull", key).first;
    const std::lock_guard lock(entry->mutex);
    Check("Pull", key, *entry, out);
    for (const NDArray& array : out) CopyFromTo(entry->stored, array, priority);
  }

  void set_updater(Updater updater) override {
    auto shared = std::make_shared<const Updater>(std::move(updater));
    const std::lock_guard lock(mutex_);
    updater_ = std::move(shared);
  }

  int rank() const override { return 0; }
  int num_workers() const override { return 1; }
  void Barrier() override {}

 private:
  std::pair<Entry*, std::shared_ptr<const Updater>> Find(const char* operation, const KVKey& key) {
    const std::lock_guard lock(mutex_);
    const auto entry = entries_.find(key);
    if (entry == entries_.end()) {
      throw NotFound("KVStore::", operation, ": unknown key ", Excerpt(ToString(key)),
                     ", expected one that Init was called for");
    }
    return {&entry->second, updater_};
  }

  static void Check(const char* operation, const KVKey& key, const Entry& entry,
                    std::span<const NDArray> arrays) {
    if (arrays.empty()) {
      throw InvalidArgument("KVStore::", operation, ": key ", Excerpt(ToString(key)),
                            ": no array given, expected at least one");
    }
    const NDArray& stored = entry.stored;
    for (const NDArray& array : arrays) {
      if (array.is_none()) {
        throw InvalidArgument("KVStore::", operation, ": key ", Excerpt(ToString(key)),
                              ": one of the arrays is none (is_none())");
      }
      if (array.shape() != stored.shape() || array.dtype() != stored.dtype()) {
        throw InvalidArgument("KVStore::", operation, ": key ", Excerpt(ToString(key)), ": found ",
                              array.shape(), " of ", array.dtype(), ", expected ", stored.shape(),
                              " of ", stored.dtype(), " as given to Init");
      }
    }
  }

  static NDArray Sum(Entry* entry, std::span<const NDArray> values, int priority) {
    if (values.size() == 1) return OnHost(values[0]);
    if (entry->sum.is_none()) {
      entry->sum = NDArray(entry->stored.shape(), Device::Cpu(), entry->stored.dtype());
    }
    CopyFromTo(values[0], entry->sum, priority);
    for (const NDArray& value : values.subspan(1)) entry->sum += OnHost(value);
    return entry->sum;
  }

  std::mutex mutex_;  // guards the following fields, but not the contents of entries
  std::unordered_map<KVKey, Entry> entries_;
  std::shared_ptr<const Updater> updater_ = std::make_shared<const Updater>();
};

}  // namespace

std::unique_ptr<KVStore> MakeLocalStore() { return std::make_unique<LocalStore>(); }

}  // namespace tessera::kvstore_internal
