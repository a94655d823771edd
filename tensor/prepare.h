#ifndef TESSERA_TENSOR_PREPARE_H_
#define TESSERA_TENSOR_PREPARE_H_

#include <tuple>
#include <type_traits>
#include <utility>

#include "tessera/base/checked_size.h"
#include "tessera/tensor/expression.h"
#include "tessera/tensor/scratch.h"
#include "tessera/tensor/scratch_cuda.h"

/// Expressions that no single loop can compute: a reduction or a product inside an element-wise
/// expression (`(a - sum(a)) * b`). Before the loop each such part is computed into a number or
/// into a temporary of the part's own size, and the expression is rebuilt over the results.
namespace tessera::expr {

template <typename E>
constexpr bool IsComputedFirst();

/// Whether IsComputedFirst of any of a tuple of expressions.
template <typename Tuple>
struct AnyIsComputedFirst;
template <typename... E>
struct AnyIsComputedFirst<std::tuple<E...>> {
  static constexpr bool value = (IsComputedFirst<E>() || ...);
};

/// True if some part of an expression must be computed before the loop. A node says so of itself
/// by kComputedFirst and then offers ComputeFirst(scratch), which returns what stands in its place.
template <typename E>
constexpr bool IsComputedFirst() {
  if constexpr (requires { E::kComputedFirst; }) {
    return E::kComputedFirst;
  } else {
    return AnyIsComputedFirst<decltype(OperandsOf(std::declval<const E&>()))>::value;
  }
}

inline namespace TESSERA_ISA_NAMESPACE {

/// Computes what must be computed first and returns the expression that is left, ready for a loop.
/// Its temporaries lie in `scratch` and are valid as long as that is.
template <typename E, typename Device>
auto Prepare(const E& e, Scratch<Device>* scratch) {
  if constexpr (!IsComputedFirst<E>()) {
    return e;
  } else if constexpr (requires { E::kComputedFirst; }) {
    return e.ComputeFirst(scratch);
  } else {
    return std::apply(
        [&](const auto&... operand) {
          // Braces keep the order of the operands; a call's arguments have none.
          const std::tuple<decltype(Prepare(operand, scratch))...> ready{
              Prepare(operand, scratch)...};
          return std::apply([&](const auto&... part) { return e.WithOperands(part...); }, ready);
        },
        OperandsOf(e));
  }
}

/// A contiguous tensor in scratch memory, its elements undefined.
/// Throws Error(kInvalidArgument) if the size overflows, Error(kResourceExhausted) without memory.
template <typename Device, int N, typename T>
Tensor<Device, N, T> TemporaryTensor(const Shape<N>& shape, Stream<Device>* stream,
                                     Scratch<Device>* scratch) {
  CheckedSize size_bytes = static_cast<int64_t>(sizeof(T));
  for (int i = 0; i < N; ++i) size_bytes = size_bytes * shape[i];
  void* const memory =
      scratch->Allocate(size_bytes.ValueOrThrow("tensor expression: size of a temporary in bytes"));
  return Tensor<Device, N, T>(static_cast<T*>(memory), shape, stream);
}

/// The stream of an expression's first tensor or view in a GPU's memory.
template <typename E>
Stream<gpu>* StreamOf(const E& e) {
  if constexpr (requires { e.stream_; }) {
    return e.stream_;
  } else {
    Stream<gpu>* stream = nullptr;
    const auto take = [&](const auto& operand) {
      if constexpr (std::is_same_v<DeviceOf<std::remove_cvref_t<decltype(operand)>>, gpu>) {
        if (stream == nullptr) stream = StreamOf(operand);
      }
    };
    std::apply([&](const auto&... operand) { (take(operand), ...); }, OperandsOf(e));
    return stream;
  }
}

/// In evaluator_cuda.h.
template <typename T, typename E>
T NumberFromDevice(const E& ready, Scratch<gpu>* scratch);

/// The number that an expression without dimensions stands for, computed at once.
template <typename E>
typename E::value_type EvaluateNumber(const E& e) {
  if constexpr (std::is_same_v<DeviceOf<E>, gpu>) {
    static_assert(
        requires { sizeof(Scratch<DeviceOf<E>>); },
        "a number from a GPU's memory needs a kernel: let nvcc compile this file");
    Scratch<gpu> scratch(StreamOf(e));
    return NumberFromDevice<typename E::value_type>(Prepare(e, &scratch), &scratch);
  } else {
    Scratch<cpu> scratch;
    return Prepare(e, &scratch).Eval(0, 0);
  }
}

}  // namespace TESSERA_ISA_NAMESPACE
}  // namespace tessera::expr

#endif  // TESSERA_TENSOR_PREPARE_H_
