// A library that registers two operators when it is loaded, and adds an implementation to a third.
// The name of one is taken by registry_test, which loads the library and has the third.

#include <memory>
#include <span>

#include "tessera/base/error.h"
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
[[maybe_unused]] const bool added = OperatorRegistry::Get().AddImplementation(
    "test_plugin_adds",
    {.name = "plugin",
     .rank = 1,
     .create = [](const OperatorProperty&, std::span<const TShape>, std::span<const DType>)
         -> std::unique_ptr<Operator> { throw Unimplemented("made by a closed library"); }},
    __FILE__, __LINE__);

}  // namespace
}  // namespace tessera
