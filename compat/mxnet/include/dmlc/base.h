#ifndef DMLC_BASE_H_
#define DMLC_BASE_H_

// The switches and attributes of dmlc-core that programs name.

#include <string>
#include <vector>

#include "tessera/base/dialect.h"

/// Switches of dmlc-core's build, which programs test.
#ifndef DMLC_USE_CXX11
#define DMLC_USE_CXX11 1
#endif
#ifndef DMLC_USE_CXX14
#define DMLC_USE_CXX14 1
#endif
#ifndef DMLC_USE_GLOG
#define DMLC_USE_GLOG 0
#endif
#ifndef DMLC_LOG_FATAL_THROW
#define DMLC_LOG_FATAL_THROW 1
#endif

/// Attributes of functions and variables.
#define DMLC_ATTRIBUTE_UNUSED [[maybe_unused]]
#define DMLC_ALWAYS_INLINE inline __attribute__((always_inline))
#define DMLC_THROW_EXCEPTION noexcept(false)
#define DMLC_NO_EXCEPTION noexcept(true)

namespace dmlc {

/// Return the address of the first element, or null if there is none.
template <typename T>
T* BeginPtr(std::vector<T>& elements) {  // NOLINT: dmlc's signature
  return elements.empty() ? nullptr : elements.data();
}
template <typename T>
const T* BeginPtr(const std::vector<T>& elements) {
  return elements.empty() ? nullptr : elements.data();
}
inline char* BeginPtr(std::string& text) {  // NOLINT: dmlc's signature
  return text.empty() ? nullptr : text.data();
}
inline const char* BeginPtr(const std::string& text) {
  return text.empty() ? nullptr : text.data();
}

}  // namespace dmlc

#endif  // DMLC_BASE_H_
