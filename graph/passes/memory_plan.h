#ifndef TESSERA_GRAPH_PASSES_MEMORY_PLAN_H_
#define TESSERA_GRAPH_PASSES_MEMORY_PLAN_H_

#include <cstdint>
#include <vector>

#include "tessera/graph/program.h"

namespace tessera::graph {

/// The values that may use the same bytes, one after another.
enum class MemorySharing {
  kAll,  ///< all values: the gradient overwrites results of the forward steps
  /// All values. Those that forward steps write lie as with kWithinDirection; the others lie in
  /// bytes that these no longer use, or else in arenas of their own.
  kForwardFirst,
  kWithinDirection,  ///< forward values among each other, and gradient values likewise
  kNone,             ///< no values, and no step works in place
};

/// The bytes of each intermediate value: a range of an arena.
///
/// Each value has an engine variable. A step declares those of the values that it reads and writes.
/// The first step that writes a value also declares the variables of `previous`. These suffice to
/// order all steps whose bytes overlap, also between runs that follow each other, if every run is
/// that of all forward steps, then possibly of all others.
struct MemoryPlan {
  /// A block of memory on one device.
  struct Arena {
    int device = 0;  ///< the position in Program::devices
    /// Whether it is for values of gradient steps alone (kForwardFirst, kWithinDirection).
    bool backward = false;
    int64_t size_bytes = 0;  ///< at least the end of every value
  };
  static constexpr int64_t kAlignment = 64;  ///< of all offsets, in bytes

  std::vector<Arena> arenas;          ///< by number
  std::vector<int> value_arena;       ///< for each value; kNoValue for values in arrays
  std::vector<int64_t> value_offset;  ///< for each value, in bytes
  /// For each value, the values that use some of its bytes directly before it, in this run or in
  /// the one before.
  std::vector<std::vector<int>> previous;
  int inplace = 0;              ///< values written over an input
  int64_t unplanned_bytes = 0;  ///< the size with separate memory for each value
  /// The largest sum of the values that are in use at one step, those written over each other being
  /// one, for each device. No plan with the same values in place is smaller (see LivenessBound).
  int64_t liveness_bytes = 0;

  /// Returns the size of all arenas.
  int64_t SizeBytes() const;
};

/// Plans by liveness. A value is written over an input that dies in the same step if the operator
/// allows it; the step then gets the request kWriteInplace. Values that are written over each other
/// are one buffer, and PlaceBuffers finds the offsets of the buffers of each arena. Requests
/// kWriteInplace of outputs that the program has from an earlier plan are forgotten.
///
/// Takes time n log n in the size of the program, and n² in the number of buffers up to 4,096.
MemoryPlan PlanMemory(Program* program, MemorySharing sharing = MemorySharing::kAll);

}  // namespace tessera::graph

#endif  // TESSERA_GRAPH_PASSES_MEMORY_PLAN_H_
