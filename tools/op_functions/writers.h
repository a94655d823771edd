#ifndef TESSERA_TOOLS_OP_FUNCTIONS_WRITERS_H_
#define TESSERA_TOOLS_OP_FUNCTIONS_WRITERS_H_

#include <functional>
#include <ostream>
#include <string_view>
#include <vector>

#include "tessera/tools/op_functions/operator_form.h"

namespace tessera::op_functions {

/// The first line of every file that is written.
inline constexpr std::string_view kNotice =
    "// Written by //tools/op_functions from the registered operators.\n";

/// The values that functions take and return.
enum class Values { kArrays, kSymbols };

/// Write ndarray/functions/parameters.h: a struct for each operator with parameters, and its
/// functions that convert it to text. Write ndarray/functions/parameters.cc: those functions.
void WriteParametersHeader(const std::vector<OperatorForm>& forms, std::ostream& out);
void WriteParametersSource(const std::vector<OperatorForm>& forms, std::ostream& out);

/// Write ndarray/op.h or symbol/op.h: a declaration for each operator; and ndarray/op.cc or
/// symbol/op.cc: the functions.
void WriteFunctionsHeader(const std::vector<OperatorForm>& forms, Values values, std::ostream& out);
void WriteFunctionsSource(const std::vector<OperatorForm>& forms, Values values, std::ostream& out);

/// Calls `write` for each form, and opens and closes namespaces around them.
void WriteInNamespaces(const std::vector<OperatorForm>& forms, std::ostream& out,
                       const std::function<void(const OperatorForm&)>& write);

}  // namespace tessera::op_functions

#endif  // TESSERA_TOOLS_OP_FUNCTIONS_WRITERS_H_
