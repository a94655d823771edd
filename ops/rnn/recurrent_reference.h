#ifndef TESSERA_OPS_RNN_RECURRENT_REFERENCE_H_
#define TESSERA_OPS_RNN_RECURRENT_REFERENCE_H_

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <string>
#include <vector>

#include "tessera/base/shape.h"
#include "tessera/base/tshape.h"
#include "tessera/ops/parameter.h"
#include "tessera/ops/testing/operator_row.h"

/// The reference of RNN for its tests: plain loops over numbers of any type, double or one that
/// remembers how it was computed. Functions of such a type are found beside it.
namespace tessera::ops_testing {

inline double ValueOf(double x) { return x; }
inline double Tanh(double x) { return std::tanh(x); }
inline double Sigmoid(double x) { return 1 / (1 + std::exp(-x)); }
inline double Relu(double x) { return x < 0 ? 0 : x; }
inline double Limit(double x, double low, double high) {
  return x < low ? low : x > high ? high : x;
}

/// An array of numbers that are to be taken by several indices.
template <typename Number>
struct Array {
  TShape shape;
  std::vector<Number> data;

  Array() = default;
  explicit Array(const TShape& extents)
      : shape(extents), data(static_cast<size_t>(extents.Size()), Number(0)) {}
  template <typename... Index>
  Number& operator()(Index... index) {
    index_t place = 0;
    int axis = 0;
    ((place = place * shape[axis++] + index), ...);
    return data[static_cast<size_t>(place)];
  }
};

/// The layers, unit by unit: returns the outputs of RNN with these parameters, the hidden ones too,
/// and a mask that drops nothing.
template <typename Number>
std::vector<Array<Number>> Network(const ParameterMap& parameters, std::vector<Array<Number>> in) {
  const ParameterReader p(parameters);
  const std::string mode = p.Text("mode", "");
  const bool lstm = mode == "lstm", gru = mode == "gru";
  const index_t L = p.Int("num_layers", 1), H = p.Int("state_size", 1);
  const index_t D = p.Bool("bidirectional", false) ? 2 : 1;
  const index_t T = in[0].shape[0], N = in[0].shape[1], C = in[0].shape[2];
  const bool projects = parameters.contains("projection_size");
  const index_t P = p.Int("projection_size", H);
  const index_t G = lstm ? 4 : gru ? 3 : 1, S = projects ? 6 : lstm ? 5 : gru ? 4 : 1;
  const bool drops = p.Real("p", 0) > 0 && L > 1;
  const double factor = p.Real("p", 0) == 1 ? 0 : 1;

  Array<Number> gates({L, D, T, N, S * H}), layers({L - 1, T, N, D * P}), last_h = in[2], last_c;
  if (lstm) last_c = in[3];
  // Positions in the vector of parameters: all matrices, then all biases.
  index_t weight = 0, bias = 0;
  for (index_t l = 0; l < L; ++l) {
    bias += D * (G * H * ((l == 0 ? C : D * P) + P) + (projects ? P * H : 0));
  }
  Array<Number> x = in[0], y;
  for (index_t l = 0; l < L; ++l) {
    const index_t inputs = x.shape[2];
    y = Array<Number>({T, N, D * P});
    for (index_t d = 0; d < D; ++d) {
      for (index_t n = 0; n < N; ++n) {
        const index_t length =
            p.Bool("use_sequence_length", false) ? static_cast<index_t>(ValueOf(in.back()(n))) : T;
        for (index_t i = 0; i < T; ++i) {
          const index_t t = d == 0 ? i : T - 1 - i;
          if (t >= length) {
            for (index_t j = 0; lstm && j < H; ++j) {
              gates(l, d, t, n, 4 * H + j) = last_c(l * D + d, n, j);
            }
            continue;
          }
          std::vector<Number> h;
          for (index_t j = 0; j < H; ++j) {
            std::vector<Number> of_input, of_state;
            for (index_t g = 0; g < G; ++g) {
              const index_t row = g * H + j;
              Number sum = in[1](bias + row);
              for (index_t k = 0; k < inputs; ++k) {
                sum = sum + in[1](weight + row * inputs + k) * x(t, n, k);
              }
              of_input.push_back(sum);
              sum = in[1](bias + G * H + row);
              for (index_t k = 0; k < P; ++k) {
                sum = sum + in[1](weight + G * H * inputs + row * P + k) * last_h(l * D + d, n, k);
              }
              of_state.push_back(sum);
            }
            const auto both = [&](size_t g) { return of_input[g] + of_state[g]; };
            std::vector<Number> kept;
            if (lstm) {
              const Number a = Sigmoid(both(0)), f = Sigmoid(both(1)), g = Tanh(both(2)),
                           o = Sigmoid(both(3));
              Number c = f * last_c(l * D + d, n, j) + a * g;
              if (parameters.contains("lstm_state_clip_min")) {
                c = Limit(c, p.Real("lstm_state_clip_min", 0), p.Real("lstm_state_clip_max", 0));
              }
              last_c(l * D + d, n, j) = c;
              h.push_back(o * Tanh(c));
              kept = {a, f, g, o, c};
              if (projects) kept.push_back(h.back());
            } else if (gru) {
              const Number r = Sigmoid(both(0)), z = Sigmoid(both(1)),
                           fresh = Tanh(of_input[2] + r * of_state[2]);
              h.push_back((Number(1) - z) * fresh + z * last_h(l * D + d, n, j));
              kept = {r, z, fresh, of_state[2]};
            } else {
              h.push_back(mode == "rnn_relu" ? Relu(both(0)) : Tanh(both(0)));
              kept = {h.back()};
            }
            for (index_t s = 0; s < S; ++s) {
              gates(l, d, t, n, s * H + j) = kept[static_cast<size_t>(s)];
            }
          }
          for (index_t j = 0; j < P; ++j) {
            Number state = h[static_cast<size_t>(projects ? 0 : j)];
            if (projects) {
              const index_t row = weight + G * H * (inputs + P) + j * H;
              state = Number(0);
              for (index_t k = 0; k < H; ++k) {
                state = state + in[1](row + k) * h[static_cast<size_t>(k)];
              }
            }
            last_h(l * D + d, n, j) = y(t, n, d * P + j) = state;
          }
        }
      }
      weight += G * H * (inputs + P) + (projects ? P * H : 0);
      bias += 2 * G * H;
    }
    x = y;
    if (l + 1 == L) break;
    std::copy(y.data.begin(), y.data.end(), layers.data.begin() + l * y.shape.Size());
    for (Number& value : x.data) {
      if (drops) value = value * Number(factor);
    }
  }
  std::vector<Array<Number>> out = {y};
  if (p.Bool("state_outputs", false)) {
    out.push_back(last_h);
    if (lstm) out.push_back(last_c);
  }
  out.push_back(gates);
  out.push_back(layers);
  if (drops) {
    out.push_back(Array<Number>(layers.shape));
    for (Number& value : out.back().data) value = Number(factor);
  }
  return out;
}

}  // namespace tessera::ops_testing

#endif  // TESSERA_OPS_RNN_RECURRENT_REFERENCE_H_
