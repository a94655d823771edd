// Errors that only the values of indices tell, and the inference that the rows do not check.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tessera/base/error.h"
#include "tessera/ops/registry.h"

namespace tessera {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

/// A float array.
struct Array {
  std::vector<float> values;
  TShape shape;

  TBlob blob() { return TBlob(values.data(), shape, DType::kFloat32, Device::Cpu()); }
};

/// Returns the output of an operator of float arrays.
std::vector<float> Call(const std::string& op, const ParameterMap& parameters,
                        std::vector<Array> inputs) {
  const auto property = OperatorRegistry::Get().Create(op, parameters);
  std::vector<TShape> in_shape, out_shape(1);
  for (const Array& input : inputs) in_shape.push_back(input.shape);
  EXPECT_TRUE(property->InferShape(&in_shape, &out_shape));
  const std::vector<DType> types(inputs.size(), DType::kFloat32);
  const auto made = property->CreateOperator(Device::Cpu(), in_shape, types);
  Array out = {std::vector<float>(static_cast<size_t>(out_shape[0].Size())), out_shape[0]};
  std::vector<TBlob> in;
  for (Array& input : inputs) in.push_back(input.blob());
  const TBlob outputs[] = {out.blob()};
  const OpReqType req[] = {kWriteTo};
  made->Forward({}, in, req, outputs);
  return out.values;
}
/// Calls an operator of a float array and of indices.
std::vector<float> Call(const std::string& op, const ParameterMap& parameters,
                        std::vector<float> data, const TShape& data_shape,
                        std::vector<float> indices, const TShape& index_shape) {
  return Call(op, parameters, {{std::move(data), data_shape}, {std::move(indices), index_shape}});
}

template <typename Function>
void ExpectOutOfRange(const Function& function, const std::vector<std::string>& words) {
  try {
    function();
    ADD_FAILURE() << "was not refused";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Error::kOutOfRange) << error.what();
    for (const std::string& word : words) EXPECT_THAT(error.what(), HasSubstr(word));
  }
}

TEST(IndexValuesTest, TakeThatRaisesNamesTheIndexOutsideOfTheAxis) {
  const ParameterMap raise = {{"mode", "raise"}};
  EXPECT_THAT(Call("take", raise, {1, 2, 3}, {3}, {2, 0}, {2}), ElementsAre(3, 1));
  for (const float wrong : {3.0f, -1.0f, 1e20f}) {
    ExpectOutOfRange(
        [&] {
          Call("take", raise, {1, 2, 3}, {3}, {0, wrong}, {2});
        },
        {"element 1", "extent 3"});
  }
}

TEST(IndexValuesTest, NanIsOutsideOfEveryRange) {
  const auto take = [](const std::string& mode) {
    return Call("take", {{"mode", mode}}, {1, 2, 3}, {3}, {2, NAN}, {2});
  };
  EXPECT_THAT(take("clip"), ElementsAre(3, 1));
  for (const std::string mode : {"raise", "wrap"}) {
    ExpectOutOfRange([&] { take(mode); }, {"index nan", "element 1", "extent 3"});
  }
  const auto pick = [](const std::string& mode) {
    return Call("pick", {{"mode", mode}}, {1, 2, 3, 4}, {2, 2}, {1, NAN}, {2});
  };
  EXPECT_THAT(pick("clip"), ElementsAre(2, 3));
  ExpectOutOfRange([&] { pick("wrap"); }, {"index nan", "element 1", "extent 2"});
  EXPECT_THAT(Call("batch_take", {}, {1, 2, 3, 4}, {2, 2}, {1, NAN}, {2}), ElementsAre(2, 3));
  EXPECT_THAT(Call("one_hot", {{"depth", "2"}, {"off_value", "0.5"}}, {{{NAN, 1}, {2}}}),
              ElementsAre(0.5f, 0.5f, 0.5f, 1));
  EXPECT_THAT(Call("Embedding", {{"input_dim", "3"}, {"output_dim", "1"}}, {NAN, 2}, {2}, {1, 2, 3},
                   {3, 1}),
              ElementsAre(1, 3));
  ExpectOutOfRange([] { Call("gather_nd", {}, {1, 2}, {2}, {NAN}, {1, 1}); }, {"index nan"});
  ExpectOutOfRange(
      [] {
        Call("scatter_nd", {{"shape", "(2,)"}}, {5}, {1}, {NAN}, {1, 1});
      },
      {"index nan"});
  ExpectOutOfRange(
      [] {
        Call("_contrib_index_copy", {}, {{{1, 2}, {2}}, {{NAN}, {1}}, {{9}, {1}}});
      },
      {"index nan"});
  ExpectOutOfRange(
      [] {
        Call("_ravel_multi_index", {{"shape", "(2,3)"}}, {{{0, 1, 2, NAN}, {2, 2}}});
      },
      {"index nan", "element 3"});
  ExpectOutOfRange(
      [] {
        Call("_unravel_index", {{"shape", "(2,3)"}}, {{{4, NAN}, {2}}});
      },
      {"index nan", "element 1"});
}

