#include "tessera/ops/registry.h"

#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "tessera/base/error.h"

namespace tessera {
namespace {

using ::testing::HasSubstr;

struct ChoosyParameters {
  bool refuses_all = false;

  static void Declare(ParameterSchema<ChoosyParameters>& schema) {
    schema.Optional("refuses_all", &ChoosyParameters::refuses_all, "offer no implementation");
  }
};

class ChoosyProperty final : public ParameterizedProperty<ChoosyParameters> {
 public:
  bool InferShape(std::vector<TShape>* in_shape, std::vector<TShape>* out_shape) const override {
    MergeShape(*this, "output", &(*out_shape)[0], (*in_shape)[0]);
    return (*in_shape)[0].known();
  }
};

/// Does nothing, under a name.
class NamedOperator final : public Operator {
 public:
  explicit NamedOperator(std::string name) : name_(std::move(name)) {}
  const std::string& name() const { return name_; }
  void Forward(const OpContext&, std::span<const TBlob>, std::span<const OpReqType>,
               std::span<const TBlob>) override {}

 private:
  const std::string name_;
};

/// The registration of an implementation of test_choosy, as a statement at that line.
OperatorRegistration ChoosyAt(int line, std::string_view name, OperatorImplementation made) {
  made.create = [made_as = made.name](const OperatorProperty&, std::span<const TShape>,
                                      std::span<const DType>) -> std::unique_ptr<Operator> {
    return std::make_unique<NamedOperator>(made_as);
  };
  return {.name = name,
          .file = __FILE__,
          .line = line,
          .create_property = [] { return std::make_unique<ChoosyProperty>(); },
          .describe_parameters = [] { return ChoosyProperty::DescribeParameters(); },
          .implementation = std::move(made)};
}

/// An operator with two implementations: "special" takes matrices of float32 alone.
void RegisterChoosy() {
  constexpr int kLine = __LINE__;
  const auto refuses = [](const OperatorProperty& property) {
    return static_cast<const ChoosyProperty&>(property).param().refuses_all;
  };
  using Shapes = std::span<const TShape>;
  using Types = std::span<const DType>;
  OperatorRegistry::Get().Register(
      ChoosyAt(kLine, "test_choosy",
               {.name = "special",
                .rank = 1,
                .refusal = [refuses](const OperatorProperty& property, Shapes in, Types type) {
                  if (refuses(property)) return "refuses_all is True";
                  if (in[0].ndim() != 2) return "data is no matrix";
                  return type[0] == DType::kFloat32 ? "" : "data is not float32";
                }}));
  OperatorRegistry::Get().Register(ChoosyAt(
      kLine, "test_choosy",
      {.name = "general", .refusal = [refuses](const OperatorProperty& property, Shapes, Types) {
         return refuses(property) ? "refuses_all is True" : "";
       }}));
}

/// A registration on a device, which no test computes with.
OperatorRegistration At(int line, std::string_view name, DeviceType device = DeviceType::kCpu) {
  return ChoosyAt(line, name, {.device = device, .name = "native"});
}

std::string Chosen(const TShape& shape, DType dtype) {
  RegisterChoosy();
  const auto property = OperatorRegistry::Get().Create("test_choosy", {});
  const auto made = property->CreateOperator(Device::Cpu(), {&shape, 1}, {&dtype, 1});
  return static_cast<const NamedOperator&>(*made).name();
}

/// Returns the name of the implementation of an operator for a matrix of float32, or the error.
std::string ChosenOf(std::string_view op, std::string_view named = "",
                     const ParameterMap& parameters = {}) {
  const TShape shape = {2, 3};
  const DType dtype = DType::kFloat32;
  try {
    const auto property = OperatorRegistry::Get().Create(op, parameters);
    const auto made =
        property->CreateImplementation(named, Device::Cpu(), {&shape, 1}, {&dtype, 1});
    EXPECT_EQ(property->ChosenImplementation(named, Device::Cpu(), {&shape, 1}, {&dtype, 1}),
              made->implementation());
    return static_cast<const NamedOperator&>(*made).name();
  } catch (const Error& error) {
    return error.what();
  }
}

/// Adds an implementation to an operator, as a statement at that line.
void AddAt(int line, std::string_view op, OperatorImplementation made) {
  made.create = [made_as = made.name](const OperatorProperty&, std::span<const TShape>,
                                      std::span<const DType>) -> std::unique_ptr<Operator> {
    return std::make_unique<NamedOperator>(made_as);
  };
  EXPECT_TRUE(
      OperatorRegistry::Get().AddImplementation(op, std::move(made), "registry_test.cc", line));
}

TEST(OperatorRegistryTest, TheHighestRankThatSupportsShapeAndTypeIsMade) {
  EXPECT_EQ(Chosen({2, 3}, DType::kFloat32), "special");
  EXPECT_EQ(Chosen({2, 3}, DType::kFloat64), "general");
  EXPECT_EQ(Chosen({2}, DType::kFloat32), "general");
}

TEST(OperatorRegistryTest, ANamedImplementationIsMadeOrRefusedWithItsReason) {
  RegisterChoosy();
  EXPECT_EQ(ChosenOf("test_choosy"), "special");
  EXPECT_EQ(ChosenOf("test_choosy", "general"), "general");
  EXPECT_EQ(
      ChosenOf("test_choosy", "special", {{"refuses_all", "True"}}),
      "test_choosy: implementation \"special\", which the attribute __implementation__ names, "
      "does not support float32(2,3): refuses_all is True");
  EXPECT_EQ(ChosenOf("test_choosy", "packed"),
            "test_choosy: no implementation \"packed\", which the attribute __implementation__ "
            "names, for cpu(0); expected one of special, general");
}

TEST(OperatorRegistryTest, ImplementationsMayBeAddedBeforeAndAfterTheOperator) {
  auto& registry = OperatorRegistry::Get();
  AddAt(1, "test_open", {.name = "early", .rank = 1});
  AddAt(2, "test_open_alias", {.name = "of_alias", .rank = 2});
  EXPECT_EQ(registry.Find("test_open"), nullptr);
  OperatorEntry* const entry = registry.Register(At(3, "test_open"));
  ASSERT_NE(entry, nullptr);
  EXPECT_EQ(ChosenOf("test_open"), "early");
  registry.AddAlias(*entry, "test_open_alias");
  EXPECT_EQ(ChosenOf("test_open"), "of_alias");
  AddAt(4, "test_open", {.name = "late", .rank = 3});
  AddAt(4, "test_open", {.name = "late", .rank = 3});  // in another library
  EXPECT_EQ(ChosenOf("test_open"), "late");
  EXPECT_EQ(ChosenOf("test_open", "native"), "native");
  EXPECT_EQ(entry->implementations.Get().size(), 4u);
  EXPECT_EQ(entry->implementations.Get().front()->place, "registry_test.cc:4");
}

TEST(OperatorRegistryTest, TheChoiceDoesNotDependOnTheOrderOfRegistrations) {
  ASSERT_NE(OperatorRegistry::Get().Register(At(1, "test_order")), nullptr);
  for (const char* name : {"b", "c", "a"}) AddAt(2, "test_order", {.name = name, .rank = 1});
  EXPECT_EQ(ChosenOf("test_order"), "a");
  AddAt(3, "test_order", {.name = "only_by_name", .rank = -1});
  EXPECT_EQ(ChosenOf("test_order", "only_by_name"), "only_by_name");
  std::vector<std::string> names;
  for (const auto& each : OperatorRegistry::Get().Find("test_order")->implementations.Get()) {
    names.push_back(each->name);
  }
  EXPECT_THAT(names, ::testing::ElementsAre("a", "b", "c", "native", "only_by_name"));
}

TEST(OperatorRegistryTest, ANameOfTwoImplementationsStandsForNeither) {
  ASSERT_NE(OperatorRegistry::Get().Register(At(1, "test_twins")), nullptr);
  AddAt(2, "test_twins", {.device = DeviceType::kGpu, .name = "native"});
  EXPECT_EQ(ChosenOf("test_twins"), "native") << "the other is for another device";
  AddAt(3, "test_twins", {.name = "packed"});
  AddAt(4, "test_twins", {.name = "packed"});
  const std::string message = ChosenOf("test_twins", "packed");
  EXPECT_THAT(message, HasSubstr("test_twins: implementation \"packed\" is registered twice"));
  EXPECT_THAT(message, HasSubstr("at registry_test.cc:3 and at registry_test.cc:4"));
  EXPECT_EQ(ChosenOf("test_twins"), "native") << "the first by name";
}

TEST(OperatorRegistryTest, AnOperatorWithoutAChoiceNamesNoImplementation) {
  auto& registry = OperatorRegistry::Get();
  ASSERT_NE(registry.Register(At(1, "test_single")), nullptr);
  AddAt(2, "test_single", {.device = DeviceType::kGpu, .name = "native"});
  const TShape shape = {2};
  const DType dtype = DType::kFloat32;
  const auto property = registry.Create("test_single", {});
  const auto made = property->CreateOperator(Device::Cpu(), {&shape, 1}, {&dtype, 1});
  EXPECT_EQ(made->implementation(), "");
  AddAt(3, "test_single", {.name = "packed", .rank = 1});
  const auto chosen = property->CreateOperator(Device::Cpu(), {&shape, 1}, {&dtype, 1});
  EXPECT_EQ(chosen->implementation(), "packed") << "the property knows what is added later";
}

TEST(OperatorRegistryTest, NoImplementationIsAClearError) {
  RegisterChoosy();
  const TShape shape = {2, 3};
  const DType dtype = DType::kFloat16;
  const auto expect_unimplemented = [&](const ParameterMap& parameters, Device device,
                                        const std::string& words) {
    const auto property = OperatorRegistry::Get().Create("test_choosy", parameters);
    try {
      property->CreateOperator(device, {&shape, 1}, {&dtype, 1});
      ADD_FAILURE() << "made an operator";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Error::kUnimplemented);
      EXPECT_THAT(error.what(), HasSubstr("test_choosy"));
      EXPECT_THAT(error.what(), HasSubstr("float16"));
      EXPECT_THAT(error.what(), HasSubstr(words));
    }
  };
  expect_unimplemented({{"refuses_all", "True"}}, Device::Cpu(), "cpu");
  expect_unimplemented({}, Device::Gpu(), "--config=cuda");
}

TEST(OperatorRegistryTest, AnOperatorWithoutBackwardSaysSo) {
  RegisterChoosy();
  const TShape shape = {2};
  const DType dtype = DType::kFloat32;
  const auto property = OperatorRegistry::Get().Create("test_choosy", {});
  const auto made = property->CreateOperator(Device::Cpu(), {&shape, 1}, {&dtype, 1});
  try {
    made->Backward({}, {}, {}, {}, {}, {});
    ADD_FAILURE() << "went backward";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Error::kUnimplemented);
  }
}

