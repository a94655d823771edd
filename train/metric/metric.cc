#include "tessera/train/metric.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <utility>

#include "tessera/base/error.h"
#include "tessera/base/quote.h"
#include "tessera/engine/engine.h"
#include "tessera/ndarray/memory/device_runtime.h"

namespace tessera {
namespace {

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

void MetricDefinition::Merge(const std::vector<double>& batch, std::vector<double>* total) const {
  total->resize(std::max(total->size(), batch.size()));
  for (size_t i = 0; i < batch.size(); ++i) (*total)[i] += batch[i];
}

std::vector<double> MeanDefinition::Measure(std::span<const TBlob> labels,
                                            std::span<const TBlob> predictions,
                                            index_t valid_rows) const {
  const MetricSum sum = Compute(labels, predictions, valid_rows);
  return {sum.sum, static_cast<double>(sum.count)};
}

double MeanDefinition::Value(const std::vector<double>& total) const {
  return total[1] > 0 ? total[0] / total[1] : std::numeric_limits<double>::quiet_NaN();
}

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
  std::vector<std::vector<double>> totals;  // empty before the first batch
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
    const std::vector<double> batch =
        definitions[part]->Measure(label_blobs, prediction_blobs, valid_rows);
    for (State* const state : {this, other}) {
      if (state != nullptr) definitions[part]->Merge(batch, &state->totals[part]);
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
        for (std::vector<double>& total : state->totals) total.clear();
      },
      Device::Cpu(), {}, {state_->var}, {.name = "EvalMetric::Reset"});
}

void EvalMetric::SumTotals(int rank, int num_workers,
                           const std::function<void(std::span<double> numbers)>& sum) {
  Engine::Get()->WaitForVar(state_->var);
  const size_t parts = state_->totals.size();
  // Each worker puts its values between zeros. The sums are then the values of all workers.
  std::vector<double> sizes(static_cast<size_t>(num_workers) * parts);
  const size_t own = static_cast<size_t>(rank) * parts;
  for (size_t part = 0; part < parts; ++part) {
    sizes[own + part] = static_cast<double>(state_->totals[part].size());
  }
  sum(sizes);
  std::vector<size_t> begins = {0};
  for (const double size : sizes) begins.push_back(begins.back() + static_cast<size_t>(size));
  if (begins.back() == 0) return;
  std::vector<double> numbers(begins.back());
  for (size_t part = 0; part < parts; ++part) {
    std::copy(state_->totals[part].begin(), state_->totals[part].end(),
              numbers.data() + begins[own + part]);
    state_->totals[part].clear();
  }
  sum(numbers);
  for (size_t i = 0; i < sizes.size(); ++i) {
    if (begins[i] == begins[i + 1]) continue;
    const std::vector<double> worker(numbers.data() + begins[i], numbers.data() + begins[i + 1]);
    state_->definitions[i % parts]->Merge(worker, &state_->totals[i % parts]);
  }
}

std::vector<NamedValue> EvalMetric::Get() const {
  Engine::Get()->WaitForVar(state_->var);
  std::vector<NamedValue> values;
  for (size_t part = 0; part < state_->totals.size(); ++part) {
    const std::vector<double>& total = state_->totals[part];
    const MetricDefinition& definition = *state_->definitions[part];
    values.push_back({definition.name(), total.empty() ? std::numeric_limits<double>::quiet_NaN()
                                                       : definition.Value(total)});
  }
  return values;
}

TrainingState EvalMetric::SaveState() const {
  Engine::Get()->WaitForVar(state_->var);
  TrainingState state;
  for (size_t part = 0; part < state_->totals.size(); ++part) {
    const std::string number = std::to_string(part);
    state.texts["kind_" + number] = state_->definitions[part]->name();
    state.numbers["total_" + number] = state_->totals[part];
  }
  return state;
}

void EvalMetric::LoadState(const TrainingState& state) {
  std::vector<std::vector<double>> totals;
  for (size_t part = 0; part < state_->definitions.size(); ++part) {
    const std::string number = std::to_string(part);
    const std::string& kind = state.Text("kind_" + number);
    const std::string name = state_->definitions[part]->name();
    if (kind != name) {
      throw InvalidArgument("EvalMetric::LoadState: the state is that of ", Excerpt(kind),
                            ", expected ", Excerpt(name));
    }
    totals.push_back(state.Numbers("total_" + number));
  }
  Engine::Get()->PushSync(
      [state = state_, totals = std::move(totals)](RunContext) { state->totals = totals; },
      Device::Cpu(), {}, {state_->var}, {.name = "EvalMetric::LoadState"});
}

}  // namespace tessera
