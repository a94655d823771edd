#include "tessera/base/environment.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

#include "tessera/base/error.h"

namespace tessera {
namespace {

constexpr char kName[] = "TESSERA_ENVIRONMENT_TEST";

class EnvironmentTest : public testing::Test {
 protected:
  ~EnvironmentTest() override { unsetenv(kName); }
  static void Set(const char* value) { setenv(kName, value, 1); }
};

TEST_F(EnvironmentTest, AbsentOrEmptyGivesTheDefault) {
  EXPECT_EQ(EnvironmentInt(kName, 7, 0, 10), 7);
  EXPECT_EQ(EnvironmentBool(kName, true), true);
  EXPECT_EQ(EnvironmentString(kName, "x"), "x");
  Set("");
  EXPECT_EQ(EnvironmentInt(kName, 7, 0, 10), 7);
}

TEST_F(EnvironmentTest, ReadsValues) {
  Set("10");
  EXPECT_EQ(EnvironmentInt(kName, 7, 0, 10), 10);
  Set("off");
  EXPECT_EQ(EnvironmentBool(kName, true), false);
  Set("on");
  EXPECT_EQ(EnvironmentBool(kName, false), true);
  EXPECT_EQ(EnvironmentString(kName, "x"), "on");
}

TEST_F(EnvironmentTest, AnErrorNamesVariableValueAndRange) {
  for (const char* value : {"11", "-1", "ten", "1.5", "99999999999999999999"}) {
    Set(value);
    try {
      EnvironmentInt(kName, 7, 0, 10);
      ADD_FAILURE() << value;
    } catch (const Error& error) {
      const std::string what = error.what();
      EXPECT_NE(what.find(kName), std::string::npos);
      EXPECT_NE(what.find(value), std::string::npos);
      EXPECT_NE(what.find("[0, 10]"), std::string::npos);
    }
  }
  Set("maybe");
  EXPECT_THROW(EnvironmentBool(kName, true), Error);
}

TEST_F(EnvironmentTest, AnErrorQuotesALongValueInPart) {
  Set(std::string(100000, '9').c_str());
  try {
    EnvironmentInt(kName, 7, 0, 10);
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_LT(std::string(error.what()).size(), 400u);
  }
}

}  // namespace
}  // namespace tessera
