// The memory that executors and compiled functions plan for the intermediate results of known
// networks and for workspaces, beside the liveness bound: the most that one step needs for its
// workspace and for the results that it uses or keeps.
// Nothing is run, and no array is touched. What is timed is inference, passes and plan.
//
// The bound on the ratio is that of a plan 5 % above the liveness bound. DenseNet-121 has none: its
// concatenations keep results of growing size, in whose gaps no order fits all.
//
// The cases called recomputed ask for a part of the memory that training takes if it stores all
// results (memory_budget_bytes), and print the planned memory beside that. A part that cannot be
// reached is an error, which is printed, and the plan is then the whole.
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

MemoryPlanSummary PlanOfExecutor(const Network& network, bool training,
                                 int64_t memory_budget_bytes = 0) {
  const std::vector<std::string> names = network.symbol.ListArguments();
  const InferredShapes shapes = network.symbol.InferShape(network.inputs);
  BindArguments arrays;
  arrays.memory_budget_bytes = memory_budget_bytes;
  for (size_t i = 0; i < names.size(); ++i) {
    arrays.arguments.push_back(Untouched(shapes.arguments[i]));
    const bool wanted = training && NeedsGradient(network, names[i]);
    arrays.gradients.push_back(wanted ? Untouched(shapes.arguments[i]) : NDArray());
  }
  for (const TShape& shape : shapes.aux_states) arrays.aux_states.push_back(Untouched(shape));
  return Bind(network.symbol, Device::Cpu(), arrays)->memory_plan();
}

MemoryPlanSummary PlanOfCachedOp(const Network& network, bool training,
                                 int64_t memory_budget_bytes = 0) {
  const InferredShapes shapes = network.symbol.InferShape(network.inputs);
  std::map<std::string, NDArray> arrays;
  std::vector<NDArray> variables, gradients;
  const std::vector<std::string> arguments = network.symbol.ListArguments();
  for (size_t i = 0; i < arguments.size(); ++i) {
    const NDArray& array =
        arrays.emplace(arguments[i], Untouched(shapes.arguments[i])).first->second;
    if (!training || !NeedsGradient(network, arguments[i])) continue;
    variables.push_back(array);
    gradients.push_back(Untouched(shapes.arguments[i]));
  }
  const std::vector<std::string> aux_states = network.symbol.ListAuxiliaryStates();
  for (size_t i = 0; i < aux_states.size(); ++i) {
    arrays.emplace(aux_states[i], Untouched(shapes.aux_states[i]));
  }
  autograd::MarkVariables(variables, gradients, std::vector<OpReqType>(variables.size(), kWriteTo));
  const CachedOp op(network.symbol, {.memory_budget_bytes = memory_budget_bytes});
  std::vector<NDArray> inputs;
  for (const std::string& name : op.input_names()) inputs.push_back(arrays.at(name));
  std::optional<autograd::Record> record;
  if (training) record.emplace();
  return op.memory_plan(inputs);
}

using Plan = MemoryPlanSummary (*)(const Network&, bool, int64_t);

/// Returns the ways to plan with their names.
std::vector<std::pair<std::string, Plan>> Plans() {
  return {{"executor", PlanOfExecutor}, {"cached_op", PlanOfCachedOp}};
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
