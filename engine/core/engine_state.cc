#include "tessera/engine/core/engine_state.h"

#include <utility>

namespace tessera::engine_internal {
namespace {

uint64_t NextEngineId() {
  static std::atomic<uint64_t> next{1};
  return next.fetch_add(1, std::memory_order_relaxed);
}

}  // namespace

EngineState::EngineState(Engine* its_engine, const ResolvedOptions& options,
                         std::function<std::string()> describe)
    : engine(its_engine),
      id(NextEngineId()),
      trace(id),
      stall(options.stall_report_ms, options.stall_report, std::move(describe)),
      progress(options.max_pending, fork_watch, stall, [this] { return scheduler->stopped(); }) {}

}  // namespace tessera::engine_internal
