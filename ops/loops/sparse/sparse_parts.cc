#include "tessera/ops/loops/sparse/sparse_parts.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <memory>
#include <numeric>
#include <type_traits>
#include <utility>

#include "tessera/base/at.h"
#include "tessera/base/error.h"
#include "tessera/ops/loops/convert_row.h"
#include "tessera/ops/loops/sparse/sparse_pattern.h"
#include "tessera/tensor/device/parallel.h"

namespace tessera::ops_internal {
namespace {

using base_internal::At;

constexpr index_t kBlock = 256;

/// Elements of one type in a row.
struct Elements {
  char* data;
  DType dtype;

  explicit Elements(const TBlob& blob)
      : data(static_cast<char*>(blob.dptr_)), dtype(blob.type_flag_) {}
  /// Returns the address of element i.
  char* At(index_t i) const { return i == 0 ? data : data + i * DTypeSizeBytes(dtype); }
};

template <typename T>
void ConvertAs(const char* from, DType from_type, index_t n, bool add, char* to, DType to_type) {
  T block[kBlock];
  const index_t from_bytes = DTypeSizeBytes(from_type), to_bytes = DTypeSizeBytes(to_type);
  for (index_t i = 0; i < n; i += kBlock) {
    const index_t count = std::min(kBlock, n - i);
    LoadRow(from + i * from_bytes, from_type, 1, count, block);
    StoreRow(block, count, add, to_type, to + i * to_bytes);
  }
}

template <typename T>
void AddRow(const char* from, index_t n, char* to) {
  const T* __restrict const in = reinterpret_cast<const T*>(from);
  T* __restrict const out = reinterpret_cast<T*>(to);
  for (index_t i = 0; i < n; ++i) out[i] += in[i];
}

/// Copies n elements, converted to the type of `to`, or adds them.
void CopyElements(const char* from, DType from_type, index_t n, bool add, char* to, DType to_type) {
  if (n == 0) return;
  if (from_type == to_type) {
    if (!add) {
      std::memcpy(to, from, At(n * DTypeSizeBytes(to_type)));
    } else if (to_type == DType::kFloat32) {
      AddRow<float>(from, n, to);
    } else if (to_type == DType::kFloat64) {
      AddRow<double>(from, n, to);
    } else {
      AddElements(from, to_type, n, to);
    }
    return;
  }
  if (!IsReal(to_type)) return ConvertAs<int64_t>(from, from_type, n, add, to, to_type);
  // Every number of the other floating-point types is a float.
  const bool is_float = IsReal(from_type) && from_type != DType::kFloat64;
  if (is_float && to_type != DType::kFloat64) {
    return ConvertAs<float>(from, from_type, n, add, to, to_type);
  }
  ConvertAs<double>(from, from_type, n, add, to, to_type);
}

/// Calls visitor(U(), mask) with an unsigned type of the elements' size: an element is 0 if
/// (bits & mask) == 0, which -0.0 is too.
template <typename Visitor>
void WithBits(DType dtype, const Visitor& visitor) {
  const auto visit = [&](auto zero) {
    using U = decltype(zero);
    const U all = static_cast<U>(~U(0));
    visitor(U(0), IsReal(dtype) ? static_cast<U>(all >> 1) : all);
  };
  switch (DTypeSizeBytes(dtype)) {
    case 1:
      return visit(uint8_t(0));
    case 2:
      return visit(uint16_t(0));
    case 4:
      return visit(uint32_t(0));
    default:
      return visit(uint64_t(0));
  }
}

/// Returns whether one of n elements is not 0.
template <typename U>
bool AnyBits(const U* elements, index_t n, U mask) {
  for (index_t begin = 0; begin < n; begin += kBlock) {
    const index_t end = std::min(n, begin + kBlock);
    U bits = 0;
    for (index_t i = begin; i < end; ++i) bits = static_cast<U>(bits | elements[i]);
    if ((bits & mask) != 0) return true;
  }
  return false;
}

void FillZeros(const TBlob& blob) {
  const index_t size = blob.Size();
  const Elements to(blob);
  ParallelFor(size, StepsPerTask(1), [&](index_t begin, index_t end) {
    std::memset(to.At(begin), 0, At((end - begin) * DTypeSizeBytes(to.dtype)));
  });
}

/// Parts in memory of the process, for arrays within a call.
class LocalParts final : public PartsAllocator {
 public:
  void Allocate(index_t count, SparseBlob* blob) override {
    const index_t width = blob->storage == StorageType::kRowSparse ? blob->width() : 1;
    values_ = std::make_unique_for_overwrite<char[]>(
        At(count * width * DTypeSizeBytes(blob->values.type_flag_)));
    indices_.resize(At(count));
    if (blob->storage == StorageType::kCsr) indptr_.resize(At(blob->shape[0]) + 1);
    blob->SetParts(count, values_.get(), indices_.data(), indptr_.data());
  }

