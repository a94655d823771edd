#ifndef DMLC_STRTONUM_H_
#define DMLC_STRTONUM_H_

#include <charconv>
#include <cstddef>
#include <stdexcept>
#include <string>
#include <system_error>

#include "tessera/base/dialect.h"

namespace dmlc {
namespace internal {

/// Reads a number as std::stof does, whatever the locale is.
template <typename T>
T ToNumber(const std::string& text, size_t* num_read) {
  const char* begin = text.data();
  const char* const end = begin + text.size();
  while (begin != end && (*begin == ' ' || (*begin >= '\t' && *begin <= '\r'))) ++begin;
  if (begin != end && *begin == '+') ++begin;
  T value = 0;
  const auto [stop, error] = std::from_chars(begin, end, value);
  if (error == std::errc::result_out_of_range) throw std::out_of_range("dmlc: " + text);
  if (error != std::errc()) throw std::invalid_argument("dmlc: " + text);
  if (num_read != nullptr) *num_read = static_cast<size_t>(stop - text.data());
  return value;
}

}  // namespace internal

/// Return the number at the beginning of a text, after spaces, and how many characters it takes.
/// Throw std::invalid_argument if there is none, and std::out_of_range if it does not fit.
inline float stof(const std::string& text, size_t* num_read = nullptr) {
  return internal::ToNumber<float>(text, num_read);
}
inline double stod(const std::string& text, size_t* num_read = nullptr) {
  return internal::ToNumber<double>(text, num_read);
}

}  // namespace dmlc

#endif  // DMLC_STRTONUM_H_
