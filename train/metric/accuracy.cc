// Accuracy, top-k accuracy and the losses of probabilities.
#include <algorithm>
#include <cmath>
#include <memory>
#include <string>
#include <utility>

#include "tessera/base/dtype.h"
#include "tessera/base/error.h"
#include "tessera/train/metric/metric_values.h"
#include "tessera/train/metrics.h"

namespace tessera {
namespace {

using namespace train_internal;  // NOLINT: checks and elements

/// Returns the shape of predictions as (examples, classes, positions): one class for each example
/// and position. Throws Error(kInvalidArgument) if the positions are too many to count.
Shape<3> Classes(const TShape& predictions) {
  TShape positions = predictions;
  positions[0] = positions[1] = 1;
  return Shape3(predictions[0], predictions[1], positions.Size());
}

/// Calls visitor(predictions, labels) with typed pointers.
template <typename Visitor>
void VisitPair(const TBlob& label, const TBlob& prediction, Visitor&& visitor) {
  VisitRealDType(prediction.type_flag_, "EvalMetric", [&](auto prediction_tag) {
    using P = typename decltype(prediction_tag)::type;
    VisitDType(label.type_flag_, [&](auto label_tag) {
      using L = typename decltype(label_tag)::type;
      visitor(static_cast<const P*>(prediction.dptr_), static_cast<const L*>(label.dptr_));
    });
  });
}

class AccuracyDefinition final : public MeanDefinition {
 public:
  std::string name() const override { return "accuracy"; }

  void Check(std::span<const NDArray> labels, std::span<const NDArray> predictions) const override {
    for (size_t i = 0; i < labels.size(); ++i) {
      const TShape& label = labels[i].shape();
      const TShape& prediction = predictions[i].shape();
      if (label == prediction && label.ndim() > 0 && IsReal(predictions[i].dtype())) continue;
      CheckPrediction("Accuracy", predictions[i]);
      const Shape<3> classes = Classes(prediction);
      if (label.ndim() < 1 || label[0] != classes[0] || label.Size() != classes[0] * classes[2]) {
        throw InvalidArgument("Accuracy: labels of shape ", label, ", expected one for each of ",
                              classes[0] * classes[2], " predictions of shape ", prediction);
      }
    }
  }

  MetricSum Compute(std::span<const TBlob> labels, std::span<const TBlob> predictions,
                    index_t valid_rows) const override {
    MetricSum total;
    for (size_t i = 0; i < labels.size(); ++i) {
      const bool direct = labels[i].shape_ == predictions[i].shape_;
      VisitPair(labels[i], predictions[i], [&](const auto* prediction, const auto* label) {
        if (direct) {
          const index_t count = valid_rows * labels[i].shape_.ProdShape(1, labels[i].shape_.ndim());
          AddEqual(prediction, label, count, &total);
        } else {
          AddBest(prediction, label, valid_rows, Classes(predictions[i].shape_), &total);
        }
      });
    }
    return total;
  }

 private:
  template <typename P, typename L>
  static void AddEqual(const P* prediction, const L* label, index_t count, MetricSum* total) {
    for (index_t i = 0; i < count; ++i) {
      total->sum += static_cast<double>(prediction[i]) == static_cast<double>(label[i]) ? 1 : 0;
    }
    total->count += count;
  }

  template <typename P, typename L>
  static void AddBest(const P* prediction, const L* label, index_t rows, const Shape<3>& shape,
                      MetricSum* total) {
    const index_t classes = shape[1], positions = shape[2];
    for (index_t row = 0; row < rows; ++row) {
      for (index_t position = 0; position < positions; ++position) {
        const P* const scores = prediction + row * classes * positions + position;
        index_t best = 0;
        for (index_t k = 1; k < classes; ++k) {
          const auto score = static_cast<double>(scores[k * positions]);
          const auto highest = static_cast<double>(scores[best * positions]);
          if (score > highest || (std::isnan(score) && !std::isnan(highest))) best = k;
        }
        total->sum += ClassOf(label[row * positions + position], classes) == best ? 1 : 0;
      }
    }
    total->count += rows * positions;
  }
};

class TopKDefinition final : public MeanDefinition {
 public:
  explicit TopKDefinition(int top_k) : top_k_(top_k) {}
  std::string name() const override { return "top_k_accuracy_" + std::to_string(top_k_); }

  void Check(std::span<const NDArray> labels, std::span<const NDArray> predictions) const override {
    for (size_t i = 0; i < labels.size(); ++i) {
      CheckPrediction("TopKAccuracy", predictions[i]);
      const TShape& shape = predictions[i].shape();
      if (shape.ndim() != 2 || labels[i].shape() != TShape({shape[0]})) {
        throw InvalidArgument("TopKAccuracy: labels of shape ", labels[i].shape(),
                              " with predictions of shape ", shape,
                              ", expected (batch) and (batch, classes)");
      }
    }
  }

  MetricSum Compute(std::span<const TBlob> labels, std::span<const TBlob> predictions,
                    index_t valid_rows) const override {
    MetricSum total;
    for (size_t i = 0; i < labels.size(); ++i) {
      const index_t classes = predictions[i].shape_[1];
      const std::vector<double> label = FirstElements(labels[i], valid_rows);
      const std::vector<double> scores = FirstElements(predictions[i], valid_rows * classes);
      for (index_t row = 0; row < valid_rows; ++row) {
        const index_t k = ClassOf(label[static_cast<size_t>(row)], classes);
        if (k >= 0 && RankOf(scores.data() + row * classes, classes, k) < top_k_) total.sum += 1;
      }
      total.count += valid_rows;
    }
    return total;
  }

