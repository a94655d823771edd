#include "tessera/ops/elemwise/fused/fused_map.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <type_traits>
#include <utility>

#include "tessera/base/at.h"
#include "tessera/base/error.h"
#include "tessera/base/shape.h"
#include "tessera/ops/epilogue.h"
#include "tessera/ops/loops/convert_row.h"
#include "tessera/ops/loops/map.h"
#include "tessera/ops/loops/map_pairs.h"
#include "tessera/ops/loops/strided_walk.h"
#include "tessera/ops/row_operator.h"
#include "tessera/tensor/device/copy_bytes.h"
#include "tessera/tensor/device/parallel.h"
#include "tessera/tensor/device/scratch.h"

namespace tessera {
namespace {

using base_internal::At;
using ops_internal::FindMapPair;
using ops_internal::kMaxMapOperands;
using ops_internal::LoadRow;
using ops_internal::MapFunction;
using ops_internal::MapKind;
using ops_internal::RowFunction;
using ops_internal::StoreRow;
using ops_internal::StridedWalk;
using tensor_internal::Stores;
using Kind = FusedMap::Operand::Kind;

constexpr int kNone = -1;
constexpr index_t kCacheLineBytes = 64;
// The blocks of a call. The first cache, of 32 KiB or more, also holds lines of the inputs and of
// the outputs.
constexpr index_t kScratchBytes = index_t{24} << 10;
// Longer blocks would not make a stage's call noticeably cheaper for each element.
constexpr index_t kMaxBlockBytes = index_t{8} << 10;
// A range of a cheap loop's length costs little beside its work. It may be as long as that if there
// are this many ranges, which suffice to keep all threads busy.
constexpr index_t kManyRanges = 64;
// What an operator on rows costs an element, in cheap loops: that of exp, and a few further ones.
constexpr index_t kRowCost = 8;

/// Returns, for each stage, the last stage that reads its results, or kNone.
std::vector<int> LastReaders(const std::vector<FusedMap::Stage>& stages) {
  std::vector<int> last(stages.size(), kNone);
  for (size_t i = 0; i < stages.size(); ++i) {
    for (const FusedMap::Operand& operand : stages[i].operands) {
      if (operand.kind == Kind::kStage) last[At(operand.index)] = static_cast<int>(i);
    }
  }
  return last;
}

/// Gives a block to each stage that a later one reads; kNone to the others. A stage may write the
/// block of an operand that it reads last. Returns the number of blocks.
int AssignBlocks(const std::vector<FusedMap::Stage>& stages, std::vector<int>* block_of) {
  const std::vector<int> last = LastReaders(stages);
  block_of->assign(stages.size(), kNone);
  std::vector<int> idle;
  int num_blocks = 0;
  for (size_t i = 0; i < stages.size(); ++i) {
    for (const FusedMap::Operand& operand : stages[i].operands) {
      if (operand.kind != Kind::kStage || last[At(operand.index)] != static_cast<int>(i)) continue;
      const int block = (*block_of)[At(operand.index)];
      // An operand may be listed twice.
      if (std::find(idle.begin(), idle.end(), block) == idle.end()) idle.push_back(block);
    }
    if (last[i] == kNone) continue;
    if (idle.empty()) idle.push_back(num_blocks++);
    (*block_of)[i] = idle.back();
    idle.pop_back();
  }
  return num_blocks;
}

/// A stage whose function is known by its rows.
struct Stage {
  MapFunction function;
  DType computed_in = DType::kFloat32;
  DType dtype = DType::kFloat32;
  std::vector<FusedMap::Operand> operands;
  int output = kNone;
};

/// An input that is broadcast to the map's shape, whose dimensions are merged.
struct Broadcast {
  int num_dims = 1;
  std::array<index_t, TShape::kMaxRank> extents{};
  std::array<index_t, TShape::kMaxRank> strides{};
  index_t period = 1;  // the elements of the map's shape after which the input's begin anew
};

/// Returns how an array is broadcast to `shape`; nothing if its elements lie in that order.
std::optional<Broadcast> BroadcastTo(const TShape& shape, const TShape& array) {
  if (shape.Size() == 0) return std::nullopt;  // there are no elements to read
  Broadcast broadcast;
  broadcast.num_dims = shape.ndim();
  for (int d = 0; d < shape.ndim(); ++d) broadcast.extents[At(d)] = shape[d];
  index_t stride = 1;
  for (int i = 1; i <= array.ndim(); ++i) {
    const index_t extent = array[array.ndim() - i];
    if (extent != 1) broadcast.strides[At(shape.ndim() - i)] = stride;
    stride *= extent;
  }
  index_t* const strides = broadcast.strides.data();
  broadcast.num_dims =
      ops_internal::MergeDimensions(broadcast.num_dims, broadcast.extents.data(), {&strides, 1});
  if (broadcast.num_dims == 0 || (broadcast.num_dims == 1 && strides[0] == 1)) return std::nullopt;
  int d = 0;
  while (d < broadcast.num_dims && strides[d] == 0) ++d;
  for (; d < broadcast.num_dims; ++d) broadcast.period *= broadcast.extents[At(d)];
  return broadcast;
}

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
  BroadcastReader(const Broadcast& broadcast, const void* data, DType dtype, index_t begin)
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

/// A number as elements of the type in which a stage takes it.
struct NumberBlock {
  Number number;
  DType dtype;

