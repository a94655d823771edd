#ifndef TESSERA_OPS_ELEMWISE_FUSED_MAP_H_
#define TESSERA_OPS_ELEMWISE_FUSED_MAP_H_

#include <memory>
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

  TShape shape;                      ///< of every stage
  std::vector<TShape> input_shapes;  ///< each broadcasts to `shape`, aligned at the last dimension
  std::vector<DType> input_types;    ///< one for each input
  std::vector<Stage> stages;         ///< each after those that it reads; at most kMaxStages
};

/// Returns the largest number of stages whose results are kept at a time for later stages.
int NumBlocks(const FusedMap& map);

/// Returns an operator on the CPU that runs the stages over blocks of elements which stay in the
/// first cache, in parallel. Its inputs and outputs are those of the map. Each stage converts its
/// operands and its results, and adds them to an output, as a MapCall by itself does, so that the
/// outputs are the same bit for bit; only the sign of a NaN may differ. Stages that no requested
/// output needs are left out. An output may be written over an input of its shape that no later
/// stage reads. The property is in no registry and has no gradient.
///
/// Requires: `map` keeps the limits of FusedMap on inputs and stages.
std::shared_ptr<const OperatorProperty> MakeFusedMap(const FusedMap& map);

}  // namespace tessera

#endif  // TESSERA_OPS_ELEMWISE_FUSED_MAP_H_
