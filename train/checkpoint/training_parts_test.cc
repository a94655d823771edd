#include "tessera/train/training_parts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include "tessera/base/error.h"
#include "tessera/base/testing/errors.h"
#include "tessera/ndarray/testing/array_values.h"

namespace tessera {
namespace {

using base_testing::ErrorOf;
using ndarray_testing::Vector;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

/// The values of a loop.
struct Loop {
  int64_t epoch = 1;
  double sum = 0;
  std::vector<NDArray> states;

  TrainingParts Parts() {
    TrainingParts parts;
    parts.Add("epoch", &epoch);
    parts.Add("sum", &sum);
    parts.Add("states", &states);
    return parts;
  }
};

TEST(TrainingPartsTest, ValuesOfALoopAreThoseThatWereSaved) {
  Loop loop{.epoch = int64_t{1} << 60, .sum = 0.1, .states = {Vector({1, 2}), Vector({3})}};
  const TrainingState state = loop.Parts().SaveState();
  loop.states[0] += 1.0f;
  Loop other{.epoch = 5, .sum = 7, .states = {Vector({9})}};
  other.Parts().LoadState(state);
  EXPECT_EQ(other.epoch, int64_t{1} << 60);
  EXPECT_EQ(other.sum, 0.1);
  ASSERT_EQ(other.states.size(), 2u);
  EXPECT_THAT(other.states[0].ToVector(), ElementsAre(1, 2));
  EXPECT_THAT(other.states[1].ToVector(), ElementsAre(3));
  // The state's own arrays do not change with the loop's.
  other.states[1] += 1.0f;
  Loop third;
  third.Parts().LoadState(state);
  EXPECT_THAT(third.states[1].ToVector(), ElementsAre(3));
}

TEST(TrainingPartsTest, NoArraysAreAState) {
  const TrainingState state = Loop().Parts().SaveState();
  Loop other{.states = {Vector({9})}};
  other.Parts().LoadState(state);
  EXPECT_TRUE(other.states.empty());
}

TEST(TrainingPartsTest, AStateOfAnotherPartIsRefused) {
  Loop loop;
  TrainingState state = loop.Parts().SaveState();
  state.integers.erase("epoch/value");
  const Error error = ErrorOf([&] { loop.Parts().LoadState(state); });
  EXPECT_EQ(error.code(), Error::kDataLoss);
  EXPECT_THAT(error.what(), HasSubstr("expected a number"));
  state = loop.Parts().SaveState();
  state.integers["states/count"] = {1};
  EXPECT_THAT(ErrorOf([&] { loop.Parts().LoadState(state); }).what(), HasSubstr("array_0"));
}

TEST(TrainingPartsTest, NamesDiffer) {
  int64_t number = 0;
  TrainingParts parts;
  parts.Add("epoch", &number);
  for (const char* const name : {"epoch", "", "a/b"}) {
    const Error error = ErrorOf([&] { parts.Add(name, &number); });
    EXPECT_EQ(error.code(), Error::kInvalidArgument);
    EXPECT_THAT(error.what(), AllOf(HasSubstr(name), HasSubstr("without '/'")));
  }
}

}  // namespace
}  // namespace tessera
