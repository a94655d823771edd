// Small networks of the kinds that people use, against the outputs that MXNet 1.9.1 has computed.
#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "tessera/tests/graphs/saved_model.h"

namespace tessera {
namespace {

class ModelsTest : public testing::TestWithParam<std::string> {};

TEST_P(ModelsTest, OutputsAreThoseOfMxnet) {
  for (const OutputDifference& each : CompareWithMxnet(GetParam())) {
    EXPECT_LE(each.relative, 1e-4) << each.output;
  }
}

INSTANTIATE_TEST_SUITE_P(All, ModelsTest, testing::ValuesIn(SavedModels("tests/graphs/models")),
                         [](const auto& info) {
                           return std::filesystem::path(info.param).filename().string();
                         });

}  // namespace
}  // namespace tessera
