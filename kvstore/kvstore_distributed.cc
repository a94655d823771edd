#include "tessera/kvstore/kvstore_distributed.h"

#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <locale>
#include <mutex>
#include <span>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "tessera/base/error.h"
#include "tessera/base/quote.h"
#include "tessera/engine/engine.h"
#include "tessera/kvstore/gradient_compression.h"
#include "tessera/kvstore/round_coordinator.h"
#include "tessera/kvstore/stored_values.h"
#include "tessera/ndarray/sparse.h"

namespace tessera::kvstore_internal {
namespace {

/// A push from its call until the coordinator has its summand. If the operation that would submit
/// it never runs, because what was pushed could not be computed, the coordinator learns that too.
class AnnouncedPush {
 public:
  AnnouncedPush(std::shared_ptr<RoundCoordinator> coordinator, int key, NDArray pushed,
                NDArray received)
      : coordinator_(std::move(coordinator)),
        key_(key),
        pushed_(std::move(pushed)),
        received_(std::move(received)),
        meetings_(coordinator_->Announce()) {}
  ~AnnouncedPush() {
    if (submitted_) return;
    // The engine has given the error of the operation to what it would have written.
    coordinator_->Withdraw([received = received_] { received.WaitToRead(); });
  }
  AnnouncedPush(const AnnouncedPush&) = delete;
  AnnouncedPush& operator=(const AnnouncedPush&) = delete;

  const NDArray& pushed() const { return pushed_; }
  const NDArray& received() const { return received_; }

  /// Requires: runs inside the operation that reads pushed() and writes received().
  void Submit(const OnComplete& on_complete) {
    const SumBuffer buffer{pushed_.data().dptr_, received_.data().dptr_, pushed_.shape().Size()};
    submitted_ = true;
    coordinator_->Submit(
        meetings_, {key_, buffer, pushed_.dtype(),
                    [on_complete](std::exception_ptr error) { on_complete(std::move(error)); }});
  }

 private:
  const std::shared_ptr<RoundCoordinator> coordinator_;
  const int key_;
  const NDArray pushed_, received_;
  const uint64_t meetings_;
  bool submitted_ = false;
};

/// Names a key in an error; 7 and "7" are two keys.
std::string NameOf(const KVKey& key) {
  const std::string text = Excerpt(ToString(key));
  return std::holds_alternative<int>(key) ? text : "\"" + text + "\"";
}

std::string DescribeInit(const std::string& name, const NDArray& value) {
  std::ostringstream text;
  text.imbue(std::locale::classic());
  text << "Init of key " << name << ", ";
  if (StorageTypeOf(value) != StorageType::kDefault) text << StorageTypeOf(value) << " ";
  text << value.shape() << " of " << value.dtype();
  return std::move(text).str();
}

/// Returns the array itself if it has the storage type, else a copy that has it.
NDArray InStorage(const NDArray& array, StorageType type) {
  return StorageTypeOf(array) == type ? array : sparse::Cast(array.Detach(), type);
}

class DistributedStore final : public KVStore {
 public:
  DistributedStore(std::string_view type, std::shared_ptr<Communicator> communicator)
      : type_(type),
        communicator_(std::move(communicator)),
        coordinator_(std::make_shared<RoundCoordinator>(communicator_)) {}

  ~DistributedStore() override {
    if (getpid() != process_) {
      // The threads of the parent do not exist here, so nothing may wait for them.
      new std::shared_ptr<RoundCoordinator>(coordinator_);
      new std::shared_ptr<Communicator>(communicator_);
      return;
    }
    try {
      if (std::uncaught_exceptions() > exceptions_) {
        coordinator_->Fail("an exception has ended the use of the store");
      } else {
        coordinator_->Meet({.description = "the end of the store"});
      }
    } catch (const std::exception&) {
      // The coordinator has reported the failure to the job.
    }
    coordinator_->Stop();
    communicator_->Shutdown();
    for (Variable* const order : orders_) Engine::Get()->DeleteVariable(order);
  }

  std::string_view type() const override { return type_; }

