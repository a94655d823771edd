#ifndef TESSERA_OPS_ELEMWISE_FUSED_READY_MAP_H_
#define TESSERA_OPS_ELEMWISE_FUSED_READY_MAP_H_

#include <array>
#include <cmath>
#include <memory>
#include <optional>
#include <vector>

#include "tessera/base/at.h"
#include "tessera/base/dtype.h"
#include "tessera/base/number.h"
#include "tessera/base/shape.h"
#include "tessera/base/tshape.h"
#include "tessera/ops/elemwise/fused/fused_map.h"
#include "tessera/ops/loops/map_function.h"
#include "tessera/ops/operator.h"
#include "tessera/ops/row_operator.h"

namespace tessera::ops_internal {

/// No stage, slot or output.
constexpr int kNone = -1;

/// The blocks of a call have so many bytes. The first cache, of 32 KiB or more, also holds lines of
/// the inputs and of the outputs.
constexpr index_t kMapScratchBytes = index_t{24} << 10;

/// Gives a block to each stage that a later one reads; kNone to the others. A stage may write the
/// block of an operand that it reads last. Returns the number of blocks.
int AssignBlocks(const std::vector<FusedMap::Stage>& stages, std::vector<int>* block_of);

/// Returns an operator on rows of an array.
std::unique_ptr<Operator> MakeRowOperator(const OperatorProperty& property, const TShape& shape,
                                          DType dtype);

/// A stage whose function is known by its rows.
struct ReadyStage {
  MapFunction function;
  DType computed_in = DType::kFloat32;
  DType dtype = DType::kFloat32;
  std::vector<FusedMap::Operand> operands;
  int output = kNone;
};

/// An input that is broadcast to the map's shape, whose dimensions are merged.
struct MapBroadcast {
  int num_dims = 1;
  std::array<index_t, TShape::kMaxRank> extents{};
  std::array<index_t, TShape::kMaxRank> strides{};
  index_t period = 1;  // the elements of the map's shape after which the input's begin anew
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

/// A map that is ready to run: types and blocks are chosen, and pairs of stages joined.
///
/// The scratch memory of a range has slots of one size: the blocks of stages, of broadcast inputs
/// and of numbers, then those for converted operands and for a result.
class ReadyMap {
 public:
  explicit ReadyMap(const FusedMap& map);

  const TShape& shape() const { return shape_; }
  index_t size() const { return size_; }
  /// Returns the cost of an element, in cheap loops.
  index_t cost() const { return cost_; }
  bool IsBroadcast(int input) const { return broadcasts_[base_internal::At(input)].has_value(); }
  /// Returns the element types of the outputs.
  std::vector<DType> OutputTypes() const;

  /// An input whose elements are not read after those of an output have been written.
  struct InplaceOption {
    int input;
    int output;
  };
  const std::vector<InplaceOption>& inplace_options() const { return inplace_options_; }
  /// The result of the function OutputForFirstInput.
  int output_for_first_input() const { return output_for_first_input_; }

 private:
  friend class FusedMapCall;

  /// Adds a stage, whose operands' types are known, and chooses the type in which it is computed.
  void AddStage(const FusedMap& map, FusedMap::Stage* stage);

  /// Joins a stage with the one that computes an operand of it, where their rows make one row of
  /// two operators with the same roundings.
  void JoinPairs();

  /// Removes the stages that were joined with others.
  void RemoveJoined(const std::vector<bool>& is_joined);

  /// Gives slots to stages, broadcast inputs, numbers and converted operands.
  void PlaceSlots(const FusedMap& map);

  /// Chooses the elements of a block, a multiple of the periods of inputs that a block holds.
  void PlaceBlocks(index_t most);

  /// Finds the outputs that may lie in the memory of an input.
  void FindInplaceOptions();

  /// Returns the stage whose results an operator takes by rows, or kNone.
  int RowStage() const {
    return rows_.property != nullptr && rows_.operand.kind == FusedMap::Operand::Kind::kStage
               ? rows_.operand.index
               : kNone;
  }
  index_t RowLength() const { return shape_[shape_.ndim() - 1]; }

  /// Returns the slot of a number in that type.
  int SlotOfNumber(const NumberBlock& number);

  /// Returns the element type of an operand that is no number.
  DType TypeOf(const FusedMap::Operand& operand) const {
    return operand.kind == FusedMap::Operand::Kind::kInput
               ? input_types_[base_internal::At(operand.index)]
               : stages_[base_internal::At(operand.index)].dtype;
  }

  const index_t size_;
  const std::vector<DType> input_types_;
  const TShape shape_;
  FusedMap::Rows rows_;
  std::unique_ptr<Operator> operator_;         // of the rows
  const RowOperator* row_operator_ = nullptr;  // the same
  std::vector<ReadyStage> stages_;  // operands that are numbers have the number's slot as index
  std::vector<std::optional<MapBroadcast>> broadcasts_;  // of the inputs
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

}  // namespace tessera::ops_internal

#endif  // TESSERA_OPS_ELEMWISE_FUSED_READY_MAP_H_
