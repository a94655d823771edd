#ifndef TESSERA_BASE_ERROR_H_
#define TESSERA_BASE_ERROR_H_

#include <sstream>
#include <stdexcept>
#include <string>

#include "absl/status/status.h"

static_assert(
    __cplusplus >= 202002L,
    "Tessera needs C++20: add --cxxopt=-std=c++20 (and --host_cxxopt=-std=c++20) to .bazelrc");

namespace tessera {

/// The one exception that Tessera throws: what() names the operation, the argument, what was given
/// and what was expected; code() says which kind of failure it was.
///
/// kInvalidArgument: the call can never work. kFailedPrecondition: wrong state. kNotFound,
/// kOutOfRange, kDataLoss (damaged file), kResourceExhausted (memory), kUnimplemented (no such
/// implementation in this build), kInternal (a defect of Tessera's own).
class Error : public std::runtime_error {
 public:
  Error(absl::StatusCode code, const std::string& message)
      : std::runtime_error(message), code_(code) {}

  absl::StatusCode code() const noexcept { return code_; }

 private:
  absl::StatusCode code_;
};

namespace base_internal {

template <typename... Pieces>
Error MakeError(absl::StatusCode code, const Pieces&... pieces) {
  std::ostringstream message;
  (message << ... << pieces);
  return Error(code, message.str());
}

[[noreturn]] void DcheckFailed(const char* condition, const char* file, int line);

}  // namespace base_internal

/// These build an Error from any number of streamable pieces: `throw InvalidArgument("dot: ", a);`.
template <typename... Pieces>
Error InvalidArgument(const Pieces&... pieces) {
  return base_internal::MakeError(absl::StatusCode::kInvalidArgument, pieces...);
}
template <typename... Pieces>
Error FailedPrecondition(const Pieces&... pieces) {
  return base_internal::MakeError(absl::StatusCode::kFailedPrecondition, pieces...);
}
template <typename... Pieces>
Error NotFound(const Pieces&... pieces) {
  return base_internal::MakeError(absl::StatusCode::kNotFound, pieces...);
}
template <typename... Pieces>
Error OutOfRange(const Pieces&... pieces) {
  return base_internal::MakeError(absl::StatusCode::kOutOfRange, pieces...);
}
template <typename... Pieces>
Error DataLoss(const Pieces&... pieces) {
  return base_internal::MakeError(absl::StatusCode::kDataLoss, pieces...);
}
template <typename... Pieces>
Error ResourceExhausted(const Pieces&... pieces) {
  return base_internal::MakeError(absl::StatusCode::kResourceExhausted, pieces...);
}
template <typename... Pieces>
Error Unimplemented(const Pieces&... pieces) {
  return base_internal::MakeError(absl::StatusCode::kUnimplemented, pieces...);
}
template <typename... Pieces>
Error Internal(const Pieces&... pieces) {
  return base_internal::MakeError(absl::StatusCode::kInternal, pieces...);
}

}  // namespace tessera

/// Checks an invariant of Tessera's own, never something that a user can cause. Active in debug and
/// sanitizer builds (TESSERA_ENABLE_DCHECK or no NDEBUG), where a violation prints and aborts.
#if defined(TESSERA_ENABLE_DCHECK) || !defined(NDEBUG)
#define TESSERA_DCHECK(condition)     \
  ((condition) ? static_cast<void>(0) \
               : ::tessera::base_internal::DcheckFailed(#condition, __FILE__, __LINE__))
#else
#define TESSERA_DCHECK(condition) static_cast<void>(sizeof(static_cast<bool>(condition)))
#endif

#endif  // TESSERA_BASE_ERROR_H_