TEST(OperatorRegistryTest, AnUnknownNameIsAnsweredWithTheNearest) {
  const auto refusal = [](std::string_view name) -> std::string {
    try {
      OperatorRegistry::Get().Create(name, {});
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Error::kNotFound);
      return error.what();
    }
    return "found";
  };
  EXPECT_EQ(refusal("FulyConnected"),
            "unknown operator \"FulyConnected\"; did you mean \"FullyConnected\"?");
  EXPECT_EQ(refusal("convolution"),
            "unknown operator \"convolution\"; did you mean \"Convolution\"?");
  EXPECT_EQ(refusal("_Minu"), "unknown operator \"_Minu\"; did you mean \"_Minus\"?");
  EXPECT_EQ(refusal("NothingOfTheKind"),
            "unknown operator \"NothingOfTheKind\"; expected the name of a registered operator");
}

TEST(OperatorRegistryTest, AnOperatorOfMxnetIsAnsweredWithoutAnotherFunctionsName) {
  for (const std::string name : {"Custom", "_backward_add", "_contrib_dgl_subgraph", "_npi_add"}) {
    EXPECT_EQ(OperatorRegistry::Get().UnknownOperator(name).what(),
              "operator \"" + name + "\" of MXNet is not implemented");
  }
}

TEST(OperatorRegistryTest, AnAliasMakesTheOperatorUnderItsOwnName) {
  const auto& registry = OperatorRegistry::Get();
  for (const auto& [alias, name] :
       std::map<std::string, std::string>{{"_plus", "elemwise_add"},
                                          {"_Plus", "elemwise_add"},
                                          {"_add", "elemwise_add"},
                                          {"_sub", "elemwise_sub"},
                                          {"_Minus", "elemwise_sub"},
                                          {"_Mul", "elemwise_mul"},
                                          {"_div", "elemwise_div"},
                                          {"_PlusScalar", "_plus_scalar"},
                                          {"_RDivScalar", "_rdiv_scalar"},
                                          {"flatten", "Flatten"},
                                          {"Softmax", "SoftmaxOutput"},
                                          {"identity", "_copy"}}) {
    EXPECT_EQ(registry.Find(alias), registry.Find(name)) << alias;
    ASSERT_NE(registry.Find(alias), nullptr) << alias;
  }
  EXPECT_EQ(registry.Create("_plus_scalar", {{"scalar", "2"}})->TypeString(), "_plus_scalar");
  EXPECT_EQ(registry.Create("_PlusScalar", {{"scalar", "2"}})->TypeString(), "_plus_scalar");
}

