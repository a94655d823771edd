#include "tessera/ops/loops/map.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <optional>
#include <type_traits>

#include "tessera/base/at.h"
#include "tessera/base/error.h"
#include "tessera/ops/loops/convert_row.h"
#include "tessera/ops/loops/strided_walk.h"
#include "tessera/ops/loops/typed_row.h"
#include "tessera/tensor/device/copy_bytes.h"
#include "tessera/tensor/device/parallel.h"

namespace tessera::ops_internal {
namespace {

using base_internal::At;
using tensor_internal::ParallelForLines;
using tensor_internal::Stores;
using tensor_internal::TaskPlan;

// The elements that are converted or gathered at a time. The blocks of all operands and of the
// output stay within the first cache.
constexpr index_t kBlock = 512;
// Rows from this length on are computed one by one.
constexpr index_t kLongRow = 64;

template <typename T>
RowFunction<T> RowOf(const MapFunction& function) {
  if constexpr (std::is_same_v<T, float>) return function.of_float;
  if constexpr (std::is_same_v<T, double>) return function.of_double;
  if constexpr (std::is_same_v<T, int32_t>) return function.of_int32;
  if constexpr (std::is_same_v<T, int64_t>) return function.of_int64;
}

/// Returns whether the operand's elements lie in the order of the output's.
bool IsDense(const MapArguments& arguments, const MapOperand& operand) {
  if (operand.data == nullptr) return false;
  index_t stride = 1;
  for (int d = arguments.num_dims - 1; d >= 0; --d) {
    if (arguments.extents[At(d)] != 1 && operand.strides[At(d)] != stride) return false;
    stride *= arguments.extents[At(d)];
  }
  return true;
}

/// Returns after how many elements of the output the operand's begin anew: 1 for a number, and the
/// output's size if they never do.
index_t PeriodOf(const MapArguments& arguments, const MapOperand& operand) {
  int d = 0;
  while (d < arguments.num_dims && operand.strides[At(d)] == 0) ++d;
  index_t period = 1;
  for (; d < arguments.num_dims; ++d) period *= arguments.extents[At(d)];
  return period;
}

/// Reads the elements of an operand in the output's order, from element `begin` on.
template <typename T>
class Gatherer {
 public:
  Gatherer(const MapArguments& arguments, const MapOperand& operand, const RowReader<T>& reader,
           index_t begin)
      : reader_(reader),
        extent_(arguments.extents[At(arguments.num_dims - 1)]),
        stride_(operand.strides[At(arguments.num_dims - 1)]),
        first_(begin % extent_),
        row_(arguments.num_dims - 1, arguments.extents.data(), {operand.strides.data()},
             begin / extent_) {}

  /// Writes the next n elements to `out`.
  void Read(index_t n, T* out) {
    while (n > 0) {
      const index_t run = std::min(n, extent_ - first_);
      const index_t offset = row_.offset() + first_ * stride_;
      if (stride_ == 0) {
        std::fill_n(out, run, reader_[offset]);
      } else if (stride_ == 1 && reader_.is_direct()) {
        std::copy_n(reader_.Read(offset, run, nullptr), run, out);
      } else {
        reader_.Copy(offset, run, out, stride_);
      }
      out += run;
      n -= run;
      first_ += run;
      if (first_ == extent_) {
        first_ = 0;
        row_.Next();
      }
    }
  }

 private:
  const RowReader<T>& reader_;
  const index_t extent_, stride_;
  index_t first_;  // the position in the row
  StridedWalk<> row_;
};

/// Runs a map whose elements are computed in T.
template <typename T>
class CpuMap {
 public:
  CpuMap(RowFunction<T> row, const MapArguments& arguments)
      : row_(row),
        arguments_(arguments),
        out_(arguments.out, arguments.out_type, arguments.req),
        stores_(out_.is_direct() ? StoresOf(arguments) : Stores::kCached),
        direct_(out_.is_direct() && stores_ == Stores::kCached) {
    index_t longest = 1;  // of the periods that a block holds
    bool is_periodic = true;
    for (int i = 0; i < arguments.num_operands; ++i) {
      const MapOperand& operand = arguments.operands[At(i)];
      in_[At(i)] = RowReader<T>(operand.data, operand.dtype);
      is_dense_[At(i)] = IsDense(arguments, operand);
      direct_ = direct_ && is_dense_[At(i)] && in_[At(i)].is_direct();
      if (is_dense_[At(i)]) continue;
      const index_t period = PeriodOf(arguments, operand);
      is_repeated_[At(i)] = period <= kBlock;
      if (is_repeated_[At(i)]) longest = std::max(longest, period);
      is_periodic = is_periodic && is_repeated_[At(i)];
    }
    // A shorter period divides a longer one: both are products of the last extents.
    block_ = kBlock / longest * longest;
    in_rows_ = !is_periodic && arguments.extents[At(arguments.num_dims - 1)] >= kLongRow;
  }

