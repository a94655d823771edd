#ifndef TESSERA_TENSOR_EVAL_PREPARE_H_
#define TESSERA_TENSOR_EVAL_PREPARE_H_

#include <cstring>
#include <new>
#include <tuple>
#include <type_traits>
#include <utility>

#include "tessera/tensor/device/scratch.h"
#include "tessera/tensor/device/scratch_cuda.h"
#include "tessera/tensor/device/size_bytes.h"
#include "tessera/tensor/expr/expression.h"
#include "tessera/tensor/expr/overlap.h"

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
    return AnyIsComputedFirst<OperandTupleOf<E>>::value;
  }
}

inline namespace TESSERA_ISA_NAMESPACE {

/// Whether evaluating E may write what another part of its expression reads: it holds a Store, or
/// code that does not say what it is made of.
template <typename E>
constexpr bool MayStore() {
  if constexpr (requires(const E& e) { e.Stored(); }) {
    return true;
  } else if constexpr (requires(const E& e) { e.operands(); }) {
    return []<typename... Part>(std::type_identity<std::tuple<Part...>>) {
      return (MayStore<Part>() || ...);
    }(std::type_identity<OperandTupleOf<E>>());
  } else {
    return requires { requires E::kComputedFirst; }
    || requires(const E& e, const MemoryPlace& place) { e.Reads(place); };
  }
}

/// Whether a node that is computed first, or a function of one, offers to be computed into a tensor
/// that it is assigned to: by ComputeInto(dst, scratch), which writes every element of a contiguous
/// dst. The caller must know that nothing that the node reads lies there, hence nothing may store.
/// Where a functor throws, dst is written in part, as by any assignment.
template <typename E, typename Dst>
concept ComputesFirstInto =
    !MayStore<E>() &&
    requires(const E& e, const Dst& dst, Scratch<typename Dst::device_type>* scratch) {
  e.ComputeInto(dst, scratch);
};

/// Whether such a node may be computed into dst instead of a temporary that dst is then computed
/// from.
template <typename E, typename Dst>
requires ComputesFirstInto<E, Dst>
bool FitsFirstInto(const E& e, const Dst& dst) {
  return dst.CheckContiguous() && !ReadsAnywhere(e, PlaceOf(dst));
}

/// Whether two nodes certainly have the same elements.
template <typename T>
bool SameNode(const ScalarExp<T>& a, const ScalarExp<T>& b) {
  return std::memcmp(&a.value, &b.value, sizeof(T)) == 0;  // 0 and -0 differ, and a NaN is itself
}
template <typename E>
bool SameNode(const E& a, const E& b) {
  if constexpr (requires { PlaceOf(a); }) {
    return a.shape() == b.shape() && PlaceOf(a).SameLayout(PlaceOf(b));
  } else if constexpr (requires { requires E::kIsItsOperands; }) {
    if constexpr (E::kRank > 0 && MovesElements<E>()) {
      if (a.shape() != b.shape()) return false;
    }
    const auto of_a = a.operands(), of_b = b.operands();
    return [&]<size_t... i>(std::index_sequence<i...>) {
      return (SameNode(std::get<i>(of_a), std::get<i>(of_b)) && ...);
    }
    (std::make_index_sequence<std::tuple_size_v<std::remove_cv_t<decltype(of_a)>>>());
  } else {
    return false;
  }
}

using tensor_internal::ComputedPart;

/// A part that is computed, as noted in scratch memory. The address of kTypeMark tells its type.
template <typename E, typename Value>
struct ComputedPartOf : ComputedPart {
  E e;
  Value value;
};
template <typename E>
inline char kTypeMark = 0;

/// The note, among `newest` and older ones, of a part equal to e; null if there is none.
template <typename Part, typename E>
const Part* FindComputed(const ComputedPart* newest, const E& e) {
  for (const ComputedPart* part = newest; part != nullptr; part = part->older) {
    if (part->type_mark != &kTypeMark<E>) continue;
    const Part* const candidate = static_cast<const Part*>(part);
    if (SameNode(candidate->e, e)) return candidate;
  }
  return nullptr;
}

/// compute(), the value of a part E of an expression that is computed first; or where an equal part
/// is already computed, the value of that, so that `exp(x - maximum(x)) / sum(exp(x - maximum(x)))`
/// looks for the maximum once. The notes of what there is lie in `scratch`, as do the values.
template <typename E, typename ScratchMemory, typename Compute>
auto ComputeOnce(const E& e, ScratchMemory* scratch, const Compute& compute) {
  using Part = ComputedPartOf<E, decltype(compute())>;
  if constexpr (MayStore<E>()) {
    const auto value = compute();
    scratch->set_computed(nullptr);  // what it stored may have been an operand of these
    return value;
  } else if constexpr (requires { requires E::kIsItsOperands; } &&
                       std::is_trivially_destructible_v<Part>) {
    if (const Part* const equal = FindComputed<Part>(scratch->computed(), e)) return equal->value;
    const auto value = compute();  // which may make notes of its own
    scratch->set_computed(new (scratch->AllocateOnHost(sizeof(Part)))
                              Part{{scratch->computed(), &kTypeMark<E>}, e, value});
    return value;
  } else {
    return compute();
  }
}

/// Computes what must be computed first and returns the expression that is left, ready for a loop.
/// Its temporaries lie in `scratch` and are valid as long as that is. kMayRecur says whether parts
/// of e may be computed elsewhere in the same evaluation; a whole expression passes false.
template <bool kMayRecur = true, typename E, typename Device>
auto Prepare(const E& e, Scratch<Device>* scratch) {
  if constexpr (!IsComputedFirst<E>()) {
    return e;
  } else if constexpr (requires { E::kComputedFirst; }) {
    RequireMemory(e);
    const auto compute = [&] { return e.ComputeFirst(scratch); };
    if constexpr (kMayRecur) {
      return ComputeOnce(e, scratch, compute);
    } else {
      return compute();
    }
  } else {
    return VisitOperands(e, [&]<typename... Part>(const Part&... operand) {
      constexpr bool kAmongOthers = kMayRecur || (0 + ... + int{IsComputedFirst<Part>()}) > 1;
      // Braces keep the order of the operands; a call's arguments have none.
      const std::tuple<decltype(Prepare<kAmongOthers>(operand, scratch))...> ready{
          Prepare<kAmongOthers>(operand, scratch)...};
      return std::apply([&](const auto&... part) { return e.WithOperands(part...); }, ready);
    });
  }
}

/// The same for a caller that keeps e as long as the result: e itself where nothing is computed
/// first, which copies nothing.
template <typename E, typename Device>
decltype(auto) PrepareInPlace(const E& e, Scratch<Device>* scratch) {
  if constexpr (IsComputedFirst<E>()) {
    return Prepare(e, scratch);
  } else {
    return (e);
  }
}

/// A contiguous tensor in scratch memory, its elements undefined.
/// Throws Error(kInvalidArgument) if the size overflows, Error(kResourceExhausted) without memory.
template <typename Device, int N, typename T>
Tensor<Device, N, T> TemporaryTensor(const Shape<N>& shape, Stream<Device>* stream,
                                     Scratch<Device>* scratch) {
  void* const memory = scratch->Allocate(
      tensor_internal::SizeBytes<T>(shape, shape[N - 1], "temporary of an expression"));
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
    VisitOperands(e, [&](const auto&... operand) { (take(operand), ...); });
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
    Scratch<DeviceOf<E>> scratch(StreamOf(e));
    return NumberFromDevice<typename E::value_type>(Prepare<false>(e, &scratch), &scratch);
  } else {
    Scratch<cpu> scratch;
    return Prepare<false>(e, &scratch).Eval(0, 0);
  }
}

}  // namespace TESSERA_ISA_NAMESPACE
}  // namespace tessera::expr

#endif  // TESSERA_TENSOR_EVAL_PREPARE_H_
