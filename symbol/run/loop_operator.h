#ifndef TESSERA_SYMBOL_RUN_LOOP_OPERATOR_H_
#define TESSERA_SYMBOL_RUN_LOOP_OPERATOR_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <utility>
#include <vector>

#include "tessera/base/device.h"
#include "tessera/engine/engine.h"
#include "tessera/graph/loop_property.h"
#include "tessera/graph/program.h"
#include "tessera/ops/operator.h"
#include "tessera/symbol/run/prepared_program.h"

namespace tessera::symbol_internal {

/// A graph of a loop as a program, with the numbers of the values that a step is given. A number is
/// kNoValue if the program does not have the value.
struct LoopProgram {
  const graph::LoopGraph* graph = nullptr;
  std::shared_ptr<const PreparedProgram> program;
  std::vector<std::vector<size_t>> blobs;  ///< PreparedProgram::BlobsOfValues
  std::vector<int> variables;              ///< for each of the graph's variables
  std::vector<int> gradients;              ///< of each of the graph's variables
  std::vector<int> heads, head_gradients;  ///< for each head
  std::vector<int> saved;                  ///< for each of LoopGraph::saved

  /// Returns the size of a value.
  int64_t SizeBytes(int value) const;
};

/// The operator of a node that runs graphs (graph::LoopProperty): it runs the steps one after
/// another on the same memory, inside one call. The graphs are compiled once, so that a step costs
/// its operators' calls and the exchange of some pointers.
///
/// Forward runs a graph's forward steps. If it saves, the values that the gradient reads are
/// written to the node's hidden outputs, where they lie one step after another. Backward runs the
/// steps of the gradient in the reverse order of Forward, with the saved values; gradients of
/// captured values are added up in place.
class LoopOperator final : public Operator {
 public:
  /// Compiles the graphs for inputs of these shapes and types. `saves` says whether the hidden
  /// outputs are wanted, and Backward may be called. Throws what graph::Compile throws.
  LoopOperator(std::shared_ptr<const graph::LoopProperty> property, Device device,
               std::span<const TShape> in_shape, std::span<const DType> in_type, bool saves);

  void Forward(const OpContext& context, std::span<const TBlob> in_data,
               std::span<const OpReqType> req, std::span<const TBlob> out_data) override;
  void Backward(const OpContext& context, std::span<const TBlob> out_grad,
                std::span<const TBlob> in_data, std::span<const TBlob> out_data,
                std::span<const OpReqType> req, std::span<const TBlob> in_grad) override;
  bool AcceptsAddTo() const override { return false; }

  /// Returns whether Backward may be called.
  bool saves() const { return saves_; }
  /// Returns the variables of the resources that the operators of the graphs use, for the operation
  /// that calls this operator.
  const std::vector<Variable*>& resource_vars() const { return resource_vars_; }

 private:
  class Frame;

  /// The calls of the first step of the gradient and of later ones, which add.
  struct GradientCalls {
    StepCalls first, later;
  };

  LoopProgram Compile(const graph::LoopGraph& graph, bool with_gradient) const;
  LoopProgram Number(const graph::LoopGraph& graph, graph::Program program) const;
  /// Returns the number of the body of a branch, or of the steps of a loop.
  int64_t CountOf(const TBlob& count, void* stream) const;
  /// Returns the calls for the requests of all inputs.
  std::shared_ptr<const GradientCalls> CallsFor(size_t body, std::span<const OpReqType> req);

  const std::shared_ptr<const graph::LoopProperty> property_;
  const graph::LoopDescription& loop_;
  const Device device_;
  const std::vector<TShape> in_shape_;
  const std::vector<DType> in_type_;
  const bool saves_;
  int64_t num_steps_ = 1;  // for a condition, the largest number
  LoopProgram condition_;  // without a program if there is no condition
  std::vector<LoopProgram> bodies_;
  std::vector<Variable*> resource_vars_;

  std::mutex mutex_;  // guards calls_
  std::map<std::pair<size_t, std::vector<OpReqType>>, std::shared_ptr<const GradientCalls>> calls_;
};

/// Returns the operator of a step whose node runs graphs, or is the gradient of such a node. Null
/// for another step. Throws what LoopOperator's constructor throws, with the name of the node.
std::shared_ptr<Operator> MakeLoopOperator(const graph::Step& step, Device device);

}  // namespace tessera::symbol_internal

#endif  // TESSERA_SYMBOL_RUN_LOOP_OPERATOR_H_
