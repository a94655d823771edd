#include "tessera/ops/loops/indexed_rows.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "tessera/base/at.h"
#include "tessera/base/error.h"
#include "tessera/ops/loops/convert_row.h"
#include "tessera/ops/loops/move.h"
#include "tessera/tensor/device/copy_bytes.h"
#include "tessera/tensor/device/parallel.h"

namespace tessera::ops_internal {
namespace {

using base_internal::At;
using tensor_internal::Stores;

// The positions that are read at a time.
constexpr index_t kBlock = 256;

const char* Element(const TBlob& blob, index_t i, index_t size_bytes) {
  return static_cast<const char*>(blob.dptr_) + i * size_bytes;
}
char* MutableElement(const TBlob& blob, index_t i, index_t size_bytes) {
  return static_cast<char*>(blob.dptr_) + i * size_bytes;
}

/// Adds n elements to those at `to`.
template <typename T>
void AddAs(const void* from, DType dtype, index_t n, void* to) {
  T block[kBlock];
  const index_t size = DTypeSizeBytes(dtype);
  for (index_t i = 0; i < n; i += kBlock) {
    const index_t count = std::min(kBlock, n - i);
    LoadRow(static_cast<const char*>(from) + i * size, dtype, 1, count, block);
    StoreRow(block, count, /*add=*/true, dtype, static_cast<char*>(to) + i * size);
  }
}

/// Copies runs of a size that is known when it is compiled, or else of any size, as `stores` says.
template <size_t kBytes>
struct CopyRun {
  CopyRun(index_t, Stores) {}
  void operator()(const char* from, char* to) const { std::memcpy(to, from, kBytes); }
};
template <>
struct CopyRun<0> {
  CopyRun(index_t size, Stores how) : bytes(size), stores(how) {}
  void operator()(const char* from, char* to) const {
    tensor_internal::CopyBytes(from, to, bytes, stores);
  }
  index_t bytes;
  Stores stores;
};

/// Calls function(CopyRun of `bytes` bytes).
template <typename Function>
void WithCopyRun(index_t bytes, Stores stores, const Function& function) {
  switch (bytes) {
    case 1:
      return function(CopyRun<1>(bytes, stores));
    case 2:
      return function(CopyRun<2>(bytes, stores));
    case 4:
      return function(CopyRun<4>(bytes, stores));
    case 8:
      return function(CopyRun<8>(bytes, stores));
    default:
      return function(CopyRun<0>(bytes, stores));
  }
}

/// The positions of every table of an array. They are read once if there are several tables.
class SharedPositions {
 public:
  SharedPositions(const Positions& positions, index_t outer) : positions_(positions) {
    if (outer <= 1) return;
    all_.resize(At(positions.count()));
    ParallelFor(positions.count(), StepsPerTask(1), [this](index_t begin, index_t end) {
      positions_.Read(begin, end - begin, all_.data() + begin);
    });
  }

  /// Returns positions [first, first + n), n <= kBlock, which may lie in `buffer`.
  const int64_t* Get(index_t first, index_t n, int64_t* buffer) const {
    if (!all_.empty()) return all_.data() + first;
    positions_.Read(first, n, buffer);
    return buffer;
  }

 private:
  const Positions& positions_;
  std::vector<int64_t> all_;
};

/// Calls function(o, first, n, positions) for blocks of the rows [begin, end) of all tables.
template <typename Function>
void InBlocks(const SharedPositions& positions, index_t count, index_t begin, index_t end,
              const Function& function) {
  int64_t buffer[kBlock];
  while (begin < end) {
    const index_t first = begin % count;
    const index_t n = std::min({end - begin, count - first, kBlock});
    function(begin / count, first, n, positions.Get(first, n, buffer));
    begin += n;
  }
}

/// Sums rows in type T: in `to` itself if that is its type.
template <typename T>
class RowSum {
 public:
  RowSum(const Positions& positions, const RowTables& tables, const TBlob& from, T* sums)
      : positions_(positions, tables.outer),
        count_(positions.count()),
        tables_(tables),
        from_(from),
        sums_(sums) {}