TEST(IndexValuesTest, AnEmptyAxisHasNoPositions) {
  for (const std::string mode : {"clip", "wrap", "raise"}) {
    ExpectOutOfRange(
        [&] {
          Call("take", {{"mode", mode}}, {}, {0}, {0}, {1});
        },
        {"index 0", "extent 0"});
    EXPECT_TRUE(Call("take", {{"mode", mode}}, {}, {0}, {}, {0}).empty());
  }
  ExpectOutOfRange([&] { Call("pick", {}, {}, {1, 0}, {0}, {1}); }, {"extent 0"});
}

TEST(IndexValuesTest, PositionsOfSeveralDimensionsAreChecked) {
  EXPECT_THAT(Call("gather_nd", {}, {1, 2, 3, 4}, {2, 2}, {-1, 0, 0, -2}, {2, 2}),
              ElementsAre(3, 1));
  ExpectOutOfRange(
      [] {
        Call("gather_nd", {}, {1, 2, 3, 4}, {2, 2}, {0, 1, 0, 2}, {2, 2});
      },
      {"index 2", "element 3", "dimension 1", "extent 2"});
  ExpectOutOfRange(
      [] {
        Call("gather_nd", {}, {1, 2, 3, 4}, {2, 2}, {-3, 0}, {2, 1});
      },
      {"index -3", "dimension 0"});
  ExpectOutOfRange(
      [] {
        Call("scatter_nd", {{"shape", "(2,)"}}, {5}, {1}, {2}, {1, 1});
      },
      {"index 2", "extent 2"});
}

TEST(IndexValuesTest, RowsThatAreReplacedAreThere) {
  const auto replace = [](float row) {
    return Call("_contrib_index_copy", {}, {{{1, 2, 3}, {3}}, {{row}, {1}}, {{9}, {1}}});
  };
  EXPECT_THAT(replace(1), ElementsAre(1, 9, 3));
  for (const float wrong : {3.0f, -1.0f}) {
    ExpectOutOfRange([&] { replace(wrong); }, {"element 0", "extent 3"});
  }
}

TEST(IndexValuesTest, SketchesHaveAPositionForEachIndex) {
  const auto sketch = [](float index) {
    return Call("_contrib_count_sketch", {{"out_dim", "2"}},
                {{{1, 2, 5}, {1, 3}}, {{1, index, 1}, {1, 3}}, {{1, -1, -1}, {1, 3}}});
  };
  EXPECT_THAT(sketch(0), ElementsAre(-2, -4));
  for (const float wrong : {2.0f, -1.0f, 1e20f}) {
    ExpectOutOfRange([&] { sketch(wrong); }, {"element 1", "extent 2"});
  }
}

TEST(IndexValuesTest, RanksFollowFromOtherRanks) {
  const auto infer = [](const std::string& op, std::vector<TShape> in, const TShape& out) {
    std::vector<TShape> outputs = {out};
    OperatorRegistry::Get().Create(op, {})->InferShape(&in, &outputs);
    in.push_back(outputs[0]);
    return in;
  };
  EXPECT_THAT(infer("take", {TShape::Parse("(None,4)"), TShape()}, {2, 3, 4}),
              ElementsAre(TShape::Parse("(None,4)"), TShape{2, 3}, TShape{2, 3, 4}));
  EXPECT_THAT(infer("gather_nd", {TShape(), {2, 5}}, {5, 7}),
              ElementsAre(TShape::Parse("(None,None,7)"), TShape{2, 5}, TShape{5, 7}));
}

}  // namespace
}  // namespace tessera