  friend bool operator==(const NumberBlock& a, const NumberBlock& b) {
    return a.number == b.number && a.dtype == b.dtype &&
           std::signbit(a.number.value()) == std::signbit(b.number.value());  // 0 is not -0
  }
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

/// Returns an operator on rows of an array.
std::unique_ptr<Operator> MakeRowOperator(const OperatorProperty& property, const TShape& shape,
                                          DType dtype) {
  return property.CreateOperator(Device::Cpu(), {&shape, 1}, {&dtype, 1});
}

/// A map that is ready to run: types and blocks are chosen, and pairs of stages joined.
///
/// The scratch memory of a range has slots of one size: the blocks of stages, of broadcast inputs
/// and of numbers, then those for converted operands and for a result.
class ReadyMap {
 public:
  explicit ReadyMap(const FusedMap& map)
      : size_(map.shape.Size()), input_types_(map.input_types), shape_(map.shape), rows_(map.rows) {
    std::vector<FusedMap::Stage> stages = map.stages;
    for (FusedMap::Stage& stage : stages) AddStage(map, &stage);
    if (rows_.property != nullptr) {
      operator_ = MakeRowOperator(*rows_.property, shape_, TypeOf(rows_.operand));
      row_operator_ = dynamic_cast<const RowOperator*>(operator_.get());
    }
    JoinPairs();
    PlaceSlots(map);
    FindInplaceOptions();
  }

  const TShape& shape() const { return shape_; }
  const std::vector<Stage>& stages() const { return stages_; }
  bool IsBroadcast(int input) const { return broadcasts_[At(input)].has_value(); }
  std::vector<DType> OutputTypes() const {
    std::vector<DType> types;
    const auto add = [&types](int output, DType dtype) {
      if (output == kNone) return;
      types.resize(std::max(types.size(), At(output) + 1));
      types[At(output)] = dtype;
    };
    for (const Stage& stage : stages_) add(stage.output, stage.dtype);
    if (rows_.property != nullptr) add(rows_.output, TypeOf(rows_.operand));
    return types;
  }

  /// An input whose elements are not read after those of an output have been written.
  struct InplaceOption {
    int input;
    int output;
  };
  const std::vector<InplaceOption>& inplace_options() const { return inplace_options_; }
  /// The result of the function OutputForFirstInput.
  int output_for_first_input() const { return output_for_first_input_; }

  void Run(std::span<const TBlob> inputs, std::span<const OpReqType> req,
           std::span<const TBlob> outputs) const;

 private:
  friend class Call;

  /// Adds a stage, whose operands' types are known, and chooses the type in which it is computed.
  void AddStage(const FusedMap& map, FusedMap::Stage* stage) {
    DType first = DType::kUnknown;
    std::array<Number*, kMaxMapOperands> numbers{};
    size_t num_numbers = 0;
    for (FusedMap::Operand& operand : stage->operands) {
      if (operand.kind == Kind::kNumber) {
        numbers[num_numbers++] = &operand.number;
      } else if (first == DType::kUnknown) {
        first = operand.kind == Kind::kInput ? map.input_types[At(operand.index)]
                                             : map.stages[At(operand.index)].dtype;
      }
    }
    if (first == DType::kUnknown) first = stage->dtype;
    const DType computed_in =
        ops_internal::ComputedIn(*stage->function, first, {numbers.data(), num_numbers});
    stages_.push_back(
        {*stage->function, computed_in, stage->dtype, std::move(stage->operands), stage->output});
  }