  /// Threads share the tables and their columns.
  void Run() const {
    constexpr index_t kColumns = 64;
    const index_t blocks = (tables_.width + kColumns - 1) / kColumns;
    const index_t work = count_ * std::min(tables_.width, kColumns);
    ParallelFor(tables_.outer * blocks, StepsPerTask(work), [&](index_t begin, index_t end) {
      while (begin < end) {
        const index_t o = begin / blocks, block = begin % blocks;
        const index_t n = std::min(end - begin, blocks - block);
        const index_t column = block * kColumns;
        AddTable(o, column, std::min(tables_.width, (block + n) * kColumns) - column);
        begin += n;
      }
    });
  }

 private:
  /// Adds `width` columns of one table, from `column` on.
  void AddTable(index_t o, index_t column, index_t width) const {
    const bool whole = width == tables_.width;
    const index_t size = DTypeSizeBytes(from_.type_flag_);
    // Whole rows are converted together.
    const index_t together = whole ? std::max<index_t>(1, 4 * kBlock / width) : 1;
    const bool direct = from_.type_flag_ == kDTypeOf<T>;
    std::vector<T> converted(direct ? 0 : At(together * width));
    T* const sums = sums_ + o * tables_.rows * tables_.width + column;
    int64_t buffer[kBlock];
    for (index_t first = 0; first < count_; first += kBlock) {
      const index_t n = std::min(kBlock, count_ - first);
      const int64_t* const rows = positions_.Get(first, n, buffer);
      for (index_t i = 0; i < n; i += together) {
        const index_t taken = std::min(together, n - i);
        const void* const at =
            Element(from_, (o * count_ + first + i) * tables_.width + column, size);
        const T* head = static_cast<const T*>(at);
        if (!direct) {
          LoadRow(at, from_.type_flag_, 1, taken * width, converted.data());
          head = converted.data();
        }
        for (index_t r = 0; r < taken; ++r, head += width) {
          AddRow(head, width, sums + rows[i + r] * tables_.width);
        }
      }
    }
  }

  static void AddRow(const T* __restrict row, index_t n, T* __restrict sum) {
    for (index_t j = 0; j < n; ++j) {
      if constexpr (std::is_integral_v<T>) {
        sum[j] = static_cast<T>(static_cast<uint64_t>(sum[j]) + static_cast<uint64_t>(row[j]));
      } else {
        sum[j] += row[j];
      }
    }
  }

