#ifndef TESSERA_TENSOR_NN_RECURRENT_STEP_H_
#define TESSERA_TENSOR_NN_RECURRENT_STEP_H_

#include <cstdint>

namespace tessera::tensor_internal {

/// The cells of recurrent layers. A gate's argument a is the sum of its parts of the input and of
/// the old state, and of two biases. `kept` is what a step forward keeps for the step backward.
///
///   kRelu   h = max(a, 0); kept: h
///   kTanh   h = tanh(a); kept: h
///   kLstm   i, f, o = sigmoid and g = tanh of their arguments, c = f c + i g, h = o tanh(c); gates
///           in the order i f g o; kept: i, f, g, o, c
///   kGru    r, z = sigmoid of their arguments, n = tanh(its part of the input and its bias + r m),
///           where m is its part of the state and the bias of that, h = n + z (old h - n); gates in
///           the order r z n; kept: r, z, n, m
///
/// With limits, c = clip(f c + i g); a cell state that is not between them passes no gradient.
enum class RecurrentCell { kRelu, kTanh, kLstm, kGru };

/// The limits of a cell state.
template <typename T>
struct RecurrentClip {
  T min, max;
  bool replaces_nan;  ///< whether NaN becomes `min`; else it stays
};

/// A step forward of some units of some samples. An array has a row for each sample; the gates of a
/// row, and what is kept of it, are blocks that lie `block` elements apart. Pointers are to the
/// first unit of the first row.
template <typename T>
struct RecurrentStep {
  int64_t rows;   ///< the number of samples
  int64_t units;  ///< the number of units of each sample
  int64_t block;
  /// Begins with the sums of the gates' parts of the input and of the state, and ends with what is
  /// kept. For kGru, the block of n begins with the part of the input alone, and the fourth block
  /// with the part of the state.
  T* kept;
  int64_t kept_stride;
  const T* bias_input;  ///< of the gates, for all samples
  const T* bias_state;  ///< likewise
  const T* old_h;       ///< is read by kGru alone
  T* h;                 ///< receives the new state
  T* c;                 ///< the cell's state, old and then new; only kLstm has it
  int64_t state_stride;
  T* out;  ///< receives the new state too
  int64_t out_stride;
  const RecurrentClip<T>* clip = nullptr;  ///< of kLstm, or null without limits
};

/// A step backward of some units of some samples, with rows and blocks as in RecurrentStep.
template <typename T>
struct RecurrentGradient {
  int64_t rows;
  int64_t units;
  int64_t block;
  const T* kept;
  int64_t kept_stride;
  const T* old_h;  ///< is read by kGru alone
  int64_t old_h_stride;
  const T* old_c;  ///< is read by kLstm alone
  int64_t old_c_stride;
  const T* head;  ///< the gradient of `out`
  int64_t head_stride;
  T* dh;  ///< the gradient of `h`, then of old_h without the part that goes through the gates
  T* dc;  ///< the gradient of the new cell state, then of the old one; only kLstm has it
  int64_t state_stride;
  T* of_input;  ///< receives the gradients of the gates' parts of the input
  T* of_state;  ///< receives those of the parts of the state, for kGru alone: others have one array
  int64_t gates_stride;
  const RecurrentClip<T>* clip = nullptr;  ///< as in the step forward
};

}  // namespace tessera::tensor_internal

#endif  // TESSERA_TENSOR_NN_RECURRENT_STEP_H_
