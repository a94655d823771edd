#ifndef DMLC_OPTIONAL_H_
#define DMLC_OPTIONAL_H_

#include <optional>

#include "tessera/base/dialect.h"

namespace dmlc {

/// A value that may be absent. As a parameter, it is written as "None" then.
template <typename T>
using optional = std::optional<T>;

/// The absent value.
using nullopt_t = std::nullopt_t;
using std::nullopt;

}  // namespace dmlc

#endif  // DMLC_OPTIONAL_H_
