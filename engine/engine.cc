#include "tessera/engine/engine.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <memory>

#include "tbb/info.h"
#include "tessera/base/environment.h"
#include "tessera/base/error.h"
#include "tessera/engine/internal/dependency_engine.h"
#include "tessera/engine/internal/failure.h"
#include "tessera/engine/internal/naive_engine.h"
#include "tessera/engine/internal/threaded_engine.h"

namespace tessera {
namespace {

constexpr int kMaxWorkers = 1024;
constexpr int64_t kDefaultMaxPending = 65536;

EngineKind ResolveKind(EngineKind kind) {
  if (kind != EngineKind::kDefault) return kind;
  const std::string name = EnvironmentString("TESSERA_ENGINE_TYPE", "ThreadedEngine");
  if (name == "ThreadedEngine") return EngineKind::kThreaded;
  if (name == "NaiveEngine") return EngineKind::kNaive;
  throw InvalidArgument("environment variable TESSERA_ENGINE_TYPE=\"", name,
                        "\": expected ThreadedEngine or NaiveEngine");
}

engine_internal::ResolvedOptions Resolve(const EngineOptions& options) {
  engine_internal::ResolvedOptions resolved;
  resolved.workers = options.workers;
  if (options.workers == 0) {
    resolved.workers = static_cast<int>(
        EnvironmentInt("TESSERA_NUM_THREADS",
                       std::min(tbb::info::default_concurrency(), kMaxWorkers), 1, kMaxWorkers));
  }
  if (resolved.workers < 1 || resolved.workers > kMaxWorkers) {
    throw InvalidArgument("Engine::Create: workers is ", options.workers, "; expected 0 to ",
                          kMaxWorkers);
  }
  resolved.max_pending = options.max_pending.value_or(EnvironmentInt(
      "TESSERA_ENGINE_MAX_PENDING", kDefaultMaxPending, 0, std::numeric_limits<int64_t>::max()));
  resolved.stall_report_ms = options.stall_report_ms.value_or(
      EnvironmentInt("TESSERA_ENGINE_STALL_REPORT_MS", 0, 0, int64_t{1} << 40));
  resolved.stall_report = options.stall_report;
  if (!resolved.stall_report) {
    resolved.stall_report = [](const std::string& text) { std::fputs(text.c_str(), stderr); };
  }
  if (resolved.max_pending < 0 || resolved.stall_report_ms < 0) {
    throw InvalidArgument("Engine::Create: max_pending is ", resolved.max_pending,
                          " and stall_report_ms ", resolved.stall_report_ms,
                          "; expected numbers that are not negative");
  }
  return resolved;
}

/// The default engine, never destroyed: other singletons may give back variables at any time.
Engine* MakeDefaultEngine() {
  Engine* engine = Engine::Create().release();
  std::atexit([] {
    // Nothing may run on while the objects that it uses are destroyed. Inside an operation that
    // calls exit() there is no waiting for that operation's end.
    try {
      Engine::Get()->Stop();
    } catch (const Error&) {
    }
  });
  return engine;
}

}  // namespace

std::unique_ptr<Engine> Engine::Create(const EngineOptions& options) {
  const engine_internal::ResolvedOptions resolved = Resolve(options);
  return ResolveKind(options.kind) == EngineKind::kNaive
             ? engine_internal::MakeNaiveEngine(resolved)
             : engine_internal::MakeThreadedEngine(resolved);
}

Engine* Engine::Get() {
  static Engine* const engine = MakeDefaultEngine();
  return engine;
}

std::shared_ptr<Engine> Engine::GetShared() {
  static const std::shared_ptr<Engine>& engine =
      *new std::shared_ptr<Engine>(Get(), [](Engine*) {});
  return engine;
}

std::optional<FailedOperation> Engine::LastFailure() {
  return engine_internal::LastFailureOfThread();
}

}  // namespace tessera
