#include "tessera/ops/registry.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <set>
#include <string>
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

/// An operator with two implementations: "special" takes matrices of float32 alone.
void RegisterChoosy() {
  OperatorEntry& entry = OperatorRegistry::Get().FindOrAdd("test_choosy");
  if (entry.create_property) return;
  entry.create_property = [] { return std::make_unique<ChoosyProperty>(); };
  entry.describe_parameters = [] { return ChoosyProperty::DescribeParameters(); };
  const auto make = [](const std::string& name) {
    return [name](const OperatorProperty&, std::span<const TShape>,
                  std::span<const DType>) -> std::unique_ptr<Operator> {
      return std::make_unique<NamedOperator>(name);
    };
  };
  const auto refuses = [](const OperatorProperty& property) {
    return static_cast<const ChoosyProperty&>(property).param().refuses_all;
  };
  entry.implementations.push_back(
      {.device = DeviceType::kCpu,
       .name = "special",
       .supports =
           [refuses](const OperatorProperty& property, std::span<const TShape> in,
                     std::span<const DType> type) {
             return !refuses(property) && in[0].ndim() == 2 && type[0] == DType::kFloat32;
           },
       .create = make("special")});
  entry.implementations.push_back(
      {.device = DeviceType::kCpu,
       .name = "general",
       .supports = [refuses](const OperatorProperty& property, std::span<const TShape>,
                             std::span<const DType>) { return !refuses(property); },
       .create = make("general")});
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
  for (const std::string name : {"softmax", "_mod_scalar", "_Mod", "_power_scalar", "_maximum",
                                 "sum", "BatchNorm", "Dropout", "Concat", "_contrib_box_nms"}) {
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

TEST(OperatorRegistryTest, ListedNamesAreSortedAndFoundAndNoAliases) {
  const auto& registry = OperatorRegistry::Get();
  const std::vector<std::string> names = registry.ListNames();
  EXPECT_TRUE(std::is_sorted(names.begin(), names.end()));
  std::set<std::string> aliases;
  for (const std::string& name : names) {
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
