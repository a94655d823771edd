#ifndef TESSERA_OPS_ELEMWISE_FUSED_FUSED_MAP_H_
#define TESSERA_OPS_ELEMWISE_FUSED_FUSED_MAP_H_

#include <memory>
#include <string>
#include <vector>

#include "tessera/base/dtype.h"
#include "tessera/base/number.h"
#include "tessera/base/tshape.h"
#include "tessera/ops/property.h"

namespace tessera {

/// Several maps over arrays of one shape, as data: stages, each of which computes an array element
/// by element from inputs, from the arrays of earlier stages and from numbers. Arrays that nobody
/// reads but later stages need no memory.
struct FusedMap {
  static constexpr int kMaxInputs = 16;  ///< inputs and different numbers
  static constexpr int kMaxStages = 32;
  static constexpr int kMaxBlocks = 8;  ///< see NumBlocks
  /// An operand of a stage.
  struct Operand {
    enum class Kind { kInput, kStage, kNumber };  ///< what the operand is
    Kind kind = Kind::kNumber;
    int index = 0;       ///< of the input or of the stage
    Number number = {};  ///< of Kind::kNumber
  };
  /// One map. Its operands are as in MapForm::operands.
  struct Stage {
    const ops_internal::MapFunction* function = nullptr;  ///< must live until MakeFusedMap returns
    std::vector<Operand> operands = {};
    DType dtype = DType::kFloat32;  ///< of the results, which are rounded to it
    int output = -1;                ///< the position among the outputs; -1 for none
  };
  /// An operator on the rows of a stage's results, or of an input of the map's shape. Its results
  /// have their type. Results of the stage that no output takes lie in the memory of the rows'
  /// output. That output must not be added to then, nor ever the stage's.
  struct Rows {
    std::shared_ptr<const OperatorProperty> property = nullptr;  ///< null for none; see RunsRows
    Operand operand = {};                                        ///< a stage or an input
    int output = -1;                                             ///< the position among the outputs
  };

  TShape shape;                      ///< of every stage
  std::vector<TShape> input_shapes;  ///< each broadcasts to `shape`, aligned at the last dimension
  std::vector<DType> input_types;    ///< one for each input
  std::vector<Stage> stages;         ///< each after those that it reads; at most kMaxStages
  Rows rows = {};                    ///< after the stages
};

/// An operator whose first output is the first input of a map.
struct MapProducer {
  /// The most outputs and mutated inputs of the operator.
  static constexpr int kMaxResults = 8;

  std::shared_ptr<const OperatorProperty> property;
  std::string implementation = "";  ///< the name of the one to use; empty for the usual choice
};

/// Returns the largest number of stages whose results are kept at a time for later stages.
int NumBlocks(const FusedMap& map);

/// Returns whether an operator of one input and one output computes rows of that shape and type on
/// the CPU (RowOperator), so that it can be that of FusedMap::Rows. Throws what CreateOperator
/// throws.
bool RunsRows(const OperatorProperty& property, const TShape& shape, DType dtype);

/// Returns an operator on the CPU that runs the stages over blocks of elements which stay in the
/// first cache, in parallel. Its inputs and outputs are those of the map. Each stage converts its
/// operands and its results, and adds them to an output, as a MapCall by itself does, so that the
/// outputs are the same bit for bit; only the sign of a NaN may differ. Stages that no requested
/// output needs are left out. An output may be written over an input of its shape that no later
/// stage reads. A row of the operator on rows is computed by the thread that completes its input.
/// The property is in no registry and has no gradient.
///
/// Requires: `map` keeps the limits of FusedMap on inputs and stages.
std::shared_ptr<const OperatorProperty> MakeFusedMap(const FusedMap& map);

/// Returns the output in whose memory the first input may lie: nothing reads this input after the
/// output's memory is written, and both have one type. Returns -1 if there is none.
int OutputForFirstInput(const FusedMap& map);

/// Returns an operator on the CPU that runs the map on the results of another operator, as soon as
/// they have been computed (Operator::RunsEpilogue), or else when all of them have. Its inputs are
/// the producer's, then those of the map after the first one; its outputs are the producer's, then
/// those of the map. The results are the same bit for bit as those of the operators one after the
/// other.
///
/// The producer's first output needs no memory: if its request is kNullOp, it is computed in that
/// of OutputForFirstInput, which there must then be and whose request must be kWriteTo. The
/// property is in no registry and has no gradient.
///
/// Requires: the map keeps the limits of FusedMap, the producer those of MapProducer, and the
/// producer's first output has the shape of the map.
std::shared_ptr<const OperatorProperty> MakeFusedMap(const FusedMap& map,
                                                     const MapProducer& producer);

}  // namespace tessera

#endif  // TESSERA_OPS_ELEMWISE_FUSED_FUSED_MAP_H_
