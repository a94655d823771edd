#include "tessera/ops/loops/reduce.h"

#include <algorithm>
#include <type_traits>
#include <vector>

#include "tessera/base/at.h"
#include "tessera/base/error.h"
#include "tessera/ops/loops/strided_walk.h"
#include "tessera/ops/loops/typed_row.h"
#include "tessera/tensor/device/parallel.h"

namespace tessera::ops_internal {
namespace {

using base_internal::At;
using Dimensions = ReduceArguments::Dimensions;

// The elements that are folded at once, and converted where their type is another one.
constexpr index_t kPiece = 1024;
// The pieces whose results are combined before they go into the total.
constexpr int kPiecesPerBlock = 32;
// A reduction to few outputs is cut into parts of so many elements, which threads share.
constexpr index_t kPart = kPiece * kPiecesPerBlock;
// The rows whose sums are combined before they go into those of a block.
constexpr index_t kRowsPerPiece = 64;
// The elements of short rows that are accumulated side by side.
constexpr index_t kShortRows = 256;
// Parts of fewer rows would take as long to combine.
constexpr index_t kLeastRows = 16;

template <typename T>
const ReduceRows<T>& RowsOf(const ReduceFunction& function) {
  if constexpr (std::is_same_v<T, float>) return function.of_float;
  if constexpr (std::is_same_v<T, double>) return function.of_double;
  if constexpr (std::is_same_v<T, int64_t>) return function.of_int64;
}

/// Returns a walk over all dimensions but the last `omitted`.
StridedWalk<> WalkOver(const Dimensions& dimensions, index_t start, int omitted = 0) {
  return {
      dimensions.count - omitted, dimensions.extents.data(), {dimensions.strides.data()}, start};
}

/// A total of many values of pieces, which it combines in blocks.
template <typename T>
class Total {
 public:
  explicit Total(const ReduceRows<T>& rows)
      : rows_(rows), total_(rows.identity), block_(rows.identity) {}
  void Add(T piece) {
    rows_.merge(&block_, &piece, 1);
    if (++pieces_ == kPiecesPerBlock) Flush();
  }
  T Get() {
    Flush();
    return total_;
  }

 private:
  void Flush() {
    rows_.merge(&total_, &block_, 1);
    block_ = rows_.identity;
    pieces_ = 0;
  }

  const ReduceRows<T>& rows_;
  T total_;
  T block_;
  int pieces_ = 0;
};

template <typename T>
class CpuReduction {
 public:
  CpuReduction(const ReduceFunction& function, const ReduceArguments& arguments)
      : rows_(RowsOf<T>(function)),
        a_(arguments),
        in_(arguments.in, arguments.in_type),
        out_(arguments.out, arguments.out_type, arguments.req),
        outputs_(arguments.kept.Size()),
        elements_(arguments.reduced.Size()) {}

  void Run() {
    if (elements_ == 0) {
      Identity();
    } else if (a_.kept.count > 0 && a_.kept.strides[At(a_.kept.count - 1)] == 1) {
      RunColumns();
    } else {
      RunRows();
    }
  }

 private:
  void Store(T* values, index_t first, index_t n) const {
    if (a_.finish != ReduceFinish::kNone) {
      for (index_t i = 0; i < n; ++i) values[i] = FinishTotal(values[i], a_.finish, elements_);
    }
    out_.Write(first, n, values);
  }

  void Identity() const {
    for (index_t i = 0; i < outputs_; ++i) {
      T value = rows_.identity;
      Store(&value, i, 1);
    }
  }

  /// Returns the reduction of elements [begin, end) of the output at input offset `base`.
  T FoldElements(index_t base, index_t begin, index_t end) const {
    const size_t last = At(a_.reduced.count - 1);
    const index_t extent = a_.reduced.extents[last], stride = a_.reduced.strides[last];
    StridedWalk<> walk = WalkOver(a_.reduced, begin / extent, /*omitted=*/1);
    index_t position = begin % extent;
    T buffer[kPiece];
    Total<T> total(rows_);
    while (begin < end) {
      const index_t n = std::min({extent - position, end - begin, kPiece});
      const index_t offset = base + walk.offset() + position * stride;
      total.Add(rows_.fold(in_.Read(offset, n, buffer, stride), n));
      begin += n;
      position += n;
      if (position == extent) {
        position = 0;
        walk.Next();
      }
    }
    return total.Get();
  }

