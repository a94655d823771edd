#ifndef TESSERA_TRAIN_NN_RECURRENT_H_
#define TESSERA_TRAIN_NN_RECURRENT_H_

#include <span>
#include <vector>

#include "tessera/base/device.h"
#include "tessera/base/dtype.h"
#include "tessera/base/tshape.h"
#include "tessera/ndarray/ndarray.h"
#include "tessera/train/nn/layer.h"

namespace tessera::nn {

/// Options of RNN, LSTM and GRU.
struct RecurrentOptions {
  index_t num_layers = 1;      ///< layers, each on the outputs of the one before
  bool bidirectional = false;  ///< whether each layer also runs backwards
  double dropout = 0;          ///< the rate at which training drops outputs between layers
  bool batch_first = false;  ///< whether arrays are (batch, time, …) instead of (time, batch, …)
  index_t input_size = TShape::kUnknown;  ///< the input's channels, if known
};

/// Layers of recurrent cells; RNN, LSTM and GRU construct it.
///
/// Inputs: data (time, batch, channels), and the first states, or none for zeros. Outputs: the last
/// layer's (time, batch, directions * hidden_size), and, if states were given, the last states. A
/// state is (layers * directions, batch, hidden_size); an LSTM has two, hidden and cell.
///
/// Parameters of layer 0, 1, …, where g is the number of a cell's gates:
/// `_unfused.0.i2h_weight` (g * hidden_size, channels), `_unfused.0.h2h_weight` (g * hidden_size,
/// hidden_size), `_unfused.0.i2h_bias` and `_unfused.0.h2h_bias` (g * hidden_size). The names are
/// those of Gluon's files. A bidirectional layer has two of each, `_unfused.0.l_cell.i2h_weight`
/// and `_unfused.0.r_cell.i2h_weight`.
class Recurrent : public Layer {
 public:
  /// Returns first states, all zero, for a batch.
  std::vector<NDArray> BeginState(index_t batch_size, Device device = Device::Cpu(),
                                  DType dtype = DType::kFloat32) const;

 protected:
  /// The cells of a layer.
  enum class Cell { kTanh, kRelu, kLstm, kGru };

  /// Throws Error(kInvalidArgument) for hidden_size or num_layers below 1, and for a dropout
  /// outside [0, 1).
  Recurrent(Cell cell, index_t hidden_size, const RecurrentOptions& options);

 private:
  /// The parameters of one layer in one direction.
  struct Direction {
    Parameter i2h_weight, h2h_weight, i2h_bias, h2h_bias;
  };

  std::vector<NDArray> ForwardAll(std::span<const NDArray> inputs) const final;
  index_t NumStates() const { return cell_ == Cell::kLstm ? 2 : 1; }
  NDArray PackParameters(const NDArray& data) const;

  Cell cell_;
  index_t hidden_size_;
  RecurrentOptions options_;
  std::vector<Direction> directions_;  // layer by layer
};

/// Elman's cell: h' = tanh(W x + b + R h + c), or max(., 0) (J. Elman, Finding Structure in Time,
/// 1990).
class RNN final : public Recurrent {
 public:
  /// The function of a cell.
  enum class Function { kTanh, kRelu };

  explicit RNN(index_t hidden_size, const RecurrentOptions& options = {},
               Function function = Function::kRelu)
      : Recurrent(function == Function::kTanh ? Cell::kTanh : Cell::kRelu, hidden_size, options) {}
};

/// Long short-term memory (S. Hochreiter, J. Schmidhuber, 1997, with the forget gate of F. Gers
/// et al., 2000). Gates are in the order input, forget, cell, output.
class LSTM final : public Recurrent {
 public:
  explicit LSTM(index_t hidden_size, const RecurrentOptions& options = {})
      : Recurrent(Cell::kLstm, hidden_size, options) {}
};

/// Gated recurrent units (K. Cho et al., 2014), with the reset gate behind the product. Gates are
/// in the order reset, update, new.
class GRU final : public Recurrent {
 public:
  explicit GRU(index_t hidden_size, const RecurrentOptions& options = {})
      : Recurrent(Cell::kGru, hidden_size, options) {}
};

}  // namespace tessera::nn

#endif  // TESSERA_TRAIN_NN_RECURRENT_H_
