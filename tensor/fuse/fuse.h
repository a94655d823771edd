#ifndef TESSERA_TENSOR_FUSE_FUSE_H_
#define TESSERA_TENSOR_FUSE_FUSE_H_

#include <algorithm>
#include <array>
#include <tuple>
#include <type_traits>
#include <utility>

#include "tessera/tensor/dense/dense.h"
#include "tessera/tensor/dense/view.h"
#include "tessera/tensor/fuse/fuse_cuda.h"
#include "tessera/tensor/fuse/lazy.h"
#include "tessera/tensor/reduce/reduce.h"
#include "tessera/tensor/reduce/reduce_columns.h"
#include "tessera/tensor/reduce/reduce_row.h"
#include "tessera/tensor/reduce/reductions.h"

/// Several assignments in one pass over memory:
///
///     float s = 0;
///     Fuse(Lazy(m) = 0.9f * m + g, Lazy(w) -= rate * m, Lazy(s) += sum(g * g));
///     Fuse(Lazy(y) = exp(x), Lazy(rows) = sum<1>(y), Lazy(columns) = maximum<0>(y));
///     Fuse(Lazy(View(m, kAll, 0)) = v, Lazy(View(m, kAll, 1)) = 2 * v);
///
/// Lazy(x) = e records the assignment, where x = e would run it at once. Lazy works for every kind
/// of assignment and for numbers; an operator of its own (`x <<= e`) could not.
namespace tessera {
namespace expr {
inline namespace TESSERA_ISA_NAMESPACE {

/// The number of elements of each operand in a part of a row. All statements run over one part
/// before the next part begins. A part is short enough that the data read or written by one
/// statement is still in the L1 cache for the next.
inline constexpr index_t kFuseStretch = 512;

/// The part of a row that the statements run over in turn: elements [begin, end) of row y.
struct RowPart {
  index_t y;
  index_t line;  // the line's number in a tile of ColumnTiles
  index_t step;  // the step's number in a tile of ColumnTiles
  index_t begin;
  index_t end;
};

// A pass is divided into tiles. The tiles, and so the order of additions, depend only on the shape.
// A tile type has count(), tile(i), ForEachRow(tile, body), which calls body(RowPart) for each row
// with all of its elements in the tile, and grain(cost), the number of tiles in a task.

/// Tiles that are the chunks of ReduceToNumber.
struct ChunkTiles {
  struct Tile {
    index_t begin;
    index_t end;
  };
  ChunkPlan plan;

  explicit ChunkTiles(const Shape<2>& shape) : plan(shape) {}
  index_t count() const { return plan.count; }
  index_t grain(index_t cost) const { return ReduceGrain(cost); }
  Tile tile(index_t i) const {
    const index_t begin = i * plan.chunk;
    return {begin, std::min(plan.extent, begin + plan.chunk)};
  }
  template <typename Body>
  void ForEachRow(const Tile& tile, const Body& body) const {
    if (plan.cuts_row) {
      body(RowPart{0, 0, 0, tile.begin, tile.end});
    } else {
      for (index_t y = tile.begin; y < tile.end; ++y) body(RowPart{y, 0, 0, 0, plan.shape[1]});
    }
  }
};

/// The maximum number of a tile's results in a reduction across rows, so that they stay in the L1
/// cache. The sums of earlier blocks of rows (see kRowsPerBlock) need as much memory again, which
/// is accessed once in kRowsPerBlock rows. Both together take 16 KiB of a task's stack for each
/// statement in float, and 32 KiB in double.
inline constexpr index_t kTileResults = 2048;

/// Tiles for reductions along an axis other than the last. A tile is a block of a line's columns,
/// or several short lines, over the whole axis. If these are few, a tile covers only one piece of
/// the axis.
template <int kAxis, int N>
struct ColumnTiles {
  struct Tile {
    index_t piece, first_step, end_step;
    index_t first_line, end_line;
    index_t begin, end;
  };
  AxisWalk<kAxis, N> walk;
  index_t lines;
  index_t width, blocks;  // columns in a block, and blocks in a line
  index_t group, groups;  // lines in a group, which is more than one only if a line is one block
  index_t piece, pieces;  // steps in a piece; pieces of the axis, 0 if there are no elements

  explicit ColumnTiles(const Shape<N>& shape)
      : walk(shape),
        lines(walk.outer * walk.inner),
        width(std::clamp<index_t>(walk.columns, 1, kTileResults)),
        blocks((walk.columns + width - 1) / width),
        group(kTileResults / width),
        groups((lines + group - 1) / group),
        piece(PieceOfAxis(walk.extent, groups * blocks, std::min(group, lines) * width)),
        pieces(shape.Size() == 0 ? 0 : (walk.extent + piece - 1) / piece) {}

  index_t count() const { return pieces * groups * blocks; }
  index_t grain(index_t cost) const {
    const index_t steps = std::min(piece, walk.extent);
    return TaskPlan::Of(count(), std::min(group, lines) * width * steps, cost).grain;
  }
  Tile tile(index_t i) const {
    const index_t block = i % blocks;
    const index_t lines_before = i / blocks % groups * group;
    const index_t of_axis = i / (blocks * groups);
    return {.piece = of_axis,
            .first_step = of_axis * piece,
            .end_step = std::min(walk.extent, (of_axis + 1) * piece),
            .first_line = lines_before,
            .end_line = std::min(lines, lines_before + group),
            .begin = block * width,
            .end = std::min(walk.columns, (block + 1) * width)};
  }
  template <typename Body>
  void ForEachRow(const Tile& tile, const Body& body) const {
    for (index_t line = tile.first_line; line < tile.end_line; ++line) {
      const index_t first = walk.FirstRow(line);
      for (index_t step = tile.first_step; step < tile.end_step; ++step) {
        body(RowPart{first + step * walk.inner, line - tile.first_line, step - tile.first_step,
                     tile.begin, tile.end});
      }
    }
  }
};

/// Returns the tiles of a pass with a reduction along axis kAcross, or without one if kAcross is
/// -1.
template <int kAcross, int N>
auto TilesFor(const Shape<N>& shape, [[maybe_unused]] bool one_row) {
  if constexpr (kAcross >= 0) {
    return ColumnTiles<kAcross, N>(shape);
  } else {
    return ChunkTiles(one_row ? Shape2(1, shape.Size()) : shape.FlatTo2D());
  }
}

// Statements whose expressions are materialized for the loop. Each statement has a Local for each
// tile: Start initializes it, Run updates it for each part of a row, and End converts it to a
// Partial. Reset initializes a Total, Combine adds the Partials to it in the order of the tiles,
// and Finish stores it.

/// The base of statements without partial results.
struct KeepsNothing {
  struct Local {};
  struct Partial {};
  struct Total {};

  template <typename Tile>
  void Start(const Tile& /*tile*/, Local* /*local*/) const {}
  template <typename Tile>
  void End(const Tile& /*tile*/, const Local& /*local*/, Partial* /*partial*/) const {}
  void Reset(Total* /*total*/) const {}
  void Combine(Total* /*total*/, const Partial& /*partial*/) const {}
  void Finish(const Total& /*total*/) const {}
};

/// An assignment element by element.
template <typename Saver, typename Dst, typename Ready>
struct FusedAssignment : KeepsNothing {
  Dst dst;
  Ready e;

  FusedAssignment(const Dst& destination, const Ready& ready) : dst(destination), e(ready) {}
  bool IsFlat() const { return dst.IsFlat() && e.IsFlat(); }
  void Run(const RowPart& part, Local* /*local*/) const {
    EvaluateRowInto<Saver>(dst, e, part.y, part.begin, part.end);
  }
};

/// A reduction to a number.
template <typename Statement, typename Red, typename Finisher, typename T, typename Ready>
struct FusedReduction {
  using Partial = AccumulatorOf<Red, typename Ready::value_type>;
  using Local = Partial;
  using Total = TotalOf<Red, Partial>;
  using Op = typename Red::OPType;

  const Statement* statement;
  Ready e;

  bool IsFlat() const { return e.IsFlat(); }
  void Reset(Total* total) const { *total = Red::template InitialValue<Total>(); }
  template <typename Tile>
  void Start(const Tile& /*tile*/, Local* local) const {
    *local = Red::template InitialValue<Local>();
  }
  void Run(const RowPart& part, Local* local) const {
    *local = Op::Map(*local, ReduceRow<Red>(e, part.y, part.begin, part.end));
  }
  template <typename Tile>
  void End(const Tile& /*tile*/, const Local& local, Partial* partial) const {
    *partial = local;
  }
  void Combine(Total* total, const Partial& partial) const {
    *total = Op::Map(*total, static_cast<Total>(partial));
  }
  void Finish(const Total& total) const {
    statement->Save(Finisher::template Map<T>(static_cast<Partial>(total), e.shape().Size()));
  }
};

/// Returns the address of the element at flattened row y and column x.
template <typename Device, int N, typename T>
T* ElementOf(const Tensor<Device, N, T>& dst, index_t y, index_t x) {
  return dst.dptr_ + y * dst.stride_ + x;
}
template <typename Device, int N, typename T>
T* ElementOf(const ViewExp<Device, N, T>& dst, index_t y, index_t x) {
  return dst.dptr_ + y * dst.row_step_ + x * dst.column_step_;
}

/// A reduction along the last axis. Result y is that of row y. It is stored at once if a row is one
/// part.
template <typename Saver, typename Dst, typename Red, typename Finisher, typename Ready>
struct FusedAlongRows : KeepsNothing {
  using T = typename Dst::value_type;
  using Op = typename Red::OPType;
  using Accumulator = AccumulatorOf<Red, typename Ready::value_type>;

  Dst dst;
  Ready e;
  Shape<2> rows;
  index_t parts;                   // the number of parts in each row
  Accumulator* results = nullptr;  // the results of parts, if a row has several

  FusedAlongRows(const Dst& destination, const Ready& ready, Scratch<cpu>* scratch)
      : dst(destination),
        e(ready),
        rows(ready.shape().FlatTo2D()),
        parts((rows[1] + kFuseStretch - 1) / kFuseStretch) {
    if (parts > 1) {
      results = static_cast<Accumulator*>(
          scratch->Allocate(rows[0] * parts * static_cast<index_t>(sizeof(Accumulator))));
    }
  }
  bool IsFlat() const { return false; }
  void Run(const RowPart& part, Local* /*local*/) const {
    const Accumulator result = ReduceRow<Red>(e, part.y, part.begin, part.end);
    if (results == nullptr) {
      Save(part.y, result);
    } else {
      results[part.y * parts + part.begin / kFuseStretch] = result;
    }
  }
  void Finish(const Total& /*total*/) const {
    if (parts == 1) return;
    for (index_t y = 0; y < rows[0]; ++y) {
      Accumulator value = Red::template InitialValue<Accumulator>();
      for (index_t p = 0; p < parts; ++p) value = Op::Map(value, results[y * parts + p]);
      Save(y, value);
    }
  }

 private:
  void Save(index_t y, Accumulator value) const {
    const index_t columns = dst.shape_[Dst::kRank - 1];
    SaveElement<Saver>(ElementOf(dst, y / columns, y % columns),
                       Finisher::template Map<T>(value, rows[1]));
  }
};

/// A reduction along an axis other than the last, over ColumnTiles.
template <typename Saver, typename Dst, typename Red, typename Finisher, int kAxis, typename Ready>
struct FusedAcrossRows : KeepsNothing {
  using T = typename Dst::value_type;
  using Op = typename Red::OPType;
  using Accumulator = AccumulatorOf<Red, typename Ready::value_type>;
  using InAccumulator = std::conditional_t<std::is_same_v<Accumulator, typename Ready::value_type>,
                                           Ready, TypecastExp<Accumulator, Ready>>;
  static constexpr bool kInBlocks = kRounds<Red, Accumulator>;
  struct Local {
    // `results` has the partial results of the rows in the current block, and `above` those of all
    // rows above the block.
    alignas(64) std::array<Accumulator, static_cast<size_t>(kTileResults)> results;
    std::array<Accumulator, static_cast<size_t>(kInBlocks ? kTileResults : 0)> above;
    index_t begin;

    Local() {}  // NOLINT: a tuple of aggregates would be filled with zeros
  };

  Dst dst;
  InAccumulator e;
  ColumnTiles<kAxis, Ready::kRank> tiles;
  Accumulator* results = nullptr;  // the results of pieces, if there are several

  FusedAcrossRows(const Dst& destination, const Ready& ready, Scratch<cpu>* scratch)
      : dst(destination), e(ready), tiles(ready.shape()) {
    if (tiles.pieces > 1) {
      results = static_cast<Accumulator*>(scratch->Allocate(
          tiles.pieces * ResultsOfPiece() * static_cast<index_t>(sizeof(Accumulator))));
    }
  }
  bool IsFlat() const { return false; }
  template <typename Tile>
  void Start(const Tile& tile, Local* local) const {
    const index_t count = (tile.end_line - tile.first_line) * tiles.width;
    const Accumulator initial = Red::template InitialValue<Accumulator>();
    local->begin = tile.begin;
    std::fill_n(local->results.data(), count, initial);
    if (HasBlocksAbove(tile)) std::fill_n(local->above.data(), count, initial);
  }
  void Run(const RowPart& part, Local* local) const {
    const index_t offset = part.line * tiles.width - local->begin;
    Accumulator* const row = local->results.data() + offset;
    if constexpr (kInBlocks) {
      if (part.step > 0 && part.step % kRowsPerBlock == 0) {
        Accumulator* const above = local->above.data() + offset;
        for (index_t x = part.begin; x < part.end; ++x) above[x] = Op::Map(above[x], row[x]);
        std::fill(row + part.begin, row + part.end, Red::template InitialValue<Accumulator>());
      }
    }
    EvaluateRow<sv::Saver<Op>>(row, e, part.y, part.begin, part.end);
  }
  template <typename Tile>
  void End(const Tile& tile, const Local& local, Partial* /*partial*/) const {
    const Accumulator* const block = local.results.data();
    const Accumulator* const above = HasBlocksAbove(tile) ? local.above.data() : nullptr;
    index_t i = 0;
    for (index_t line = tile.first_line; line < tile.end_line; ++line) {
      for (index_t x = tile.begin; x < tile.end; ++x, ++i) {
        const Accumulator value = above == nullptr ? block[i] : Op::Map(above[i], block[i]);
        if (results == nullptr) {
          Save(line, x, value);
        } else {
          results[tile.piece * ResultsOfPiece() + line * tiles.walk.columns + x] = value;
        }
      }
    }
  }
  void Finish(const Total& /*total*/) const {
    if (tiles.pieces == 1) return;
    for (index_t i = 0; i < ResultsOfPiece(); ++i) {
      Accumulator value = Red::template InitialValue<Accumulator>();
      for (index_t p = 0; p < tiles.pieces; ++p) {
        value = Op::Map(value, results[p * ResultsOfPiece() + i]);
      }
      Save(i / tiles.walk.columns, i % tiles.walk.columns, value);
    }
  }

 private:
  template <typename Tile>
  static bool HasBlocksAbove(const Tile& tile) {
    return kInBlocks && tile.end_step - tile.first_step > kRowsPerBlock;
  }
  index_t ResultsOfPiece() const { return tiles.lines * tiles.walk.columns; }
  void Save(index_t line, index_t x, Accumulator value) const {
    SaveElement<Saver>(ElementOf(dst, line, x),
                       Finisher::template Map<T>(value, tiles.walk.extent));
  }
};

/// Returns a statement that is materialized for the loop: operands that the loop cannot compute are
/// materialized in memory of `scratch`.
template <typename Saver, typename Dst, typename E>
auto MakeReady(const DeferredAssignment<Saver, Dst, E>& statement, Scratch<cpu>* scratch) {
  RequireMemoryOf(statement.dst, kDestination);
  RequireMemory(statement.e);
  const auto ready = Materialize(statement.e, scratch);
  return FusedAssignment<Saver, Dst, std::remove_cv_t<decltype(ready)>>(statement.dst, ready);
}
template <typename Saver, typename Red, typename Finisher, typename T, typename E>
auto MakeReady(const DeferredReduction<Saver, Red, Finisher, T, E>& statement,
               Scratch<cpu>* scratch) {
  using Statement = DeferredReduction<Saver, Red, Finisher, T, E>;
  RequireMemory(statement.e);
  const auto ready = Materialize(statement.e, scratch);
  using Ready = std::remove_cv_t<decltype(ready)>;
  return FusedReduction<Statement, Red, Finisher, T, Ready>{&statement, ready};
}
template <typename Saver, typename Dst, typename Red, typename Finisher, int kAxis, typename E>
auto MakeReady(const DeferredAxisReduction<Saver, Dst, Red, Finisher, kAxis, E>& statement,
               Scratch<cpu>* scratch) {
  RequireMemoryOf(statement.dst, kDestination);
  RequireMemory(statement.e);
  const auto ready = Materialize(statement.e, scratch);
  using Ready = std::remove_cv_t<decltype(ready)>;
  if constexpr (kAxis == E::kRank - 1) {
    return FusedAlongRows<Saver, Dst, Red, Finisher, Ready>(statement.dst, ready, scratch);
  } else {
    return FusedAcrossRows<Saver, Dst, Red, Finisher, kAxis, Ready>(statement.dst, ready, scratch);
  }
}

/// Runs materialized statements in one pass.
template <typename Tiles, typename... Fused>
void RunFused(const Tiles& tiles, const Fused&... fused) {
  using Partials = std::tuple<typename Fused::Partial...>;
  using Totals = std::tuple<typename Fused::Total...>;
  using Locals = std::tuple<typename Fused::Local...>;
  constexpr auto kEach = std::index_sequence_for<Fused...>();
  const auto for_each = [&]<size_t... i>(std::index_sequence<i...>, const auto& body) {
    const auto all = std::tie(fused...);
    (body(std::get<i>(all), std::integral_constant<size_t, i>()), ...);
  };
  std::array<Partials, static_cast<size_t>(kReducePartials)> partials;
  Totals totals;
  const index_t grain = tiles.grain((index_t{0} + ... + CostOf(fused.e)));
  for_each(kEach, [&](const auto& statement, auto i) { statement.Reset(&std::get<i>(totals)); });
  for (index_t base = 0; base < tiles.count(); base += kReducePartials) {
    const index_t count = std::min(kReducePartials, tiles.count() - base);
    ParallelFor(count, grain, [&](index_t first, index_t last) {
      for (index_t t = first; t < last; ++t) {
        const auto tile = tiles.tile(base + t);
        Locals locals;
        for_each(kEach, [&](const auto& statement, auto i) {
          statement.Start(tile, &std::get<i>(locals));
        });
        tiles.ForEachRow(tile, [&](const RowPart& row) {
          for (index_t x = row.begin; x < row.end; x += kFuseStretch) {
            const RowPart part{row.y, row.line, row.step, x, std::min(row.end, x + kFuseStretch)};
            for_each(kEach, [&](const auto& statement, auto i) {
              statement.Run(part, &std::get<i>(locals));
            });
          }
        });
        Partials& partial = partials[static_cast<size_t>(t)];
        for_each(kEach, [&](const auto& statement, auto i) {
          statement.End(tile, std::get<i>(locals), &std::get<i>(partial));
        });
      }
    });
    for (index_t t = 0; t < count; ++t) {
      for_each(kEach, [&](const auto& statement, auto i) {
        statement.Combine(&std::get<i>(totals), std::get<i>(partials[static_cast<size_t>(t)]));
      });
    }
  }
  for_each(kEach, [&](const auto& statement, auto i) { statement.Finish(std::get<i>(totals)); });
}

/// True for a statement whose results are stored after all elements that they depend on are read.
template <typename S>
inline constexpr bool kReduces = IsDeferredReduction<S>::value || IsDeferredAxisReduction<S>::value;

/// Calls visit(place, first) for each memory extent that evaluating an expression writes (see
/// Store). `first` is true if the write comes before the loop, while an operand is materialized.
template <bool kFirst = false, typename E, typename Visit>
void ForEachStored(const E& e, const Visit& visit) {
  constexpr bool kBeforeLoop = kFirst || requires { requires E::kIsMaterialized; };
  if constexpr (requires { e.Stored(); }) visit(e.Stored(), kBeforeLoop);
  std::apply([&](const auto&... operand) { (ForEachStored<kBeforeLoop>(operand, visit), ...); },
             OperandsOf(e));
}

/// Does the part of Disturbs for memory that is written element by element.
template <typename Reader>
bool ReadsAtAnotherTime(const Reader& reader, const MemoryPlace& written, index_t distance) {
  using E = decltype(reader.e);
  if (NeedsMaterialization<E>() && distance > 0 && ReadsAnywhere(reader.e, written)) return true;
  if constexpr (!kReduces<Reader>) {
    RequireMemoryOf(reader.dst, kDestination);
    if (ReadsElsewhere(reader.dst, written)) return true;
  }
  return ReadsElsewhere(reader.e, written);
}

/// Returns whether running two statements together, element by element, could differ from running
/// one after the other. `reader` comes `distance` statements after `writer`. They may differ if the
/// reader reads or writes memory that the writer writes, at other elements or at another time.
template <typename Writer, typename Reader>
bool Disturbs(const Writer& writer, const Reader& reader, index_t distance) {
  bool disturbs = false;
  ForEachStored(writer.e, [&](const MemoryPlace& stored, bool before_pass) {
    if (before_pass && distance < 0) {  // the write would overtake the reader
      disturbs = disturbs || ReadsAnywhere(reader.e, stored) || reader.Written().Overlaps(stored);
    } else {
      disturbs = disturbs || ReadsAtAnotherTime(reader, stored, distance);
    }
  });
  if (disturbs) return true;
  const MemoryPlace written = writer.Written();
  if constexpr (kReduces<Writer>) {
    return ReadsAnywhere(reader.e, written) ||
           (distance != 0 && reader.Written().Overlaps(written));
  } else {
    return ReadsAtAnotherTime(reader, written, distance);
  }
}
/// Returns whether any statement disturbs another one or itself, so that they must run one by one.
template <typename... Statement>
bool NeedSeparatePasses(const Statement&... statement) {
  bool disturbed = false;
  index_t writer_index = 0;
  const auto against_all = [&](const auto& writer) {
    index_t reader_index = 0;
    ((disturbed = disturbed || Disturbs(writer, statement, reader_index - writer_index),
      ++reader_index),
     ...);
    ++writer_index;
  };
  (against_all(statement), ...);
  return disturbed;
}

/// Runs statements over one shape, in one pass if that has the effect of running them one by one.
/// They may include reductions along axis kAcross and along the last axis.
template <int kAcross, typename First, typename... Rest>
void RunTogether(const First& first, const Rest&... rest) {
  const auto shape = first.shape();
  [[maybe_unused]] const auto require_shape = [&](const auto& other) {
    if (other.shape() != shape) {
      throw InvalidArgument("Fuse: assignments over shapes ", shape, " and ", other.shape(),
                            " cannot share a pass");
    }
  };
  (require_shape(rest), ...);
  constexpr bool kOnCpu = (!std::is_same_v<typename First::device_type, gpu> && ... &&
                           !std::is_same_v<typename Rest::device_type, gpu>);
  constexpr bool kOnGpu = (std::is_same_v<typename First::device_type, gpu> && ... &&
                           std::is_same_v<typename Rest::device_type, gpu>);
  constexpr bool kReducesAxes =
      (IsDeferredAxisReduction<First>::value || ... || IsDeferredAxisReduction<Rest>::value);
  if (!NeedSeparatePasses(first, rest...)) {
    if constexpr (kOnCpu) {
      Scratch<cpu> scratch;
      // Braces evaluate in the order of the statements; a call's arguments have no order.
      const std::tuple ready{MakeReady(first, &scratch), MakeReady(rest, &scratch)...};
      std::apply(
          [&](const auto&... fused) {
            RunFused(TilesFor<kAcross>(shape, (fused.IsFlat() && ...)), fused...);
          },
          ready);
      return;
    } else if constexpr (kOnGpu && !kReducesAxes &&
                         tensor_internal::kCompilesLoops<typename First::device_type>) {
      Stream<gpu>* const stream = first.stream();
      if (((rest.stream() == stream) && ...)) {
        FuseOnStream(stream, first, rest...);
        return;
      }
    }
  }
  first.RunAlone();
  (rest.RunAlone(), ...);
}

/// The result of Lazy(…) = ….
template <typename S>
concept DeferredStatement = requires(const S& statement) {
  S::kRank;
  statement.Written();
  statement.RunAlone();
};

/// Returns whether a statement can take part in a pass over `rank` dimensions. A reduction along an
/// axis of rank + 1 dimensions can: its results are materialized before the pass.
template <typename S>
constexpr bool FitsPass(int rank) {
  return S::kRank == rank || (IsDeferredAxisReduction<S>::value && S::kRank == rank + 1);
}
/// Returns the axis, other than the last, along which the statement reduces during such a pass, or
/// -1.
template <typename S>
constexpr int AcrossAxis([[maybe_unused]] int rank) {
  if constexpr (IsDeferredAxisReduction<S>::value) {
    if (S::kRank == rank && S::kAxis < rank - 1) return S::kAxis;
  }
  return -1;
}
template <typename... S>
constexpr int CommonAcrossAxis(int rank) {
  return std::max({AcrossAxis<S>(rank)...});
}

/// Returns the largest number of dimensions, up to `highest`, of a pass that all statements can
/// share, or 0 if there is none.
template <typename... S>
constexpr int PassRankUpTo(int highest) {
  for (int rank = highest; rank > 0; --rank) {
    const int axis = CommonAcrossAxis<S...>(rank);
    if (((FitsPass<S>(rank) && (AcrossAxis<S>(rank) == axis || AcrossAxis<S>(rank) == -1)) &&
         ...)) {
      return rank;
    }
  }
  return 0;
}
template <typename... S>
constexpr int PassRank() {
  return PassRankUpTo<S...>(std::max({S::kRank...}));
}

/// Returns a statement in the form in which it takes part in a pass over kRank dimensions.
template <int kRank, typename S>
auto InPass(const S& statement) {
  if constexpr (S::kRank == kRank) {
    return statement;
  } else {
    return statement.OverResults();
  }
}
template <int kRank, typename... Statement>
void FuseOver(const Statement&... statement) {
  RunTogether<CommonAcrossAxis<Statement...>(kRank)>(InPass<kRank>(statement)...);
}

/// Runs deferred assignments (see Lazy) in one pass over memory, with the effect of running them
/// one after the other. Data that several statements read is loaded once, and data that one
/// statement writes is read by the next from the cache.
///
/// Destinations are tensors and Views. The destination of sum(…), maximum(…) and so on is a number.
/// The destination of sum<axis>(…) and so on is a tensor or View for the results; the pass is then
/// over the reduced elements. All statements must run over the same shape; otherwise
/// Error(kInvalidArgument) is thrown and nothing is written. Different numbers of dimensions do not
/// compile. One pass can reduce along the last axis and along one other axis.
///
/// The statements run one by one if one pass could give another result: if a statement
/// reads elements that another writes, at other indices or in a reduction inside its expression, or
/// if it reads the results of another's reduction. Sums do not depend on the number of threads.
///
/// The pass on a GPU is one kernel on the stream of the operands, and Fuse waits for it if a
/// statement reduces to a number. Statements of different streams run one by one, and so do
/// statements beside a reduction along an axis.
template <DeferredStatement First, DeferredStatement... Rest>
void Fuse(const First& first, const Rest&... rest) {
  constexpr int kRank = PassRank<First, Rest...>();
  static_assert(
      kRank > 0,
      "Fuse: the statements cannot share a pass. What is assigned to, and what sum(e), "
      "sum<axis>(e) and so on reduce, must have one number of dimensions, and of the axes "
      "before the last only one may be reduced along. A product, sum_rows or a reduction "
      "inside an expression counts as its result");
  if constexpr (kRank > 0) {
    constexpr int kFewer = PassRankUpTo<First, Rest...>(kRank - 1);
    if constexpr (kFewer > 0) {
      // All statements reduce along an axis. Their operands may differ in shape if their results do
      // not.
      if (!((rest.shape() == first.shape()) && ...)) {
        FuseOver<kFewer>(first, rest...);
        return;
      }
    }
    FuseOver<kRank>(first, rest...);
  }
}

}  // namespace TESSERA_ISA_NAMESPACE
}  // namespace expr

using expr::Fuse;

}  // namespace tessera

#endif  // TESSERA_TENSOR_FUSE_FUSE_H_
