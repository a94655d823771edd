#ifndef TESSERA_SYMBOL_RUN_RECORDED_GRAPH_H_
#define TESSERA_SYMBOL_RUN_RECORDED_GRAPH_H_

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "tessera/ndarray/ndarray.h"
#include "tessera/ndarray/recorded_function.h"
#include "tessera/symbol/run/cached_graph.h"
#include "tessera/symbol/run/step_runner.h"

namespace tessera::symbol_internal {

/// A call of a compiled graph on the tape, with what its gradient needs.
class RecordedGraph final : public RecordedFunction {
 public:
  /// Keeps the arrays of `binding` that the gradient reads, and the state, from the call whose
  /// operations have been pushed.
  RecordedGraph(std::shared_ptr<CompiledCall> compiled, const Binding& binding, CallState state);
  /// Returns the state for other calls.
  ~RecordedGraph() override;

  const std::string& name() const override;
  void Backward(std::span<const NDArray> out_grads, std::span<const OpReqType> req,
                std::span<const NDArray> in_grads, bool is_last) override;

 private:
  struct SavedArray {
    int value;
    NDArray array;     // not on the tape
    uint64_t version;  // Variable::version() after the call
  };

  void RequireUnchanged() const;
  std::shared_ptr<Binding> Bind(const PreparedProgram& prepared, std::span<const NDArray> out_grads,
                                std::span<const OpReqType> req, std::span<const NDArray> in_grads);
  /// Returns the arenas of the gradient's program.
  const std::vector<std::shared_ptr<Arena>>& ArenasFor(const PreparedProgram& prepared);

  const std::shared_ptr<CompiledCall> compiled_;
  CallState state_;
  std::vector<SavedArray> saved_;
};

}  // namespace tessera::symbol_internal

#endif  // TESSERA_SYMBOL_RUN_RECORDED_GRAPH_H_
