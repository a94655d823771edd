#include "tessera/ndarray/functions/parameter_text.h"

#include <string>
#include <utility>

#include "tessera/base/error.h"

namespace tessera::ndarray_internal {
namespace {

void PutText(ParameterMap* map, const char* name, const char* default_text, std::string text) {
  if (default_text != nullptr && text == default_text) return;
  map->insert_or_assign(name, std::move(text));
}

template <typename T>
void PutPrinted(ParameterMap* map, const char* name, const char* default_text, const T& value) {
  PutText(map, name, default_text, ops_internal::ParameterText<T>::Print(value));
}

}  // namespace

void Put(ParameterMap* map, const char* name, const char* default_text, std::string_view value) {
  PutText(map, name, default_text, std::string(value));
}
void Put(ParameterMap* map, const char* name, const char* default_text, bool value) {
  PutPrinted(map, name, default_text, value);
}
void Put(ParameterMap* map, const char* name, const char* default_text, int64_t value) {
  PutPrinted(map, name, default_text, value);
}
void Put(ParameterMap* map, const char* name, const char* default_text, double value) {
  PutPrinted(map, name, default_text, value);
}
void Put(ParameterMap* map, const char* name, const char* default_text, DType value) {
  PutText(map, name, default_text, std::string(DTypeName(value)));
}
void Put(ParameterMap* map, const char* name, const char* default_text, const TShape& value) {
  PutPrinted(map, name, default_text, value);
}
void Put(ParameterMap* map, const char* name, const char* default_text, const ops::Ints& value) {
  if (value.is_none()) return PutText(map, name, default_text, "None");
  PutPrinted(map, name, default_text, value.values());
}
void Put(ParameterMap* map, const char* name, const char* default_text,
         const std::vector<std::optional<int64_t>>& value) {
  PutPrinted(map, name, default_text, value);
}
void Put(ParameterMap* map, const char* name, const char* default_text,
         const std::vector<float>& value) {
  PutPrinted(map, name, default_text, value);
}

std::string_view ChoiceText(std::span<const std::string_view> texts, int choice) {
  if (choice < 0 || static_cast<size_t>(choice) >= texts.size()) {
    throw InvalidArgument("choice ", choice, " of a parameter, expected one of ", texts.size());
  }
  return texts[static_cast<size_t>(choice)];
}

}  // namespace tessera::ndarray_internal
