#include "tessera/tools/op_functions/cpp_text.h"
#include "tessera/tools/op_functions/writers.h"

namespace tessera::op_functions {
namespace {

void DeclareEnumeration(const OperatorForm& form, const ParameterForm& parameter,
                        std::ostream& out) {
  out << Comment("",
                 "The values of " + form.registered + "'s parameter " + parameter.info.name + ".")
      << List("enum class " + parameter.enumeration + " { ", parameter.enumerators, " };")
      << "\n\n";
}

void DeclareStruct(const OperatorForm& form, std::ostream& out) {
  for (const ParameterForm& parameter : form.parameters) {
    if (!parameter.enumeration.empty()) DeclareEnumeration(form, parameter, out);
  }
  out << Comment("", "The parameters of " + form.registered + ".") << "struct " << form.structure
      << " {\n";
  for (const ParameterForm& parameter : form.parameters) {
    out << Comment("  ", parameter.comment) << "  " << parameter.type << " " << parameter.member
        << parameter.initializer << ";\n";
  }
  out << "\n"
      << Comment("  ",
                 "Returns the parameters that differ from their defaults as text, for Invoke and "
                 "Symbol::Apply.")
      << "  ParameterMap ToMap() const;\n};\n\n";
}

void DefineToMap(const OperatorForm& form, std::ostream& out) {
  out << "ParameterMap " << form.structure << "::ToMap() const {\n";
  for (const ParameterForm& parameter : form.parameters) {
    if (parameter.enumeration.empty()) continue;
    std::vector<std::string> texts;
    for (const std::string& choice : parameter.choices) texts.push_back(Quoted(choice));
    out << List("  static constexpr std::string_view k" + CamelCase(parameter.info.name) + "[] = {",
                texts, "};")
        << "\n";
  }
  out << "  ParameterMap map;\n";
  for (const ParameterForm& parameter : form.parameters) {
    std::string value = parameter.member + (parameter.info.required ? ".value()" : "");
    if (!parameter.enumeration.empty()) {
      value = "ChoiceText(k" + CamelCase(parameter.info.name) + ", " + value + ")";
    }
    out << "  Put(&map, " << Quoted(parameter.info.name) << ", "
        << (parameter.info.required ? "nullptr" : Quoted(parameter.info.default_value)) << ", "
        << value << ");\n";
  }
  out << "  return map;\n}\n\n";
}

}  // namespace

void WriteInNamespaces(const std::vector<OperatorForm>& forms, std::ostream& out,
                       const std::function<void(const OperatorForm&)>& write) {
  std::string space;
  const auto enter = [&](const std::string& next) {
    if (next == space) return;
    if (!space.empty()) out << "}  // namespace " << space << "\n\n";
    if (!next.empty()) out << "namespace " << next << " {\n\n";
    space = next;
  };
  out << "namespace tessera::ops {\n\n";
  for (const OperatorForm& form : forms) {
    enter(form.space);
    write(form);
  }
  enter("");
  out << "}  // namespace tessera::ops\n";
}

void WriteParametersHeader(const std::vector<OperatorForm>& forms, std::ostream& out) {
  out << kNotice << R"(#ifndef TESSERA_NDARRAY_FUNCTIONS_PARAMETERS_H_
#define TESSERA_NDARRAY_FUNCTIONS_PARAMETERS_H_

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "tessera/base/dtype.h"
#include "tessera/base/tshape.h"
#include "tessera/ndarray/functions/ints.h"
#include "tessera/ndarray/functions/required.h"
#include "tessera/ops/parameter.h"

)";
  WriteInNamespaces(forms, out, [&out](const OperatorForm& form) {
    if (!form.structure.empty()) DeclareStruct(form, out);
  });
  out << "\n#endif  // TESSERA_NDARRAY_FUNCTIONS_PARAMETERS_H_\n";
}

void WriteParametersSource(const std::vector<OperatorForm>& forms, std::ostream& out) {
  out << kNotice << R"(#include "tessera/ndarray/functions/parameters.h"

#include <string_view>

#include "tessera/ndarray/functions/parameter_text.h"

namespace tessera::ops {
using ndarray_internal::ChoiceText;
using ndarray_internal::Put;
}  // namespace tessera::ops

)";
  WriteInNamespaces(forms, out, [&out](const OperatorForm& form) {
    if (!form.structure.empty()) DefineToMap(form, out);
  });
}

}  // namespace tessera::op_functions
