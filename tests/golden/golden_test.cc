// Every operator against MXNet 1.9.1: the cases that make_cases.py wrote, called imperatively and
// in a bound graph with gradients.
#include <gtest/gtest.h>

#include <filesystem>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "tessera/ops/registry.h"
#include "tessera/tests/golden/golden_case.h"

namespace tessera {
namespace {

constexpr char kFolder[] = "tests/golden/cases";

class GoldenCasesTest : public testing::TestWithParam<std::string> {};

TEST_P(GoldenCasesTest, EveryCaseGivesTheNumbersOfMxnet) {
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

/// Operators without cases, and why.
const std::map<std::string, std::string> kWithoutCases = {
    {"_CrossDeviceCopy", "MXNet makes it when it places a graph on several devices"},
    {"_adjoint", "MXNet has none: it is part of the graphs of gradients"},
    {"_contrib_count_sketch", "MXNet has it on a GPU alone"},
    {"_contrib_edge_id", "MXNet has it for sparse arrays alone"},
    {"_contrib_fft", "MXNet has it on a GPU alone"},
    {"_contrib_getnnz", "MXNet has it for sparse arrays alone"},
    {"_contrib_ifft", "MXNet has it on a GPU alone"},
    {"_contrib_group_adagrad_update", "MXNet has it for sparse gradients alone"},
    {"_copyto", "in MXNet a function of arrays that no graph has"},
    {"_onehot_encode", "in MXNet a function of arrays that no graph has"},
    {"_nonzero_product", "MXNet has none: it is part of the graphs of gradients"},
    {"_pick_maxima", "MXNet has none: it is part of the graphs of gradients"},
    {"_scatter_set_nd", "in MXNet a function of arrays that no graph has"},
    {"_set_value", "in MXNet a function of arrays that no graph has"},
    {"_sparse_adagrad_update", "MXNet has it for sparse gradients alone"},
    {"_sparse_retain", "MXNet has it for sparse arrays alone"},
    {"_square_sum", "MXNet has it for sparse arrays alone"},
    {"_training_mode", "MXNet has none: it is part of the graphs of gradients"},
    {"fill_element_0index", "in MXNet a function of arrays that no graph has"},
    {"mp_lamb_update_phase2", "MXNet 1.9.1 does not change its float32 weight"},
    {"reset_arrays", "in MXNet a function of arrays that no graph has"},
};

TEST(GoldenTest, EveryOperatorHasCases) {
  std::set<std::string> checked;
  for (const std::string& family : Families()) {
    checked.merge(OperatorsOfGoldenCases(std::string(kFolder) + "/" + family));
  }
  const OperatorRegistry& registry = OperatorRegistry::Get();
  for (const std::string& name : registry.ListNames()) {
    EXPECT_TRUE(checked.contains(name) || kWithoutCases.contains(name))
        << name << " has no golden case";
  }
}

INSTANTIATE_TEST_SUITE_P(All, GoldenCasesTest, testing::ValuesIn(Families()),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace tessera
