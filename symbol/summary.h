#ifndef TESSERA_SYMBOL_SUMMARY_H_
#define TESSERA_SYMBOL_SUMMARY_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "tessera/base/dtype.h"
#include "tessera/base/tshape.h"
#include "tessera/symbol/symbol.h"

namespace tessera {

/// One layer of a network: an operator, or an input whose shape was given.
struct LayerSummary {
  std::string name;                   ///< the node's name
  std::string op;                     ///< the operator's name, or "null" for an input
  std::vector<TShape> output_shapes;  ///< of the visible outputs
  int64_t parameters = 0;             ///< elements of its parameters that no earlier layer has
  int64_t aux_states = 0;             ///< elements of its aux states that no earlier layer has
  int64_t flops = 0;                  ///< floating-point operations of a forward pass
  int64_t bytes = 0;                  ///< size of its inputs, parameters and outputs
  std::vector<std::string> previous;  ///< the operators and inputs that it reads, each once
};

/// The layers of a network and their sums.
struct NetworkSummary {
  std::vector<LayerSummary> layers;  ///< in the order of the graph
  int64_t parameters = 0;            ///< of all layers
  int64_t aux_states = 0;            ///< of all layers
  int64_t flops = 0;                 ///< of all layers
  int64_t bytes = 0;                 ///< of all layers
};

/// Returns the size and cost of each layer of a network, for inputs of the given shapes and types.
///
/// Parameters are the variables whose shape is not given and that have a gradient, which labels do
/// not have; a recurrent layer's states are none. A parameter of several layers counts once.
/// A multiplication and an addition are an operation each. Convolution, Deconvolution,
/// FullyConnected, dot, batch_dot and RNN count their products and biases, Pooling each element of
/// its windows, and BatchNorm a factor and a term for each element. Operators that only move
/// elements count nothing, and others one operation for each element of their outputs. Sums that do
/// not fit in 63 bits are the largest number.
///
/// Throws what Symbol::InferShape throws, and Error(kInvalidArgument) that names a shape that the
/// given ones do not determine.
NetworkSummary Summarize(const Symbol& symbol, const std::map<std::string, TShape>& shapes,
                         const std::map<std::string, DType>& types = {});

/// Returns the summary as a table with a line for each layer and the sums at the end, as MXNet's
/// print_summary prints one.
std::string PrintSummary(const NetworkSummary& summary);
/// Returns PrintSummary(Summarize(symbol, shapes)).
std::string PrintSummary(const Symbol& symbol, const std::map<std::string, TShape>& shapes);

}  // namespace tessera

#endif  // TESSERA_SYMBOL_SUMMARY_H_
