#include "tessera/ops/loops/map.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <type_traits>

#include "tessera/base/at.h"
#include "tessera/base/error.h"
#include "tessera/ops/loops/convert_row.h"
#include "tessera/ops/loops/strided_walk.h"
#include "tessera/ops/loops/typed_row.h"
#include "tessera/tensor/device/parallel.h"

namespace tessera::ops_internal {
namespace {

using base_internal::At;
using tensor_internal::ParallelForLines;
using tensor_internal::TaskPlan;

// The elements that are converted or gathered at a time. The blocks of all operands and of the
// output stay within the first cache.
constexpr index_t kBlock = 512;

template <typename T>
RowFunction<T> RowOf(const MapFunction& function) {
  if constexpr (std::is_same_v<T, float>) return function.of_float;
  if constexpr (std::is_same_v<T, double>) return function.of_double;
  if constexpr (std::is_same_v<T, int32_t>) return function.of_int32;
  if constexpr (std::is_same_v<T, int64_t>) return function.of_int64;
}

/// Returns whether the operand's elements lie in the order of the output's.
bool IsDense(const MapArguments& arguments, const MapOperand& operand) {
  index_t stride = 1;
  for (int d = arguments.num_dims - 1; d >= 0; --d) {
    if (arguments.extents[At(d)] != 1 && operand.strides[At(d)] != stride) return false;
    stride *= arguments.extents[At(d)];
  }
  return true;
}

/// Reads elements [begin, begin + n) of an operand, in the output's order, into `out`.
template <typename T>
void Gather(const MapArguments& arguments, const MapOperand& operand, const RowReader<T>& reader,
            index_t begin, index_t n, T* out) {
  const int last = arguments.num_dims - 1;
  const index_t extent = arguments.extents[At(last)], stride = operand.strides[At(last)];
  StridedWalk<> row(last, arguments.extents.data(), {operand.strides.data()}, begin / extent);
  for (index_t first = begin % extent; n > 0; first = 0, row.Next()) {
    const index_t run = std::min(n, extent - first);
    reader.Copy(row.offset() + first * stride, run, out, stride);
    out += run;
    n -= run;
  }
}

/// Runs a map whose elements are computed in T.
template <typename T>
class CpuMap {
 public:
  CpuMap(RowFunction<T> row, const MapArguments& arguments)
      : row_(row),
        arguments_(arguments),
        out_(arguments.out, arguments.out_type, arguments.req),
        direct_(out_.is_direct()) {
    for (int i = 0; i < arguments.num_operands; ++i) {
      const MapOperand& operand = arguments.operands[At(i)];
      in_[At(i)] = RowReader<T>(operand.data, operand.dtype);
      is_number_[At(i)] = operand.data == nullptr;
      is_dense_[At(i)] = !is_number_[At(i)] && IsDense(arguments, operand);
      direct_ = direct_ && is_dense_[At(i)] && in_[At(i)].is_direct();
    }
  }

  void Run(index_t begin, index_t end) const {
    if (direct_) {
      const T* in[kMaxMapOperands];
      for (int i = 0; i < arguments_.num_operands; ++i) {
        in[i] = in_[At(i)].Read(begin, end - begin, nullptr);
      }
      row_(in, out_.Out(begin, nullptr), end - begin);
      return;
    }
    RunInBlocks(begin, end);
  }

 private:
  void RunInBlocks(index_t begin, index_t end) const {
    alignas(64) T blocks[kMaxMapOperands][kBlock];
    alignas(64) T result[kBlock];
    for (int i = 0; i < arguments_.num_operands; ++i) {
      if (!is_number_[At(i)]) continue;
      const index_t count = std::min(kBlock, end - begin);
      std::fill_n(blocks[i], count, arguments_.operands[At(i)].number.As<T>());
    }
    for (index_t first = begin; first < end; first += kBlock) {
      const index_t n = std::min(kBlock, end - first);
      const T* in[kMaxMapOperands];
      for (int i = 0; i < arguments_.num_operands; ++i) {
        in[i] = blocks[i];
        if (is_dense_[At(i)]) {
          in[i] = in_[At(i)].Read(first, n, blocks[i]);
        } else if (!is_number_[At(i)]) {
          Gather(arguments_, arguments_.operands[At(i)], in_[At(i)], first, n, blocks[i]);
        }
      }
      T* const out = out_.Out(first, result);
      row_(in, out, n);
      out_.Write(first, n, out);
    }
  }

  const RowFunction<T> row_;
  const MapArguments& arguments_;
  const RowWriter<T> out_;
  bool direct_;  // whether all arrays are dense ones of T, and the output is overwritten
  std::array<RowReader<T>, kMaxMapOperands> in_{};
  std::array<bool, kMaxMapOperands> is_number_{};
  std::array<bool, kMaxMapOperands> is_dense_{};
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

void MapCall::Run(const MapFunction& function, const OpContext& context) {
  DType dtype = arguments_.out_type;
  for (int i = arguments_.num_operands - 1; i >= 0; --i) {
    const MapOperand& operand = arguments_.operands[At(i)];
    if (operand.data != nullptr) dtype = operand.dtype;
  }
  DType computed_in = ComputedIn(function, dtype);
  if (!IsReal(computed_in)) {
    for (int i = 0; i < arguments_.num_operands; ++i) {
      MapOperand& operand = arguments_.operands[At(i)];
      if (operand.data != nullptr) continue;
      computed_in = Widened(computed_in, function.numbers, dtype, &operand.number);
    }
  }
  Run(function, computed_in, context);
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
