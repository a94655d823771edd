#ifndef TESSERA_SYMBOL_RUN_CACHED_GRAPH_H_
#define TESSERA_SYMBOL_RUN_CACHED_GRAPH_H_

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "tessera/base/error.h"
#include "tessera/graph/compile.h"
#include "tessera/graph/graph.h"
#include "tessera/graph/passes/constants.h"
#include "tessera/symbol/cached_op.h"
#include "tessera/symbol/run/derived_arrays.h"
#include "tessera/symbol/run/step_runner.h"

namespace tessera::symbol_internal {

/// The inputs and modes of calls that run the same compiled graph.
class CallSignature {
 public:
  struct Input {
    TShape shape;
    DType dtype;
  };

  /// Throws Error(kInvalidArgument) that names an input that lies on another device than the first.
  CallSignature(std::span<const NDArray> inputs, const std::vector<std::string>& names,
                std::vector<bool> needs_gradient, bool is_train);
  /// Constructs the signature of calls outside of training, without gradients.
  CallSignature(std::vector<Input> inputs, Device device);

  /// Returns whether a call has this signature.
  bool Matches(std::span<const NDArray> inputs, const std::vector<bool>& needs_gradient,
               bool is_train) const;

  const Input& input(size_t index) const { return inputs_[index]; }
  /// Returns the shapes and types of the inputs.
  graph::KnownVariables Variables() const;
  bool needs_gradient(size_t input) const { return needs_gradient_[input]; }
  /// Returns whether an input needs a gradient, so that calls are recorded.
  bool is_recorded() const { return is_recorded_; }
  bool is_train() const { return is_train_; }
  /// Returns the device of all inputs.
  Device device() const { return device_; }

 private:
  std::vector<Input> inputs_;
  std::vector<bool> needs_gradient_;  // empty if none does
  bool is_recorded_ = false;
  bool is_train_ = false;
  Device device_;
  Engine*
      engine_;  // whose variables the operators' resources have: the child of a fork has another
};

/// Variables and memory of a call's intermediate values, which later calls may use again. Between
/// calls, there are arenas only if memory is static.
struct CallState {
  std::shared_ptr<const VariableSet> variables;
  std::vector<std::shared_ptr<Arena>> arenas;           ///< of CompiledCall::program
  std::vector<std::shared_ptr<Arena>> retained_arenas;  ///< of GradientRun::program, if another
};

/// The steps that compute the gradient of a call.
struct GradientRun {
  std::shared_ptr<const PreparedProgram> program;
  std::shared_ptr<const StepCalls> calls;
};

class CompiledCall;

/// An input that a part of a graph may read: a variable of the graph, or a value of an earlier
/// part.
struct PartInput {
  int position;  ///< among the arrays of a call
  CallSignature::Input input;
};

/// A part of a graph that the passes have split off, computed by a graph of its own when one of the
/// arrays that it reads has changed.
class GraphPart {
 public:
  /// Constructs a part without values.
  GraphPart() = default;
  /// Compiles the part. Adds its values to `known`, which has all that it may read by name. Throws
  /// what the compilation throws.
  GraphPart(const std::vector<graph::FixedValue>& values, Device device,
            SharedDerivedArrays* shared, std::map<std::string, PartInput>* known);

  /// Appends the values' arrays to `arrays`, which has those at the known positions.
  void AppendTo(std::vector<NDArray>* arrays) const;

 private:
  std::shared_ptr<CompiledCall> graph_;  // null without values
  std::vector<int> inputs_;              // the positions of the graph's inputs
  std::shared_ptr<DerivedArrays> arrays_;
};

/// A graph compiled for a signature.
///
/// Threads: every member may be called from any thread.
class CompiledCall : public std::enable_shared_from_this<CompiledCall> {
 public:
  /// `derived` keeps what depends on constants and weights alone; null to compute it in each call.
  CompiledCall(CallSignature signature, const CachedOpOptions& options,
               std::shared_ptr<SharedDerivedArrays> derived)
      : signature_(std::move(signature)), options_(options), derived_(std::move(derived)) {}

  const CallSignature& signature() const { return signature_; }

  /// Compiles at the first call. `graph` is the one with these heads. Throws what the compilation
  /// throws, each time.
  void Compile(const std::vector<graph::NodeEntry>& heads, const graph::IndexedGraph& graph);
  /// Returns whether shapes depend on values, so that the operators are called one by one.
  bool is_dynamic() const { return program_ == nullptr; }

  /// Calls the graph. Requires: Compile has returned, and the graph is not dynamic.
  std::vector<NDArray> Call(std::span<const NDArray> inputs);

  /// Returns the program; null if the graph is dynamic.
  const std::shared_ptr<const PreparedProgram>& program() const { return program_; }
  /// Returns the reason why the graph has no gradient, if it has none but is recorded.
  const std::optional<Error>& gradient_error() const { return gradient_error_; }
  /// Returns the gradient for the requests of all inputs. If it `is_last`, its program is
  /// program(), whose gradient overwrites forward values. Otherwise it is another one, made at the
  /// first use, which differs in the memory of the gradient's values alone: they have arenas of
  /// their own. Both have the same forward arenas and the same variables.
  GradientRun Gradient(std::span<const OpReqType> requests, bool is_last);
  /// Returns the position among all inputs of an argument.
  const std::vector<int>& input_of_argument() const { return input_of_argument_; }
  /// Returns, for each value, whether the gradient reads it from before.
  const std::vector<bool>& saved() const { return saved_; }

