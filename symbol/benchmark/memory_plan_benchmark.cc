// The memory that executors and compiled functions plan for the intermediate results of known
// networks and for workspaces, beside the liveness bound: the most that one step needs for its
// workspace and for the results that it uses or keeps.
// In these cases nothing is run, and no array is touched. What is timed is inference, passes and
// plan.
//
// The cases called peak run a step, and compare what Storage reports at its peak with the plan: the
// bytes that were requested, before the pool rounds them up, less those of arrays. Arrays are the
// arguments, gradients and outputs, and what inference has made of the weights in earlier steps.
//
// The bound on the ratio is that of a plan 5 % above the liveness bound. DenseNet-121 has none: its
// concatenations keep results of growing size, in whose gaps no order fits all.
//
// The cases called recomputed ask for a part of the memory that training takes if it stores all
// results (memory_budget_bytes), and print the planned memory beside that. A part that cannot be
// reached is an error, which is printed, and the plan is then the whole.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tessera/base/device.h"
#include "tessera/base/dtype.h"
#include "tessera/base/error.h"
#include "tessera/base/tshape.h"
#include "tessera/ndarray/autograd.h"
#include "tessera/ndarray/ndarray.h"
#include "tessera/ops/operator.h"
#include "tessera/symbol/benchmark/networks.h"
#include "tessera/symbol/cached_op.h"
#include "tessera/symbol/executor.h"
#include "tessera/symbol/memory_plan_summary.h"
#include "tessera/symbol/symbol.h"
#include "tessera/symbol/testing/step_memory.h"
#include "tessera/tools/benchmark/ratio_benchmark.h"