  void Run(index_t begin, index_t end) const {
    if (direct_) {
      const T* in[kMaxMapOperands];
      for (int i = 0; i < arguments_.num_operands; ++i) {
        in[i] = in_[At(i)].Read(begin, end - begin, nullptr);
      }
      row_(in, out_.Out(begin, nullptr), end - begin);
    } else if (in_rows_) {
      RunInRows(begin, end);
    } else {
      RunInBlocks(begin, end);
    }
    tensor_internal::FinishStores(stores_);
  }

 private:
  /// The blocks of the operands and of the output.
  struct Blocks {
    alignas(64) T in[kMaxMapOperands][kBlock];
    alignas(64) T out[kBlock];
  };

  /// Returns how an output of elements of T is written.
  static Stores StoresOf(const MapArguments& arguments) {
    const index_t size = arguments.Size();
    index_t read_bytes = 0;
    for (int i = 0; i < arguments.num_operands; ++i) {
      const MapOperand& operand = arguments.operands[At(i)];
      // Lines that have been read are in the cache.
      if (operand.data == arguments.out) return Stores::kCached;
      if (IsDense(arguments, operand)) read_bytes += size * DTypeSizeBytes(operand.dtype);
    }
    return tensor_internal::StoresFor(size * index_t{sizeof(T)}, read_bytes);
  }

  /// Computes n elements from `first` on, by way of `block` if that is needed.
  void Compute(const T* const* in, index_t first, index_t n, T* block) const {
    if (stores_ == Stores::kStreamed) {
      row_(in, block, n);
      tensor_internal::CopyBytes(block, out_.Out(first, nullptr), n * index_t{sizeof(T)}, stores_);
    } else {
      T* const out = out_.Out(first, block);
      row_(in, out, n);
      out_.Write(first, n, out);
    }
  }

  /// Computes blocks of elements, in which operands with short periods stay the same.
  void RunInBlocks(index_t begin, index_t end) const {
    Blocks blocks;
    std::array<std::optional<Gatherer<T>>, kMaxMapOperands> gatherers;
    for (int i = 0; i < arguments_.num_operands; ++i) {
      if (is_dense_[At(i)]) continue;
      const MapOperand& operand = arguments_.operands[At(i)];
      const index_t n = std::min(block_, end - begin);
      if (operand.data == nullptr) {
        std::fill_n(blocks.in[i], n, operand.number.As<T>());
        continue;
      }
      gatherers[At(i)].emplace(arguments_, operand, in_[At(i)], begin);
      if (is_repeated_[At(i)]) gatherers[At(i)]->Read(n, blocks.in[i]);
    }
    for (index_t first = begin; first < end; first += block_) {
      const index_t n = std::min(block_, end - first);
      const T* in[kMaxMapOperands];
      for (int i = 0; i < arguments_.num_operands; ++i) {
        in[i] = blocks.in[i];
        if (is_dense_[At(i)]) {
          in[i] = in_[At(i)].Read(first, n, blocks.in[i]);
        } else if (!is_repeated_[At(i)]) {
          gatherers[At(i)]->Read(n, blocks.in[i]);
        }
      }
      Compute(in, first, n, blocks.out);
    }
  }

