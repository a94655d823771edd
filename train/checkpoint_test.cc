#include "tessera/train/checkpoint.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tessera/base/error.h"
#include "tessera/ndarray/serialization.h"

namespace tessera {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

Symbol Network() {
  return Symbol::Apply("FullyConnected", {Symbol::Variable("data")}, {{"num_hidden", "2"}}, "fc");
}

TEST(CheckpointTest, NamesItsFiles) {
  EXPECT_EQ(CheckpointSymbolPath("a/b"), "a/b-symbol.json");
  EXPECT_EQ(CheckpointParametersPath("a/b", 7), "a/b-0007.params");
  EXPECT_EQ(CheckpointParametersPath("b", 12345), "b-12345.params");
}

TEST(CheckpointTest, ReadsWhatItWrote) {
  const std::string prefix = testing::TempDir() + "/roundtrip";
  const std::vector<float> bias = {1, 2};
  SaveCheckpoint(prefix, 3, {Network(), {{{"fc_bias", NDArray::FromVector(bias, {2})}}, {}}});
  const Checkpoint checkpoint = LoadCheckpoint(prefix, 3);
  EXPECT_EQ(checkpoint.symbol.ToJson(), Network().ToJson());
  ASSERT_EQ(checkpoint.parameters.arg.size(), 1u);
  EXPECT_THAT(checkpoint.parameters.arg.at("fc_bias").ToVector(), ElementsAre(1, 2));
  EXPECT_TRUE(checkpoint.parameters.aux.empty());
}

TEST(CheckpointTest, AnArrayThatBelongsToNothingIsRefused) {
  const std::string prefix = testing::TempDir() + "/stranger";
  SaveCheckpoint(prefix, 1, {Network(), {}});
  for (const char* key : {"arg:other_weight", "aux:fc_bias", "fc_bias"}) {
    SaveNDArrays(CheckpointParametersPath(prefix, 1), {{key, NDArray({2})}});
    try {
      LoadCheckpoint(prefix, 1);
      FAIL() << "no error for " << key;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Error::kDataLoss);
      EXPECT_THAT(error.what(), AllOf(HasSubstr("stranger-0001.params"), HasSubstr(key)));
    }
  }
}

TEST(CheckpointTest, AMissingFileIsNamed) {
  const std::string prefix = testing::TempDir() + "/absent";
  try {
    LoadCheckpoint(prefix, 1);
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Error::kNotFound);
    EXPECT_THAT(error.what(), HasSubstr("absent-symbol.json"));
  }
}

}  // namespace
}  // namespace tessera
