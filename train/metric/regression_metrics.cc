// Metrics of numbers: errors, correlation, losses, and functions of the program.
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

/// The mean of a function of prediction - label, or a function of that mean.
class ErrorDefinition final : public MeanDefinition {
 public:
  using Function = double (*)(double x);

  ErrorDefinition(std::string name, Function of_difference, Function of_mean)
      : name_(std::move(name)), of_difference_(of_difference), of_mean_(of_mean) {}

  std::string name() const override { return name_; }
  void Check(std::span<const NDArray> labels, std::span<const NDArray> predictions) const override {
    for (size_t i = 0; i < labels.size(); ++i) CheckSameSize(name_, labels[i], predictions[i]);
  }
  MetricSum Compute(std::span<const TBlob> labels, std::span<const TBlob> predictions,
                    index_t valid_rows) const override {
    MetricSum total;
    for (size_t i = 0; i < labels.size(); ++i) {
      const index_t count = ElementsOfRows(labels[i], valid_rows);
      const std::vector<double> label = FirstElements(labels[i], count);
      const std::vector<double> prediction = FirstElements(predictions[i], count);
      for (size_t k = 0; k < label.size(); ++k) {
        total.sum += of_difference_(prediction[k] - label[k]);
      }
      total.count += count;
    }
    return total;
  }
  double Value(const std::vector<double>& total) const override {
    return of_mean_(MeanDefinition::Value(total));
  }

 private:
  const std::string name_;
  const Function of_difference_;
  const Function of_mean_;
};

double Same(double x) { return x; }
double Square(double x) { return x * x; }
double Magnitude(double x) { return std::abs(x); }
double Root(double x) { return std::sqrt(x); }

/// Keeps count, means and sums of squared deviations, which do not cancel as sums of squares do.
class PearsonDefinition final : public MetricDefinition {
 public:
  std::string name() const override { return "pearsonr"; }
  void Check(std::span<const NDArray> labels, std::span<const NDArray> predictions) const override {
    for (size_t i = 0; i < labels.size(); ++i) {
      CheckSameSize("PearsonCorrelation", labels[i], predictions[i]);
    }
  }

  std::vector<double> Measure(std::span<const TBlob> labels, std::span<const TBlob> predictions,
                              index_t valid_rows) const override {
    std::vector<double> total;
    for (size_t i = 0; i < labels.size(); ++i) {
      const index_t count = ElementsOfRows(labels[i], valid_rows);
      Merge(Deviations(FirstElements(predictions[i], count), FirstElements(labels[i], count)),
            &total);
    }
    return total;
  }

  /// Joins two sets (T. F. Chan, G. H. Golub, R. J. LeVeque: Updating formulae and a pairwise
  /// algorithm for computing sample variances, 1979, equation 2.1).
  void Merge(const std::vector<double>& batch, std::vector<double>* total) const override {
    if (total->empty()) *total = std::vector<double>(6);
    const double before = (*total)[kCount], count = before + batch[kCount];
    if (batch[kCount] == 0) return;
    const double x = batch[kMeanX] - (*total)[kMeanX], y = batch[kMeanY] - (*total)[kMeanY];
    const double weight = before * batch[kCount] / count;
    (*total)[kSquaresX] += batch[kSquaresX] + x * x * weight;
    (*total)[kSquaresY] += batch[kSquaresY] + y * y * weight;
    (*total)[kProducts] += batch[kProducts] + x * y * weight;
    (*total)[kMeanX] += x * batch[kCount] / count;
    (*total)[kMeanY] += y * batch[kCount] / count;
    (*total)[kCount] = count;
  }

  double Value(const std::vector<double>& total) const override {
    const double divisor = std::sqrt(total[kSquaresX]) * std::sqrt(total[kSquaresY]);
    return divisor > 0 ? total[kProducts] / divisor : std::numeric_limits<double>::quiet_NaN();
  }

 private:
  enum Number { kCount, kMeanX, kMeanY, kSquaresX, kSquaresY, kProducts };

  static std::vector<double> Deviations(const std::vector<double>& x,
                                        const std::vector<double>& y) {
    std::vector<double> numbers(6);
    if (x.empty()) return numbers;
    const auto count = static_cast<double>(x.size());
    for (size_t i = 0; i < x.size(); ++i) {
      numbers[kMeanX] += x[i] / count;
      numbers[kMeanY] += y[i] / count;
    }
    for (size_t i = 0; i < x.size(); ++i) {
      const double dx = x[i] - numbers[kMeanX], dy = y[i] - numbers[kMeanY];
      numbers[kSquaresX] += dx * dx;
      numbers[kSquaresY] += dy * dy;
      numbers[kProducts] += dx * dy;
    }
    numbers[kCount] = count;
    return numbers;
  }
};

class LossDefinition final : public MeanDefinition {
 public:
  std::string name() const override { return "loss"; }
  void Check(std::span<const NDArray>, std::span<const NDArray> predictions) const override {
    for (const NDArray& prediction : predictions) {
      if (IsReal(prediction.dtype())) continue;
      throw InvalidArgument("Loss: predictions of type ", prediction.dtype(),
                            ", expected a floating-point type");
    }
  }
  MetricSum Compute(std::span<const TBlob> labels, std::span<const TBlob> predictions,
                    index_t valid_rows) const override {
    MetricSum total;
    for (size_t i = 0; i < predictions.size(); ++i) {
      const TShape& shape = predictions[i].shape_;
      const bool by_rows = shape.ndim() > 0 && shape[0] == labels[i].shape_[0];
      const index_t count = by_rows ? ElementsOfRows(predictions[i], valid_rows) : shape.Size();
      for (const double loss : FirstElements(predictions[i], count)) total.sum += loss;
      total.count += count;
    }
    return total;
  }
};

class CustomDefinition final : public MeanDefinition {
 public:
  CustomDefinition(std::string name, CustomMetric::Function function)
      : name_(std::move(name)), function_(std::move(function)) {
    if (function_ == nullptr) throw InvalidArgument("CustomMetric ", name_, ": no function given");
  }
  std::string name() const override { return name_; }
  void Check(std::span<const NDArray>, std::span<const NDArray>) const override {}
  MetricSum Compute(std::span<const TBlob> labels, std::span<const TBlob> predictions,
                    index_t valid_rows) const override {
    MetricSum total;
    for (size_t i = 0; i < labels.size(); ++i) {
      const MetricSum sum = function_(labels[i], predictions[i], valid_rows);
      total.sum += sum.sum;
      total.count += sum.count;
    }
    return total;
  }

 private:
  const std::string name_;
  const CustomMetric::Function function_;
};

}  // namespace

Mae::Mae() : EvalMetric(std::make_shared<ErrorDefinition>("mae", &Magnitude, &Same)) {}
Mse::Mse() : EvalMetric(std::make_shared<ErrorDefinition>("mse", &Square, &Same)) {}
Rmse::Rmse() : EvalMetric(std::make_shared<ErrorDefinition>("rmse", &Square, &Root)) {}
PearsonCorrelation::PearsonCorrelation() : EvalMetric(std::make_shared<PearsonDefinition>()) {}
Loss::Loss() : EvalMetric(std::make_shared<LossDefinition>()) {}
CustomMetric::CustomMetric(std::string name, Function function)
    : EvalMetric(std::make_shared<CustomDefinition>(std::move(name), std::move(function))) {}

}  // namespace tessera
