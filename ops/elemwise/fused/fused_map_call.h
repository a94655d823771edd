#ifndef TESSERA_OPS_ELEMWISE_FUSED_FUSED_MAP_CALL_H_
#define TESSERA_OPS_ELEMWISE_FUSED_FUSED_MAP_CALL_H_

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "tessera/base/shape.h"
#include "tessera/ops/elemwise/fused/fused_map.h"
#include "tessera/ops/elemwise/fused/ready_map.h"
#include "tessera/ops/epilogue.h"
#include "tessera/ops/operator.h"
#include "tessera/tensor/device/copy_bytes.h"
#include "tessera/tensor/device/scratch.h"
#include "tessera/tensor/tblob.h"

namespace tessera::ops_internal {

/// One call of a map. Its arguments must outlive it.
class FusedMapCall final : public Epilogue {
 public:
  FusedMapCall(const ReadyMap& map, std::span<const TBlob> inputs, std::span<const OpReqType> req,
               std::span<const TBlob> outputs);

  /// Computes the outputs' elements there. Threads: may be called from several at the same time.
  void Run(const ElementSegments& elements) const override;

 private:
  /// The elements that one thread computes, block by block.
  struct Range;

  /// Gets ready for the operator on rows.
  void PrepareRows();

  /// Takes n elements from which an operator computes rows, and runs it on the rows that are
  /// complete now.
  void FinishRows(index_t begin, index_t n) const;

  /// Computes elements [begin, end) block by block.
  void RunSegment(index_t begin, index_t end, Range* range) const;

  /// Returns whether a wanted output needs the stage.
  bool IsNeeded(size_t stage) const { return (needed_ >> stage & 1) != 0; }

  /// Returns how the results of a stage are written to its output.
  tensor_internal::Stores StoresOf(const ReadyStage& stage, index_t read_bytes) const;

  /// Returns the memory of a slot.
  char* Slot(Range* range, int slot) const;

  /// Fills the slots of numbers.
  void FillNumbers(Range* range) const;

  /// Returns an operand's elements of the block as T.
  template <typename T>
  const T* Read(const FusedMap::Operand& operand, int* num_converted, Range* range) const;

  /// Computes a stage for a block. Its operands are read before its results are written, except
  /// by a row itself. Inlined, since a cheap stage takes but a few hundred cycles for a block.
  template <typename T>
  __attribute__((always_inline)) void RunStage(size_t i, Range* range) const;

  const ReadyMap& map_;
  const std::span<const TBlob> inputs_;
  const std::span<const OpReqType> req_;
  const std::span<const TBlob> outputs_;
  uint32_t needed_ = 0;  // bit i: whether an output that is wanted needs stage i
  bool streams_ = false;
  std::array<tensor_internal::Stores, FusedMap::kMaxStages> stores_{};  // of the stages' outputs
  // The operator on rows, if its results are wanted:
  std::optional<tensor_internal::Scratch<cpu>> scratch_;
  std::atomic<uint32_t>* num_complete_ = nullptr;  // for each row, its elements that are there
  TBlob row_in_, row_out_;
  int held_stage_ = kNone;  // the stage that writes its results there
};

/// Computes the outputs of a map, in parallel.
void RunMap(const ReadyMap& map, std::span<const TBlob> inputs, std::span<const OpReqType> req,
            std::span<const TBlob> outputs);

}  // namespace tessera::ops_internal

#endif  // TESSERA_OPS_ELEMWISE_FUSED_FUSED_MAP_CALL_H_
