// Calls of operators with 20,000 inputs and outputs. A search among them for each of them would
// take longer than the test may.
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tessera/ndarray/autograd.h"
#include "tessera/ndarray/imperative.h"
#include "tessera/ndarray/testing/array_values.h"

namespace tessera {
namespace {

using ndarray_testing::Vector;
using ::testing::Each;

constexpr int kCount = 20000;

NDArray Join(const std::vector<NDArray>& parts) {
  return Invoke("Concat", parts, {{"num_args", std::to_string(parts.size())}, {"dim", "0"}})[0];
}

TEST(ManyArraysTest, OneCallMakesThemAndIsDifferentiatedTwice) {
  NDArray x = Vector(std::vector<float>(kCount, 3));
  x.AttachGrad();
  NDArray first;
  {
    const autograd::Record record;
    const std::vector<NDArray> parts =
        Invoke("SliceChannel", {Invoke("square", {x})[0]},
               {{"num_outputs", std::to_string(kCount)}, {"axis", "0"}});
    ASSERT_EQ(parts.size(), static_cast<size_t>(kCount));
    first = autograd::Grad({Join(parts)}, {x}, {}, {.create_graph = true})[0];
  }
  EXPECT_THAT(first.ToVector(), Each(6));
  autograd::Backward({first});
  EXPECT_THAT(x.grad().ToVector(), Each(2));
}

TEST(ManyArraysTest, OneCallChangesThemInPlace) {
  std::vector<NDArray> weights, inputs;
  std::string rates = "(", decays = "(";
  for (int i = 0; i < kCount; ++i) {
    weights.push_back(Vector({10}));
    inputs.insert(inputs.end(), {weights.back(), Vector({2}), Vector({4})});
    rates += "0.5,";
    decays += "0,";
  }
  Invoke("multi_sgd_mom_update", inputs, weights,
         {{"num_weights", std::to_string(kCount)},
          {"lrs", rates + ")"},
          {"wds", decays + ")"},
          {"momentum", "0.5"}});
  // momentum: 0.5 * 4 - 0.5 * 2
  EXPECT_THAT(Join(weights).ToVector(), Each(11));
  EXPECT_EQ(inputs.back().ToVector()[0], 1);
}

}  // namespace
}  // namespace tessera
