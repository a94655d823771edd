#include "tessera/tensor/device/instruction_set.h"

#include <cstdlib>

#include "gtest/gtest.h"
#include "tessera/base/error.h"

namespace tessera {
namespace {

using tensor_internal::InstructionSet;
using tensor_internal::UsedInstructionSet;

// The variable is read once, so each value needs a process of its own.
int RunWith(const char* value) {
  setenv("TESSERA_INSTRUCTION_SET", value, 1);
  try {
    return static_cast<int>(UsedInstructionSet());
  } catch (const Error& error) {
    return std::string_view(error.what()).find("TESSERA_INSTRUCTION_SET=sse9") !=
                   std::string_view::npos
               ? 9
               : 8;
  }
}

class InstructionSetDeathTest : public testing::Test {
 protected:
  // A child that starts anew has looked nothing up yet.
  InstructionSetDeathTest() { GTEST_FLAG_SET(death_test_style, "threadsafe"); }
};

TEST_F(InstructionSetDeathTest, TheVariableLowersIt) {
  EXPECT_EXIT(std::exit(RunWith("baseline")), testing::ExitedWithCode(0), "");
}

TEST_F(InstructionSetDeathTest, TheVariableDoesNotRaiseIt) {
  EXPECT_EXIT(std::exit(RunWith("avx512") <= 2 ? 0 : 1), testing::ExitedWithCode(0), "");
}

TEST_F(InstructionSetDeathTest, AnotherValueIsRefused) {
  EXPECT_EXIT(std::exit(RunWith("sse9")), testing::ExitedWithCode(9), "");
}

TEST(InstructionSetTest, EachHasItsName) {
  EXPECT_EQ(Name(InstructionSet::kBaseline), "baseline");
  EXPECT_EQ(Name(InstructionSet::kAvx2), "avx2");
  EXPECT_EQ(Name(InstructionSet::kAvx512), "avx512");
}

}  // namespace
}  // namespace tessera
