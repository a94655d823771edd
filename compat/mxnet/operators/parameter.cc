#include "dmlc/parameter.h"

#include <algorithm>

#include "mxnet/tuple.h"
#include "tessera/base/quote.h"

namespace dmlc::parameter {
namespace {

using tessera::Excerpt;

bool IsHidden(std::string_view name) {
  return name.size() >= 4 && name.starts_with("__") && name.ends_with("__");
}

/// Returns "{max, sum}".
std::string ChoiceNames(const Field& field) {
  std::string names = "{";
  for (const auto& [name, value] : field.choices) {
    if (names.size() > 1) names += ", ";
    names += name;
  }
  return names + "}";
}

}  // namespace

namespace internal {

int ParseChoice(const Field& field, std::string_view text) {
  for (const auto& [name, value] : field.choices) {
    if (name == text) return value;
  }
  tessera::ops_internal::ThrowNotAChoice(text, ChoiceNames(field));
}

std::string PrintChoice(const Field& field, int value) {
  for (const auto& [name, choice] : field.choices) {
    if (choice == value) return name;
  }
  return std::to_string(value);
}

}  // namespace internal

Field& Fields::Add(std::string name) {
  fields_.push_back(std::make_unique<Field>());
  fields_.back()->name = std::move(name);
  return *fields_.back();
}

Field& Fields::Get(std::string_view name) {
  for (const auto& field : fields_) {
    if (field->name == name) return *field;
  }
  throw tessera::Internal(owner_, ": an alias names the field ", name,
                          ", which is not declared before it");
}

void Fields::Finish(std::shared_ptr<void> defaults) {
  defaults_ = std::move(defaults);
  for (const auto& field : fields_) {
    if (field->set_default != nullptr) field->set_default(defaults_.get());
  }
}

void Fields::ParseField(const Field& field, void* head, std::string_view text) const {
  std::string problem;
  try {
    field.parse(head, text);
    for (const auto& check : field.checks) {
      const std::string expected = check(head);
      if (expected.empty()) continue;
      problem = "\"" + Excerpt(text) + "\" is out of range; expected " + expected;
      break;
    }
  } catch (const tessera::Error& error) {
    problem = error.what();
  }
  if (!problem.empty()) {
    throw ParamError(owner_ + ": parameter " + field.name + ": " + problem);
  }
}

std::map<std::string, std::string> Fields::Parse(void* head,
                                                 const std::map<std::string, std::string>& values,
                                                 ParamInitOption option, bool sets_defaults) const {
  std::map<std::string, std::string> unknown = values;
  for (const auto& field : fields_) {
    auto given = values.find(field->name);
    if (given == values.end() && !field->alias.empty()) given = values.find(field->alias);
    if (given != values.end()) {
      ParseField(*field, head, given->second);
      unknown.erase(field->name);
      unknown.erase(field->alias);
    } else if (sets_defaults && field->set_default != nullptr) {
      field->set_default(head);
    } else if (sets_defaults) {
      throw ParamError(owner_ + ": required parameter \"" + field->name + "\" (" +
                       (field->choices.empty() ? field->type : ChoiceNames(*field)) +
                       ") is missing");
    }
  }
  for (const auto& [name, text] : unknown) {
    if (option == kAllowUnknown || (option == kAllowHidden && IsHidden(name))) continue;
    std::vector<std::string> names;
    for (const auto& field : fields_) names.push_back(field->name);
    const std::string nearest = tessera::NearestName(name, names);
    throw ParamError(owner_ + ": unknown parameter \"" + Excerpt(name) + "\"; " +
                     (nearest.empty() ? "expected one of " + tessera::ListNames(names)
                                      : "did you mean \"" + Excerpt(nearest) + "\"?"));
  }
  return unknown;
}

std::map<std::string, std::string> Fields::Print(const void* head) const {
  std::map<std::string, std::string> texts;
  for (const auto& field : fields_) texts[field->name] = field->print(head);
  return texts;
}

std::vector<ParamFieldInfo> Fields::Describe() const {
  std::vector<ParamFieldInfo> infos;
  for (const auto& field : fields_) {
    const std::string type = field->choices.empty() ? field->type : ChoiceNames(*field);
    infos.push_back(
        {.name = field->name,
         .type = type,
         .type_info_str = field->set_default == nullptr
                              ? type + ", required"
                              : type + ", optional, default=" + field->print(defaults_.get()),
         .description = field->description});
  }
  return infos;
}

std::vector<std::string> TupleElements(std::string_view text) {
  constexpr std::string_view kSpaces = " \t\n";
  const auto strip = [&](std::string_view piece) {
    const size_t begin = std::min(piece.find_first_not_of(kSpaces), piece.size());
    return piece.substr(begin, piece.find_last_not_of(kSpaces) + 1 - begin);
  };
  std::string_view inner = strip(text);
  const char open = inner.empty() ? ' ' : inner.front();
  if (open == '(' || open == '[') {
    if (inner.back() != (open == '(' ? ')' : ']')) {
      throw tessera::InvalidArgument("\"", Excerpt(text),
                                     "\" has unbalanced brackets; expected e.g. (2,3)");
    }
    inner = strip(inner.substr(1, inner.size() - 2));
    if (inner.empty()) return {};
  }
  if (inner.ends_with(',')) inner.remove_suffix(1);
  std::vector<std::string> elements;
  for (size_t begin = 0; begin <= inner.size();) {
    const size_t end = std::min(inner.find(',', begin), inner.size());
    elements.emplace_back(strip(inner.substr(begin, end - begin)));
    begin = end + 1;
  }
  return elements;
}

}  // namespace dmlc::parameter
