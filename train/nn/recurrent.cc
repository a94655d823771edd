#include "tessera/train/nn/recurrent.h"

#include <string>
#include <utility>

#include "tessera/base/error.h"
#include "tessera/train/nn/operator_call.h"

namespace tessera::nn {

using nn_internal::CallOne;
using nn_internal::RequireAtLeast;
using nn_internal::Text;

namespace {

/// Exchanges the first two axes.
NDArray SwapTimeAndBatch(const NDArray& x) {
  return CallOne("transpose", {x}, {{"axes", "(1, 0, 2)"}});
}

NDArray Flat(const NDArray& x) { return CallOne("Reshape", {x}, {{"shape", "(-1,)"}}); }

}  // namespace

Recurrent::Recurrent(Cell cell, index_t hidden_size, const RecurrentOptions& options)
    : cell_(cell), hidden_size_(hidden_size), options_(options) {
  RequireAtLeast("Recurrent", "hidden_size", hidden_size, 1);
  RequireAtLeast("Recurrent", "num_layers", options.num_layers, 1);
  if (!(options.dropout >= 0 && options.dropout < 1)) {
    throw InvalidArgument("Recurrent: dropout is ", options.dropout, ", expected 0 <= dropout < 1");
  }
  for (index_t layer = 0; layer < options.num_layers; ++layer) {
    for (const char* const cell_name : {"l_cell.", "r_cell."}) {
      const std::string prefix =
          "_unfused." + std::to_string(layer) + "." + (options.bidirectional ? cell_name : "");
      directions_.push_back({.i2h_weight = AddParameter(prefix + "i2h_weight"),
                             .h2h_weight = AddParameter(prefix + "h2h_weight"),
                             .i2h_bias = AddParameter(prefix + "i2h_bias"),
                             .h2h_bias = AddParameter(prefix + "h2h_bias")});
      if (!options.bidirectional) break;
    }
  }
}

std::vector<NDArray> Recurrent::BeginState(index_t batch_size, Device device, DType dtype) const {
  const TShape shape = {static_cast<index_t>(directions_.size()), batch_size, hidden_size_};
  std::vector<NDArray> states;
  for (index_t i = 0; i < NumStates(); ++i) {
    states.push_back(CallOne("_zeros", {},
                             {{"shape", Text(shape)},
                              {"ctx", device.ToString()},
                              {"dtype", std::string(DTypeName(dtype))}}));
  }
  return states;
}

NDArray Recurrent::PackParameters(const NDArray& data) const {
  const index_t gates = cell_ == Cell::kLstm ? 4 : cell_ == Cell::kGru ? 3 : 1;
  const index_t rows = gates * hidden_size_;
  const size_t num_directions = options_.bidirectional ? 2 : 1;
  const Device device = data.device();
  // The operator reads all weights, then all biases.
  std::vector<NDArray> parts, biases;
  for (size_t i = 0; i < directions_.size(); ++i) {
    const index_t channels =
        i < num_directions ? data.shape()[2] : hidden_size_ * static_cast<index_t>(num_directions);
    const Direction& direction = directions_[i];
    parts.push_back(Flat(direction.i2h_weight.Use(device, {rows, channels})));
    parts.push_back(Flat(direction.h2h_weight.Use(device, {rows, hidden_size_})));
    biases.push_back(direction.i2h_bias.Use(device, {rows}));
    biases.push_back(direction.h2h_bias.Use(device, {rows}));
  }
  parts.insert(parts.end(), biases.begin(), biases.end());
  return Invoke("_rnn_param_concat", parts,
                {{"num_args", Text(static_cast<index_t>(parts.size()))}, {"dim", "0"}})[0];
}

std::vector<NDArray> Recurrent::ForwardAll(std::span<const NDArray> inputs) const {
  const size_t num_states = static_cast<size_t>(NumStates());
  const bool has_states = inputs.size() > 1;
  if (has_states && inputs.size() != 1 + num_states) {
    throw InvalidArgument("Recurrent: ", inputs.size(),
                          " inputs were given, expected the data, or ", "the data and ", num_states,
                          " states");
  }
  if (inputs[0].shape().ndim() != 3) {
    throw InvalidArgument("Recurrent: the data has shape ", inputs[0].shape(),
                          ", expected 3 dimensions: time, batch and channels");
  }
  const NDArray data = options_.batch_first ? SwapTimeAndBatch(inputs[0]) : inputs[0];
  if (options_.input_size != TShape::kUnknown && options_.input_size != data.shape()[2]) {
    throw InvalidArgument("Recurrent: the data has shape ", inputs[0].shape(), ", expected ",
                          options_.input_size, " channels");
  }
  std::vector<NDArray> arguments = {data, PackParameters(data)};
  if (has_states) {
    arguments.insert(arguments.end(), inputs.begin() + 1, inputs.end());
  } else {
    for (NDArray& state : BeginState(data.shape()[1], data.device(), data.dtype())) {
      arguments.push_back(std::move(state));
    }
  }
  static constexpr const char* kModes[] = {"rnn_tanh", "rnn_relu", "lstm", "gru"};
  std::vector<NDArray> outputs = Invoke("RNN", arguments,
                                        {{"state_size", Text(hidden_size_)},
                                         {"num_layers", Text(options_.num_layers)},
                                         {"bidirectional", Text(options_.bidirectional)},
                                         {"p", Text(options_.dropout)},
                                         {"state_outputs", Text(has_states)},
                                         {"mode", kModes[static_cast<int>(cell_)]}});
  if (options_.batch_first) outputs[0] = SwapTimeAndBatch(outputs[0]);
  return outputs;
}

}  // namespace tessera::nn
