#include "tessera/compat/mxnet/core/monitor_names.h"

#include <string>
#include <vector>

#include "tessera/compat/mxnet/quirks/quirks.h"

namespace tessera::mxnet {
namespace {

/// Replaces names by "PREFIX0", "PREFIX1", ….
std::vector<std::string> Numbered(std::vector<std::string> names, const std::string& prefix) {
  for (size_t i = 0; i < names.size(); ++i) names[i] = prefix + std::to_string(i);
  return names;
}

std::vector<std::string> InputsOf(const OperatorProperty& op) {
  std::vector<std::string> names = op.ListArguments();
  const QuirkSet quirks = QuirksOf(op.TypeString());
  const bool is_data = names.size() == 1 && names[0] == "data";
  const bool is_named =
      is_data ? quirks.Has(Quirk::kNamedDataInput) : !quirks.Has(Quirk::kUnnamedInputs);
  return is_named ? names : Numbered(std::move(names), "input");
}

std::vector<std::string> OutputsOf(const OperatorProperty& op) {
  std::vector<std::string> names = op.ListOutputs();
  const bool is_named = QuirksOf(op.TypeString()).Has(Quirk::kNamedOutputs);
  return is_named ? names : Numbered(std::move(names), "");
}

}  // namespace

MonitorNames ExecutorNames() { return {.inputs = InputsOf}; }

MonitorNames HookNames() { return {.inputs = InputsOf, .outputs = OutputsOf}; }

}  // namespace tessera::mxnet
