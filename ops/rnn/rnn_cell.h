#ifndef TESSERA_OPS_RNN_RNN_CELL_H_
#define TESSERA_OPS_RNN_RNN_CELL_H_

#include <algorithm>

#include "tessera/ops/loops/row_loop.h"
#include "tessera/tensor/functors.h"

/// The cells of recurrent networks: one step of one sample, forward and backward. `gates` is the
/// number of matrices' blocks for each unit, `kept` that of the blocks that Forward keeps for
/// Backward. Gates have the order of cuDNN's documentation: i f g o for LSTM, r z n for GRU.
namespace tessera::ops_internal {
inline namespace TESSERA_ISA_NAMESPACE {

/// A step forward. The gates' arguments are of_input + bias_input + of_state + bias_state.
template <typename T>
struct CellStep {
  index_t size;         ///< the number of units
  T *kept;              ///< begins with of_input, the data's part; becomes what Backward reads
  const T *of_state;    ///< the old state's part
  const T *bias_input;  ///< gates * size elements, as the other two
  const T *bias_state;
  T *h;  ///< the state, old and then new
  T *c;  ///< the cell's state, likewise; only LSTM has it
};

/// A step backward.
template <typename T>
struct CellGradient {
  index_t size;
  const T *kept;
  const T *old_h;
  const T *old_c;
  T *dh;        ///< the gradient of the new state, then the old one's without the matrix's part
  T *dc;        ///< the gradient of the new cell state, then of the old one
  T *of_input;  ///< receives the gradients of the two parts of the gates' arguments, which are one
  T *of_state;  ///< array unless they differ
};

/// h = f(argument).
template <typename Function>
struct PlainCell {
  static constexpr index_t kGates = 1, kKept = 1;

  template <typename T>
  static void Forward(const CellStep<T> &s) {
    T *const a = s.kept;
    const T *const r = s.of_state, *const b = s.bias_input, *const b2 = s.bias_state;
    ForEach(s.size, [=](index_t i) TESSERA_LOOP_BODY { a[i] = (a[i] + b[i]) + (r[i] + b2[i]); });
    Function::Apply(a, s.size);
    std::copy_n(a, s.size, s.h);
  }
  template <typename T>
  static void Backward(const CellGradient<T> &s) {
    const T *const h = s.kept;
    T *const dh = s.dh, *const d = s.of_input;
    ForEach(s.size, [=](index_t i) TESSERA_LOOP_BODY {
      d[i] = Function::Gradient(h[i], dh[i]);
      dh[i] = T(0);
    });
  }
};

/// max(a, 0).
struct CellRelu {
  template <typename T>
  static void Apply(T *a, index_t n) {
    ForEach(n, [=](index_t i) TESSERA_LOOP_BODY { a[i] = a[i] < T(0) ? T(0) : a[i]; });
  }
  template <typename T>
  static T Gradient(T h, T g) {
    return h > T(0) ? g : T(0);
  }
};

/// tanh(a).
struct CellTanh {
  template <typename T>
  static void Apply(T *a, index_t n) {
    op::tanh::ArrayKernel(a, a, n);
  }
  template <typename T>
  static T Gradient(T h, T g) {
    return g * (T(1) - h * h);
  }
};

/// i, f, o = sigmoid and g = tanh of their arguments, c = f old_c + i g, h = o tanh(c). Keeps i, f,
/// g, o, c.
struct LstmCell {
  static constexpr index_t kGates = 4, kKept = 5;

  template <typename T>
  static void Forward(const CellStep<T> &s) {
    const index_t n = s.size;
    T *const a = s.kept, *const h = s.h, *const c = s.c;
    const T *const r = s.of_state, *const b = s.bias_input, *const b2 = s.bias_state;
    ForEach(4 * n, [=](index_t i) TESSERA_LOOP_BODY { a[i] = (a[i] + b[i]) + (r[i] + b2[i]); });
    op::sigmoid::ArrayKernel(a, a, 2 * n);
    op::tanh::ArrayKernel(a + 2 * n, a + 2 * n, n);
    op::sigmoid::ArrayKernel(a + 3 * n, a + 3 * n, n);
    ForEach(n, [=](index_t i) TESSERA_LOOP_BODY {
      c[i] = a[n + i] * c[i] + a[i] * a[2 * n + i];
      a[4 * n + i] = c[i];
    });
    op::tanh::ArrayKernel(c, h, n);
    ForEach(n, [=](index_t i) TESSERA_LOOP_BODY { h[i] *= a[3 * n + i]; });
  }
  template <typename T>
  static void Backward(const CellGradient<T> &s) {
    const index_t n = s.size;
    const T *const a = s.kept, *const old_c = s.old_c;
    T *const d = s.of_input, *const dh = s.dh, *const dc = s.dc;
    T *const d_out = d + 3 * n;
    op::tanh::ArrayKernel(a + 4 * n, d_out, n);
    ForEach(n, [=](index_t i) TESSERA_LOOP_BODY {
      const T in = a[i], forget = a[n + i], g = a[2 * n + i], out = a[3 * n + i];
      const T tanh_c = d_out[i];
      const T dcell = dc[i] + dh[i] * out * (T(1) - tanh_c * tanh_c);
      d_out[i] = dh[i] * tanh_c * out * (T(1) - out);
      d[i] = dcell * g * in * (T(1) - in);
      d[n + i] = dcell * old_c[i] * forget * (T(1) - forget);
      d[2 * n + i] = dcell * in * (T(1) - g * g);
      dc[i] = dcell * forget;
      dh[i] = T(0);
    });
  }
};

/// r, z = sigmoid of their arguments, n = tanh(its part of the input + r m), where m is its part of
/// the state, and h = n + z (old_h - n). Keeps r, z, n, m.
struct GruCell {
  static constexpr index_t kGates = 3, kKept = 4;

  template <typename T>
  static void Forward(const CellStep<T> &s) {
    const index_t n = s.size;
    T *const a = s.kept, *const h = s.h;
    const T *const r = s.of_state, *const b = s.bias_input, *const b2 = s.bias_state;
    ForEach(2 * n, [=](index_t i) TESSERA_LOOP_BODY { a[i] = (a[i] + b[i]) + (r[i] + b2[i]); });
    op::sigmoid::ArrayKernel(a, a, 2 * n);
    ForEach(n, [=](index_t i) TESSERA_LOOP_BODY {
      const T m = r[2 * n + i] + b2[2 * n + i];
      a[2 * n + i] = a[2 * n + i] + b[2 * n + i] + a[i] * m;
      a[3 * n + i] = m;
    });
    op::tanh::ArrayKernel(a + 2 * n, a + 2 * n, n);
    ForEach(n, [=](index_t i)
                   TESSERA_LOOP_BODY { h[i] = a[2 * n + i] + a[n + i] * (h[i] - a[2 * n + i]); });
  }
  template <typename T>
  static void Backward(const CellGradient<T> &s) {
    const index_t n = s.size;
    const T *const a = s.kept, *const old_h = s.old_h;
    T *const d = s.of_input, *const d2 = s.of_state, *const dh = s.dh;
    ForEach(n, [=](index_t i) TESSERA_LOOP_BODY {
      const T reset = a[i], z = a[n + i], fresh = a[2 * n + i], m = a[3 * n + i];
      const T d_fresh = dh[i] * (T(1) - z) * (T(1) - fresh * fresh);
      d[i] = d_fresh * m * reset * (T(1) - reset);
      d[n + i] = dh[i] * (old_h[i] - fresh) * z * (T(1) - z);
      d[2 * n + i] = d_fresh;
      d2[i] = d[i];
      d2[n + i] = d[n + i];
      d2[2 * n + i] = d_fresh * reset;
      dh[i] *= z;
    });
  }
};

}  // namespace TESSERA_ISA_NAMESPACE
}  // namespace tessera::ops_internal

#endif  // TESSERA_OPS_RNN_RNN_CELL_H_
