#include "tessera/base/environment.h"

#include <cstdlib>
#include <optional>

#include "absl/strings/numbers.h"
#include "tessera/base/error.h"
#include "tessera/base/quote.h"

namespace tessera {
namespace {

std::optional<std::string> ReadVariable(const char* name) {
  const char* value = std::getenv(name);
  if (value == nullptr || *value == '\0') return std::nullopt;
  return std::string(value);
}

}  // namespace

int64_t EnvironmentInt(const char* name, int64_t default_value, int64_t min, int64_t max) {
  const std::optional<std::string> text = ReadVariable(name);
  if (!text) return default_value;
  int64_t value = 0;
  if (!absl::SimpleAtoi(*text, &value) || value < min || value > max) {
    throw InvalidArgument("environment variable ", name, "=\"", Excerpt(*text),
                          "\": expected an integer in [", min, ", ", max, "]");
  }
  return value;
}

bool EnvironmentBool(const char* name, bool default_value) {
  const std::optional<std::string> text = ReadVariable(name);
  if (!text) return default_value;
  if (*text == "1" || *text == "true" || *text == "on") return true;
  if (*text == "0" || *text == "false" || *text == "off") return false;
  throw InvalidArgument("environment variable ", name, "=\"", Excerpt(*text),
                        "\": expected 1, 0, true, false, on or off");
}

std::string EnvironmentString(const char* name, const std::string& default_value) {
  return ReadVariable(name).value_or(default_value);
}

}  // namespace tessera
