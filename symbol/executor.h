#ifndef TESSERA_SYMBOL_EXECUTOR_H_
#define TESSERA_SYMBOL_EXECUTOR_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "tessera/ndarray/ndarray.h"
#include "tessera/ops/operator.h"
#include "tessera/ops/sparse.h"
#include "tessera/symbol/memory_plan_summary.h"
#include "tessera/symbol/monitor_names.h"
#include "tessera/symbol/symbol.h"

namespace tessera {

struct BindArguments;
struct CallMode;
struct SimpleBindOptions;

namespace graph {
struct CompiledGraph;
struct CompileOptions;
struct Program;
struct Step;
struct Value;
}  // namespace graph

namespace symbol_internal {
class Arena;
class BoundProgram;
class FixedValues;
class NodeExecutor;
class PreparedInputs;
class PreparedProgram;
struct Binding;
}  // namespace symbol_internal

/// Receives a result of a node, or an input of one, while an executor runs. The array is
/// overwritten by the executor's next monitored run.
using MonitorCallback = std::function<void(const std::string& name, const NDArray& array)>;

/// Options of Executor::Reshape.
struct ReshapeOptions {
  std::map<std::string, TShape> shapes;  ///< new shapes of arguments, enough to infer the rest
  /// Lets arguments change their shapes that `shapes` does not name. Without it they throw, because
  /// the new executor would not share them with the old one.
  bool partial_shaping = false;
  bool allow_up_sizing = false;  ///< lets arrays grow, which then get new memory
};

/// A symbol bound to arrays on a device, to be run repeatedly. Binding does all work that does not
/// depend on values: shapes, gradient graph, memory plan, operators. A step then only pushes
/// prepared operations to the engine, and allocates nothing.
///
/// If an argument, a gradient, an aux state or a value in the graph is sparse (docs/sparse.md), the
/// executor has no plan: each step calls the operators one by one, and allocates. Outputs then have
/// the storage types that the operators give them.
///
/// Forward and Backward return at once; wait on the arrays. Threads: one thread at a time calls an
/// executor, or one of several that share memory; the arrays may be used from any thread.
class Executor {
 public:
  ~Executor();
  Executor(const Executor&) = delete;
  Executor& operator=(const Executor&) = delete;

  /// Runs the graph on the current contents of the arguments. If is_train, operators behave as in
  /// training: they drop elements, use the batch's mean and update aux states. An executor with
  /// gradients keeps the results that these need.
  void Forward(bool is_train);

  /// Runs step `step` of Forward alone, a call of one operator, for debugging: call it with 0, 1, …
  /// Returns the number of steps after it; 0 if there is no such step, and then runs nothing. After
  /// the last step the results are those of Forward. Throws Error(kOutOfRange) for a negative step,
  /// and Error(kUnimplemented) for sparse arrays.
  int PartialForward(bool is_train, int step);

  /// Adds or writes (as grad_req says) the gradients of the arguments, once after each Forward:
  /// gradients overwrite the results that Forward has kept. Operators behave in the mode of that
  /// Forward. `head_grads` has one array for each output; it may be empty if every output is a
  /// loss. Throws Error(kFailedPrecondition) unless Forward came last, also on executors that share
  /// this one's memory. Throws Error(kInvalidArgument) if a head gradient is missing, if there are
  /// too many, or if a shape or type does not fit.
  void Backward(const std::vector<NDArray>& head_grads = {});

  /// Returns the results of the last Forward, in the order of ListOutputs. The arrays are the same
  /// each time.
  const std::vector<NDArray>& outputs() const { return outputs_; }

  /// Return arrays in the order of the symbol's ListArguments and ListAuxiliaryStates, or by name.
  /// A gradient that is not requested is_none().
  const std::vector<NDArray>& arg_arrays() const { return arrays_.arguments; }
  const std::vector<NDArray>& grad_arrays() const { return arrays_.gradients; }
  const std::vector<NDArray>& aux_arrays() const { return arrays_.aux_states; }
  std::map<std::string, NDArray> arg_dict() const;
  std::map<std::string, NDArray> grad_dict() const;
  std::map<std::string, NDArray> aux_dict() const;

