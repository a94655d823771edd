// CUDA streams for the engine. Linked in under --config=cuda only.

#include <cuda_runtime_api.h>

#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "tessera/base/error.h"
#include "tessera/engine/device/device_stream.h"

namespace tessera::engine_internal {
namespace {

/// The runtime's "last error" is cleared so that it does not surface at somebody else's call.
void Check(cudaError_t status, const char* call) {
  if (status == cudaSuccess) return;
  cudaGetLastError();
  throw Error(Error::kInternal, std::string(call) + " failed: " + cudaGetErrorString(status));
}

/// Makes a device current for its own life.
class CurrentDevice {
 public:
  explicit CurrentDevice(int id) {
    if (cudaGetDevice(&previous_) != cudaSuccess) previous_ = id;
    Check(cudaSetDevice(id), "cudaSetDevice");
  }
  ~CurrentDevice() { cudaSetDevice(previous_); }
  CurrentDevice(const CurrentDevice&) = delete;
  CurrentDevice& operator=(const CurrentDevice&) = delete;

 private:
  int previous_ = 0;
};

/// Events of one device for use again: making one takes longer than recording it.
class EventPool {
 public:
  explicit EventPool(int device) : device_(device) {}
  ~EventPool() {
    // At the end of the process the runtime may be gone already; then so are the events.
    for (cudaEvent_t event : free_) cudaEventDestroy(event);
  }

  cudaEvent_t Take() {
    {
      std::lock_guard<std::mutex> hold(mutex_);
      if (!free_.empty()) {
        cudaEvent_t event = free_.back();
        free_.pop_back();
        return event;
      }
    }
    const CurrentDevice current(device_);
    cudaEvent_t event;
    // Blocking: the thread that waits for it sleeps. Without times recording is cheaper.
    Check(cudaEventCreateWithFlags(&event, cudaEventDisableTiming | cudaEventBlockingSync),
          "cudaEventCreateWithFlags");
    return event;
  }
  void Give(cudaEvent_t event) {
    std::lock_guard<std::mutex> hold(mutex_);
    free_.push_back(event);
  }

 private:
  const int device_;
  std::mutex mutex_;
  std::vector<cudaEvent_t> free_;  // guarded by mutex_
};

class CudaEvent final : public DeviceEvent {
 public:
  explicit CudaEvent(std::shared_ptr<EventPool> pool)
      : pool_(std::move(pool)), event_(pool_->Take()) {}
  ~CudaEvent() override { pool_->Give(event_); }

  void Synchronize() override { Check(cudaEventSynchronize(event_), "cudaEventSynchronize"); }

  cudaEvent_t get() const { return event_; }

 private:
  const std::shared_ptr<EventPool> pool_;
  cudaEvent_t event_;
};

/// Each operation is captured by itself and becomes a child of the graph: so it needs to know
/// nothing of the others, and a stream that works in order takes nothing from what may be
/// concurrent.
class CudaGraph final : public DeviceGraph {
 public:
  CudaGraph(int device, cudaStream_t stream) : device_(device), stream_(stream) {
    const CurrentDevice current(device);
    Check(cudaStreamCreateWithFlags(&capturing_, cudaStreamNonBlocking),
          "cudaStreamCreateWithFlags");
  }
  ~CudaGraph() override {
    if (executable_ != nullptr) cudaGraphExecDestroy(executable_);
    cudaStreamDestroy(capturing_);
  }

  void Capture(const std::vector<std::vector<uint32_t>>& predecessors,
               const EnqueueNode& enqueue) override {
    cudaGraph_t made = nullptr;
    Check(cudaGraphCreate(&made, 0), "cudaGraphCreate");
    const std::unique_ptr<CUgraph_st, GraphDestroyer> graph(made);
    std::vector<cudaGraphNode_t> nodes(predecessors.size());
    for (uint32_t i = 0; i < nodes.size(); ++i) {
      std::vector<cudaGraphNode_t> before;
      for (const uint32_t predecessor : predecessors[i]) before.push_back(nodes[predecessor]);
      const std::unique_ptr<CUgraph_st, GraphDestroyer> child = CaptureNode(i, enqueue);
      size_t steps = 0;
      Check(cudaGraphGetNodes(child.get(), nullptr, &steps), "cudaGraphGetNodes");
      Check(steps == 0 ? cudaGraphAddEmptyNode(&nodes[i], graph.get(), before.data(), before.size())
                       : cudaGraphAddChildGraphNode(&nodes[i], graph.get(), before.data(),
                                                    before.size(), child.get()),
            steps == 0 ? "cudaGraphAddEmptyNode" : "cudaGraphAddChildGraphNode");
    }
    Instantiate(graph.get());
  }