 private:
  std::unique_ptr<char[]> values_;
  std::vector<int64_t> indices_, indptr_;
};

/// Calls function(i) for each row [0, count), in parallel, where a row takes `work` elements.
template <typename Function>
void ForEachRow(index_t count, index_t work, const Function& function) {
  ParallelFor(count, StepsPerTask(work), [&](index_t begin, index_t end) {
    for (index_t i = begin; i < end; ++i) function(i);
  });
}

/// Copies row from_row(i) of `from` to row i of `to`, for i in [0, count).
template <typename FromRow>
void CopyRows(const TBlob& from, index_t count, index_t width, const FromRow& from_row,
              const TBlob& to) {
  const Elements source(from), target(to);
  ForEachRow(count, width, [&](index_t i) {
    CopyElements(source.At(from_row(i) * width), source.dtype, width, /*add=*/false,
                 target.At(i * width), target.dtype);
  });
}

/// Computes row i of `to` as row rows[i] of a row_sparse array, or adds it. A row that `from` does
/// not store is 0.
void CopyStoredRows(const SparseBlob& from, std::span<const int64_t> rows, OpReqType req,
                    const TBlob& to) {
  const index_t width = from.width();
  const Elements source(from.values), target(to);
  ForEachRow(static_cast<index_t>(rows.size()), width, [&](index_t i) {
    const auto found = std::lower_bound(from.indices.begin(), from.indices.end(), rows[At(i)]);
    if (found != from.indices.end() && *found == rows[At(i)]) {
      CopyElements(source.At((found - from.indices.begin()) * width), source.dtype, width,
                   req == kAddTo, target.At(i * width), target.dtype);
    } else if (req != kAddTo && width > 0) {
      std::memset(target.At(i * width), 0, At(width * DTypeSizeBytes(target.dtype)));
    }
  });
}

/// Returns the rows of a dense array that have an element other than 0.
std::vector<int64_t> NonzeroRows(const TBlob& dense, index_t rows, index_t width) {
  std::vector<uint8_t> is_stored(At(rows));
  WithBits(dense.type_flag_, [&](auto zero, auto mask) {
    using U = decltype(zero);
    const U* const elements = static_cast<const U*>(dense.dptr_);
    ForEachRow(rows, width, [&](index_t i) {
      is_stored[At(i)] = AnyBits<U>(elements + i * width, width, mask);
    });
  });
  std::vector<int64_t> found;
  for (index_t i = 0; i < rows; ++i) {
    if (is_stored[At(i)] != 0) found.push_back(i);
  }
  return found;
}

void DenseToCsr(const TBlob& dense, SparseBlob* to) {
  const index_t rows = to->shape[0], columns = to->shape[1];
  std::vector<int64_t> ends(At(rows) + 1, 0);
  WithBits(dense.type_flag_, [&](auto zero, auto mask) {
    using U = decltype(zero);
    const U* const elements = static_cast<const U*>(dense.dptr_);
    ForEachRow(rows, columns, [&](index_t i) {
      int64_t count = 0;
      for (index_t j = 0; j < columns; ++j) count += (elements[i * columns + j] & mask) != 0;
      ends[At(i) + 1] = count;
    });
    std::partial_sum(ends.begin(), ends.end(), ends.begin());
    to->Allocate(ends.back());
    std::copy(ends.begin(), ends.end(), to->indptr.begin());
    const Elements source(dense), target(to->values);
    ForEachRow(rows, columns, [&](index_t i) {
      index_t k = ends[At(i)];
      for (index_t j = 0; j < columns; ++j) {
        if ((elements[i * columns + j] & mask) == 0) continue;
        to->indices[At(k)] = j;
        CopyElements(source.At(i * columns + j), source.dtype, 1, /*add=*/false, target.At(k),
                     target.dtype);
        ++k;
      }
    });
  });
}

void ToSparse(const SparseBlob& dense, SparseBlob* to) {
  if (to->storage == StorageType::kCsr) return DenseToCsr(dense.values, to);
  GatherRowSparse(dense.values, NonzeroRows(dense.values, to->shape[0], to->width()), to);
}

void ToDense(const SparseBlob& from, OpReqType req, const TBlob& dense) {
  if (req != kAddTo) FillZeros(dense);
  const Elements source(from.values), target(dense);
  const index_t width = from.width();
  if (from.storage == StorageType::kRowSparse) {
    ForEachRow(from.count(), width, [&](index_t i) {
      CopyElements(source.At(i * width), source.dtype, width, req == kAddTo,
                   target.At(from.indices[At(i)] * width), target.dtype);
    });
    return;
  }
  const index_t rows = from.shape[0];
  ForEachRow(rows, rows == 0 ? 1 : from.count() / rows + 1, [&](index_t i) {
    for (int64_t k = from.indptr[At(i)]; k < from.indptr[At(i + 1)]; ++k) {
      CopyElements(source.At(k), source.dtype, 1, req == kAddTo,
                   target.At(i * width + from.indices[At(k)]), target.dtype);
    }
  });
}

void CopySame(const SparseBlob& from, SparseBlob* to) {
  const index_t count = from.count();
  to->Allocate(count);
  std::copy(from.indices.begin(), from.indices.end(), to->indices.begin());
  std::copy(from.indptr.begin(), from.indptr.end(), to->indptr.begin());
  CopyConverted(from.values, to->values);
}

/// Adds an array to another one of its storage type.
void AddSame(const SparseBlob& from, SparseBlob* to) {
  const SparseBlob old = *to;
  std::vector<MergedIndex> terms;
  std::vector<int64_t> ends;
  const auto add = [&terms](const MergedIndex& each) { terms.push_back(each); };
  index_t width = 1;
  if (to->storage == StorageType::kRowSparse) {
    width = to->width();
    MergeIndices(old.indices, 0, old.count(), from.indices, 0, from.count(), add);
  } else {
    ends.push_back(0);
    for (index_t i = 0; i < to->shape[0]; ++i) {
      MergeIndices(old.indices, old.indptr[At(i)], old.indptr[At(i + 1)], from.indices,
                   from.indptr[At(i)], from.indptr[At(i + 1)], add);
      ends.push_back(static_cast<int64_t>(terms.size()));
    }
  }
  to->Allocate(static_cast<index_t>(terms.size()));
  std::copy(ends.begin(), ends.end(), to->indptr.begin());
  const Elements first(old.values), second(from.values), sum(to->values);
  ForEachRow(to->count(), width, [&](index_t i) {
    const MergedIndex& each = terms[At(i)];
    to->indices[At(i)] = each.index;
    if (each.a >= 0) {
      CopyElements(first.At(each.a * width), first.dtype, width, /*add=*/false, sum.At(i * width),
                   sum.dtype);
    }
    if (each.b >= 0) {
      CopyElements(second.At(each.b * width), second.dtype, width, /*add=*/each.a >= 0,
                   sum.At(i * width), sum.dtype);
    }
  });
}

/// Sums rows in type T, that of their elements if `direct`.
template <typename T>
class RowAdder {
 public:
  RowAdder(DType dtype, index_t width) : dtype_(dtype), width_(width) {}

