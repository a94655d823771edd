#ifndef TESSERA_OPS_RNN_RECURRENT_STEPS_H_
#define TESSERA_OPS_RNN_RECURRENT_STEPS_H_

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

#include "tessera/ops/rnn/recurrent_extents.h"
#include "tessera/tensor/device/parallel.h"
#include "tessera/tensor/device/parallel_steps.h"
#include "tessera/tensor/device/scratch.h"
#include "tessera/tensor/linalg/gemm.h"

// The steps of a recurrent layer: their cut into parts for threads, and their products by weights.
namespace tessera::ops_internal {

using Scratch = tensor_internal::Scratch<cpu>;

/// Returns memory for `count` elements, which lasts as long as `scratch`.
template <typename T>
T* TakeScratch(index_t count, Scratch* scratch) {
  return static_cast<T*>(scratch->Allocate(count * static_cast<index_t>(sizeof(T))));
}

/// A matrix in memory: its first element, and the elements from one row to the next.
template <typename T>
struct StridedMatrix {
  T* data;
  index_t stride;
};

/// The samples and units of one direction that one thread computes in each step.
struct StepPart {
  index_t direction;
  index_t row, rows;
  index_t unit, units;
};

/// Calls function(row, rows, runs) for rows of a part, counted from its first one, in ascending
/// order: for all at once or, if samples have lengths, for each with whether the step is in it.
template <typename Function>
void ForRows(const StepPart& part, index_t step, const int64_t* lengths, const Function& function) {
  if (lengths == nullptr) return function(index_t{0}, part.rows, true);
  for (index_t row = 0; row < part.rows; ++row) {
    function(row, index_t{1}, step < lengths[part.row + row]);
  }
}

/// The cut of a layer's steps into parts. The bits of a result do not depend on it.
class StepCut {
 public:
  explicit StepCut(const RecurrentExtents& e)
      : e_(e),
        // Few rows are multiplied by the weights as they lie about as fast as these are packed.
        packs_(e.Rows() >= 16) {
    // Multiply-adds in a step of a direction. The functions of a gate take as long as some more.
    constexpr index_t kFunctionMultiplyAdds = 16;
    const double work = static_cast<double>(e.batch) * static_cast<double>(e.gates * e.size) *
                        static_cast<double>(e.size + kFunctionMultiplyAdds);
    // A part of 1 to 2 us is several times as long as it takes threads to meet. A call of less than
    // 50 us is over before a second thread has woken up.
    constexpr double kPartWork = 1 << 14, kCallWork = 1 << 20;
    // Parts of at least these units and samples make complete tiles of the products.
    constexpr index_t kLeastUnits = 32, kLeastRows = 8;
    const double all_work = work * static_cast<double>(e.steps * e.directions);
    const index_t threads =
        packs_ && work >= kPartWork && all_work >= kCallWork ? ParallelWidth() : 1;
    is_parallel_ = threads > 1;
    // The number of parts of a part of the step, by its work and another limit.
    const auto cut = [&](index_t threads_left, double part_work, index_t most) {
      const double by_work = std::min(part_work / kPartWork, static_cast<double>(threads_left));
      return std::max<index_t>(1, std::min(static_cast<index_t>(by_work), most));
    };
    const index_t of_direction = threads / e.directions;
    // A projection needs all units of a sample.
    unit_parts_ = e.is_projected ? 1 : cut(of_direction, work, e.size / kLeastUnits);
    const double of_units = work / static_cast<double>(unit_parts_);
    row_parts_ = cut(of_direction / unit_parts_, of_units, e.batch / kLeastRows);
  }

  /// Whether the recurrent weights are packed.
  bool packs() const { return packs_; }
  index_t unit_parts() const { return unit_parts_; }
  /// The number of rows of most parts.
  index_t Rows() const { return e_.batch / row_parts_; }
  /// The first unit of those parts that are at position `i` among the units, a multiple of 16.
  index_t FirstUnit(index_t i) const {
    return i == unit_parts_ ? e_.size : i * e_.size / unit_parts_ / 16 * 16;
  }

  /// Calls body(step, part) for each step and part; parts of a step run side by side. If the
  /// weights are not packed, a part has all units and samples of a direction, and the body may run
  /// parallel loops.
  template <typename Body>
  void Run(index_t steps, const Body& body) const {
    const index_t parts = e_.directions * row_parts_ * unit_parts_;
    const auto run = [&](index_t step, index_t part) { body(step, PartAt(part)); };
    if (is_parallel_) return ParallelSteps(steps, parts, run);
    for (index_t step = 0; step < steps; ++step) {
      for (index_t part = 0; part < parts; ++part) run(step, part);
    }
  }