  /// Joins a stage with the one that computes an operand of it, where their rows make one row of
  /// two operators with the same roundings.
  void JoinPairs() {
    std::vector<int> reads(stages_.size(), 0);
    for (const Stage& stage : stages_) {
      for (const FusedMap::Operand& operand : stage.operands) {
        if (operand.kind == Kind::kStage) ++reads[At(operand.index)];
      }
    }
    if (const int stage = RowStage(); stage != kNone) ++reads[At(stage)];
    std::vector<bool> is_joined(stages_.size(), false);
    for (Stage& outer : stages_) {
      for (size_t position = 0; position < outer.operands.size(); ++position) {
        const FusedMap::Operand operand = outer.operands[position];
        if (operand.kind != Kind::kStage) continue;
        Stage& inner = stages_[At(operand.index)];
        const bool is_rounded_once = inner.dtype == inner.computed_in;
        if (inner.output != kNone || reads[At(operand.index)] != 1 || !is_rounded_once ||
            inner.computed_in != outer.computed_in || !IsReal(outer.computed_in)) {
          continue;
        }
        const MapFunction* const pair =
            FindMapPair(inner.function.kind, outer.function.kind, static_cast<int>(position));
        if (pair == nullptr) continue;
        std::vector<FusedMap::Operand> operands = std::move(inner.operands);
        for (size_t i = 0; i < outer.operands.size(); ++i) {
          if (i != position) operands.push_back(outer.operands[i]);
        }
        outer.operands = std::move(operands);
        outer.function = *pair;
        is_joined[At(operand.index)] = true;
        break;
      }
    }
    RemoveJoined(is_joined);
  }

  void RemoveJoined(const std::vector<bool>& is_joined) {
    std::vector<Stage> kept;
    std::vector<int> new_index(stages_.size(), kNone);
    for (size_t i = 0; i < stages_.size(); ++i) {
      if (is_joined[i]) continue;
      new_index[i] = static_cast<int>(kept.size());
      for (FusedMap::Operand& operand : stages_[i].operands) {
        if (operand.kind == Kind::kStage) operand.index = new_index[At(operand.index)];
      }
      kept.push_back(std::move(stages_[i]));
    }
    stages_ = std::move(kept);
    if (const int stage = RowStage(); stage != kNone) rows_.operand.index = new_index[At(stage)];
  }

  void PlaceSlots(const FusedMap& map) {
    std::vector<FusedMap::Stage> stages;
    for (const Stage& stage : stages_) stages.push_back({.operands = stage.operands});
    num_slots_ = AssignBlocks(stages, &stage_slots_);
    index_t widest = 1;  // bytes of an element
    for (size_t i = 0; i < map.input_types.size(); ++i) {
      broadcasts_.push_back(BroadcastTo(map.shape, map.input_shapes[i]));
      input_slots_.push_back(broadcasts_.back() ? num_slots_++ : kNone);
      widest = std::max(widest, DTypeSizeBytes(map.input_types[i]));
    }
    int most_converted = 0;
    for (Stage& stage : stages_) {
      int converted = 0;
      for (FusedMap::Operand& operand : stage.operands) {
        if (operand.kind == Kind::kNumber) {
          operand.index = SlotOfNumber({operand.number, stage.computed_in});
        } else if (TypeOf(operand) != stage.computed_in) {
          ++converted;
        }
      }
      most_converted = std::max(most_converted, converted);
      widest = std::max({widest, DTypeSizeBytes(stage.dtype), DTypeSizeBytes(stage.computed_in)});
      cost_ += 1 + stage.function.cost;
    }
    if (rows_.property != nullptr) cost_ += kRowCost;
    first_converted_ = num_slots_;
    result_slot_ = first_converted_ + most_converted;
    num_slots_ = result_slot_ + 1;
    slot_bytes_ =
        std::min(kMaxBlockBytes, kScratchBytes / num_slots_) / kCacheLineBytes * kCacheLineBytes;
    PlaceBlocks(slot_bytes_ / widest);
  }

