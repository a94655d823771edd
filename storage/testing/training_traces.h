#ifndef TESSERA_STORAGE_TESTING_TRAINING_TRACES_H_
#define TESSERA_STORAGE_TESTING_TRAINING_TRACES_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace tessera {

/// The allocations and frees of training a network, recorded by traces/record_traces.py.
struct TrainingTrace {
  const char* name;
  std::span<const int32_t> setup;  ///< allocates the blocks that live through all steps
  std::span<const int32_t> step;   ///< frees all its own blocks
};

/// Returns the traces of a perceptron, a convolutional network and a recurrent one.
std::span<const TrainingTrace> TrainingTraces();

/// Replays a list of events. A positive number allocates that many bytes, and -k frees the block of
/// the k-th positive number. Only the constructor allocates memory of its own.
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

  /// The blocks that Run allocated, freed or not, in the order of allocation.
  std::span<const Block> blocks() const { return blocks_; }

 private:
  const std::span<const int32_t> events_;
  std::vector<Block> blocks_;
};

}  // namespace tessera

#endif  // TESSERA_STORAGE_TESTING_TRAINING_TRACES_H_
