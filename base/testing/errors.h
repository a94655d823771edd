#ifndef TESSERA_BASE_TESTING_ERRORS_H_
#define TESSERA_BASE_TESTING_ERRORS_H_

#include <functional>
#include <string>

#include "tessera/base/error.h"

namespace tessera::base_testing {

/// Returns the Error that a call throws. The test fails if it throws none.
Error ErrorOf(const std::function<void()>& call);
/// Returns its message.
std::string MessageOf(const std::function<void()>& call);

/// Expects a call to throw an Error of this code whose message contains the words.
void ExpectError(absl::StatusCode code, const std::string& words,
                 const std::function<void()>& call);

}  // namespace tessera::base_testing

#endif  // TESSERA_BASE_TESTING_ERRORS_H_
