#ifndef MSHADOW_PLAN_H_
#define MSHADOW_PLAN_H_

// A program's own expressions. A class derived from MakeTensorExp has the expression's operands and
// shape, and a Plan for the class computes an element.

#include <algorithm>
#include <cstdint>
#include <tuple>
#include <type_traits>

#include "mshadow/base.h"
#include "mshadow/expression.h"
#include "tessera/tensor/tensor.h"

namespace mshadow::expr {

/// Computes the elements of an expression by row and column; rows are counted over all dimensions
/// except the last. A Plan holds its data by value, and so outlives the expression.
///
/// This template is for tensors and Tessera's expressions. A program adds a specialization for its
/// own class, with a constructor from it and `MSHADOW_XINLINE DType Eval(index_t y, index_t x)
/// const`.
template <typename E, typename DType = real_t>
class Plan {
  static_assert(tessera::expr::Expression<E>,
                "a product or a reduction has no elements before it is computed: store it first");
  static_assert(std::is_same_v<tessera::expr::NodeOf<E>, E>,
                "an expression of a program's own needs a Plan of its own");
  static_assert(!tessera::expr::NeedsMaterialization<E>(),
                "an expression that holds a product or a reduction has no elements before that is "
                "computed: store it first");

 public:
  explicit Plan(const E& e) : node_(e) {}

  /// Returns an element. A vector ignores y, because it has one row.
  MSHADOW_XINLINE DType Eval(index_t y, index_t x) const {
    return node_.Eval(kIsVector ? 0 : y, x);
  }
  MSHADOW_XINLINE DType& REval(index_t y, index_t x) const requires tessera::expr::kIsTensor<E> {
    return node_.dptr_[(kIsVector ? 0 : y * node_.stride_) + x];
  }

 private:
  static constexpr bool kIsVector = tessera::expr::kIsTensor<E> && E::kRank == 1;

  E node_;
};

namespace plan_internal {

/// The memory that a Plan reads, in bytes, and the stream on which it is written. If there are more
/// ranges than fit, the last one covers the rest.
struct Sources {
  static constexpr int kRanges = 4;

  uintptr_t begin[kRanges] = {};
  uintptr_t end[kRanges] = {};
  int count = 0;
  void* stream = nullptr;

  void Add(uintptr_t first, uintptr_t past) {
    if (count < kRanges) {
      begin[count] = first;
      end[count] = past;
      ++count;
    } else {
      begin[kRanges - 1] = std::min(begin[kRanges - 1], first);
      end[kRanges - 1] = std::max(end[kRanges - 1], past);
    }
  }
  bool Overlap(const tessera::MemoryPlace& place) const {
    for (int i = 0; i < count; ++i) {
      const tessera::MemoryPlace range{.begin = begin[i],
                                       .rows = 1,
                                       .columns = static_cast<index_t>(end[i] - begin[i]),
                                       .element_bytes = 1,
                                       .row_stride_bytes = 0,
                                       .column_stride_bytes = 1};
      if (range.Overlaps(place)) return true;
    }
    return false;
  }
};

/// Records the operands of MakePlan on this thread in `sources` during its lifetime. A program's
/// class does not tell its operands, but its Plan's constructor makes Plans of them.
class Recording {
 public:
  explicit Recording(Sources* sources) : outer_(current_) { current_ = sources; }
  ~Recording() { current_ = outer_; }
  Recording(const Recording&) = delete;
  Recording& operator=(const Recording&) = delete;

  template <typename Node>
  static void Note(const Node& node) {
    if (current_ != nullptr) AddTo(current_, node);
  }

 private:
  template <typename Node>
  static void AddTo(Sources* sources, const Node& node) {
    if constexpr (requires { node.stream_; }) {
      if (sources->stream == nullptr) sources->stream = node.stream_;
    }
    if constexpr (requires { PlaceOf(node); }) {
      const tessera::MemoryPlace place = PlaceOf(node);
      if (!place.empty()) sources->Add(place.begin, place.end());
    } else if constexpr (requires { node.sources.count; }) {  // another PlanExp
      for (int i = 0; i < node.sources.count; ++i) {
        sources->Add(node.sources.begin[i], node.sources.end[i]);
      }
    } else {
      std::apply([&](const auto&... operand) { (AddTo(sources, operand), ...); },
                 tessera::expr::OperandsOf(node));
    }
  }