  /// Copies parameters to the arguments and aux states of these names, converted to their types.
  /// Throws Error(kInvalidArgument), before copying anything, for a name that the executor does not
  /// have, unless `allow_extra_params`, and for a shape that does not fit.
  void CopyParamsFrom(const std::map<std::string, NDArray>& arguments,
                      const std::map<std::string, NDArray>& aux_states = {},
                      bool allow_extra_params = false);

  /// Returns an executor of the same symbol for other shapes of inputs. Arrays whose shape does not
  /// change are shared with this executor, and so is the memory of arrays that do not grow, outputs
  /// included; memory for intermediate results is shared too. A run of one overwrites the outputs
  /// of the other, and between Forward and Backward of one, the other must not run. Throws
  /// Error(kInvalidArgument) if the shapes do not fit, or if ReshapeOptions forbid what they
  /// require.
  std::unique_ptr<Executor> Reshape(const ReshapeOptions& options) const;

  /// Calls `callback` in each later run with the results of each step, in order and in the calling
  /// thread, right after the step is pushed. A result is called "fc1_output"; one of the gradient
  /// is called "fc1_backward_data_grad". Results that nothing reads are computed too; the gradient
  /// of an argument that has none, such as a label, is zero. With `monitor_all`, the callback also
  /// receives the inputs of each step before, "fc1_data", and first, by its name, a variable that
  /// is one. `names` may give other names than the operator's. Monitored runs use separate memory
  /// for each result. With sparse arrays, results of the gradient are not reported. An empty
  /// function ends this.
  void SetMonitorCallback(MonitorCallback callback, bool monitor_all = false,
                          MonitorNames names = {});

  /// Returns the memory of the intermediate results: all 0 with sparse arrays, which have no plan.
  MemoryPlanSummary memory_plan() const;

  /// Returns the operations in order, with shapes and the places that they write: arrays, or byte
  /// offsets in the memory of intermediate results.
  std::string DebugString() const;

 private:
  friend std::unique_ptr<Executor> Bind(const Symbol& symbol, Device device,
                                        const BindArguments& arrays);
  friend std::unique_ptr<Executor> SimpleBind(const Symbol& symbol, Device device,
                                              const SimpleBindOptions& options);

  /// Arrays and their names, in the order of ListArguments and ListAuxiliaryStates.
  struct Arrays {
    std::vector<std::string> argument_names;
    std::vector<std::string> aux_names;
    std::vector<NDArray> arguments;
    std::vector<NDArray> gradients;
    std::vector<OpReqType> grad_requests;
    std::vector<NDArray> aux_states;

    /// Returns the devices of arguments and aux states by name.
    std::map<std::string, Device> Devices() const;
  };
  /// The devices of the symbol's nodes: those without a group, and the others by group.
  struct Placement {
    Device device;
    std::map<std::string, Device> group2ctx;
  };
  /// See BindArguments.
  struct MemoryLimits {
    int64_t budget_bytes = 0;
    bool recomputes = false;
  };
  /// The results of the last Forward, for Backward.
  enum class Results {
    kNone,
    kKept,
    kUsed,  // overwritten by an earlier Backward
  };

  /// Binds a compiled graph of the symbol to arrays that fit its values. `shared` is an executor
  /// whose memory is used too, or null. Outputs use the memory of `outputs`, those of an executor
  /// of the symbol, where it is large enough.
  Executor(const Symbol& symbol, Placement placement, MemoryLimits limits,
           graph::CompiledGraph compiled, Arrays arrays, const Executor* shared,
           const std::vector<NDArray>& outputs = {});

