#ifndef TESSERA_BASE_GUARDED_H_
#define TESSERA_BASE_GUARDED_H_

#include <mutex>
#include <utility>

#include "tessera/base/dialect.h"

namespace tessera {

/// A value that some threads read while others change it. A copy is another value.
template <typename T>
class Guarded {
 public:
  Guarded() = default;
  Guarded(const Guarded& other) : value_(other.Get()) {}
  Guarded& operator=(const Guarded& other) {
    if (this != &other) Set(other.Get());
    return *this;
  }

  T Get() const {
    const std::lock_guard<std::mutex> lock(mutex_);
    return value_;
  }
  void Set(T value) {
    With([&value](T& current) { std::swap(current, value); });  // the old one ends without the lock
  }
  /// Return visit(value), called under the lock. `visit` must not use the object itself.
  template <typename Visit>
  auto With(const Visit& visit) {
    const std::lock_guard<std::mutex> lock(mutex_);
    return visit(value_);
  }
  template <typename Visit>
  auto With(const Visit& visit) const {
    const std::lock_guard<std::mutex> lock(mutex_);
    return visit(value_);
  }

 private:
  mutable std::mutex mutex_;  // guards value_
  T value_{};
};

}  // namespace tessera

#endif  // TESSERA_BASE_GUARDED_H_
