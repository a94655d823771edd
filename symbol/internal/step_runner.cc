#include "tessera/symbol/internal/step_runner.h"

#include <algorithm>
#include <utility>

#include "tessera/ndarray/device_runtime.h"

namespace tessera::symbol_internal {
namespace {

// A step of up to this many elements takes about ten microseconds at most. A second worker could
// not take over enough of it to justify waking the worker.
constexpr index_t kShortStepElements = index_t{1} << 16;
// Bounds the time for which a segment keeps other operations from results that it has already
// computed.
constexpr int kMaxSteps = 16;

void AddUnique(std::vector<Variable*>* list, Variable* var) {
  if (std::find(list->begin(), list->end(), var) == list->end()) list->push_back(var);
}

}  // namespace

PreparedStep::PreparedStep(const Step& step, std::shared_ptr<Operator> op,
                           std::vector<ResourceHandle> resources,
                           const std::vector<BoundValue>& values)
    : kind_(step.kind), op_(std::move(op)), req_(step.req) {
  const auto bind = [&](const std::vector<int>& from, std::vector<TBlob>* to) {
    for (const int value : from) {
      to->push_back(value == kNoValue ? TBlob() : values[static_cast<size_t>(value)].blob);
    }
  };
  bind(step.out_grad, &out_grad_);
  bind(step.in_data, &in_data_);
  bind(step.out_data, &out_data_);
  bind(step.in_grad, &in_grad_);
  bind(step.aux, &aux_);
  for (const int value : step.Writes()) {
    AddUnique(&writes_, values[static_cast<size_t>(value)].var);
    elements_ += values[static_cast<size_t>(value)].blob.Size();
  }
  for (const ResourceHandle& resource : resources) {
    resources_.push_back(resource.resource);
    AddUnique(&writes_, resource.var);
  }
  for (const int value : step.Reads()) {
    AddUnique(&reads_, values[static_cast<size_t>(value)].var);
    elements_ += values[static_cast<size_t>(value)].blob.Size();
  }
}

void PreparedStep::Run(bool is_train, void* stream) const {
  const OpContext context{.is_train = is_train, .stream = stream, .requested = resources_};
  if (kind_ == StepKind::kBackward) {
    op_->Backward(context, out_grad_, in_data_, out_data_, req_, in_grad_, aux_);
  } else {
    op_->Forward(context, in_data_, req_, out_data_, aux_);
  }
}

std::vector<std::unique_ptr<Segment>> Segment::Cut(
    Engine* engine, Device device, std::shared_ptr<const std::vector<PreparedStep>> steps,
    int begin, int end, bool is_train) {
  std::vector<std::unique_ptr<Segment>> segments;
  const auto step = [&](int i) -> const PreparedStep& { return (*steps)[static_cast<size_t>(i)]; };
  for (int first = begin; first < end;) {
    int last = first + 1;
    if (step(first).elements() <= kShortStepElements) {
      while (last < end && last - first < kMaxSteps &&
             step(last).elements() <= kShortStepElements) {
        ++last;
      }
    }
    std::vector<Variable*> reads, writes;
    for (int i = first; i < last; ++i) {
      for (Variable* var : step(i).writes()) AddUnique(&writes, var);
    }
    for (int i = first; i < last; ++i) {
      for (Variable* var : step(i).reads()) {
        if (std::find(writes.begin(), writes.end(), var) == writes.end()) AddUnique(&reads, var);
      }
    }
    SyncFn run = [steps, first, last, is_train, device](RunContext) {
      RunOnDevice(device, [&](void* stream) {
        for (int i = first; i < last; ++i) {
          (*steps)[static_cast<size_t>(i)].Run(is_train, stream);
        }
      });
    };
    EngineOperator* op =
        engine->NewOperator(std::move(run), reads, writes, {.name = "executor segment"});
    segments.push_back(std::unique_ptr<Segment>(new Segment(engine, op)));
    first = last;
  }
  return segments;
}

Segment::~Segment() { engine_->DeleteOperator(op_); }

}  // namespace tessera::symbol_internal
