#ifndef MSHADOW_UTILS_H_
#define MSHADOW_UTILS_H_

#include <cstdarg>
#include <cstdio>
#include <string>

#include "tessera/base/error.h"

/// The checks of 2014, with messages in printf's manner. A failed check throws
/// Error(kInvalidArgument), where mshadow ended the process.
namespace mshadow::utils {

namespace internal {

/// Returns vprintf's output, cut off at 4 KiB.
inline std::string Format(const char* format, va_list arguments) {
  char message[4096];
  return vsnprintf(message, sizeof(message), format, arguments) < 0 ? format : message;
}

}  // namespace internal

/// Throws Error(kInvalidArgument) with the message.
[[noreturn]] __attribute__((format(printf, 1, 2))) inline void Error(const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  const std::string message = internal::Format(format, arguments);
  va_end(arguments);
  throw tessera::InvalidArgument(message);
}

/// Throws as Error does unless the condition holds.
__attribute__((format(printf, 2, 3))) inline void Check(bool condition, const char* format, ...) {
  if (condition) return;
  va_list arguments;
  va_start(arguments, format);
  const std::string message = internal::Format(format, arguments);
  va_end(arguments);
  throw tessera::InvalidArgument(message);
}

/// Assert throws as Error does unless the condition holds, in every build.
__attribute__((format(printf, 2, 3))) inline void Assert(bool condition, const char* format, ...) {
  if (condition) return;
  va_list arguments;
  va_start(arguments, format);
  const std::string message = internal::Format(format, arguments);
  va_end(arguments);
  throw tessera::InvalidArgument(message);
}
inline void Assert(bool condition) { Assert(condition, "assertion failed"); }

/// Opens a file as fopen does. Throws Error(kInvalidArgument) that names it if that fails.
inline std::FILE* FopenCheck(const char* name, const char* mode) {
  std::FILE* const file = std::fopen(name, mode);
  Check(file != nullptr, "cannot open file \"%s\"", name);
  return file;
}

}  // namespace mshadow::utils

#endif  // MSHADOW_UTILS_H_
