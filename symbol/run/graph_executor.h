#ifndef TESSERA_SYMBOL_RUN_GRAPH_EXECUTOR_H_
#define TESSERA_SYMBOL_RUN_GRAPH_EXECUTOR_H_

#include <array>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "tessera/graph/graph.h"
#include "tessera/graph/infer.h"
#include "tessera/graph/program.h"
#include "tessera/symbol/executor.h"
#include "tessera/symbol/run/fixed_values.h"
#include "tessera/symbol/run/step_runner.h"

namespace tessera::symbol_internal {

/// The arrays of an executor, complete and checked.
struct ExecutorArrays {
  std::vector<NDArray> arguments;
  std::vector<NDArray> gradients;
  std::vector<OpReqType> grad_requests;
  std::vector<NDArray> aux_states;
};

/// The devices of a symbol's nodes.
struct ExecutorDevices {
  Device device;                            ///< of nodes without a group
  std::map<std::string, Device> group2ctx;  ///< of the others, by group

  /// Returns the devices of the variables of a symbol, whose graph is given, by name.
  std::map<std::string, Device> OfVariables(const graph::IndexedGraph& graph,
                                            const Symbol& symbol) const;
};

/// An executor of a graph on arrays.
class GraphExecutor final : public Executor {
 public:
  /// Builds and binds the program. `graph` is the symbol's, `shared` an executor whose memory is
  /// used too, or null. Outputs use the memory of `outputs`, those of an executor of the symbol,
  /// where it is large enough.
  GraphExecutor(const Symbol& symbol, const graph::IndexedGraph& graph, graph::GraphShapes shapes,
                graph::GraphTypes types, ExecutorDevices devices, ExecutorArrays arrays,
                const Executor* shared, const std::vector<NDArray>& outputs = {});

  void Forward(bool is_train) override;
  int PartialForward(bool is_train, int step) override;
  void Backward(const std::vector<NDArray>& head_grads) override;
  const std::vector<NDArray>& outputs() const override { return outputs_; }
  const std::vector<NDArray>& arg_arrays() const override { return arrays_.arguments; }
  const std::vector<NDArray>& grad_arrays() const override { return arrays_.gradients; }
  const std::vector<NDArray>& aux_arrays() const override { return arrays_.aux_states; }
  std::map<std::string, NDArray> arg_dict() const override;
  std::map<std::string, NDArray> grad_dict() const override;
  std::map<std::string, NDArray> aux_dict() const override;
  void CopyParamsFrom(const std::map<std::string, NDArray>& arguments,
                      const std::map<std::string, NDArray>& aux_states,
                      bool allow_extra_params) override;
  std::unique_ptr<Executor> Reshape(const ReshapeOptions& options) const override;
  void SetMonitorCallback(MonitorCallback callback, bool monitor_all, MonitorNames names) override;
  MemoryPlanSummary memory_plan() const override;
  std::string DebugString() const override;

 private:
  /// The results of the last Forward, for Backward.
  enum class Results {
    kNone,
    kKept,
    kUsed,  // overwritten by an earlier Backward
  };

  void MakeArrays(const graph::Program& program, const std::vector<NDArray>& outputs);
  /// Returns the array of a value; none for an intermediate one.
  NDArray ArrayOf(const graph::Value& value) const;
  std::shared_ptr<Binding> BindArrays(const PreparedProgram& program,
                                      const FixedValues* fixed) const;
  /// Returns the arenas of all programs, to be shared.
  std::vector<std::shared_ptr<Arena>> Arenas() const;
  graph::PreparedGraph RunPasses(const std::vector<graph::NodeEntry>& heads,
                                 const std::vector<graph::NodeEntry>& wanted, bool training,
                                 std::unique_ptr<FixedValues>* fixed) const;
  graph::Program BuildProgram(bool training, std::unique_ptr<FixedValues>* fixed,
                              bool keeps_unread = false) const;
  void BindPlanned(bool training, std::vector<std::shared_ptr<Arena>> reused,
                   const std::vector<NDArray>& outputs = {});
  void BindMonitored();
  /// Returns the program for a mode, bound at its first use.
  BoundProgram* Planned(bool is_train);
  /// Returns the program to run, monitored or not, after updating its fixed values.
  BoundProgram* Runner(bool is_train);
  const PreparedProgram& prepared() const { return planned_[has_gradient_ ? 1 : 0]->program(); }
  CallMode ForwardMode(bool is_train) const;
  void RunMonitored(BoundProgram* runner, int begin, int end, CallMode mode);
  void ReportInputs(const BoundProgram& runner, const graph::Step& step) const;
  void ReportOutputs(const BoundProgram& runner, const graph::Step& step) const;
  void RequireResults() const;
  void TakeHeadGradients(const std::vector<NDArray>& given);
  NDArray Reshaped(const std::string& name, const NDArray& array, const TShape& shape,
                   bool is_stated, const ReshapeOptions& options) const;
  std::string Describe(int value) const;

  const Symbol symbol_;
  const graph::GraphShapes shapes_;  // of IndexedGraph(symbol_.outputs()), as types_
  const graph::GraphTypes types_;
  const ExecutorDevices devices_;
  const ExecutorArrays arrays_;
  const bool has_gradient_;
  std::vector<std::string> argument_names_;
  std::vector<std::string> aux_names_;
  std::vector<NDArray> outputs_;
  std::vector<NDArray> head_gradients_;  // is_none() if none is needed
  // By is_train. With gradients, the program for training serves both modes; otherwise the other
  // one is not needed before the first Forward in its mode.
  std::array<std::unique_ptr<BoundProgram>, 2> planned_;
  std::array<std::unique_ptr<FixedValues>, 2> fixed_;  // of these programs; null for none
  std::unique_ptr<BoundProgram> monitored_;            // made at the first monitored run
  MonitorCallback monitor_;
  bool monitor_all_ = false;
  MonitorNames monitor_names_;

  BoundProgram* last_ = nullptr;  // what the last Forward ran
  bool last_is_train_ = false;
  int next_step_ = 0;  // of PartialForward
  Results results_ = Results::kNone;
};

}  // namespace tessera::symbol_internal

#endif  // TESSERA_SYMBOL_RUN_GRAPH_EXECUTOR_H_
