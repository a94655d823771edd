#ifndef MSHADOW_LOGGING_H_
#define MSHADOW_LOGGING_H_

// CHECK and LOG, which mshadow took from dmlc-core or defined itself: `CHECK_EQ(a, b) << "why";`. A
// failed check throws tessera::Error, which is a dmlc::Error. A program that has these macros from
// elsewhere keeps them. A program that first includes dmlc-core's logging.h also has dmlc's own
// Error.

#include <concepts>
#include <cstddef>
#include <functional>
#include <iostream>
#include <locale>
#include <optional>
#include <sstream>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>

#include "tessera/base/error.h"

// A program with dmlc-core has its dmlc::Error, and its macros below.
#ifndef DMLC_LOGGING_H_
/// dmlc-core's include guard: its header would define these names again.
#define DMLC_LOGGING_H_
namespace dmlc {

/// The exception type of failed checks for programs, which also throw it with a text or derive
/// errors from it. It is the base of tessera::Error, which cannot be constructed from a text only.
using Error = std::runtime_error;

/// Does nothing.
inline void InitLogging(const char* /*program*/) {}

}  // namespace dmlc
#endif

namespace mshadow::compat_internal {

/// Collects a message. At the end of the statement, throws it or prints it to standard error.
class LogMessage {
 public:
  LogMessage(const char* file, int line, bool fatal) : fatal_(fatal) {
    message_.imbue(std::locale::classic());
    message_ << file << ":" << line << ": ";
  }
  LogMessage(const LogMessage&) = delete;
  LogMessage& operator=(const LogMessage&) = delete;
  ~LogMessage() noexcept(false) {
    if (fatal_) throw tessera::InvalidArgument(message_.str());
    std::cerr << message_.str() << std::endl;
  }
  std::ostream& stream() { return message_; }

 private:
  std::ostringstream message_;
  bool fatal_;
};

/// Converts a stream to void, so that a macro can be an expression of type void.
struct Voidify {
  void operator&(std::ostream&) const {}
};

/// Returns the pointer. Throws if it is null.
template <typename Pointer>
Pointer CheckNotNull(const char* file, int line, const char* name, Pointer&& pointer) {
  if (pointer == nullptr) {
    LogMessage(file, line, true).stream() << "Check notnull: " << name << " ";
  }
  return std::forward<Pointer>(pointer);
}

/// Prints one side of a comparison that failed, if it can be printed.
template <typename T>
void PrintSide(std::ostream& os, const T& side) {
  if constexpr (requires { os << side; }) {
    os << side;
  } else {
    os << "?";
  }
}

/// The type of NULL in a template: an integer. It is compared as a null pointer if it cannot be
/// compared otherwise.
template <typename T>
concept Null = std::same_as<T, decltype(NULL)>;

/// Returns whether the comparison holds. `local` compares with the operators that are visible at
/// the check.
template <typename Op, typename Local, typename A, typename B>
bool Compare(const Op& op, const Local& local, const A& a, const B& b) {
  constexpr bool kCompares = std::is_invocable_v<const Op&, const A&, const B&>;
  if constexpr (!kCompares && Null<B> && std::is_invocable_v<const Op&, const A&, std::nullptr_t>) {
    return static_cast<bool>(op(a, nullptr));
  } else if constexpr (!kCompares && Null<A> &&
                       std::is_invocable_v<const Op&, std::nullptr_t, const B&>) {
    return static_cast<bool>(op(nullptr, b));
  } else {
    return static_cast<bool>(local(a, b));
  }
}

/// Prints both sides. It is separate from the comparison, so that a comparison that holds costs no
/// more than the comparison.
template <typename A, typename B>
[[gnu::noinline, gnu::cold]] std::string BothSides(const A& a, const B& b) {
  std::ostringstream sides;
  sides.imbue(std::locale::classic());
  PrintSide(sides << "(", a);
  PrintSide(sides << " vs. ", b);
  sides << ") ";
  return sides.str();
}

/// Operands that the standard's functors compare. Signed and unsigned ones are compared without a
/// warning, because counts were unsigned in mshadow.
template <typename Op, typename A, typename B>
concept Scalars = std::is_scalar_v<std::decay_t<A>> && std::is_scalar_v<std::decay_t<B>> &&
    std::is_invocable_v<const Op&, const A&, const B&>;

/// Accepts a function that is not needed, so that its type generates no code.
struct Unneeded {
  template <typename Local>
  Unneeded(const Local& /*local*/) {}  // NOLINT: implicit
};

/// Returns a message if the comparison does not hold. Scalars are passed by value, because a
/// constant of a class may have no address.
template <typename Op, typename A, typename B>
requires Scalars<Op, A, B> std::optional<std::string> CheckOp(const Op& op, Unneeded /*local*/, A a,
                                                              B b) {
  if (op(a, b)) [[likely]]
    return std::nullopt;
  return BothSides(a, b);
}
template <typename Op, typename Local, typename A, typename B>
requires(!Scalars<Op, A, B>) std::optional<std::string> CheckOp(const Op& op, const Local& local,
                                                                const A& a, const B& b) {
  if (Compare(op, local, a, b)) [[likely]]
    return std::nullopt;
  return BothSides(a, b);
}

}  // namespace mshadow::compat_internal

