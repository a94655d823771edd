#ifndef TESSERA_ENGINE_INTERNAL_THREADED_ENGINE_H_
#define TESSERA_ENGINE_INTERNAL_THREADED_ENGINE_H_

#include <memory>

#include "tessera/engine/internal/dependency_engine.h"

namespace tessera::engine_internal {

/// Runs operations on the threads of a TBB arena of its own, at most options.workers at a time.
std::unique_ptr<Engine> MakeThreadedEngine(const ResolvedOptions& options);

}  // namespace tessera::engine_internal

#endif  // TESSERA_ENGINE_INTERNAL_THREADED_ENGINE_H_
