#ifndef TESSERA_TOOLS_BENCHMARK_PEER_PROCESS_H_
#define TESSERA_TOOLS_BENCHMARK_PEER_PROCESS_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tessera/tools/benchmark/ratio_benchmark.h"

namespace tessera::benchmarking {

/// A process that does a benchmark's cases on request and sleeps in between. It writes the line
/// "ready", and answers each line of its input with a line.
class PeerProcess {
 public:
  /// Returns the process of a script and its argument, started at the first call, or null if it is
  /// ready under no interpreter of TESSERA_PEER_PYTHON, which is then said on stderr. The script is
  /// named by its path from the workspace's root, and is among the benchmark's data.
  static std::shared_ptr<PeerProcess> Get(const std::string& script, const std::string& argument);

  /// Returns a new process of a program, which is looked for on the PATH, and its arguments. Throws
  /// std::runtime_error if it is not ready.
  static std::shared_ptr<PeerProcess> Run(const std::vector<std::string>& command);

  ~PeerProcess();
  PeerProcess(const PeerProcess&) = delete;
  PeerProcess& operator=(const PeerProcess&) = delete;

  /// Sends a request, such as "run chain_tape 3", and returns the answer, a number. Throws
  /// std::runtime_error with the script's message if the request fails.
  double Ask(const std::string& request);

 private:
  explicit PeerProcess(std::string argument) : argument_(std::move(argument)) {}
  /// Starts a program. Returns whether it is ready.
  bool Start(const std::vector<std::string>& command);
  std::string ReadLine();
  void Stop();

  const std::string argument_;
  int socket_ = -1;
  int process_ = 0;
  std::string received_;
};

/// Returns where a file lies that is among the benchmark's data.
std::string DataPath(const std::string& path_from_workspace);

/// Returns a case of a process as a variant that takes the time over there: by the request
/// "run CASE COUNT". With the last copy of the variant the process gets the request "drop CASE".
/// Threads that spin after a run are slept over.
Variant PeerVariant(const std::string& variant, const std::shared_ptr<PeerProcess>& process,
                    const std::string& name);

/// Our side of a case that peers do, too: something to run, and a number that shows the results.
struct Side {
  std::function<void()> run;
  std::function<double()> check;
};

/// The peers of a case.
struct Peers {
  std::string script;                   ///< as for PeerProcess::Get
  std::vector<std::string> frameworks;  ///< the script's argument, for each peer
  std::string arguments = "";           ///< of the request that makes the case
};

/// Returns ours, and each peer that is there, as variants. A peer makes the case by the request
/// "make CASE ARGUMENTS", and tells its results by "check CASE"; they agree if both numbers differ
/// by a hundredth at most, since sums in float32 pass on through several steps of training.
Variants BesidePeers(const std::string& name, const Side& ours, const Peers& peers);

}  // namespace tessera::benchmarking

#endif  // TESSERA_TOOLS_BENCHMARK_PEER_PROCESS_H_