/// Expects that each use of the name throws an error with both places.
void ExpectRefused(std::string_view name, const std::string& first, const std::string& second) {
  const auto expect = [&](const auto& use) {
    try {
      use();
      ADD_FAILURE() << name << " stands for one of two operators";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Error::kFailedPrecondition);
      EXPECT_THAT(error.what(), HasSubstr("\"" + std::string(name) + "\" is registered twice"));
      EXPECT_THAT(error.what(), HasSubstr(first));
      EXPECT_THAT(error.what(), HasSubstr(second));
    }
  };
  expect([&] { OperatorRegistry::Get().Create(name, {}); });
  expect([&] { OperatorRegistry::Get().FindOrCreate(name, {}); });
  expect([&] { OperatorRegistry::Get().Find(name); });
}

TEST(OperatorRegistryTest, ANameOfTwoOperatorsStandsForNeither) {
  auto& registry = OperatorRegistry::Get();
  ASSERT_NE(registry.Register(At(1, "test_twice")), nullptr);
  const auto kept = registry.FindOrCreate("test_twice", {});
  EXPECT_EQ(registry.Register(At(2, "test_twice")), nullptr);
  EXPECT_EQ(registry.Register(At(3, "test_twice", DeviceType::kGpu)), nullptr);
  ExpectRefused("test_twice", "registry_test.cc:1 ", "registry_test.cc:2;");
  // A node that was made before goes on with the operator that it has.
  const TShape shape = {2};
  const DType dtype = DType::kFloat32;
  EXPECT_NE(kept->CreateOperator(Device::Cpu(), {&shape, 1}, {&dtype, 1}), nullptr);
  try {
    kept->CreateOperator(Device::Gpu(), {&shape, 1}, {&dtype, 1});
    ADD_FAILURE() << "has the other operator's implementation";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Error::kUnimplemented);
  }
}

