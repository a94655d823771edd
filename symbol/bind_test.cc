// Arrays, devices and requests of Bind and SimpleBind.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tessera/base/error.h"
#include "tessera/symbol/executor.h"

namespace tessera {
namespace {

using testing::HasSubstr;

template <typename Call>
void ExpectInvalid(const std::string& words, const Call& call) {
  try {
    call();
    ADD_FAILURE() << "no error; expected: " << words;
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Error::kInvalidArgument) << error.what();
    EXPECT_THAT(error.what(), HasSubstr(words));
  }
}

TEST(BindTest, WithGroupsAnArrayMayLieOnAnyDevice) {
  Symbol sum = Symbol::Variable("a") + Symbol::Variable("b");
  sum.SetAttribute("ctx_group", "second");
  std::vector<NDArray> arguments, gradients;
  for (const int device : {0, 1}) {
    arguments.push_back(
        NDArray::FromVector(std::vector<float>{1, 2}, {2}).Copy(Device::Cpu(device)));
    gradients.emplace_back(TShape{2}, Device::Cpu(device));
  }
  const auto executor = Bind(
      sum * 2.0, Device::Cpu(0),
      {.arguments = arguments, .gradients = gradients, .group2ctx = {{"second", Device::Cpu(2)}}});
  executor->Forward(true);
  EXPECT_EQ(executor->outputs()[0].device(), Device::Cpu(2));
  EXPECT_THAT(executor->outputs()[0].ToVector(), testing::ElementsAre(4, 8));
  executor->Backward({NDArray::FromVector(std::vector<float>{1, 3}, {2})});
  for (const NDArray& gradient : gradients) {
    EXPECT_THAT(gradient.ToVector(), testing::ElementsAre(2, 6));
  }
  ExpectInvalid("\"b\" lies on cpu(1), expected cpu(0)",
                [&] { Bind(sum, Device::Cpu(), {.arguments = arguments}); });
  ExpectInvalid("gradient of \"b\" lies on cpu(0), expected cpu(1)", [&] {
    Bind(sum, Device::Cpu(),
         {.arguments = arguments,
          .gradients = {gradients[0], gradients[0]},
          .group2ctx = {{"second", Device::Cpu(2)}}});
  });
}

TEST(BindTest, RequestsOfSingleArgumentsPrecedeTheOthers) {
  const Symbol sum = Symbol::Variable("a") * Symbol::Variable("b") * Symbol::Variable("c");
  const auto executor = SimpleBind(sum, Device::Cpu(),
                                   {.shapes = {{"a", {1}}},
                                    .no_gradient = {"b"},
                                    .grad_requests = {{"a", kNullOp}, {"b", kAddTo}}});
  for (NDArray argument : executor->arg_arrays()) argument = 2.0f;
  EXPECT_TRUE(executor->grad_arrays()[0].is_none());
  for (int i = 0; i < 2; ++i) {
    executor->Forward(true);
    executor->Backward({NDArray::FromVector(std::vector<float>{1}, {1})});
  }
  EXPECT_THAT(executor->grad_dict()["b"].ToVector(), testing::ElementsAre(8));
  EXPECT_THAT(executor->grad_dict()["c"].ToVector(), testing::ElementsAre(4));
  ExpectInvalid("\"cc\", but there is no such argument; did you mean", [&] {
    SimpleBind(sum, Device::Cpu(), {.shapes = {{"a", {1}}}, .grad_requests = {{"cc", kNullOp}}});
  });
}

TEST(BindTest, ArgumentsMayComeFromTheCaller) {
  NDArray a(TShape{2});
  const auto executor =
      SimpleBind(Symbol::Variable("a") + Symbol::Variable("b"), Device::Cpu(),
                 {.shapes = {{"a", {2}}},
                  .allocate = [&](const std::string& name, const TShape& shape, Device, DType) {
                    EXPECT_EQ(shape, TShape{2});
                    return name == "a" ? a : NDArray();
                  }});
  EXPECT_EQ(executor->arg_dict()["a"].var(), a.var());
  EXPECT_THAT(executor->arg_dict()["b"].ToVector(), testing::ElementsAre(0, 0));
}

}  // namespace
}  // namespace tessera
