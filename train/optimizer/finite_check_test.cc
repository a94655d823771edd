// The setting TESSERA_CHECK_FINITE, which this test's target turns on: steps of optimizers are
// checked like calls of operators, and an error says at which update it was met.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "tessera/base/error.h"
#include "tessera/ndarray/testing/array_values.h"
#include "tessera/train/module.h"

namespace tessera {
namespace {

using ndarray_testing::Vector;
using testing::AllOf;
using testing::HasSubstr;

template <typename Call>
std::string ErrorOf(const Call& call) {
  try {
    call();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Error::kOutOfRange) << error.what();
    return error.what();
  }
  return "";
}

TEST(FiniteCheckTest, AStepNamesOptimizerParameterAndUpdate) {
  Sgd sgd({{.learning_rate = 1}, 0.5});
  const NDArray weight = Vector({1, 2});
  EXPECT_EQ(ErrorOf([&] { sgd.Update(3, weight, Vector({1, 1})); }), "");
  const float infinity = std::numeric_limits<float>::infinity();
  EXPECT_THAT(
      ErrorOf([&] {
        sgd.Update(3, weight, Vector({0, infinity}));
      }),
      AllOf(HasSubstr("update 2: "), HasSubstr("SGD with momentum of parameter 3"),
            HasSubstr("output weight of shape (2,) has -inf at element 1"),
            HasSubstr("input gradient has inf at element 1"), HasSubstr("TESSERA_CHECK_FINITE")));
}

TEST(FiniteCheckTest, AStepThatOverflowsIsNamedThoughTheGradientIsFinite) {
  Sgd sgd({{.learning_rate = 3e38}});
  EXPECT_THAT(ErrorOf([&] { sgd.Update(0, Vector({0}), Vector({100})); }),
              AllOf(HasSubstr("update 1: SGD of parameter 0"), HasSubstr("has -inf at element 0")));
}

TEST(FiniteCheckTest, ATrainingSaysAtWhichUpdateAnOperatorMetNaN) {
  Symbol net = Symbol::Apply("FullyConnected", {Symbol::Variable("data")},
                             {{"num_hidden", "1"}, {"no_bias", "True"}}, "fc");
  net = Symbol::Apply("log", {net}, {}, "logarithm");
  net = Symbol::Apply("LinearRegressionOutput", {net}, {}, "softmax");
  Module module(net);
  module.Bind({{"data", {1, 2}}}, {{"softmax_label", {1, 1}}});
  module.InitParams(One());
  module.InitOptimizer(std::make_shared<Sgd>(SgdOptions{{.learning_rate = 0}}));
  const auto step = [&](float value) {
    DataBatch batch;
    batch.data = {NDArray::FromVector(std::vector<float>{value, value}, {1, 2})};
    batch.label = {NDArray::FromVector(std::vector<float>{0}, {1, 1})};
    module.Forward(batch, /*is_train=*/true);
    module.Backward();
    module.Update();
  };
  EXPECT_EQ(ErrorOf([&] { step(1); }), "");
  EXPECT_EQ(ErrorOf([&] { step(2); }), "");
  EXPECT_THAT(ErrorOf([&] { step(-1); }),
              AllOf(HasSubstr("update 3: "), HasSubstr("node \"logarithm\" (log of float32(1,1))"),
                    HasSubstr("has NaN at element 0")));
}

}  // namespace
}  // namespace tessera
