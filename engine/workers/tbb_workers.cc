#include "tessera/engine/workers/tbb_workers.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <latch>
#include <memory>
#include <mutex>
#include <system_error>
#include <thread>
#include <vector>

#include "absl/base/config.h"
#include "absl/base/thread_annotations.h"
#include "absl/cleanup/cleanup.h"
#include "tbb/global_control.h"
#include "tbb/info.h"
#include "tbb/task.h"
#include "tbb/task_group.h"
#include "tessera/base/error.h"
#include "tessera/base/fork.h"
#include "tessera/engine/workers/thread_frame.h"

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

#if defined(ABSL_HAVE_THREAD_SANITIZER)
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

/// Returns whether the system gives so many threads, all at once. Some 20 us for each.
bool SystemGivesThreads(int count) {
  try {
    std::vector<std::thread> threads;
    std::latch all_there(1);
    const absl::Cleanup join = [&] {
      all_there.count_down();
      for (std::thread& thread : threads) thread.join();
    };
    threads.reserve(static_cast<size_t>(count));
    for (int i = 0; i < count; ++i) threads.emplace_back([&] { all_there.wait(); });
  } catch (const std::system_error&) {
    return false;
  }
  return true;
}

struct Reservations {
  std::mutex mutex;
  int workers ABSL_GUARDED_BY(mutex) = 0;
  int given ABSL_GUARDED_BY(mutex) = 0;  // so many at a time the system has had threads for
  std::unique_ptr<tbb::global_control> control ABSL_GUARDED_BY(mutex);
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
  const int missing = reservations.workers + workers_ - reservations.given;
  if (missing > 0 && !SystemGivesThreads(missing)) {
    throw ResourceExhausted("Engine::Create: the system has no threads for ", workers_,
                            " workers; expected fewer workers, or a higher limit (ulimit -u)");
  }
  reservations.given += std::max(missing, 0);
  reservations.workers += workers_;
  try {
    SetLimit(reservations);
  } catch (...) {
    reservations.workers -= workers_;
    TryToSetLimit(reservations);
    throw;
  }
}

WorkerReservation::~WorkerReservation() {
  Reservations& reservations = TheReservations();
  std::lock_guard<std::mutex> hold(reservations.mutex);
  reservations.workers -= workers_;
  TryToSetLimit(reservations);
}

ArenaObserver::ArenaObserver(tbb::task_arena& arena, uint64_t engine_id)
    : tbb::task_scheduler_observer(arena), engine_id_(engine_id) {
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
  if (is_worker) {
    ThreadFrame::SetArena(engine_id_);
  }
  PublishThroughTbb(this);
}

void ArenaObserver::on_scheduler_exit(bool is_worker) {
  if (is_worker) {
    ThreadFrame::SetArena(0);
  }
  PublishThroughTbb(this);
}

void CallInOwnContext(const std::function<void()>& fn) {
  // current_context would make TBB known to a thread that has not used it, so the index comes
  // first.
  const bool is_in_task =
      !ThreadsLostInFork() &&
      tbb::this_task_arena::current_thread_index() != tbb::task_arena::not_initialized &&
      tbb::task::current_context() != nullptr;
  if (!is_in_task) return fn();
  tbb::task_group_context context(tbb::task_group_context::isolated,
                                  tbb::task_group_context::fp_settings);
  tbb::task_group(context).run_and_wait(fn);
}

#if defined(ABSL_HAVE_THREAD_SANITIZER)

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