  /// Lends a state, and takes one back after the call's last push.
  CallState TakeState();
  void GiveState(CallState state);

 private:
  /// Compiles the graph. Sets gradient_error_.
  graph::CompiledGraph CompileGraph(const std::vector<graph::NodeEntry>& heads);
  /// Compiles the parts that were split off from `graph`.
  void TakeParts(const graph::CompiledGraph& compiled, const graph::IndexedGraph& graph);
  void TakeProgram(graph::CompiledGraph compiled);
  std::vector<NDArray> MakeOutputs(std::span<const NDArray> inputs) const;
  void BindFixedValues(std::span<const NDArray> inputs, Binding* binding) const;
  void BindForms(Binding* binding) const;

  const CallSignature signature_;
  const CachedOpOptions options_;
  const std::shared_ptr<SharedDerivedArrays> derived_;

  std::mutex compile_mutex_;  // guards the writes to is_compiled_ and to the fields up to saved_
  std::atomic<bool> is_compiled_{false};
  // Written by Compile alone, before anything else reads them.
  std::shared_ptr<const PreparedProgram> program_;
  std::optional<Error> gradient_error_;
  std::vector<int> input_of_argument_, input_of_aux_state_;
  std::vector<int> value_of_input_;
  GraphPart constants_, parameters_;
  std::vector<int> value_of_fixed_;  // of the parts' values, in their order
  // Of the program's prepared_inputs(). Empty arrays: made of nothing yet.
  std::vector<std::shared_ptr<DerivedArrays>> forms_;
  std::vector<bool> saved_;

  std::mutex mutex_;
  std::vector<CallState> idle_ ABSL_GUARDED_BY(mutex_);
  // Of the gradient that leaves forward values; null before its first use.
  std::shared_ptr<const PreparedProgram> retaining_program_ ABSL_GUARDED_BY(mutex_);
  // By is_last and requests.
  std::map<std::pair<bool, std::vector<OpReqType>>, GradientRun> gradients_ ABSL_GUARDED_BY(mutex_);
};

/// The way in which the operators of a graph are called if a compiled form does not suit them.
enum class NodeCalls {
  kAllowed,  ///< one by one
  kRefused,  ///< not at all: shapes that depend on values are an error
};

/// A symbol with its compiled forms.
class CachedGraph {
 public:
  CachedGraph(const Symbol& symbol, CachedOpOptions options,
              NodeCalls node_calls = NodeCalls::kAllowed);

  std::vector<NDArray> Call(std::span<const NDArray> inputs);
  MemoryPlanSummary MemoryPlan(std::span<const NDArray> inputs);
  void SetMonitor(CachedOp::Monitor monitor, bool all, MonitorNames names);
  const std::vector<std::string>& input_names() const { return input_names_; }
  int num_signatures();

 private:
  /// Calls after each operator, or also before it.
  struct Monitoring {
    CachedOp::Monitor monitor;
    bool all = false;
    MonitorNames names;
  };

  std::shared_ptr<const Monitoring> GetMonitoring();
  /// Reports the inputs or outputs of a node.
  static void Report(const Monitoring& monitoring, const graph::Node& node,
                     const std::vector<std::string>& names, const std::vector<NDArray>& arrays);
  void RequireCount(std::span<const NDArray> inputs) const;
  /// Returns the graph for these inputs and the thread's modes. It may not be compiled yet.
  std::shared_ptr<CompiledCall> Find(std::span<const NDArray> inputs);
  /// Calls the operators one by one. `monitoring` may be null.
  std::vector<NDArray> CallNodes(std::span<const NDArray> inputs,
                                 const Monitoring* monitoring) const;
  /// Calls one of them. `values` are the arrays so far, by entry.
  std::vector<NDArray> CallNode(int id, std::span<const NDArray> arguments,
                                const std::vector<NDArray>& values) const;
  /// Returns the property of an operator without inputs that has the shape which its readers
  /// expect, as far as the values so far tell it.
  std::shared_ptr<const OperatorProperty> WithShape(int id,
                                                    const std::vector<NDArray>& values) const;

  const Symbol symbol_;
  const graph::IndexedGraph graph_;
  const CachedOpOptions options_;
  std::vector<std::string> input_names_;
  std::vector<int> input_nodes_;  // the variables' nodes, in the order of the inputs
  const NodeCalls node_calls_;
  bool calls_nodes_;                          // whether the operators are called one by one
  std::vector<std::string> implementations_;  // for each node, the name of the one to use, or empty
  // For each node that runs graphs, it alone, for calls one by one; null for the others.
  std::vector<std::unique_ptr<CachedGraph>> loops_;

  std::mutex mutex_;
  std::shared_ptr<const Monitoring> monitoring_ ABSL_GUARDED_BY(mutex_);  // null for none
  // Signatures of one network differ in the data, and share what is computed from weights.
  const std::shared_ptr<SharedDerivedArrays> derived_ = std::make_shared<SharedDerivedArrays>();
  // The latest used one is the first.
  std::vector<std::shared_ptr<CompiledCall>> compiled_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace tessera::symbol_internal

#endif  // TESSERA_SYMBOL_RUN_CACHED_GRAPH_H_