TEST(OperatorRegistryTest, CallsWithEqualParametersShareAProperty) {
  const auto& registry = OperatorRegistry::Get();
  const ParameterMap axis_0 = {{"axis", "0"}}, axis_1 = {{"axis", "1"}};
  const auto first = registry.FindOrCreate("sum", axis_0);
  EXPECT_EQ(registry.FindOrCreate("sum", axis_0), first);
  EXPECT_EQ(first->GetParams().at("axis"), "(0,)");
  EXPECT_EQ(registry.FindOrCreate("sum", axis_1)->GetParams().at("axis"), "(1,)");
  EXPECT_EQ(registry.FindOrCreate("max", axis_0)->TypeString(), "max");
  EXPECT_THROW(registry.FindOrCreate("sum", {{"axes", "0"}}), Error);
  EXPECT_THROW(registry.FindOrCreate("summ", axis_0), Error);
}

TEST(OperatorRegistryTest, ThreadsGetThePropertyOfTheirParameters) {
  constexpr int kScalars = 1000;  // more than are kept
  std::vector<std::thread> threads;
  std::atomic<int> wrong{0};
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < kScalars; ++i) {
        const std::string scalar = std::to_string(i);
        const auto property =
            OperatorRegistry::Get().FindOrCreate("_plus_scalar", {{"scalar", scalar}});
        if (std::stod(property->GetParams().at("scalar")) != i) ++wrong;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
}

TEST(OperatorRegistryTest, AStatementsPlaceIsItsFileAndLine) {
  EXPECT_THAT(OperatorRegistry::Get().Find("Flatten")->place, HasSubstr("ops/shape/reshape.cc:"));
}

