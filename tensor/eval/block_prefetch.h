#ifndef TESSERA_TENSOR_EVAL_BLOCK_PREFETCH_H_
#define TESSERA_TENSOR_EVAL_BLOCK_PREFETCH_H_

#include <algorithm>
#include <tuple>

#include "tessera/tensor/expr/array_kernel_node.h"
#include "tessera/tensor/expr/cost.h"
#include "tessera/tensor/expr/expression.h"
#include "tessera/tensor/packet/prefetch.h"

namespace tessera::expr {
inline namespace TESSERA_ISA_NAMESPACE {

/// Returns how often EvaluateBlock calls an array kernel that takes a PrefetchList. Conversions and
/// nodes that move elements count as none.
template <typename E>
constexpr int KernelCalls();
/// The sum of KernelCalls over a tuple of expressions.
template <typename Tuple>
struct KernelCallsOfAll;
template <typename... E>
struct KernelCallsOfAll<std::tuple<E...>> {
  static constexpr int value = (0 + ... + KernelCalls<E>());
};
template <typename E>
constexpr int KernelCalls() {
  if constexpr (!HoldsSpans<E>() || MovesElements<E>() || kConverts<E>) {
    return 0;
  } else if constexpr (HasArrayKernel<E>::value) {
    return 1 + KernelCalls<ArrayKernelNode<E>>();
  } else {
    return KernelCallsOfAll<OperandTupleOf<E>>::value;
  }
}

/// Addresses of the block that follows the one under evaluation. Array kernels prefetch them while
/// they compute, each kernel its share. The processor does not foresee all reads in blocks, so that
/// memory would be idle meanwhile. The class is for blocks whose functions take longer than memory
/// does. Such expressions of data beyond the caches then take 0.7 to 0.95 of the time. Expressions
/// of cheaper functions would take up to 1.08 of it, because memory has no idle time there.
class BlockPrefetch {
 public:
  /// Constructs a set without addresses, which prefetches nothing.
  BlockPrefetch() = default;
  /// Collects the addresses of the block of e that begins with element `begin` of row y and is
  /// written to `out`. The function is cold and not inlined: its time is negligible beside the
  /// functions of a block. Inlined, it would be a tenth of the time to compile a long expression.
  template <typename E>
  [[gnu::noinline, gnu::cold]] void Begin(const E& e, index_t y, index_t begin,
                                          const typename E::value_type* out) {
    if constexpr (Outlasts<E>(kFewest)) {
      calls_ = KernelCalls<E>();
      TensorsAt{this, y, begin}.Add(e);
      Add(out);
      if (!Outlasts<E>(count_)) count_ = 0;
    }
  }

  /// Removes all addresses, because no block follows.
  void Clear() { count_ = 0; }
  /// Moves all addresses on to the next block.
  [[gnu::noinline]] void MoveOn() {
    for (int i = 0; i < count_; ++i) places_[i] += steps_[i];
    taken_ = 0;
  }
  /// Returns the addresses that the next array kernel prefetches.
  [[gnu::noinline]] tensor_internal::PrefetchList Take() {
    if (count_ == 0) return {};
    const int begin = taken_ * count_ / calls_;
    ++taken_;
    return {places_ + begin, taken_ * count_ / calls_ - begin};
  }

 private:
  static constexpr int kFewest = 2, kMax = 8;
  /// The smallest number of array kernels for which the gain, a twentieth, is worth the time to
  /// compile it.
  static constexpr int kFewestCalls = 3;

  /// Returns true if E's functions take longer than memory does for this number of addresses. The
  /// bound is measured.
  template <typename E>
  static constexpr bool Outlasts(int places) {
    return KernelCalls<E>() >= kFewestCalls && 2 * TypeCost<E>::value >= 3 * places;
  }
  /// Adds the tensors of an expression. One visitor serves all nodes: a lambda for each would take
  /// as long to compile as what it does.
  struct TensorsAt {
    BlockPrefetch* ahead;
    index_t y, begin;

    template <typename... E>
    void operator()(const E&... e) const {
      (Add(e), ...);
    }
    template <typename Op, typename A>
    void Add(const UnaryMapExp<Op, A>& e) const {
      Add(e.a);
    }
    template <typename Op, typename A, typename B>
    void Add(const BinaryMapExp<Op, A, B>& e) const {
      Add(e.a);
      Add(e.b);
    }
    template <typename E>
    void Add(const E& e) const {
      if constexpr (kIsTensor<E>) {
        ahead->Add(e.dptr_ + y * e.stride_ + begin);
      } else if constexpr (!MovesElements<E>() && !kIsNumber<E>) {
        VisitOperands(e, *this);
      }
    }
  };

  template <typename T>
  void Add(const T* place) {
    Add(reinterpret_cast<const char*>(place), kSpanBlock<T> * index_t{sizeof(T)});
  }
  [[gnu::noinline]] void Add(const char* place, index_t step) {
    if (count_ == kMax || std::find(places_, places_ + count_, place) != places_ + count_) return;
    steps_[count_] = step;
    places_[count_++] = place;
  }

  const char* places_[kMax];
  index_t steps_[kMax];
  int count_ = 0, calls_ = 0, taken_ = 0;
};

}  // namespace TESSERA_ISA_NAMESPACE
}  // namespace tessera::expr

#endif  // TESSERA_TENSOR_EVAL_BLOCK_PREFETCH_H_
