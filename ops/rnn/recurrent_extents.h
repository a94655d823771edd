#ifndef TESSERA_OPS_RNN_RECURRENT_EXTENTS_H_
#define TESSERA_OPS_RNN_RECURRENT_EXTENTS_H_

#include <cstdint>
#include <optional>

#include "tessera/base/tshape.h"
#include "tessera/ops/parameter.h"
#include "tessera/tensor/nn/recurrent.h"

namespace tessera::ops_internal {

/// The parameters of RNN.
struct RnnParameters {
  using Cell = tensor_internal::RecurrentCell;

  int64_t state_size = 1;
  int64_t num_layers = 1;
  bool bidirectional = false;
  Cell mode = Cell::kRelu;
  float p = 0;
  bool state_outputs = false;
  std::optional<int64_t> projection_size;
  std::optional<double> lstm_state_clip_min, lstm_state_clip_max;
  bool lstm_state_clip_nan = false;
  bool use_sequence_length = false;

  static void Declare(ParameterSchema<RnnParameters>& schema) {
    using P = RnnParameters;
    constexpr double kMax = 4294967295.0;
    schema.Required("state_size", &P::state_size, "the number of units of a layer");
    schema.Range(1, kMax);
    schema.Required("num_layers", &P::num_layers, "the number of layers");
    schema.Range(1, kMax);
    schema.Optional("bidirectional", &P::bidirectional, "run each layer in both directions");
    schema.Choice("mode", &P::mode,
                  {{"gru", Cell::kGru},
                   {"lstm", Cell::kLstm},
                   {"rnn_relu", Cell::kRelu},
                   {"rnn_tanh", Cell::kTanh}},
                  "the kind of cell", /*required=*/true);
    schema.Optional("p", &P::p, "the fraction of a lower layer's output that training drops");
    schema.Range(0, 1);
    schema.Optional("state_outputs", &P::state_outputs, "show the last states as outputs");
    schema.Optional("projection_size", &P::projection_size,
                    "for lstm: project the output of a layer to this many numbers");
    schema.Range(1, kMax);
    schema.Optional("lstm_state_clip_min", &P::lstm_state_clip_min,
                    "for lstm: the least element of a cell state; needs lstm_state_clip_max");
    schema.Optional("lstm_state_clip_max", &P::lstm_state_clip_max,
                    "for lstm: the largest element of a cell state; needs lstm_state_clip_min");
    schema.Optional("lstm_state_clip_nan", &P::lstm_state_clip_nan,
                    "replace NaN in a cell state by lstm_state_clip_min, if there is one");
    schema.Optional("use_sequence_length", &P::use_sequence_length,
                    "take each sample's number of steps from the input sequence_length");
  }

  index_t NumDirections() const { return bidirectional ? 2 : 1; }
  bool HasCell() const { return mode == Cell::kLstm; }
  bool IsProjected() const { return projection_size.has_value(); }
  /// Whether there is anything to drop.
  bool Drops() const { return p > 0 && num_layers > 1; }
};

/// The extents of a call, and where its matrices lie in the vector of parameters.
struct RecurrentExtents {
  index_t layers, directions, size;      // L, D, H
  index_t state;                         // S
  bool is_projected;                     // whether there are matrices V
  index_t gates, kept;                   // blocks of H numbers for each unit
  index_t steps = 0, batch = 0, inputs;  // T, N, C

  RecurrentExtents(const RnnParameters& param, index_t num_inputs)
      : layers(param.num_layers),
        directions(param.NumDirections()),
        size(param.state_size),
        state(param.projection_size.value_or(param.state_size)),
        is_projected(param.IsProjected()),
        gates(param.mode == RnnParameters::Cell::kLstm  ? 4
              : param.mode == RnnParameters::Cell::kGru ? 3
                                                        : 1),
        // A projected layer also keeps what it projects, in the last block.
        kept(is_projected                               ? 6
             : param.mode == RnnParameters::Cell::kLstm ? 5
             : param.mode == RnnParameters::Cell::kGru  ? 4
                                                        : 1),
        inputs(num_inputs) {}
  RecurrentExtents(const RnnParameters& param, const TShape& data)
      : RecurrentExtents(param, data[2]) {
    batch = data[1];
    // Without samples there is nothing to do, however many steps there are.
    steps = batch > 0 ? data[0] : 0;
  }

  index_t Rows() const { return steps * batch; }
  index_t Width() const { return directions * state; }
  index_t Inputs(index_t layer) const { return layer == 0 ? inputs : Width(); }
  /// The number of elements of W, R and V.
  index_t NumWeights(index_t layer) const {
    return gates * size * (Inputs(layer) + state) + (is_projected ? state * size : 0);
  }
  /// The parameters of a layer, both directions together.
  index_t NumOfLayer(index_t layer) const {
    return directions * (NumWeights(layer) + 2 * gates * size);
  }
  /// The parameters of all layers but the first, which may have inputs of another number.
  index_t NumUpper() const { return (layers - 1) * NumOfLayer(1); }
  index_t NumParameters() const { return NumOfLayer(0) + NumUpper(); }
  /// Whether the number of parameters fits in an index_t.
  bool Fit() const {
    const auto real = [](index_t x) { return static_cast<double>(x); };
    const double of_input = real(directions * gates) * real(size);
    const double projections = real(layers * directions) * real(state) * real(size);
    return of_input * (real(inputs) + real(state) + 2 +
                       real(layers) * (real(directions) * real(state) + real(state) + 2)) +
               projections <
           9e18;
  }
  /// The number of inputs that goes with a number of parameters, or less than 0 if none does.
  /// Requires: Fit(), whatever `inputs` is.
  index_t InputsOf(index_t num_parameters) const {
    const index_t projection = is_projected ? state * size : 0;
    const index_t others = directions * (gates * size * (state + 2) + projection) + NumUpper();
    return num_parameters < others ? -1 : (num_parameters - others) / (directions * gates * size);
  }
  /// The position of W; those of R and V are RecurrentWeights and Projection.
  index_t Weights(index_t layer, index_t direction) const {
    const index_t lower =
        layer == 0 ? 0 : directions * (NumWeights(0) + (layer - 1) * NumWeights(1));
    return lower + direction * NumWeights(layer);
  }
  index_t RecurrentWeights(index_t layer, index_t direction) const {
    return Weights(layer, direction) + gates * size * Inputs(layer);
  }
  index_t Projection(index_t layer, index_t direction) const {
    return RecurrentWeights(layer, direction) + gates * size * state;
  }
  /// The position of b; that of b' is gates * size behind it.
  index_t Biases(index_t layer, index_t direction) const {
    return Weights(layers, 0) + (layer * directions + direction) * 2 * gates * size;
  }
};

}  // namespace tessera::ops_internal

#endif  // TESSERA_OPS_RNN_RECURRENT_EXTENTS_H_
