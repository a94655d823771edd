#include "tessera/symbol/step_runner.h"

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

PreparedStep::PreparedStep(const graph::Step& step, std::unique_ptr<OperatorCall> call,
                           const std::vector<BoundValue>& values)
    : call_(std::move(call)) {
  const auto blobs = [&](const std::vector<int>& ids) {
    std::vector<TBlob> result;
    for (const int id : ids) {
      result.push_back(id == graph::kNoValue ? TBlob() : values[static_cast<size_t>(id)].blob);
    }
    return result;
  };
  inputs_ = blobs(step.inputs);
  outputs_ = blobs(step.outputs);
  for (const int value : step.Writes()) {
    AddUnique(&writes_, values[static_cast<size_t>(value)].var);
    elements_ += values[static_cast<size_t>(value)].blob.Size();
  }
  for (Variable* const var : call_->resource_vars()) AddUnique(&writes_, var);
  for (const int value : step.Reads()) {
    AddUnique(&reads_, values[static_cast<size_t>(value)].var);
    elements_ += values[static_cast<size_t>(value)].blob.Size();
  }
}

std::vector<std::unique_ptr<Segment>> Segment::Cut(
    Engine* engine, Device device, std::shared_ptr<const std::vector<PreparedStep>> steps,
    int begin, int end, CallMode mode) {
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
    SyncFn run = [steps, first, last, mode, device](RunContext) {
      RunOnDevice(device, [&](void* stream) {
        for (int i = first; i < last; ++i) {
          (*steps)[static_cast<size_t>(i)].Run(mode, stream);
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