  void MakeArrays(const graph::Program& program, const std::vector<NDArray>& outputs);
  void MakeHeadGradients(const graph::Program& program);
  /// Prepares calls of the operators one by one if a value is sparse. Returns whether one is.
  bool BindNodes(const graph::Program& program);
  /// Returns the array of a value; none for an intermediate one.
  NDArray ArrayOf(const graph::Value& value) const;
  std::shared_ptr<symbol_internal::Binding> BindArrays(
      const symbol_internal::PreparedProgram& program,
      const symbol_internal::FixedValues* fixed) const;
  /// Returns the arenas of all programs, to be shared.
  std::vector<std::shared_ptr<symbol_internal::Arena>> Arenas() const;
  /// Compiles the symbol for the executor's arrays and their devices.
  graph::CompiledGraph Compile(graph::CompileOptions options) const;
  /// Returns the position in planned_ of the program for a mode, or of that without fused steps.
  size_t ModeOf(bool is_train, bool single_steps = false) const;
  void BindPlanned(size_t mode, graph::CompiledGraph compiled,
                   std::vector<std::shared_ptr<symbol_internal::Arena>> reused,
                   const std::vector<NDArray>& outputs = {});
  void BindMonitored();
  /// Returns the program for a mode, bound at its first use.
  symbol_internal::BoundProgram* Planned(bool is_train, bool single_steps);
  /// Returns the program to run, monitored or not, after updating its fixed values. It has no fused
  /// steps if `single_steps`.
  symbol_internal::BoundProgram* Runner(bool is_train, bool single_steps);
  const symbol_internal::PreparedProgram& prepared() const;
  CallMode ForwardMode(bool is_train) const;
  void RunMonitored(symbol_internal::BoundProgram* runner, int begin, int end, CallMode mode);
  void ReportInputs(const symbol_internal::BoundProgram& runner, const graph::Step& step) const;
  void ReportOutputs(const symbol_internal::BoundProgram& runner, const graph::Step& step) const;
  void RequireResults() const;
  void TakeHeadGradients(const std::vector<NDArray>& given);
  NDArray Reshaped(const std::string& name, const NDArray& array, const TShape& shape,
                   const ReshapeOptions& options) const;
  std::string Describe(int value) const;

  const Symbol symbol_;
  const Placement placement_;
  const MemoryLimits limits_;
  const Arrays arrays_;
  const bool has_gradient_;
  std::vector<NDArray> outputs_;
  std::vector<NDArray> head_gradients_;                   // is_none() if none is needed
  std::unique_ptr<symbol_internal::NodeExecutor> nodes_;  // null without sparse arrays
  // By ModeOf. With gradients, the program for training serves both modes; otherwise the other one
  // is not needed before the first Forward in its mode. Those for PartialForward, without fused
  // steps, are made only if there are such steps.
  std::array<std::unique_ptr<symbol_internal::BoundProgram>, 4> planned_;
  // Of these programs; fixed_ has null for one without fixed values.
  std::array<std::unique_ptr<symbol_internal::FixedValues>, 4> fixed_;
  std::array<std::unique_ptr<symbol_internal::PreparedInputs>, 4> prepared_inputs_;
  std::unique_ptr<symbol_internal::BoundProgram> monitored_;  // made at the first monitored run
  MonitorCallback monitor_;
  bool monitor_all_ = false;
  MonitorNames monitor_names_;

