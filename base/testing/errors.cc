#include "tessera/base/testing/errors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tessera::base_testing {

Error ErrorOf(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    return error;
  }
  ADD_FAILURE() << "no error";
  return Error(absl::StatusCode{}, "");
}

std::string MessageOf(const std::function<void()>& call) { return ErrorOf(call).what(); }

void ExpectError(absl::StatusCode code, const std::string& words,
                 const std::function<void()>& call) {
  const Error error = ErrorOf(call);
  EXPECT_EQ(static_cast<int>(error.code()), static_cast<int>(code)) << error.what();
  EXPECT_THAT(error.what(), testing::HasSubstr(words));
}

}  // namespace tessera::base_testing