  /// Chooses the elements of a block, a multiple of the periods of inputs that a block holds.
  void PlaceBlocks(index_t most) {
    index_t longest = 1;
    for (const std::optional<Broadcast>& broadcast : broadcasts_) {
      const bool repeats = broadcast && broadcast->period <= most;
      is_repeated_.push_back(repeats);
      // A shorter period divides a longer one: both are products of the last extents.
      if (repeats) longest = std::max(longest, broadcast->period);
    }
    // Blocks of whole rows if these are short; the period of a row is the last extent.
    if (rows_.property != nullptr && RowLength() <= most) longest = std::max(longest, RowLength());
    block_ = most / longest * longest;
  }

  void FindInplaceOptions() {
    std::vector<int> last(input_types_.size(), kNone);  // the last stages that read the inputs
    for (size_t i = 0; i < stages_.size(); ++i) {
      for (const FusedMap::Operand& operand : stages_[i].operands) {
        if (operand.kind == Kind::kInput) last[At(operand.index)] = static_cast<int>(i);
      }
    }
    const auto end = static_cast<int>(stages_.size());
    if (rows_.property != nullptr && RowStage() == kNone) last[At(rows_.operand.index)] = end;
    // `written` is the stage that writes an output's memory first.
    const auto add = [&](int written, DType dtype, int output) {
      if (output == kNone) return;
      for (int k = 0; k < static_cast<int>(last.size()); ++k) {
        if (IsBroadcast(k) || last[At(k)] > written) continue;
        inplace_options_.push_back({k, output});
        const bool is_like = dtype == input_types_[At(k)];
        if (k == 0 && is_like && output_for_first_input_ == kNone) output_for_first_input_ = output;
      }
    };
    for (int i = 0; i < end; ++i) add(i, stages_[At(i)].dtype, stages_[At(i)].output);
    if (rows_.property == nullptr) return;
    add(RowStage() == kNone ? end : RowStage(), TypeOf(rows_.operand), rows_.output);
  }

  /// Returns the stage whose results an operator takes by rows, or kNone.
  int RowStage() const {
    return rows_.property != nullptr && rows_.operand.kind == Kind::kStage ? rows_.operand.index
                                                                           : kNone;
  }
  index_t RowLength() const { return shape_[shape_.ndim() - 1]; }

  /// Returns the slot of a number in that type.
  int SlotOfNumber(const NumberBlock& number) {
    const auto found = std::find(numbers_.begin(), numbers_.end(), number);
    if (found != numbers_.end()) return number_slots_[At(found - numbers_.begin())];
    numbers_.push_back(number);
    number_slots_.push_back(num_slots_++);
    return number_slots_.back();
  }

  /// Returns the element type of an operand that is no number.
  DType TypeOf(const FusedMap::Operand& operand) const {
    return operand.kind == Kind::kInput ? input_types_[At(operand.index)]
                                        : stages_[At(operand.index)].dtype;
  }

  const index_t size_;
  const std::vector<DType> input_types_;
  const TShape shape_;
  FusedMap::Rows rows_;
  std::unique_ptr<Operator> operator_;         // of the rows
  const RowOperator* row_operator_ = nullptr;  // the same
  std::vector<Stage> stages_;  // operands that are numbers have the number's slot as index
  std::vector<std::optional<Broadcast>> broadcasts_;  // of the inputs
  std::vector<bool> is_repeated_;  // for each input, whether a block holds its period
  std::vector<int> stage_slots_;   // of the stages' blocks, or kNone
  std::vector<int> input_slots_;   // of the broadcast inputs' blocks, or kNone
  std::vector<NumberBlock> numbers_;
  std::vector<int> number_slots_;
  int first_converted_ = 0;  // the first slot for converted operands
  int result_slot_ = 0;      // for a result that is stored elsewhere
  int num_slots_ = 0;
  index_t slot_bytes_ = 0;
  index_t block_ = 0;  // the elements of a block
  index_t cost_ = 0;   // of an element, in cheap loops
  std::vector<InplaceOption> inplace_options_;
  int output_for_first_input_ = kNone;
};

/// One call of a map.
class Call final : public Epilogue {
 public:
  Call(const ReadyMap& map, std::span<const TBlob> inputs, std::span<const OpReqType> req,
       std::span<const TBlob> outputs)
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
      const Stage& stage = map.stages_[i];
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

