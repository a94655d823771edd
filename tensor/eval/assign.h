#ifndef TESSERA_TENSOR_EVAL_ASSIGN_H_
#define TESSERA_TENSOR_EVAL_ASSIGN_H_

#include <concepts>

#include "tessera/tensor/eval/evaluator_cpu.h"
#include "tessera/tensor/eval/evaluator_cuda.h"
#include "tessera/tensor/eval/prepare.h"
#include "tessera/tensor/expr/expression.h"
#include "tessera/tensor/expr/overlap.h"

namespace tessera::expr {

/// Whether an assignment looks for operands that share memory with its destination.
enum class Aliasing {
  kChecked,   ///< where one does, under other indices, the result goes through a temporary
  kExcluded,  ///< the caller knows that none does
};

inline namespace TESSERA_ISA_NAMESPACE {

/// Names the instruction set in the symbols of templates that live outside the inline namespace.
struct IsaTag {};

/// What can be computed straight into a tensor of type Dst.
template <typename E, typename Dst>
concept ComputesInto = ComplexExpression<E> && requires(const E& e, const Dst& dst) {
  e.template AssignTo<sv::saveto>(dst);
};

/// What stands for the same value everywhere: a number, or an element of whatever type they are.
template <typename E, typename Dst>
concept FillsElements = Scalar<E> || std::same_as<E, typename Dst::value_type>;

/// What may stand on the right of = += -= *= /= beside a tensor of type Dst: one of these, an
/// expression of its element type, rank and device (convert with tcast<T>(), reshape, broadcast or
/// Flat… what is not), or a product or reduction that gives such a tensor.
template <typename E, typename Dst>
concept AssignableTo = FillsElements<E, Dst> || MatchingExpressions<E, Dst> || ComputesInto<E, Dst>;

/// An expression that is none of these: its assignment is a deleted function that names the reason.
template <typename E, typename Dst>
concept MismatchedWith = !AssignableTo<E, Dst> && MismatchedExpressions<E, Dst>;

/// The result of a deleted function, as the type that the compiler names.
struct AConstTensorCannotBeAssignedTo_CopyTheHandle;

/// Runs an expression that is ready for a loop into `dst`. The shapes have been checked. Throws
/// Error(kInvalidArgument) if a tensor of the expression has no memory.
template <typename Saver, Aliasing kAliasing, typename Dst, typename E>
void EvaluateSafely(const Dst& dst, const E& e) {
  if constexpr (kAliasing == Aliasing::kChecked) {
    if (ReadsElsewhere(e, PlaceOf(dst))) {
      using Device = typename Dst::device_type;
      Scratch<Device> scratch(dst.stream_);
      const auto temporary = TemporaryTensor<Device, Dst::kRank, typename Dst::value_type>(
          dst.shape(), dst.stream_, &scratch);
      Evaluate<sv::saveto>(temporary, e);
      Evaluate<Saver>(dst, temporary);
      return;
    }
  } else {
    RequireMemory(e);
  }
  Evaluate<Saver>(dst, e);
}

/// Evaluates `e` into `dst`, a tensor or a view, combining with the old values as Saver says: first
/// what must be computed before the loop, then the rest in one loop, through a temporary if an
/// operand shares memory with dst so that the loop would read what it has already written.
template <AnySaver Saver, Aliasing kAliasing = Aliasing::kChecked, Expression To,
          AssignableTo<NodeOf<To>> E>
void Assign(const To& to, const E& e) {
  using Dst = NodeOf<To>;
  const Dst& dst = AsNode(to);
  RequireMemoryOf(dst, kDestination);
  if constexpr (ComputesInto<E, Dst>) {
    e.template AssignTo<Saver>(dst);
  } else if constexpr (ComplexExpression<E>) {
    Assign<Saver, kAliasing>(dst, AsNode(e));
  } else if constexpr (FillsElements<E, Dst>) {
    using T = typename Dst::value_type;
    Evaluate<Saver>(dst, ScalarExp<T>(static_cast<T>(e)));
  } else {
    if constexpr (E::kRank > 0) {
      if (e.shape() != dst.shape()) {
        throw InvalidArgument("assignment: the expression has shape ", e.shape(),
                              " but the destination has shape ", dst.shape());
      }
    }
    if constexpr (IsComputedFirst<NodeOf<E>>()) {
      Scratch<typename Dst::device_type> scratch(dst.stream_);
      if constexpr (std::same_as<Saver, sv::saveto> && ComputesFirstInto<NodeOf<E>, Dst>) {
        if (FitsFirstInto(AsNode(e), dst)) {
          RequireMemory(AsNode(e));
          AsNode(e).ComputeInto(dst, &scratch);
          return;
        }
      }
      EvaluateSafely<Saver, kAliasing>(dst, Prepare<false>(AsNode(e), &scratch));
    } else {
      EvaluateSafely<Saver, kAliasing>(dst, AsNode(e));
    }
  }
}

/// NoAlias(dst), on the left of an assignment.
template <typename Dst>
class NoAliasTarget {
 public:
  explicit NoAliasTarget(const Dst& dst) : dst_(dst) {}

  template <AssignableTo<Dst> E>
  void operator=(const E& e) const {
    Assign<sv::saveto, Aliasing::kExcluded>(dst_, e);
  }
  template <AssignableTo<Dst> E>
  void operator+=(const E& e) const {
    Assign<sv::plusto, Aliasing::kExcluded>(dst_, e);
  }
  template <AssignableTo<Dst> E>
  void operator-=(const E& e) const {
    Assign<sv::minusto, Aliasing::kExcluded>(dst_, e);
  }
  template <AssignableTo<Dst> E>
  void operator*=(const E& e) const {
    Assign<sv::multo, Aliasing::kExcluded>(dst_, e);
  }
  template <AssignableTo<Dst> E>
  void operator/=(const E& e) const {
    Assign<sv::divto, Aliasing::kExcluded>(dst_, e);
  }

  template <MismatchedWith<Dst> E>
  MismatchOf<E, Dst> operator=(const E& e) const = delete;
  template <MismatchedWith<Dst> E>
  MismatchOf<E, Dst> operator+=(const E& e) const = delete;
  template <MismatchedWith<Dst> E>
  MismatchOf<E, Dst> operator-=(const E& e) const = delete;
  template <MismatchedWith<Dst> E>
  MismatchOf<E, Dst> operator*=(const E& e) const = delete;
  template <MismatchedWith<Dst> E>
  MismatchOf<E, Dst> operator/=(const E& e) const = delete;

 private:
  Dst dst_;
};

/// `NoAlias(dst) = e` evaluates without the look for shared memory, which costs a few nanoseconds
/// for each tensor in e. Only for an e whose tensors share no memory with dst, or share it at equal
/// indices; otherwise the elements of dst are undefined.
template <Expression To>
NoAliasTarget<NodeOf<To>> NoAlias(const To& dst) {
  return NoAliasTarget<NodeOf<To>>(AsNode(dst));
}

}  // namespace TESSERA_ISA_NAMESPACE
}  // namespace tessera::expr

namespace tessera {
using expr::NoAlias;
}  // namespace tessera

#endif  // TESSERA_TENSOR_EVAL_ASSIGN_H_
