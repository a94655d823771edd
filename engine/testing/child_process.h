#ifndef TESSERA_ENGINE_TESTING_CHILD_PROCESS_H_
#define TESSERA_ENGINE_TESTING_CHILD_PROCESS_H_

#include <spawn.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <functional>
#include <string>
#include <vector>

namespace tessera::engine_internal {

/// Starts a program and returns its exit status: 0 only if it ended by itself and well.
inline int StatusOf(std::vector<std::string> command,
                    const std::vector<std::string>& settings = {}) {
  std::vector<char*> arguments, environment;
  for (std::string& argument : command) arguments.push_back(argument.data());
  arguments.push_back(nullptr);
  std::vector<std::string> all = settings;  // the first of two settings of one name counts
  for (char** entry = environ; *entry != nullptr; ++entry) all.push_back(*entry);
  for (std::string& entry : all) environment.push_back(entry.data());
  environment.push_back(nullptr);
  pid_t child = 0;
  if (posix_spawn(&child, arguments[0], nullptr, nullptr, arguments.data(), environment.data()) !=
      0) {
    return -1;
  }
  int status = 0;
  if (waitpid(child, &status, 0) != child) return -2;
  return status;
}

/// The exit status of a fork that runs `body` and exits with its result; from 100 on it did not.
inline int StatusOfChild(const std::function<int()>& body) {
  const pid_t child = fork();
  if (child == 0) {
    alarm(60);
    std::exit(body());
  }
  int status = 0;
  if (child < 0 || waitpid(child, &status, 0) != child) return 100;
  return WIFEXITED(status) ? WEXITSTATUS(status) : 101;
}

}  // namespace tessera::engine_internal

#endif  // TESSERA_ENGINE_TESTING_CHILD_PROCESS_H_