 private:
  /// Returns the number of classes whose score counts as larger than that of class k.
  static index_t RankOf(const double* scores, index_t classes, index_t k) {
    index_t rank = 0;
    for (index_t other = 0; other < classes; ++other) {
      const double a = scores[other], b = scores[k];
      const bool is_larger = std::isnan(a) ? !std::isnan(b) : a > b;
      const bool is_equal = std::isnan(a) ? std::isnan(b) : a == b;
      if (is_larger || (is_equal && other < k)) ++rank;
    }
    return rank;
  }

  const int top_k_;
};

class CrossEntropyDefinition final : public MeanDefinition {
 public:
  explicit CrossEntropyDefinition(std::string name) : name_(std::move(name)) {}
  std::string name() const override { return name_; }

  void Check(std::span<const NDArray> labels, std::span<const NDArray> predictions) const override {
    for (size_t i = 0; i < labels.size(); ++i) {
      CheckPrediction("CrossEntropy", predictions[i]);
      const TShape& shape = predictions[i].shape();
      if (shape.ndim() != 2 || labels[i].shape() != TShape({shape[0]})) {
        throw InvalidArgument("CrossEntropy: labels of shape ", labels[i].shape(),
                              " with predictions of shape ", shape,
                              ", expected (batch) and (batch, classes)");
      }
    }
  }

  MetricSum Compute(std::span<const TBlob> labels, std::span<const TBlob> predictions,
                    index_t valid_rows) const override {
    constexpr double kSmallest = 1e-12;
    MetricSum total;
    for (size_t i = 0; i < labels.size(); ++i) {
      const index_t classes = predictions[i].shape_[1];
      VisitPair(labels[i], predictions[i], [&](const auto* prediction, const auto* label) {
        for (index_t row = 0; row < valid_rows; ++row) {
          const index_t k = ClassOf(label[row], classes);
          if (k < 0) {
            throw OutOfRange("CrossEntropy: label ", static_cast<double>(label[row]), " at row ",
                             row, ", expected one from 0 to ", classes - 1);
          }
          total.sum -= std::log(static_cast<double>(prediction[row * classes + k]) + kSmallest);
        }
      });
      total.count += valid_rows;
    }
    return total;
  }

 private:
  const std::string name_;
};

class PerplexityDefinition final : public MeanDefinition {
 public:
  explicit PerplexityDefinition(std::optional<int64_t> ignore_label)
      : ignore_label_(ignore_label) {}
  std::string name() const override { return "perplexity"; }

  void Check(std::span<const NDArray> labels, std::span<const NDArray> predictions) const override {
    for (size_t i = 0; i < labels.size(); ++i) {
      CheckPrediction("Perplexity", predictions[i]);
      const TShape& shape = predictions[i].shape();
      const index_t rows = shape.ProdShape(0, shape.ndim() - 1);
      if (labels[i].shape().ndim() < 1 || labels[i].shape().Size() != rows) {
        throw InvalidArgument("Perplexity: labels of shape ", labels[i].shape(),
                              ", expected one for each of ", rows, " rows of predictions of shape ",
                              shape);
      }
    }
  }

  MetricSum Compute(std::span<const TBlob> labels, std::span<const TBlob> predictions,
                    index_t valid_rows) const override {
    MetricSum total;
    for (size_t i = 0; i < labels.size(); ++i) {
      const TShape& shape = predictions[i].shape_;
      const index_t classes = shape[shape.ndim() - 1];
      const index_t count = ElementsOfRows(labels[i], valid_rows);
      const std::vector<double> label = FirstElements(labels[i], count);
      const std::vector<double> probabilities = FirstElements(predictions[i], count * classes);
      for (index_t row = 0; row < count; ++row) {
        const double given = label[static_cast<size_t>(row)];
        if (ignore_label_ && given == static_cast<double>(*ignore_label_)) continue;
        const index_t k = ClassOf(given, classes);
        if (k < 0) {
          throw OutOfRange("Perplexity: label ", given, " at row ", row,
                           ", expected one from 0 to ", classes - 1);
        }
        total.sum -=
            std::log(std::max(1e-10, probabilities[static_cast<size_t>(row * classes + k)]));
        ++total.count;
      }
    }
    return total;
  }

  double Value(const std::vector<double>& total) const override {
    return std::exp(MeanDefinition::Value(total));
  }

 private:
  const std::optional<int64_t> ignore_label_;
};

int CheckedTopK(int top_k) {
  if (top_k < 1) throw InvalidArgument("TopKAccuracy: top_k ", top_k, ", expected at least 1");
  return top_k;
}

}  // namespace

Accuracy::Accuracy() : EvalMetric(std::make_shared<AccuracyDefinition>()) {}
CrossEntropy::CrossEntropy()
    : EvalMetric(std::make_shared<CrossEntropyDefinition>("cross-entropy")) {}
TopKAccuracy::TopKAccuracy(int top_k)
    : EvalMetric(std::make_shared<TopKDefinition>(CheckedTopK(top_k))) {}
NegativeLogLikelihood::NegativeLogLikelihood()
    : EvalMetric(std::make_shared<CrossEntropyDefinition>("nll-loss")) {}
Perplexity::Perplexity(std::optional<int64_t> ignore_label)
    : EvalMetric(std::make_shared<PerplexityDefinition>(ignore_label)) {}

}  // namespace tessera
