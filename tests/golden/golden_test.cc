// Every operator against MXNet 1.9.1: the cases that make_cases.py wrote, called imperatively and
// in a bound graph with gradients.
#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "tessera/tests/golden/golden_case.h"

namespace tessera {
namespace {

constexpr char kFolder[] = "tests/golden/cases";

class GoldenTest : public testing::TestWithParam<std::string> {};

TEST_P(GoldenTest, EveryCaseGivesTheNumbersOfMxnet) {
  const int count = RunGoldenCases(
      std::string(kFolder) + "/" + GetParam(), /*slack=*/1, [](const std::string&) {},
      [](const GoldenResult& result) {
        for (const std::string& difference : result.differences) {
          ADD_FAILURE() << result.description << ": " << difference;
        }
      });
  EXPECT_GT(count, 0);
}

std::vector<std::string> Families() {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(kFolder)) {
    if (entry.path().extension() == ".json") names.push_back(entry.path().stem().string());
  }
  return names;
}

INSTANTIATE_TEST_SUITE_P(All, GoldenTest, testing::ValuesIn(Families()),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace tessera
