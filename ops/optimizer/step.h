#ifndef TESSERA_OPS_OPTIMIZER_STEP_H_
#define TESSERA_OPS_OPTIMIZER_STEP_H_

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/base/dtype.h"
#include "tessera/base/shape.h"
#include "tessera/base/tshape.h"
#include "tessera/ops/optimizer/step_arguments.h"
#include "tessera/ops/property.h"

/// The driver of optimizer steps: functions of a weight's element, its gradient's and those of
/// states, such as momenta, which change. The driver knows element types, requests and threads, so
/// that a step is compiled for one row of elements of float and double. step_function.h compiles
/// functors.
namespace tessera::ops_internal {

/// Computes out[i], the new weight, for i in [0, n), and changes states[k][i]. `step` is the
/// functor. `out` may be the weight; apart from that, arrays do not overlap.
template <typename T>
using StepRow = void (*)(const void* step, const T* weight, const T* grad, T* const* states, T* out,
                         index_t n);

/// A step that is compiled for rows of T.
template <typename T>
struct StepFunction {
  StepRow<T> row = nullptr;
  int num_states = 0;
  bool reads_weight = true;  ///< false if the weight is the last state, its master copy
  index_t cost = 0;          ///< of an element, beyond plain arithmetic; see tensor/expr/cost.h
};

/// Takes a step for each of several weights, in parallel over all their elements. The functor of
/// weight i is at `steps` + i * `step_bytes`.
template <typename T>
void RunStepsOnCpu(const StepFunction<T>& function, const void* steps, size_t step_bytes,
                   std::span<const StepArguments> arguments);

/// The sums of squares of a weight's elements and of the new ones that its step computes.
struct StepSquares {
  double weight = 0;
  double out = 0;
};

/// Computes the steps of several weights in parallel, as RunStepsOnCpu does, writes nothing, and
/// returns the sums of squares for each weight. With a master copy, the first sum is that of the
/// weight, not of its copy. The sums do not depend on the number of threads.
template <typename T>
std::vector<StepSquares> MeasureStepsOnCpu(const StepFunction<T>& function, const void* steps,
                                           size_t step_bytes,
                                           std::span<const StepArguments> arguments);

/// Merges two known or unknown element types into `dtype`. Throws Error(kInvalidArgument) that
/// names operator, value and both types if they differ.
void MeetType(const OperatorProperty& property, std::string_view what, DType* dtype, DType known);

/// Infers that the inputs [first, first + count) and `out`, which the names describe, have one
/// shape. Returns whether it is known. Throws what MergeShape throws.
bool InferStepShape(const OperatorProperty& property, const std::vector<std::string>& names,
                    int first, int count, std::vector<TShape>* in_shape, TShape* out);

/// Infers the types of a step with a master copy: weight, gradient and output have one type, and
/// the inputs [first + 2, first + count) are float32. Returns whether all are known.
bool InferMasterStepTypes(const OperatorProperty& property, const std::vector<std::string>& names,
                          int first, int count, std::vector<DType>* in_type, DType* out);

}  // namespace tessera::ops_internal

#endif  // TESSERA_OPS_OPTIMIZER_STEP_H_
