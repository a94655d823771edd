#include "tessera/base/error.h"

#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <locale>
#include <sstream>

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
namespace {

template <typename... Arguments>
void AppendNumber(std::string* message, Arguments... arguments) {
  char text[32];
  message->append(text, std::to_chars(text, text + sizeof(text), arguments...).ptr);
}

}  // namespace

void AppendInteger(std::string* message, int64_t piece) { AppendNumber(message, piece); }

void AppendInteger(std::string* message, uint64_t piece) { AppendNumber(message, piece); }

void AppendReal(std::string* message, double piece) {
  AppendNumber(message, piece, std::chars_format::general, 6);
}

void AppendStreamed(std::string* message, const void* piece,
                    void (*write)(std::ostream& os, const void* piece)) {
  std::ostringstream stream;
  stream.imbue(std::locale::classic());
  write(stream, piece);
  message->append(stream.str());
}

void DcheckFailed(const char* condition, const char* file, int line) {
  std::fprintf(stderr, "%s:%d: broken invariant of Tessera: %s\n", file, line, condition);
  std::abort();
}

}  // namespace base_internal
}  // namespace tessera
