#ifndef TESSERA_OPS_WINDOWS_WORKSPACE_SLOTS_H_
#define TESSERA_OPS_WINDOWS_WORKSPACE_SLOTS_H_

#include <algorithm>

#include "tessera/base/shape.h"
#include "tessera/ops/loops/row_loop.h"
#include "tessera/ops/windows/convolution_loops.h"
#include "tessera/tensor/device/parallel.h"

namespace tessera::ops_internal {

/// Arrays of A in one workspace, each beginning at a cache line.
template <typename A>
class WorkspaceArrays {
 public:
  index_t Reserve(index_t size) {
    const index_t offset = size_;
    size_ += (size + 63) / 64 * 64;
    return offset;
  }
  /// Takes the memory and returns true, or only tells how much it must be and returns false.
  bool Allocate(ConvolutionMemory* memory) {
    const index_t size_bytes = size_ * static_cast<index_t>(sizeof(A));
    if (memory->measures) {
      memory->size_bytes = std::max(memory->size_bytes, size_bytes);
      return false;
    }
    base_ = static_cast<A*>(memory->data);
    return true;
  }
  A* At(index_t offset) const { return base_ + offset; }

 private:
  index_t size_ = 0;
  A* base_ = nullptr;
};

/// Distributes independent tasks over slots, each with scratch memory of its own, so that as many
/// run in parallel as is worth it.
struct Slots {
  /// `work` is the number of multiplications in a task, `width` the number of threads.
  Slots(index_t tasks_in_all, index_t work, index_t width) : tasks(tasks_in_all) {
    const index_t grain = StepsPerTask(work / 8);
    count = width == 1 ? 1 : std::clamp<index_t>(tasks / grain, 1, 4 * width);
  }
  /// Leaves so few slots that their scratch memory stays within 512 MiB, if one slot's does.
  void Limit(index_t bytes_of_a_slot) {
    constexpr index_t kBytes = index_t{512} << 20;
    count = std::clamp<index_t>(kBytes / std::max<index_t>(1, bytes_of_a_slot), 1, count);
  }
  /// Calls body(slot, task) for each task.
  template <typename Body>
  void Run(const Body& body) const {
    ParallelFor(count, 1, [&](index_t begin, index_t end) {
      for (index_t slot = begin; slot < end; ++slot) {
        for (index_t t = slot * tasks / count; t < (slot + 1) * tasks / count; ++t) body(slot, t);
      }
    });
  }

  index_t tasks;
  index_t count;
};

}  // namespace tessera::ops_internal

#endif  // TESSERA_OPS_WINDOWS_WORKSPACE_SLOTS_H_
