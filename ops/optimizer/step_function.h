#ifndef TESSERA_OPS_OPTIMIZER_STEP_FUNCTION_H_
#define TESSERA_OPS_OPTIMIZER_STEP_FUNCTION_H_

#include <array>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tessera/base/device.h"
#include "tessera/base/host_device.h"
#include "tessera/ops/optimizer/step.h"
#include "tessera/ops/optimizer/update.h"
#include "tessera/ops/typed_operator.h"
#include "tessera/tensor/device/runs_avx2.h"
#if defined(TESSERA_XPU_GPU)
#include "tessera/ops/loops/map_gpu.h"
#endif

namespace tessera::ops_internal {
inline namespace TESSERA_ISA_NAMESPACE {

/// The functors of steps are class templates Step<T> with
/// - Rule: the numbers that Step<T>(const Rule&) reads, see update.h,
/// - Parameters: those of the registered operator, a Rule with a schema; if it is registered,
/// - kStates: the names of the states as a std::array of const char*,
/// - kCost: the cost of an element, beyond plain arithmetic,
/// - T operator()(T weight, T grad, T* state) const, marked TESSERA_HD: returns the new weight and
///   changes the states.

/// A gradient's element times `factor`, limited to [-bound, bound]. NaN remains NaN.
template <typename T>
struct ClippedGradient {
  T factor, bound;

  /// Takes a bound that is not used if it is negative.
  ClippedGradient(float rescale_grad, float clip_gradient)
      : factor(static_cast<T>(rescale_grad)),
        bound(clip_gradient >= 0 ? static_cast<T>(clip_gradient)
                                 : std::numeric_limits<T>::infinity()) {}

  TESSERA_HD T operator()(T grad) const { return Clip(factor * grad); }
  TESSERA_HD T Clip(T g) const { return g > bound ? bound : g < -bound ? -bound : g; }
};

/// Returns factor * x, which is 0 for a factor 0 even if x is NaN: a state that counts for nothing
/// need not have been written.
template <typename T>
TESSERA_HD T Scaled(T factor, T x) {
  const T product = factor * x;
  return factor == T(0) ? T(0) : product;
}

/// The step of a weight whose master copy in float is the last state.
template <typename Step>
struct MasterStep {
  Step step;

  static constexpr index_t kCost = Step::kCost;
  static constexpr int kNumStates = static_cast<int>(Step::kStates.size()) + 1;
  static constexpr bool kReadsWeight = false;
  TESSERA_HD float operator()(float, float grad, float* state) const {
    float& weight = state[kNumStates - 1];
    return weight = step(weight, grad, state);
  }
};

/// The step of a weight without a master copy.
template <typename T, typename Step>
struct PlainStep {
  Step step;

  static constexpr index_t kCost = Step::kCost;
  static constexpr int kNumStates = static_cast<int>(Step::kStates.size());
  static constexpr bool kReadsWeight = true;
  TESSERA_HD T operator()(T weight, T grad, T* state) const { return step(weight, grad, state); }
};

#if defined(TESSERA_XPU_GPU)

template <typename Step, typename T>
__global__ void StepKernel(const Step step, const StepArguments arguments) {
  const index_t stride = static_cast<index_t>(gridDim.x) * blockDim.x;
  for (index_t i = static_cast<index_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < arguments.size;
       i += stride) {
    T state[Step::kNumStates + 1];
    for (int k = 0; k < Step::kNumStates; ++k) {
      state[k] = LoadElement<T>(arguments.states[k].data, arguments.states[k].dtype, i);
    }
    const T grad = LoadElement<T>(arguments.grad.data, arguments.grad.dtype, i);
    const T weight = Step::kReadsWeight
                         ? LoadElement<T>(arguments.weight.data, arguments.weight.dtype, i)
                         : T(0);
    const T next = step(weight, grad, state);
    for (int k = 0; k < Step::kNumStates; ++k) {
      if (!arguments.keeps[k]) continue;
      StoreElement(state[k], /*add=*/false, arguments.states[k].dtype, arguments.states[k].data, i);
    }
    if (arguments.req == kNullOp) continue;
    StoreElement(next, arguments.req == kAddTo, arguments.out.dtype, arguments.out.data, i);
  }
}

#else

/// Takes the step for a row of elements, in a loop of which the compiler makes vectors.
template <typename Step, typename T, size_t... k>
__attribute__((always_inline)) inline void RunStepLoop(const Step step, const T* weight,
                                                       const T* grad, T* const* states, T* out,
                                                       index_t n, std::index_sequence<k...>) {
  T* const rows[] = {states[k]..., nullptr};
#pragma GCC ivdep
  for (index_t i = 0; i < n; ++i) {
    T state[] = {rows[k][i]..., T(0)};
    const T next = step(weight[i], grad[i], state);
    ((rows[k][i] = state[k]), ...);
    out[i] = next;
  }
}

/// RunStepLoop for machines with AVX2. Its arithmetic has no fused multiply-add, so the bits are
/// the same.
template <typename Step, typename T>
TESSERA_AVX2_LOOP void RunStepAvx2(const Step& step, const T* weight, const T* grad,
                                   T* const* states, T* out, index_t n) {
  RunStepLoop(step, weight, grad, states, out, n, std::make_index_sequence<Step::kNumStates>());
}

/// A StepRow of a functor.
template <typename Step, typename T>
void RunStepRow(const void* step, const T* weight, const T* grad, T* const* states, T* out,
                index_t n) {
  const Step& typed = *static_cast<const Step*>(step);
  if (tensor_internal::RunsAvx2()) {
    RunStepAvx2(typed, weight, grad, states, out, n);
  } else {
    RunStepLoop(typed, weight, grad, states, out, n, std::make_index_sequence<Step::kNumStates>());
  }
}

#endif  // TESSERA_XPU_GPU

#if !defined(TESSERA_XPU_GPU)

/// A functor as the driver calls it.
template <typename T, typename Step>
inline constexpr StepFunction<T> kStepFunction = {.row = &RunStepRow<Step, T>,
                                                  .num_states = Step::kNumStates,
                                                  .reads_weight = Step::kReadsWeight,
                                                  .cost = Step::kCost};

#endif

/// Takes a step for each of several weights: steps[i] with arguments[i].
template <typename T, typename Step>
void RunSteps(std::span<const Step> steps, std::span<const StepArguments> arguments,
              [[maybe_unused]] const OpContext& context) {
  static_assert(Step::kNumStates <= kMaxStepStates);
#if defined(TESSERA_XPU_GPU)
  const auto stream = Stream<gpu>::GetStream(context.get_stream<gpu>());
  for (size_t i = 0; i < steps.size(); ++i) {
    if (arguments[i].IsNothing()) continue;
    const auto [blocks, threads] = tensor_internal::LaunchShapeFor(arguments[i].size);
    StepKernel<Step, T><<<blocks, threads, 0, stream>>>(steps[i], arguments[i]);
    tensor_internal::CheckCuda(cudaGetLastError(), "optimizer step");
  }
#else
  RunStepsOnCpu(kStepFunction<T, Step>, steps.data(), sizeof(Step), arguments);
#endif
}

/// Calls run(tag, steps) with the functors of all weights and a tag T() of the type in which steps
/// are taken: double for float64, float for others and for master copies. make_step(tag, i) returns
/// weight i's functor, a Step<T>.
template <template <typename> class Step, bool kMaster, typename MakeStep, typename Run>
void VisitSteps(std::span<const StepArguments> arguments, const MakeStep& make_step,
                const Run& run) {
  const auto visit = [&]<typename T, typename Functor>(T tag, const Functor*) {
    if (arguments.size() == 1) {
      const Functor step = {make_step(tag, size_t{0})};
      return run(tag, std::span<const Functor>(&step, 1));
    }
    std::vector<Functor> steps;
    steps.reserve(arguments.size());
    for (size_t i = 0; i < arguments.size(); ++i) steps.push_back({make_step(tag, i)});
    run(tag, std::span<const Functor>(steps));
  };
  if constexpr (kMaster) {
    visit(float(), static_cast<MasterStep<Step<float>>*>(nullptr));
  } else if (arguments[0].weight.dtype == DType::kFloat64) {
    visit(double(), static_cast<PlainStep<double, Step<double>>*>(nullptr));
  } else {
    visit(float(), static_cast<PlainStep<float, Step<float>>*>(nullptr));
  }
}

/// Takes the steps that make_step describes; see VisitSteps.
template <template <typename> class Step, bool kMaster, typename MakeStep>
void RunStepsOfTypes(std::span<const StepArguments> arguments, const MakeStep& make_step,
                     const OpContext& context) {
  VisitSteps<Step, kMaster>(arguments, make_step,
                            [&]<typename T, typename Functor>(T, std::span<const Functor> steps) {
                              RunSteps<T>(steps, arguments, context);
                            });
}

#if !defined(TESSERA_XPU_GPU)

/// Measures the steps that make_step describes; see VisitSteps and MeasureStepsOnCpu.
template <template <typename> class Step, bool kMaster, typename MakeStep>
std::vector<StepSquares> MeasureSteps(std::span<const StepArguments> arguments,
                                      const MakeStep& make_step) {
  std::vector<StepSquares> squares;
  VisitSteps<Step, kMaster>(
      arguments, make_step, [&]<typename T, typename Functor>(T, std::span<const Functor> steps) {
        squares =
            MeasureStepsOnCpu(kStepFunction<T, Functor>, steps.data(), sizeof(Functor), arguments);
      });
  return squares;
}

#endif

/// The UpdateFunction of a rule whose step is a functor.
template <template <typename> class Step>
void RunUpdate(std::span<const typename Step<float>::Rule> rules,
               std::span<const StepArguments> arguments, bool master, const OpContext& context) {
  const auto make = [&]<typename T>(T, size_t i) { return Step<T>(rules[i]); };
  if (master) {
    RunStepsOfTypes<Step, true>(arguments, make, context);
  } else {
    RunStepsOfTypes<Step, false>(arguments, make, context);
  }
}

/// Registers a functor as the step of its rule on the kind of device that the file is compiled for.
/// Returns true.
template <template <typename> class Step>
bool ProvideUpdate(DeviceType device) {
  using Rule = typename Step<float>::Rule;
  static_assert(Step<float>::kStates.size() == static_cast<size_t>(Rule::kNumStates),
                "the rule's callers allocate another number of states than the step changes");
  UpdateFunctionOf<Rule>(device) = &RunUpdate<Step>;
  return true;
}

/// The property of a step: the inputs are the weight, the gradient, the states and, if kMaster, the
/// weight's master copy "weight32", which changes as the states do.
template <template <typename> class Step, bool kMaster>
class StepProperty final : public ParameterizedProperty<typename Step<float>::Parameters> {
 public:
  static constexpr int kNumStates = static_cast<int>(Step<float>::kStates.size()) + kMaster;

  std::vector<std::string> ListArguments() const override {
    std::vector<std::string> names = {"weight", "grad"};
    names.insert(names.end(), Step<float>::kStates.begin(), Step<float>::kStates.end());
    if (kMaster) names.push_back("weight32");
    return names;
  }
  std::vector<int> MutatedInputs() const override {
    std::vector<int> mutated;
    for (int k = 0; k < kNumStates; ++k) mutated.push_back(2 + k);
    return mutated;
  }
  bool HasGradient() const override { return false; }

  bool InferShape(std::vector<TShape>* in_shape, std::vector<TShape>* out_shape) const override {
    return InferStepShape(*this, ListArguments(), 0, 2 + kNumStates, in_shape, &(*out_shape)[0]);
  }
  bool InferType(std::vector<DType>* in_type, std::vector<DType>* out_type) const override {
    if (!kMaster) return OperatorProperty::InferType(in_type, out_type);
    return InferMasterStepTypes(*this, ListArguments(), 0, 2 + kNumStates, in_type,
                                &(*out_type)[0]);
  }
  std::vector<InplacePair> ForwardInplaceOption(std::span<const int> in_data,
                                                std::span<const int> out_data) const override {
    return {{in_data[0], out_data[0]}};
  }
};

template <template <typename> class Step, bool kMaster>
class StepOperator final : public Operator {
 public:
  using Parameters = typename Step<float>::Parameters;

  explicit StepOperator(const Parameters& param) : param_(param) {}

  void Forward(const OpContext& context, std::span<const TBlob> in_data,
               std::span<const OpReqType> req, std::span<const TBlob> out_data) override {
    const StepArguments arguments = MakeStepArguments(in_data, req[0], out_data[0], req.subspan(1),
                                                      StepProperty<Step, kMaster>::kNumStates);
    RunStepsOfTypes<Step, kMaster>(
        {&arguments, 1}, [&]<typename T>(T, size_t) { return Step<T>(param_); }, context);
  }

 private:
  const Parameters param_;
};

/// Registers a step; with kMaster its form with a master copy of the weight. Returns true.
template <template <typename> class Step, bool kMaster = false>
bool RegisterStep(const TablePlace& place, std::string_view name, std::string_view description) {
  return RegisterTypedOperator<StepProperty<Step, kMaster>, StepOperator<Step, kMaster>>(
      place, name, description);
}

}  // namespace TESSERA_ISA_NAMESPACE

/// Declares the parameters wd, rescale_grad and clip_gradient, which most steps have.
template <typename P>
void DeclareGradientParameters(ParameterSchema<P>& schema) {
  schema.template Optional<float>("wd", &P::wd, "weight decay");
  schema.template Optional<float>("rescale_grad", &P::rescale_grad, "factor of the gradient");
  schema.template Optional<float>("clip_gradient", &P::clip_gradient,
                                  "bound of a gradient's element; none if negative");
}

}  // namespace tessera::ops_internal

#endif  // TESSERA_OPS_OPTIMIZER_STEP_FUNCTION_H_
