#include "tessera/examples/command_line/command_line.h"

#include <charconv>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <iostream>
#include <system_error>

#include "CLI/CLI.hpp"
#include "tessera/base/error.h"

namespace tessera::command_line {

bool Parse(CLI::App* app, int argc, char** argv) {
  try {
    app->parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    std::cout << app->help();
    return false;
  } catch (const CLI::ParseError& error) {
    throw InvalidArgument(error.what(), "; see --help for what is expected");
  }
  return true;
}

std::string CheckDecimal(const std::string& text) {
  uint64_t value = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  const bool leading_zero = text.size() > 1 && text[0] == '0';
  if (error == std::errc() && stop == end && !leading_zero) return "";
  return "found " + text + ", expected a whole number below 2^64 in decimal digits";
}

std::string FromUsersFolder(const std::string& path) {
  const char* const folder = std::getenv("BUILD_WORKING_DIRECTORY");
  if (path.empty() || folder == nullptr) return path;
  return (std::filesystem::path(folder) / path).string();  // an absolute path stays
}

int RunProgram(const std::string& name, const std::function<void()>& run) {
  try {
    run();
    return 0;
  } catch (const std::exception& error) {
    std::fflush(stdout);
    std::fprintf(stderr, "%s: %s\n", name.c_str(), error.what());
    return 2;
  }
}

}  // namespace tessera::command_line