  void Init(const KVKey& key, const NDArray& value) override {
    RequireOwnProcess("Init");
    const std::lock_guard one_at_a_time(init_mutex_);
    values_.CheckNew(key, value);
    const auto size = static_cast<size_t>(value.shape().Size());
    std::vector<std::byte> bytes(size * static_cast<size_t>(DTypeSizeBytes(value.dtype())));
    NDArray stored(value.shape(), Device::Cpu(), value.dtype());
    if (rank() == 0) value.SyncCopyToCPU(bytes.data(), value.shape().Size());
    const std::string name = NameOf(key);
    coordinator_->Meet(
        {.description = DescribeInit(name, value), .broadcast = bytes, .new_key = name});
    // From here on the key exists on all ranks.
    try {
      stored.SyncCopyFromCPU(bytes.data(), value.shape().Size());
      Variable* const order = Engine::Get()->NewVariable("KVStore key");
      {
        const std::lock_guard lock(orders_mutex_);
        orders_.push_back(order);
      }
      values_.Add(key, InStorage(stored, StorageTypeOf(value)));
    } catch (const std::exception& error) {
      coordinator_->Fail("Init of key " + name + ": " + error.what());
      throw;
    }
  }

  void Push(const KVKey& key, std::span<const NDArray> values, int priority) override {
    RequireOwnProcess("Push");
    const StoredValues::Entry entry = values_.Find("Push", key);
    StoredValues::Check("Push", key, entry.stored, values);
    const NDArray received(entry.stored.shape(), Device::Cpu(), entry.stored.dtype(),
                           /*delay_alloc=*/true, "KVStore");
    // What the exchange waits for is not to stay behind other work either.
    const NDArray sum = SumOnHost(values, std::max(priority, 0));
    // Ranks store different rows, so what is summed over them is dense.
    const NDArray sent =
        InStorage(compression_.Sent(key, std::span(&sum, 1))[0], StorageType::kDefault);
    const auto push = std::make_shared<AnnouncedPush>(coordinator_, entry.index, sent, received);
    // Pushes of one key are summed one after the other, in the same order on every rank.
    Engine::Get()->PushAsync(
        [push](RunContext, OnComplete on_complete) { push->Submit(on_complete); }, Device::Cpu(),
        {push->pushed().var()}, {received.var(), OrderOf(entry.index)},
        // It takes no time, and lets the exchange begin. Behind other work, as `priority` may say,
        // it would come when there is nothing left to hide the exchange behind.
        {.property = FnProperty::kCpuPrioritized, .priority = priority, .name = "KVStore::Push"});
    StoredValues::Update(key, entry, InStorage(received, StorageTypeOf(sum)), priority);
  }

  void Pull(const KVKey& key, std::span<const NDArray> out, int priority) override {
    const NDArray stored = values_.Find("Pull", key).stored;
    StoredValues::Check("Pull", key, stored, out);
    for (const NDArray& array : out) CopyFromTo(stored, array, priority);
  }

  void PullRows(const KVKey& key, const NDArray& out, const NDArray& rows) override {
    values_.PullRows(key, out, rows);
  }

  void set_updater(Updater updater) override { values_.set_updater(std::move(updater)); }

  void CompressGradients(float threshold) override { compression_.Start(threshold); }

  int rank() const override { return communicator_->rank(); }
  int num_workers() const override { return communicator_->size(); }

  void Barrier() override {
    RequireOwnProcess("Barrier");
    coordinator_->Meet({.description = "Barrier"});
  }

  void SumOverWorkers(std::span<double> numbers) override {
    RequireOwnProcess("SumOverWorkers");
    coordinator_->Meet(
        {.description = "SumOverWorkers of " + std::to_string(numbers.size()) + " numbers",
         .sum = numbers});
  }

  void Fail(const std::string& cause) override {
    RequireOwnProcess("Fail");
    coordinator_->Fail(cause);
  }

 private:
  void RequireOwnProcess(const char* operation) const {
    if (getpid() == process_) return;
    throw FailedPrecondition("KVStore::", operation, ": a store of type ", type_,
                             " was made before this process was forked, expected calls in the "
                             "process that has made it");
  }

  Variable* OrderOf(int index) {
    const std::lock_guard lock(orders_mutex_);
    return orders_[static_cast<size_t>(index)];
  }

  const std::string type_;
  const pid_t process_ = getpid();
  const int exceptions_ = std::uncaught_exceptions();
  const std::shared_ptr<Communicator> communicator_;
  const std::shared_ptr<RoundCoordinator> coordinator_;
  StoredValues values_;
  GradientCompression compression_;
  std::mutex init_mutex_;  // makes the numbers of keys those of their meeting points
  std::mutex orders_mutex_;
  std::vector<Variable*> orders_ ABSL_GUARDED_BY(orders_mutex_);  // one for each key
};

}  // namespace

bool IsDistributed(std::string_view type) {
  return type == "dist_sync" || type == "dist_device_sync";
}

std::unique_ptr<KVStore> MakeDistributedStore(std::string_view type,
                                              std::shared_ptr<Communicator> communicator) {
  return std::make_unique<DistributedStore>(type, std::move(communicator));
}

}  // namespace tessera::kvstore_internal
