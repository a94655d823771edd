#include "tessera/ops/elemwise/fused/fused_map_call.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <memory>
#include <type_traits>

#include "tessera/base/error.h"
#include "tessera/ops/loops/convert_row.h"
#include "tessera/ops/loops/map.h"
#include "tessera/ops/loops/strided_walk.h"
#include "tessera/tensor/device/copy_bytes.h"
#include "tessera/tensor/device/parallel.h"

namespace tessera::ops_internal {
namespace {

using base_internal::At;
using tensor_internal::Stores;
using Kind = FusedMap::Operand::Kind;

constexpr index_t kCacheLineBytes = 64;
// A range of a cheap loop's length costs little beside its work. It may be as long as that if there
// are this many ranges, which suffice to keep all threads busy.
constexpr index_t kManyRanges = 64;

/// Copies n elements, `stride` elements apart, whose bytes are those of Bits.
template <typename Bits>
void CopyElements(const char* from, index_t stride, index_t n, char* to) {
  for (index_t i = 0; i < n; ++i) {
    std::memcpy(to + i * index_t{sizeof(Bits)}, from + i * stride * index_t{sizeof(Bits)},
                sizeof(Bits));
  }
}

/// Reads the elements of a broadcast input in the order of the map's shape.
class BroadcastReader {
 public:
  BroadcastReader(const MapBroadcast& broadcast, const void* data, DType dtype, index_t begin)
      : data_(static_cast<const char*>(data)),
        size_(DTypeSizeBytes(dtype)),
        extent_(broadcast.extents[At(broadcast.num_dims - 1)]),
        stride_(broadcast.strides[At(broadcast.num_dims - 1)]),
        first_(begin % extent_),
        row_(broadcast.num_dims - 1, broadcast.extents.data(), {broadcast.strides.data()},
             begin / extent_) {}

  /// Writes the next n elements to `out`.
  void Read(index_t n, char* out) {
    while (n > 0) {
      const index_t run = std::min(n, extent_ - first_);
      const char* const from = data_ + (row_.offset() + first_ * stride_) * size_;
      if (stride_ == 1) {
        std::memcpy(out, from, At(run * size_));
      } else {
        Copy(from, run, out);
      }
      out += run * size_;
      n -= run;
      first_ += run;
      if (first_ == extent_) {
        first_ = 0;
        row_.Next();
      }
    }
  }

 private:
  void Copy(const char* from, index_t n, char* to) const {
    switch (size_) {
      case 1:
        return CopyElements<uint8_t>(from, stride_, n, to);
      case 2:
        return CopyElements<uint16_t>(from, stride_, n, to);
      case 4:
        return CopyElements<uint32_t>(from, stride_, n, to);
      default:
        return CopyElements<uint64_t>(from, stride_, n, to);
    }
  }

  const char* const data_;
  const index_t size_;
  const index_t extent_, stride_;
  index_t first_;  // the position in the row
  StridedWalk<> row_;
};

template <typename T>
RowFunction<T> RowOf(const MapFunction& function) {
  if constexpr (std::is_same_v<T, float>) return function.of_float;
  if constexpr (std::is_same_v<T, double>) return function.of_double;
  if constexpr (std::is_same_v<T, int32_t>) return function.of_int32;
  if constexpr (std::is_same_v<T, int64_t>) return function.of_int64;
}

/// Calls function(T()) with the type in which something is computed.
template <typename Function>
void VisitComputed(DType computed_in, const Function& function) {
  switch (computed_in) {
    case DType::kFloat32:
      return function(float());
    case DType::kFloat64:
      return function(double());
    case DType::kInt32:
      return function(int32_t());
    case DType::kInt64:
      return function(int64_t());
    default:
      throw Internal("FusedMap: nothing is computed in ", computed_in);
  }
}

}  // namespace

static_assert(FusedMap::kMaxStages <= 32, "a call has a bit for each stage");

struct FusedMapCall::Range {
  explicit Range(index_t num_elements) : n(num_elements) {}

