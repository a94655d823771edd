#include "tessera/base/error.h"

#include <cstdio>
#include <cstdlib>

#include "absl/status/status.h"

namespace tessera {

static_assert(Error::kInvalidArgument == absl::StatusCode::kInvalidArgument);
static_assert(Error::kNotFound == absl::StatusCode::kNotFound);
static_assert(Error::kResourceExhausted == absl::StatusCode::kResourceExhausted);
static_assert(Error::kFailedPrecondition == absl::StatusCode::kFailedPrecondition);
static_assert(Error::kOutOfRange == absl::StatusCode::kOutOfRange);
static_assert(Error::kUnimplemented == absl::StatusCode::kUnimplemented);
static_assert(Error::kInternal == absl::StatusCode::kInternal);
static_assert(Error::kDataLoss == absl::StatusCode::kDataLoss);

namespace base_internal {

void DcheckFailed(const char* condition, const char* file, int line) {
  std::fprintf(stderr, "%s:%d: broken invariant of Tessera: %s\n", file, line, condition);
  std::abort();
}

}  // namespace base_internal
}  // namespace tessera
