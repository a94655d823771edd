#include "tessera/train/checkpoint.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <map>
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

std::string Contents(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
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

TEST(CheckpointTest, FilesOfTwoNetworksAreRefused) {
  const auto network = [](const char* act_type) {
    return Symbol::Apply("Activation", {Network()}, {{"act_type", act_type}}, "act");
  };
  const ModelParameters parameters = {{{"fc_bias", NDArray({2})}}, {}};
  const std::string prefix = testing::TempDir() + "/mixed";
  SaveCheckpoint(prefix, 1, {network("relu"), parameters});
  const std::string relu = Contents(CheckpointSymbolPath(prefix));
  SaveCheckpoint(prefix, 2, {network("tanh"), parameters});
  const auto refused = [&](int epoch) {
    try {
      LoadCheckpoint(prefix, epoch);
      ADD_FAILURE() << "no error for epoch " << epoch;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Error::kDataLoss);
      EXPECT_THAT(error.what(),
                  AllOf(HasSubstr(CheckpointParametersPath(prefix, epoch)),
                        HasSubstr("another network"), HasSubstr("mixed-symbol.json")));
    }
  };
  refused(1);
  EXPECT_EQ(LoadCheckpoint(prefix, 2).symbol.ToJson(), network("tanh").ToJson());
  // A save that ends between its two files leaves these.
  std::ofstream(CheckpointSymbolPath(prefix)) << relu;
  refused(2);
  LoadCheckpoint(prefix, 1);
  // MXNet's files have no digest.
  SaveNDArrays(CheckpointParametersPath(prefix, 2), {});
  LoadCheckpoint(prefix, 2);
}

TEST(CheckpointTest, TheFileOfTheSameNetworkStays) {
  const std::string prefix = testing::TempDir() + "/kept";
  SaveCheckpoint(prefix, 1, {Network(), {}});
  const std::string path = CheckpointSymbolPath(prefix);
  // Another version of the program might write more attributes and other white space.
  std::string json = Contents(path);
  const size_t at = json.find("\"mxnet_version\"");
  ASSERT_NE(at, json.npos);
  json.insert(at, "\"note\": [\"str\", \"old\"],\r\n");
  std::ofstream(path) << json;
  SaveCheckpoint(prefix, 2, {Network(), {}});
  EXPECT_EQ(Contents(path), json);
  LoadCheckpoint(prefix, 2);
  std::ofstream(path) << json << "\n\n";
  LoadCheckpoint(prefix, 2);
  std::ofstream(path) << "{";
  SaveCheckpoint(prefix, 3, {Network(), {}});
  EXPECT_EQ(Contents(path), Network().ToJson());
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

TEST(CheckpointTest, DataAndLabelsAmongTheParametersAreIgnoredAndListed) {
  const std::string prefix = testing::TempDir() + "/inputs";
  const Symbol network = Symbol::Apply("SoftmaxOutput", {Network()}, {}, "softmax");
  SaveCheckpoint(prefix, 1, {network, {}});
  std::map<std::string, NDArray> arrays;
  for (const char* name :
       {"data", "softmax_label", "other_label", "label", "fc_bias", "fc_weight"}) {
    arrays["arg:" + std::string(name)] = NDArray({2});
  }
  SaveNDArrays(CheckpointParametersPath(prefix, 1), arrays);
  const Checkpoint checkpoint = LoadCheckpoint(prefix, 1);
  EXPECT_THAT(checkpoint.ignored,
              ElementsAre("arg:data", "arg:label", "arg:other_label", "arg:softmax_label"));
  EXPECT_EQ(checkpoint.parameters.arg.size(), 2u);
  EXPECT_THAT(LoadCheckpoint(prefix, 1, {"fc_weight"}).ignored, testing::Contains("arg:fc_weight"));
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