  void Launch() override {
    const CurrentDevice current(device_);
    Check(cudaGraphLaunch(executable_, stream_), "cudaGraphLaunch");
  }

 private:
  struct GraphDestroyer {
    void operator()(cudaGraph_t graph) const { cudaGraphDestroy(graph); }
  };

  std::unique_ptr<CUgraph_st, GraphDestroyer> CaptureNode(uint32_t node,
                                                          const EnqueueNode& enqueue) {
    // Other threads may allocate and synchronise meanwhile; this one may not, and gets an error.
    Check(cudaStreamBeginCapture(capturing_, cudaStreamCaptureModeThreadLocal),
          "cudaStreamBeginCapture");
    cudaGraph_t child = nullptr;
    try {
      enqueue(node, capturing_);
    } catch (...) {
      cudaStreamEndCapture(capturing_, &child);
      cudaGetLastError();
      if (child != nullptr) cudaGraphDestroy(child);
      throw;
    }
    Check(cudaStreamEndCapture(capturing_, &child), "cudaStreamEndCapture");
    return std::unique_ptr<CUgraph_st, GraphDestroyer>(child);
  }

  /// Puts the graph's parameters into the executable, or makes a new one where more has changed.
  void Instantiate(cudaGraph_t graph) {
    if (executable_ != nullptr) {
      cudaGraphExecUpdateResultInfo result;
      if (cudaGraphExecUpdate(executable_, graph, &result) == cudaSuccess) return;
      cudaGetLastError();
      cudaGraphExecDestroy(std::exchange(executable_, nullptr));
    }
    Check(cudaGraphInstantiate(&executable_, graph, 0), "cudaGraphInstantiate");
  }

  const int device_;
  const cudaStream_t stream_;
  cudaStream_t capturing_ = nullptr;
  cudaGraphExec_t executable_ = nullptr;
};

class CudaStream final : public DeviceStream {
 public:
  CudaStream(int device, StreamRole role)
      : device_(device), events_(std::make_shared<EventPool>(device)) {
    const CurrentDevice current(device);
    int least = 0, greatest = 0;
    Check(cudaDeviceGetStreamPriorityRange(&least, &greatest), "cudaDeviceGetStreamPriorityRange");
    const int priority = role == StreamRole::kUrgent ? greatest : least;
    // Non-blocking: no hidden order with the default stream, on which strangers may work.
    Check(cudaStreamCreateWithPriority(&stream_, cudaStreamNonBlocking, priority),
          "cudaStreamCreateWithPriority");
  }
  ~CudaStream() override { cudaStreamDestroy(stream_); }

  void* handle() override { return stream_; }
  int MakeCurrent() override {
    int previous;
    if (cudaGetDevice(&previous) != cudaSuccess) previous = device_;
    Check(cudaSetDevice(device_), "cudaSetDevice");
    return previous;
  }
  void MakeCurrentAgain(int device) override { cudaSetDevice(device); }

  std::shared_ptr<DeviceEvent> Record() override {
    // Asynchronous operations complete in foreign threads: this one's device is put back.
    const CurrentDevice current(device_);
    auto event = std::make_shared<CudaEvent>(events_);
    Check(cudaEventRecord(event->get(), stream_), "cudaEventRecord");
    return event;
  }

  void WaitFor(DeviceEvent& event) override {
    Check(cudaStreamWaitEvent(stream_, static_cast<CudaEvent&>(event).get(), 0),
          "cudaStreamWaitEvent");
  }

  std::unique_ptr<DeviceGraph> NewGraph() override {
    return std::make_unique<CudaGraph>(device_, stream_);
  }

 private:
  const int device_;
  const std::shared_ptr<EventPool> events_;
  cudaStream_t stream_ = nullptr;
};

class CudaBackend final : public DeviceBackend {
 public:
  std::unique_ptr<DeviceStream> NewStream(Device device, StreamRole role) override {
    int count = 0;
    const cudaError_t status = cudaGetDeviceCount(&count);
    if (status != cudaSuccess) {
      cudaGetLastError();
      throw FailedPrecondition("no stream on ", device,
                               ": CUDA finds no device: ", cudaGetErrorString(status));
    }
    if (device.id < 0 || device.id >= count) {
      throw InvalidArgument("no stream on ", device, ": this machine has ", count, " CUDA devices");
    }
    return std::make_unique<CudaStream>(device.id, role);
  }
};

// Never destroyed: engines may outlive static objects.
[[maybe_unused]] DeviceBackend* const before = SetDeviceBackend(DeviceType::kGpu, new CudaBackend);

}  // namespace
}  // namespace tessera::engine_internal
