#include "tessera/symbol/benchmark/framework_peer.h"

#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <sstream>
#include <system_error>
#include <utility>

#include "tessera/base/error.h"

extern char** environ;

namespace tessera::benchmarking {
namespace {

constexpr char kScript[] = "symbol/benchmark/framework_peer.py";

/// Returns the script's path: from the workspace's root, where `bazel run` starts programs, or
/// among the program's runfiles.
std::string ScriptPath() {
  namespace fs = std::filesystem;
  std::error_code failed;
  if (fs::exists(kScript, failed)) return kScript;
  const fs::path runfiles = fs::read_symlink("/proc/self/exe", failed).string() + ".runfiles";
  for (const char* const repository : {"tessera", "_main"}) {
    if (fs::exists(runfiles / repository / kScript, failed)) return runfiles / repository / kScript;
  }
  return kScript;
}

}  // namespace

std::shared_ptr<FrameworkPeer> FrameworkPeer::Get(const std::string& framework) {
  static auto* const peers = new std::map<std::string, std::shared_ptr<FrameworkPeer>>;
  const auto [entry, is_new] = peers->emplace(framework, nullptr);
  if (!is_new) return entry->second;
  const char* const setting = std::getenv("TESSERA_PEER_PYTHON");
  std::istringstream pythons(setting == nullptr || *setting == '\0' ? "python3" : setting);
  for (std::string python; std::getline(pythons, python, ':');) {
    std::shared_ptr<FrameworkPeer> peer(new FrameworkPeer(framework));
    if (!peer->Start(python)) continue;
    entry->second = std::move(peer);
    return entry->second;
  }
  std::fprintf(stderr, "missing %s: no interpreter of TESSERA_PEER_PYTHON has it\n",
               framework.c_str());
  return nullptr;
}

FrameworkPeer::~FrameworkPeer() { Stop(); }

bool FrameworkPeer::Start(const std::string& python) {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) return false;
  socket_ = ends[0];
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, ends[1], 0);
  posix_spawn_file_actions_adddup2(&actions, ends[1], 1);
  const std::string script = ScriptPath();
  const char* const arguments[] = {python.c_str(), script.c_str(), framework_.c_str(), nullptr};
  const bool started = posix_spawnp(&process_, python.c_str(), &actions, nullptr,
                                    const_cast<char* const*>(arguments), environ) == 0;
  posix_spawn_file_actions_destroy(&actions);
  close(ends[1]);
  if (!started) process_ = 0;
  if (started && ReadLine() == "ready") return true;
  Stop();
  return false;
}

std::string FrameworkPeer::ReadLine() {
  for (;;) {
    if (const size_t end = received_.find('\n'); end != std::string::npos) {
      std::string line = received_.substr(0, end);
      received_.erase(0, end + 1);
      return line;
    }
    char bytes[256];
    const ssize_t count = read(socket_, bytes, sizeof(bytes));
    if (count <= 0) return "the process ended";
    received_.append(bytes, static_cast<size_t>(count));
  }
}

double FrameworkPeer::Ask(const std::string& request) {
  const std::string line = request + "\n";
  if (write(socket_, line.data(), line.size()) != static_cast<ssize_t>(line.size())) {
    throw Internal(framework_, ": ", request, ": the process ended");
  }
  const std::string answer = ReadLine();
  char* end = nullptr;
  const double number = std::strtod(answer.c_str(), &end);
  if (end == answer.c_str()) throw Internal(framework_, ": ", request, ": ", answer);
  return number;
}

void FrameworkPeer::Stop() {
  if (socket_ >= 0) close(socket_);
  socket_ = -1;
  // Without its socket the process ends by itself.
  if (process_ > 0) waitpid(process_, nullptr, 0);
  process_ = 0;
}

}  // namespace tessera::benchmarking
