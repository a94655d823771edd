#ifndef TESSERA_SYMBOL_INTERNAL_STEP_RUNNER_H_
#define TESSERA_SYMBOL_INTERNAL_STEP_RUNNER_H_

#include <memory>
#include <vector>

#include "tessera/engine/engine.h"
#include "tessera/ops/operator.h"
#include "tessera/resource/resource_manager.h"
#include "tessera/symbol/internal/program.h"

namespace tessera::symbol_internal {

/// A value's memory and the variable that orders it.
struct BoundValue {
  TBlob blob;
  Variable* var = nullptr;
};

/// One step with everything that a run needs, looked up in advance.
class PreparedStep {
 public:
  /// Prepares a step. `values` has an entry for each value of the program.
  PreparedStep(const Step& step, std::shared_ptr<Operator> op,
               std::vector<ResourceHandle> resources, const std::vector<BoundValue>& values);

  void Run(bool is_train, void* stream) const;

  /// Returns the number of elements read and written, a measure of the step's duration.
  index_t elements() const { return elements_; }
  const std::vector<Variable*>& reads() const { return reads_; }
  const std::vector<Variable*>& writes() const { return writes_; }

 private:
  StepKind kind_;
  std::shared_ptr<Operator> op_;
  std::vector<Resource*> resources_;
  std::vector<TBlob> out_grad_, in_data_, out_data_, in_grad_, aux_;
  std::vector<OpReqType> req_;
  std::vector<Variable*> reads_;
  std::vector<Variable*> writes_;
  index_t elements_ = 0;
};

/// Consecutive short steps that run as one engine operation, because a separate operation for each
/// would cost more than it gains.
class Segment {
 public:
  /// Cuts the steps into segments of at most kMaxSteps short steps. A long step is a segment of its
  /// own, so that independent long steps can run in parallel.
  static std::vector<std::unique_ptr<Segment>> Cut(
      Engine* engine, Device device, std::shared_ptr<const std::vector<PreparedStep>> steps,
      int begin, int end, bool is_train);

  ~Segment();
  Segment(const Segment&) = delete;
  Segment& operator=(const Segment&) = delete;

  /// Pushes the segment as work of the host, because its function waits for the device.
  void Push() const { engine_->Push(op_, Device::Cpu()); }

 private:
  Segment(Engine* engine, EngineOperator* op) : engine_(engine), op_(op) {}

  Engine* engine_;
  EngineOperator* op_;
};

}  // namespace tessera::symbol_internal

#endif  // TESSERA_SYMBOL_INTERNAL_STEP_RUNNER_H_