 private:
  StepPart PartAt(index_t i) const {
    const index_t u = i % unit_parts_, r = i / unit_parts_ % row_parts_;
    const index_t row = r * e_.batch / row_parts_, unit = FirstUnit(u);
    return {.direction = i / unit_parts_ / row_parts_,
            .row = row,
            .rows = (r + 1) * e_.batch / row_parts_ - row,
            .unit = unit,
            .units = FirstUnit(u + 1) - unit};
  }

  const RecurrentExtents& e_;
  const bool packs_;
  bool is_parallel_;
  index_t unit_parts_, row_parts_;
};

/// Pointers for each direction.
template <typename T>
using OfDirections = std::array<T*, 2>;

/// The matrices by which the steps of a layer are multiplied: one of rows x columns for each
/// direction. The right operand is the matrix or its transpose, of which `blocks` are taken apart.
template <typename T>
struct StepWeights {
  OfDirections<const T> data;
  index_t rows, columns;
  bool is_transposed;
  index_t blocks = 1;
};

/// The products of a layer's steps by its weights. Forward, the right operand is the transpose of R
/// (G H, S), with a block of H columns for each gate, or that of V (S, H). Backward it is R or V.
template <typename T>
class StepProduct {
 public:
  StepProduct(const RecurrentExtents& e, const StepCut& cut, const StepWeights<T>& weights,
              Scratch* scratch)
      : weights_(weights),
        packing_(tensor_internal::StreamPacking(cut.Rows())),
        unit_parts_(cut.unit_parts()),
        width_(weights.is_transposed ? weights.rows / weights.blocks : weights.columns),
        depth_(weights.is_transposed ? weights.columns : weights.rows) {
    if (!cut.packs()) return;
    const index_t blocks = weights.blocks, parts = unit_parts_;
    packed_ = TakeScratch<T>(e.directions * blocks * BlockElements(), scratch);
    ParallelFor(e.directions * blocks * parts, StepsPerTask(BlockElements() / parts),
                [&](index_t begin, index_t end) {
                  for (index_t i = begin; i < end; ++i) {
                    const index_t part = i % parts, unit = cut.FirstUnit(part);
                    const index_t direction = i / parts / blocks, block = i / parts % blocks;
                    const index_t units =
                        (part + 1 == parts ? width_ : cut.FirstUnit(part + 1)) - unit;
                    tensor_internal::PackRight(By(direction, block, unit, units), packing_,
                                               Packed(direction, block, unit));
                  }
                });
  }

  /// Computes c = a B + beta c for a part's units of blocks [first, first + count), which lie side
  /// by side in c. Successive steps read the weights from either end in turns.
  void Run(index_t step, const StepPart& part, index_t first, index_t count,
           StridedMatrix<const T> a, T beta, StridedMatrix<T> c) const {
    tensor_internal::GemmArguments<T> g =
        By(part.direction, first, part.unit, unit_parts_ == 1 ? width_ : part.units);
    g.m = part.rows;
    g.a = a.data;
    g.lda = a.stride;
    g.beta = beta;
    g.c = c.data;
    g.ldc = c.stride;
    if (packed_ == nullptr) {
      g.n = count * width_;
      tensor_internal::Gemm(g);
      return;
    }
    const bool backwards = step % 2 == 1;
    for (index_t i = 0; i < count; ++i) {
      const index_t block = backwards ? count - 1 - i : i;
      g.c = c.data + block * width_;
      tensor_internal::StreamPackedRight(
          g, {Packed(part.direction, first + block, part.unit), packing_}, backwards);
    }
  }

 private:
  index_t BlockElements() const { return tensor_internal::PackedRightSize(width_, depth_); }
  /// The packed weights of the units from `unit` on, a multiple of 16.
  T* Packed(index_t direction, index_t block, index_t unit) const {
    return packed_ + (direction * weights_.blocks + block) * BlockElements() + unit * depth_;
  }
  /// The product by some units of a block, without its left operand.
  tensor_internal::GemmArguments<T> By(index_t direction, index_t block, index_t unit,
                                       index_t units) const {
    const index_t first =
        weights_.is_transposed ? (block * width_ + unit) * weights_.columns : unit;
    return {.transpose_a = false,
            .transpose_b = weights_.is_transposed,
            .m = 0,
            .n = units,
            .k = depth_,
            .alpha = T(1),
            .a = nullptr,
            .lda = depth_,
            .b = weights_.data[static_cast<size_t>(direction)] + first,
            .ldb = weights_.columns,
            .beta = T(0),
            .c = nullptr,
            .ldc = width_};
  }

  const StepWeights<T> weights_;
  const int packing_;         // how the weights are packed: StreamPacking
  const index_t unit_parts_;  // the number of parts among the columns
  const index_t width_;       // the number of columns of a block
  const index_t depth_;       // the number of rows of the right operand
  T* packed_ = nullptr;       // or null if it is not
};

}  // namespace tessera::ops_internal

#endif  // TESSERA_OPS_RNN_RECURRENT_STEPS_H_
