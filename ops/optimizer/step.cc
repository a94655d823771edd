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

/// Takes steps on one thread.
template <typename T>
class StepLoop {
 public:
  explicit StepLoop(const StepFunction<T>& function) : function_(function) {}

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

bool StepArguments::IsNothing() const {
  return size == 0 ||
         (req == kNullOp && std::none_of(keeps.begin(), keeps.end(), [](bool b) { return b; }));
}

StepArguments MakeStepArguments(std::span<const TBlob> in_data, OpReqType out_req, const TBlob& out,
                                std::span<const OpReqType> state_req, int num_states) {
  const auto array = [](const TBlob& blob) { return StepArray{blob.dptr_, blob.type_flag_}; };
  StepArguments arguments;
  arguments.size = in_data[0].Size();
  arguments.weight = array(in_data[0]);
  arguments.grad = array(in_data[1]);
  for (size_t k = 0; k < static_cast<size_t>(num_states); ++k) {
    arguments.states[k] = array(in_data[2 + k]);
    arguments.keeps[k] = state_req[k] != kNullOp;
  }
  if (out_req != kNullOp) arguments.out = array(out);
  arguments.req = out_req;
  return arguments;
}

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
  // The blocks of all weights are numbered in a row; ends[i] is the first number behind weight i.
  std::vector<index_t> ends;
  index_t count = 0;
  for (const StepArguments& each : arguments) {
    if (!each.IsNothing()) count += (each.size + kBlock - 1) / kBlock;
    ends.push_back(count);
  }
  ParallelFor(count, grain, [&](index_t begin, index_t end) {
    StepLoop<T> loop(function);
    while (begin < end) {
      const auto after = std::upper_bound(ends.begin(), ends.end(), begin);
      const auto i = static_cast<size_t>(after - ends.begin());
      const index_t first = i == 0 ? 0 : ends[i - 1];
      const index_t last = std::min(end, *after);
      loop.Run(arguments[i], step_at(i), (begin - first) * kBlock,
               std::min(arguments[i].size, (last - first) * kBlock));
      begin = last;
    }
  });
}

template void RunStepsOnCpu(const StepFunction<float>&, const void*, size_t,
                            std::span<const StepArguments>);
template void RunStepsOnCpu(const StepFunction<double>&, const void*, size_t,
                            std::span<const StepArguments>);

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
  const auto meet = [&](const std::string& what, DType* dtype, DType known) {
    if (*dtype != DType::kUnknown && known != DType::kUnknown && *dtype != known) {
      throw InvalidArgument(property.TypeString(), ": ", what, " has element type ", *dtype,
                            ", expected ", known);
    }
    if (*dtype == DType::kUnknown) *dtype = known;
  };
  const auto begin = static_cast<size_t>(first);
  DType& weight = (*in_type)[begin];
  DType& grad = (*in_type)[begin + 1];
  meet(names[begin + 1], &grad, weight);
  meet("output", out, grad);
  weight = grad = *out;
  for (size_t i = begin + 2; i < begin + static_cast<size_t>(count); ++i) {
    meet(names[i], &(*in_type)[i], DType::kFloat32);
  }
  return weight != DType::kUnknown;
}

}  // namespace tessera::ops_internal
