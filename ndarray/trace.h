#ifndef TESSERA_NDARRAY_TRACE_H_
#define TESSERA_NDARRAY_TRACE_H_

#include <map>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "tessera/graph/node.h"
#include "tessera/ndarray/named_array.h"
#include "tessera/ndarray/ndarray.h"

namespace tessera {

namespace ndarray_internal {
struct TraceLog;
}  // namespace ndarray_internal

/// A function of arrays as a graph of operators. Its variables are the inputs and the constants.
struct TracedGraph {
  std::vector<graph::NodeEntry> outputs;  ///< one for each output of the function
  /// Arrays that the function has used beside its inputs, by the names of their variables:
  /// constant0, constant1, …, except names of inputs.
  std::vector<NamedArray> constants;
};

/// Turns one call of a function of arrays into a graph, which Symbol and CachedOp run again:
///
///     Trace trace;
///     const NDArray y = Function(trace.Input(x, "x"));
///     const TracedGraph traced = trace.Finish({&y, 1});
///
/// From its construction to Finish or its destruction, the thread records (autograd::IsRecording)
/// each call of an operator. The operators run as usual, and the outputs have their values. If the
/// thread recorded before, gradients flow through the outputs to what the inputs were computed
/// from. The graph has the shapes, parameters and branches of this call. It does not have calls
/// inside autograd::Pause, whose results are constants, nor copies by CopyFromTo. A value of
/// NDArray::Detach is that of BlockGrad.
///
/// Throws Error(kFailedPrecondition) if the thread has a trace already. A call of something else
/// than an operator of the registry, such as an autograd::Function or a recorded copy to another
/// device, throws Error(kUnimplemented) if it depends on an input. A call that would overwrite an
/// array which depends on an input throws Error(kFailedPrecondition), as for arrays on the tape.
///
/// Threads: the thread that constructs the object uses and destroys it.
class Trace {
 public:
  Trace();
  ~Trace();
  Trace(const Trace&) = delete;
  Trace& operator=(const Trace&) = delete;

  /// Returns the array to use in the place of an input, whose variable has this name. Throws
  /// Error(kInvalidArgument) if the array is_none() or the name is not new, and
  /// Error(kFailedPrecondition) after Finish.
  NDArray Input(const NDArray& array, std::string name);

  /// Ends the trace and returns the graph of the outputs. Throws Error(kFailedPrecondition) if they
  /// depend on a variable of autograd or a recorded value that is no input, and after Finish.
  /// Throws Error(kInvalidArgument) for an output that is_none().
  TracedGraph Finish(std::span<const NDArray> outputs);

 private:
  /// An output of a node.
  using EntryKey = std::pair<const graph::Node*, int>;
  /// A value on the tape, and the variable that stands for it in the graph.
  struct TracedInput {
    graph::NodeEntry recorded;
    graph::NodeEntry variable;
  };

  void RequireActive(const char* operation) const;
  void End();

  const bool was_recording_;
  const std::unique_ptr<ndarray_internal::TraceLog> log_;
  std::map<EntryKey, TracedInput> inputs_;
  std::set<std::string> names_;  // of inputs
  bool is_active_ = false;
};

}  // namespace tessera

#endif  // TESSERA_NDARRAY_TRACE_H_
