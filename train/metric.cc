#include "tessera/train/metric.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "tessera/base/error.h"
#include "tessera/base/quote.h"
#include "tessera/engine/engine.h"
#include "tessera/ndarray/memory/device_runtime.h"

namespace tessera {
namespace {

/// Returns the shape of predictions as (examples, classes, positions): one class for each example
/// and position. Throws Error(kInvalidArgument) if the positions are too many to count.
Shape<3> Classes(const TShape& predictions) {
  TShape positions = predictions;
  positions[0] = positions[1] = 1;
  return Shape3(predictions[0], predictions[1], positions.Size());
}

/// Returns a label as a class, or -1 for a label that is no class.
template <typename T>
index_t ClassOf(T label, index_t classes) {
  const double value = static_cast<double>(label);
  return value >= 0 && value < static_cast<double>(classes) ? static_cast<index_t>(value) : -1;
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

void CheckPrediction(std::string_view metric, const NDArray& prediction) {
  if (!IsReal(prediction.dtype()) || prediction.shape().ndim() < 2) {
    throw InvalidArgument(metric, ": predictions of shape ", prediction.shape(), " and type ",
                          prediction.dtype(),
                          ", expected (batch, classes) of a floating-point type");
  }
}

class AccuracyDefinition final : public MetricDefinition {
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

class CrossEntropyDefinition final : public MetricDefinition {
 public:
  std::string name() const override { return "cross-entropy"; }

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
};

/// Returns an array in host memory: the array itself, or a copy in `copy`.
TBlob OnHost(const NDArray& array, std::vector<char>* copy) {
  const TBlob blob = array.data();
  if (blob.device_.dev_mask() == cpu::kDevMask) return blob;
  const int64_t size_bytes = blob.Size() * DTypeSizeBytes(blob.type_flag_);
  copy->resize(static_cast<size_t>(size_bytes));
  CopyBytes(copy->data(), Device::Cpu(), blob.dptr_, blob.device_, size_bytes);
  return TBlob(copy->data(), blob.shape_, blob.type_flag_, Device::Cpu());
}

}  // namespace

struct EvalMetric::State {
  explicit State(std::vector<std::shared_ptr<const MetricDefinition>> parts)
      : definitions(std::move(parts)),
        totals(definitions.size()),
        var(Engine::Get()->NewVariable("EvalMetric")) {}
  ~State() {
    try {
      Engine::Get()->DeleteVariable(var);
    } catch (...) {
      // The engine accepts no more work, because the process is ending.
    }
  }
  State(const State&) = delete;
  State& operator=(const State&) = delete;

  /// Adds a batch to this state and to `other`, unless it is null. Runs in an engine operation that
  /// writes the variables of both.
  void Add(std::span<const NDArray> labels, std::span<const NDArray> predictions,
           index_t valid_rows, State* other);

  const std::vector<std::shared_ptr<const MetricDefinition>> definitions;

  // The following fields are ordered by `var`.
  std::vector<MetricSum> totals;
  std::vector<TBlob> label_blobs, prediction_blobs;
  std::vector<std::vector<char>> copies;

  Variable* const var;
};

void EvalMetric::State::Add(std::span<const NDArray> labels, std::span<const NDArray> predictions,
                            index_t valid_rows, State* other) {
  copies.resize(2 * labels.size());
  label_blobs.clear();
  prediction_blobs.clear();
  for (size_t i = 0; i < labels.size(); ++i) {
    label_blobs.push_back(OnHost(labels[i], &copies[2 * i]));
    prediction_blobs.push_back(OnHost(predictions[i], &copies[2 * i + 1]));
  }
  for (size_t part = 0; part < definitions.size(); ++part) {
    const MetricSum sum = definitions[part]->Compute(label_blobs, prediction_blobs, valid_rows);
    for (State* const state : {this, other}) {
      if (state == nullptr) continue;
      state->totals[part].sum += sum.sum;
      state->totals[part].count += sum.count;
    }
  }
}

EvalMetric::EvalMetric(std::shared_ptr<const MetricDefinition> definition)
    : state_(std::make_shared<State>(std::vector{std::move(definition)})) {}

EvalMetric::EvalMetric(std::span<const EvalMetric> parts) {
  std::vector<std::shared_ptr<const MetricDefinition>> definitions;
  for (const EvalMetric& part : parts) {
    definitions.insert(definitions.end(), part.state_->definitions.begin(),
                       part.state_->definitions.end());
  }
  state_ = std::make_shared<State>(std::move(definitions));
}

EvalMetric EvalMetric::Create(std::string_view name) {
  if (name == "accuracy" || name == "acc") return Accuracy();
  if (name == "cross-entropy" || name == "ce") return CrossEntropy();
  throw NotFound("EvalMetric::Create: unknown metric '", Excerpt(name),
                 "', expected one of: accuracy, cross-entropy");
}

void EvalMetric::Update(std::span<const NDArray> labels, std::span<const NDArray> predictions,
                        index_t valid_rows) {
  UpdateBoth(labels, predictions, valid_rows, nullptr);
}

void EvalMetric::UpdateBoth(std::span<const NDArray> labels, std::span<const NDArray> predictions,
                            index_t valid_rows, const EvalMetric* other) {
  if (labels.empty() || labels.size() != predictions.size()) {
    throw InvalidArgument("EvalMetric::Update: ", labels.size(), " labels for ", predictions.size(),
                          " predictions, expected one each and at least one");
  }
  for (const auto& definition : state_->definitions) definition->Check(labels, predictions);
  const index_t rows = labels[0].shape()[0];
  if (valid_rows > rows) {
    throw InvalidArgument("EvalMetric::Update: valid_rows ", valid_rows, ", expected at most ",
                          rows, ", the number of labels");
  }
  std::vector<Variable*> reads;
  reads.reserve(2 * labels.size());
  for (const std::span<const NDArray> arrays : {labels, predictions}) {
    for (const NDArray& array : arrays) {
      Variable* const var = array.var();
      if (std::find(reads.begin(), reads.end(), var) == reads.end()) reads.push_back(var);
    }
  }
  std::vector<Variable*> writes = {state_->var};
  if (other != nullptr) writes.push_back(other->state_->var);
  Engine::Get()->PushSync(
      [state = state_, other = other != nullptr ? other->state_ : nullptr,
       rows = valid_rows < 0 ? rows : valid_rows,
       labels = std::vector(labels.begin(), labels.end()),
       predictions = std::vector(predictions.begin(), predictions.end())](RunContext context) {
        // An earlier failure stays, because sums that miss a batch are wrong.
        context.engine->Throw(state->var);
        if (other != nullptr) context.engine->Throw(other->var);
        state->Add(labels, predictions, rows, other.get());
      },
      Device::Cpu(), reads, writes, {.name = "EvalMetric::Update"});
}

void EvalMetric::Reset() {
  Engine::Get()->PushSync(
      [state = state_](RunContext) {
        std::fill(state->totals.begin(), state->totals.end(), MetricSum());
      },
      Device::Cpu(), {}, {state_->var}, {.name = "EvalMetric::Reset"});
}

std::vector<NamedValue> EvalMetric::Get() const {
  Engine::Get()->WaitForVar(state_->var);
  std::vector<NamedValue> values;
  for (size_t part = 0; part < state_->totals.size(); ++part) {
    const MetricSum& total = state_->totals[part];
    const double value = total.count > 0 ? total.sum / static_cast<double>(total.count)
                                         : std::numeric_limits<double>::quiet_NaN();
    values.push_back({state_->definitions[part]->name(), value});
  }
  return values;
}

Accuracy::Accuracy() : EvalMetric(std::make_shared<AccuracyDefinition>()) {}
CrossEntropy::CrossEntropy() : EvalMetric(std::make_shared<CrossEntropyDefinition>()) {}

}  // namespace tessera
