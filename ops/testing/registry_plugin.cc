// A library that registers two operators when it is loaded. The name of one is taken by
// registry_test, which loads it.

#include <memory>

#include "tessera/ops/registry.h"

namespace tessera {
namespace {

class PluginProperty final : public ParameterizedProperty<NoParameters> {
 public:
  bool InferShape(std::vector<TShape>*, std::vector<TShape>*) const override { return false; }
};

OperatorRegistration At(int line, std::string_view name) {
  return {.name = name,
          .file = __FILE__,
          .line = line,
          .create_property = [] { return std::make_unique<PluginProperty>(); },
          .describe_parameters = [] { return PluginProperty::DescribeParameters(); }};
}

[[maybe_unused]] const OperatorEntry* const taken =
    OperatorRegistry::Get().Register(At(__LINE__, "test_plugin_taken"));
[[maybe_unused]] const OperatorEntry* const own =
    OperatorRegistry::Get().Register(At(__LINE__, "test_plugin"));

}  // namespace
}  // namespace tessera
