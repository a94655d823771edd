#include "tessera/train/testing/numbered_snapshot.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <string>
#include <vector>

namespace tessera::train_testing {
namespace {

index_t UnitsOf(int64_t number) { return 1 + number % 5; }

}  // namespace

TrainingSnapshot Numbered(int64_t number) {
  const Symbol network = Symbol::Apply("FullyConnected", {Symbol::Variable("data")},
                                       {{"num_hidden", std::to_string(UnitsOf(number))}}, "fc");
  NDArray bias({UnitsOf(number)});
  bias = static_cast<float>(number);
  TrainingSnapshot snapshot;
  snapshot.model = Checkpoint{network, {{{"fc_bias", bias}}, {}}};
  snapshot.state.integers["number"] = {number};
  return snapshot;
}

void ExpectNumbered(const TrainingSnapshot& snapshot, int64_t number) {
  ASSERT_TRUE(snapshot.model.has_value());
  EXPECT_EQ(snapshot.model->symbol.ToJson(), Numbered(number).model->symbol.ToJson());
  EXPECT_EQ(snapshot.model->parameters.arg.at("fc_bias").ToVector(),
            std::vector<float>(static_cast<size_t>(UnitsOf(number)), static_cast<float>(number)));
  EXPECT_EQ(snapshot.state.Integer("number"), number);
}

}  // namespace tessera::train_testing
