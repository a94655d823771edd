#ifndef TESSERA_TENSOR_FUSE_H_
#define TESSERA_TENSOR_FUSE_H_

#include <algorithm>
#include <array>
#include <tuple>
#include <utility>

#include "tessera/tensor/dense.h"
#include "tessera/tensor/fuse_cuda.h"
#include "tessera/tensor/lazy.h"
#include "tessera/tensor/reduce.h"
#include "tessera/tensor/reductions.h"

/// Several assignments in one pass over memory:
///
///     float s = 0;
///     Fuse(Lazy(m) = 0.9f * m + g, Lazy(w) -= rate * m, Lazy(s) += sum(g * g));
///
/// Lazy(x) = e only notes the assignment, where x = e would run it at once; it does so for every
/// kind of assignment and for numbers too, which an operator of its own (`x <<= e`) could not.
namespace tessera {
namespace expr {
inline namespace TESSERA_ISA_NAMESPACE {

/// A deferred assignment or reduction with its expression made ready for the loop, and the partial
/// results of one stretch of the loop at a time.
template <typename Statement, typename Ready>
struct FusedStatement;
template <typename Saver, typename Dst, typename E, typename Ready>
struct FusedStatement<DeferredAssignment<Saver, Dst, E>, Ready> {
  struct Partial {};
  const DeferredAssignment<Saver, Dst, E>* statement;
  Ready e;

  bool IsFlat() const { return statement->dst.IsFlat() && e.IsFlat(); }
  void Start(Partial*) const {}
  void Run(index_t y, index_t begin, index_t end, Partial*) const {
    EvaluateRow<Saver>(statement->dst.dptr_ + y * statement->dst.stride_, e, y, begin, end);
  }
  void Combine(Partial*, const Partial&) const {}
  void Finish(const Partial&, index_t) const {}
};
template <typename Saver, typename Red, typename End, typename T, typename E, typename Ready>
struct FusedStatement<DeferredReduction<Saver, Red, End, T, E>, Ready> {
  using Partial = AccumulatorOf<Red, typename E::value_type>;
  const DeferredReduction<Saver, Red, End, T, E>* statement;
  Ready e;

  bool IsFlat() const { return e.IsFlat(); }
  void Start(Partial* partial) const { *partial = Red::template InitialValue<Partial>(); }
  void Run(index_t y, index_t begin, index_t end, Partial* partial) const {
    *partial = Red::OPType::Map(*partial, ReduceRow<Red>(e, y, begin, end));
  }
  void Combine(Partial* total, const Partial& partial) const {
    *total = Red::OPType::Map(*total, partial);
  }
  void Finish(const Partial& total, index_t count) const {
    statement->Save(End::template Map<T>(total, count));
  }
};

/// True if running `statements` together, place by place, could differ from running them one after
/// the other: one reads what another writes, at other places, or before the loop.
template <typename... Statement>
bool NeedSeparatePasses(const std::tuple<const Statement*...>& statements) {
  const auto disturbs = [](const auto& writer, const auto& reader, bool writes_first) {
    using Reader = std::decay_t<decltype(reader)>;
    using E = decltype(reader.e);
    if constexpr (IsDeferredReduction<std::decay_t<decltype(writer)>>::value) {
      return false;
    } else {
      const MemoryPlace written = PlaceOf(writer.dst);
      if (IsComputedFirst<E>() && writes_first && ReadsAnywhere(reader.e, written)) {
        return true;
      }
      if constexpr (!IsDeferredReduction<Reader>::value) {
        if (ReadsElsewhere(reader.dst, written)) return true;
      }
      return ReadsElsewhere(reader.e, written);
    }
  };
  bool disturbed = false;
  index_t writer_index = 0;
  std::apply(
      [&](const auto*... writer) {
        const auto against_all = [&](const auto& w) {
          index_t reader_index = 0;
          std::apply(
              [&](const auto*... reader) {
                ((disturbed = disturbed || disturbs(w, *reader, writer_index < reader_index),
                  ++reader_index),
                 ...);
              },
              statements);
          ++writer_index;
        };
        (against_all(*writer), ...);
      },
      statements);
  return disturbed;
}

/// Elements of each operand that the statements take turns over: few enough that what one has just
/// read or written is still in the first-level cache for the next.
inline constexpr index_t kFuseStretch = 512;

/// Runs statements that are ready, in one pass over `shape`.
template <typename... Fused>
void RunFused(const Shape<2>& shape, const Fused&... fused) {
  using Partials = std::tuple<typename Fused::Partial...>;
  const index_t size = shape.Size();
  const bool one_row = (fused.IsFlat() && ...);
  const index_t columns = one_row ? size : shape[1];
  // As in ReduceToNumber: chunks and their order depend on nothing but the shape.
  const bool cut_columns = one_row || shape[0] == 1;
  const index_t extent = cut_columns ? columns : shape[0];
  const index_t chunk = cut_columns
                            ? kReduceChunk
                            : std::max<index_t>(1, kReduceChunk / std::max<index_t>(1, columns));
  const index_t chunks = size == 0 ? 0 : (extent + chunk - 1) / chunk;
  constexpr auto kEach = std::index_sequence_for<Fused...>();
  const auto for_each = [&]<size_t... i>(std::index_sequence<i...>, const auto& body) {
    const auto all = std::tie(fused...);
    (body(std::get<i>(all), std::integral_constant<size_t, i>()), ...);
  };
  constexpr index_t kPartials = 64;  // combined in order, a bounded number at a time
  std::array<Partials, static_cast<size_t>(kPartials)> partials;
  Partials totals;
  for_each(kEach, [&](const auto& statement, auto i) { statement.Start(&std::get<i>(totals)); });
  for (index_t base = 0; base < chunks; base += kPartials) {
    const index_t count = std::min(kPartials, chunks - base);
    ParallelFor(count, 2, [&](index_t first, index_t last) {
      for (index_t c = first; c < last; ++c) {
        Partials& partial = partials[static_cast<size_t>(c)];
        for_each(kEach,
                 [&](const auto& statement, auto i) { statement.Start(&std::get<i>(partial)); });
        const index_t begin = (base + c) * chunk;
        const index_t end = std::min(extent, begin + chunk);
        const auto run_row = [&](index_t y, index_t from, index_t to) {
          for (index_t x = from; x < to; x += kFuseStretch) {
            const index_t stop = std::min(to, x + kFuseStretch);
            for_each(kEach, [&](const auto& statement, auto i) {
              statement.Run(y, x, stop, &std::get<i>(partial));
            });
          }
        };
        if (cut_columns) {
          run_row(0, begin, end);
        } else {
          for (index_t y = begin; y < end; ++y) run_row(y, 0, columns);
        }
      }
    });
    for (index_t c = 0; c < count; ++c) {
      for_each(kEach, [&](const auto& statement, auto i) {
        statement.Combine(&std::get<i>(totals), std::get<i>(partials[static_cast<size_t>(c)]));
      });
    }
  }
  for_each(kEach,
           [&](const auto& statement, auto i) { statement.Finish(std::get<i>(totals), size); });
}

template <typename Statement>
auto MakeReady(const Statement& statement, Scratch<cpu>* scratch) {
  const auto ready = Prepare(statement.e, scratch);
  return FusedStatement<Statement, std::remove_cv_t<decltype(ready)>>{&statement, ready};
}

/// Runs deferred assignments (see Lazy) with the effect of running them one after the other, in one
/// pass over memory: what several of them read is loaded once, and what one writes the next one
/// reads from the cache.
///
/// All have the same shape, otherwise Error(kInvalidArgument) is thrown and nothing is written.
/// Where one pass would give another result, because a statement reads at other places, or in a
/// reduction inside its expression, what another writes, they run one by one. Sums do not depend on
/// the number of threads. On a GPU the pass is one kernel on the stream of the operands, and Fuse
/// waits for it if a statement reduces; statements of different streams run one by one.
template <typename First, typename... Statement>
void Fuse(const First& first, const Statement&... statement) {
  const auto shape = first.shape();
  [[maybe_unused]] const auto require_shape = [&](const auto& other) {
    bool equal = false;
    if constexpr (std::is_same_v<std::decay_t<decltype(shape)>, decltype(other.shape())>) {
      equal = other.shape() == shape;
    }
    if (!equal) {
      throw InvalidArgument("Fuse: assignments over shapes ", shape, " and ", other.shape(),
                            " cannot share a pass");
    }
  };
  (require_shape(statement), ...);
  constexpr bool kOnCpu = (!std::is_same_v<typename First::device_type, gpu> && ... &&
                           !std::is_same_v<typename Statement::device_type, gpu>);
  constexpr bool kOnGpu = (std::is_same_v<typename First::device_type, gpu> && ... &&
                           std::is_same_v<typename Statement::device_type, gpu>);
  if (!NeedSeparatePasses(std::tuple<const First*, const Statement*...>(&first, &statement...))) {
    if constexpr (kOnCpu) {
      Scratch<cpu> scratch;
      RunFused(shape.FlatTo2D(), MakeReady(first, &scratch), MakeReady(statement, &scratch)...);
      return;
    } else if constexpr (kOnGpu) {
      Stream<gpu>* const stream = first.stream();
      if (((statement.stream() == stream) && ...)) {
        FuseOnStream(stream, first, statement...);
        return;
      }
    }
  }
  first.RunAlone();
  (statement.RunAlone(), ...);
}

}  // namespace TESSERA_ISA_NAMESPACE
}  // namespace expr

using expr::Fuse;

}  // namespace tessera

#endif  // TESSERA_TENSOR_FUSE_H_
