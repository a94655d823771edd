#ifndef TESSERA_TRAIN_METRIC_H_
#define TESSERA_TRAIN_METRIC_H_

#include <initializer_list>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/ndarray/ndarray.h"

namespace tessera {

/// The value of a metric.
struct NamedValue {
  std::string name;  ///< of the metric
  double value;      ///< NaN where nothing was counted
};

/// What a metric adds up over the examples; its value is sum / count.
struct MetricSum {
  double sum = 0;     ///< of the measure
  index_t count = 0;  ///< of what was measured
};

/// How a metric is computed. Implementations are constant and may be called from any thread.
class MetricDefinition {
 public:
  virtual ~MetricDefinition() = default;

  /// What the value is called.
  virtual std::string name() const = 0;

  /// Throws Error(kInvalidArgument) unless Compute can work on arrays of these shapes and types.
  /// There are as many labels as predictions, and at least one.
  virtual void Check(std::span<const NDArray> labels,
                     std::span<const NDArray> predictions) const = 0;

  /// Measures the first `valid_rows` examples of arrays in host memory that Check has passed.
  virtual MetricSum Compute(std::span<const TBlob> labels, std::span<const TBlob> predictions,
                            index_t valid_rows) const = 0;
};

/// A measure of how well predictions fit, averaged over many batches, as Accuracy or CrossEntropy.
///
/// Update returns at once: an engine operation reads the arrays when they are computed, so a
/// training loop never waits for its metric. Copies are handles to the same sums.
/// Threads: every member may be called from any thread; updates count in the order of the calls.
class EvalMetric {
 public:
  explicit EvalMetric(std::shared_ptr<const MetricDefinition> definition);
  /// Several metrics of the same predictions as one, with sums of its own.
  explicit EvalMetric(std::span<const EvalMetric> parts);

  /// The metric of that name: "accuracy" or "acc", "cross-entropy" or "ce".
  /// Throws Error(kNotFound) that lists the names.
  static EvalMetric Create(std::string_view name);

  /// Adds a batch: one label array for each array of predictions. Of the examples (rows) only the
  /// first `valid_rows` count, or all if it is negative: give batch size - DataBatch::pad.
  /// Throws Error(kInvalidArgument), and adds nothing, if numbers, shapes or types do not fit.
  void Update(std::span<const NDArray> labels, std::span<const NDArray> predictions,
              index_t valid_rows = -1);

  /// Forgets the updates so far.
  void Reset();

  /// The averages so far, one for each part; NaN where there was nothing to count. Waits for the
  /// updates, and throws the Error of one that failed, or of the computation of its arrays.
  std::vector<NamedValue> Get() const;

 private:
  struct State;
  std::shared_ptr<State> state_;
};

/// The share of examples whose largest prediction is at the label. Shapes: predictions
/// (batch, classes, rest…) of a floating-point type with labels (batch, rest…) of any type; or both
/// of the same shape, for predictions that are classes themselves. Of equal predictions the first
/// counts. Name: "accuracy".
class Accuracy : public EvalMetric {
 public:
  Accuracy();
};

/// The mean of -log(p + 1e-12), p the probability that is predicted for the label. Shapes:
/// predictions (batch, classes) of a floating-point type, labels (batch) of any type; a label
/// outside the classes is Error(kOutOfRange), at the next Get. Name: "cross-entropy".
class CrossEntropy : public EvalMetric {
 public:
  CrossEntropy();
};

/// Several metrics as one: CompositeMetric({Accuracy(), CrossEntropy()}).
class CompositeMetric : public EvalMetric {
 public:
  CompositeMetric(std::initializer_list<EvalMetric> parts)
      : EvalMetric(std::span(parts.begin(), parts.size())) {}
};

}  // namespace tessera

#endif  // TESSERA_TRAIN_METRIC_H_
