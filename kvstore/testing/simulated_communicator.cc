#include "tessera/kvstore/testing/simulated_communicator.h"

#include <algorithm>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <exception>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "tessera/base/error.h"
#include "tessera/kvstore/row_sum.h"

namespace tessera::kvstore_testing {
namespace {

using Clock = std::chrono::steady_clock;

/// What one rank has given to a collective.
struct Call {
  std::string name;  // with sizes, type and root: equal on all ranks
  std::vector<SumBuffer> buffers;
  DType dtype = DType::kUnknown;
  std::span<uint64_t> words;
  std::span<std::byte> bytes;
  std::span<const std::byte> mine;
  int root = 0;
  double moved_bytes = 0;  // through the network, for each rank
  Communicator::Done done;
};

/// A collective: the k-th call of every rank.
struct Collective {
  std::vector<std::optional<Call>> calls;
  int arrived = 0;
  Clock::time_point start;  // when the last call reaches the network
  Clock::time_point due;    // when it is complete, once all have arrived
};

void Sum(std::vector<std::optional<Call>>& calls) {
  std::vector<const void*> rows(calls.size());
  for (size_t b = 0; b < calls[0]->buffers.size(); ++b) {
    for (size_t r = 0; r < calls.size(); ++r) rows[r] = calls[r]->buffers[b].in;
    const SumBuffer& first = calls[0]->buffers[b];
    kvstore_internal::SumRows(rows, first.out, first.size, calls[0]->dtype);
    const auto size_bytes = static_cast<size_t>(first.size * DTypeSizeBytes(calls[0]->dtype));
    for (size_t r = 1; r < calls.size() && size_bytes > 0; ++r) {
      std::memcpy(calls[r]->buffers[b].out, first.out, size_bytes);
    }
  }
}

void Intersect(std::vector<std::optional<Call>>& calls) {
  for (size_t i = 0; i < calls[0]->words.size(); ++i) {
    uint64_t common = ~uint64_t{0};
    for (const auto& call : calls) common &= call->words[i];
    for (const auto& call : calls) call->words[i] = common;
  }
}

/// Copies what the root gives, or with AllGather what every rank gives, to all ranks.
void Copy(std::vector<std::optional<Call>>& calls) {
  for (const auto& to : calls) {
    if (to->mine.empty()) {
      const std::span<std::byte> from = calls[static_cast<size_t>(to->root)]->bytes;
      if (from.data() != to->bytes.data()) std::ranges::copy(from, to->bytes.begin());
      continue;
    }
    auto out = to->bytes.begin();
    for (const auto& from : calls) out = std::ranges::copy(from->mine, out).out;
  }
}

}  // namespace

/// The state that the ranks share, and the thread that completes their collectives in order.
class SimulatedGroup::Network {
 public:
  Network(int size, SimulatedNetwork options)
      : size_(size),
        options_(options),
        delays_(static_cast<size_t>(size)),
        next_(static_cast<size_t>(size), 0),
        pending_(static_cast<size_t>(size), 0),
        ended_(static_cast<size_t>(size), false),
        thread_([this] { Run(); }) {}

  ~Network() {
    {
      const std::lock_guard lock(mutex_);
      if (!failure_) failure_ = "the group has ended";
      stopping_ = true;
    }
    changed_.notify_all();
    thread_.join();
  }

  int size() const { return size_; }

  void Enter(int rank, Call call) {
    const auto r = static_cast<size_t>(rank);
    {
      const std::lock_guard lock(mutex_);
      if (ended_[r])
        Fail("rank " + std::to_string(rank) + " calls " + call.name + " after Shutdown");
      ++pending_[r];
      const uint64_t place = next_[r]++ - first_;
      while (collectives_.size() <= place) {
        collectives_.push_back({std::vector<std::optional<Call>>(static_cast<size_t>(size_))});
      }
      Collective& collective = collectives_[place];
      collective.calls[r] = std::move(call);
      collective.start = std::max(collective.start, Clock::now() + delays_[r]);
      if (++collective.arrived == size_) Schedule(collective);
    }
    changed_.notify_all();
  }

  void Post(int rank, const std::function<void()>& fn) {
    const auto r = static_cast<size_t>(rank);
    std::unique_lock lock(mutex_);
    if (ended_[r]) {
      lock.unlock();
      return fn();
    }
    ++pending_[r];
    posted_.emplace_back(r, fn);
    changed_.notify_all();
  }

