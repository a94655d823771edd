#ifndef TESSERA_SYMBOL_STEP_RUNNER_H_
#define TESSERA_SYMBOL_STEP_RUNNER_H_

#include <memory>
#include <vector>

#include "tessera/engine/engine.h"
#include "tessera/graph/program.h"
#include "tessera/ndarray/operator_call.h"

namespace tessera::symbol_internal {

/// A value's memory and the variable that orders it.
struct BoundValue {
  TBlob blob;
  Variable* var = nullptr;
};

/// One step of a program with everything that a run needs, looked up in advance.
class PreparedStep {
 public:
  /// Prepares a step of `program`. `values` has an entry for each value of the program.
  PreparedStep(const graph::Step& step, std::unique_ptr<OperatorCall> call,
               const std::vector<BoundValue>& values);

  void Run(CallMode mode, void* stream) const { call_->Run(mode, stream, inputs_, outputs_); }

  /// Returns the number of elements read and written, a measure of the step's duration.
  index_t elements() const { return elements_; }
  const std::vector<Variable*>& reads() const { return reads_; }
  const std::vector<Variable*>& writes() const { return writes_; }

 private:
  std::unique_ptr<OperatorCall> call_;
  std::vector<TBlob> inputs_;
  std::vector<TBlob> outputs_;
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
      int begin, int end, CallMode mode);

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

#endif  // TESSERA_SYMBOL_STEP_RUNNER_H_
