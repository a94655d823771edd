#ifndef TESSERA_NDARRAY_FUNCTIONS_PARAMETER_TEXT_H_
#define TESSERA_NDARRAY_FUNCTIONS_PARAMETER_TEXT_H_

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "tessera/base/dtype.h"
#include "tessera/base/tshape.h"
#include "tessera/ndarray/functions/ints.h"
#include "tessera/ops/parameter.h"

namespace tessera::ndarray_internal {

/// Add the value as text to the map, unless the text is `default_text`, which is null for a
/// parameter without a default. Numbers keep their value exactly.
void Put(ParameterMap* map, const char* name, const char* default_text, std::string_view value);
void Put(ParameterMap* map, const char* name, const char* default_text, bool value);
void Put(ParameterMap* map, const char* name, const char* default_text, int64_t value);
void Put(ParameterMap* map, const char* name, const char* default_text, double value);
void Put(ParameterMap* map, const char* name, const char* default_text, DType value);
void Put(ParameterMap* map, const char* name, const char* default_text, const TShape& value);
void Put(ParameterMap* map, const char* name, const char* default_text, const ops::Ints& value);
void Put(ParameterMap* map, const char* name, const char* default_text,
         const std::vector<std::optional<int64_t>>& value);
void Put(ParameterMap* map, const char* name, const char* default_text,
         const std::vector<float>& value);
template <typename T>
void Put(ParameterMap* map, const char* name, const char* default_text,
         const std::optional<T>& value) {
  if (value.has_value()) return Put(map, name, default_text, *value);
  Put(map, name, default_text, std::string_view("None"));
}

/// Returns texts[choice]. Throws Error(kInvalidArgument) for a number that is no choice.
std::string_view ChoiceText(std::span<const std::string_view> texts, int choice);
template <typename Enumeration>
std::string_view ChoiceText(std::span<const std::string_view> texts, Enumeration choice) {
  return ChoiceText(texts, static_cast<int>(choice));
}
template <typename Enumeration>
std::string_view ChoiceText(std::span<const std::string_view> texts,
                            const std::optional<Enumeration>& choice) {
  return choice.has_value() ? ChoiceText(texts, *choice) : "None";
}

}  // namespace tessera::ndarray_internal

#endif  // TESSERA_NDARRAY_FUNCTIONS_PARAMETER_TEXT_H_
