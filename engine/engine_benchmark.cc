// What empty operations cost on an engine with two workers, next to tasks of tbb::task_group in the
// same run. One run of a case is 50,000 operations and the wait for them. The bounds: a push that
// runs costs at most three tasks, and a chain's at most four.
#include <memory>
#include <string>
#include <vector>

#include "tbb/task_arena.h"
#include "tbb/task_group.h"
#include "tessera/base/device.h"
#include "tessera/engine/engine.h"
#include "tessera/tools/benchmark/ratio_benchmark.h"

namespace tessera {
namespace {

using benchmarking::AddCase;
using benchmarking::Variants;

constexpr int kWorkers = 2;
// Enough that starting and waiting do not show, and below the engine's bound on what may pend.
constexpr int kOperations = 50000;
constexpr size_t kPairs = 500;

/// An engine with variables for operations that read one and write one.
class Setup {
 public:
  Setup() {
    for (size_t i = 0; i < 2 * kPairs; ++i) variables_.push_back(engine_->NewVariable());
    for (size_t i = 0; i < 2 * kPairs; i += 2) {
      operators_.push_back(
          engine_->NewOperator([](RunContext) {}, {variables_[i]}, {variables_[i + 1]}));
    }
  }

  void PushIndependent() {
    for (size_t i = 0; i < kOperations; ++i) {
      const size_t pair = 2 * (i % kPairs);
      engine_->PushSync([](RunContext) {}, Device::Cpu(), {variables_[pair]},
                        {variables_[pair + 1]});
    }
    engine_->WaitForAll();
  }
  void PushChain() {
    for (int i = 0; i < kOperations; ++i) {
      engine_->PushSync([](RunContext) {}, Device::Cpu(), {variables_[0]}, {variables_[1]});
    }
    engine_->WaitForAll();
  }
  void PushOperators() {
    for (size_t i = 0; i < kOperations; ++i) engine_->Push(operators_[i % kPairs], Device::Cpu());
    engine_->WaitForAll();
  }

  /// Whether operations that write one variable run in the order of their pushes.
  bool KeepsOrder() {
    unsigned value = 0, expected = 0;  // unsigned: it wraps around
    for (unsigned i = 0; i < 1000; ++i) {
      engine_->PushSync([&value, i](RunContext) { value = 3 * value + i; }, Device::Cpu(),
                        {variables_[0]}, {variables_[1]});
      expected = 3 * expected + i;
    }
    engine_->WaitForAll();
    return value == expected;
  }

 private:
  std::unique_ptr<Engine> engine_ =
      Engine::Create({.kind = EngineKind::kThreaded, .workers = kWorkers});
  std::vector<Variable*> variables_;
  std::vector<EngineOperator*> operators_;
};

void RunTaskGroup(tbb::task_arena* arena) {
  arena->execute([] {
    tbb::task_group group;
    for (int i = 0; i < kOperations; ++i) group.run([] {});
    group.wait();
  });
}

void AddPushes(const std::string& name, void (Setup::*push)(), double bound) {
  AddCase({.name = name, .bounds = {{.peer = "task_group", .at_least = bound}}, .make = [push] {
             auto setup = std::make_shared<Setup>();
             auto arena = std::make_shared<tbb::task_arena>(kWorkers);
             return Variants{.all = {{"ours", [setup, push] { (setup.get()->*push)(); }},
                                     {"task_group", [arena] { RunTaskGroup(arena.get()); }}},
                             .results_agree = [setup] { return setup->KeepsOrder(); }};
           }});
}

}  // namespace
}  // namespace tessera

int main(int argc, char** argv) {
  using namespace tessera;
  AddPushes("push_independent", &Setup::PushIndependent, 1 / 3.0);
  AddPushes("push_chain", &Setup::PushChain, 1 / 4.0);
  AddPushes("push_operator", &Setup::PushOperators, 1 / 3.0);
  return benchmarking::RunAll(argc, argv);
}
