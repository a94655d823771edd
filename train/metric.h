#ifndef TESSERA_TRAIN_METRIC_H_
#define TESSERA_TRAIN_METRIC_H_

#include <functional>
#include <initializer_list>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/ndarray/ndarray.h"
#include "tessera/ndarray/state.h"

namespace tessera {

/// The value of a metric.
struct NamedValue {
  std::string name;  ///< the metric's name
  double value;      ///< NaN if nothing was counted
};

/// The computation of a metric. Threads: implementations are constant and may be called from any
/// thread.
class MetricDefinition {
 public:
  virtual ~MetricDefinition() = default;

  /// Returns the value's name.
  virtual std::string name() const = 0;

  /// Throws Error(kInvalidArgument) unless Measure supports arrays of these shapes and types.
  /// Requires: as many labels as predictions, and at least one.
  virtual void Check(std::span<const NDArray> labels,
                     std::span<const NDArray> predictions) const = 0;

  /// Returns numbers for the first `valid_rows` examples of arrays in host memory. Requires: Check
  /// has accepted the arrays.
  virtual std::vector<double> Measure(std::span<const TBlob> labels,
                                      std::span<const TBlob> predictions,
                                      index_t valid_rows) const = 0;

  /// Adds a batch's numbers to those of all batches before, which are empty at first. The default
  /// adds them one by one.
  virtual void Merge(const std::vector<double>& batch, std::vector<double>* total) const;

  /// Returns the metric's value from the numbers of at least one batch; NaN if they count nothing.
  virtual double Value(const std::vector<double>& total) const = 0;
};

/// The sums of a metric over the examples; its value is sum / count.
struct MetricSum {
  double sum = 0;     ///< the sum of the measure
  index_t count = 0;  ///< the number of values measured
};

/// The computation of a metric that is an average.
class MeanDefinition : public MetricDefinition {
 public:
  /// Measures the first `valid_rows` examples, as Measure does.
  virtual MetricSum Compute(std::span<const TBlob> labels, std::span<const TBlob> predictions,
                            index_t valid_rows) const = 0;

  std::vector<double> Measure(std::span<const TBlob> labels, std::span<const TBlob> predictions,
                              index_t valid_rows) const final;
  double Value(const std::vector<double>& total) const override;
};

/// A measure of how well predictions fit, over many batches, such as Accuracy or CrossEntropy.
///
/// Update returns at once: an engine operation reads the arrays when they are computed, so a
/// training loop never waits for its metric. Copies are handles to the same sums. Threads: every
/// member may be called from any thread; updates count in the order of the calls.
class EvalMetric : public Stateful {
 public:
  explicit EvalMetric(std::shared_ptr<const MetricDefinition> definition);
  /// Constructs one metric of several metrics over the same predictions, with sums of its own.
  explicit EvalMetric(std::span<const EvalMetric> parts);

  /// Returns the metric of that name, such as "accuracy" or "acc". Throws Error(kNotFound) that
  /// lists the names.
  static EvalMetric Create(std::string_view name);

  /// Adds a batch, with one label array for each array of predictions. Only the first `valid_rows`
  /// examples (rows) count, or all if it is negative; pass batch size - DataBatch::pad. Throws
  /// Error(kInvalidArgument), and adds nothing, if numbers, shapes or types do not fit.
  void Update(std::span<const NDArray> labels, std::span<const NDArray> predictions,
              index_t valid_rows = -1);

  /// Discards the updates so far.
  void Reset();

  /// Returns the values so far, one for each part, or NaN if nothing was counted. Waits for the
  /// updates. Throws the Error of an update that failed, or of the computation of its arrays.
  std::vector<NamedValue> Get() const;

  /// Returns the numbers of all updates; throws what Get throws.
  TrainingState SaveState() const override;
  void LoadState(const TrainingState& state) override;

 private:
  friend class Module;
  struct State;

  /// Adds a batch to both metrics, which have the same parts, and measures it once. `other` may be
  /// null.
  void UpdateBoth(std::span<const NDArray> labels, std::span<const NDArray> predictions,
                  index_t valid_rows, const EvalMetric* other);

  /// Waits for the updates, and merges those of many workers in the order of their ranks. `sum`
  /// replaces numbers by their sums over the workers. Requires: every worker calls it for a metric
  /// with the same parts, and no other thread uses the metric.
  void SumTotals(int rank, int num_workers,
                 const std::function<void(std::span<double> numbers)>& sum);

  std::shared_ptr<State> state_;
};

/// Several metrics as one: CompositeMetric({Accuracy(), CrossEntropy()}).
class CompositeMetric : public EvalMetric {
 public:
  CompositeMetric(std::initializer_list<EvalMetric> parts)
      : EvalMetric(std::span(parts.begin(), parts.size())) {}
};

}  // namespace tessera

#endif  // TESSERA_TRAIN_METRIC_H_
