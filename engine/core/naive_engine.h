#ifndef TESSERA_ENGINE_CORE_NAIVE_ENGINE_H_
#define TESSERA_ENGINE_CORE_NAIVE_ENGINE_H_

#include <functional>
#include <memory>

#include "tessera/engine/core/dependency_engine.h"

namespace tessera::engine_internal {

/// Has no threads: an operation runs inside the push that makes it ready. Only what must wait for
/// an asynchronous operation, for one that another thread runs, or for the operation that pushes
/// it, runs later: in the thread that completes that one. Where a completion makes several ready,
/// all but the first stand in a queue meanwhile, which threads come to that wait in operations, or
/// are through with their outermost one.
std::unique_ptr<Engine> MakeNaiveEngine(const ResolvedOptions& options);

}  // namespace tessera::engine_internal

#endif  // TESSERA_ENGINE_CORE_NAIVE_ENGINE_H_