#define MSHADOW_INTERNAL_LOG(fatal) \
  ::mshadow::compat_internal::LogMessage(__FILE__, __LINE__, fatal).stream()
#define MSHADOW_INTERNAL_LOG_INFO MSHADOW_INTERNAL_LOG(false)
#define MSHADOW_INTERNAL_LOG_WARNING MSHADOW_INTERNAL_LOG(false)
#define MSHADOW_INTERNAL_LOG_ERROR MSHADOW_INTERNAL_LOG(false)
#define MSHADOW_INTERNAL_LOG_FATAL MSHADOW_INTERNAL_LOG(true)

// A check is a statement that an else may follow; the loop's body throws. The line number makes the
// variable's name unique, because the message of a check may contain another check.
#define MSHADOW_INTERNAL_CHECK_OP(a, op, b, Functor) \
  MSHADOW_INTERNAL_NUMBERED_CHECK(__LINE__, a, op, b, Functor)
#define MSHADOW_INTERNAL_NUMBERED_CHECK(number, a, op, b, Functor) \
  MSHADOW_INTERNAL_NAMED_CHECK(number, a, op, b, Functor)
#define MSHADOW_INTERNAL_NAMED_CHECK(number, a, op, b, Functor)                                   \
  while (const auto mshadow_failure_##number = ::mshadow::compat_internal::CheckOp(               \
             ::std::Functor<>(),                                                                  \
             [](const auto& mshadow_a, const auto& mshadow_b) { return mshadow_a op mshadow_b; }, \
             a, b))                                                                               \
  MSHADOW_INTERNAL_LOG(true) << "Check failed: " #a " " #op " " #b " " << *mshadow_failure_##number

/// LOG(FATAL) throws tessera::Error with the streamed message at the end of the statement. INFO,
/// WARNING and ERROR print the message to standard error.
#ifndef LOG
#define LOG(severity) MSHADOW_INTERNAL_LOG_##severity
#endif
#ifndef LG
#define LG LOG(INFO)
#endif
#ifndef LOG_IF
#define LOG_IF(severity, condition) \
  !(condition) ? static_cast<void>(0) : ::mshadow::compat_internal::Voidify() & LOG(severity)
#endif
/// CHECK throws tessera::Error with its text and the streamed message if the condition is false.
#ifndef CHECK
#define CHECK(condition)                                                           \
  (condition) ? static_cast<void>(0)                                               \
              : ::mshadow::compat_internal::Voidify() & MSHADOW_INTERNAL_LOG(true) \
                                                            << "Check failed: " #condition " "
#endif
#ifndef CHECK_NOTNULL
#define CHECK_NOTNULL(pointer) \
  ::mshadow::compat_internal::CheckNotNull(__FILE__, __LINE__, #pointer, pointer)
#endif
#ifndef CHECK_EQ
#define CHECK_EQ(a, b) MSHADOW_INTERNAL_CHECK_OP(a, ==, b, equal_to)
#define CHECK_NE(a, b) MSHADOW_INTERNAL_CHECK_OP(a, !=, b, not_equal_to)
#define CHECK_LT(a, b) MSHADOW_INTERNAL_CHECK_OP(a, <, b, less)
#define CHECK_LE(a, b) MSHADOW_INTERNAL_CHECK_OP(a, <=, b, less_equal)
#define CHECK_GT(a, b) MSHADOW_INTERNAL_CHECK_OP(a, >, b, greater)
#define CHECK_GE(a, b) MSHADOW_INTERNAL_CHECK_OP(a, >=, b, greater_equal)
#endif

/// DCHECK and DLOG act only in debug builds. The condition must compile in all builds.
#if defined(NDEBUG)
#define MSHADOW_INTERNAL_DCHECKS false
#else
#define MSHADOW_INTERNAL_DCHECKS true
#endif
#ifndef DLOG
#define DLOG(severity) LOG_IF(severity, MSHADOW_INTERNAL_DCHECKS)
#endif
#ifndef DLOG_IF
#define DLOG_IF(severity, condition) LOG_IF(severity, MSHADOW_INTERNAL_DCHECKS && (condition))
#endif
#ifndef DCHECK
#define DCHECK(condition) CHECK(!MSHADOW_INTERNAL_DCHECKS || (condition))
#endif
#if !defined(DCHECK_EQ) && defined(NDEBUG)
#define DCHECK_EQ(a, b) \
  while (false) CHECK_EQ(a, b)
#define DCHECK_NE(a, b) \
  while (false) CHECK_NE(a, b)
#define DCHECK_LT(a, b) \
  while (false) CHECK_LT(a, b)
#define DCHECK_LE(a, b) \
  while (false) CHECK_LE(a, b)
#define DCHECK_GT(a, b) \
  while (false) CHECK_GT(a, b)
#define DCHECK_GE(a, b) \
  while (false) CHECK_GE(a, b)
#elif !defined(DCHECK_EQ)
#define DCHECK_EQ(a, b) CHECK_EQ(a, b)
#define DCHECK_NE(a, b) CHECK_NE(a, b)
#define DCHECK_LT(a, b) CHECK_LT(a, b)
#define DCHECK_LE(a, b) CHECK_LE(a, b)
#define DCHECK_GT(a, b) CHECK_GT(a, b)
#define DCHECK_GE(a, b) CHECK_GE(a, b)
#endif

#endif  // MSHADOW_LOGGING_H_
