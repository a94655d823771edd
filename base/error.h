#ifndef TESSERA_BASE_ERROR_H_
#define TESSERA_BASE_ERROR_H_

#include <cstdint>
#include <ostream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>

#include "absl/base/config.h"
#include "tessera/base/dialect.h"
#include "tessera/base/host_device.h"

// Declared here instead of including absl/status/status.h, which every file would pay for with a
// second of compilation. error.cc holds this, and the values below, against Abseil's.
namespace absl {
ABSL_NAMESPACE_BEGIN
enum class StatusCode : int;
ABSL_NAMESPACE_END
}  // namespace absl

namespace tessera {

/// The one exception that Tessera throws: what() names the operation, the argument, what was given
/// and what was expected; code() says which kind of failure it was. The error of an operator's call
/// also names the operator.
class Error : public std::runtime_error {
 public:
  /// Abseil's codes, as far as Tessera uses them. They equal absl::StatusCode::kInvalidArgument and
  /// so on, which a program can name once it includes "absl/status/status.h".
  static constexpr absl::StatusCode kInvalidArgument{3};     // the call can never work
  static constexpr absl::StatusCode kNotFound{5};            // no such thing
  static constexpr absl::StatusCode kResourceExhausted{8};   // memory or disk is used up
  static constexpr absl::StatusCode kFailedPrecondition{9};  // not in this state
  static constexpr absl::StatusCode kOutOfRange{11};         // an index past the end
  static constexpr absl::StatusCode kUnimplemented{12};      // no implementation in this build
  static constexpr absl::StatusCode kInternal{13};           // a defect of Tessera's own
  static constexpr absl::StatusCode kDataLoss{15};           // a damaged file

  Error(absl::StatusCode code, const std::string& message)
      : std::runtime_error(message), code_(code) {}
  /// Creates the error of a call of an operator. `op` must live as long as the process, as the
  /// names of registered operators do.
  Error(absl::StatusCode code, const std::string& message, std::string_view op)
      : std::runtime_error(message), code_(code), op_(op) {}

  /// Which kind of failure it was.
  absl::StatusCode code() const noexcept { return code_; }
  /// Returns the registered name of the operator that threw while it ran. Empty for errors that
  /// were found before the operator ran.
  std::string_view op() const noexcept { return op_; }

  /// Returns the error with another message.
  Error WithMessage(const std::string& message) const { return Error(code_, message, op_); }

 private:
  absl::StatusCode code_;
  std::string_view op_;
};

namespace base_internal {

/// Append a piece of an error's message. No locale changes the numbers; floating-point values have
/// six significant digits, as in a stream. `write` writes the piece to the stream.
void AppendInteger(std::string* message, int64_t piece);
void AppendInteger(std::string* message, uint64_t piece);
void AppendReal(std::string* message, double piece);
void AppendStreamed(std::string* message, const void* piece,
                    void (*write)(std::ostream& os, const void* piece));

inline namespace TESSERA_ISA_NAMESPACE {

template <typename T>
void Append(std::string* message, const T& piece) {
  if constexpr (std::is_convertible_v<const T&, std::string_view>) {
    message->append(std::string_view(piece));
  } else if constexpr (std::is_same_v<T, char>) {
    message->push_back(piece);
  } else if constexpr (std::is_floating_point_v<T>) {
    AppendReal(message, static_cast<double>(piece));
  } else if constexpr (std::is_integral_v<T>) {
    using Integer = std::conditional_t<std::is_signed_v<T>, int64_t, uint64_t>;
    AppendInteger(message, static_cast<Integer>(piece));
  } else {
    AppendStreamed(message, &piece, [](std::ostream& os, const void* streamed) {
      os << *static_cast<const T*>(streamed);
    });
  }
}

template <typename... Pieces>
Error MakeError(absl::StatusCode code, const Pieces&... pieces) {
  std::string message;
  (Append(&message, pieces), ...);
  return Error(code, message);
}

}  // namespace TESSERA_ISA_NAMESPACE

[[noreturn]] void DcheckFailed(const char* condition, const char* file, int line);

}  // namespace base_internal

inline namespace TESSERA_ISA_NAMESPACE {

/// These build an Error from any number of streamable pieces: `throw InvalidArgument("dot: ", a);`.
/// Neither C's nor C++'s locale changes the numbers among them.
template <typename... Pieces>
Error InvalidArgument(const Pieces&... pieces) {
  return base_internal::MakeError(Error::kInvalidArgument, pieces...);
}
template <typename... Pieces>
Error FailedPrecondition(const Pieces&... pieces) {
  return base_internal::MakeError(Error::kFailedPrecondition, pieces...);
}
template <typename... Pieces>
Error NotFound(const Pieces&... pieces) {
  return base_internal::MakeError(Error::kNotFound, pieces...);
}
template <typename... Pieces>
Error OutOfRange(const Pieces&... pieces) {
  return base_internal::MakeError(Error::kOutOfRange, pieces...);
}
template <typename... Pieces>
Error DataLoss(const Pieces&... pieces) {
  return base_internal::MakeError(Error::kDataLoss, pieces...);
}
template <typename... Pieces>
Error ResourceExhausted(const Pieces&... pieces) {
  return base_internal::MakeError(Error::kResourceExhausted, pieces...);
}
template <typename... Pieces>
Error Unimplemented(const Pieces&... pieces) {
  return base_internal::MakeError(Error::kUnimplemented, pieces...);
}
template <typename... Pieces>
Error Internal(const Pieces&... pieces) {
  return base_internal::MakeError(Error::kInternal, pieces...);
}

}  // namespace TESSERA_ISA_NAMESPACE
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
