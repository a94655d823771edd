#include "tessera/engine/engine.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <fstream>
#include <limits>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

#include "tbb/info.h"
#include "tessera/base/atomic_file.h"
#include "tessera/base/environment.h"
#include "tessera/base/error.h"
#include "tessera/base/fork.h"
#include "tessera/base/quote.h"
#include "tessera/engine/core/dependency_engine.h"
#include "tessera/engine/core/failure.h"
#include "tessera/engine/lifetime/process_life.h"
#include "tessera/engine/workers/thread_frame.h"

namespace tessera {
namespace {

constexpr int kMaxWorkers = 1024;
constexpr int64_t kDefaultMaxPending = 65536;
constexpr int64_t kMaxStallReportMs = int64_t{1} << 40;

EngineKind ResolveKind(EngineKind kind) {
  if (kind != EngineKind::kDefault) return kind;
  const std::string name = EnvironmentString("TESSERA_ENGINE_TYPE", "ThreadedEngine");
  if (name == "ThreadedEngine") return EngineKind::kThreaded;
  if (name == "NaiveEngine") return EngineKind::kNaive;
  throw InvalidArgument("environment variable TESSERA_ENGINE_TYPE=\"", Excerpt(name),
                        "\": expected ThreadedEngine or NaiveEngine");
}

/// The processes of a job that share this machine, as the launchers of Open MPI and MPICH tell each
/// of them; 1 without a launcher.
int64_t ProcessesOfJob() {
  constexpr int64_t kMost = std::numeric_limits<int>::max();
  return std::max(EnvironmentInt("OMPI_COMM_WORLD_LOCAL_SIZE", 1, 1, kMost),
                  EnvironmentInt("MPI_LOCALNRANKS", 1, 1, kMost));
}

engine_internal::ResolvedOptions Resolve(const EngineOptions& options) {
  engine_internal::ResolvedOptions resolved;
  resolved.workers = options.workers;
  if (options.workers == 0) {
    const int of_machine = ThreadsLostInFork() ? 1 : tbb::info::default_concurrency();
    const int64_t of_process = std::clamp<int64_t>(of_machine / ProcessesOfJob(), 1, kMaxWorkers);
    resolved.workers =
        static_cast<int>(EnvironmentInt("TESSERA_NUM_THREADS", of_process, 1, kMaxWorkers));
  }
  if (resolved.workers < 1 || resolved.workers > kMaxWorkers) {
    throw InvalidArgument("Engine::Create: workers is ", options.workers, "; expected 0 to ",
                          kMaxWorkers);
  }
  resolved.max_pending = options.max_pending.value_or(EnvironmentInt(
      "TESSERA_ENGINE_MAX_PENDING", kDefaultMaxPending, 0, std::numeric_limits<int64_t>::max()));
  resolved.stall_report_ms = options.stall_report_ms.value_or(
      EnvironmentInt("TESSERA_ENGINE_STALL_REPORT_MS", 0, 0, kMaxStallReportMs));
  resolved.stall_report = options.stall_report;
  if (!resolved.stall_report) {
    resolved.stall_report = [](const std::string& text) { std::fputs(text.c_str(), stderr); };
  }
  if (resolved.max_pending < 0 || resolved.stall_report_ms < 0 ||
      resolved.stall_report_ms > kMaxStallReportMs) {
    throw InvalidArgument("Engine::Create: max_pending is ", resolved.max_pending,
                          " and stall_report_ms ", resolved.stall_report_ms,
                          "; expected numbers that are not negative, the second up to ",
                          kMaxStallReportMs);
  }
  return resolved;
}

/// The default engine of this process, which is never destroyed: other singletons may give back
/// variables at any time.
struct DefaultEngine {
  std::atomic<Engine*> engine{nullptr};         // written under DefaultEngineMutex()
  engine_internal::ForkWatch* watch = nullptr;  // made with the engine; guarded by the mutex
  std::string trace_file;                       // guarded by the mutex
  bool ends_at_exit = false;                    // guarded by the mutex
};

DefaultEngine& TheDefaultEngine() {
  static auto& holder = *new DefaultEngine;
  return holder;
}

/// Returns whether the file is a device or a pipe, which is written to and not replaced.
bool IsStream(const std::string& file) {
  std::error_code ignored;
  return std::filesystem::is_other(std::filesystem::status(file, ignored));
}

/// Throws Error unless the file can be written. Whatever it holds stays.
void CheckTraceFile(const std::string& file) {
  constexpr const char* kName = "TESSERA_ENGINE_TRACE";
  constexpr const char* kExpected = "\": expected a file that can be written";
  try {
    if (!IsStream(file)) AtomicFile(file, kName);
  } catch (const Error& error) {
    throw InvalidArgument("environment variable ", kName, "=\"", file, kExpected, ": ",
                          error.what());
  }
  if (IsStream(file) && access(file.c_str(), W_OK) != 0) {
    throw InvalidArgument("environment variable ", kName, "=\"", file, kExpected);
  }
}

/// Writes the engine's trace. A failure is a line on stderr, since the program's work is done.
void WriteTrace(const std::string& file, Engine* engine) {
  try {
    const std::string trace = engine->StopTrace();
    if (IsStream(file)) {
      std::ofstream stream(file);
      if (!(stream << trace << std::flush)) throw FailedPrecondition(file, ": cannot write");
      return;
    }
    AtomicFile replaced(file, "TESSERA_ENGINE_TRACE");
    replaced.Write(trace.data(), static_cast<int64_t>(trace.size()));
    replaced.Commit();
  } catch (const std::exception& error) {
    std::fprintf(stderr, "tessera engine: no trace is written: %s\n", error.what());
  }
}

/// Nothing may run on while the objects that it uses are destroyed; of static ones this holds for
/// those that are older than the engine, which are destroyed after this call.
void EndDefaultEngine() {
  DefaultEngine& holder = TheDefaultEngine();
  Engine* const engine = holder.engine.load();
  if (engine == nullptr) return;
  if (!holder.watch->forked()) {
    try {
      static_cast<engine_internal::DependencyEngine*>(engine)->EndWithProcess();
    } catch (const Error&) {
      // Inside an operation that calls exit() there is no waiting for that operation's end.
    }
    if (!holder.trace_file.empty()) WriteTrace(holder.trace_file, engine);
  }
  if (engine_internal::ThreadFrame::Arena() == 0) return;
  // Not in one of TBB's threads, which would crash in TBB's own end without a word: in none of
  // them, also where the number that it carries is one of an engine that has ended.
  constexpr std::string_view kMessage =
      "tessera engine: an operation has called exit(); expected std::quick_exit() there, or exit() "
      "outside of operations. The process ends now, without destroying static objects.\n";
  // Not through the stream, whose lock a thread may hold for ever. If it fails there is nobody to
  // tell.
  [[maybe_unused]] const ssize_t written = write(STDERR_FILENO, kMessage.data(), kMessage.size());
  // Not all streams, and this one only if nobody is in it: who is may wait for input, or for ever.
  if (ftrylockfile(stdout) == 0) fflush_unlocked(stdout);
  _exit(EXIT_FAILURE);
}

/// Requires DefaultEngineMutex().
Engine* MakeDefaultEngine(DefaultEngine& holder) {
  std::unique_ptr<Engine> engine = Engine::Create();
  // A child's trace would overwrite its parent's.
  const bool is_child = holder.watch != nullptr;
  holder.trace_file = is_child ? "" : EnvironmentString("TESSERA_ENGINE_TRACE", "");
  if (!holder.trace_file.empty()) {
    CheckTraceFile(holder.trace_file);
    // The program may change its working folder.
    holder.trace_file = std::filesystem::absolute(holder.trace_file).string();
    engine->StartTrace();
  }
  holder.watch = new engine_internal::ForkWatch;
  if (!std::exchange(holder.ends_at_exit, true)) std::atexit(EndDefaultEngine);
  holder.engine.store(engine.get(), std::memory_order_release);
  return engine.release();
}

}  // namespace

std::unique_ptr<Engine> Engine::Create(const EngineOptions& options) {
  const engine_internal::ResolvedOptions resolved = Resolve(options);
  EngineKind kind = ResolveKind(options.kind);
  if (kind == EngineKind::kThreaded && ThreadsLostInFork()) {
    if (options.kind == EngineKind::kThreaded) {
      throw FailedPrecondition(
          "Engine::Create: this process was forked from one with several threads, which TBB would "
          "wait for; expected kNaive, kDefault, or a fork before threads are started");
    }
    kind = EngineKind::kNaive;
  }
  engine_internal::KeepCodeLoaded();
  return std::make_unique<engine_internal::DependencyEngine>(kind, resolved);
}

Engine* Engine::Get() {
  DefaultEngine& holder = TheDefaultEngine();
  // Acquire: pairs with the release where it is made.
  Engine* const engine = holder.engine.load(std::memory_order_acquire);
  if (engine != nullptr && !static_cast<engine_internal::DependencyEngine*>(engine)->forked()) {
    return engine;
  }
  std::lock_guard<std::mutex> hold(engine_internal::DefaultEngineMutex());
  Engine* const current = holder.engine.load(std::memory_order_relaxed);
  if (current != nullptr && !holder.watch->forked()) return current;
  return MakeDefaultEngine(holder);
}

std::shared_ptr<Engine> Engine::GetShared() {
  return std::shared_ptr<Engine>(Get(), [](Engine*) {});
}

std::optional<FailedOperation> Engine::LastFailure() {
  return engine_internal::LastFailureOfThread();
}

}  // namespace tessera