  /// Writes the sum of the rows numbers[0], numbers[1], … of `from`; there is one at least.
  void Sum(const Elements& from, std::span<const int64_t> numbers, char* to) {
    if (numbers.size() == 1 || dtype_ == kDTypeOf<T>) {
      bool add = false;
      for (const int64_t number : numbers) {
        CopyElements(from.At(number * width_), dtype_, width_, std::exchange(add, true), to,
                     dtype_);
      }
      return;
    }
    sum_.assign(At(width_), T(0));
    row_.resize(At(width_));
    for (const int64_t number : numbers) {
      LoadRow(from.At(number * width_), dtype_, 1, width_, row_.data());
      for (index_t j = 0; j < width_; ++j) sum_[At(j)] = Add(sum_[At(j)], row_[At(j)]);
    }
    StoreRow(sum_.data(), width_, /*add=*/false, dtype_, to);
  }

 private:
  static T Add(T a, T b) {
    if constexpr (std::is_integral_v<T>) {
      return static_cast<T>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
    } else {
      return a + b;
    }
  }

  const DType dtype_;
  const index_t width_;
  std::vector<T> sum_, row_;
};

/// Computes row i of `to` as the sum of the rows numbers[begins[i], begins[i + 1]) of `from`.
template <typename T>
void SumGroups(const TBlob& from, std::span<const int64_t> numbers, std::span<const int64_t> begins,
               index_t width, const TBlob& to) {
  const Elements source(from), target(to);
  const auto count = static_cast<index_t>(begins.size()) - 1;
  const index_t work = width * (static_cast<index_t>(numbers.size()) / std::max<index_t>(1, count));
  ParallelFor(count, StepsPerTask(work), [&](index_t begin, index_t end) {
    RowAdder<T> adder(from.type_flag_, width);
    for (index_t i = begin; i < end; ++i) {
      const auto first = At(begins[At(i)]), last = At(begins[At(i) + 1]);
      adder.Sum(source, numbers.subspan(first, last - first), target.At(i * width));
    }
  });
}

std::vector<int64_t> ReadAll(const Positions& positions) {
  std::vector<int64_t> all(At(positions.count()));
  ParallelFor(positions.count(), StepsPerTask(1), [&](index_t begin, index_t end) {
    positions.Read(begin, end - begin, all.data() + begin);
  });
  return all;
}

}  // namespace

bool CanCopyParts(StorageType from, StorageType to) {
  return from == to || from == StorageType::kDefault || to == StorageType::kDefault;
}

void CopyParts(const SparseBlob& from, OpReqType req, SparseBlob* to) {
  if (req == kNullOp) return;
  if (!CanCopyParts(from.storage, to->storage)) {
    throw Unimplemented("a ", from.storage, " array cannot become a ", to->storage,
                        " array; expected a dense one between them");
  }
  if (to->storage == StorageType::kDefault) {
    ToDense(from, req, to->values);
  } else if (req != kAddTo) {
    from.storage == StorageType::kDefault ? ToSparse(from, to) : CopySame(from, to);
  } else if (from.storage == to->storage) {
    AddSame(from, to);
  } else {
    LocalParts parts;
    SparseBlob term{.storage = to->storage,
                    .shape = to->shape,
                    .values = TBlob(nullptr, TShape{0}, from.values.type_flag_, Device::Cpu()),
                    .allocator = &parts};
    ToSparse(from, &term);
    AddSame(term, to);
  }
}

DenseCopy::DenseCopy(const TShape& shape, DType dtype)
    : memory_(std::make_unique_for_overwrite<char[]>(At(shape.Size() * DTypeSizeBytes(dtype)))),
      blob_{.shape = shape, .values = TBlob(memory_.get(), shape, dtype, Device::Cpu())} {}

DenseCopy::DenseCopy(const SparseBlob& array) : DenseCopy(array.shape, array.values.type_flag_) {
  CopyParts(array, kWriteTo, &blob_);
}

void CopyConverted(const TBlob& from, const TBlob& to) {
  const Elements source(from), target(to);
  ParallelFor(to.Size(), StepsPerTask(1), [&](index_t begin, index_t end) {
    CopyElements(source.At(begin), source.dtype, end - begin, /*add=*/false, target.At(begin),
                 target.dtype);
  });
}

void ClearParts(SparseBlob* to) {
  to->Allocate(0);
  std::fill(to->indptr.begin(), to->indptr.end(), 0);
}

void StoreAllRows(SparseBlob* array) {
  const SparseBlob old = *array;
  const index_t rows = array->shape[0], width = array->width();
  if (old.count() == rows) return;
  array->Allocate(rows);
  std::iota(array->indices.begin(), array->indices.end(), int64_t{0});
  FillZeros(array->values);
  const Elements source(old.values), target(array->values);
  ForEachRow(old.count(), width, [&](index_t i) {
    CopyElements(source.At(i * width), source.dtype, width, /*add=*/false,
                 target.At(old.indices[At(i)] * width), target.dtype);
  });
}

void ReadIndices(const TBlob& from, std::span<int64_t> to) {
  LoadIndices(from.dptr_, from.type_flag_, static_cast<index_t>(to.size()), to.data());
}

std::vector<int64_t> SortedRows(const Positions& positions) {
  std::vector<int64_t> rows = ReadAll(positions);
  std::sort(rows.begin(), rows.end());
  rows.erase(std::unique(rows.begin(), rows.end()), rows.end());
  return rows;
}

void RetainRows(const SparseBlob& from, std::span<const int64_t> rows, SparseBlob* to) {
  // The call may write the array that it reads.
  const SparseBlob source = from;
  to->Allocate(static_cast<index_t>(rows.size()));
  std::copy(rows.begin(), rows.end(), to->indices.begin());
  CopyStoredRows(source, rows, kWriteTo, to->values);
}

void GatherStoredRows(const Positions& positions, const SparseBlob& from, const TBlob& to,
                      OpReqType req) {
  if (req != kNullOp) CopyStoredRows(from, ReadAll(positions), req, to);
}

void GatherRowSparse(const TBlob& from, std::span<const int64_t> rows, SparseBlob* to) {
  to->Allocate(static_cast<index_t>(rows.size()));
  std::copy(rows.begin(), rows.end(), to->indices.begin());
  CopyRows(
      from, to->count(), to->width(), [&](index_t i) { return rows[At(i)]; }, to->values);
}

void SumRowSparse(const Positions& positions, const TBlob& from, SparseBlob* to) {
  const std::vector<int64_t> all = ReadAll(positions);
  // The numbers of the rows of `from`, those of one position together and in their order.
  std::vector<int64_t> numbers(all.size());
  std::iota(numbers.begin(), numbers.end(), int64_t{0});
  std::sort(numbers.begin(), numbers.end(), [&all](int64_t a, int64_t b) {
    return all[At(a)] != all[At(b)] ? all[At(a)] < all[At(b)] : a < b;
  });
  std::vector<int64_t> begins;
  for (size_t i = 0; i < numbers.size(); ++i) {
    if (i == 0 || all[At(numbers[i])] != all[At(numbers[i - 1])]) {
      begins.push_back(static_cast<int64_t>(i));
    }
  }
  to->Allocate(static_cast<index_t>(begins.size()));
  for (size_t i = 0; i < begins.size(); ++i) to->indices[i] = all[At(numbers[At(begins[i])])];
  begins.push_back(static_cast<int64_t>(numbers.size()));
  switch (from.type_flag_) {
    case DType::kFloat64:
      return SumGroups<double>(from, numbers, begins, to->width(), to->values);
    case DType::kFloat32:
    case DType::kFloat16:
    case DType::kBFloat16:
      return SumGroups<float>(from, numbers, begins, to->width(), to->values);
    default:
      return SumGroups<int64_t>(from, numbers, begins, to->width(), to->values);
  }
}

void TakeCsrRows(const Positions& positions, const SparseBlob& from, SparseBlob* to) {
  const SparseBlob source = from;
  const std::vector<int64_t> rows = ReadAll(positions);
  std::vector<int64_t> ends = {0};
  for (const int64_t row : rows) {
    ends.push_back(ends.back() + source.indptr[At(row + 1)] - source.indptr[At(row)]);
  }
  to->Allocate(ends.back());
  std::copy(ends.begin(), ends.end(), to->indptr.begin());
  const Elements elements(source.values), target(to->values);
  const auto count = static_cast<index_t>(rows.size());
  ForEachRow(count, count == 0 ? 1 : ends.back() / count + 1, [&](index_t i) {
    const int64_t begin = source.indptr[At(rows[At(i)])];
    const index_t n = ends[At(i + 1)] - ends[At(i)];
    std::copy_n(source.indices.begin() + begin, n, to->indices.begin() + ends[At(i)]);
    CopyElements(elements.At(begin), elements.dtype, n, /*add=*/false, target.At(ends[At(i)]),
                 target.dtype);
  });
}

void SliceCsr(const SparseBlob& from, index_t row_begin, index_t row_end, index_t column_begin,
              index_t column_end, SparseBlob* to) {
  const SparseBlob source = from;
  const index_t rows = row_end - row_begin;
  std::vector<int64_t> firsts(At(rows)), ends(At(rows) + 1, 0);
  ForEachRow(rows, kBlock, [&](index_t i) {
    const auto begin = source.indices.begin() + source.indptr[At(row_begin + i)];
    const auto end = source.indices.begin() + source.indptr[At(row_begin + i + 1)];
    const auto first = std::lower_bound(begin, end, column_begin);
    firsts[At(i)] = first - source.indices.begin();
    ends[At(i) + 1] = std::lower_bound(first, end, column_end) - first;
  });
  std::partial_sum(ends.begin(), ends.end(), ends.begin());
  to->Allocate(ends.back());
  std::copy(ends.begin(), ends.end(), to->indptr.begin());
  const Elements elements(source.values), target(to->values);
  ForEachRow(rows, rows == 0 ? 1 : ends.back() / rows + 1, [&](index_t i) {
    const index_t n = ends[At(i) + 1] - ends[At(i)];
    for (index_t k = 0; k < n; ++k) {
      to->indices[At(ends[At(i)] + k)] = source.indices[At(firsts[At(i)] + k)] - column_begin;
    }
    CopyElements(elements.At(firsts[At(i)]), elements.dtype, n, /*add=*/false,
                 target.At(ends[At(i)]), target.dtype);
  });
}

bool HasSortedColumns(const SparseBlob& csr) {
  std::atomic<bool> is_sorted = true;
  ForEachRow(csr.shape[0], kBlock, [&](index_t i) {
    const auto begin = csr.indices.begin() + csr.indptr[At(i)];
    const auto end = csr.indices.begin() + csr.indptr[At(i + 1)];
    // Relaxed: the loop's end makes it visible.
    if (!std::is_sorted(begin, end)) is_sorted.store(false, std::memory_order_relaxed);
  });
  return is_sorted;
}

void SortColumns(const SparseBlob& from, SparseBlob* to) {
  std::copy(from.indptr.begin(), from.indptr.end(), to->indptr.begin());
  const Elements source(from.values), target(to->values);
  ForEachRow(from.shape[0], kBlock, [&](index_t i) {
    const int64_t begin = from.indptr[At(i)], end = from.indptr[At(i + 1)];
    std::vector<int64_t> order(At(end - begin));
    std::iota(order.begin(), order.end(), begin);
    std::stable_sort(order.begin(), order.end(), [&from](int64_t a, int64_t b) {
      return from.indices[At(a)] < from.indices[At(b)];
    });
    for (int64_t k = begin; k < end; ++k) {
      const int64_t place = order[At(k - begin)];
      to->indices[At(k)] = from.indices[At(place)];
      CopyElements(source.At(place), source.dtype, 1, /*add=*/false, target.At(k), target.dtype);
    }
  });
}

void ConcatCsr(std::span<const SparseBlob> parts, SparseBlob* to) {
  index_t count = 0;
  for (const SparseBlob& part : parts) count += part.count();
  to->Allocate(count);
  to->indptr[0] = 0;
  const Elements target(to->values);
  index_t row = 0, first = 0;  // of the part
  for (const SparseBlob& part : parts) {
    const Elements source(part.values);
    ParallelFor(part.count(), StepsPerTask(1), [&](index_t begin, index_t end) {
      std::copy(part.indices.begin() + begin, part.indices.begin() + end,
                to->indices.begin() + first + begin);
      CopyElements(source.At(begin), source.dtype, end - begin, /*add=*/false,
                   target.At(first + begin), target.dtype);
    });
    for (index_t i = 1; i <= part.shape[0]; ++i) {
      to->indptr[At(row + i)] = first + part.indptr[At(i)];
    }
    row += part.shape[0];
    first += part.count();
  }
}

}  // namespace tessera::ops_internal