  symbol_internal::BoundProgram* last_ = nullptr;  // what the last Forward ran
  bool last_is_train_ = false;
  int next_step_ = 0;  // of PartialForward
  Results results_ = Results::kNone;
};

/// Arrays for Bind, in the order of ListArguments and ListAuxiliaryStates.
struct BindArguments {
  /// One for each argument, on Bind's device; with `group2ctx`, on any.
  std::vector<NDArray> arguments;
  /// One for each argument, possibly is_none(), or empty for no gradients.
  std::vector<NDArray> gradients = {};
  /// One for each argument, or empty: kWriteTo for each argument with a gradient.
  std::vector<OpReqType> grad_requests = {};
  std::vector<NDArray> aux_states = {};  ///< one for each auxiliary state
  /// The devices of operators with the attribute `ctx_group`, by its value. Values that are used on
  /// another device are copied there. An operator without a group runs where its first input lies.
  std::map<std::string, Device> group2ctx = {};
  /// An executor whose memory for intermediate results the new one uses where it is large enough,
  /// or null. Between Forward and Backward of one, the other must not run.
  const Executor* shared_executor = nullptr;
  /// The most bytes that the plan of intermediate results and workspaces may take
  /// (MemoryPlanSummary::planned_bytes), or 0 for no limit. If the plan is larger otherwise,
  /// Backward recomputes results of Forward that are then not kept, with the same bits, and takes
  /// up to the time of another Forward. The calls of Bind and Reshape throw
  /// Error(kInvalidArgument) that tells the smallest plan if that is larger than the budget, and so
  /// does the first Forward of another mode without gradients and the first PartialForward, which
  /// have plans of their own. Without effect if a value is sparse.
  int64_t memory_budget_bytes = 0;
  /// Lets Backward recompute the results of element-wise operators and of BatchNorm, whatever the
  /// budget is, as the setting TESSERA_RECOMPUTE does for all graphs. Those of nodes with the
  /// attribute `__force_mirroring__` are recomputed in any case.
  bool recomputes = false;
};

/// Binds a symbol to given arrays. Without gradients, Forward(false) runs a simplified graph, in
/// which weights of layers absorb BatchNorm. The new weights are computed again after an operation
/// was pushed that writes one of their arrays, and each time if other code may write it: memory of
/// the caller, of another library (DLPack) or of several processes.
///
/// Throws Error(kInvalidArgument) that names the argument if a number of arrays, a shape, a type or
/// a device does not fit, or if two variables have one name. A gradient lies on its argument's
/// device, an aux state on that of the operator which changes it.
std::unique_ptr<Executor> Bind(const Symbol& symbol, Device device, const BindArguments& arrays);

/// Options of SimpleBind that it cannot infer.
struct SimpleBindOptions {
  std::map<std::string, TShape> shapes;     ///< of inputs, enough to infer the rest
  std::map<std::string, DType> types = {};  ///< of inputs; float32 by default
  /// Of inputs; by default as the attribute `__storage_type__` says, a StorageType's number, and
  /// dense without it. An argument's gradient is sparse if the operators give a sparse one,
  /// on a CPU.
  std::map<std::string, StorageType> storage_types = {};
  OpReqType grad_req = kWriteTo;              ///< for every argument not in `no_gradient`
  std::vector<std::string> no_gradient = {};  ///< arguments without a gradient, such as data
  /// Requests of single arguments, in place of `grad_req` and `no_gradient`.
  std::map<std::string, OpReqType> grad_requests = {};
  /// See BindArguments. A variable with a group lies on the group's device, an aux state on that of
  /// the operator which changes it, any other variable on SimpleBind's.
  std::map<std::string, Device> group2ctx = {};
  /// See BindArguments. The new executor also uses its arrays for the arguments in
  /// `shared_arguments`, with their gradients, and for aux states of the same name.
  const Executor* shared_executor = nullptr;
  std::vector<std::string> shared_arguments = {};
  int64_t memory_budget_bytes = 0;  ///< see BindArguments
  bool recomputes = false;          ///< see BindArguments
  /// Returns the array of an argument that is not shared, or none for a new one.
  std::function<NDArray(const std::string& name, const TShape& shape, Device device, DType dtype)>
      allocate = nullptr;
};

/// Binds a symbol to arrays that it allocates, all zero, after inferring their shapes. Throws
/// Error(kInvalidArgument) that names a shape or type that it could not infer, or that a shared
/// array does not have, or a request or storage type for an argument that does not exist, or an
/// attribute `__storage_type__` that is no StorageType's number.
std::unique_ptr<Executor> SimpleBind(const Symbol& symbol, Device device,
                                     const SimpleBindOptions& options);

}  // namespace tessera

#endif  // TESSERA_SYMBOL_EXECUTOR_H_
