#ifndef TESSERA_TENSOR_EVAL_MATERIALIZE_H_
#define TESSERA_TENSOR_EVAL_MATERIALIZE_H_

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

/// Materialize handles expressions that no single loop can compute: a reduction or a product inside
/// an element-wise expression (`(a - sum(a)) * b`). Before the loop each such part is materialized
/// as a number, or in a temporary of the part's own size. The expression is then rebuilt over the
/// results.
namespace tessera::expr {

template <typename E>
constexpr bool NeedsMaterialization();

/// True if NeedsMaterialization is true for any of a tuple of expressions.
template <typename Tuple>
struct AnyNeedsMaterialization;
template <typename... E>
struct AnyNeedsMaterialization<std::tuple<E...>> {
  static constexpr bool value = (NeedsMaterialization<E>() || ...);
};

/// Returns true if some part of an expression must be materialized before the loop. A node states
/// this of itself by kIsMaterialized. It then has a member Materialized(scratch), which returns the
/// node that replaces it.
template <typename E>
constexpr bool NeedsMaterialization() {
  if constexpr (requires { E::kIsMaterialized; }) {
    return E::kIsMaterialized;
  } else {
    return AnyNeedsMaterialization<OperandTupleOf<E>>::value;
  }
}

inline namespace TESSERA_ISA_NAMESPACE {

/// Returns true if evaluating E may write memory that another part of its expression reads. E then
/// holds a Store, or a node that does not name its operands.
template <typename E>
constexpr bool MayStore() {
  if constexpr (requires(const E& e) { e.Stored(); }) {
    return true;
  } else if constexpr (requires(const E& e) { e.operands(); }) {
    return []<typename... Part>(std::type_identity<std::tuple<Part...>>) {
      return (MayStore<Part>() || ...);
    }(std::type_identity<OperandTupleOf<E>>());
  } else {
    return requires { requires E::kIsMaterialized; }
    || requires(const E& e, const MemoryPlace& place) { e.Reads(place); };
  }
}

/// True if E can be computed straight into a tensor that it is assigned to. E is a node that is
/// materialized before the loop, or a function of one. Its member ComputeInto(dst, scratch) writes
/// every element of a contiguous dst. Requires of a caller: dst shares no memory with anything that
/// the node reads. Therefore no part of E may store. If a functor throws, dst is written in part,
/// as by any assignment.
template <typename E, typename Dst>
concept MaterializesInto = !MayStore<E>() && requires(const E& e, const Dst& dst,
                                                      Scratch<typename Dst::device_type>* scratch) {
  e.ComputeInto(dst, scratch);
};

/// Returns true if e may be computed straight into dst instead of a temporary.
template <typename E, typename Dst>
requires MaterializesInto<E, Dst>
bool CanMaterializeInto(const E& e, const Dst& dst) {
  return dst.CheckContiguous() && !ReadsAnywhere(e, PlaceOf(dst));
}

/// Returns true only if two nodes certainly have the same elements.
template <typename T>
bool SameNode(const ScalarExp<T>& a, const ScalarExp<T>& b) {
  return std::memcmp(&a.value, &b.value, sizeof(T)) == 0;  // 0 and -0 differ, NaN equals itself
}
template <typename E>
bool SameNode(const E& a, const E& b) {
  if constexpr (requires { PlaceOf(a); }) {
    return a.shape() == b.shape() && PlaceOf(a).SameLayout(PlaceOf(b));
  } else if constexpr (requires { requires E::kIsItsOperands; }) {
    if constexpr (E::kRank > 0 && MovesElements<E>()) {
      if (a.shape() != b.shape()) return false;
      if constexpr (requires { a.map == b.map; }) {
        if (!(a.map == b.map)) return false;
      }
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

/// The record in scratch memory of a part of an expression that has been computed. The address of
/// kTypeMark identifies its type.
template <typename E, typename Value>
struct ComputedPartOf : ComputedPart {
  E e;
  Value value;
};
template <typename E>
inline char kTypeMark = 0;

/// Returns the record of a part equal to e among `newest` and older ones, or null if there is none.
template <typename Part, typename E>
const Part* FindComputed(const ComputedPart* newest, const E& e) {
  for (const ComputedPart* part = newest; part != nullptr; part = part->older) {
    if (part->type_mark != &kTypeMark<E>) continue;
    const Part* const candidate = static_cast<const Part*>(part);
    if (SameNode(candidate->e, e)) return candidate;
  }
  return nullptr;
}

/// Returns the value of a part of an expression that is materialized before the loop. The value is
/// compute(), unless an equal part has been computed already: then it is that part's value. The
/// expression `exp(x - maximum(x)) / sum(exp(x - maximum(x)))` therefore computes the maximum once.
/// The records and the values lie in `scratch`.
template <typename E, typename ScratchMemory, typename Compute>
auto ComputeOnce(const E& e, ScratchMemory* scratch, const Compute& compute) {
  using Part = ComputedPartOf<E, decltype(compute())>;
  if constexpr (MayStore<E>()) {
    const auto value = compute();
    scratch->set_computed(nullptr);  // e may have overwritten operands of recorded parts
    return value;
  } else if constexpr (requires { requires E::kIsItsOperands; } &&
                       std::is_trivially_destructible_v<Part>) {
    if (const Part* const equal = FindComputed<Part>(scratch->computed(), e)) return equal->value;
    const auto value = compute();  // may add records of its own
    scratch->set_computed(new (scratch->AllocateOnHost(sizeof(Part)))
                              Part{{scratch->computed(), &kTypeMark<E>}, e, value});
    return value;
  } else {
    return compute();
  }
}

/// Materializes the parts of an expression that need it and returns the rest, ready for a loop. The
/// temporaries lie in `scratch` and are valid as long as it is. kMayRecur is true if parts of e may
/// occur elsewhere in the same evaluation. Callers pass false for a whole expression.
template <bool kMayRecur = true, typename E, typename Device>
auto Materialize(const E& e, Scratch<Device>* scratch) {
  if constexpr (!NeedsMaterialization<E>()) {
    return e;
  } else if constexpr (requires { E::kIsMaterialized; }) {
    RequireMemory(e);
    const auto compute = [&] { return e.Materialized(scratch); };
    if constexpr (kMayRecur) {
      return ComputeOnce(e, scratch, compute);
    } else {
      return compute();
    }
  } else {
    return VisitOperands(e, [&]<typename... Part>(const Part&... operand) {
      constexpr bool kAmongOthers = kMayRecur || (0 + ... + int{NeedsMaterialization<Part>()}) > 1;
      // Braces keep the order of the operands; the arguments of a call have no order.
      const std::tuple<decltype(Materialize<kAmongOthers>(operand, scratch))...> ready{
          Materialize<kAmongOthers>(operand, scratch)...};
      return std::apply([&](const auto&... part) { return e.WithOperands(part...); }, ready);
    });
  }
}

/// Materializes parts of an expression like Materialize, for a caller that keeps e as long as the
/// result. If there are no such parts, returns e itself without a copy.
template <typename E, typename Device>
decltype(auto) MaterializeInPlace(const E& e, Scratch<Device>* scratch) {
  if constexpr (NeedsMaterialization<E>()) {
    return Materialize(e, scratch);
  } else {
    return (e);
  }
}

/// Returns a contiguous tensor in scratch memory with undefined elements. Throws
/// Error(kInvalidArgument) if the size overflows, and Error(kResourceExhausted) without memory.
template <typename Device, int N, typename T>
Tensor<Device, N, T> TemporaryTensor(const Shape<N>& shape, Stream<Device>* stream,
                                     Scratch<Device>* scratch) {
  void* const memory = scratch->Allocate(
      tensor_internal::SizeBytes<T>(shape, shape[N - 1], "temporary of an expression"));
  return Tensor<Device, N, T>(static_cast<T*>(memory), shape, stream);
}

/// Returns the stream of an expression's first tensor or view in a GPU's memory, or null.
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

/// Computes a number on a GPU; defined in evaluator_cuda.h.
template <typename T, typename E>
T NumberFromDevice(const E& ready, Scratch<gpu>* scratch);

/// Computes at once the number that an expression without dimensions stands for.
template <typename E>
typename E::value_type EvaluateNumber(const E& e) {
  if constexpr (std::is_same_v<DeviceOf<E>, gpu>) {
    tensor_internal::RequireCompilerFor<DeviceOf<E>>();
    if constexpr (tensor_internal::kCompilesLoops<DeviceOf<E>>) {
      Scratch<DeviceOf<E>> scratch(StreamOf(e));
      return NumberFromDevice<typename E::value_type>(Materialize<false>(e, &scratch), &scratch);
    }
  } else {
    Scratch<cpu> scratch;
    return Materialize<false>(e, &scratch).Eval(0, 0);
  }
}

}  // namespace TESSERA_ISA_NAMESPACE
}  // namespace tessera::expr

#endif  // TESSERA_TENSOR_EVAL_MATERIALIZE_H_
