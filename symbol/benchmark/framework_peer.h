#ifndef TESSERA_SYMBOL_BENCHMARK_FRAMEWORK_PEER_H_
#define TESSERA_SYMBOL_BENCHMARK_FRAMEWORK_PEER_H_

#include <cstdint>
#include <memory>
#include <string>

namespace tessera::benchmarking {

/// A Python framework in a process of its own, framework_peer.py, which runs the cases of
/// executor_benchmark on request and sleeps in between.
class FrameworkPeer {
 public:
  /// Returns the process of a framework ("mxnet", "torch"), started at the first call, or null if
  /// no interpreter of TESSERA_PEER_PYTHON has its package, which is then said on stderr.
  static std::shared_ptr<FrameworkPeer> Get(const std::string& framework);

  ~FrameworkPeer();
  FrameworkPeer(const FrameworkPeer&) = delete;
  FrameworkPeer& operator=(const FrameworkPeer&) = delete;

  const std::string& framework() const { return framework_; }
  /// Sends a request, such as "run chain_tape 3", and returns the answer, a number. Throws
  /// Error(kInternal) with the framework's message if the request fails.
  double Ask(const std::string& request);

 private:
  explicit FrameworkPeer(std::string framework) : framework_(std::move(framework)) {}
  /// Starts an interpreter. Returns whether it has the package.
  bool Start(const std::string& python);
  std::string ReadLine();
  void Stop();

  const std::string framework_;
  int socket_ = -1;
  int process_ = 0;
  std::string received_;
};

}  // namespace tessera::benchmarking

#endif  // TESSERA_SYMBOL_BENCHMARK_FRAMEWORK_PEER_H_
