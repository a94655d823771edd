#include "tessera/engine/workers/tbb_workers.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <exception>
#include <latch>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "absl/cleanup/cleanup.h"
#include "tbb/global_control.h"
#include "tbb/info.h"
#include "tessera/engine/workers/thread_frame.h"

#if defined(__SANITIZE_THREAD__)
#define TESSERA_ENGINE_TSAN 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define TESSERA_ENGINE_TSAN 1
#endif
#endif

#if defined(__SANITIZE_ADDRESS__)
#define TESSERA_ENGINE_LSAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define TESSERA_ENGINE_LSAN 1
#endif
#endif

#if defined(TESSERA_ENGINE_LSAN)
// LeakSanitizer's own interface, which its runtime library exports.
extern "C" {
void __lsan_disable();
void __lsan_enable();
}
#endif

#if defined(TESSERA_ENGINE_TSAN)
// ThreadSanitizer's own interface, which its runtime library exports.
extern "C" {
void AnnotateIgnoreReadsBegin(const char* file, int line);
void AnnotateIgnoreReadsEnd(const char* file, int line);
void AnnotateIgnoreWritesBegin(const char* file, int line);
void AnnotateIgnoreWritesEnd(const char* file, int line);
void __tsan_acquire(void* address);
void __tsan_release(void* address);
}
#endif

