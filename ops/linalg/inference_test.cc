// Shapes of products that follow from other shapes than the first argument's.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tessera/base/error.h"
#include "tessera/ops/registry.h"

namespace tessera {
namespace {

using ::testing::ElementsAre;

/// Returns the shapes of the arguments, then the output's.
std::vector<TShape> Infer(const std::string& op, const ParameterMap& parameters,
                          std::vector<TShape> in, const TShape& out) {
  std::vector<TShape> outputs = {out};
  OperatorRegistry::Get().Create(op, parameters)->InferShape(&in, &outputs);
  in.push_back(outputs[0]);
  return in;
}

TEST(InferenceTest, OneOperandFollowsFromTheOtherAndTheOutput) {
  EXPECT_THAT(Infer("dot", {}, {{2, 3, 4}, TShape()}, {2, 3, 5}),
              ElementsAre(TShape{2, 3, 4}, TShape{4, 5}, TShape{2, 3, 5}));
  EXPECT_THAT(Infer("dot", {{"transpose_a", "1"}}, {TShape(), {4, 5}}, {2, 5}),
              ElementsAre(TShape{4, 2}, TShape{4, 5}, TShape{2, 5}));
  EXPECT_THAT(Infer("batch_dot", {}, {{2, 3, 4}, TShape()}, TShape::Parse("(None,None,5)")),
              ElementsAre(TShape{2, 3, 4}, TShape{2, 4, 5}, TShape{2, 3, 5}));
  // A vector times a vector or a matrix of one column.
  EXPECT_THAT(Infer("dot", {}, {{4}, TShape()}, {1}), ElementsAre(TShape{4}, TShape(), TShape{1}));
  EXPECT_THROW(Infer("dot", {}, {{2, 3, 4}, TShape()}, {2}), Error);
}

TEST(InferenceTest, DataFollowsFromWeightAndOutput) {
  EXPECT_THAT(Infer("FullyConnected", {{"num_hidden", "6"}, {"flatten", "0"}},
                    {TShape(), {6, 5}, TShape()}, {2, 3, 6}),
              ElementsAre(TShape{2, 3, 5}, TShape{6, 5}, TShape{6}, TShape{2, 3, 6}));
  EXPECT_THAT(Infer("FullyConnected", {{"num_hidden", "6"}},
                    {TShape::Parse("(None,3,None)"), {6, 12}, TShape()}, {2, 6}),
              ElementsAre(TShape{2, 3, 4}, TShape{6, 12}, TShape{6}, TShape{2, 6}));
  EXPECT_THROW(Infer("FullyConnected", {{"num_hidden", "6"}},
                     {TShape::Parse("(2,5,None)"), {6, 12}, TShape()}, TShape()),
               Error);
}

}  // namespace
}  // namespace tessera
