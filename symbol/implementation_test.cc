// Graphs with an operator of two implementations, test_two (ops/testing/two_implementations.cc).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "tessera/base/device.h"
#include "tessera/base/error.h"
#include "tessera/ndarray/testing/array_values.h"
#include "tessera/symbol/cached_op.h"
#include "tessera/symbol/executor.h"
#include "tessera/symbol/symbol.h"

namespace tessera {
namespace {

using ndarray_testing::Vector;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

/// Returns test_two of the variable x, by the named implementation unless the name is empty.
Symbol Two(const std::string& implementation = "") {
  ParameterMap parameters;
  if (!implementation.empty()) parameters["__implementation__"] = implementation;
  return Symbol::Apply("test_two", {Symbol::Variable("x")}, parameters, "two");
}

std::unique_ptr<Executor> BindTo(const Symbol& symbol, const std::vector<float>& x) {
  return Bind(symbol, Device::Cpu(), {.arguments = {Vector(x)}});
}

TEST(ImplementationTest, ANodesAttributeNamesItAndDebugStringTheChosenOne) {
  const auto chosen = BindTo(Two(), {0, 1});
  chosen->Forward(false);
  EXPECT_THAT(chosen->outputs()[0].ToVector(), ElementsAre(2, 3));
  EXPECT_THAT(chosen->DebugString(), HasSubstr("0 two by fast -> output 0"));
  EXPECT_THAT(BindTo(Two(), {0, 1, 2})->DebugString(), HasSubstr("0 two by native -> output 0"));

  const auto named = BindTo(Symbol::FromJson(Two("native").ToJson()), {0, 1});
  named->Forward(false);
  EXPECT_THAT(named->outputs()[0].ToVector(), ElementsAre(1, 2));
  EXPECT_THAT(named->DebugString(), HasSubstr("0 two by native -> output 0"));
}

TEST(ImplementationTest, OneThatDoesNotFitIsRefusedWithNodeAndReason) {
  const auto message = [](const std::string& name) -> std::string {
    try {
      BindTo(Two(name), {0, 1, 2});
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Error::kInvalidArgument);
      return error.what();
    }
    return "";
  };
  EXPECT_THAT(message("fast"),
              AllOf(HasSubstr("node \"two\": test_two"), HasSubstr("__implementation__"),
                    HasSubstr("float32(3,): the number of elements is odd")));
  EXPECT_THAT(message("packed"), AllOf(HasSubstr("node \"two\": test_two"), HasSubstr("\"packed\""),
                                       HasSubstr("expected one of fast, native")));
}

TEST(ImplementationTest, TheGradientIsThatOfTheNode) {
  for (const auto& [name, slope] : {std::pair("native", 10.0f), std::pair("fast", 20.0f)}) {
    const auto executor = SimpleBind(Two(name), Device::Cpu(), {.shapes = {{"x", {2}}}});
    NDArray x = executor->arg_dict().at("x");
    x = 1.0f;
    executor->Forward(true);
    executor->Backward({Vector({1, 3})});
    EXPECT_THAT(executor->grad_dict().at("x").ToVector(), ElementsAre(slope, 3 * slope));
    EXPECT_THAT(executor->DebugString(),
                HasSubstr("two_backward by " + std::string(name) + " -> gradient of x"));
  }
}

TEST(ImplementationTest, NodesThatNameDifferentOnesAreNotMerged) {
  const Symbol x = Symbol::Variable("x");
  const auto two = [&x](const char* implementation) {
    return Symbol::Apply("test_two", {x}, {{"__implementation__", implementation}});
  };
  // (x + 2) - (x + 1)
  const auto executor = BindTo(two("fast") - two("native"), {0, 1});
  executor->Forward(false);
  EXPECT_THAT(executor->outputs()[0].ToVector(), ElementsAre(1, 1));
}

TEST(ImplementationTest, ACachedOpUsesTheNamedOneCompiledAndNodeByNode) {
  for (const bool node_by_node : {false, true}) {
    const CachedOp named(Two("native"), {.node_by_node = node_by_node});
    EXPECT_THAT(named({Vector({0, 1})})[0].ToVector(), ElementsAre(1, 2));
    const CachedOp chosen(Two(), {.node_by_node = node_by_node});
    EXPECT_THAT(chosen({Vector({0, 1})})[0].ToVector(), ElementsAre(2, 3));
  }
}

TEST(ImplementationTest, GraphDumpsNameTheChosenOne) {
  const std::filesystem::path folder = std::filesystem::path(testing::TempDir()) / "dumps";
  std::filesystem::remove_all(folder);
  setenv("TESSERA_DUMP_GRAPH", folder.c_str(), /*overwrite=*/1);
  BindTo(Two(), {0, 1});
  unsetenv("TESSERA_DUMP_GRAPH");
  std::vector<std::filesystem::path> texts;
  for (const auto& file : std::filesystem::recursive_directory_iterator(folder)) {
    if (file.path().extension() == ".txt") texts.push_back(file.path());
  }
  ASSERT_FALSE(texts.empty());
  std::ostringstream last;
  last << std::ifstream(*std::max_element(texts.begin(), texts.end())).rdbuf();
  EXPECT_THAT(last.str(), HasSubstr("test_two[fast]() two (%0): float32(2,)"));
}

}  // namespace
}  // namespace tessera