  index_t first = 0;                                      // of the block
  index_t n;                                              // the elements of the block
  std::array<const void*, FusedMap::kMaxInputs> inputs;   // the block's elements
  std::array<const void*, FusedMap::kMaxStages> results;  // likewise, where they are kept
  std::array<std::optional<BroadcastReader>, FusedMap::kMaxInputs> readers;
  alignas(kCacheLineBytes) char scratch[kMapScratchBytes];
};

char* FusedMapCall::Slot(Range* range, int slot) const {
  return range->scratch + slot * map_.slot_bytes_;
}

FusedMapCall::FusedMapCall(const ReadyMap& map, std::span<const TBlob> inputs,
                           std::span<const OpReqType> req, std::span<const TBlob> outputs)
    : map_(map), inputs_(inputs), req_(req), outputs_(outputs) {
  index_t read_bytes = 0;
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (!map.IsBroadcast(static_cast<int>(i))) {
      read_bytes += map.size_ * DTypeSizeBytes(inputs[i].type_flag_);
    }
  }
  if (map.row_operator_ != nullptr && map.size_ > 0 && req[At(map.rows_.output)] != kNullOp) {
    PrepareRows();
  }
  const int row_stage = map.RowStage();
  for (size_t i = map.stages_.size(); i-- > 0;) {
    const ReadyStage& stage = map.stages_[i];
    if (stage.output != kNone && req[At(stage.output)] != kNullOp) {
      needed_ |= uint32_t{1} << i;
      // Rows are read soon.
      if (static_cast<int>(i) != row_stage) stores_[i] = StoresOf(stage, read_bytes);
      streams_ = streams_ || stores_[i] == Stores::kStreamed;
    }
    if (!IsNeeded(i)) continue;
    for (const FusedMap::Operand& operand : stage.operands) {
      if (operand.kind == Kind::kStage) needed_ |= uint32_t{1} << operand.index;
    }
  }
}

void FusedMapCall::Run(const ElementSegments& elements) const {
  ElementSegments segments = elements;
  if (segments.stride == segments.run) {
    segments.run *= segments.count;
    segments.count = 1;
  }
  Range range(std::min(map_.block_, segments.run));
  FillNumbers(&range);
  for (index_t i = 0; i < segments.count; ++i) {
    const index_t begin = segments.first + i * segments.stride;
    RunSegment(begin, begin + segments.run, &range);
  }
  tensor_internal::FinishStores(streams_ ? Stores::kStreamed : Stores::kCached);
}

void FusedMapCall::PrepareRows() {
  const FusedMap::Rows& rows = map_.rows_;
  const index_t num_rows = map_.size_ / map_.RowLength();
  auto* const memory =
      scratch_.emplace().Allocate(num_rows * index_t{sizeof(std::atomic<uint32_t>)});
  num_complete_ = static_cast<std::atomic<uint32_t>*>(memory);
  std::uninitialized_value_construct_n(num_complete_, num_rows);
  row_out_ = outputs_[At(rows.output)];
  if (rows.operand.kind == Kind::kInput) {
    row_in_ = inputs_[At(rows.operand.index)];
    return;
  }
  needed_ |= uint32_t{1} << rows.operand.index;
  const int output = map_.stages_[At(rows.operand.index)].output;
  const bool is_stored = output != kNone && req_[At(output)] != kNullOp;
  row_in_ = is_stored ? outputs_[At(output)] : row_out_;
  if (!is_stored) held_stage_ = rows.operand.index;
}

void FusedMapCall::FinishRows(index_t begin, index_t n) const {
  const index_t length = map_.RowLength(), end = begin + n;
  for (index_t row = begin / length; row * length < end; ++row) {
    const auto count =
        static_cast<uint32_t>(std::min(end, (row + 1) * length) - std::max(begin, row * length));
    // The last of the threads that have parts of a row sees what the others have written before
    // they counted: the additions release, and acquire from each other.
    if (count != length &&
        num_complete_[row].fetch_add(count, std::memory_order_acq_rel) + count != length) {
      continue;
    }
    map_.row_operator_->RunRow(row, row_in_, req_[At(map_.rows_.output)], row_out_);
  }
}

Stores FusedMapCall::StoresOf(const ReadyStage& stage, index_t read_bytes) const {
  const TBlob& output = outputs_[At(stage.output)];
  const OpReqType req = req_[At(stage.output)];
  const bool is_direct = stage.dtype == stage.computed_in && req != kAddTo;
  // Lines that have been read are in the cache.
  const bool is_in_place = std::any_of(inputs_.begin(), inputs_.end(), [&](const TBlob& input) {
    return input.dptr_ == output.dptr_;
  });
  if (!is_direct || is_in_place) return Stores::kCached;
  return tensor_internal::StoresFor(map_.size_ * DTypeSizeBytes(stage.dtype), read_bytes);
}

void FusedMapCall::FillNumbers(Range* range) const {
  for (size_t i = 0; i < map_.numbers_.size(); ++i) {
    char* const slot = Slot(range, map_.number_slots_[i]);
    VisitComputed(map_.numbers_[i].dtype, [&](auto t) {
      using T = decltype(t);
      std::fill_n(reinterpret_cast<T*>(slot), range->n, map_.numbers_[i].number.As<T>());
    });
  }
}