  /// Computes pieces of the last dimension's rows. An operand whose elements are adjacent in a row
  /// is read where it is, and one that repeats an element there is written to its block once.
  void RunInRows(index_t begin, index_t end) const {
    const int last = arguments_.num_dims - 1;
    const index_t extent = arguments_.extents[At(last)];
    std::array<const index_t*, kMaxMapOperands> strides;
    for (size_t i = 0; i < strides.size(); ++i) {
      strides[i] = arguments_.operands[i].strides.data();
    }
    StridedWalk<kMaxMapOperands> row(last, arguments_.extents.data(), strides, begin / extent);
    Blocks blocks;
    std::array<Held, kMaxMapOperands> held{};
    for (index_t first = begin % extent; begin < end; first = 0, row.Next()) {
      const index_t run = std::min(end - begin, extent - first);
      for (index_t done = 0; done < run; done += kBlock) {
        const index_t n = std::min(kBlock, run - done);
        const T* in[kMaxMapOperands];
        for (int i = 0; i < arguments_.num_operands; ++i) {
          const index_t stride = strides[At(i)][last];
          const index_t offset = row.offset(At(i)) + (first + done) * stride;
          in[i] = blocks.in[i];
          if (stride == 0) {
            Repeat(i, offset, n, &held[At(i)], blocks.in[i]);
          } else {
            in[i] = in_[At(i)].Read(offset, n, blocks.in[i], stride);
          }
        }
        Compute(in, begin + done, n, blocks.out);
      }
      begin += run;
    }
  }

  /// The element of which a block has copies.
  struct Held {
    index_t offset = 0;
    index_t count = 0;
  };

  /// Makes the block's first n elements copies of the operand's element at `offset`.
  void Repeat(int i, index_t offset, index_t n, Held* held, T* block) const {
    if (held->offset == offset && held->count >= n) return;
    const MapOperand& operand = arguments_.operands[At(i)];
    std::fill_n(block, n, operand.data == nullptr ? operand.number.As<T>() : in_[At(i)][offset]);
    *held = {offset, n};
  }