  static inline thread_local Sources* current_ = nullptr;

  Sources* outer_;
};

/// The node that represents a program's expression in assignments and in larger expressions. It
/// holds the Plan, so the objects that the expression refers to need not outlive it.
template <typename SubType, typename Device, int dim, typename DType>
struct PlanExp : Exp<PlanExp<SubType, Device, dim, DType>, DType> {
  using value_type = DType;
  using device_type = Device;
  static constexpr int kRank = dim;
  static constexpr bool kHasPacket = false;
  static constexpr bool kMovesElements = true;

  tessera::Shape<dim> target;
  Sources sources;  // before `plan`, whose construction fills it
  Plan<SubType, DType> plan;
  tessera::Stream<Device>* stream_;

  PlanExp(const SubType& e, const tessera::Shape<dim>& shape)
      : target(shape),
        plan(Recorded(e, &sources)),
        stream_(static_cast<tessera::Stream<Device>*>(sources.stream)) {}

  const tessera::Shape<dim>& shape() const { return target; }
  MSHADOW_XINLINE DType Eval(index_t y, index_t x) const {
    return static_cast<DType>(plan.Eval(y, x));
  }
  bool IsFlat() const { return dim == 1; }
  bool Reads(const tessera::MemoryPlace& place) const { return sources.Overlap(place); }

 private:
  static Plan<SubType, DType> Recorded(const SubType& e, Sources* sources) {
    const Recording recording(sources);
    return Plan<SubType, DType>(e);
  }
};

}  // namespace plan_internal

/// The base of a program's expression of `dim` dimensions over SrcExp, whose device it shares:
///
///     template <typename SrcExp, typename DType, int dim>
///     struct MyExp : public MakeTensorExp<MyExp<SrcExp, DType, dim>, SrcExp, dim, DType>
///
/// SubType's constructor sets shape_, and Plan<SubType, DType> computes the elements. Objects that
/// SubType refers to must live until the end of the statement that creates it. If the expression is
/// part of a larger one, they must live until that one is created. Tensors' memory must live until
/// the evaluation. If a destination shares memory with the operands that the Plan's constructor
/// passes to MakePlan, it is assigned through a temporary.
template <typename SubType, typename SrcExp, int dim, typename DType = real_t>
struct MakeTensorExp : public Exp<SubType, DType, type::kChainer> {
  using device_type = tessera::expr::DeviceOf<SrcExp>;
  using Node = plan_internal::PlanExp<SubType, device_type, dim, DType>;
  static constexpr int kRank = dim;

  tessera::Shape<dim> shape_;

  const SubType& real_self() const { return static_cast<const SubType&>(*this); }

  // Members that Tessera requires of an expression.
  const tessera::Shape<dim>& shape() const { return shape_; }
  Node self() const { return Node(real_self(), shape_); }
};

/// Returns the Plan of an expression.
template <typename E, typename DType, int etype>
inline Plan<E, DType> MakePlan(const Exp<E, DType, etype>& e) {
  // A program's own expression makes Plans of its operands in turn.
  if constexpr (requires { requires std::is_same_v<typename E::Node, E>; }) {
    plan_internal::Recording::Note(e.self());
  }
  return Plan<E, DType>(e.self());
}

}  // namespace mshadow::expr

namespace mshadow {

/// Calls Saver::Save(element, plan's element) for every element of *dst, on the CPU, in row-major
/// order. An assignment is faster, and checks for operands that share memory with *dst; this
/// function does not.
template <typename Saver, typename R, int dim, typename DType, typename E>
inline void MapPlan(tessera::TRValue<R, cpu, dim, DType>* dst, const expr::Plan<E, DType>& plan) {
  const tessera::Tensor<cpu, 2, DType> rows = dst->ptrself()->FlatTo2D();
  for (index_t y = 0; y < rows.size(0); ++y) {
    for (index_t x = 0; x < rows.size(1); ++x) Saver::Save(rows[y][x], plan.Eval(y, x));
  }
}

}  // namespace mshadow

#endif  // MSHADOW_PLAN_H_
