#ifndef TESSERA_SYMBOL_RUN_PREPARED_PROGRAM_H_
#define TESSERA_SYMBOL_RUN_PREPARED_PROGRAM_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/engine/engine.h"
#include "tessera/graph/passes/memory_plan.h"
#include "tessera/graph/program.h"
#include "tessera/ndarray/call/operator_call.h"
#include "tessera/ops/operator.h"
#include "tessera/symbol/memory_plan_summary.h"

namespace tessera::symbol_internal {

/// Consecutive steps on one device that run as one engine operation: several short ones, because a
/// separate operation for each would cost more than it gains, or one long one, so that independent
/// long steps can run in parallel.
///
/// The lists hold numbers of values, whose variables the operation declares.
struct Segment {
  int begin = 0;  ///< the first step
  int end = 0;    ///< the step after the last
  std::vector<int> reads;
  std::vector<int> writes;   ///< also the values whose bytes the segment reuses
  std::vector<int> updates;  ///< intermediate values that are read, and whose bytes are written
  /// The members of `writes` whose old contents the segment uses. They lie in arrays.
  std::vector<int> kept;
  std::vector<Variable*> resources;           ///< written, in no list
  std::vector<size_t> prepared;               ///< positions in PreparedProgram::prepared_inputs
  FnProperty property = FnProperty::kNormal;  ///< kAsync for a call that may block
};

/// The division of a program into segments.
enum class SegmentSize {
  kManySteps,  ///< short steps together
  kOneStep,    ///< each step by itself
};

/// The limit of a plan's size.
struct MemoryBudget {
  int64_t size_bytes = 0;        ///< the most that the plan may take, or 0 for no limit
  std::string_view caller = {};  ///< the function that errors name
};

/// The calls of a program's steps; null for a step that is left out.
using StepCalls = std::vector<std::shared_ptr<const OperatorCall>>;

/// The memory of a run: pointers by value number, or complete blobs.
struct StepMemory {
  /// One for each value; may be null where no step uses it, and for a workspace, which the call
  /// then allocates.
  std::span<void* const> pointers;
  /// If not empty, what PreparedProgram::MakeBlobs returned for these pointers.
  std::span<const TBlob> blobs = {};
  /// If not empty, has for each blob the prepared form of the input that it is, or null.
  std::span<const void* const> prepared = {};
};

/// An input of a step that its operator would like to have prepared, because no step writes it:
/// an argument, an auxiliary state or a fixed value.
struct PreparedInput {
  int step = 0;
  int value = 0;    ///< the input
  size_t blob = 0;  ///< its position in MakeBlobs
  PreparedForm form;
  std::string name;  ///< of the variable and the form
};

/// A program with its memory plan, its operators and its segments: everything that runs share. It
/// has no memory for values. Steps whose operator states its workspace have a value for it, which
/// lies in the plan.
///
/// An intermediate value has the variable of the segment that writes it first, which costs less
/// than one each and orders as much. The segment's first such value stands for the variable in
/// lists (VariableOf).
///
/// Threads: immutable. Runs on separate memory may overlap.
class PreparedProgram {
 public:
  /// Creates the operators and plans the memory. The program of another PreparedProgram keeps its
  /// values, whatever workspaces the operators state for the calling thread, so that both have the
  /// same variables. With a budget, the gradient recomputes forward results if the plan is larger
  /// otherwise. Throws what OperatorCall's constructor and FitMemoryBudget throw.
  PreparedProgram(graph::Program program, graph::MemorySharing sharing,
                  SegmentSize segment_size = SegmentSize::kManySteps,
                  const MemoryBudget& budget = {});

  const graph::Program& program() const { return program_; }
  const graph::MemoryPlan& plan() const { return plan_; }
  /// Returns the sums of the plan.
  MemoryPlanSummary MemorySummary() const;
  /// Return the segments of the forward steps and of the others.
  std::span<const Segment> forward() const { return {segments_.data(), num_forward_segments_}; }
  std::span<const Segment> backward() const {
    return std::span<const Segment>(segments_).subspan(num_forward_segments_);
  }
  /// Returns whether the program has steps for gradients.
  bool has_gradient() const { return program_.num_steps() > program_.num_forward_steps; }
  /// Returns the calls of all steps.
  const StepCalls& calls() const { return calls_; }
  /// Returns the inputs that can be prepared, in the order of the steps; none of a program with
  /// gradients, whose arguments change.
  const std::vector<PreparedInput>& prepared_inputs() const { return prepared_inputs_; }

  /// Returns the value whose variable orders the users of `value`.
  int VariableOf(int value) const { return variable_of_[static_cast<size_t>(value)]; }
  /// Returns the intermediate values that stand for variables, in ascending order.
  const std::vector<int>& intermediate_variables() const { return intermediate_variables_; }

  /// Returns a segment of steps [begin, end), which lie on one device.
  Segment MakeSegment(int begin, int end) const;

  /// Returns the calls of the gradient's steps for other requests: `requests` has one entry for
  /// each argument, and a gradient that the program writes may be left out (kNullOp) or added to.
  /// Steps that are then of no use are null, as are forward steps.
  StepCalls CallsFor(std::span<const OpReqType> requests) const;

  /// Returns the blobs of all steps' inputs and outputs.
  std::vector<TBlob> MakeBlobs(std::span<void* const> pointers) const;
  /// Returns their number.
  size_t num_blobs() const { return blobs_.size(); }
  /// Returns, for each value, its positions among the blobs.
  std::vector<std::vector<size_t>> BlobsOfValues() const;
  /// Returns the variables of the resources of all steps, each once.
  std::vector<Variable*> ResourceVars() const;

  /// Runs steps [begin, end) on memory. `stream` is OpContext::stream. Throws what
  /// OperatorCall::Run throws.
  void Run(const StepCalls& calls, int begin, int end, CallMode mode, void* stream,
           const StepMemory& memory) const;

  /// Return the device of a segment, and of the step that has an input.
  Device DeviceOf(const Segment& segment) const;
  Device DeviceOf(const PreparedInput& input) const;

 private:
  /// Makes the calls, the blobs and the values of workspaces.
  void MakeCalls();
  /// Appends the variables of a step's resources that are not in the list yet.
  void AppendResources(int step, std::vector<Variable*>* variables) const;
  void FindPreparedInputs();
  void CutSegments(SegmentSize size, int begin, int end);
  bool IsIntermediate(int value) const;
  int64_t Elements(const graph::Step& step) const;

  graph::Program program_;
  graph::MemoryPlan plan_;
  StepCalls calls_;
  std::vector<int> variable_of_;   // for each value
  std::vector<int> first_writer_;  // for each value, the first step that writes it, or kNoValue
  std::vector<int> intermediate_variables_;
  std::vector<Segment> segments_;
  size_t num_forward_segments_ = 0;
  // The inputs and outputs of all steps, one after another.
  std::vector<TBlob> blobs_;
  std::vector<int> blob_value_;     // kNoValue for none
  std::vector<size_t> first_blob_;  // for each step, and the end
  std::vector<PreparedInput> prepared_inputs_;
};

}  // namespace tessera::symbol_internal

#endif  // TESSERA_SYMBOL_RUN_PREPARED_PROGRAM_H_
