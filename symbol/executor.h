#ifndef TESSERA_SYMBOL_EXECUTOR_H_
#define TESSERA_SYMBOL_EXECUTOR_H_

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "tessera/ndarray/ndarray.h"
#include "tessera/ops/operator.h"
#include "tessera/symbol/symbol.h"

namespace tessera {

/// What an executor allocates for its intermediate results.
struct MemoryPlanSummary {
  int values = 0;               ///< intermediate results
  int buffers = 0;              ///< memory blocks that they share
  int inplace = 0;              ///< results written over an input
  int64_t planned_bytes = 0;    ///< what the blocks take
  int64_t unplanned_bytes = 0;  ///< what one block for each result would take
};

/// A symbol bound to arrays on a device, ready to be run again and again. Binding does all the work
/// that does not depend on values: shapes, gradient graph, memory plan, operators. A step then only
/// pushes prepared operations to the engine, and allocates nothing.
///
/// Forward and Backward return at once; wait on the arrays. Threads: one thread at a time calls an
/// executor; the arrays may be used from any thread.
class Executor {
 public:
  virtual ~Executor() = default;

  /// Runs the graph on the present contents of the arguments. With is_train the results that the
  /// gradient needs are kept and aux states updated.
  virtual void Forward(bool is_train) = 0;

  /// Adds up or writes (as grad_req says) the gradients of the arguments, after Forward(true).
  /// `head_grads` has one array for each output; it may be left out where every output is a loss.
  /// Throws Error(kFailedPrecondition) without a Forward(true) before it, Error(kInvalidArgument)
  /// where a head gradient is missing, too many are given, or a shape or type does not fit.
  virtual void Backward(const std::vector<NDArray>& head_grads = {}) = 0;

  /// The results of the last Forward, in the order of ListOutputs: the same arrays each time.
  virtual const std::vector<NDArray>& outputs() const = 0;

  /// In the order of the symbol's ListArguments and ListAuxiliaryStates. A gradient that is not
  /// wanted is_none().
  virtual const std::vector<NDArray>& arg_arrays() const = 0;
  virtual const std::vector<NDArray>& grad_arrays() const = 0;
  virtual const std::vector<NDArray>& aux_arrays() const = 0;
  virtual std::map<std::string, NDArray> arg_dict() const = 0;
  virtual std::map<std::string, NDArray> grad_dict() const = 0;
  virtual std::map<std::string, NDArray> aux_dict() const = 0;

  /// What its intermediate results take.
  virtual MemoryPlanSummary memory_plan() const = 0;

  /// The operations in order, with shapes and the blocks that they write.
  virtual std::string DebugString() const = 0;
};

/// Arrays for Bind, in the order of ListArguments and ListAuxiliaryStates.
struct BindArguments {
  std::vector<NDArray> arguments;  ///< one for each argument, all on the device
  /// May be empty (no gradients) or hold is_none() entries.
  std::vector<NDArray> gradients = {};
  /// One for each argument, or empty: kWriteTo where there is a gradient.
  std::vector<OpReqType> grad_requests = {};
  std::vector<NDArray> aux_states = {};  ///< one for each auxiliary state
};

/// Binds a symbol to given arrays.
/// Throws Error(kInvalidArgument) that names the argument where a number of arrays, a shape, a type
/// or a device does not fit.
std::unique_ptr<Executor> Bind(const Symbol& symbol, Device device, const BindArguments& arrays);

/// What SimpleBind cannot infer.
struct SimpleBindOptions {
  std::map<std::string, TShape> shapes;       ///< of inputs, enough to infer the rest
  std::map<std::string, DType> types = {};    ///< of inputs; float32 where nothing says more
  OpReqType grad_req = kWriteTo;              ///< for every argument not in `no_gradient`
  std::vector<std::string> no_gradient = {};  ///< arguments without one, such as data
};

/// Binds a symbol to arrays that it allocates, all zero, after inferring their shapes.
/// Throws Error(kInvalidArgument) that names what stayed unknown.
std::unique_ptr<Executor> SimpleBind(const Symbol& symbol, Device device,
                                     const SimpleBindOptions& options);

}  // namespace tessera

#endif  // TESSERA_SYMBOL_EXECUTOR_H_