namespace tessera {
namespace {

/// A network and its inputs; the other variables are parameters and the label.
struct Network {
  std::string name;
  Symbol symbol;
  std::map<std::string, TShape> inputs;
  double at_least = 1 / 1.05;
};

bool NeedsGradient(const Network& network, const std::string& variable) {
  return !network.inputs.contains(variable) && !variable.ends_with("label");
}

/// Returns an array whose memory is not taken before it is used.
NDArray Untouched(const TShape& shape) {
  return NDArray(shape, Device::Cpu(), DType::kFloat32, /*delay_alloc=*/true);
}

/// Returns an array of small positive numbers.
NDArray Filled(const TShape& shape) {
  NDArray array(shape);
  array = 0.01f;
  return array;
}

using MakeArray = NDArray (*)(const TShape&);

BindArguments ArraysOf(const Network& network, bool training, MakeArray make) {
  const std::vector<std::string> names = network.symbol.ListArguments();
  const InferredShapes shapes = network.symbol.InferShape(network.inputs);
  BindArguments arrays;
  for (size_t i = 0; i < names.size(); ++i) {
    arrays.arguments.push_back(make(shapes.arguments[i]));
    const bool wanted = training && NeedsGradient(network, names[i]);
    arrays.gradients.push_back(wanted ? make(shapes.arguments[i]) : NDArray());
  }
  for (const TShape& shape : shapes.aux_states) arrays.aux_states.push_back(make(shape));
  return arrays;
}

MemoryPlanSummary PlanOfExecutor(const Network& network, bool training,
                                 int64_t memory_budget_bytes = 0) {
  BindArguments arrays = ArraysOf(network, training, Untouched);
  arrays.memory_budget_bytes = memory_budget_bytes;
  return Bind(network.symbol, Device::Cpu(), arrays)->memory_plan();
}

/// Returns the arguments of a CachedOp, in training with gradients.
std::vector<NDArray> InputsOf(const CachedOp& op, const Network& network, bool training,
                              MakeArray make) {
  const BindArguments all = ArraysOf(network, training, make);
  std::map<std::string, NDArray> arrays;
  std::vector<NDArray> variables, gradients;
  const std::vector<std::string> arguments = network.symbol.ListArguments();
  for (size_t i = 0; i < arguments.size(); ++i) {
    arrays.emplace(arguments[i], all.arguments[i]);
    if (all.gradients[i].is_none()) continue;
    variables.push_back(all.arguments[i]);
    gradients.push_back(all.gradients[i]);
  }
  const std::vector<std::string> aux_states = network.symbol.ListAuxiliaryStates();
  for (size_t i = 0; i < aux_states.size(); ++i) arrays.emplace(aux_states[i], all.aux_states[i]);
  autograd::MarkVariables(variables, gradients, std::vector<OpReqType>(variables.size(), kWriteTo));
  std::vector<NDArray> inputs;
  for (const std::string& name : op.input_names()) inputs.push_back(arrays.at(name));
  return inputs;
}

MemoryPlanSummary PlanOfCachedOp(const Network& network, bool training,
                                 int64_t memory_budget_bytes = 0) {
  const CachedOp op(network.symbol, {.memory_budget_bytes = memory_budget_bytes});
  const std::vector<NDArray> inputs = InputsOf(op, network, training, Untouched);
  std::optional<autograd::Record> record;
  if (training) record.emplace();
  return op.memory_plan(inputs);
}

/// Planned bytes, and those that Storage reports at the peak of a step.
struct PlanAndPeak {
  int64_t planned = 0;
  int64_t at_peak = 0;
};

PlanAndPeak PeakOfExecutor(const Network& network, bool training) {
  const auto executor = Bind(network.symbol, Device::Cpu(), ArraysOf(network, training, Filled));
  // Inference makes what it keeps of the weights in its first two steps.
  for (int i = 0; i < 2 && !training; ++i) executor->Forward(false);
  const auto step = [&] {
    executor->Forward(training);
    if (training) executor->Backward();
  };
  return {executor->memory_plan().planned_bytes, symbol_testing::BytesHeldAtPeak(step)};
}

PlanAndPeak PeakOfCachedOp(const Network& network, bool training) {
  const CachedOp op(network.symbol, {.static_alloc = true});
  const std::vector<NDArray> inputs = InputsOf(op, network, training, Filled);
  const TShape shape = network.symbol.InferShape(network.inputs).outputs[0];
  const NDArray head = Filled(shape);
  std::vector<std::vector<NDArray>> kept;
  for (int i = 0; i < 2 && !training; ++i) kept.push_back(op(inputs));
  const int64_t held = symbol_testing::BytesHeldAtPeak([&] {
    std::optional<autograd::Record> record;
    if (training) record.emplace();
    kept.push_back(op(inputs));
    record.reset();
    if (training) autograd::Backward(kept.back(), {&head, 1});
  });
  std::optional<autograd::Record> record;
  if (training) record.emplace();
  const int64_t output_bytes = shape.Size() * static_cast<int64_t>(sizeof(float));
  return {op.memory_plan(inputs).planned_bytes, held - output_bytes};
}

using Plan = MemoryPlanSummary (*)(const Network&, bool, int64_t);

/// Returns the ways to plan with their names.
std::vector<std::pair<std::string, Plan>> Plans() {
  return {{"executor", PlanOfExecutor}, {"cached_op", PlanOfCachedOp}};
}

/// Adds cases that compare the peak of a step with the plan: neither exceeds the other by more than
/// 2 %.
void AddPeakCases(const std::shared_ptr<const Network>& network) {
  using Peak = PlanAndPeak (*)(const Network&, bool);
  const std::pair<const char*, Peak> runners[] = {{"executor", PeakOfExecutor},
                                                  {"cached_op", PeakOfCachedOp}};
  for (const auto& [runner, peak] : runners) {
    for (const bool training : {false, true}) {
      benchmarking::AddCase(
          {.name = network->name + "/peak/" + (training ? "training/" : "inference/") + runner,
           .bounds = {{.peer = "planned", .at_least = 1 / 1.02}},
           .sizes = [network, peak = peak, training] {
             const auto [planned, at_peak] = peak(*network, training);
             // A peak below the plan counts as one above it by as much.
             const int64_t ours = std::max(at_peak, 2 * planned - at_peak);
             return benchmarking::Sizes{.ours = static_cast<double>(ours),
                                        .peer = static_cast<double>(planned)};
           }});
    }
  }
}

void AddCases(Network network) {
  const auto shared = std::make_shared<const Network>(std::move(network));
  for (const auto& [runner, plan] : Plans()) {
    for (const bool training : {false, true}) {
      benchmarking::AddCase(
          {.name = shared->name + (training ? "/training/" : "/inference/") + runner,
           .bounds = {{.peer = "liveness", .at_least = shared->at_least}},
           .sizes = [shared, plan = plan, training] {
             const MemoryPlanSummary summary = plan(*shared, training, /*memory_budget_bytes=*/0);
             return benchmarking::Sizes{.ours = static_cast<double>(summary.planned_bytes),
                                        .peer = static_cast<double>(summary.liveness_bytes)};
           }});
    }
  }
  AddPeakCases(shared);
}

/// Adds cases that train with `part` of the memory of all results.
void AddRecomputedCases(Network network, double part) {
  const auto shared = std::make_shared<const Network>(std::move(network));
  for (const auto& [runner, plan] : Plans()) {
    benchmarking::AddCase(
        {.name = shared->name + "/recomputed/" + runner,
         .bounds = {{.peer = "stored", .at_least = 1 / part}},
         .sizes = [shared, plan = plan, part] {
           const int64_t stored = plan(*shared, /*training=*/true, 0).planned_bytes;
           int64_t planned = stored;
           try {
             const double budget = part * static_cast<double>(stored);
             planned = plan(*shared, /*training=*/true, static_cast<int64_t>(budget)).planned_bytes;
           } catch (const Error& error) {
             std::fprintf(stderr, "%s: %s\n", shared->name.c_str(), error.what());
           }
           return benchmarking::Sizes{.ours = static_cast<double>(planned),
                                      .peer = static_cast<double>(stored)};
         }});
  }
}

}  // namespace
}  // namespace tessera

int main(int argc, char** argv) {
  using namespace tessera::benchmarking;  // NOLINT
  // The batch hardly changes the ratio: all results but a few grow with it.
  const std::map<std::string, tessera::TShape> pictures = {{"data", {4, 3, 224, 224}}};
  tessera::AddCases({"alexnet", AlexNet(), pictures});
  tessera::AddCases({"vgg16", Vgg16(), pictures});
  tessera::AddCases({"resnet50", ResNet(kResNet50), pictures});
  tessera::AddCases({"inception_bn", InceptionBn(), pictures});
  tessera::AddCases({"mobilenet_v2", MobileNetV2(), pictures});
  tessera::AddCases({"lstm100",
                     Lstm({}),
                     {{"data", {32, 100, 256}}, {"init_h", {32, 256}}, {"init_c", {32, 256}}}});
  tessera::AddCases({"densenet121", DenseNet121(), pictures, /*at_least=*/0});
  tessera::AddRecomputedCases({"resnet50", ResNet(kResNet50), pictures}, 0.35);
  tessera::AddRecomputedCases({"resnet200", ResNet(kResNet200), pictures}, 0.25);
  return RunAll(argc, argv);
}
