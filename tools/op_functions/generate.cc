// Writes the registered operators as functions of C++: generate KIND=PATH…, where KIND is one of
// parameters_header, parameters_source, ndarray_header, ndarray_source, symbol_header and
// symbol_source.
#include <fstream>
#include <iostream>
#include <string>
#include <vector>

#include "tessera/base/error.h"
#include "tessera/tools/op_functions/writers.h"

namespace tessera::op_functions {
namespace {

void Write(const std::vector<OperatorForm>& forms, const std::string& kind, std::ostream& out) {
  if (kind == "parameters_header") return WriteParametersHeader(forms, out);
  if (kind == "parameters_source") return WriteParametersSource(forms, out);
  if (kind == "ndarray_header") return WriteFunctionsHeader(forms, Values::kArrays, out);
  if (kind == "ndarray_source") return WriteFunctionsSource(forms, Values::kArrays, out);
  if (kind == "symbol_header") return WriteFunctionsHeader(forms, Values::kSymbols, out);
  if (kind == "symbol_source") return WriteFunctionsSource(forms, Values::kSymbols, out);
  throw InvalidArgument("unknown kind of file \"", kind, "\"");
}

int Main(const std::vector<std::string>& arguments) {
  try {
    const std::vector<OperatorForm> forms = ReadRegistry();
    for (const std::string& argument : arguments) {
      const size_t equals = argument.find('=');
      if (equals == argument.npos) throw InvalidArgument(argument, ": expected KIND=PATH");
      std::ofstream file(argument.substr(equals + 1));
      Write(forms, argument.substr(0, equals), file);
      file.close();
      if (!file) throw FailedPrecondition(argument.substr(equals + 1), ": cannot be written");
    }
  } catch (const Error& error) {
    std::cerr << "generate: " << error.what() << "\n";
    return 1;
  }
  return 0;
}

}  // namespace
}  // namespace tessera::op_functions

int main(int argc, char** argv) { return tessera::op_functions::Main({argv + 1, argv + argc}); }
