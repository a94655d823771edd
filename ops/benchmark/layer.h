#ifndef TESSERA_OPS_BENCHMARK_LAYER_H_
#define TESSERA_OPS_BENCHMARK_LAYER_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "tessera/base/tshape.h"
#include "tessera/ops/operator.h"
#include "tessera/ops/parameter.h"
#include "tessera/ops/property.h"
#include "tessera/resource/resource.h"
#include "tessera/tensor/tblob.h"

namespace tessera::ops_benchmark {

/// The part of an operator's work that is timed.
enum class Work {
  kForward,             ///< the outputs, outside of training
  kForwardAndBackward,  ///< in training: the outputs, then the gradients of all inputs
  kDataGradient,        ///< the gradient of the first input alone
  kWeightGradient,      ///< the gradient of the second input alone
};

/// An operator's call with float32 arrays, as it is written in a table of cases.
struct OperatorCall {
  std::string op;
  ParameterMap parameters = {};
  /// Shapes. A shape that follows from the others may be unknown: {}.
  std::vector<TShape> inputs = {};
  Work work = Work::kForward;
  /// The inputs' elements lie in [low, high).
  double low = -1, high = 1;
  /// The input whose elements are integers in [0, index_below); -1 for none.
  int index_input = -1;
  index_t index_below = 0;
};

/// Returns the bytes that a forward call has to read and write: all inputs and visible outputs. Of
/// a table that an input indexes, only what is written counts.
double BytesOf(const OperatorCall& call);

/// An operator with its arrays, called directly: without engine, graph or arrays of NDArray. Loops
/// run on TBB's threads. Not thread-safe.
class Layer {
 public:
  /// Fills the arrays by the rule of values() in operator_peer.py. For the gradients' cases it also
  /// computes the outputs once.
  explicit Layer(const OperatorCall& call);
  ~Layer();

  void Forward();
  void Backward();
  /// Calls Forward, Backward or both, as the call's work says.
  void Run();

  /// Returns whether the calls give what the reference of the operator's test row gives, within
  /// float32's accuracy.
  bool MatchesReference();
  /// Returns the sum of |x[i]| (1 + i % 7 / 7) over the first output, if the work computes it, and
  /// the first wanted gradient, if there is one: checksum() in operator_peer.py.
  double Checksum() const;
  /// Returns the words that describe the call to operator_peer.py.
  std::string PeerRequest() const;

 private:
  class Workspace;

  bool ComputesOutputs() const;
  bool ComputesGradients() const;
  TBlob Array(const TShape& shape, uint32_t number, double low, double high, bool is_index);

  const OperatorCall call_;
  std::unique_ptr<OperatorProperty> property_;
  std::unique_ptr<Operator> operator_;
  std::vector<std::shared_ptr<void>> memory_;
  std::vector<TBlob> in_, in_grad_, out_, out_grad_;
  std::vector<OpReqType> forward_req_, backward_req_;
  std::vector<std::unique_ptr<Workspace>> workspaces_;
  std::vector<Resource*> requested_;
  OpContext context_;
};

}  // namespace tessera::ops_benchmark

#endif  // TESSERA_OPS_BENCHMARK_LAYER_H_
