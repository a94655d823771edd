#ifndef TESSERA_TENSOR_INSPECT_INSPECT_H_
#define TESSERA_TENSOR_INSPECT_INSPECT_H_

#include <algorithm>
#include <concepts>
#include <sstream>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>

#include "tessera/base/dtype.h"
#include "tessera/tensor/dense/dense.h"
#include "tessera/tensor/dense/materialize_operand.h"
#include "tessera/tensor/dense/store.h"
#include "tessera/tensor/dense/view.h"
#include "tessera/tensor/device/instruction_set.h"
#include "tessera/tensor/device/parallel.h"
#include "tessera/tensor/eval/materialize.h"
#include "tessera/tensor/expr/element_group.h"
#include "tessera/tensor/linalg/dot.h"
#include "tessera/tensor/linalg/gemm.h"
#include "tessera/tensor/packet/packet.h"
#include "tessera/tensor/reduce/reduce.h"
#include "tessera/tensor/reduce/reduce_columns.h"
#include "tessera/tensor/reduce/reduce_cuda.h"
#include "tessera/tensor/reduce/reduce_row.h"
#include "tessera/tensor/reduce/reductions.h"

/// Inspect describes the loops that an expression will run, without running them:
///
///     std::cout << Inspect(r, (a - sum(a)) * b);
///
/// prints, in a build for the x86-64 baseline on a machine with two threads and AVX2,
///
///     pass 1: reduces (1000,1000) float32 to a number; reads 1 per element; packets of 8 (AVX2,
///     chosen at run time); up to 2 threads
///     pass 2: writes (1000,1000) float32 as one row; reads 2, writes 1 per element; packets of 8
///     (AVX2, chosen at run time); up to 2 threads
///     temporaries: none
///
/// with each pass on one line. Inspect asks the evaluators for the loops. The evaluators choose
/// them by the same functions: RowLoopInto, PlanLoop, PlanChunks and so on. A loop "in packets"
/// takes the elements of a row, or of a thread, beyond whole packets one by one.
namespace tessera {
namespace expr {
inline namespace TESSERA_ISA_NAMESPACE {

/// True for a node that names memory: a tensor or a view.
template <typename E>
inline constexpr bool kNamesMemory = false;
template <typename E>
requires requires(const E& e) { PlaceOf(e); }
inline constexpr bool kNamesMemory<E> = true;

/// True if E is a Store inside an expression.
template <typename E>
struct IsStore : std::false_type {};
template <typename Device, int N, typename T, typename E>
struct IsStore<StoreExp<Device, N, T, E>> : std::true_type {};

/// The numbers of elements in memory that one element of an expression reads, and writes by a Store
/// in it. A node that reads several elements of an operand counts once.
struct Traffic {
  int reads = 0;   ///< elements read
  int writes = 0;  ///< elements written

  constexpr Traffic operator+(const Traffic& other) const {
    return {reads + other.reads, writes + other.writes};
  }
};
template <typename E>
constexpr Traffic TrafficOf() {
  if constexpr (kNamesMemory<E>) {
    return Traffic{1, 0};
  } else if constexpr (IsStore<E>::value) {
    return TrafficOf<decltype(E::e)>() + Traffic{0, 1};
  } else {
    return []<typename... Part>(std::type_identity<std::tuple<Part...>>) {
      return (Traffic{} + ... + TrafficOf<Part>());
    }(std::type_identity<OperandTupleOf<E>>());
  }
}

/// The kinds of parts that an expression evaluates in blocks; see HoldsSpans.
struct InBlocks {
  bool kernels = false;    ///< array kernels of costly functions
  bool own_loops = false;  ///< nodes with a loop of their own; see ComputesBlocks

  constexpr InBlocks operator+(const InBlocks& other) const {
    return {kernels || other.kernels, own_loops || other.own_loops};
  }
};
template <typename E>
constexpr InBlocks InBlocksOf() {
  if constexpr (!HoldsSpans<E>()) {
    return InBlocks{};
  } else if constexpr (MovesElements<E>()) {
    return InBlocks{.own_loops = true};
  } else {
    return []<typename... Part>(std::type_identity<std::tuple<Part...>>) {
      return (InBlocks{.kernels = HasArrayKernel<E>::value || HasArrayKernelOfTwo<E>::value} + ... +
              InBlocksOf<Part>());
    }(std::type_identity<OperandTupleOf<E>>());
  }
}

/// True for the products of batch_gemm.h: one for each index of the first dimension.
template <typename C>
concept BatchOfProducts = requires(const C& whole) {
  whole.lhs.shape_.Size();
  whole.rhs.shape_.Size();
};

/// Collects the description of the passes. It walks an expression as Assign and Materialize do,
/// with tensors without memory in place of temporaries.
class Inspection {
 public:
  /// Notes the passes of Assign<Saver, kAliasing>(dst, e).
  template <typename Saver, Aliasing kAliasing = Aliasing::kChecked, typename Dst, typename E>
  void Assignment(const Dst& dst, const E& e) {
    const Evaluation evaluation(this);
    if constexpr (ComputesInto<E, Dst>) {
      RequireShape(dst, e);
      Whole<Saver>(e.self(), dst);
    } else if constexpr (ComplexExpression<E>) {
      Assignment<Saver, kAliasing>(dst, AsNode(e));
    } else if constexpr (FillsElements<E, Dst>) {
      using T = typename Dst::value_type;
      Loop<Saver>("writes " + Described(dst), dst, ScalarExp<T>(T()));
    } else {
      if constexpr (E::kRank > 0) RequireShape(dst, e);
      if constexpr (std::same_as<Saver, sv::saveto> && MaterializesInto<NodeOf<E>, Dst>) {
        const bool fits =
            HasMemory(dst) ? CanMaterializeInto(AsNode(e), dst) : dst.CheckContiguous();
        if (fits) {
          Into(AsNode(e));
          return;
        }
      }
      const auto ready = Ready(AsNode(e));
      if (kAliasing == Aliasing::kChecked && ReadsShared<false>(ready, dst)) {
        const auto temporary = Stored(dst, kOverlap);
        Loop<sv::saveto>("writes " + Described(dst) + " to a temporary", temporary, ready);
        Copy<Saver>(dst, temporary);
      } else {
        Loop<Saver>("writes " + Described(dst), dst, ready);
      }
    }
  }

  /// Notes the passes of Materialize(e) in an Evaluation, and returns the expression that
  /// Materialize would return.
  template <typename E>
  auto Ready(const E& e) {
    if constexpr (!NeedsMaterialization<E>()) {
      return e;
    } else if constexpr (requires { E::kIsMaterialized; }) {
      return ComputeOnce(e, scratch_, [&] { return First(e); });
    } else {
      return std::apply(
          [&](const auto&... operand) {
            const std::tuple<decltype(Ready(operand))...> ready{Ready(operand)...};  // in order
            return std::apply([&](const auto&... part) { return e.WithOperands(part...); }, ready);
          },
          OperandsOf(e));
    }
  }

  /// Notes how the number that e stands for is computed. Arithmetic of numbers is no pass on the
  /// CPU. On a GPU the numbers lie in its memory, and their arithmetic takes a kernel.
  template <typename E>
  void ANumber(const E& e) {
    const Evaluation evaluation(this);
    Ready(e);
    if constexpr (kOnGpu<E> && !requires { requires E::kIsMaterialized; }) {
      Begin("computes a number from these; ");
      EndKernel();
    }
  }

  /// Notes a line that is no pass.
  void Note(const std::string& what) { text_ << what << "\n"; }

  std::string Text() const {
    const std::string temporaries = temporaries_.str();
    return text_.str() + "temporaries: " + (temporaries.empty() ? "none" : temporaries) + "\n";
  }

  template <typename E>
  static std::string Described(const E& e) {
    std::ostringstream text;
    text << e.shape() << " " << DTypeName(kDTypeOf<typename E::value_type>);
    return text.str();
  }

 private:
  static constexpr const char* kOverlap = " because an operand shares memory with the destination";
  static constexpr const char* kOneByOne = "one element at a time";

  /// The scope of one evaluation. The passes noted while it exists share a Scratch, so that equal
  /// parts are computed once.
  class Evaluation {
   public:
    explicit Evaluation(Inspection* inspection)
        : inspection_(inspection), outer_(std::exchange(inspection->scratch_, &scratch_)) {}
    ~Evaluation() { inspection_->scratch_ = outer_; }
    Evaluation(const Evaluation&) = delete;
    Evaluation& operator=(const Evaluation&) = delete;

   private:
    Inspection* inspection_;
    Scratch<cpu> scratch_;
    Scratch<cpu>* outer_;
  };

  template <typename E>
  static constexpr bool kOnGpu = std::is_same_v<DeviceOf<E>, gpu>;

  template <typename Dst>
  static bool HasMemory(const Dst& dst) {
    return PlaceOf(dst).begin != 0;
  }
  /// Returns ReadsElsewhere for a destination with memory, else false. Temporaries of the
  /// evaluation have no memory here.
  template <bool kMoved, typename E, typename Dst>
  static bool ReadsShared(const E& e, const Dst& dst) {
    const MemoryPlace place = PlaceOf(dst);
    OverlapSearch search{place, kNoneIsRefused};
    return HasMemory(dst) && FindsElsewhere<kMoved>(e, search);
  }
  template <typename Dst, typename E>
  static void RequireShape(const Dst& dst, const E& e) {
    if constexpr (Dst::kRank == E::kRank) {
      if (e.shape() != dst.shape()) {
        throw InvalidArgument("Inspect: the expression has shape ", e.shape(),
                              " but the destination has shape ", dst.shape());
      }
    }
  }

  // First notes how a node is materialized before the loop, and returns its replacement; see the
  // node's Materialized.

  template <typename Red, typename Finish, typename T, typename E>
  auto First(const ReduceAllExp<Red, Finish, T, E>& e) {
    const auto ready = ReadyRows(e.e);
    BeginReduction(ready, "a number");
    if constexpr (kOnGpu<E>) {
      EndKernel();
    } else {
      const ChunkPlan plan = PlanChunks(MergeShortRows(ready, E::kRank));
      End(ReducesRows<Red>(ready, plan.shape[1]),
          {std::min(plan.count, kReducePartials), ReduceGrain(CostOf(ready))});
    }
    return ScalarExp<T>(T());
  }

  template <typename Red, typename Finish, int kAxis, typename T, typename E>
  auto First(const ReduceAxisExp<Red, Finish, kAxis, T, E>& e) {
    const auto results = Stored(e);
    Into(e);
    return results;
  }
  // Into notes the passes of ComputeInto.
  template <typename Red, typename Finish, int kAxis, typename T, typename E>
  void Into(const ReduceAxisExp<Red, Finish, kAxis, T, E>& e) {
    using Walk = AxisWalk<kAxis, E::kRank>;
    const auto ready = ReadyRows(e.e);
    BeginReduction(ready, Described(e));
    const Walk walk(ready.shape());
    if constexpr (kOnGpu<E>) {
      constexpr index_t kGroup = ElementGroup<typename E::value_type>::kSize;
      const index_t columns = ready.shape()[E::kRank - 1];
      const auto pieces =
          Walk::kAlongRow
              ? ReductionPieces::AlongRows(walk.outer, columns, kGroup)
              : ReductionPieces::AcrossRows(walk.outer * walk.inner, walk.extent, columns, kGroup);
      EndKernels(e.shape().Size(), pieces.count);
    } else if constexpr (Walk::kAlongRow) {
      const AlongRowsPlan plan(walk.outer, walk.extent, CostOf(ready));
      End(ReducesRows<Red>(ready, walk.extent), plan.tasks);
      if (plan.chunks > 1) PartialResults(plan.tasks.count);
    } else {
      const AcrossRowsPlan plan(walk, CostOf(ready));
      End(ReducesColumns<Red>(ready, walk.columns), plan.tasks);
      if (plan.pieces > 1) PartialResults(plan.pieces * plan.lines * walk.columns);
    }
  }

  template <typename Op, typename A>
  void Into(const UnaryMapExp<Op, A>& e) {
    Into(e.a);
  }

  /// Notes the passes of a node that reads each element of its operand many times.
  template <typename E>
  requires E::kReusesOperand auto First(const E& e) {
    const auto ready = Ready(std::get<0>(e.operands()));
    if constexpr (IsWorthMaterializing<std::remove_cv_t<decltype(ready)>>()) {
      const auto stored = Stored(ready);
      Loop<sv::saveto>("writes " + Described(ready) + " to be read many times", stored, ready);
      return e.WithOperands(stored);
    } else {
      return e.WithOperands(ready);
    }
  }

  /// Notes the passes of a node that materializes its operand.
  template <typename E>
  requires E::kMaterializesOperand auto First(const E& e) {
    return e.WithOperands(ReadyStored(std::get<0>(e.operands())));
  }
  // ReadyStored and ReadyRows note the passes of MaterializeWhole and MaterializeRows.
  template <typename E>
  auto ReadyStored(const E& e) {
    const auto ready = Ready(e);
    if constexpr (kIsTensor<std::remove_cv_t<decltype(ready)>>) {
      return ready;
    } else {
      const auto stored = Stored(ready);
      Loop<sv::saveto>("writes " + Described(ready) + " to a temporary", stored, ready);
      return stored;
    }
  }
  template <typename E>
  auto ReadyRows(const E& e) {
    if constexpr (kIsReadInTiles<E>) {
      return ReadyStored(e);
    } else {
      return Ready(e);
    }
  }

  template <ComplexExpression C>
  auto First(const WholeExp<C>& e) {
    const Evaluation evaluation(this);
    const auto stored = Stored(e);
    Whole<sv::saveto>(e.whole, stored);
    return stored;
  }

  /// Notes the pass of a program's own node.
  template <typename E>
  auto First(const E& e) {
    if constexpr (E::kRank == 0) {
      Begin("computes a number by code of its own");
      text_ << "\n";
      return ScalarExp<typename E::value_type>(typename E::value_type());
    } else {
      Into(e);
      return Stored(e);
    }
  }
  template <typename E>
  void Into(const E& e) {
    Begin("computes " + Described(e) + " by code of its own");
    text_ << "\n";
  }

  // Whole notes the passes of assigning an expression that is computed as a whole; see its
  // AssignTo.

  template <typename Saver, typename A, typename B, bool kTransposeA, bool kTransposeB,
            typename Dst>
  void Whole(const DotExp<A, B, kTransposeA, kTransposeB>& product, const Dst& dst) {
    InMemory(product.a);
    InMemory(product.b);
    const Shape<2> shape = dst.shape().FlatTo2D();
    const index_t inner = product.a.shape()[kTransposeA ? 0 : A::kRank - 1];
    Begin(Factors(product.a, product.b));
    Gemm<Dst>({shape[0], shape[1], inner});
    AfterProduct<Saver>(dst, SharesMemory(product.a, dst) || SharesMemory(product.b, dst));
  }

  template <typename Saver, typename Red, int kAxis, typename E, typename Dst>
  void Whole(const ReduceExceptExp<Red, kAxis, E>& reduction, const Dst& dst) {
    const auto ready = Ready(reduction.e);
    const bool shared = ReadsShared<true>(ready, dst);
    BeginReduction(ready, Described(dst) + (shared ? " in a temporary" : ""));
    const auto shape = [&ready] {
      if constexpr (kOnGpu<E>) {
        return ready.shape();
      } else {
        return MergeShortRows(ready, E::kRank - 1 - kAxis).shape();
      }
    }();
    const index_t outer = shape.ProdShape(0, kAxis);
    const index_t columns = shape[E::kRank - 1];
    if constexpr (kOnGpu<E>) {
      constexpr index_t kGroup = ElementGroup<typename E::value_type>::kSize;
      const index_t kept = shape[kAxis];
      const bool flat = ready.IsFlat();
      const index_t width = shape.ProdShape(flat ? kAxis + 1 : E::kRank - 1, E::kRank);
      if (kAxis == E::kRank - 1 || (flat && width == 1)) {
        EndKernels(kept, ReductionPieces::AcrossRows(1, outer, kept, kGroup).count);
      } else {
        const index_t rows = outer * (flat ? 1 : shape.ProdShape(kAxis + 1, E::kRank - 1));
        EndKernels(kept, rows * ReductionPieces::AlongRows(kept * rows, width, kGroup).count);
      }
      using T = typename E::value_type;
      if (reduction.scale != T(1) || !(shared || std::is_same_v<Saver, sv::saveto>)) {
        const std::string what = "scales these, or combines them, to " + Described(dst);
        if (shared) {
          Loop<sv::saveto>(what, dst, Stored(dst));
        } else {
          Loop<Saver>(what, dst, Stored(dst));
        }
      }
    } else {
      if constexpr (kAxis == E::kRank - 1) {
        const AcrossRowsPlan plan(AxisWalk<0, 2>(Shape2(outer, columns)), CostOf(ready));
        End(ReducesColumns<Red>(ready, columns), plan.tasks);
        if (plan.pieces > 1) PartialResults(plan.pieces * columns);
      } else {
        const bool flat = ready.IsFlat();
        const index_t width = flat ? shape.ProdShape(kAxis + 1, E::kRank) : columns;
        const index_t rows = outer * (flat ? 1 : shape.ProdShape(kAxis + 1, E::kRank - 1));
        const ExceptPlan plan(shape[kAxis], rows, width, CostOf(ready));
        End(ReducesRows<Red>(ready, width), plan.tasks);
        if (plan.in_chunks) PartialResults(plan.tasks.count);
      }
    }
    if (shared) Copy<Saver>(dst, Stored(dst, kOverlap));
  }

  template <typename Saver, typename C, typename Dst>
  void Whole(const C& whole, const Dst& dst) {
    if constexpr (BatchOfProducts<C>) {
      const auto shape = dst.shape();
      const index_t inner = whole.lhs.shape_.Size() / std::max<index_t>(1, shape[0] * shape[1]);
      Begin(Factors(whole.lhs, whole.rhs) + (kOnGpu<Dst> ? " at once" : " one after another"));
      Gemm<Dst>({shape[1], shape[2], inner}, shape[0]);
      AfterProduct<Saver>(dst,
                          ReadsShared<true>(whole.lhs, dst) || ReadsShared<true>(whole.rhs, dst));
    } else {
      Begin("computes " + Described(dst) + " by code of its own");
      text_ << "\n";
    }
  }

  /// Notes the evaluation of a product's operand, unless it is a tensor.
  template <typename E>
  void InMemory(const E& e) {
    if constexpr (!kIsTensor<E>) Assignment<sv::saveto, Aliasing::kExcluded>(Stored(e), e);
  }
  template <typename E, typename Dst>
  static bool SharesMemory(const E& e, const Dst& dst) {
    if constexpr (kIsTensor<E>) {
      return HasMemory(dst) && PlaceOf(e).Overlaps(PlaceOf(dst));
    } else {
      return false;
    }
  }
  /// Returns a description of the two factors as they are stored.
  template <typename A, typename B>
  static std::string Factors(const A& a, const B& b) {
    std::ostringstream text;
    text << "multiplies " << a.shape() << " and " << b.shape() << " "
         << DTypeName(kDTypeOf<typename A::value_type>);
    return text.str();
  }

  /// The extents of a product of m by k and k by n elements.
  struct Extents {
    index_t m, n, k;
  };
  /// Notes a product, or each of a batch of `count` products.
  template <typename Dst>
  void Gemm(const Extents& e, index_t count = 1) {
    using tensor_internal::GemmThreads;
    using tensor_internal::ProductsPerTask;
    using T = typename Dst::value_type;
    if constexpr (kOnGpu<Dst>) {
      text_ << " by cuBLAS\n";
    } else if constexpr (std::is_integral_v<T>) {
      text_ << " in a plain loop; "
            << Threads(ParallelWidth(count, ProductsPerTask(e.m, e.n, e.k, count))) << "\n";
    } else {
      text_ << " by the GEMM for " << tensor_internal::Name(tensor_internal::UsedInstructionSet())
            << "; "
            << Threads(std::max(GemmThreads(e.m, e.n, e.k),
                                ParallelWidth(count, ProductsPerTask(e.m, e.n, e.k, count))))
            << "\n";
      if (tensor_internal::kGemmInFloat<T>) {
        Temporary("float32 copies of the product and both its operands");
      }
    }
  }
  /// Notes the copy of a product that a GEMM cannot compute in dst.
  template <typename Saver, typename Dst>
  void AfterProduct(const Dst& dst, bool shared) {
    if (sv::DoneByGemm<Saver> && !shared) return;
    Copy<Saver>(dst, Stored(dst, shared ? kOverlap : " because a GEMM only adds to its result"));
  }

  // The functions below write the parts of a line.

  /// Notes the pass of Evaluate<Saver>(dst, e).
  template <typename Saver, typename Dst, typename E>
  void Loop(const std::string& what, const Dst& dst, const E& e) {
    constexpr Traffic kTraffic = TrafficOf<E>();
    constexpr Traffic kOfDst = {std::is_same_v<Saver, sv::saveto> ? 0 : 1, 1};
    if constexpr (kOnGpu<Dst>) {
      Begin(what + Rows(dst.IsFlat() && e.IsFlat()), kTraffic + kOfDst);
      EndKernel();
    } else {
      if constexpr (kIsTensor<Dst> && Dst::kRank > 1 && MergesShortRows<E>) {
        if (const int count = DimensionsToMerge(dst.shape_, e, MergeableDimensions(dst));
            count > 1) {
          Loop<Saver>(what + ", its last " + std::to_string(count) + " dimensions as one,",
                      MergeDimensions(dst, count), MergeDimensions(e, count));
          return;
        }
      }
      const LoopPlan plan = PlanLoop(dst, e);
      Begin(what + Rows(plan.cuts_row), kTraffic + kOfDst);
      const bool streamed = StoresInto<Saver>(dst, e, plan) == Stores::kStreamed;
      End(Runs<Saver, E>(RowLoopInto<Saver>(dst, e), plan.columns) +
              (streamed ? ", stored past the caches" : ""),
          {plan.count(), plan.grain()});
    }
  }
  /// Notes that a temporary is copied to the destination, or combined with it.
  template <typename Saver, typename Dst, typename From>
  void Copy(const Dst& dst, const From& temporary) {
    constexpr bool kSaves = std::is_same_v<Saver, sv::saveto>;
    Loop<Saver>(kSaves ? "copies it to the destination" : "combines it with the destination", dst,
                temporary);
  }
  template <typename E>
  void BeginReduction(const E& e, const std::string& to) {
    Begin("reduces " + Described(e) + " to " + to, TrafficOf<E>());
  }

  // Numbers go through std::to_string, because a stream's locale may group digits.
  void Begin(const std::string& what) {
    text_ << "pass " << std::to_string(++passes_) << ": " << what;
  }
  void Begin(const std::string& what, const Traffic& traffic) {
    Begin(what);
    text_ << "; reads " << std::to_string(traffic.reads);
    if (traffic.writes > 0) text_ << ", writes " << std::to_string(traffic.writes);
    text_ << " per element; ";
  }
  void End(const std::string& loop, const TaskPlan& tasks) {
    text_ << loop << "; " << Threads(ParallelWidth(tasks.count, tasks.grain)) << "\n";
  }
  void EndKernel() { text_ << "one CUDA kernel\n"; }
  /// Notes the kernels of a reduction on a GPU to `results` results, each from `pieces` pieces.
  void EndKernels(index_t results, index_t pieces) {
    if (pieces <= 1 || results == 0) return EndKernel();
    text_ << "a CUDA kernel for " << std::to_string(pieces) << " pieces of each, and for these\n";
    PartialResults(results * pieces);
  }

  static std::string Rows(bool one) { return one ? " as one row" : " row by row"; }
  static std::string Threads(int64_t threads) {
    return threads <= 1 ? "1 thread" : "up to " + std::to_string(threads) + " threads";
  }
  /// Returns the description of AVX2 packets, which this machine adds to the packets of the build.
  template <typename T>
  static std::string Avx2Packets() {
    constexpr size_t kBytes = std::is_same_v<T, half_t> ? 16 : 32;
    return "packets of " + std::to_string(kBytes / sizeof(T)) + " (AVX2, chosen at run time)";
  }
  /// Describes a loop over `columns` elements that takes `packets` packets at a time.
  template <typename T>
  static std::string Packets(index_t columns, index_t packets) {
    std::ostringstream text;
    if (columns < packets * PacketTraits<T>::kSize) {
      text << kOneByOne << ", since a row has too few for packets";
    } else {
      text << "packets of " << std::to_string(PacketTraits<T>::kSize) << " ("
           << tensor_internal::kInstructionSet << ")";
    }
    return text.str();
  }
  /// Describes a loop over `columns` elements without packets for which FitsBlocks is true.
  static std::string Vectors(index_t columns) {
    if (columns < kElementBlock) return kOneByOne;
    return "blocks of " + std::to_string(kElementBlock) + ", which the compiler puts into vectors";
  }
  /// Describes a loop over an expression for which HoldsSpans is true, in blocks of at most `block`
  /// elements.
  template <typename E>
  static std::string Spans(index_t block, const std::string& rest) {
    constexpr InBlocks kParts = InBlocksOf<E>();
    std::ostringstream text;
    if (kParts.kernels) {
      text << "costly functions over blocks of " << std::to_string(block) << " by kernels for "
           << tensor_internal::Name(tensor_internal::UsedInstructionSet()) << ", ";
    }
    if (kParts.own_loops) {
      text << "nodes' own loops over blocks of " << std::to_string(block) << ", ";
    }
    text << "the rest: " << rest;
    return text.str();
  }
  /// Describes a reduction that accumulates `packets` packets of `columns` elements at a time.
  /// Parts evaluated in blocks take `block` elements at a time. EvaluateSpans divides these where
  /// it needs buffers.
  template <typename Red, typename E>
  static std::string Reduces(index_t columns, index_t packets, index_t block) {
    using T = typename E::value_type;
    std::string rest = kOneByOne;
    if constexpr (ReducesPackets<Red, E>) rest = Packets<T>(columns, packets);
    if constexpr (!HoldsSpans<E>()) {
      return rest;
    } else {
      return Spans<E>(ArrayKernelOfTensor<E> ? block : std::min(block, kSpanBlock<T>), rest);
    }
  }
  /// Describes a reduction along rows of `columns` elements.
  template <typename Red, typename E>
  static std::string ReducesRows(const E& /*e*/, index_t columns) {
    constexpr index_t kSize =
        ReducesPackets<Red, E> ? PacketTraits<typename E::value_type>::kSize : 1;
    if constexpr (ReducesAvx2Packets<Red, E>) {
      if (columns >= kMinAvx2Row && RunsAvx2()) return Avx2Packets<typename E::value_type>();
    }
    return Reduces<Red, E>(columns, kReduceChains, kReduceBlock * kReduceChains * kSize);
  }
  /// Describes a reduction over rows, to one value for each of `columns` columns.
  template <typename Red, typename E>
  static std::string ReducesColumns(const E& /*e*/, index_t columns) {
    const index_t count = std::min(columns, kColumnBlock);
    if constexpr (ReducesAvx2Packets<Red, E>) {
      if (count >= kMinAvx2Row && RunsAvx2()) return Avx2Packets<typename E::value_type>();
    }
    return Reduces<Red, E>(count, 1, kColumnBlock);
  }
  template <typename Saver, typename E>
  static std::string Runs(RowLoop loop, index_t columns) {
    using T = typename E::value_type;
    const bool wide = columns >= kMinAvx2RowOf<T, E> && RunsAvx2();
    switch (loop) {
      case RowLoop::kOwn:
        return "the node's own loop for a row";
      case RowLoop::kSpans:
        if constexpr (HoldsSpans<E>()) {
          return Spans<E>(kSpanBlock<T>, wide && RestIsIn<FitsAvx2, E>() ? Avx2Packets<T>()
                                         : RestIsIn<FitsPackets, E>()    ? Packets<T>(columns, 1)
                                         : RestIsIn<FitsVectors, E>()    ? Vectors(columns)
                                                                         : kOneByOne);
        }
        break;
      case RowLoop::kPackets:
        return wide && HasAvx2Loop<Saver, T, E>() ? Avx2Packets<T>() : Packets<T>(columns, 1);
      case RowLoop::kElements:
        return wide && HasAvx2Loop<Saver, T, E>() ? Avx2Packets<T>()
               : FitsBlocks<E>()                  ? Vectors(columns)
                                                  : kOneByOne;
    }
    return kOneByOne;
  }

  /// Notes a temporary for the value of e, and returns a tensor without memory in its place.
  template <typename E>
  auto Stored(const E& e, const std::string& why = "") {
    using Device = std::conditional_t<std::is_void_v<DeviceOf<E>>, cpu, DeviceOf<E>>;
    Temporary(Described(e) + why);
    return Tensor<Device, E::kRank, typename E::value_type>(nullptr, e.shape());
  }
  void PartialResults(index_t count) { Temporary(std::to_string(count) + " partial results"); }
  void Temporary(const std::string& what) {
    temporaries_ << (temporaries_.tellp() > 0 ? ", " : "") << what;
  }

  std::ostringstream text_;
  std::ostringstream temporaries_;
  Scratch<cpu>* scratch_ = nullptr;  // of the current Evaluation
  int passes_ = 0;
};

/// True for a container, which takes the shape of an expression that is assigned to it.
template <typename To>
concept TakesShapes = requires(const To& to) {
  { to.AfterResize(to.shape_) } -> std::same_as<NodeOf<To>>;
};

/// Describes the passes of `to = e`, one line each, and the temporaries they use. The Saver
/// sv::plusto describes `to += e`, and so on. `to` is a tensor, a container or a View. Throws
/// Error(kInvalidArgument) if the shapes do not fit.
template <AnySaver Saver = sv::saveto, Expression To, AssignableTo<NodeOf<To>> E>
std::string Inspect(const To& to, const E& e) {
  using Dst = NodeOf<To>;
  constexpr bool kSaves = std::is_same_v<Saver, sv::saveto>;
  static_assert(kNamesMemory<Dst>,
                "Inspect: the left side is a tensor, a container or a View; for another expression "
                "that can be assigned to, inspect what is assigned: Inspect(e)");
  Inspection inspection;
  if constexpr (kSaves && std::is_same_v<To, Dst> && kIsTensor<To> && std::derived_from<E, To>) {
    inspection.Note("no pass: the tensor becomes a handle to the other's memory");
  } else if constexpr (kSaves && TakesShapes<To> && !FillsElements<E, Dst>) {
    if constexpr (E::kRank == Dst::kRank) {
      const Dst resized = to.AfterResize(e.shape());
      if (resized.shape_ != to.shape_) {
        std::ostringstream text;
        text << "the destination takes the shape " << resized.shape_ << " in "
             << (resized.dptr_ == nullptr ? "new memory" : "its memory");
        inspection.Note(text.str());
      }
      inspection.Assignment<Saver>(resized, e);
    } else {
      inspection.Assignment<Saver>(AsNode(to), e);
    }
  } else {
    inspection.Assignment<Saver>(AsNode(to), e);
  }
  return inspection.Text();
}

/// Describes the passes of an expression assigned to a new contiguous tensor, or of a reduction to
/// a number.
template <Operand E>
std::string Inspect(const E& e) {
  Inspection inspection;
  if constexpr (E::kRank == 0) {
    inspection.ANumber(AsNode(e));
  } else {
    using Device = std::conditional_t<std::is_void_v<DeviceOf<E>>, cpu, DeviceOf<E>>;
    const Tensor<Device, E::kRank, typename E::value_type> made(nullptr, e.shape());
    inspection.Assignment<sv::saveto>(made, e);
  }
  return inspection.Text();
}

}  // namespace TESSERA_ISA_NAMESPACE
}  // namespace expr

using expr::Inspect;

}  // namespace tessera

#endif  // TESSERA_TENSOR_INSPECT_INSPECT_H_
