#include "tessera/kvstore/mpi/mpi_thread.h"

#include <mpi.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <utility>

#include "tessera/base/error.h"

namespace tessera::kvstore_mpi {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::microseconds kSpin{100}, kShortPause{20}, kPause{50}, kIdlePause{10000};
/// Bytes on their way prolong kSpin by the time that they take at this speed, 1 GB/s. Within a
/// machine Open MPI moves some 96 KiB of a message in each call, so a pause would be felt.
constexpr int64_t kBytesPerMicrosecond = 1000;
/// A yield that takes so long has let another thread compute, as others will for a while.
constexpr std::chrono::microseconds kSlowYield{200}, kCrowded{20000};
/// The exit status of an aborted job.
constexpr int kFailure = 1;
/// The time that MPI has to end this process once it is told to.
constexpr unsigned int kAbortSeconds = 10;

/// The first version of Linux's struct sched_attr, of which glibc knows since 2.41.
struct SchedulingAttributes {
  uint32_t size = sizeof(SchedulingAttributes);
  uint32_t policy = 0;
  uint64_t flags = 0;
  int32_t nice = 0;
  uint32_t priority = 0;
  uint64_t runtime_ns = 0;
  uint64_t deadline_ns = 0;
  uint64_t period_ns = 0;
};
static_assert(sizeof(SchedulingAttributes) == 48, "the kernel's layout");

/// Has Linux let this thread in soon when its pauses end, while other threads compute: its pauses
/// are no longer than asked, and since 6.12 a thread with short time slices interrupts one with
/// long slices. Where the system refuses either, the thread is let in later.
void AskForPunctuality() {
  prctl(PR_SET_TIMERSLACK, 1);  // ns; by default 50 us
  SchedulingAttributes attributes;
  if (syscall(SYS_sched_getattr, 0, &attributes, sizeof(attributes), 0) != 0) return;
  if (attributes.policy != SCHED_OTHER) return;
  attributes.runtime_ns = 100'000;  // the shortest that there is
  syscall(SYS_sched_setattr, 0, &attributes, 0);
}

}  // namespace

MpiThread& MpiThread::Instance() {
  // Never destroyed: handlers of exit() may come in any order.
  static MpiThread* const thread = new MpiThread;
  return *thread;
}

MpiThread& MpiThread::Get() {
  MpiThread& thread = Instance();
  if (!thread.IsOwnProcess()) {
    throw FailedPrecondition(
        "MPI was initialized before this process was forked, expected stores of many workers in "
        "the "
        "process that has made the first one");
  }
  const std::lock_guard lock(thread.mutex_);
  if (!thread.refusal_.empty()) throw FailedPrecondition(thread.refusal_);
  if (thread.ended_) throw FailedPrecondition("MPI has been finalized in this process");
  return thread;
}

MpiThread::MpiThread() : process_(getpid()), thread_([this] { Run(); }) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return ready_; });
  if (refusal_.empty()) std::atexit([] { Instance().Stop(); });
}

bool MpiThread::IsOwnProcess() const { return getpid() == process_; }

/// Returns why MPI cannot be used, or "".
std::string MpiThread::Initialize() {
  int is_initialized = 0, is_finalized = 0, level = 0;
  MPI_Initialized(&is_initialized);
  MPI_Finalized(&is_finalized);
  if (is_finalized != 0) return "MPI has been finalized in this process";
  if (is_initialized == 0) {
    // Only this thread calls MPI, and MPI calls the thread that initializes it the main thread.
    if (MPI_Init_thread(nullptr, nullptr, MPI_THREAD_FUNNELED, &level) != MPI_SUCCESS) {
      return "MPI_Init_thread has failed";
    }
    has_initialized_ = true;
  } else {
    MPI_Query_thread(&level);
    if (level < MPI_THREAD_MULTIPLE) {
      return "the program has initialized MPI for fewer threads than a store of many workers "
             "needs; "
             "expected MPI_Init_thread with MPI_THREAD_MULTIPLE, or MPI not initialized";
    }
    // MPI_Finalize begins by deleting the attributes of MPI_COMM_SELF.
    int key = MPI_KEYVAL_INVALID;
    const auto stop = [](MPI_Comm, int, void* self, void*) {
      static_cast<MpiThread*>(self)->Stop();
      return MPI_SUCCESS;
    };
    if (MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, stop, &key, nullptr) != MPI_SUCCESS ||
        MPI_Comm_set_attr(MPI_COMM_SELF, key, this) != MPI_SUCCESS) {
      return "MPI takes no attribute that would tell of its end";
    }
  }
  return "";
}

void MpiThread::FindPlace() {
  Check(MPI_Comm_rank(MPI_COMM_WORLD, &place_.rank), "MPI_Comm_rank");
  Check(MPI_Comm_size(MPI_COMM_WORLD, &place_.size), "MPI_Comm_size");
  MPI_Comm machine = MPI_COMM_NULL;
  Check(MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, place_.rank, MPI_INFO_NULL,
                            &machine),
        "MPI_Comm_split_type");
  Check(MPI_Comm_rank(machine, &place_.local_rank), "MPI_Comm_rank");
  Check(MPI_Comm_size(machine, &place_.local_size), "MPI_Comm_size");
  Check(MPI_Comm_free(&machine), "MPI_Comm_free");
}