  void Run(const ElementSegments& elements) const override {
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

 private:
  /// The elements that one thread computes, block by block.
  struct Range {
    explicit Range(index_t num_elements) : n(num_elements) {}

    index_t first = 0;                                      // of the block
    index_t n;                                              // the elements of the block
    std::array<const void*, FusedMap::kMaxInputs> inputs;   // the block's elements
    std::array<const void*, FusedMap::kMaxStages> results;  // likewise, where they are kept
    std::array<std::optional<BroadcastReader>, FusedMap::kMaxInputs> readers;
    alignas(kCacheLineBytes) char scratch[kScratchBytes];
  };

  /// Gets ready for the operator on rows.
  void PrepareRows() {
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

  /// Takes n elements from which an operator computes rows, and runs it on the rows that are
  /// complete now.
  void FinishRows(index_t begin, index_t n) const {
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

  void RunSegment(index_t begin, index_t end, Range* range) const {
    if (map_.stages_.empty() && num_complete_ != nullptr) return FinishRows(begin, end - begin);
    range->n = std::min(map_.block_, end - begin);
    for (size_t i = 0; i < inputs_.size(); ++i) {
      if (!map_.broadcasts_[i]) continue;
      char* const slot = Slot(range, map_.input_slots_[i]);
      range->readers[i].emplace(*map_.broadcasts_[i], inputs_[i].dptr_, inputs_[i].type_flag_,
                                begin);
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
        VisitComputed(map_.stages_[i].computed_in,
                      [&](auto t) { RunStage<decltype(t)>(i, range); });
      }
      if (num_complete_ != nullptr) FinishRows(range->first, range->n);
    }
  }

  bool IsNeeded(size_t stage) const { return (needed_ >> stage & 1) != 0; }

  /// Returns how the results of a stage are written to its output.
  Stores StoresOf(const Stage& stage, index_t read_bytes) const {
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

  char* Slot(Range* range, int slot) const { return range->scratch + slot * map_.slot_bytes_; }

  void FillNumbers(Range* range) const {
    for (size_t i = 0; i < map_.numbers_.size(); ++i) {
      char* const slot = Slot(range, map_.number_slots_[i]);
      VisitComputed(map_.numbers_[i].dtype, [&](auto t) {
        using T = decltype(t);
        std::fill_n(reinterpret_cast<T*>(slot), range->n, map_.numbers_[i].number.As<T>());
      });
    }
  }

  /// Returns an operand's elements of the block as T.
  template <typename T>
  const T* Read(const FusedMap::Operand& operand, int* num_converted, Range* range) const {
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

  /// Computes a stage for a block. Its operands are read before its results are written, except
  /// by a row itself.
  template <typename T>
  void RunStage(size_t i, Range* range) const {
    const Stage& stage = map_.stages_[i];
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

  const ReadyMap& map_;
  const std::span<const TBlob> inputs_;
  const std::span<const OpReqType> req_;
  const std::span<const TBlob> outputs_;
  uint32_t needed_ = 0;  // bit i: whether an output that is wanted needs stage i
  bool streams_ = false;
  std::array<Stores, FusedMap::kMaxStages> stores_{};  // of the stages' outputs
  // Of the operator on rows, if its results are wanted:
  std::optional<tensor_internal::Scratch<cpu>> scratch_;
  std::atomic<uint32_t>* num_complete_ = nullptr;  // for each row, its elements that are there
  TBlob row_in_, row_out_;
  int held_stage_ = kNone;  // the stage that writes its results there
};

static_assert(FusedMap::kMaxStages <= 32, "Call has a bit for each stage");

void ReadyMap::Run(std::span<const TBlob> inputs, std::span<const OpReqType> req,
                   std::span<const TBlob> outputs) const {
  const auto wanted =
      std::find_if(req.begin(), req.end(), [](OpReqType request) { return request != kNullOp; });
  if (wanted == req.end() || size_ == 0) return;
  const Call call(*this, inputs, req, outputs);
  const auto plan = tensor_internal::TaskPlan::Of(size_, 1, cost_ - 1);
  const index_t grain = std::max(plan.grain, std::min(size_ / kManyRanges, ElementsPerTask()));
  const TBlob& first = outputs[At(wanted - req.begin())];
  tensor_internal::ParallelForLines(
      plan.count, grain, first.dptr_, DTypeSizeBytes(first.type_flag_),
      [&call](index_t begin, index_t end) { call.Run({.first = begin, .run = end - begin}); });
}

class FusedMapOperator final : public Operator {
 public:
  explicit FusedMapOperator(std::shared_ptr<const ReadyMap> map) : map_(std::move(map)) {}

  void Forward(const OpContext&, std::span<const TBlob> in_data, std::span<const OpReqType> req,
               std::span<const TBlob> out_data) override {
    map_->Run(in_data, req, out_data);
  }

 private:
  const std::shared_ptr<const ReadyMap> map_;
};

/// Returns count names: prefix0, prefix1, and so on.
std::vector<std::string> Numbered(const std::string& prefix, size_t count) {
  std::vector<std::string> names;
  for (size_t i = 0; i < count; ++i) names.push_back(prefix + std::to_string(i));
  return names;
}

class FusedMapProperty final : public OperatorProperty {
 public:
  explicit FusedMapProperty(const FusedMap& map)
      : input_shapes_(map.input_shapes),
        input_types_(map.input_types),
        map_(std::make_shared<const ReadyMap>(map)),
        output_types_(map_->OutputTypes()) {}

  void Init(const ParameterMap&) override {}
  ParameterMap GetParams() const override { return {}; }
  std::vector<std::string> ListArguments() const override {
    return Numbered("input", input_types_.size());
  }
  std::vector<std::string> ListOutputs() const override {
    return Numbered("output", output_types_.size());
  }
  bool InferShape(std::vector<TShape>* in_shape, std::vector<TShape>* out_shape) const override {
    for (size_t i = 0; i < input_shapes_.size(); ++i) {
      MergeShape(*this, "input", &(*in_shape)[i], input_shapes_[i]);
    }
    for (TShape& shape : *out_shape) MergeShape(*this, "output", &shape, map_->shape());
    return true;
  }
  bool InferType(std::vector<DType>* in_type, std::vector<DType>* out_type) const override {
    *in_type = input_types_;
    *out_type = output_types_;
    return true;
  }
  std::vector<InplacePair> ForwardInplaceOption(std::span<const int> in_data,
                                                std::span<const int> out_data) const override {
    std::vector<InplacePair> pairs;
    for (const auto& [input, output] : map_->inplace_options()) {
      pairs.push_back({in_data[At(input)], out_data[At(output)]});
    }
    return pairs;
  }
  bool HasGradient() const override { return false; }
  std::unique_ptr<Operator> CreateOperator(Device, std::span<const TShape>,
                                           std::span<const DType>) const override {
    return std::make_unique<FusedMapOperator>(map_);
  }
  const std::string& TypeString() const override {
    static const std::string name = "FusedMap";
    return name;
  }

 private:
  const std::vector<TShape> input_shapes_;
  const std::vector<DType> input_types_;
  const std::shared_ptr<const ReadyMap> map_;
  const std::vector<DType> output_types_;
};

/// A producer followed by a map.
class ProducerWithMap final : public Operator {
 public:
  ProducerWithMap(std::unique_ptr<Operator> producer, size_t num_inputs, size_t num_outputs,
                  std::shared_ptr<const ReadyMap> map)
      : producer_(std::move(producer)),
        num_inputs_(num_inputs),
        num_outputs_(num_outputs),
        map_(std::move(map)) {
    SetImplementationOf(*producer_);
  }

  void Forward(const OpContext& context, std::span<const TBlob> in_data,
               std::span<const OpReqType> req, std::span<const TBlob> out_data) override {
    const Arguments arguments(*this, in_data, req, out_data);
    OpContext of_producer = context;
    if (!context.prepared.empty()) of_producer.prepared = context.prepared.first(num_inputs_);
    if (!producer_->RunsEpilogue()) {
      producer_->Forward(of_producer, in_data.first(num_inputs_), arguments.req(),
                         arguments.outputs());
      map_->Run(arguments.map_inputs(), arguments.map_req, arguments.map_outputs);
      return;
    }
    const Call epilogue(*map_, arguments.map_inputs(), arguments.map_req, arguments.map_outputs);
    of_producer.epilogue = &epilogue;
    producer_->Forward(of_producer, in_data.first(num_inputs_), arguments.req(),
                       arguments.outputs());
  }

  PreparedForm InputForm(int input, Device device, std::span<const TShape> in_shape,
                         std::span<const DType> in_type) const override {
    if (At(input) >= num_inputs_) return {};
    return producer_->InputForm(input, device, in_shape.first(num_inputs_),
                                in_type.first(num_inputs_));
  }

  std::optional<int64_t> ForwardWorkspaceBytes(int threads, std::span<const TBlob> in_data,
                                               std::span<const OpReqType> req,
                                               std::span<const TBlob> out_data) const override {
    const Arguments arguments(*this, in_data, req, out_data);
    return producer_->ForwardWorkspaceBytes(threads, in_data.first(num_inputs_), arguments.req(),
                                            arguments.outputs());
  }

 private:
  /// The arguments of the producer and of the map in a call.
  struct Arguments {
    Arguments(const ProducerWithMap& op, std::span<const TBlob> in_data,
              std::span<const OpReqType> all_req, std::span<const TBlob> out_data)
        : map_req(all_req.subspan(op.num_outputs_, out_data.size() - op.num_outputs_)),
          map_outputs(out_data.subspan(op.num_outputs_)),
          num_outputs(op.num_outputs_) {
      // The producer's requests, then those of its mutated inputs.
      const std::span<const OpReqType> mutated = all_req.subspan(out_data.size());
      std::copy_n(all_req.begin(), num_outputs, requests.begin());
      std::copy(mutated.begin(), mutated.end(), requests.begin() + num_outputs);
      num_requests = num_outputs + mutated.size();
      std::copy_n(out_data.begin(), num_outputs, results.begin());
      if (requests[0] == kNullOp) {
        const size_t output = At(op.map_->output_for_first_input());
        requests[0] = map_req[output];
        results[0] = map_outputs[output];
      }
      inputs[0] = results[0];
      std::copy(in_data.begin() + op.num_inputs_, in_data.end(), inputs.begin() + 1);
      num_inputs = 1 + in_data.size() - op.num_inputs_;
    }

    std::span<const OpReqType> req() const { return {requests.data(), num_requests}; }
    std::span<const TBlob> outputs() const { return {results.data(), num_outputs}; }
    std::span<const TBlob> map_inputs() const { return {inputs.data(), num_inputs}; }

    const std::span<const OpReqType> map_req;
    const std::span<const TBlob> map_outputs;
    const size_t num_outputs;
    size_t num_requests = 0, num_inputs = 0;
    std::array<OpReqType, MapProducer::kMaxResults> requests{};
    std::array<TBlob, MapProducer::kMaxResults> results;
    std::array<TBlob, FusedMap::kMaxInputs> inputs;
  };

  const std::unique_ptr<Operator> producer_;
  const size_t num_inputs_, num_outputs_;  // of the producer
  const std::shared_ptr<const ReadyMap> map_;
};

class ProducerWithMapProperty final : public OperatorProperty {
 public:
  ProducerWithMapProperty(const FusedMap& map, const MapProducer& producer)
      : producer_(producer),
        num_inputs_(producer.property->ListArguments().size()),
        num_outputs_(producer.property->ListOutputs().size()),
        name_(producer.property->TypeString() + "+FusedMap"),
        input_shapes_(map.input_shapes.begin() + 1, map.input_shapes.end()),
        input_types_(map.input_types.begin() + 1, map.input_types.end()),
        map_(std::make_shared<const ReadyMap>(map)),
        output_types_(map_->OutputTypes()) {}

  void Init(const ParameterMap&) override {}
  ParameterMap GetParams() const override { return producer_.property->GetParams(); }
  std::vector<std::string> ListArguments() const override {
    return Joined(producer_.property->ListArguments(), Numbered("input", input_types_.size()));
  }
  std::vector<std::string> ListOutputs() const override {
    return Joined(producer_.property->ListOutputs(), Numbered("output", output_types_.size()));
  }
  std::vector<int> MutatedInputs() const override { return producer_.property->MutatedInputs(); }
  Purity purity() const override { return producer_.property->purity(); }
  bool IsRepeatable() const override { return producer_.property->IsRepeatable(); }
  bool InferShape(std::vector<TShape>* in_shape, std::vector<TShape>* out_shape) const override {
    std::vector<TShape> inputs = First(*in_shape, num_inputs_);
    std::vector<TShape> outputs = First(*out_shape, num_outputs_);
    MergeShape(*this, "output", &outputs[0], map_->shape());
    const bool is_known = producer_.property->InferShape(&inputs, &outputs);
    *in_shape = Joined(std::move(inputs), input_shapes_);
    *out_shape =
        Joined(std::move(outputs), std::vector<TShape>(output_types_.size(), map_->shape()));
    return is_known;
  }
  bool InferType(std::vector<DType>* in_type, std::vector<DType>* out_type) const override {
    std::vector<DType> inputs = First(*in_type, num_inputs_);
    std::vector<DType> outputs = First(*out_type, num_outputs_);
    const bool is_known = producer_.property->InferType(&inputs, &outputs);
    *in_type = Joined(std::move(inputs), input_types_);
    *out_type = Joined(std::move(outputs), output_types_);
    return is_known;
  }
  std::vector<ResourceRequest> ForwardResource(std::span<const TShape> in_shape) const override {
    return producer_.property->ForwardResource(in_shape.first(num_inputs_));
  }
  std::vector<InplacePair> ForwardInplaceOption(std::span<const int> in_data,
                                                std::span<const int> out_data) const override {
    std::vector<InplacePair> pairs = producer_.property->ForwardInplaceOption(
        in_data.first(num_inputs_), out_data.first(num_outputs_));
    const int held = map_->output_for_first_input();
    if (held != kNone) {
      // The producer may compute its first output there.
      for (size_t i = 0, count = pairs.size(); i < count; ++i) {
        if (pairs[i].target != out_data[0]) continue;
        pairs.push_back({pairs[i].source, out_data[num_outputs_ + At(held)]});
      }
    }
    for (const auto& [input, output] : map_->inplace_options()) {
      if (input == 0 || output == held) continue;
      pairs.push_back({in_data[num_inputs_ + At(input) - 1], out_data[num_outputs_ + At(output)]});
    }
    return pairs;
  }
  bool HasGradient() const override { return false; }
  std::unique_ptr<Operator> CreateOperator(Device device, std::span<const TShape> in_shape,
                                           std::span<const DType> in_type) const override {
    const std::span<const TShape> shapes = in_shape.first(num_inputs_);
    const std::span<const DType> types = in_type.first(num_inputs_);
    const OperatorProperty& producer = *producer_.property;
    std::unique_ptr<Operator> op =
        producer_.implementation.empty()
            ? producer.CreateOperator(device, shapes, types)
            : producer.CreateImplementation(producer_.implementation, device, shapes, types);
    return std::make_unique<ProducerWithMap>(std::move(op), num_inputs_, num_outputs_, map_);
  }
  const std::string& TypeString() const override { return name_; }

 private:
  template <typename T>
  static std::vector<T> First(const std::vector<T>& list, size_t count) {
    return {list.begin(), list.begin() + static_cast<std::ptrdiff_t>(count)};
  }
  template <typename T>
  static std::vector<T> Joined(std::vector<T> first, const std::vector<T>& then) {
    first.insert(first.end(), then.begin(), then.end());
    return first;
  }

  const MapProducer producer_;
  const size_t num_inputs_, num_outputs_;  // of the producer
  const std::string name_;
  const std::vector<TShape> input_shapes_;  // of the map, without the first input
  const std::vector<DType> input_types_;
  const std::shared_ptr<const ReadyMap> map_;
  const std::vector<DType> output_types_;  // of the map
};

}  // namespace

int NumBlocks(const FusedMap& map) {
  std::vector<int> block_of;
  return AssignBlocks(map.stages, &block_of);
}

bool RunsRows(const OperatorProperty& property, const TShape& shape, DType dtype) {
  const std::unique_ptr<Operator> op = MakeRowOperator(property, shape, dtype);
  const auto* const rows = dynamic_cast<const RowOperator*>(op.get());
  return rows != nullptr && rows->RunsRows();
}

int OutputForFirstInput(const FusedMap& map) { return ReadyMap(map).output_for_first_input(); }

std::shared_ptr<const OperatorProperty> MakeFusedMap(const FusedMap& map) {
  return std::make_shared<const FusedMapProperty>(map);
}

std::shared_ptr<const OperatorProperty> MakeFusedMap(const FusedMap& map,
                                                     const MapProducer& producer) {
  return std::make_shared<const ProducerWithMapProperty>(map, producer);
}

}  // namespace tessera
