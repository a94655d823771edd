#include "tessera/ops/optimizer/step.h"

#include <algorithm>
#include <utility>

#include "tessera/base/error.h"
#include "tessera/ops/loops/typed_row.h"
#include "tessera/tensor/device/parallel.h"

namespace tessera::ops_internal {
namespace {

// Elements that are converted at a time; all arrays' blocks together fit the L1 cache.
constexpr index_t kBlock = 512;

/// Returns the sum of squares in an order that no instruction set changes.
template <typename T>
double SumOfSquares(const T* row, index_t n) {
  constexpr index_t kLanes = 8;  // sums that do not wait for each other
  double lanes[kLanes] = {};
  index_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    for (index_t k = 0; k < kLanes; ++k) {
      const auto x = static_cast<double>(row[i + k]);
      lanes[k] += x * x;
    }
  }
  for (index_t k = 0; i + k < n; ++k) {
    const auto x = static_cast<double>(row[i + k]);
    lanes[k] += x * x;
  }
  for (index_t step = kLanes / 2; step > 0; step /= 2) {
    for (index_t k = 0; k < step; ++k) lanes[k] += lanes[k + step];
  }
  return lanes[0];
}

/// The blocks of several weights, numbered in a row.
class BlockNumbers {
 public:
  void Add(index_t size) {
    count_ += (size + kBlock - 1) / kBlock;
    ends_.push_back(count_);
  }
  index_t count() const { return count_; }
  /// Returns the number of weight i's first block.
  index_t First(size_t i) const { return i == 0 ? 0 : ends_[i - 1]; }

  /// Calls visit(i, first, last) for the blocks [begin, end): weight i's own blocks [first, last).
  template <typename Visit>
  void ForEach(index_t begin, index_t end, const Visit& visit) const {
    while (begin < end) {
      const auto after = std::upper_bound(ends_.begin(), ends_.end(), begin);
      const auto i = static_cast<size_t>(after - ends_.begin());
      const index_t last = std::min(end, *after);
      visit(i, begin - First(i), last - First(i));
      begin = last;
    }
  }

 private:
  index_t count_ = 0;
  std::vector<index_t> ends_;  // the first number behind each weight
};

/// Takes steps on one thread.
template <typename T>
class StepLoop {
 public:
  explicit StepLoop(const StepFunction<T>& function) : function_(function) {}

  /// Computes the step of at most kBlock elements and writes nothing. Returns sums of squares.
  StepSquares Measure(const StepArguments& arguments, const void* step, index_t begin, index_t n) {
    const T* const weight = Reader(arguments.weight).Read(begin, n, weight_);
    const T* const grad = Reader(arguments.grad).Read(begin, n, grad_);
    T* states[kMaxStepStates + 1];
    for (size_t k = 0; k < NumStates(); ++k) {
      states[k] = states_[k];
      Reader(arguments.states[k]).Copy(begin, n, states[k]);
    }
    function_.row(step, weight, grad, states, out_, n);
    return {.weight = SumOfSquares(weight, n), .out = SumOfSquares(out_, n)};
  }

  /// Takes the step of elements [begin, end).
  void Run(const StepArguments& arguments, const void* step, index_t begin, index_t end) {
    const index_t block = NeedsNoBlocks(arguments) ? end - begin : kBlock;
    for (index_t i = begin; i < end; i += block) {
      RunBlock(arguments, step, i, std::min(block, end - i));
    }
  }

 private:
  static RowReader<T> Reader(const StepArray& array) { return {array.data, array.dtype}; }
  static RowWriter<T> Writer(const StepArray& array, OpReqType req) {
    return {array.data, array.dtype, req};
  }
  static RowWriter<T> StateWriter(const StepArguments& arguments, size_t k) {
    return Writer(arguments.states[k], arguments.keeps[k] ? kWriteInplace : kNullOp);
  }

  bool NeedsNoBlocks(const StepArguments& arguments) const {
    bool direct =
        Reader(arguments.grad).is_direct() && Writer(arguments.out, arguments.req).is_direct();
    if (function_.reads_weight) direct = direct && Reader(arguments.weight).is_direct();
    for (size_t k = 0; k < NumStates(); ++k) {
      direct = direct && StateWriter(arguments, k).is_direct();
    }
    return direct;
  }

  void RunBlock(const StepArguments& arguments, const void* step, index_t begin, index_t n) {
    const T* const grad = Reader(arguments.grad).Read(begin, n, grad_);
    const T* const weight =
        function_.reads_weight ? Reader(arguments.weight).Read(begin, n, weight_) : grad;
    T* states[kMaxStepStates + 1];
    for (size_t k = 0; k < NumStates(); ++k) {
      states[k] = StateWriter(arguments, k).Out(begin, states_[k]);
      if (states[k] == states_[k]) Reader(arguments.states[k]).Copy(begin, n, states[k]);
    }
    const RowWriter<T> writer = Writer(arguments.out, arguments.req);
    T* const out = writer.Out(begin, out_);
    function_.row(step, weight, grad, states, out, n);
    for (size_t k = 0; k < NumStates(); ++k) {
      StateWriter(arguments, k).Write(begin, n, states[k]);
    }
    writer.Write(begin, n, out);
  }

