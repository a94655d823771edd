#include "tessera/kvstore/kvstore_local.h"

#include <mutex>
#include <unordered_map>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "tessera/base/error.h"
#include "tessera/base/quote.h"

namespace tessera::kvstore_internal {
namespace {

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
    if (stored_.contains(key)) {
      throw FailedPrecondition("KVStore::Init: key ", Excerpt(ToString(key)),
                               " has a value already, expected one Init for each key");
    }
    NDArray stored = value.Copy(Device::Cpu());  // before the key exists: this may throw
    stored_.emplace(key, std::move(stored));
  }

  void Push(const KVKey& key, std::span<const NDArray> values, int priority) override {
    const auto [stored, updater] = Find("Push", key);
    Check("Push", key, stored, values);
    const NDArray received = Sum(values, priority);
    // No lock is held, because the updater may call the store.
    if (*updater) {
      (*updater)(key, received, stored);
    } else {
      CopyFromTo(received, stored, priority);
    }
  }

  void Pull(const KVKey& key, std::span<const NDArray> out, int priority) override {
    const NDArray stored = Find("Pull", key).first;
    Check("Pull", key, stored, out);
    for (const NDArray& array : out) CopyFromTo(stored, array, priority);
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
  std::pair<NDArray, std::shared_ptr<const Updater>> Find(const char* operation, const KVKey& key) {
    const std::lock_guard lock(mutex_);
    const auto stored = stored_.find(key);
    if (stored == stored_.end()) {
      throw NotFound("KVStore::", operation, ": unknown key ", Excerpt(ToString(key)),
                     ", expected one that Init was called for");
    }
    return {stored->second, updater_};
  }

  static void Check(const char* operation, const KVKey& key, const NDArray& stored,
                    std::span<const NDArray> arrays) {
    if (arrays.empty()) {
      throw InvalidArgument("KVStore::", operation, ": key ", Excerpt(ToString(key)),
                            ": no array given, expected at least one");
    }
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

  /// Returns the sum in an array of its own, since other threads may sum values of the key.
  static NDArray Sum(std::span<const NDArray> values, int priority) {
    if (values.size() == 1) return OnHost(values[0]);
    NDArray sum(values[0].shape(), Device::Cpu(), values[0].dtype(), /*delay_alloc=*/true,
                "KVStore");
    CopyFromTo(values[0], sum, priority);
    for (const NDArray& value : values.subspan(1)) sum += OnHost(value);
    return sum;
  }

  std::mutex mutex_;  // does not guard the contents of arrays
  std::unordered_map<KVKey, NDArray> stored_ ABSL_GUARDED_BY(mutex_);
  std::shared_ptr<const Updater> updater_ ABSL_GUARDED_BY(mutex_) =
      std::make_shared<const Updater>();
};

}  // namespace

std::unique_ptr<KVStore> MakeLocalStore() { return std::make_unique<LocalStore>(); }

}  // namespace tessera::kvstore_internal
