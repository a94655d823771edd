#include "tessera/train/name_pattern.h"

#include <gtest/gtest.h>

namespace tessera::train_internal {
namespace {

TEST(NamePatternTest, StarsAndQuestionMarksStandForCharacters) {
  EXPECT_TRUE(FitsPattern("fc1_weight", "fc1_weight"));
  EXPECT_TRUE(FitsPattern("fc1_weight", "*_weight"));
  EXPECT_TRUE(FitsPattern("fc1_weight", "fc?_*"));
  EXPECT_TRUE(FitsPattern("fc1_weight", "*"));
  EXPECT_TRUE(FitsPattern("", "*"));
  EXPECT_TRUE(FitsPattern("", ""));
  EXPECT_TRUE(FitsPattern("a_weight_weight", "*_weight"));  // the first ending is not the last
  EXPECT_TRUE(FitsPattern("abcbcd", "a*bc*d"));
  EXPECT_TRUE(FitsPattern("ab", "a*b*"));
  EXPECT_FALSE(FitsPattern("fc1_weight", "fc1"));
  EXPECT_FALSE(FitsPattern("fc1", "fc1_weight"));
  EXPECT_FALSE(FitsPattern("fc1_bias", "*_weight"));
  EXPECT_FALSE(FitsPattern("fc_weight", "fc?_weight"));
  EXPECT_FALSE(FitsPattern("", "?"));
  EXPECT_FALSE(FitsPattern("abcd", "a*bc"));
  EXPECT_FALSE(FitsPattern("a", ""));
}

}  // namespace
}  // namespace tessera::train_internal
