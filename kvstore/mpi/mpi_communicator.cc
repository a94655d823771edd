#include "tessera/kvstore/mpi/mpi_communicator.h"

#include <mpi.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <limits>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "tessera/base/error.h"
#include "tessera/kvstore/mpi/mpi_thread.h"
#include "tessera/kvstore/mpi/rank_ordered_sums.h"

namespace tessera::kvstore_mpi {
namespace {

/// The time after which a rank that knows what rank 0 reports ends the job itself.
constexpr unsigned int kReportSeconds = 10;

class MpiCommunicator final : public Communicator, public Polled {
 public:
  explicit MpiCommunicator(MpiThread& thread) : thread_(thread) {
    thread_.Call([this] { thread_.Add(this); });
  }

  ~MpiCommunicator() override { Shutdown(); }

  int rank() const override { return thread_.place().rank; }
  int size() const override { return thread_.place().size; }
  int local_rank() const override { return thread_.place().local_rank; }
  int local_size() const override { return thread_.place().local_size; }

  void SumInto(std::span<const SumBuffer> buffers, DType dtype, Done done) override {
    std::vector<SumBuffer> list(buffers.begin(), buffers.end());
    Give(std::move(done), [this, list = std::move(list), dtype](Done counted) {
      sums_->Begin(list, dtype, std::move(counted));
    });
  }

  void Intersect(std::span<uint64_t> words, Done done) override {
    Give(std::move(done), [this, words](Done counted) {
      thread_.Check(MPI_Iallreduce(MPI_IN_PLACE, words.data(), static_cast<int>(words.size()),
                                   MPI_UINT64_T, MPI_BAND, comms_[0], Begin(std::move(counted))),
                    "MPI_Iallreduce");
    });
  }

  void Broadcast(std::span<std::byte> bytes, int root, Done done) override {
    // MPI counts in int.
    constexpr auto kMost = static_cast<size_t>(std::numeric_limits<int>::max());
    do {
      const std::span<std::byte> part = bytes.first(std::min(bytes.size(), kMost));
      bytes = bytes.subspan(part.size());
      Give(
          bytes.empty() ? std::move(done) : [](std::exception_ptr) {},
          [this, part, root](Done counted) {
            thread_.Check(MPI_Ibcast(part.data(), static_cast<int>(part.size()), MPI_BYTE, root,
                                     comms_[0], Begin(std::move(counted))),
                          "MPI_Ibcast");
          });
    } while (!bytes.empty());
  }

  void AllGather(std::span<const std::byte> mine, std::span<std::byte> all, Done done) override {
    Give(std::move(done), [this, mine, all](Done counted) {
      const auto size_bytes = static_cast<int>(mine.size());
      thread_.Check(MPI_Iallgather(mine.data(), size_bytes, MPI_BYTE, all.data(), size_bytes,
                                   MPI_BYTE, comms_[0], Begin(std::move(counted))),
                    "MPI_Iallgather");
    });
  }

  void Barrier(Done done) override {
    Give(std::move(done), [this](Done counted) {
      thread_.Check(MPI_Ibarrier(comms_[0], Begin(std::move(counted))), "MPI_Ibarrier");
    });
  }

  void Post(std::function<void()> fn) override {
    Give([fn = std::move(fn)](const std::exception_ptr&) { fn(); },
         [](const Done& counted) { counted(nullptr); });
  }

  void Shutdown() override {
    if (!thread_.IsOwnProcess()) return;
    {
      std::unique_lock lock(mutex_);
      if (std::exchange(ended_, true)) return;
      changed_.wait(lock, [this] { return is_open_ && pending_ == 0; });
    }
    thread_.Call([this] {
      thread_.Remove(this);
      for (MPI_Comm& comm : comms_) thread_.Check(MPI_Comm_free(&comm), "MPI_Comm_free");
    });
  }

  void Abort(const std::string& cause, AbortBy by) override {
    if (by == AbortBy::kThisRank) {
      thread_.Abort("rank " + std::to_string(rank()) + " of " + std::to_string(size()) + ": " +
                    cause);
    }
    if (rank() != 0) {
      for (unsigned int left = kReportSeconds; left > 0;) left = sleep(left);
    }
    thread_.Abort(cause);
  }

