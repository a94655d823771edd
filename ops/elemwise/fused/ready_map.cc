#include "tessera/ops/elemwise/fused/ready_map.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "tessera/base/device.h"
#include "tessera/ops/loops/map.h"
#include "tessera/ops/loops/map_pairs.h"
#include "tessera/ops/loops/strided_walk.h"

namespace tessera::ops_internal {
namespace {

using base_internal::At;
using Kind = FusedMap::Operand::Kind;

constexpr index_t kCacheLineBytes = 64;
// Longer blocks would not make a stage's call noticeably cheaper for each element.
constexpr index_t kMaxBlockBytes = index_t{8} << 10;
// The cost of an operator on rows for an element, in cheap loops: that of exp, and a few others.
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

/// Returns how an array is broadcast to `shape`; nothing if its elements lie in that order.
std::optional<MapBroadcast> BroadcastTo(const TShape& shape, const TShape& array) {
  if (shape.Size() == 0) return std::nullopt;  // there are no elements to read
  MapBroadcast broadcast;
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

}  // namespace

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

std::unique_ptr<Operator> MakeRowOperator(const OperatorProperty& property, const TShape& shape,
                                          DType dtype) {
  return property.CreateOperator(Device::Cpu(), {&shape, 1}, {&dtype, 1});
}

ReadyMap::ReadyMap(const FusedMap& map)
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

std::vector<DType> ReadyMap::OutputTypes() const {
  std::vector<DType> types;
  const auto add = [&types](int output, DType dtype) {
    if (output == kNone) return;
    types.resize(std::max(types.size(), At(output) + 1));
    types[At(output)] = dtype;
  };
  for (const ReadyStage& stage : stages_) add(stage.output, stage.dtype);
  if (rows_.property != nullptr) add(rows_.output, TypeOf(rows_.operand));
  return types;
}

void ReadyMap::AddStage(const FusedMap& map, FusedMap::Stage* stage) {
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

void ReadyMap::JoinPairs() {
  std::vector<int> reads(stages_.size(), 0);
  for (const ReadyStage& stage : stages_) {
    for (const FusedMap::Operand& operand : stage.operands) {
      if (operand.kind == Kind::kStage) ++reads[At(operand.index)];
    }
  }
  if (const int stage = RowStage(); stage != kNone) ++reads[At(stage)];
  std::vector<bool> is_joined(stages_.size(), false);
  for (ReadyStage& outer : stages_) {
    for (size_t position = 0; position < outer.operands.size(); ++position) {
      const FusedMap::Operand operand = outer.operands[position];
      if (operand.kind != Kind::kStage) continue;
      ReadyStage& inner = stages_[At(operand.index)];
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

void ReadyMap::RemoveJoined(const std::vector<bool>& is_joined) {
  std::vector<ReadyStage> kept;
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

void ReadyMap::PlaceSlots(const FusedMap& map) {
  std::vector<FusedMap::Stage> stages;
  for (const ReadyStage& stage : stages_) stages.push_back({.operands = stage.operands});
  num_slots_ = AssignBlocks(stages, &stage_slots_);
  index_t widest = 1;  // bytes of an element
  for (size_t i = 0; i < map.input_types.size(); ++i) {
    broadcasts_.push_back(BroadcastTo(map.shape, map.input_shapes[i]));
    input_slots_.push_back(broadcasts_.back() ? num_slots_++ : kNone);
    widest = std::max(widest, DTypeSizeBytes(map.input_types[i]));
  }
  int most_converted = 0;
  for (ReadyStage& stage : stages_) {
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
      std::min(kMaxBlockBytes, kMapScratchBytes / num_slots_) / kCacheLineBytes * kCacheLineBytes;
  PlaceBlocks(slot_bytes_ / widest);
}

void ReadyMap::PlaceBlocks(index_t most) {
  index_t longest = 1;
  for (const std::optional<MapBroadcast>& broadcast : broadcasts_) {
    const bool repeats = broadcast && broadcast->period <= most;
    is_repeated_.push_back(repeats);
    // A shorter period divides a longer one: both are products of the last extents.
    if (repeats) longest = std::max(longest, broadcast->period);
  }
  // Blocks of whole rows if these are short; the period of a row is the last extent.
  if (rows_.property != nullptr && RowLength() <= most) longest = std::max(longest, RowLength());
  block_ = most / longest * longest;
}

void ReadyMap::FindInplaceOptions() {
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

int ReadyMap::SlotOfNumber(const NumberBlock& number) {
  const auto found = std::find(numbers_.begin(), numbers_.end(), number);
  if (found != numbers_.end()) return number_slots_[At(found - numbers_.begin())];
  numbers_.push_back(number);
  number_slots_.push_back(num_slots_++);
  return number_slots_.back();
}

}  // namespace tessera::ops_internal
