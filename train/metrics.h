#ifndef TESSERA_TRAIN_METRICS_H_
#define TESSERA_TRAIN_METRICS_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "tessera/tensor/tblob.h"
#include "tessera/train/metric.h"

// The metrics. "Of a binary classification" are predictions (batch, 2), the scores of both classes,
// or (batch) or (batch, 1), the probability of class 1, and labels (batch) that are 0 or 1; another
// label is Error(kOutOfRange), thrown by the next Get. Predictions have a floating-point type,
// labels any type.
namespace tessera {

/// The share of examples whose largest prediction is at the label; the first of equal predictions
/// counts, and the first NaN counts as the largest, as in NumPy's argmax. Shapes: predictions
/// (batch, classes, rest…) of a floating-point type with labels (batch, rest…) of any type; or both
/// of the same shape, if predictions are classes themselves. Name: "accuracy".
class Accuracy : public EvalMetric {
 public:
  Accuracy();
};

/// The mean of -log(p + 1e-12), where p is the probability predicted for the label. Shapes:
/// predictions (batch, classes) of a floating-point type, labels (batch) of any type. A label
/// outside the classes is Error(kOutOfRange), thrown by the next Get. Name: "cross-entropy".
class CrossEntropy : public EvalMetric {
 public:
  CrossEntropy();
};

/// The share of examples whose label is among the `top_k` largest predictions; the first of equal
/// predictions counts as larger, and NaN as the largest. Shapes: predictions (batch, classes),
/// labels (batch). Name: "top_k_accuracy_5" for 5.
class TopKAccuracy : public EvalMetric {
 public:
  /// Throws Error(kInvalidArgument) unless top_k >= 1.
  explicit TopKAccuracy(int top_k = 5);
};

/// CrossEntropy under the name "nll-loss".
class NegativeLogLikelihood : public EvalMetric {
 public:
  NegativeLogLikelihood();
};

/// The exponential of the mean of -log(max(p, 1e-10)), where p is the probability predicted for the
/// label. Examples with the label `ignore_label`, such as padding, do not count. Shapes:
/// predictions (…, classes), one label for each of their rows, in the same order. A label outside
/// the classes is Error(kOutOfRange), thrown by the next Get. Name: "perplexity".
class Perplexity : public EvalMetric {
 public:
  explicit Perplexity(std::optional<int64_t> ignore_label = std::nullopt);
};

/// The harmonic mean of precision and recall of class 1, 0 without a true positive, of a binary
/// classification. Unlike MXNet's, it is that of all examples, not the mean over batches. Name:
/// "f1".
class F1 : public EvalMetric {
 public:
  F1();
};

/// Matthews' correlation coefficient (B. W. Matthews, 1975) of a binary classification, of all
/// examples; sums that are 0 do not count in its divisor, as in MXNet. Name: "mcc".
class Mcc : public EvalMetric {
 public:
  Mcc();
};

/// The area under the curve of true over false positive rates of a binary classification: the
/// probability that an example of class 1 has a larger score than one of class 0, where equal
/// scores count half (J. A. Hanley, B. J. McNeil, 1982). NaN unless both classes occur. Keeps each
/// example's score. Name: "roc-auc".
class RocAuc : public EvalMetric {
 public:
  RocAuc();
};

/// The mean absolute error over all elements. Shapes: predictions and labels with as many elements.
/// Name: "mae".
class Mae : public EvalMetric {
 public:
  Mae();
};

/// The mean squared error over all elements. Shapes: predictions and labels with as many elements.
/// Name: "mse".
class Mse : public EvalMetric {
 public:
  Mse();
};

/// The root of the mean squared error. Shapes: predictions and labels with as many elements. Name:
/// "rmse".
class Rmse : public EvalMetric {
 public:
  Rmse();
};

/// Pearson's correlation coefficient of predictions and labels, over all elements; NaN if either is
/// constant. Shapes: predictions and labels with as many elements. Name: "pearsonr".
class PearsonCorrelation : public EvalMetric {
 public:
  PearsonCorrelation();
};

/// The mean of the predictions, which are losses; labels do not count. If a prediction's first
/// extent is the number of examples, only valid rows count. Name: "loss".
class Loss : public EvalMetric {
 public:
  Loss();
};

/// The mean of what a function measures.
class CustomMetric : public EvalMetric {
 public:
  /// Measures the first `valid_rows` examples of two arrays in host memory. It runs in an engine
  /// operation; what it throws is thrown by the next Get.
  using Function =
      std::function<MetricSum(const TBlob& label, const TBlob& prediction, index_t valid_rows)>;

  /// Throws Error(kInvalidArgument) for an empty function.
  CustomMetric(std::string name, Function function);
};

}  // namespace tessera

#endif  // TESSERA_TRAIN_METRICS_H_
