#ifndef TESSERA_KVSTORE_TESTING_SIMULATED_COMMUNICATOR_H_
#define TESSERA_KVSTORE_TESTING_SIMULATED_COMMUNICATOR_H_

#include <chrono>
#include <functional>
#include <memory>
#include <vector>

#include "tessera/kvstore/communicator.h"

namespace tessera::kvstore_testing {

/// A simulated network: a collective of n bytes for each rank holds it for n / bytes_per_second,
/// one after the other, and is complete `latency` later.
struct SimulatedNetwork {
  std::chrono::microseconds latency{0};
  double bytes_per_second = 0;  ///< 0: no limit
};

/// A job whose ranks are threads of one process. Collectives move memory between them. Ranks that
/// disagree on a call make the job fail with an error that names both calls.
///
/// Threads: every member may be called from any thread. The group must outlive the use of its
/// communicators.
class SimulatedGroup {
 public:
  explicit SimulatedGroup(int size, SimulatedNetwork network = {});
  ~SimulatedGroup();
  SimulatedGroup(const SimulatedGroup&) = delete;
  SimulatedGroup& operator=(const SimulatedGroup&) = delete;

  /// Returns a rank's communicator. All ranks are on one machine.
  std::shared_ptr<Communicator> communicator(int rank) const;

  /// Makes a rank die: the job fails at once with an error that names the rank.
  void Kill(int rank);

  /// Makes the later calls of a rank reach the network so much later.
  void SlowDown(int rank, std::chrono::microseconds delay);

  /// Calls run(communicator) for each rank in a thread of its own, and returns when all have
  /// returned. Exceptions must not leave it.
  void RunRanks(const std::function<void(const std::shared_ptr<Communicator>&)>& run) const;

 private:
  class Network;
  class Rank;

  std::shared_ptr<Network> network_;
  std::vector<std::shared_ptr<Communicator>> ranks_;
};

}  // namespace tessera::kvstore_testing

#endif  // TESSERA_KVSTORE_TESTING_SIMULATED_COMMUNICATOR_H_
