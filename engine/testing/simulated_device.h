#ifndef TESSERA_ENGINE_TESTING_SIMULATED_DEVICE_H_
#define TESSERA_ENGINE_TESTING_SIMULATED_DEVICE_H_

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "tessera/engine/device/device_stream.h"

namespace tessera::engine_internal {

/// A back end for tests: streams of functions that one thread of the device runs, each stream in
/// its order, and of all streams that can go on a random one. The nodes of a graph it does in a
/// random order that their dependencies allow. On Hold nothing is done, however long
/// that lasts; so a test shows what happens before a device has come to something.
///
/// While it lives it is the back end of DeviceType::kGpu, with two devices. It must outlive every
/// engine that uses it.
class SimulatedDevice final : public DeviceBackend {
 public:
  explicit SimulatedDevice(uint64_t seed = 1);
  /// Finishes what is enqueued.
  ~SimulatedDevice() override;

  std::unique_ptr<DeviceStream> NewStream(Device device, StreamRole role) override;

  /// Does nothing from here on, apart from what it is at.
  void Hold();
  /// Goes on after Hold.
  void Resume();
  /// Captures throw, until they are allowed again.
  void RefuseGraphs(bool refuse);
  /// The number of captures, and of launches of captured work.
  int captures() const { return captures_; }
  int launches() const { return launches_; }
  /// All that comes after this fails with `message`, until Repair.
  void Fail(std::string message);
  /// The next event alone fails with `message`.
  void FailOnce(std::string message);
  void Repair();

  /// The calling thread's current device.
  static int Current() { return current_; }

  /// Enqueues `work`; `stream` is the RunContext::stream of an operation.
  static void Enqueue(void* stream, std::function<void()> work);

 private:
  class Stream;
  class Event;
  class Graph;
  struct Queue;

  bool CanGoOn(const Queue& queue) const;
  Queue* PickQueue();
  void RunLoop();

  static inline thread_local int current_ = 0;

  DeviceBackend* const previous_;
  std::mutex mutex_;
  std::condition_variable changed_;             // anything below
  std::vector<std::shared_ptr<Queue>> queues_;  // guarded by mutex_; only grows
  std::mt19937_64 random_;                      // guarded by mutex_
  bool held_ = false;                           // guarded by mutex_
  bool ended_ = false;                          // guarded by mutex_
  std::string failure_;                         // guarded by mutex_
  std::string next_failure_;                    // guarded by mutex_
  std::atomic<bool> refuses_graphs_{false};
  std::atomic<int> captures_{0};
  std::atomic<int> launches_{0};
  std::thread thread_;
};

}  // namespace tessera::engine_internal

#endif  // TESSERA_ENGINE_TESTING_SIMULATED_DEVICE_H_
