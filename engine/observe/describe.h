#ifndef TESSERA_ENGINE_OBSERVE_DESCRIBE_H_
#define TESSERA_ENGINE_OBSERVE_DESCRIBE_H_

#include <string>

#include "tessera/engine/core/execution.h"

namespace tessera::engine_internal {

struct EngineState;

/// Returns the text of Engine::DebugString.
std::string DescribeEngine(const EngineState& state);

/// Describes what a wait for the variable waits for: its queue and, where the holder has yet to get
/// its turn on another variable, that one's queue, and so on. Each is seen at another time.
std::string DescribeAwaited(DependencyVariable* variable);

}  // namespace tessera::engine_internal

#endif  // TESSERA_ENGINE_OBSERVE_DESCRIBE_H_