  size_t NumStates() const { return static_cast<size_t>(function_.num_states); }

  const StepFunction<T>& function_;
  T weight_[kBlock], grad_[kBlock], states_[kMaxStepStates][kBlock], out_[kBlock];
};

}  // namespace

template <typename T>
void RunStepsOnCpu(const StepFunction<T>& function, const void* steps, size_t step_bytes,
                   std::span<const StepArguments> arguments) {
  const auto step_at = [&](size_t i) { return static_cast<const char*>(steps) + i * step_bytes; };
  const index_t grain = StepsPerTask(kBlock, function.cost);
  if (arguments.size() == 1) {
    const StepArguments& only = arguments[0];
    if (only.IsNothing()) return;
    ParallelFor((only.size + kBlock - 1) / kBlock, grain, [&](index_t begin, index_t end) {
      StepLoop<T>(function).Run(only, steps, begin * kBlock, std::min(only.size, end * kBlock));
    });
    return;
  }
  BlockNumbers blocks;
  for (const StepArguments& each : arguments) blocks.Add(each.IsNothing() ? 0 : each.size);
  ParallelFor(blocks.count(), grain, [&](index_t begin, index_t end) {
    StepLoop<T> loop(function);
    blocks.ForEach(begin, end, [&](size_t i, index_t first, index_t last) {
      loop.Run(arguments[i], step_at(i), first * kBlock,
               std::min(arguments[i].size, last * kBlock));
    });
  });
}

template <typename T>
std::vector<StepSquares> MeasureStepsOnCpu(const StepFunction<T>& function, const void* steps,
                                           size_t step_bytes,
                                           std::span<const StepArguments> arguments) {
  BlockNumbers blocks;
  for (const StepArguments& each : arguments) blocks.Add(each.size);
  std::vector<StepSquares> of_blocks(static_cast<size_t>(blocks.count()));
  const index_t grain = StepsPerTask(kBlock, function.cost);
  ParallelFor(blocks.count(), grain, [&](index_t begin, index_t end) {
    StepLoop<T> loop(function);
    blocks.ForEach(begin, end, [&](size_t i, index_t first, index_t last) {
      const void* const step = static_cast<const char*>(steps) + i * step_bytes;
      for (index_t block = first; block < last; ++block) {
        of_blocks[static_cast<size_t>(blocks.First(i) + block)] =
            loop.Measure(arguments[i], step, block * kBlock,
                         std::min(kBlock, arguments[i].size - block * kBlock));
      }
    });
  });
  std::vector<StepSquares> squares(arguments.size());
  for (size_t i = 0; i < squares.size(); ++i) {
    for (index_t block = blocks.First(i); block < blocks.First(i + 1); ++block) {
      squares[i].weight += of_blocks[static_cast<size_t>(block)].weight;
      squares[i].out += of_blocks[static_cast<size_t>(block)].out;
    }
  }
  return squares;
}

template void RunStepsOnCpu(const StepFunction<float>&, const void*, size_t,
                            std::span<const StepArguments>);
template void RunStepsOnCpu(const StepFunction<double>&, const void*, size_t,
                            std::span<const StepArguments>);
template std::vector<StepSquares> MeasureStepsOnCpu(const StepFunction<float>&, const void*, size_t,
                                                    std::span<const StepArguments>);
template std::vector<StepSquares> MeasureStepsOnCpu(const StepFunction<double>&, const void*,
                                                    size_t, std::span<const StepArguments>);

void MeetType(const OperatorProperty& property, std::string_view what, DType* dtype, DType known) {
  if (*dtype == DType::kUnknown) *dtype = known;
  if (known != DType::kUnknown && *dtype != known) {
    throw InvalidArgument(property.TypeString(), ": ", what, " has element type ", *dtype,
                          ", expected ", known);
  }
}

bool InferStepShape(const OperatorProperty& property, const std::vector<std::string>& names,
                    int first, int count, std::vector<TShape>* in_shape, TShape* out) {
  TShape common = *out;
  const auto begin = static_cast<size_t>(first), end = begin + static_cast<size_t>(count);
  for (size_t i = begin; i < end; ++i) {
    MergeShape(property, names[i], &(*in_shape)[i], common);
    common = (*in_shape)[i];
  }
  std::fill_n(in_shape->begin() + first, count, common);
  *out = common;
  return common.known();
}

bool InferMasterStepTypes(const OperatorProperty& property, const std::vector<std::string>& names,
                          int first, int count, std::vector<DType>* in_type, DType* out) {
  const auto begin = static_cast<size_t>(first);
  DType& weight = (*in_type)[begin];
  DType& grad = (*in_type)[begin + 1];
  MeetType(property, names[begin + 1], &grad, weight);
  MeetType(property, "output", out, grad);
  weight = grad = *out;
  for (size_t i = begin + 2; i < begin + static_cast<size_t>(count); ++i) {
    MeetType(property, names[i], &(*in_type)[i], DType::kFloat32);
  }
  return weight != DType::kUnknown;
}

}  // namespace tessera::ops_internal
