#ifndef TESSERA_TRAIN_NN_LAYER_TRACE_H_
#define TESSERA_TRAIN_NN_LAYER_TRACE_H_

#include <cstddef>
#include <map>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "tessera/ndarray/trace.h"
#include "tessera/train/nn/parameter.h"

namespace tessera::nn_internal {

/// The source of an input of a traced graph: the number of an input of the layer, a parameter, or a
/// constant.
using InputSource = std::variant<size_t, nn::Parameter, NDArray>;

/// The trace of a layer's call. While it lives, parameters that the thread uses become inputs of
/// the graph.
class LayerTrace {
 public:
  /// Throws what Trace throws.
  LayerTrace();
  ~LayerTrace();
  LayerTrace(const LayerTrace&) = delete;
  LayerTrace& operator=(const LayerTrace&) = delete;

  /// Returns the thread's trace, or null.
  static LayerTrace* Current();

  /// Returns the array that stands for the next input of the layer.
  NDArray Input(const NDArray& array);
  /// Returns the array that stands for a parameter's array on the device of the call.
  NDArray Use(const nn::Parameter& parameter, const NDArray& array);

  /// Ends the trace. Returns the graph's outputs; `sources` receives where each variable of the
  /// graph comes from, by name.
  std::vector<graph::NodeEntry> Finish(std::span<const NDArray> outputs,
                                       std::map<std::string, InputSource>* sources);

 private:
  /// An array that stands for a parameter.
  struct UsedParameter {
    nn::Parameter parameter;
    NDArray array;
  };

  /// Returns a name for an input that no other has.
  std::string NewName(std::string name) const;

  Trace trace_;
  std::map<std::string, InputSource> sources_;
  std::vector<UsedParameter> parameters_;
  size_t num_inputs_ = 0;
};

}  // namespace tessera::nn_internal

#endif  // TESSERA_TRAIN_NN_LAYER_TRACE_H_
