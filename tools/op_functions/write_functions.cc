#include "tessera/tools/op_functions/cpp_text.h"
#include "tessera/tools/op_functions/writers.h"

namespace tessera::op_functions {
namespace {

/// Returns "a, b and c".
std::string Enumerated(const std::vector<std::string>& items) {
  std::string text;
  for (size_t i = 0; i < items.size(); ++i) {
    text += (i == 0 ? "" : i + 1 < items.size() ? ", " : " and ") + items[i];
  }
  return text;
}

std::string InputsComment(const OperatorForm& form, Values values) {
  if (form.inputs.empty()) return "Inputs: none.";
  if (form.TakesVector() && form.inputs.size() == 1) return "Inputs: any number.";
  std::vector<std::string> texts;
  for (const InputForm& input : form.inputs) {
    std::string text = input.variable;
    if (input.is_optional) text += " (for some parameters)";
    if (input.is_changed) text += values == Values::kArrays ? " (changed)" : " (auxiliary state)";
    texts.push_back(text);
  }
  if (form.TakesVector()) texts.push_back("so on");
  return "Inputs: " + Enumerated(texts) + ".";
}

std::string CommentOf(const OperatorForm& form, Values values) {
  std::string text = "Operator " + form.registered + ": " + form.description + "\n" +
                     InputsComment(form, values) + " " +
                     (form.outputs.size() == 1 ? "Output: " : "Outputs: ") +
                     (form.outputs.empty() ? "none" : Enumerated(form.outputs)) +
                     (form.has_fixed_outputs ? "." : "; their number depends on the parameters.");
  if (!form.parameters.empty()) {
    std::vector<std::string> names;
    for (const ParameterForm& parameter : form.parameters) {
      names.push_back(parameter.member + (parameter.info.required ? " (required)" : ""));
    }
    text += "\nParameters: " + Enumerated(names) + ".";
  }
  return Comment("", text);
}

/// Returns the function's signature, of a declaration with default arguments or of a definition.
std::string Signature(const OperatorForm& form, Values values, bool is_declaration) {
  const bool arrays = values == Values::kArrays;
  const std::string value = arrays ? "NDArray" : "Symbol";
  const std::string empty = is_declaration ? " = {}" : "";
  // A symbol without inputs must have a name: without, the call would fit the function of arrays
  // too.
  const bool needs_name = !arrays && form.inputs.empty();
  const bool defaults = !form.NeedsParameters() && !needs_name;
  std::vector<std::string> items;
  // A symbol's missing inputs become variables.
  size_t required_inputs = arrays ? 0 : 1;
  for (size_t i = 0; arrays && i < form.inputs.size(); ++i) {
    if (!form.inputs[i].is_optional) required_inputs = i + 1;
  }
  if (form.TakesVector()) items.push_back("const std::vector<" + value + ">& data");
  for (size_t i = 0; !form.TakesVector() && i < form.inputs.size(); ++i) {
    items.push_back("const " + value + "& " + form.inputs[i].variable +
                    (defaults && i >= required_inputs ? empty : ""));
  }
  if (!form.structure.empty()) {
    items.push_back("const " + form.structure + "& parameters" + (defaults ? empty : ""));
  }
  if (arrays) {
    items.push_back(
        (form.has_one_output ? "const NDArray& out" : "const std::vector<NDArray>& out") + empty);
  } else {
    items.push_back("std::string name" + (needs_name ? "" : empty));
  }
  const std::string result = arrays && !form.has_one_output ? "Outputs" : value;
  return List(result + " " + form.function + "(", items, ")");
}

void Define(const OperatorForm& form, Values values, std::ostream& out) {
  const bool arrays = values == Values::kArrays;
  out << Signature(form, values, false) << " {\n";
  std::string map = form.structure.empty() ? "{}" : "parameters.ToMap()";
  std::vector<std::string> inputs;
  for (const InputForm& input : form.inputs) {
    inputs.push_back(arrays ? "&" + input.variable
                            : "{" + Quoted(input.argument) + ", &" + input.variable + "}");
  }
  std::string given = List("{", inputs, "}");
  if (form.TakesVector()) {
    given = "data";
    const std::string divisor =
        form.inputs.size() == 1 ? "" : " / " + std::to_string(form.inputs.size());
    out << "  ParameterMap map" << (form.structure.empty() ? "" : " = " + map) << ";\n"
        << "  map[" << Quoted(form.count_parameter) << "] = std::to_string(data.size()" << divisor
        << ");\n";
    map = "map";
  }
  const std::string call = !arrays ? (form.TakesVector() ? "Symbol::Apply" : "CallWithNames")
                           : form.has_one_output ? "CallForOne"
                                                 : "CallForAll";
  out << "  return " << call << "(" << Quoted(form.registered) << ", " << given << ", " << map
      << ", " << (arrays ? "out" : "std::move(name)") << ");\n}\n\n";
}

constexpr std::string_view kArraysComment =
    "Every registered operator as a function of arrays: `ops::FullyConnected(x, weight, bias, "
    "{.num_hidden = 10})`. Each calls Invoke, which states errors and threads. An operator "
    "`_contrib_X`, `_image_X`, `_linalg_X`, `_random_X` or `_sparse_X` is ops::contrib::X and so "
    "on; `_x` is ops::x.\n\n"
    "An input that some parameters leave out is then `{}`, an array that is_none(). Outputs are "
    "new arrays, or `out` if it is given, which is then also returned. Outputs whose number "
    "depends on the parameters are an ops::Outputs, which converts to an array where there is "
    "one.";

constexpr std::string_view kSymbolsComment =
    "Every registered operator as a function of symbols: `ops::FullyConnected(x, {}, {}, "
    "{.num_hidden = 10}, \"fc1\")`. Each calls Symbol::Apply or Symbol::Compose, which state "
    "errors, and has the name of the function of arrays in tessera/ndarray/op.h.\n\n"
    "An input that is `{}` becomes a variable: fc1_weight, fc1_bias. Without `name`, one is made "
    "from the operator's.";

}  // namespace

void WriteFunctionsHeader(const std::vector<OperatorForm>& forms, Values values,
                          std::ostream& out) {
  const bool arrays = values == Values::kArrays;
  const std::string guard = arrays ? "TESSERA_NDARRAY_OP_H_" : "TESSERA_SYMBOL_OP_H_";
  out << kNotice << "#ifndef " << guard << "\n#define " << guard << R"(

#include <string>
#include <vector>

)";
  if (arrays) out << "#include \"tessera/ndarray/functions/outputs.h\"\n";
  out << "#include \"tessera/ndarray/functions/parameters.h\"\n"
      << (arrays ? "#include \"tessera/ndarray/ndarray.h\"\n"
                 : "#include \"tessera/symbol/symbol.h\"\n");
  out << "\n" << Comment("", arrays ? kArraysComment : kSymbolsComment);
  WriteInNamespaces(forms, out, [&](const OperatorForm& form) {
    out << CommentOf(form, values) << Signature(form, values, true) << ";\n\n";
  });
  out << "\n#endif  // " << guard << "\n";
}

void WriteFunctionsSource(const std::vector<OperatorForm>& forms, Values values,
                          std::ostream& out) {
  const bool arrays = values == Values::kArrays;
  out << kNotice << "#include \"tessera/" << (arrays ? "ndarray" : "symbol")
      << "/op.h\"\n\n#include <utility>\n\n#include \"tessera/"
      << (arrays ? "ndarray/functions/call.h" : "symbol/op_call.h")
      << "\"\n\nnamespace tessera::ops {\n";
  if (arrays) {
    out << "using ndarray_internal::CallForAll;\nusing ndarray_internal::CallForOne;\n";
  } else {
    out << "using symbol_internal::CallWithNames;\n";
  }
  out << "}  // namespace tessera::ops\n\n";
  WriteInNamespaces(forms, out, [&](const OperatorForm& form) { Define(form, values, out); });
}

}  // namespace tessera::op_functions
