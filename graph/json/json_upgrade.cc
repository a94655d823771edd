#include "tessera/graph/json/json_upgrade.h"

namespace tessera::graph {
namespace {

// The first version whose files have a node for every variable.
constexpr int64_t kVersionWithAllVariables = 900;
// The first version that writes the attribute __init__.
constexpr int64_t kVersionWithInitializers = 904;
// The first version in which the axis -1 of argmax and argmin is the last one, not all axes.
constexpr int64_t kVersionWithOptionalAxis = 905;
// A parameter of Intel's builds of 2017, which chose an implementation.
constexpr char kParameterOfOtherBuilds[] = "mkldnn_off";
// MXNet itself names weights, biases and states alone, of which no operator has more.
constexpr size_t kMaxMissingInputs = 100;

}  // namespace

void UpgradeParameters(int64_t version, std::string_view op, ParameterMap* parameters) {
  parameters->erase(kParameterOfOtherBuilds);
  if (version >= kVersionWithOptionalAxis || (op != "argmax" && op != "argmin")) return;
  const auto axis = parameters->find("axis");
  if (axis != parameters->end() && axis->second == "-1") parameters->erase(axis);
}

bool HasInitializers(int64_t version) { return version >= kVersionWithInitializers; }

bool MayHaveInputs(int64_t version, const OperatorProperty& property, size_t given) {
  const size_t expected = property.ListArguments().size();
  if (given >= expected) return given == expected;
  if (expected - given > kMaxMissingInputs) return false;
  return version < kVersionWithAllVariables || given == expected - property.MutatedInputs().size();
}

}  // namespace tessera::graph