TEST(OperatorRegistryTest, AnAliasOfTwoOperatorsStandsForNeither) {
  auto& registry = OperatorRegistry::Get();
  OperatorEntry* const one = registry.Register(At(1, "test_one"));
  OperatorEntry* const other = registry.Register(At(2, "test_other"));
  registry.AddAlias(*one, "test_alias");
  registry.AddAlias(*other, "test_alias");
  ExpectRefused("test_alias", "\"test_one\"", "\"test_other\"");
  registry.AddAlias(*one, "test_other");
  ExpectRefused("test_other", "\"test_other\"", "\"test_one\"");
  EXPECT_EQ(registry.Find("test_one"), one);
  registry.AddAlias(*one, "test_late");
  EXPECT_EQ(registry.Register(At(3, "test_late")), nullptr);
  ExpectRefused("test_late", "\"test_one\"", "registry_test.cc:3;");
}

TEST(OperatorRegistryTest, HostAndDeviceCompilationOfAStatementAreOneOperator) {
  auto& registry = OperatorRegistry::Get();
  OperatorRegistration device = At(1, "test_both", DeviceType::kGpu);
  device.create_property = nullptr;
  OperatorEntry* const entry = registry.Register(std::move(device));
  ASSERT_NE(entry, nullptr);
  EXPECT_EQ(registry.Find("test_both"), nullptr) << "the device's compilation alone";
  EXPECT_EQ(registry.Register(At(1, "test_both")), entry);
  EXPECT_EQ(registry.Register(At(1, "test_both")), entry) << "a second copy of the library";
  EXPECT_EQ(registry.Find("test_both"), entry);
  EXPECT_EQ(entry->implementations.Get().size(), 2u);
  registry.AddAlias(*entry, "test_both_too");
  registry.AddAlias(*entry, "test_both_too");
  EXPECT_EQ(registry.Find("test_both_too"), entry);
  EXPECT_EQ(entry->aliases.size(), 1u);
}

TEST(OperatorRegistryTest, ALibraryMayBeLoadedWhileOthersLookNamesUp) {
  auto& registry = OperatorRegistry::Get();
  ASSERT_NE(registry.Register(At(1, "test_plugin_taken")), nullptr);
  ASSERT_NE(registry.Register(At(1, "test_plugin_adds")), nullptr);
  std::atomic<bool> done{false};
  std::thread other([&] {
    const TShape shape = {2};
    const DType dtype = DType::kFloat32;
    const auto adds = registry.Create("test_plugin_adds", {});
    while (!done) {
      EXPECT_NE(registry.Find("Flatten"), nullptr);
      EXPECT_NE(adds->CreateImplementation("native", Device::Cpu(), {&shape, 1}, {&dtype, 1}),
                nullptr);
    }
  });
  void* const plugin = dlopen("ops/testing/registry_plugin.so", RTLD_NOW | RTLD_LOCAL);
  done = true;
  other.join();
  ASSERT_NE(plugin, nullptr) << dlerror();
  ExpectRefused("test_plugin_taken", "registry_test.cc:1 ", "registry_plugin.cc:");
  EXPECT_EQ(dlclose(plugin), 0);
  EXPECT_EQ(OperatorRegistry::Get().Find("test_plugin_adds")->implementations.Get()[0]->name,
            "plugin");
  EXPECT_THAT(ChosenOf("test_plugin_adds"), HasSubstr("made by a closed library"));
  EXPECT_EQ(registry.Create("test_plugin", {})->TypeString(), "test_plugin")
      << "a closed library's operators stay usable";
}

TEST(OperatorRegistryTest, ListedNamesAreSortedAndFoundAndNoAliases) {
  const auto& registry = OperatorRegistry::Get();
  const std::vector<std::string> names = registry.ListNames();
  EXPECT_TRUE(std::is_sorted(names.begin(), names.end()));
  std::set<std::string> aliases;
  for (const std::string& name : names) {
    if (name.starts_with("test_")) continue;
    const OperatorEntry* entry = registry.Find(name);
    ASSERT_NE(entry, nullptr) << name;
    EXPECT_EQ(entry->name, name);
    for (const std::string& alias : entry->aliases) {
      EXPECT_TRUE(aliases.insert(alias).second) << alias << " stands for two operators";
    }
  }
  for (const std::string& name : names) EXPECT_FALSE(aliases.contains(name)) << name;
  EXPECT_EQ(registry.Find("no_such_operator"), nullptr);
}

}  // namespace
}  // namespace tessera