  bool Advance() override {
    if (sums_ == nullptr) return Open();
    bool has_progress = false;
    for (std::function<void()> call = Take(); call != nullptr; call = Take()) {
      call();
      has_progress = true;
    }
    while (!begun_.empty()) {
      int is_complete = 0;
      thread_.Check(MPI_Test(&begun_.front().request, &is_complete, MPI_STATUS_IGNORE), "MPI_Test");
      if (is_complete == 0) break;
      const Done done = std::move(begun_.front().done);
      begun_.pop_front();
      done(nullptr);
      has_progress = true;
    }
    return sums_->Advance() || has_progress;
  }

  bool IsBusy() const override { return sums_ == nullptr || !begun_.empty() || sums_->IsBusy(); }

  int64_t BytesOnTheirWay() const override {
    return sums_ == nullptr ? 0 : sums_->bytes_on_their_way();
  }

 private:
  /// A call of MPI that is not complete.
  struct Begun {
    Done done;
    MPI_Request request = MPI_REQUEST_NULL;
  };

  /// Begins to make the next of comms_. It does not block: another rank may come to its call only
  /// when a store that exists has gone on.
  void BeginDuplicate(MPI_Comm parent) {
    thread_.Check(MPI_Comm_idup(parent, &comms_[num_comms_], &duplicate_), "MPI_Comm_idup");
  }

  /// Goes on to make comms_, of one communicator after the other: Open MPI 4.1 may wait forever if
  /// ranks duplicate two at a time. Only the first is made of MPI_COMM_WORLD, on which the calls of
  /// several stores must have one order on all ranks. Returns whether anything happened.
  bool Open() {
    if (opening_ == nullptr) {
      opening_ = this;
      BeginDuplicate(MPI_COMM_WORLD);
    }
    if (opening_ != this) return false;
    int is_complete = 0;
    thread_.Check(MPI_Test(&duplicate_, &is_complete, MPI_STATUS_IGNORE), "MPI_Test");
    if (is_complete == 0) return false;
    thread_.Check(MPI_Comm_set_errhandler(comms_[num_comms_], MPI_ERRORS_RETURN),
                  "MPI_Comm_set_errhandler");
    if (++num_comms_ < comms_.size()) {
      BeginDuplicate(comms_[0]);
      return true;
    }
    opening_ = nullptr;
    sums_ = std::make_unique<RankOrderedSums>(thread_, comms_[1], comms_[2]);
    const std::lock_guard lock(mutex_);
    is_open_ = true;
    changed_.notify_all();
    return true;
  }

  /// Has the thread call begin(done), after earlier calls. It counts the call as complete.
  void Give(Done done, std::function<void(Done)> begin) {
    Done counted = [this, done = std::move(done)](const std::exception_ptr& error) {
      done(error);
      const std::lock_guard lock(mutex_);
      --pending_;
      changed_.notify_all();
    };
    {
      const std::lock_guard lock(mutex_);
      if (!ended_) {
        ++pending_;
        given_.emplace_back(
            [begin = std::move(begin), counted = std::move(counted)] { begin(counted); });
        counted = nullptr;
      }
    }
    if (counted == nullptr) return thread_.Wake();
    {
      const std::lock_guard lock(mutex_);
      ++pending_;
    }
    counted(std::make_exception_ptr(
        FailedPrecondition("the communicator is used after Shutdown, or in a child of a fork")));
  }

  std::function<void()> Take() {
    const std::lock_guard lock(mutex_);
    if (given_.empty()) return nullptr;
    std::function<void()> call = std::move(given_.front());
    given_.pop_front();
    return call;
  }

  /// Returns where MPI puts the request of the call that begins.
  MPI_Request* Begin(Done done) {
    begun_.push_back({std::move(done)});
    return &begun_.back().request;
  }

  MpiThread& thread_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> given_ ABSL_GUARDED_BY(mutex_);
  int64_t pending_ ABSL_GUARDED_BY(mutex_) = 0;
  bool is_open_ ABSL_GUARDED_BY(mutex_) = false;
  bool ended_ ABSL_GUARDED_BY(mutex_) = false;
  // The thread's own.
  static inline const MpiCommunicator* opening_ = nullptr;  // the one whose comms_ are being made
  std::array<MPI_Comm, 3> comms_ = {MPI_COMM_NULL, MPI_COMM_NULL, MPI_COMM_NULL};
  size_t num_comms_ = 0;  // made so far
  MPI_Request duplicate_ = MPI_REQUEST_NULL;
  std::deque<Begun> begun_;
  std::unique_ptr<RankOrderedSums> sums_;  // null until comms_ are made
};

}  // namespace

std::unique_ptr<Communicator> MakeMpiCommunicator() {
  return std::make_unique<MpiCommunicator>(MpiThread::Get());
}

}  // namespace tessera::kvstore_mpi
