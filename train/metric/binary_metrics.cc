// Metrics of binary classifications.
#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tessera/base/dtype.h"
#include "tessera/base/error.h"
#include "tessera/train/metric/metric_values.h"
#include "tessera/train/metrics.h"

namespace tessera {
namespace {

using namespace train_internal;  // NOLINT: checks and elements

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

/// A metric of the predictions and labels of two classes.
class BinaryDefinition : public MetricDefinition {
 public:
  explicit BinaryDefinition(std::string name) : name_(std::move(name)) {}
  std::string name() const override { return name_; }

  void Check(std::span<const NDArray> labels, std::span<const NDArray> predictions) const override {
    for (size_t i = 0; i < labels.size(); ++i) {
      const TShape& label = labels[i].shape();
      const TShape& prediction = predictions[i].shape();
      const bool fits = label.ndim() == 1 && prediction.ndim() >= 1 && prediction.ndim() <= 2 &&
                        prediction[0] == label[0] &&
                        (prediction.ndim() == 1 || prediction[1] == 1 || prediction[1] == 2);
      if (fits && IsReal(predictions[i].dtype())) continue;
      throw InvalidArgument(name_, ": labels of shape ", label, " with predictions of shape ",
                            prediction, " and type ", predictions[i].dtype(),
                            ", expected (batch) and (batch, 2), (batch, 1) or (batch) of a "
                            "floating-point type");
    }
  }

 protected:
  /// Calls visit(score, predicted, label) for each example: the score or probability of class 1,
  /// whether class 1 is predicted, and whether it is right.
  template <typename Visit>
  void ForEach(std::span<const TBlob> labels, std::span<const TBlob> predictions,
               index_t valid_rows, const Visit& visit) const {
    for (size_t i = 0; i < labels.size(); ++i) {
      const TShape& shape = predictions[i].shape_;
      const bool has_both = shape.ndim() == 2 && shape[1] == 2;
      const std::vector<double> label = FirstElements(labels[i], valid_rows);
      const std::vector<double> scores =
          FirstElements(predictions[i], ElementsOfRows(predictions[i], valid_rows));
      for (size_t row = 0; row < label.size(); ++row) {
        if (label[row] != 0 && label[row] != 1) {
          throw OutOfRange(name_, ": label ", label[row], " at row ", row, ", expected 0 or 1");
        }
        const double score = has_both ? scores[2 * row + 1] : scores[row];
        visit(score, score > (has_both ? scores[2 * row] : 0.5), label[row] == 1);
      }
    }
  }

 private:
  const std::string name_;
};

/// Numbers of examples by prediction and label.
struct Counts {
  double true_positive, false_positive, false_negative, true_negative;
};

/// A metric of the numbers of right and wrong predictions.
class CountsDefinition final : public BinaryDefinition {
 public:
  using Function = double (*)(const Counts& counts);

  CountsDefinition(std::string name, Function function)
      : BinaryDefinition(std::move(name)), function_(function) {}

  std::vector<double> Measure(std::span<const TBlob> labels, std::span<const TBlob> predictions,
                              index_t valid_rows) const override {
    std::vector<double> counts(4);
    ForEach(labels, predictions, valid_rows, [&](double, bool predicted, bool label) {
      counts[label ? (predicted ? 0 : 2) : (predicted ? 1 : 3)] += 1;
    });
    return counts;
  }
  double Value(const std::vector<double>& total) const override {
    const Counts counts = {total[0], total[1], total[2], total[3]};
    return total[0] + total[1] + total[2] + total[3] > 0 ? function_(counts) : kNan;
  }

 private:
  const Function function_;
};

double F1Of(const Counts& n) {
  const double twice = 2 * n.true_positive;
  return twice > 0 ? twice / (twice + n.false_positive + n.false_negative) : 0;
}

double MccOf(const Counts& n) {
  double product = 1;
  for (const double sum :
       {n.true_positive + n.false_positive, n.true_positive + n.false_negative,
        n.true_negative + n.false_positive, n.true_negative + n.false_negative}) {
    if (sum != 0) product *= sum;
  }
  return (n.true_positive * n.true_negative - n.false_positive * n.false_negative) /
         std::sqrt(product);
}

class RocAucDefinition final : public BinaryDefinition {
 public:
  RocAucDefinition() : BinaryDefinition("roc-auc") {}

  /// Returns score and label of each example.
  std::vector<double> Measure(std::span<const TBlob> labels, std::span<const TBlob> predictions,
                              index_t valid_rows) const override {
    std::vector<double> examples;
    ForEach(labels, predictions, valid_rows, [&](double score, bool, bool label) {
      examples.push_back(score);
      examples.push_back(label ? 1 : 0);
    });
    return examples;
  }
  void Merge(const std::vector<double>& batch, std::vector<double>* total) const override {
    total->insert(total->end(), batch.begin(), batch.end());
  }

  double Value(const std::vector<double>& total) const override {
    std::vector<std::pair<double, bool>> examples;
    for (size_t i = 0; i + 1 < total.size(); i += 2) {
      if (std::isnan(total[i])) return kNan;
      examples.emplace_back(total[i], total[i + 1] == 1);
    }
    std::sort(examples.begin(), examples.end());
    // For each example of class 1, those of class 0 with a smaller score, and half of the equal.
    double pairs = 0, negatives = 0, positives = 0;
    for (size_t begin = 0; begin < examples.size();) {
      size_t end = begin;
      double equal_negatives = 0, equal_positives = 0;
      for (; end < examples.size() && examples[end].first == examples[begin].first; ++end) {
        (examples[end].second ? equal_positives : equal_negatives) += 1;
      }
      pairs += equal_positives * (negatives + equal_negatives / 2);
      negatives += equal_negatives;
      positives += equal_positives;
      begin = end;
    }
    return positives > 0 && negatives > 0 ? pairs / (positives * negatives) : kNan;
  }
};

}  // namespace

F1::F1() : EvalMetric(std::make_shared<CountsDefinition>("f1", &F1Of)) {}
Mcc::Mcc() : EvalMetric(std::make_shared<CountsDefinition>("mcc", &MccOf)) {}
RocAuc::RocAuc() : EvalMetric(std::make_shared<RocAucDefinition>()) {}

}  // namespace tessera
