#include "tessera/tools/benchmark/peer_process.h"

#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <sstream>
#include <stdexcept>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

extern char** environ;

namespace tessera::benchmarking {

std::string DataPath(const std::string& path_from_workspace) {
  namespace fs = std::filesystem;
  std::error_code failed;
  // `bazel run` starts programs where their data lies.
  if (fs::exists(path_from_workspace, failed)) return path_from_workspace;
  const fs::path runfiles = fs::read_symlink("/proc/self/exe", failed).string() + ".runfiles";
  for (const char* const repository : {"tessera", "_main"}) {
    const fs::path path = runfiles / repository / path_from_workspace;
    if (fs::exists(path, failed)) return path;
  }
  return path_from_workspace;
}

std::shared_ptr<PeerProcess> PeerProcess::Get(const std::string& script,
                                              const std::string& argument) {
  static auto* const peers =
      new std::map<std::pair<std::string, std::string>, std::shared_ptr<PeerProcess>>;
  const auto [entry, is_new] = peers->emplace(std::pair(script, argument), nullptr);
  if (!is_new) return entry->second;
  const char* const setting = std::getenv("TESSERA_PEER_PYTHON");
  std::istringstream pythons(setting == nullptr || *setting == '\0' ? "python3" : setting);
  for (std::string python; std::getline(pythons, python, ':');) {
    std::shared_ptr<PeerProcess> peer(new PeerProcess(argument));
    if (!peer->Start({python, DataPath(script), argument})) continue;
    entry->second = std::move(peer);
    return entry->second;
  }
  std::fprintf(stderr, "missing %s: no interpreter of TESSERA_PEER_PYTHON has it\n",
               argument.c_str());
  return nullptr;
}

std::shared_ptr<PeerProcess> PeerProcess::Run(const std::vector<std::string>& command) {
  std::string text;
  for (const std::string& word : command) text += (text.empty() ? "" : " ") + word;
  std::shared_ptr<PeerProcess> peer(new PeerProcess(text));
  if (!peer->Start(command)) throw std::runtime_error(text + ": the program is not ready");
  return peer;
}

PeerProcess::~PeerProcess() { Stop(); }

bool PeerProcess::Start(const std::vector<std::string>& command) {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) return false;
  socket_ = ends[0];
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, ends[1], 0);
  posix_spawn_file_actions_adddup2(&actions, ends[1], 1);
  std::vector<char*> arguments;
  for (const std::string& word : command) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  const bool started =
      posix_spawnp(&process_, arguments[0], &actions, nullptr, arguments.data(), environ) == 0;
  posix_spawn_file_actions_destroy(&actions);
  close(ends[1]);
  if (!started) process_ = 0;
  if (started && ReadLine() == "ready") return true;
  Stop();
  return false;
}

std::string PeerProcess::ReadLine() {
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

double PeerProcess::Ask(const std::string& request) {
  const std::string line = request + "\n";
  if (write(socket_, line.data(), line.size()) != static_cast<ssize_t>(line.size())) {
    throw std::runtime_error(argument_ + ": " + request + ": the process ended");
  }
  const std::string answer = ReadLine();
  char* end = nullptr;
  const double number = std::strtod(answer.c_str(), &end);
  if (end == answer.c_str()) {
    throw std::runtime_error(argument_ + ": " + request + ": " + answer);
  }
  return number;
}

void PeerProcess::Stop() {
  if (socket_ >= 0) close(socket_);
  socket_ = -1;
  // Without its socket the process ends by itself.
  if (process_ > 0) waitpid(process_, nullptr, 0);
  process_ = 0;
}

Variant PeerVariant(const std::string& variant, const std::shared_ptr<PeerProcess>& process,
                    const std::string& name) {
  const std::shared_ptr<void> forget(nullptr, [process, name](void*) {
    try {
      process->Ask("drop " + name);
    } catch (const std::runtime_error&) {
      // The process has ended, as an earlier request has said.
    }
  });
  return Variant::Timed(variant, [process, name, forget](int64_t count) {
    const double seconds = process->Ask("run " + name + " " + std::to_string(count));
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
    return seconds;
  });
}

Variants BesidePeers(const std::string& name, const Side& ours, const Peers& peers) {
  Variants variants{.all = {{"ours", ours.run}}};
  std::vector<std::function<double()>> checks;
  for (const std::string& framework : peers.frameworks) {
    const std::shared_ptr<PeerProcess> peer = PeerProcess::Get(peers.script, framework);
    if (peer == nullptr) continue;
    peer->Ask("make " + name + " " + peers.arguments);
    variants.all.push_back(PeerVariant(framework, peer, name));
    checks.push_back([peer, name] { return peer->Ask("check " + name); });
  }
  variants.results_agree = [ours, checks] {
    const double expected = ours.check();
    bool agree = std::isfinite(expected);
    for (const auto& check : checks) {
      const double actual = check();
      if (std::abs(actual - expected) <= 0.01 * std::abs(expected)) continue;
      std::fprintf(stderr, "results: ours %g, a peer's %g\n", expected, actual);
      agree = false;
    }
    return agree;
  };
  return variants;
}

}  // namespace tessera::benchmarking
