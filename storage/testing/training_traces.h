#ifndef TESSERA_STORAGE_TESTING_TRAINING_TRACES_H_
#define TESSERA_STORAGE_TESTING_TRAINING_TRACES_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace tessera {

/// What training a network asks of an allocator; see traces/record_traces.py.
struct TrainingTrace {
  const char* name;
  std::span<const int32_t> setup;  ///< lives through all steps
  std::span<const int32_t> step;   ///< frees all that it allocates
};

/// A perceptron, a convolutional network and a recurrent one.
std::span<const TrainingTrace> TrainingTraces();

/// Replays lists of events: a positive number allocates so many bytes, -k frees what the k-th
/// positive number allocated. Allocates nothing itself once it has been made.
template <typename Block>
class TraceReplay {
 public:
  explicit TraceReplay(std::span<const int32_t> events) : events_(events), blocks_(events.size()) {}

  /// Calls `alloc(size_bytes)`, which returns a Block, and `free(block)`.
  template <typename Alloc, typename Free>
  void Run(const Alloc& alloc, const Free& free) {
    size_t next = 0;
    for (const int32_t event : events_) {
      if (event > 0) {
        blocks_[next++] = alloc(event);
      } else {
        free(blocks_[static_cast<size_t>(-event) - 1]);
      }
    }
  }

  /// Everything that Run allocated, freed or not, in the order of allocation.
  std::span<const Block> blocks() const { return blocks_; }

 private:
  const std::span<const int32_t> events_;
  std::vector<Block> blocks_;
};

}  // namespace tessera

#endif  // TESSERA_STORAGE_TESTING_TRAINING_TRACES_H_
