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

/// The memory that an executor allocates for its intermediate results.
struct MemoryPlanSummary {
  int values = 0;               ///< intermediate results
  int buffers = 0;              ///< memory blocks that they share
  int inplace = 0;              ///< results written over an input
  int64_t planned_bytes = 0;    ///< the size of the blocks
  int64_t unplanned_bytes = 0;  ///< the size with a separate block for each result
};

/// A symbol bound to arrays on a device, to be run repeatedly. Binding does all work that does not
/// depend on values: shapes, gradient graph, memory plan, operators. A step then only pushes
/// prepared operations to the engine, and allocates nothing.
///
/// Forward and Backward return at once; wait on the arrays. Threads: one thread at a time calls an
/// executor; the arrays may be used from any thread.
class Executor {
 public:
  virtual ~Executor() = default;

  /// Runs the graph on the current contents of the arguments. If is_train, it keeps the results
  /// that the gradient needs and updates aux states.
  virtual void Forward(bool is_train) = 0;

  /// Adds or writes (as grad_req says) the gradients of the arguments, once after each
  /// Forward(true): gradients overwrite the results that Forward has kept. `head_grads` has one
  /// array for each output; it may be empty if every output is a loss. Throws
  /// Error(kFailedPrecondition) unless Forward(true) came last. Throws Error(kInvalidArgument) if
  /// a head gradient is missing, if there are too many, or if a shape or type does not fit.
  virtual void Backward(const std::vector<NDArray>& head_grads = {}) = 0;

  /// Returns the results of the last Forward, in the order of ListOutputs. The arrays are the same
  /// each time.
  virtual const std::vector<NDArray>& outputs() const = 0;

  /// Return arrays in the order of the symbol's ListArguments and ListAuxiliaryStates, or by name.
  /// A gradient that is not requested is_none().
  virtual const std::vector<NDArray>& arg_arrays() const = 0;
  virtual const std::vector<NDArray>& grad_arrays() const = 0;
  virtual const std::vector<NDArray>& aux_arrays() const = 0;
  virtual std::map<std::string, NDArray> arg_dict() const = 0;
  virtual std::map<std::string, NDArray> grad_dict() const = 0;
  virtual std::map<std::string, NDArray> aux_dict() const = 0;

  /// Returns the memory of the intermediate results.
  virtual MemoryPlanSummary memory_plan() const = 0;

  /// Returns the operations in order, with shapes and the blocks that they write.
  virtual std::string DebugString() const = 0;
};

/// Arrays for Bind, in the order of ListArguments and ListAuxiliaryStates.
struct BindArguments {
  std::vector<NDArray> arguments;  ///< one for each argument, all on the device
  /// One for each argument, possibly is_none(), or empty for no gradients.
  std::vector<NDArray> gradients = {};
  /// One for each argument, or empty: kWriteTo for each argument with a gradient.
  std::vector<OpReqType> grad_requests = {};
  std::vector<NDArray> aux_states = {};  ///< one for each auxiliary state
};

/// Binds a symbol to given arrays. Throws Error(kInvalidArgument) that names the argument if a
/// number of arrays, a shape, a type or a device does not fit.
std::unique_ptr<Executor> Bind(const Symbol& symbol, Device device, const BindArguments& arrays);

/// Options of SimpleBind that it cannot infer.
struct SimpleBindOptions {
  std::map<std::string, TShape> shapes;       ///< of inputs, enough to infer the rest
  std::map<std::string, DType> types = {};    ///< of inputs; float32 by default
  OpReqType grad_req = kWriteTo;              ///< for every argument not in `no_gradient`
  std::vector<std::string> no_gradient = {};  ///< arguments without a gradient, such as data
};

/// Binds a symbol to arrays that it allocates, all zero, after inferring their shapes. Throws
/// Error(kInvalidArgument) that names a shape or type that it could not infer.
std::unique_ptr<Executor> SimpleBind(const Symbol& symbol, Device device,
                                     const SimpleBindOptions& options);

}  // namespace tessera

#endif  // TESSERA_SYMBOL_EXECUTOR_H_