template <typename T>
const T* FusedMapCall::Read(const FusedMap::Operand& operand, int* num_converted,
                            Range* range) const {
  if (operand.kind == Kind::kNumber) {
    return reinterpret_cast<const T*>(Slot(range, operand.index));
  }
  const void* const elements = operand.kind == Kind::kInput ? range->inputs[At(operand.index)]
                                                            : range->results[At(operand.index)];
  const DType dtype = map_.TypeOf(operand);
  if (dtype == kDTypeOf<T>) return static_cast<const T*>(elements);
  T* const converted =
      reinterpret_cast<T*>(Slot(range, map_.first_converted_ + (*num_converted)++));
  LoadRow(elements, dtype, 1, range->n, converted);
  return converted;
}

template <typename T>
inline void FusedMapCall::RunStage(size_t i, Range* range) const {
  const ReadyStage& stage = map_.stages_[i];
  const T* in[kMaxMapOperands];
  int num_converted = 0;
  for (size_t k = 0; k < stage.operands.size(); ++k) {
    in[k] = Read<T>(stage.operands[k], &num_converted, range);
  }
  const index_t n = range->n, size = DTypeSizeBytes(stage.dtype);
  const int target = held_stage_ == static_cast<int>(i) ? map_.rows_.output : stage.output;
  const OpReqType req = target == kNone ? kNullOp : req_[At(target)];
  char* const output = req == kNullOp
                           ? nullptr
                           : static_cast<char*>(outputs_[At(target)].dptr_) + range->first * size;
  // Later stages read results in the output itself, where they have just been written.
  const bool is_kept_there = output != nullptr && req != kAddTo && stores_[i] == Stores::kCached;
  const int slot = map_.stage_slots_[i];
  char* const kept = is_kept_there ? output : slot == kNone ? nullptr : Slot(range, slot);
  const bool is_direct = stage.dtype == kDTypeOf<T> && kept != nullptr;
  T* const row = reinterpret_cast<T*>(is_direct ? kept : Slot(range, map_.result_slot_));
  RowOf<T>(stage.function)(in, row, n);
  if (kept != nullptr && !is_direct) StoreRow(row, n, /*add=*/false, stage.dtype, kept);
  range->results[i] = kept;
  if (output == nullptr || is_kept_there) return;
  if (req == kAddTo) {
    StoreRow(row, n, /*add=*/true, stage.dtype, output);
  } else {
    tensor_internal::CopyBytes(row, output, n * size, stores_[i]);
  }
}

void FusedMapCall::RunSegment(index_t begin, index_t end, Range* range) const {
  if (map_.stages_.empty() && num_complete_ != nullptr) return FinishRows(begin, end - begin);
  range->n = std::min(map_.block_, end - begin);
  for (size_t i = 0; i < inputs_.size(); ++i) {
    if (!map_.broadcasts_[i]) continue;
    char* const slot = Slot(range, map_.input_slots_[i]);
    range->readers[i].emplace(*map_.broadcasts_[i], inputs_[i].dptr_, inputs_[i].type_flag_, begin);
    range->inputs[i] = slot;
    if (map_.is_repeated_[i]) range->readers[i]->Read(range->n, slot);
  }
  for (range->first = begin; range->first < end; range->first += map_.block_) {
    range->n = std::min(map_.block_, end - range->first);
    for (size_t i = 0; i < inputs_.size(); ++i) {
      if (!range->readers[i]) {
        range->inputs[i] = static_cast<const char*>(inputs_[i].dptr_) +
                           range->first * DTypeSizeBytes(inputs_[i].type_flag_);
      } else if (!map_.is_repeated_[i]) {
        range->readers[i]->Read(range->n, Slot(range, map_.input_slots_[i]));
      }
    }
    for (size_t i = 0; i < map_.stages_.size(); ++i) {
      if (!IsNeeded(i)) continue;
      VisitComputed(map_.stages_[i].computed_in, [&](auto t) { RunStage<decltype(t)>(i, range); });
    }
    if (num_complete_ != nullptr) FinishRows(range->first, range->n);
  }
}

void RunMap(const ReadyMap& map, std::span<const TBlob> inputs, std::span<const OpReqType> req,
            std::span<const TBlob> outputs) {
  const auto wanted =
      std::find_if(req.begin(), req.end(), [](OpReqType request) { return request != kNullOp; });
  if (wanted == req.end() || map.size() == 0) return;
  const FusedMapCall call(map, inputs, req, outputs);
  const auto plan = tensor_internal::TaskPlan::Of(map.size(), 1, map.cost() - 1);
  const index_t grain = std::max(plan.grain, std::min(map.size() / kManyRanges, ElementsPerTask()));
  const TBlob& first = outputs[At(wanted - req.begin())];
  tensor_internal::ParallelForLines(
      plan.count, grain, first.dptr_, DTypeSizeBytes(first.type_flag_),
      [&call](index_t begin, index_t end) { call.Run({.first = begin, .run = end - begin}); });
}

}  // namespace tessera::ops_internal