  /// Each output is the reduction of runs of elements.
  void RunRows() const {
    const index_t parts = (elements_ + kPart - 1) / kPart;
    if (parts == 1 || outputs_ >= 64) {
      ParallelFor(outputs_, StepsPerTask(elements_), [this](index_t begin, index_t end) {
        StridedWalk<> walk = WalkOver(a_.kept, begin);
        for (index_t i = begin; i < end; ++i, walk.Next()) {
          T value = FoldElements(walk.offset(), 0, elements_);
          Store(&value, i, 1);
        }
      });
      return;
    }
    std::vector<T> values(static_cast<size_t>(outputs_ * parts));
    ParallelFor(outputs_ * parts, 1, [&](index_t begin, index_t end) {
      for (index_t i = begin; i < end; ++i) {
        const index_t base = WalkOver(a_.kept, i / parts).offset();
        const index_t first = i % parts * kPart;
        values[static_cast<size_t>(i)] =
            FoldElements(base, first, std::min(first + kPart, elements_));
      }
    });
    for (index_t i = 0; i < outputs_; ++i) {
      Total<T> total(rows_);
      for (index_t part = 0; part < parts; ++part) {
        total.Add(values[static_cast<size_t>(i * parts + part)]);
      }
      T value = total.Get();
      Store(&value, i, 1);
    }
  }

  /// Returns the number of outputs that are neighbours.
  index_t Width() const { return a_.kept.extents[At(a_.kept.count - 1)]; }

  /// The columns that are accumulated at once. Their totals stay in the first-level cache, and a
  /// row of them spans pages, so that the processor prefetches it.
  static constexpr index_t kColumns = index_t{8192} / index_t{sizeof(T)};

  /// Rows of outputs are accumulated from rows of the input.
  void RunColumns() const {
    const index_t width = Width();
    const index_t blocks = (width + kColumns - 1) / kColumns;
    const index_t parts = PartsOfColumns(blocks);
    const index_t part_size = (elements_ + parts - 1) / parts;
    const index_t jobs = outputs_ / width * blocks;
    if (parts == 1) {
      ParallelFor(jobs, StepsPerTask(elements_ * std::min(width, kColumns)),
                  [&](index_t begin, index_t end) {
                    T totals[kColumns];
                    for (index_t job = begin; job < end; ++job) {
                      const index_t first = job % blocks * kColumns;
                      const index_t n = std::min(kColumns, width - first);
                      AccumulateColumns(job / blocks, first, n, 0, elements_, totals);
                      Store(totals, job / blocks * width + first, n);
                    }
                  });
      return;
    }
    std::vector<T> values(static_cast<size_t>(jobs * parts * kColumns));
    ParallelFor(jobs * parts, 1, [&](index_t begin, index_t end) {
      for (index_t i = begin; i < end; ++i) {
        const index_t job = i / parts, part = i % parts, first = job % blocks * kColumns;
        AccumulateColumns(job / blocks, first, std::min(kColumns, width - first), part * part_size,
                          std::min(elements_, (part + 1) * part_size),
                          &values[static_cast<size_t>(i * kColumns)]);
      }
    });
    for (index_t job = 0; job < jobs; ++job) {
      const index_t first = job % blocks * kColumns, n = std::min(kColumns, width - first);
      T* const totals = &values[static_cast<size_t>(job * parts * kColumns)];
      ParallelFor(n, StepsPerTask(parts), [&](index_t begin, index_t end) {
        for (index_t part = 1; part < parts; ++part) {
          rows_.merge(totals + begin, totals + part * kColumns + begin, end - begin);
        }
      });
      Store(totals, job / blocks * width + first, n);
    }
  }

  /// Returns the number of parts into which the rows of the input are cut, so that threads share a
  /// reduction to few outputs. It depends on shapes alone.
  index_t PartsOfColumns(index_t blocks) const {
    const index_t width = std::min(Width(), kColumns);
    const index_t jobs = outputs_ / Width() * blocks;
    if (jobs >= 64) return 1;
    const index_t most = std::min(elements_ * width / kPart, elements_ / kLeastRows);
    return std::clamp<index_t>(most, 1, 64);
  }

  /// Returns the number of rows of n columns that are accumulated side by side, as one row: several
  /// if they are short and adjacent.
  index_t RowsTogether(index_t n) const {
    const bool are_adjacent = n == Width() && a_.reduced.strides[At(a_.reduced.count - 1)] == n;
    return are_adjacent ? std::max<index_t>(1, kShortRows / n) : 1;
  }