  const SharedPositions positions_;
  const index_t count_;
  const RowTables tables_;
  const TBlob from_;
  T* const sums_;
};

template <typename T>
void SumRowsIn(const Positions& positions, const RowTables& tables, const TBlob& from,
               const TBlob& to, OpReqType req, const OpContext& context) {
  if (to.type_flag_ == kDTypeOf<T>) {
    MoveZeros(to, req, context);
    RowSum<T>(positions, tables, from, static_cast<T*>(to.dptr_)).Run();
    return;
  }
  const index_t size = to.shape_.Size(), bytes = DTypeSizeBytes(to.type_flag_);
  std::vector<T> sums(At(size), T(0));
  RowSum<T>(positions, tables, from, sums.data()).Run();
  ParallelFor(size, StepsPerTask(1), [&](index_t begin, index_t end) {
    StoreRow(sums.data() + begin, end - begin, req == kAddTo, to.type_flag_,
             MutableElement(to, begin, bytes));
  });
}

/// Calls function(i, element) for the elements i in [begin, end) of what positions pick, with the
/// number of each in its array, or -1.
template <typename Function>
void ForEachPicked(const Positions& positions, const RowTables& tables, index_t begin, index_t end,
                   const Function& function) {
  int64_t buffer[kBlock];
  for (index_t first = begin; first < end; first += kBlock) {
    const index_t n = std::min(kBlock, end - first);
    positions.Read(first, n, buffer);
    index_t o = first / tables.width, j = first % tables.width;
    for (index_t i = 0; i < n; ++i) {
      const index_t element = (o * tables.rows + buffer[i]) * tables.width + j;
      function(first + i, buffer[i] < 0 ? -1 : element);
      if (++j == tables.width) {
        j = 0;
        ++o;
      }
    }
  }
}

}  // namespace

void AddElements(const void* from, DType dtype, index_t n, void* to) {
  if (dtype == DType::kFloat64) return AddAs<double>(from, dtype, n, to);
  if (IsReal(dtype)) return AddAs<float>(from, dtype, n, to);
  AddAs<int64_t>(from, dtype, n, to);
}

Positions::Positions(const TBlob& indices, std::span<const index_t> extents, IndexMode mode)
    : indices_(indices), num_dims_(static_cast<int>(extents.size())), mode_(mode) {
  std::copy(extents.begin(), extents.end(), extents_.begin());
  const index_t size = indices.shape_.Size();
  count_ = num_dims_ == 0 ? size : size / num_dims_;
}

void Positions::Read(index_t first, index_t n, int64_t* positions) const {
  const DType dtype = indices_.type_flag_;
  const index_t size = DTypeSizeBytes(dtype);
  int64_t block[kBlock];
  for (index_t begin = 0; begin < n; begin += kBlock) {
    const index_t count = std::min(kBlock, n - begin);
    int64_t* const to = positions + begin;
    std::fill_n(to, count, 0);
    for (int d = 0; d < num_dims_; ++d) {
      const index_t extent = extents_[At(d)];
      LoadIndices(Element(indices_, d * count_ + first + begin, size), dtype, count, block);
      for (index_t i = 0; i < count; ++i) {
        int64_t index = block[i];
        if (index < 0 || index >= extent) {
          if (mode_ == IndexMode::kSkip) {
            to[i] = -1;
            continue;
          }
          const bool from_end = mode_ == IndexMode::kFromEnd && index < 0 && index >= -extent;
          if (extent == 0 || mode_ == IndexMode::kRaise ||
              (mode_ == IndexMode::kFromEnd && !from_end) ||
              (mode_ == IndexMode::kWrap && IsNanIndex(index, dtype))) {
            throw OutOfRange("index ", IndexText(index, dtype), ", element ",
                             d * count_ + first + begin + i,
                             " of the indices, is outside of dimension ", d, " of extent ", extent);
          }
          if (mode_ == IndexMode::kClip) {
            index = index < 0 ? 0 : extent - 1;
          } else {
            index %= extent;
            if (index < 0) index += extent;
          }
        }
        to[i] = to[i] * extent + index;
      }
    }
  }
}

RowTables RowTables::Along(const TShape& shape, int axis) {
  return {.outer = shape.ProdShape(0, axis),
          .rows = shape[axis],
          .width = shape.ProdShape(axis + 1, shape.ndim())};
}

RowTables RowTables::Of(const TShape& shape, int num_axes) {
  return {.rows = shape.ProdShape(0, num_axes), .width = shape.ProdShape(num_axes, shape.ndim())};
}

void GatherRows(const Positions& positions, const RowTables& tables, const TBlob& in,
                const TBlob& out, OpReqType req) {
  if (req == kNullOp || out.shape_.Size() == 0) return;
  const DType dtype = out.type_flag_;
  const index_t row_bytes = tables.width * DTypeSizeBytes(dtype), count = positions.count();
  const SharedPositions shared(positions, tables.outer);
  const index_t size_bytes = tables.outer * count * row_bytes;
  const Stores stores =
      req == kAddTo ? Stores::kCached : tensor_internal::StoresFor(size_bytes, size_bytes);
  WithCopyRun(row_bytes, stores, [&](const auto& copy) {
    ParallelFor(tables.outer * count, StepsPerTask(tables.width), [&](index_t begin, index_t end) {
      InBlocks(shared, count, begin, end,
               [&](index_t o, index_t first, index_t n, const int64_t* rows) {
                 const char* const from = Element(in, o * tables.rows, row_bytes);
                 char* to = MutableElement(out, o * count + first, row_bytes);
                 for (index_t i = 0; i < n; ++i, to += row_bytes) {
                   const char* const row = from + rows[i] * row_bytes;
                   if (req != kAddTo) {
                     copy(row, to);
                   } else {
                     AddElements(row, dtype, tables.width, to);
                   }
                 }
               });
      tensor_internal::FinishStores(stores);
    });
  });
}

void SumRows(const Positions& positions, const RowTables& tables, const TBlob& from,
             const TBlob& to, OpReqType req, const OpContext& context) {
  if (req == kNullOp) return;
  if (from.shape_.Size() == 0) return MoveZeros(to, req, context);
  switch (to.type_flag_) {
    case DType::kFloat64:
      return SumRowsIn<double>(positions, tables, from, to, req, context);
    case DType::kFloat32:
    case DType::kFloat16:
    case DType::kBFloat16:
      return SumRowsIn<float>(positions, tables, from, to, req, context);
    default:
      return SumRowsIn<int64_t>(positions, tables, from, to, req, context);
  }
}

void ScatterRows(const Positions& positions, const RowTables& tables, const TBlob& from,
                 const TBlob& to) {
  if (from.shape_.Size() == 0) return;
  const index_t size = DTypeSizeBytes(to.type_flag_), count = positions.count();
  const index_t row_bytes = tables.width * size;
  const SharedPositions shared(positions, tables.outer);
  // Threads share the tables and the columns, so that the last of several rows stays.
  constexpr index_t kColumns = 256;
  const index_t blocks = (tables.width + kColumns - 1) / kColumns;
  const index_t work = count * std::min(tables.width, kColumns);
  ParallelFor(tables.outer * blocks, StepsPerTask(work), [&](index_t begin, index_t end) {
    for (index_t b = begin; b < end; ++b) {
      const index_t o = b / blocks, column = b % blocks * kColumns;
      const index_t bytes = std::min(kColumns, tables.width - column) * size;
      InBlocks(shared, count, o * count, (o + 1) * count,
               [&](index_t, index_t first, index_t n, const int64_t* rows) {
                 const char* row = Element(from, o * count + first, row_bytes) + column * size;
                 char* const table = MutableElement(to, o * tables.rows, row_bytes) + column * size;
                 WithCopyRun(bytes, Stores::kCached, [&](const auto& copy) {
                   for (index_t i = 0; i < n; ++i, row += row_bytes) {
                     copy(row, table + rows[i] * row_bytes);
                   }
                 });
               });
    }
  });
}

void PickElements(const Positions& positions, const RowTables& tables, const TBlob& in,
                  const TBlob& out, OpReqType req) {
  if (req == kNullOp) return;
  const DType dtype = out.type_flag_;
  const index_t size = DTypeSizeBytes(dtype);
  WithCopyRun(size, Stores::kCached, [&](const auto& copy) {
    ParallelFor(positions.count(), StepsPerTask(1), [&](index_t begin, index_t end) {
      ForEachPicked(positions, tables, begin, end, [&](index_t i, index_t element) {
        const char* const from = Element(in, element, size);
        char* const to = MutableElement(out, i, size);
        if (req == kAddTo) {
          AddElements(from, dtype, 1, to);
        } else {
          copy(from, to);
        }
      });
    });
  });
}

void PutElements(const Positions& positions, const RowTables& tables, const TBlob& from,
                 const TBlob& to, bool add) {
  const DType dtype = to.type_flag_;
  const index_t size = DTypeSizeBytes(dtype);
  WithCopyRun(size, Stores::kCached, [&](const auto& copy) {
    ParallelFor(positions.count(), StepsPerTask(1), [&](index_t begin, index_t end) {
      ForEachPicked(positions, tables, begin, end, [&](index_t i, index_t element) {
        if (element < 0) return;
        const char* const value = Element(from, i, size);
        if (add) {
          AddElements(value, dtype, 1, MutableElement(to, element, size));
        } else {
          copy(value, MutableElement(to, element, size));
        }
      });
    });
  });
}

}  // namespace tessera::ops_internal
