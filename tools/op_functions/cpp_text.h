#ifndef TESSERA_TOOLS_OP_FUNCTIONS_CPP_TEXT_H_
#define TESSERA_TOOLS_OP_FUNCTIONS_CPP_TEXT_H_

#include <string>
#include <string_view>
#include <vector>

#include "tessera/ops/parameter.h"

namespace tessera::op_functions {

/// Returns the choices of a parameter of type "{max, sum}", or nothing for another type.
std::vector<std::string> ChoicesOf(const ParameterInfo& parameter);

/// Returns "HardSigmoid" for "hard_sigmoid" and "PoolingV1" for "Pooling_v1".
std::string CamelCase(std::string_view name);

/// Returns the name, with an underscore behind it if it is a word of C++.
std::string Identifier(std::string name);

/// Returns the text as a string literal.
std::string Quoted(std::string_view text);

/// Returns the text as a comment of lines that begin with `indent` and "/// ".
std::string Comment(std::string_view indent, std::string_view text);

/// Returns `before`, the items with commas between them, and `after`, broken into lines.
std::string List(const std::string& before, const std::vector<std::string>& items,
                 const std::string& after);

/// Returns the description as a sentence: "the window" gives "The window."
std::string Sentence(std::string text);

}  // namespace tessera::op_functions

#endif  // TESSERA_TOOLS_OP_FUNCTIONS_CPP_TEXT_H_
