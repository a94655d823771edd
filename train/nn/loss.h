#ifndef TESSERA_TRAIN_NN_LOSS_H_
#define TESSERA_TRAIN_NN_LOSS_H_

#include <cstddef>
#include <span>
#include <vector>

#include "tessera/ndarray/ndarray.h"
#include "tessera/train/nn/layer.h"

namespace tessera::nn {

/// Options of a Loss.
struct LossOptions {
  double weight = 1;   ///< the factor of the loss
  int batch_axis = 0;  ///< the axis of examples
};

/// A loss for each example: loss(prediction, label), or with weights as a last input, which are
/// broadcast to the loss of each element: (batch, 1, …) for one weight an example. The losses of an
/// example's elements are averaged, except where a loss adds them, so that the output is (batch).
/// Backward of the output is the gradient of its sum; Trainer::Step divides by the number of
/// examples.
class Loss : public Layer {
 protected:
  /// Constructs a loss with `num_inputs` inputs before the weights.
  explicit Loss(const LossOptions& options, size_t num_inputs = 2)
      : options_(options), num_inputs_(num_inputs) {}

  /// Returns the loss of each element, without weights.
  virtual NDArray Elements(std::span<const NDArray> inputs) const = 0;
  /// Returns the loss of each example, (batch): the mean of its elements' losses.
  virtual NDArray OfExample(const NDArray& losses) const;
  /// Returns the sum over all axes but batch_axis.
  NDArray SumOfExample(const NDArray& x) const;

 private:
  std::vector<NDArray> ForwardAll(std::span<const NDArray> inputs) const final;

  LossOptions options_;
  size_t num_inputs_;
};

/// |label - prediction|. The label has the prediction's size.
class L1Loss final : public Loss {
 public:
  explicit L1Loss(const LossOptions& options = {}) : Loss(options) {}

 private:
  NDArray Elements(std::span<const NDArray> inputs) const override;
};

/// (label - prediction)^2 / 2. The label has the prediction's size.
class L2Loss final : public Loss {
 public:
  explicit L2Loss(const LossOptions& options = {}) : Loss(options) {}

 private:
  NDArray Elements(std::span<const NDArray> inputs) const override;
};

/// With d = |label - prediction|: d - rho / 2 if d > rho, and d^2 / (2 rho) otherwise (P. Huber,
/// Robust Estimation of a Location Parameter, 1964, up to the factor rho). The label has the
/// prediction's size.
class HuberLoss final : public Loss {
 public:
  /// Throws Error(kInvalidArgument) unless rho > 0.
  explicit HuberLoss(double rho = 1, const LossOptions& options = {});

 private:
  NDArray Elements(std::span<const NDArray> inputs) const override;

  double rho_;
};

/// max(0, margin - prediction * label), where labels are -1 and 1 and have the prediction's size.
class HingeLoss final : public Loss {
 public:
  explicit HingeLoss(double margin = 1, const LossOptions& options = {})
      : Loss(options), margin_(margin) {}

 private:
  NDArray Elements(std::span<const NDArray> inputs) const override;

  double margin_;
};

/// Options of SoftmaxCrossEntropyLoss.
struct SoftmaxCrossEntropyOptions : LossOptions {
  int axis = -1;             ///< the axis of classes
  bool sparse_label = true;  ///< whether labels are numbers of classes, and not probabilities
  bool from_logits = false;  ///< whether predictions are logarithms of probabilities already
};

/// -log softmax(prediction)[label], or -sum(label * log softmax(prediction)) if labels are
/// probabilities. A sparse label has the prediction's shape without the axis; another one its size.
class SoftmaxCrossEntropyLoss final : public Loss {
 public:
  explicit SoftmaxCrossEntropyLoss(const SoftmaxCrossEntropyOptions& options = {})
      : Loss(options), classes_(options) {}

 private:
  NDArray Elements(std::span<const NDArray> inputs) const override;

  SoftmaxCrossEntropyOptions classes_;
};

/// -(label log(p) + (1 - label) log(1 - p)), where p is the sigmoid of the prediction, or, with
/// `from_sigmoid`, the prediction itself. The label has the prediction's size.
class SigmoidCrossEntropyLoss final : public Loss {
 public:
  explicit SigmoidCrossEntropyLoss(bool from_sigmoid = false, const LossOptions& options = {})
      : Loss(options), from_sigmoid_(from_sigmoid) {}

 private:
  NDArray Elements(std::span<const NDArray> inputs) const override;

  bool from_sigmoid_;
};

/// label (log(label) - prediction), the divergence of S. Kullback and R. Leibler, 1951. Labels are
/// probabilities; predictions are their logarithms, or, without `from_logits`, any numbers whose
/// log softmax along `axis` is taken. The losses of an example's elements are added.
class KLDivLoss final : public Loss {
 public:
  explicit KLDivLoss(bool from_logits = true, int axis = -1, const LossOptions& options = {})
      : Loss(options), from_logits_(from_logits), axis_(axis) {}

 private:
  NDArray Elements(std::span<const NDArray> inputs) const override;
  NDArray OfExample(const NDArray& losses) const override { return SumOfExample(losses); }

  bool from_logits_;
  int axis_;
};

/// Connectionist temporal classification (A. Graves et al., ICML 2006). Inputs: predictions (batch,
/// time, classes), whose last class is the blank, labels (batch, length), and optionally the
/// numbers of predictions and of labels of each example (batch). Without these, labels end before
/// the first -1. Output: (batch).
class CTCLoss final : public Layer {
 public:
  explicit CTCLoss(double weight = 1) : weight_(weight) {}

 private:
  std::vector<NDArray> ForwardAll(std::span<const NDArray> inputs) const override;

  double weight_;
};

/// max(0, |positive - x|^2 - |negative - x|^2 + margin), for inputs x, positive and negative of one
/// size, with sums over all axes but batch_axis (F. Schroff et al., FaceNet, CVPR 2015, equation
/// 2).
class TripletLoss final : public Loss {
 public:
  explicit TripletLoss(double margin = 1, const LossOptions& options = {})
      : Loss(options, 3), margin_(margin) {}

 private:
  NDArray Elements(std::span<const NDArray> inputs) const override;

  double margin_;
};

/// 1 - c for label 1, and max(0, c - margin) for label -1, where c is the cosine of the angle
/// between the rows of the inputs a and b (batch, channels). Inputs: a, b and the label (batch).
class CosineEmbeddingLoss final : public Loss {
 public:
  explicit CosineEmbeddingLoss(double margin = 0, const LossOptions& options = {})
      : Loss(options, 3), margin_(margin) {}

 private:
  NDArray Elements(std::span<const NDArray> inputs) const override;

  double margin_;
};

}  // namespace tessera::nn

#endif  // TESSERA_TRAIN_NN_LOSS_H_
