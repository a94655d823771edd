#ifndef TESSERA_BASE_ENVIRONMENT_H_
#define TESSERA_BASE_ENVIRONMENT_H_

#include <cstdint>
#include <string>

#include "tessera/base/dialect.h"

namespace tessera {

/// Reads settings from environment variables, all of which are called TESSERA_…. A variable that is
/// not set or is empty gives the default; one that does not parse or lies outside its range throws
/// Error(kInvalidArgument) that names the variable, its value and what was expected.
///
/// Safe from any thread as long as nobody calls setenv at the same time.
int64_t EnvironmentInt(const char* name, int64_t default_value, int64_t min, int64_t max);

/// Accepts 1, 0, true, false, on and off.
bool EnvironmentBool(const char* name, bool default_value);

/// Any text.
std::string EnvironmentString(const char* name, const std::string& default_value);

}  // namespace tessera

#endif  // TESSERA_BASE_ENVIRONMENT_H_
