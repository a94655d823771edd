#include "tessera/train/checkpoint/state_arrays.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "tessera/base/error.h"

namespace tessera::train_internal {
namespace {

using testing::AllOf;
using testing::HasSubstr;

TEST(StateArraysTest, ForeignArraysAreRefused) {
  for (const char* key : {"", "x", ":x", "integer:x", "number:x", "text:x", "other:x"}) {
    try {
      StateOf("out/state.params", {{key, NDArray({2})}});  // of float32
      ADD_FAILURE() << "no error for " << key;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Error::kDataLoss);
      EXPECT_THAT(error.what(), AllOf(HasSubstr("out/state.params"), HasSubstr(key)));
    }
  }
  EXPECT_THROW(StateOf("p", {{"integer:x", NDArray({2, 2}, Device::Cpu(), DType::kInt64)}}), Error);
  EXPECT_THROW(StateOf("p", {{"array:x", NDArray()}}), Error);
  EXPECT_TRUE(StateOf("p", {{"array:", NDArray({2})}}).arrays.contains(""));
}

}  // namespace
}  // namespace tessera::train_internal