namespace tessera::engine_internal {
namespace {

// How many threads the engines have reserved, and so many the system has given at a time. Relaxed
// everywhere: nothing but the numbers.
std::atomic<int> reserved_threads{0};
std::atomic<int> given_threads{0};

thread_local bool is_borrowed = false;
// Of threads that are. Relaxed everywhere: nothing but the number.
std::atomic<int> borrowed_sleeps{0};

constexpr std::chrono::seconds kAskAgain{1};
// When the system has refused some the last time, on the steady clock; 0 if it never has.
std::atomic<std::chrono::steady_clock::rep> refused_at{0};

/// As far as is known, without asking.
bool SystemHasGivenThreads() {
  return given_threads.load(std::memory_order_relaxed) >=
         reserved_threads.load(std::memory_order_relaxed);
}

bool WasRefusedJustNow() {
  const std::chrono::steady_clock::duration refused(refused_at.load(std::memory_order_relaxed));
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  return refused.count() != 0 && now - refused < kAskAgain;
}

/// One at a time asks: two would refuse each other.
std::mutex& AskingMutex() {
  static auto& mutex = *new std::mutex;  // never destroyed, as below
  return mutex;
}

/// Whether the system gives so many threads, all at once. Requires AskingMutex().
bool Ask(int count) {
  try {
    std::vector<std::thread> threads;
    std::latch all_there(1);
    const absl::Cleanup join = [&] {
      all_there.count_down();
      for (std::thread& thread : threads) thread.join();
    };
    threads.reserve(static_cast<size_t>(count));
    for (int i = 0; i < count; ++i) threads.emplace_back([&] { all_there.wait(); });
  } catch (const std::exception&) {  // no thread, or no memory for it
    refused_at.store(std::chrono::steady_clock::now().time_since_epoch().count(),
                     std::memory_order_relaxed);
    return false;
  }
  return true;
}

struct Reservations {
  std::mutex mutex;
  int workers = 0;                               // guarded by mutex
  std::unique_ptr<tbb::global_control> control;  // guarded by mutex
};

Reservations& TheReservations() {
  // Never destroyed: engines may end after static objects.
  static auto& reservations = *new Reservations;
  return reservations;
}

/// Requires the mutex. Throws where there is no memory, with the limit gone.
void SetLimit(Reservations& reservations) {
  // TBB takes the least of all limits, so the old one must not outlive the new one.
  reservations.control.reset();
  if (reservations.workers == 0) return;
  const int threads = tbb::info::default_concurrency() + reservations.workers;
  reservations.control = std::make_unique<tbb::global_control>(
      tbb::global_control::max_allowed_parallelism, static_cast<size_t>(threads));
}

/// SetLimit for where nothing may be thrown: without a limit of its own TBB has its usual threads,
/// until an engine comes or goes the next time.
void TryToSetLimit(Reservations& reservations) noexcept {
  try {
    SetLimit(reservations);
  } catch (const std::exception&) {
  }
}

}  // namespace

WorkerReservation::WorkerReservation(int workers) : workers_(workers) {
  Reservations& reservations = TheReservations();
  std::lock_guard<std::mutex> hold(reservations.mutex);
  reservations.workers += workers_;
  try {
    SetLimit(reservations);
  } catch (...) {
    reservations.workers -= workers_;
    TryToSetLimit(reservations);
    throw;
  }
  reserved_threads.store(reservations.workers, std::memory_order_relaxed);
}

WorkerReservation::~WorkerReservation() {
  Reservations& reservations = TheReservations();
  std::lock_guard<std::mutex> hold(reservations.mutex);
  reservations.workers -= workers_;
  reserved_threads.store(reservations.workers, std::memory_order_relaxed);
  TryToSetLimit(reservations);
}

bool SystemGivesThreadsAgain() {
  return SystemHasGivenThreads() || (!WasRefusedJustNow() && SystemGivesThreads());
}

bool SystemGivesThreads() {
  if (SystemHasGivenThreads()) return true;
  std::lock_guard<std::mutex> hold(AskingMutex());
  const int reserved = reserved_threads.load(std::memory_order_relaxed);
  const int count = reserved - given_threads.load(std::memory_order_relaxed);
  if (count <= 0) return true;
  if (!Ask(count)) return false;
  given_threads.store(reserved, std::memory_order_relaxed);
  return true;
}

bool SystemGivesMoreThreads(int count) {
  if (WasRefusedJustNow()) return false;
  std::lock_guard<std::mutex> hold(AskingMutex());
  return Ask(reserved_threads.load(std::memory_order_relaxed) + count);
}

BorrowedSleep::BorrowedSleep() : counts_(is_borrowed) {
  if (counts_) borrowed_sleeps.fetch_add(1, std::memory_order_relaxed);
}

BorrowedSleep::~BorrowedSleep() {
  if (counts_) borrowed_sleeps.fetch_sub(1, std::memory_order_relaxed);
}

bool BorrowedSleep::Any() { return borrowed_sleeps.load(std::memory_order_relaxed) > 0; }

ArenaObserver::ArenaObserver(tbb::task_arena& arena, uint64_t engine_id, ArenaThreads threads)
    : tbb::task_scheduler_observer(arena), engine_id_(engine_id), threads_(threads) {
  PublishThroughTbb(this);
  // A worker that is inside when the observer ends may keep TBB's record of it (40 bytes) for good,
  // as of TBB 2021.8.
#if defined(TESSERA_ENGINE_LSAN)
  __lsan_disable();
#endif
  observe(true);
#if defined(TESSERA_ENGINE_LSAN)
  __lsan_enable();
#endif
}

ArenaObserver::~ArenaObserver() {
  observe(false);  // returns when no thread is in a call of ours
  ReceiveThroughTbb(this);
}

void ArenaObserver::on_scheduler_entry(bool is_worker) {
  ReceiveThroughTbb(this);
  // Threads from outside enter through Execute, which has a frame.
  if (is_worker) {
    workers_.fetch_add(1, std::memory_order_relaxed);
    ThreadFrame::SetArena(engine_id_);
    is_borrowed = threads_ == ArenaThreads::kBorrowed;
  }
  PublishThroughTbb(this);
}

void ArenaObserver::on_scheduler_exit(bool is_worker) {
  if (is_worker) {
    ThreadFrame::SetArena(0);
    is_borrowed = false;
    workers_.fetch_sub(1, std::memory_order_relaxed);
  }
  PublishThroughTbb(this);
}

#if defined(TESSERA_ENGINE_TSAN)

HiddenFromTsan::HiddenFromTsan() {
  AnnotateIgnoreReadsBegin(__FILE__, __LINE__);
  AnnotateIgnoreWritesBegin(__FILE__, __LINE__);
}

HiddenFromTsan::~HiddenFromTsan() {
  AnnotateIgnoreWritesEnd(__FILE__, __LINE__);
  AnnotateIgnoreReadsEnd(__FILE__, __LINE__);
}

void PublishThroughTbb(const void* object) { __tsan_release(const_cast<void*>(object)); }

void ReceiveThroughTbb(const void* object) { __tsan_acquire(const_cast<void*>(object)); }

#else

HiddenFromTsan::HiddenFromTsan() = default;
HiddenFromTsan::~HiddenFromTsan() = default;
void PublishThroughTbb(const void*) {}
void ReceiveThroughTbb(const void*) {}

#endif

}  // namespace tessera::engine_internal