  void Shutdown(int rank) {
    const auto r = static_cast<size_t>(rank);
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return pending_[r] == 0; });
    ended_[r] = true;
  }

  void FailBy(const std::string& cause) {
    {
      const std::lock_guard lock(mutex_);
      Fail(cause);
    }
    changed_.notify_all();
  }

  void SlowDown(int rank, std::chrono::microseconds delay) {
    const std::lock_guard lock(mutex_);
    delays_[static_cast<size_t>(rank)] = delay;
  }

 private:
  void Fail(const std::string& cause) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (!failure_) failure_ = cause;
  }

  /// Gives the network to a collective that all ranks have entered.
  void Schedule(Collective& collective) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    const Call& call = *collective.calls[0];
    for (size_t r = 1; r < collective.calls.size(); ++r) {
      const std::string& name = collective.calls[r]->name;
      if (name != call.name) {
        Fail("rank 0 calls " + call.name + " and rank " + std::to_string(r) + " calls " + name);
      }
    }
    const double seconds =
        options_.bytes_per_second > 0 ? call.moved_bytes / options_.bytes_per_second : 0;
    free_at_ = std::max(free_at_, collective.start) +
               std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
    collective.due = free_at_ + options_.latency;
  }

  void Run() {
    std::unique_lock lock(mutex_);
    for (;;) {
      if (!posted_.empty()) {
        CallFirstPosted(lock);
      } else if (failure_) {
        FailCalls(lock);
        if (stopping_ && collectives_.empty() && posted_.empty()) return;
        changed_.wait(lock,
                      [this] { return stopping_ || !collectives_.empty() || !posted_.empty(); });
      } else if (!collectives_.empty() && collectives_.front().arrived == size_) {
        const Clock::time_point due = collectives_.front().due;
        if (Clock::now() < due) {
          changed_.wait_until(lock, due);
        } else {
          CompleteFirst(lock);
        }
      } else {
        changed_.wait(lock);
      }
    }
  }

  void CallFirstPosted(std::unique_lock<std::mutex>& lock) ABSL_NO_THREAD_SAFETY_ANALYSIS {
    const auto [rank, fn] = std::move(posted_.front());
    posted_.pop_front();
    lock.unlock();
    fn();
    lock.lock();
    --pending_[rank];
    changed_.notify_all();
  }

  void CompleteFirst(std::unique_lock<std::mutex>& lock) ABSL_NO_THREAD_SAFETY_ANALYSIS {
    Collective collective = std::move(collectives_.front());
    collectives_.pop_front();
    ++first_;
    lock.unlock();
    Call& call = *collective.calls[0];
    if (!call.buffers.empty()) {
      Sum(collective.calls);
    } else if (!call.words.empty()) {
      Intersect(collective.calls);
    } else if (!call.bytes.empty()) {
      Copy(collective.calls);
    }
    Finish(lock, collective, nullptr);
  }

  void FailCalls(std::unique_lock<std::mutex>& lock) ABSL_NO_THREAD_SAFETY_ANALYSIS {
    const std::exception_ptr error = std::make_exception_ptr(FailedPrecondition(*failure_));
    while (!collectives_.empty()) {
      Collective collective = std::move(collectives_.front());
      collectives_.pop_front();
      ++first_;
      // Ranks that come to this call later go to a collective of their own, and fail too.
      for (uint64_t& next : next_) next = std::max(next, first_);
      lock.unlock();
      Finish(lock, collective, error);
    }
  }

  void Finish(std::unique_lock<std::mutex>& lock, Collective& collective,
              const std::exception_ptr& error) ABSL_NO_THREAD_SAFETY_ANALYSIS {
    for (auto& call : collective.calls) {
      if (call) call->done(error);
    }
    lock.lock();
    for (size_t r = 0; r < collective.calls.size(); ++r) {
      if (collective.calls[r]) --pending_[r];
    }
    changed_.notify_all();
  }

  const int size_;
  const SimulatedNetwork options_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::chrono::microseconds> delays_ ABSL_GUARDED_BY(mutex_);
  std::vector<uint64_t> next_ ABSL_GUARDED_BY(mutex_);  // of each rank: its next call's number
  std::vector<int> pending_ ABSL_GUARDED_BY(mutex_);    // of each rank: calls that are not complete
  std::vector<bool> ended_ ABSL_GUARDED_BY(mutex_);
  std::deque<Collective> collectives_ ABSL_GUARDED_BY(mutex_);
  std::deque<std::pair<size_t, std::function<void()>>> posted_ ABSL_GUARDED_BY(mutex_);
  uint64_t first_ ABSL_GUARDED_BY(mutex_) = 0;  // the number of collectives_[0]
  Clock::time_point free_at_ ABSL_GUARDED_BY(mutex_);
  std::optional<std::string> failure_ ABSL_GUARDED_BY(mutex_);
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;  // last: it uses the others
};