  /// Reduces rows [begin, end) of n columns from `column` on, of the row of outputs `row`.
  void AccumulateColumns(index_t row, index_t column, index_t n, index_t begin, index_t end,
                         T* totals) const {
    const index_t base = WalkOver(a_.kept, row, /*omitted=*/1).offset() + column;
    const index_t together = RowsTogether(n), width = together * n;
    const int last = a_.reduced.count - 1;
    StridedWalk<> walk = WalkOver(a_.reduced, begin);
    T buffer[kColumns], piece[kColumns], block[kColumns];
    std::fill_n(totals, n, rows_.identity);
    std::fill_n(block, width, rows_.identity);
    for (index_t pieces = 0; begin < end;) {
      const index_t stop = std::min(end, begin + kRowsPerPiece * together);
      std::fill_n(piece, width, rows_.identity);
      while (begin < stop) {
        const index_t left = a_.reduced.extents[At(last)] - walk.position(last);
        const index_t count = std::min({together, stop - begin, left});
        rows_.accumulate(piece, in_.Read(base + walk.offset(), count * n, buffer), count * n);
        begin += count;
        walk.Advance(count);
      }
      rows_.merge(block, piece, width);
      if (++pieces % kPiecesPerBlock == 0 || begin == end) {
        for (index_t i = 0; i < width; i += n) rows_.merge(totals, block + i, n);
        std::fill_n(block, width, rows_.identity);
      }
    }
  }

  const ReduceRows<T>& rows_;
  const ReduceArguments& a_;
  const RowReader<T> in_;
  const RowWriter<T> out_;
  const index_t outputs_;
  const index_t elements_;  // of each output
};

/// Returns the type in which elements are reduced unless the caller names another one.
DType UsualType(DType dtype) {
  if (dtype == DType::kFloat64) return DType::kFloat64;
  return IsReal(dtype) ? DType::kFloat32 : DType::kInt64;
}

}  // namespace

index_t ReduceArguments::Dimensions::Size() const {
  index_t size = 1;
  for (int d = 0; d < count; ++d) size *= extents[At(d)];
  return size;
}

void Reduce(const ReduceFunction& function, const TBlob& in, const ReducedAxes& axes,
            const TBlob& out, OpReqType req, const OpContext& context, ReduceFinish finish,
            DType computed_in) {
  if (req == kNullOp || out.shape_.Size() == 0) return;
  ReduceArguments a;
  a.in = in.dptr_;
  a.in_type = in.type_flag_;
  a.out = out.dptr_;
  a.out_type = out.type_flag_;
  a.req = req;
  a.finish = finish;
  a.computed_in = computed_in == DType::kUnknown ? UsualType(a.in_type) : computed_in;
  std::array<index_t, TShape::kMaxRank> strides{};
  // An empty array's extents may have a product beyond 63 bits. Its reduced dimensions count as
  // one.
  const bool empty = in.shape_.Size() == 0;
  index_t stride = empty ? 0 : 1;
  for (int d = in.shape_.ndim() - 1; d >= 0; --d) {
    strides[At(d)] = stride;
    stride *= in.shape_[d];
  }
  for (int d = 0; d < in.shape_.ndim(); ++d) {
    Dimensions& dimensions = axes[At(d)] ? a.reduced : a.kept;
    dimensions.extents[At(dimensions.count)] = in.shape_[d];
    dimensions.strides[At(dimensions.count++)] = strides[At(d)];
  }
  if (empty) a.reduced = {.count = 1, .extents = {0}, .strides = {0}};
  for (Dimensions* const dimensions : {&a.kept, &a.reduced}) {
    index_t* const list[] = {dimensions->strides.data()};
    dimensions->count = MergeDimensions(dimensions->count, dimensions->extents.data(), list);
  }
  if (a.reduced.count == 0) a.reduced = {.count = 1, .extents = {1}, .strides = {1}};
  TESSERA_DCHECK(a.kept.Size() == out.shape_.Size());
  if (out.device_.dev_mask() == gpu::kDevMask) {
    function.launch(a, context.get_stream<gpu>());
    return;
  }
  switch (a.computed_in) {
    case DType::kFloat64:
      return CpuReduction<double>(function, a).Run();
    case DType::kFloat32:
      return CpuReduction<float>(function, a).Run();
    default:
      return CpuReduction<int64_t>(function, a).Run();
  }
}

ReducedAxes BroadcastAxes(const TShape& shape, const TShape& small) {
  ReducedAxes axes{};
  const int missing = shape.ndim() - small.ndim();
  for (int d = 0; d < shape.ndim(); ++d) {
    axes[At(d)] = d < missing || (small[d - missing] == 1 && shape[d] != 1);
  }
  return axes;
}

}  // namespace tessera::ops_internal