void MpiThread::Run() {
  id_ = std::this_thread::get_id();
  AskForPunctuality();
  std::string refusal = Initialize();
  const bool is_usable = refusal.empty();
  if (is_usable) FindPlace();
  {
    const std::lock_guard lock(mutex_);
    refusal_ = std::move(refusal);
    ready_ = true;
    changed_.notify_all();
  }
  if (!is_usable) return;
  Clock::time_point last_progress = Clock::now();
  while (RunCalls()) {
    bool is_busy = false, has_progress = false;
    int64_t bytes = 0;
    for (Polled* const polled : polled_) {
      if (polled->Advance()) has_progress = true;
      if (polled->IsBusy()) is_busy = true;
      bytes += polled->BytesOnTheirWay();
    }
    const Clock::time_point now = Clock::now();
    if (has_progress) {
      last_progress = now;
    } else {
      if (!is_busy && !polled_.empty()) LetMessagesGoOn();
      const std::chrono::microseconds spin =
          kSpin + std::chrono::microseconds(bytes / kBytesPerMicrosecond);
      Pause(is_busy, now - last_progress < spin);
    }
  }
  if (!polled_.empty()) {
    Abort("rank " + std::to_string(place_.rank) +
          ": the process ends while a KVStore of many workers exists; expected its destruction");
  }
  if (has_initialized_) MPI_Finalize();
  const std::lock_guard lock(mutex_);
  ended_ = true;
  changed_.notify_all();
}

/// Runs what other threads want to be called. Returns false once the thread shall end.
bool MpiThread::RunCalls() {
  std::unique_lock lock(mutex_);
  woken_ = false;
  if (aborting_) {
    lock.unlock();
    MPI_Abort(MPI_COMM_WORLD, kFailure);
    _exit(kFailure);
  }
  while (!calls_.empty()) {
    const std::function<void()>& fn = *calls_.front();
    calls_.erase(calls_.begin());
    lock.unlock();
    fn();
    lock.lock();
    ++calls_done_;
    changed_.notify_all();
  }
  return !stopping_;
}

/// Over TCP, MPI sends some messages after the calls that they belong to are complete, and only
/// while it is called. Another rank may wait for one of these.
void MpiThread::LetMessagesGoOn() {
  int ignored = 0;
  Check(MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &ignored, MPI_STATUS_IGNORE),
        "MPI_Iprobe");
}

/// Where other threads compute, Linux lets a thread in when it wakes, but leaves one that yields
/// out for a time slice, which is some ms.
void MpiThread::PauseBriefly() {
  const Clock::time_point start = Clock::now();
  if (start < crowded_until_) {
    std::this_thread::sleep_for(kShortPause);
    return;
  }
  std::this_thread::yield();
  const Clock::time_point end = Clock::now();
  if (end - start > kSlowYield) crowded_until_ = end + kCrowded;
}

void MpiThread::Pause(bool is_busy, bool is_recent) {
  if (is_busy && is_recent) return PauseBriefly();
  std::unique_lock lock(mutex_);
  const auto has_work = [this] { return woken_ || aborting_ || stopping_ || !calls_.empty(); };
  if (is_busy) {
    changed_.wait_for(lock, kPause, has_work);
  } else if (!polled_.empty()) {
    changed_.wait_for(lock, kIdlePause, has_work);
  } else {
    changed_.wait(lock, has_work);
  }
}

void MpiThread::Call(const std::function<void()>& fn) {
  std::unique_lock lock(mutex_);
  calls_.push_back(&fn);
  const uint64_t number = ++calls_made_;
  changed_.notify_all();
  changed_.wait(lock, [&] { return calls_done_ >= number || ended_; });
}

void MpiThread::Wake() {
  const std::lock_guard lock(mutex_);
  woken_ = true;
  changed_.notify_all();
}

void MpiThread::Add(Polled* polled) { polled_.push_back(polled); }

void MpiThread::Remove(Polled* polled) { std::erase(polled_, polled); }

/// Ends the thread, before the process exits or somebody else finalizes MPI.
void MpiThread::Stop() {
  if (!IsOwnProcess()) return;
  std::unique_lock lock(mutex_);
  stopping_ = true;
  changed_.notify_all();
  changed_.wait(lock, [this] { return ended_; });
  lock.unlock();
  if (thread_.joinable()) thread_.join();
}

void MpiThread::Abort(const std::string& message) {
  std::fprintf(stderr, "tessera: %s\n", message.c_str());
  std::fflush(stderr);
  if (std::this_thread::get_id() == id_) {
    MPI_Abort(MPI_COMM_WORLD, kFailure);
    _exit(kFailure);
  }
  {
    const std::lock_guard lock(mutex_);
    aborting_ = true;
    changed_.notify_all();
  }
  for (unsigned int left = kAbortSeconds; left > 0;) left = sleep(left);
  _exit(kFailure);
}

void MpiThread::Check(int code, const char* function) {
  if (code == MPI_SUCCESS) return;
  char text[MPI_MAX_ERROR_STRING] = "";
  int size = 0;
  MPI_Error_string(code, text, &size);
  Abort("rank " + std::to_string(place_.rank) + ": " + function + " has failed: " + text);
}

}  // namespace tessera::kvstore_mpi
