#ifndef MSHADOW_LOGGING_H_
#define MSHADOW_LOGGING_H_

// CHECK and LOG, which mshadow took from dmlc-core or brought itself: `CHECK_EQ(a, b) << "why";`.
// A failed check throws dmlc::Error. A program that has these macros from elsewhere keeps them; one
// that uses dmlc-core's logging.h includes it first, and then has dmlc's own Error.

#include <iostream>
#include <sstream>
#include <string>
#include <utility>

#include "tessera/base/error.h"

// A program that has dmlc-core has dmlc::Error from there, as it has the macros below.
#ifndef DMLC_LOGGING_H_
/// dmlc-core's own guard: its header would define dmlc::Error once more.
#define DMLC_LOGGING_H_
namespace dmlc {

/// What a failed check throws.
using Error = tessera::Error;

}  // namespace dmlc
#endif

namespace mshadow::compat_internal {

/// Collects a message; throws it, or prints it to standard error, at the end of the statement.
class LogMessage {
 public:
  LogMessage(const char* file, int line, bool fatal) : fatal_(fatal) {
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

/// Makes a statement of a stream, so that a macro can be an expression of type void.
struct Voidify {
  void operator&(std::ostream&) const {}
};

/// The pointer itself; throws where it is null.
template <typename Pointer>
Pointer CheckNotNull(const char* file, int line, const char* name, Pointer&& pointer) {
  if (pointer == nullptr) {
    LogMessage(file, line, true).stream() << "Check notnull: " << name << " ";
  }
  return std::forward<Pointer>(pointer);
}

}  // namespace mshadow::compat_internal

#define MSHADOW_INTERNAL_LOG(fatal) \
  ::mshadow::compat_internal::LogMessage(__FILE__, __LINE__, fatal).stream()
#define MSHADOW_INTERNAL_LOG_INFO MSHADOW_INTERNAL_LOG(false)
#define MSHADOW_INTERNAL_LOG_WARNING MSHADOW_INTERNAL_LOG(false)
#define MSHADOW_INTERNAL_LOG_ERROR MSHADOW_INTERNAL_LOG(false)
#define MSHADOW_INTERNAL_LOG_FATAL MSHADOW_INTERNAL_LOG(true)

#define MSHADOW_INTERNAL_CHECK_OP(a, op, b)            \
  ((a)op(b)) ? static_cast<void>(0)                    \
             : ::mshadow::compat_internal::Voidify() & \
                   MSHADOW_INTERNAL_LOG(true)          \
                       << "Check failed: " #a " " #op " " #b " (" << (a) << " vs. " << (b) << ") "

/// LOG(FATAL) throws dmlc::Error at the end of the statement, with what was streamed into it; INFO,
/// WARNING and ERROR print that to standard error.
#ifndef LOG
#define LOG(severity) MSHADOW_INTERNAL_LOG_##severity
#endif
#ifndef LOG_IF
#define LOG_IF(severity, condition) \
  !(condition) ? static_cast<void>(0) : ::mshadow::compat_internal::Voidify() & LOG(severity)
#endif
/// Throws dmlc::Error where it does not hold, with its text and what was streamed into it.
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
#define CHECK_EQ(a, b) MSHADOW_INTERNAL_CHECK_OP(a, ==, b)
#define CHECK_NE(a, b) MSHADOW_INTERNAL_CHECK_OP(a, !=, b)
#define CHECK_LT(a, b) MSHADOW_INTERNAL_CHECK_OP(a, <, b)
#define CHECK_LE(a, b) MSHADOW_INTERNAL_CHECK_OP(a, <=, b)
#define CHECK_GT(a, b) MSHADOW_INTERNAL_CHECK_OP(a, >, b)
#define CHECK_GE(a, b) MSHADOW_INTERNAL_CHECK_OP(a, >=, b)
#endif

/// The same in debug builds alone; the condition must compile in all.
#if defined(NDEBUG)
#define MSHADOW_INTERNAL_DCHECKS false
#else
#define MSHADOW_INTERNAL_DCHECKS true
#endif
#ifndef DLOG
#define DLOG(severity) LOG_IF(severity, MSHADOW_INTERNAL_DCHECKS)
#endif
#ifndef DCHECK
#define DCHECK(condition) CHECK(!MSHADOW_INTERNAL_DCHECKS || (condition))
#endif
#ifndef DCHECK_EQ
#define DCHECK_EQ(a, b) DCHECK((a) == (b))
#define DCHECK_NE(a, b) DCHECK((a) != (b))
#define DCHECK_LT(a, b) DCHECK((a) < (b))
#define DCHECK_LE(a, b) DCHECK((a) <= (b))
#define DCHECK_GT(a, b) DCHECK((a) > (b))
#define DCHECK_GE(a, b) DCHECK((a) >= (b))
#endif

#endif  // MSHADOW_LOGGING_H_
