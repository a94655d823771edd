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
  OperatorRegistry::Get().Register(
      ChoosyAt(kLine, "test_choosy",
               {.device = DeviceType::kCpu,
                .name = "special",
                .supports =
                    [refuses](const OperatorProperty& property, std::span<const TShape> in,
                              std::span<const DType> type) {
                      return !refuses(property) && in[0].ndim() == 2 && type[0] == DType::kFloat32;
                    },
                .create = nullptr}));
  OperatorRegistry::Get().Register(
      ChoosyAt(kLine, "test_choosy",
               {.device = DeviceType::kCpu,
                .name = "general",
                .supports = [refuses](const OperatorProperty& property, std::span<const TShape>,
                                      std::span<const DType>) { return !refuses(property); },
                .create = nullptr}));
}

/// A registration on a device, which no test computes with.
OperatorRegistration At(int line, std::string_view name, DeviceType device = DeviceType::kCpu) {
  return ChoosyAt(line, name,
                  {.device = device, .name = "native", .supports = nullptr, .create = nullptr});
}

std::string Chosen(const TShape& shape, DType dtype) {
  RegisterChoosy();
  const auto property = OperatorRegistry::Get().Create("test_choosy", {});
  const auto made = property->CreateOperator(Device::Cpu(), {&shape, 1}, {&dtype, 1});
  return static_cast<const NamedOperator&>(*made).name();
}

TEST(OperatorRegistryTest, TheFirstImplementationThatSupportsShapeAndTypeIsMade) {
  EXPECT_EQ(Chosen({2, 3}, DType::kFloat32), "special");
  EXPECT_EQ(Chosen({2, 3}, DType::kFloat64), "general");
  EXPECT_EQ(Chosen({2}, DType::kFloat32), "general");
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
  for (const std::string name : {"Custom", "_backward_add", "_sparse_retain", "_npi_add"}) {
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
  EXPECT_EQ(entry->implementations.size(), 2u);
  registry.AddAlias(*entry, "test_both_too");
  registry.AddAlias(*entry, "test_both_too");
  EXPECT_EQ(registry.Find("test_both_too"), entry);
  EXPECT_EQ(entry->aliases.size(), 1u);
}

TEST(OperatorRegistryTest, ALibraryMayBeLoadedWhileOthersLookNamesUp) {
  auto& registry = OperatorRegistry::Get();
  ASSERT_NE(registry.Register(At(1, "test_plugin_taken")), nullptr);
  std::atomic<bool> done{false};
  std::thread other([&] {
    while (!done) EXPECT_NE(registry.Find("Flatten"), nullptr);
  });
  void* const plugin = dlopen("ops/testing/registry_plugin.so", RTLD_NOW | RTLD_LOCAL);
  done = true;
  other.join();
  ASSERT_NE(plugin, nullptr) << dlerror();
  ExpectRefused("test_plugin_taken", "registry_test.cc:1 ", "registry_plugin.cc:");
  EXPECT_EQ(dlclose(plugin), 0);
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
