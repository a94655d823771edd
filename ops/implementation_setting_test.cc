// The setting TESSERA_IMPLEMENTATIONS, which a process reads once.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/base/error.h"
#include "tessera/ops/registry.h"

namespace tessera {
namespace {

class SameProperty final : public ParameterizedProperty<NoParameters> {
 public:
  bool InferShape(std::vector<TShape>*, std::vector<TShape>*) const override { return true; }
};

class SameOperator final : public Operator {
  void Forward(const OpContext&, std::span<const TBlob>, std::span<const OpReqType>,
               std::span<const TBlob>) override {}
};

std::unique_ptr<Operator> Create(const OperatorProperty&, std::span<const TShape>,
                                 std::span<const DType>) {
  return std::make_unique<SameOperator>();
}

/// Registers an operator whose implementation "vectors" supports vectors alone.
void Register(std::string_view name) {
  auto& registry = OperatorRegistry::Get();
  registry.Register({.name = name,
                     .file = __FILE__,
                     .line = __LINE__,
                     .create_property = [] { return std::make_unique<SameProperty>(); },
                     .implementation = {.name = "native", .create = Create}});
  registry.AddImplementation(
      name,
      {.name = "vectors",
       .rank = -1,
       .refusal = [](const OperatorProperty&, std::span<const TShape> in_shape,
                     std::span<const DType>) { return in_shape[0].ndim() == 1 ? "" : "no vector"; },
       .create = Create},
      __FILE__, __LINE__);
}

/// Returns the implementation for an input of that shape, or the error.
std::string Chosen(std::string_view op, const TShape& shape, std::string_view named = "") {
  const DType dtype = DType::kFloat32;
  try {
    return OperatorRegistry::Get()
        .Create(op, {})
        ->CreateImplementation(named, Device::Cpu(), {&shape, 1}, {&dtype, 1})
        ->implementation();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Error::kInvalidArgument);
    return error.what();
  }
}

void Set(const char* value) { setenv("TESSERA_IMPLEMENTATIONS", value, /*overwrite=*/1); }

TEST(ImplementationSettingTest, NamesImplementationsByOperator) {
  Register("test_named");
  Register("test_other");
  Register("test_missing");
  for (const char* wrong :
       {"test_named", "=vectors", "test_named=", "test_named=vectors,test_named=native", ","}) {
    Set(wrong);
    EXPECT_EQ(Chosen("test_named", {2}),
              "environment variable TESSERA_IMPLEMENTATIONS=\"" + std::string(wrong) +
                  "\": expected OPERATOR=IMPLEMENTATION, each operator once, separated by commas");
  }
  Set("test_named=vectors,test_missing=packed");
  EXPECT_EQ(Chosen("test_named", {2}), "vectors");
  EXPECT_EQ(Chosen("test_other", {2}), "native");
  EXPECT_EQ(Chosen("test_named", {2, 3}),
            "test_named: implementation \"vectors\", which the setting TESSERA_IMPLEMENTATIONS "
            "names, does not support float32(2,3): no vector");
  EXPECT_EQ(Chosen("test_missing", {2}),
            "test_missing: no implementation \"packed\", which the setting TESSERA_IMPLEMENTATIONS "
            "names, for cpu(0); expected one of native, vectors");
  EXPECT_EQ(Chosen("test_named", {2, 3}, "native"), "native") << "the node's attribute comes first";
  Set("test_named=native");
  EXPECT_EQ(Chosen("test_named", {2}), "vectors") << "it is read once";
}

}  // namespace
}  // namespace tessera
