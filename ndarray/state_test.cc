#include "tessera/ndarray/state.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "tessera/base/error.h"

namespace tessera {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TEST(TrainingStateTest, PartsKeepTheirNames) {
  TrainingState inner;
  inner.integers["count"] = {3};
  inner.numbers["sums"] = {0.5, 2};
  inner.texts["kind"] = "SGD";
  inner.arrays["mom"] = NDArray::FromVector(std::vector<float>{1, 2}, {2});
  TrainingState outer;
  outer.integers["count"] = {7};
  outer.integers["a0"] = {1};  // follows "a/" in the order of characters
  outer.Add("a", inner);
  EXPECT_EQ(outer.Integer("count"), 7);
  EXPECT_EQ(outer.Integer("a/count"), 3);
  const TrainingState part = outer.Part("a");
  EXPECT_EQ(part.integers.size(), 1u);
  EXPECT_EQ(part.Integer("count"), 3);
  EXPECT_THAT(part.Numbers("sums"), ElementsAre(0.5, 2));
  EXPECT_EQ(part.Text("kind"), "SGD");
  EXPECT_THAT(part.Array("mom").ToVector(), ElementsAre(1, 2));
  EXPECT_TRUE(outer.Part("b").texts.empty());
}

TEST(TrainingStateTest, AMissingValueIsNamed) {
  TrainingState state;
  state.numbers["sums"] = {1, 2};
  try {
    state.Array("mom");
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Error::kDataLoss);
    EXPECT_THAT(error.what(), HasSubstr("mom"));
  }
  EXPECT_THROW(state.Number("sums"), Error);  // two numbers
  EXPECT_THROW(state.Integer("sums"), Error);
  EXPECT_THROW(state.Text("sums"), Error);
}

}  // namespace
}  // namespace tessera
