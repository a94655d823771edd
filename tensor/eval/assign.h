#ifndef TESSERA_TENSOR_EVAL_ASSIGN_H_
#define TESSERA_TENSOR_EVAL_ASSIGN_H_

#include <concepts>

#include "tessera/tensor/eval/evaluator_cpu.h"
#include "tessera/tensor/eval/evaluator_cuda.h"
#include "tessera/tensor/eval/materialize.h"
#include "tessera/tensor/expr/expression.h"
#include "tessera/tensor/expr/overlap.h"

namespace tessera::expr {

/// Selects whether an assignment checks for operands that share memory with its destination.
enum class Aliasing {
  kChecked,   ///< the result goes through a temporary if an operand shares memory at other indices
  kExcluded,  ///< the caller guarantees that no operand does so
};

inline namespace TESSERA_ISA_NAMESPACE {

/// Names the instruction set in the symbols of templates outside the inline namespace.
struct IsaTag {};

/// True if E can be computed straight into a tensor of type Dst.
template <typename E, typename Dst>
concept ComputesInto = ComplexExpression<E> &&(AssignsItself<typename E::Self, sv::saveto, Dst> ||
                                               HasWholeEngine<typename E::Self, sv::saveto, Dst>);

/// True if E is one value for all elements: a number that may stand beside Dst's elements, or a
/// value of their type.
template <typename E, typename Dst>
concept FillsElements =
    NumberFor<E, typename Dst::value_type> || std::same_as<E, typename Dst::value_type>;

/// True if E may stand on the right of = += -= *= /= with a tensor of type Dst on the left. E is
/// one value for all elements, an expression of Dst's element type, rank and device, or a product
/// or reduction that gives such a tensor. Other expressions must first be converted with
/// tcast<T>(), reshape, broadcast or a Flat… function.
template <typename E, typename Dst>
concept AssignableTo = FillsElements<E, Dst> || MatchingExpressions<E, Dst> || ComputesInto<E, Dst>;

/// True for an expression that cannot be assigned to a tensor of type Dst. The assignment is then a
/// deleted function that names the reason.
template <typename E, typename Dst>
concept MismatchedWith = !AssignableTo<E, Dst> && MismatchedExpressions<E, Dst>;

/// The result types of deleted assignments. The compiler prints their names.
struct AConstTensorCannotBeAssignedTo_CopyTheHandle;
struct RebindingATemporaryChangesNoElement_AssignPlusTheTensorOrUseCopyOrView;

/// The name of an assignment in the message of an error; see NumberAs.
struct assignment;

/// Returns a number, or a value of type T, as an expression that is assigned to elements of T.
template <typename T, typename E>
ScalarExp<T> FillingElements(const E& e) {
  return ScalarExp<T>(NumberAs<assignment, T>(e));
}

/// Evaluates into `dst` an expression that is ready for a loop. The result goes through a temporary
/// if the loop would read elements that it has already written. kAliasing kExcluded leaves out this
/// check. Requires: the shapes have been checked. Throws Error(kInvalidArgument) if a tensor of the
/// expression has elements but no memory.
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

/// Evaluates `e` into `to`, a tensor or a view, and combines the values with the old ones as Saver
/// says. Parts that need it are materialized first. One loop computes the rest. The result goes
/// through a temporary if an operand shares memory with `to` so that the loop would read what it
/// has already written.
template <AnySaver Saver, Aliasing kAliasing = Aliasing::kChecked, Expression To,
          AssignableTo<NodeOf<To>> E>
void Assign(const To& to, const E& e) {
  using Dst = NodeOf<To>;
  const Dst& dst = AsNode(to);
  RequireMemoryOf(dst, kDestination);
  if constexpr (!tensor_internal::kCompilesLoops<typename Dst::device_type>) {
    tensor_internal::RequireCompilerFor<typename Dst::device_type>();
  } else if constexpr (ComputesInto<E, Dst>) {
    AssignWhole<Saver>(dst, e.self());
  } else if constexpr (ComplexExpression<E>) {
    Assign<Saver, kAliasing>(dst, AsNode(e));
  } else if constexpr (FillsElements<E, Dst>) {
    Evaluate<Saver>(dst, FillingElements<typename Dst::value_type>(e));
  } else {
    if constexpr (E::kRank > 0) {
      if (e.shape() != dst.shape()) {
        throw InvalidArgument("assignment: the expression has shape ", e.shape(),
                              " but the destination has shape ", dst.shape());
      }
    }
    if constexpr (NeedsMaterialization<NodeOf<E>>()) {
      Scratch<typename Dst::device_type> scratch(dst.stream_);
      if constexpr (std::same_as<Saver, sv::saveto> && MaterializesInto<NodeOf<E>, Dst>) {
        if (CanMaterializeInto(AsNode(e), dst)) {
          RequireMemory(AsNode(e));
          AsNode(e).ComputeInto(dst, &scratch);
          return;
        }
      }
      EvaluateSafely<Saver, kAliasing>(dst, Materialize<false>(AsNode(e), &scratch));
    } else {
      EvaluateSafely<Saver, kAliasing>(dst, AsNode(e));
    }
  }
}

/// The result of NoAlias(dst), which stands on the left of an assignment.
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

/// Returns a destination without the check for shared memory: `NoAlias(dst) = e`. The check costs a
/// few nanoseconds for each tensor in e. Requires: the tensors in e share no memory with dst, or
/// share it at equal indices. Otherwise the elements of dst are undefined.
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
