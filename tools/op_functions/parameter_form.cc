#include "tessera/tools/op_functions/parameter_form.h"

#include <algorithm>
#include <map>

#include "tessera/base/dtype.h"
#include "tessera/base/error.h"
#include "tessera/tools/op_functions/cpp_text.h"

namespace tessera::op_functions {
namespace {

/// Types of C++ by the registry's types.
const std::map<std::string, std::string>& Types() {
  static const auto* const types = new std::map<std::string, std::string>{
      {"boolean", "bool"},
      {"float", "double"},
      {"floats", "std::vector<float>"},
      {"int", "int64_t"},
      {"ints", "Ints"},
      {"ints or None", "std::vector<std::optional<int64_t>>"},
      {"shape", "TShape"},
      {"string", "std::string"},
  };
  return *types;
}

/// Returns DType's enumerator of that name, or an empty string if there is none.
std::string DTypeEnumerator(const std::string& name) {
  for (int type = 0; type <= static_cast<int>(DType::kBFloat16); ++type) {
    if (DTypeName(static_cast<DType>(type)) != name) continue;
    return name == "bfloat16" ? "DType::kBFloat16" : "DType::k" + CamelCase(name);
  }
  return "";
}

/// Sets type and choices of a parameter that names one of several.
void SetChoices(const std::string& owner, ParameterForm* form) {
  std::vector<std::string> choices = ChoicesOf(form->info);
  form->may_be_none = std::erase(choices, "None") != 0;
  const bool all_types = std::all_of(choices.begin(), choices.end(), [](const std::string& choice) {
    return !DTypeEnumerator(choice).empty();
  });
  if (all_types) {
    form->type = "DType";
    return;
  }
  form->enumeration = form->type = owner + CamelCase(form->info.name);
  form->choices = choices;
  for (const std::string& choice : choices) form->enumerators.push_back("k" + CamelCase(choice));
}

/// Returns the registry's text of a tuple as elements in braces.
std::string Braced(const std::string& text) {
  std::string braced = "{";
  for (size_t i = 1; i + 1 < text.size(); ++i) {
    if (text[i] == ',' && i + 2 == text.size()) continue;  // that of "(1,)"
    braced += text[i];
    if (text[i] == ',' && text[i + 1] != ' ') braced += ' ';
  }
  return braced + "}";
}

std::string NumberOf(const std::string& text) {
  if (text == "inf" || text == "-inf" || text == "nan") {
    const std::string member = text == "nan" ? "quiet_NaN()" : "infinity()";
    return (text[0] == '-' ? "-std::numeric_limits<double>::" : "std::numeric_limits<double>::") +
           member;
  }
  return text.find_first_not_of("-0123456789") == text.npos ? text + ".0" : text;
}

std::string InitializerOf(const ParameterForm& form) {
  const std::string& text = form.info.default_value;
  if (form.may_be_none && text == "None") return " = std::nullopt";
  if (form.type == "DType") return " = " + DTypeEnumerator(text);
  if (!form.choices.empty()) {
    const auto found = std::find(form.choices.begin(), form.choices.end(), text);
    if (found == form.choices.end()) throw Internal(form.info.name, ": no choice is ", text);
    return " = " + form.enumeration +
           "::" + form.enumerators[static_cast<size_t>(found - form.choices.begin())];
  }
  const std::string& type = form.info.type;
  if (type == "boolean") return text == "True" ? " = true" : " = false";
  if (type == "int") return " = " + text;
  if (type == "float") return " = " + NumberOf(text);
  if (type == "string") return text.empty() ? "{}" : " = " + Quoted(text);
  return Braced(text);
}

}  // namespace

ParameterForm MakeParameterForm(const ParameterInfo& info, const Probe& probe,
                                const std::string& owner) {
  ParameterForm form;
  form.info = info;
  form.member = Identifier(info.name);
  form.may_be_none = probe.MayBeNone(info);
  if (info.type.starts_with("{")) {
    SetChoices(owner, &form);
  } else {
    const auto type = Types().find(info.type);
    if (type == Types().end()) {
      throw Internal("parameter ", info.name, " of ", owner, " has type ", info.type,
                     "; expected one that has a type of C++ here");
    }
    form.type = type->second;
  }
  form.comment = Sentence(info.description);
  if (const std::string range = probe.RangeOf(info); !range.empty()) form.comment += " " + range;
  // Ints has a value for None.
  if (form.may_be_none && form.type != "Ints") form.type = "std::optional<" + form.type + ">";
  if (info.required) {
    form.type = "Required<" + form.type + ">";
    form.comment += " Required.";
  } else {
    form.initializer = InitializerOf(form);
    form.comment +=
        " Default: " + (info.default_value.empty() ? "empty" : info.default_value) + ".";
  }
  return form;
}

}  // namespace tessera::op_functions
