#ifndef TESSERA_EXAMPLES_COMMAND_LINE_COMMAND_LINE_H_
#define TESSERA_EXAMPLES_COMMAND_LINE_COMMAND_LINE_H_

#include <functional>
#include <string>

#include "tessera/base/dialect.h"

namespace CLI {
class App;
}  // namespace CLI

namespace tessera::command_line {

/// Reads the arguments by the options of `app`. Returns false if they ask for help, which is then
/// printed. Throws Error(kInvalidArgument) for an unknown argument or an impossible value.
bool Parse(CLI::App* app, int argc, char** argv);

/// Returns what is wrong with a whole number, or nothing: a check of an option. The library itself
/// reads 010 as eight and -1, where no sign is expected, as the largest number that there is.
std::string CheckDecimal(const std::string& text);

/// Returns a path as the user meant it. `bazel run` starts programs in a folder of its own and says
/// where the user is. An empty path stays empty.
std::string FromUsersFolder(const std::string& path);

/// Runs a program and returns its exit status: 0, or 2 after an exception, whose message is then a
/// line on stderr that begins with `name`.
int RunProgram(const std::string& name, const std::function<void()>& run);

}  // namespace tessera::command_line

#endif  // TESSERA_EXAMPLES_COMMAND_LINE_COMMAND_LINE_H_