  const RowFunction<T> row_;
  const MapArguments& arguments_;
  const RowWriter<T> out_;
  const Stores stores_;
  bool direct_;    // whether all arrays are dense ones of T, and the output is overwritten in place
  bool in_rows_;   // whether rows are computed, else blocks
  index_t block_;  // the elements of a block, a multiple of the periods of repeated operands
  std::array<RowReader<T>, kMaxMapOperands> in_{};
  std::array<bool, kMaxMapOperands> is_dense_{};
  std::array<bool, kMaxMapOperands> is_repeated_{};  // whether a block holds the operand's period
};

template <typename T>
void RunIn(const MapFunction& function, const MapArguments& arguments) {
  const RowFunction<T> row = RowOf<T>(function);
  if (row == nullptr) throw Internal("RunMapOnCpu: the function has no row for ", kDTypeOf<T>);
  const CpuMap<T> map(row, arguments);
  const TaskPlan plan = TaskPlan::Of(arguments.Size(), 1, function.cost);
  ParallelForLines(plan.count, plan.grain, arguments.out, DTypeSizeBytes(arguments.out_type),
                   [&map](index_t begin, index_t end) { map.Run(begin, end); });
}

/// Makes `number` what a function of integers of type `dtype` takes. Returns the type in which it
/// is computed: `computed_in`, or a wider one.
DType Widened(DType computed_in, NumberBesideIntegers rule, DType dtype, Number* number) {
  if (rule == NumberBesideIntegers::kSaturate) {
    *number = number->SaturatedTo(dtype);
  } else if (rule == NumberBesideIntegers::kExact && !number->IsInt64()) {
    // The largest elements of int64 are below 2^63, to which they are rounded.
    const bool exceeds = dtype != DType::kUint64 && number->value() >= 0x1p63;
    if (exceeds) *number = std::numeric_limits<double>::infinity();
    return DType::kFloat64;
  }
  *number = number->BitsIn(dtype);
  const bool is_narrow = number->As<int32_t>() == number->As<int64_t>();
  return computed_in == DType::kInt32 && !is_narrow ? DType::kInt64 : computed_in;
}

}  // namespace

index_t MapArguments::Size() const {
  index_t size = 1;
  for (int d = 0; d < num_dims; ++d) {
    if (extents[At(d)] == 0) return 0;
  }
  for (int d = 0; d < num_dims; ++d) size *= extents[At(d)];
  return size;
}

MapCall::MapCall(const TBlob& out, OpReqType req) : device_(out.device_) {
  arguments_.out = out.dptr_;
  arguments_.out_type = out.type_flag_;
  arguments_.req = req;
  if (req == kNullOp) return;  // the blob may be empty
  arguments_.num_dims = out.shape_.ndim();
  for (int d = 0; d < out.shape_.ndim(); ++d) arguments_.extents[At(d)] = out.shape_[d];
}

MapCall& MapCall::Add(const TBlob& operand) {
  MapOperand& added = arguments_.operands[At(arguments_.num_operands++)];
  added.data = operand.dptr_;
  added.dtype = operand.type_flag_;
  const int missing = arguments_.num_dims - operand.shape_.ndim();
  // An empty array's other extents may have a product beyond 63 bits.
  index_t stride = operand.shape_.Size() == 0 ? 0 : 1;
  for (int d = operand.shape_.ndim() - 1; d >= 0 && d + missing >= 0; --d) {
    if (operand.shape_[d] != 1) added.strides[At(d + missing)] = stride;
    stride *= operand.shape_[d];
  }
  return *this;
}

MapCall& MapCall::Add(const Number& number) {
  arguments_.operands[At(arguments_.num_operands++)].number = number;
  return *this;
}

void MapCall::MergeDimensions() {
  MapArguments& a = arguments_;
  index_t* strides[kMaxMapOperands];
  const std::span lists(strides, At(a.num_operands));
  for (size_t i = 0; i < lists.size(); ++i) lists[i] = a.operands[i].strides.data();
  a.num_dims = ops_internal::MergeDimensions(a.num_dims, a.extents.data(), lists);
  if (a.num_dims > 0) return;
  // One element.
  a.num_dims = 1;
  a.extents[0] = 1;
  for (index_t* const list : lists) list[0] = 0;
}

DType ComputedIn(const MapFunction& function, DType dtype) {
  switch (dtype) {
    case DType::kFloat64:
      return DType::kFloat64;
    case DType::kFloat32:
    case DType::kFloat16:
    case DType::kBFloat16:
      return DType::kFloat32;
    case DType::kInt64:
    case DType::kUint64:
    case DType::kUint32:
      return function.of_int64 != nullptr ? DType::kInt64 : DType::kFloat64;
    case DType::kInt32:
      return function.of_int32 != nullptr ? DType::kInt32 : DType::kFloat64;
    default:
      return function.of_int32 != nullptr ? DType::kInt32 : DType::kFloat32;
  }
}

DType ComputedIn(const MapFunction& function, DType dtype, std::span<Number* const> numbers) {
  DType computed_in = ComputedIn(function, dtype);
  if (IsReal(computed_in)) return computed_in;
  for (Number* const number : numbers) {
    computed_in = Widened(computed_in, function.numbers, dtype, number);
  }
  return computed_in;
}

void MapCall::Run(const MapFunction& function, const OpContext& context) {
  DType dtype = arguments_.out_type;
  Number* numbers[kMaxMapOperands];
  size_t num_numbers = 0;
  for (int i = arguments_.num_operands - 1; i >= 0; --i) {
    MapOperand& operand = arguments_.operands[At(i)];
    if (operand.data != nullptr) {
      dtype = operand.dtype;
    } else {
      numbers[num_numbers++] = &operand.number;
    }
  }
  Run(function, ComputedIn(function, dtype, {numbers, num_numbers}), context);
}

void MapCall::Run(const MapFunction& function, DType computed_in, const OpContext& context) {
  if (arguments_.req == kNullOp || arguments_.Size() == 0) return;
  TESSERA_DCHECK(arguments_.num_operands == function.num_operands);
  MergeDimensions();
  if (device_.dev_mask() == gpu::kDevMask) {
    function.launch(arguments_, computed_in, context.get_stream<gpu>());
  } else {
    RunMapOnCpu(function, arguments_, computed_in);
  }
}

void RunMapOnCpu(const MapFunction& function, const MapArguments& arguments, DType computed_in) {
  switch (computed_in) {
    case DType::kFloat32:
      return RunIn<float>(function, arguments);
    case DType::kFloat64:
      return RunIn<double>(function, arguments);
    case DType::kInt32:
      return RunIn<int32_t>(function, arguments);
    case DType::kInt64:
      return RunIn<int64_t>(function, arguments);
    default:
      throw Internal("RunMapOnCpu: nothing is computed in ", computed_in);
  }
}

}  // namespace tessera::ops_internal
