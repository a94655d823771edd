#include "tessera/engine/testing/simulated_device.h"

#include <algorithm>
#include <deque>
#include <utility>

#include "tessera/base/error.h"

namespace tessera::engine_internal {

/// A point on a queue. Its state is guarded by the device's mutex.
class SimulatedDevice::Event final : public DeviceEvent,
                                     public std::enable_shared_from_this<Event> {
 public:
  explicit Event(SimulatedDevice* device) : device_(device) {}

  void Synchronize() override {
    std::unique_lock<std::mutex> lock(device_->mutex_);
    device_->changed_.wait(lock, [this] { return reached; });
    if (!failure.empty()) throw Error(Error::kInternal, failure);
  }

  bool reached = false;
  std::string failure;

 private:
  SimulatedDevice* const device_;
};

struct SimulatedDevice::Queue {
  /// Exactly one of the three is set.
  struct Step {
    std::function<void()> work;
    std::shared_ptr<Event> waits_for;
    std::shared_ptr<Event> records;
  };
  std::deque<Step> steps;
};

class SimulatedDevice::Stream final : public DeviceStream {
 public:
  Stream(SimulatedDevice* device, int id, std::shared_ptr<Queue> queue)
      : device_(device), id_(id), queue_(std::move(queue)) {}

  void* handle() override { return this; }
  int id() const { return id_; }
  int MakeCurrent() override { return std::exchange(current_, id_); }
  void MakeCurrentAgain(int device) override { current_ = device; }

  std::shared_ptr<DeviceEvent> Record() override {
    auto event = std::make_shared<Event>(device_);
    Add({.records = event});
    return event;
  }
  void WaitFor(DeviceEvent& event) override {
    Add({.waits_for = static_cast<Event&>(event).shared_from_this()});
  }
  std::unique_ptr<DeviceGraph> NewGraph() override;

  void Add(Queue::Step step) {
    {
      std::lock_guard<std::mutex> hold(device_->mutex_);
      queue_->steps.push_back(std::move(step));
    }
    device_->changed_.notify_all();
  }

 private:
  SimulatedDevice* const device_;
  const int id_;
  const std::shared_ptr<Queue> queue_;
};

class SimulatedDevice::Graph final : public DeviceGraph {
 public:
  Graph(SimulatedDevice* device, Stream* stream) : device_(device), stream_(stream) {}

  void Capture(const std::vector<std::vector<uint32_t>>& predecessors,
               const EnqueueNode& enqueue) override {
    nodes_.clear();
    if (device_->refuses_graphs_) {
      throw Error(Error::kInternal, "this device takes no graphs");
    }
    std::vector<Node> nodes;
    for (uint32_t i = 0; i < predecessors.size(); ++i) {
      const auto noted = std::make_shared<Queue>();
      Stream capturing(device_, stream_->id(),
                       noted);  // in no list of the device, so nobody runs it
      enqueue(i, &capturing);
      nodes.push_back({predecessors[i], {}});
      for (Queue::Step& step : noted->steps) nodes.back().work.push_back(std::move(step.work));
    }
    nodes_ = std::move(nodes);
    ++device_->captures_;
  }

  void Launch() override {
    std::vector<bool> done(nodes_.size());
    for (size_t left = nodes_.size(); left > 0; --left) {
      const uint32_t next = PickNode(done);
      for (const auto& work : nodes_[next].work) stream_->Add({.work = work});
      done[next] = true;
    }
    ++device_->launches_;
  }

 private:
  struct Node {
    std::vector<uint32_t> predecessors;
    std::vector<std::function<void()>> work;
  };

  /// A random one of those that are not done and may be.
  uint32_t PickNode(const std::vector<bool>& done) {
    std::vector<uint32_t> able;
    for (uint32_t i = 0; i < nodes_.size(); ++i) {
      const auto is_done = [&](uint32_t before) { return done[before]; };
      const std::vector<uint32_t>& before = nodes_[i].predecessors;
      if (!done[i] && std::all_of(before.begin(), before.end(), is_done)) able.push_back(i);
    }
    return able[random_() % able.size()];
  }

  SimulatedDevice* const device_;
  Stream* const stream_;
  std::vector<Node> nodes_;
  std::mt19937_64 random_{7};
};

std::unique_ptr<DeviceGraph> SimulatedDevice::Stream::NewGraph() {
  return std::make_unique<Graph>(device_, this);
}

SimulatedDevice::SimulatedDevice(uint64_t seed)
    : previous_(SetDeviceBackend(DeviceType::kGpu, this)),
      random_(seed),
      thread_([this] { RunLoop(); }) {}

SimulatedDevice::~SimulatedDevice() {
  {
    std::lock_guard<std::mutex> hold(mutex_);
    ended_ = true;
    held_ = false;
  }
  changed_.notify_all();
  thread_.join();
  SetDeviceBackend(DeviceType::kGpu, previous_);
}

std::unique_ptr<DeviceStream> SimulatedDevice::NewStream(Device device, StreamRole) {
  if (device.id < 0 || device.id > 1) {
    throw InvalidArgument("device ", device, ": this machine has 2 devices");
  }
  std::lock_guard<std::mutex> hold(mutex_);
  queues_.push_back(std::make_shared<Queue>());
  return std::make_unique<Stream>(this, device.id, queues_.back());
}

void SimulatedDevice::Hold() {
  std::lock_guard<std::mutex> hold(mutex_);
  held_ = true;
}

void SimulatedDevice::Resume() {
  {
    std::lock_guard<std::mutex> hold(mutex_);
    held_ = false;
  }
  changed_.notify_all();
}

void SimulatedDevice::Fail(std::string message) {
  std::lock_guard<std::mutex> hold(mutex_);
  failure_ = std::move(message);
}

void SimulatedDevice::FailOnce(std::string message) {
  std::lock_guard<std::mutex> hold(mutex_);
  next_failure_ = std::move(message);
}

void SimulatedDevice::RefuseGraphs(bool refuse) { refuses_graphs_ = refuse; }

void SimulatedDevice::Repair() { Fail(""); }

void SimulatedDevice::Enqueue(void* stream, std::function<void()> work) {
  static_cast<Stream*>(stream)->Add({.work = std::move(work)});
}

bool SimulatedDevice::CanGoOn(const Queue& queue) const {
  if (queue.steps.empty()) return false;
  const Event* const event = queue.steps.front().waits_for.get();
  return event == nullptr || event->reached;
}

SimulatedDevice::Queue* SimulatedDevice::PickQueue() {
  if (held_) return nullptr;
  std::vector<Queue*> able;
  for (const auto& queue : queues_) {
    if (CanGoOn(*queue)) able.push_back(queue.get());
  }
  return able.empty() ? nullptr : able[random_() % able.size()];
}

void SimulatedDevice::RunLoop() {
  std::unique_lock<std::mutex> lock(mutex_);
  for (;;) {
    Queue* queue = nullptr;
    changed_.wait(lock, [&] { return (queue = PickQueue()) != nullptr || ended_; });
    if (queue == nullptr) return;
    const Queue::Step step = std::move(queue->steps.front());
    queue->steps.pop_front();
    if (step.records != nullptr) {
      step.records->reached = true;
      step.records->failure =
          next_failure_.empty() ? failure_ : std::exchange(next_failure_, std::string());
      changed_.notify_all();
    }
    if (step.work == nullptr || !failure_.empty()) continue;
    lock.unlock();
    step.work();
    lock.lock();
  }
}

}  // namespace tessera::engine_internal