/// The communicator of one rank.
class SimulatedGroup::Rank final : public Communicator {
 public:
  Rank(std::shared_ptr<Network> network, int rank) : network_(std::move(network)), rank_(rank) {}

  int rank() const override { return rank_; }
  int size() const override { return network_->size(); }
  int local_rank() const override { return rank_; }
  int local_size() const override { return size(); }

  void SumInto(std::span<const SumBuffer> buffers, DType dtype, Done done) override {
    Call call{.name = "SumInto of " + std::string(DTypeName(dtype)) + " in buffers of"};
    int64_t size_bytes = 0;
    for (const SumBuffer& buffer : buffers) {
      call.name += " " + std::to_string(buffer.size);
      size_bytes += buffer.size * DTypeSizeBytes(dtype);
    }
    call.buffers.assign(buffers.begin(), buffers.end());
    call.dtype = dtype;
    call.moved_bytes = 2.0 * static_cast<double>(size_bytes) * (size() - 1) / size();
    Enter(std::move(call), std::move(done));
  }

  void Intersect(std::span<uint64_t> words, Done done) override {
    Call call{.name = "Intersect of " + std::to_string(words.size()) + " words"};
    call.words = words;
    call.moved_bytes = static_cast<double>(words.size_bytes());
    Enter(std::move(call), std::move(done));
  }

  void Broadcast(std::span<std::byte> bytes, int root, Done done) override {
    Call call{.name = "Broadcast of " + std::to_string(bytes.size()) + " bytes from rank " +
                      std::to_string(root)};
    call.bytes = bytes;
    call.root = root;
    call.moved_bytes = static_cast<double>(bytes.size());
    Enter(std::move(call), std::move(done));
  }

  void AllGather(std::span<const std::byte> mine, std::span<std::byte> all, Done done) override {
    Call call{.name = "AllGather of " + std::to_string(mine.size()) + " bytes"};
    call.mine = mine;
    call.bytes = all;
    call.moved_bytes = static_cast<double>(mine.size()) * (size() - 1);
    Enter(std::move(call), std::move(done));
  }

  void Barrier(Done done) override { Enter({.name = "Barrier"}, std::move(done)); }

  void Post(std::function<void()> fn) override { network_->Post(rank_, fn); }

  void Shutdown() override { network_->Shutdown(rank_); }

  void Abort(const std::string& cause, AbortBy by) override {
    network_->FailBy(by == AbortBy::kEveryRank ? cause
                                               : "rank " + std::to_string(rank_) + ": " + cause);
  }

 private:
  void Enter(Call call, Done done) {
    call.done = std::move(done);
    network_->Enter(rank_, std::move(call));
  }

  const std::shared_ptr<Network> network_;
  const int rank_;
};

SimulatedGroup::SimulatedGroup(int size, SimulatedNetwork network)
    : network_(std::make_shared<Network>(size, network)) {
  for (int rank = 0; rank < size; ++rank) {
    ranks_.push_back(std::make_shared<Rank>(network_, rank));
  }
}

SimulatedGroup::~SimulatedGroup() = default;

std::shared_ptr<Communicator> SimulatedGroup::communicator(int rank) const {
  return ranks_.at(static_cast<size_t>(rank));
}

void SimulatedGroup::Kill(int rank) {
  network_->FailBy("rank " + std::to_string(rank) + " has died");
}

void SimulatedGroup::SlowDown(int rank, std::chrono::microseconds delay) {
  network_->SlowDown(rank, delay);
}

void SimulatedGroup::RunRanks(
    const std::function<void(const std::shared_ptr<Communicator>&)>& run) const {
  std::vector<std::thread> threads;
  for (const std::shared_ptr<Communicator>& rank : ranks_) {
    threads.emplace_back([&run, &rank] { run(rank); });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace tessera::kvstore_testing
