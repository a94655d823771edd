#include "tessera/engine/device/stream_set.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "tessera/base/error.h"
#include "tessera/engine/core/execution.h"

namespace tessera::engine_internal {
namespace {

StreamRole RoleOf(FnProperty property) {
  switch (property) {
    case FnProperty::kCopyFromGpu:
      return StreamRole::kCopyOut;
    case FnProperty::kCopyToGpu:
      return StreamRole::kCopyIn;
    case FnProperty::kGpuPrioritized:
      return StreamRole::kUrgent;
    default:
      return StreamRole::kCompute;
  }
}

const char* NameOf(StreamRole role) {
  switch (role) {
    case StreamRole::kCompute:
      return "compute";
    case StreamRole::kCopyIn:
      return "copy-in";
    case StreamRole::kCopyOut:
      return "copy-out";
    case StreamRole::kUrgent:
      break;
  }
  return "urgent";
}

}  // namespace

WatchedStream::WatchedStream(std::unique_ptr<DeviceStream> stream, Device device, StreamRole role,
                             int number, FenceListener* listener)
    : stream_(std::move(stream)),
      device_(device),
      role_(role),
      number_(number),
      listener_(listener),
      thread_([this] { WatchLoop(); }) {}

WatchedStream::~WatchedStream() {
  {
    std::lock_guard<std::mutex> hold(mutex_);
    ended_ = true;
  }
  changed_.notify_one();
  thread_.join();
}

std::string WatchedStream::name() const {
  return absl::StrCat(device_.ToString(), " ", NameOf(role_));
}

FenceRef WatchedStream::NewFence(const Execution& execution) {
  std::lock_guard<std::mutex> hold(record_mutex_);
  return std::make_shared<Fence>(this, ++position_, stream_->Record(),
                                 std::string(execution.display_name()), execution.site,
                                 execution.sequence);
}

void WatchedStream::Watch(FenceRef fence, Execution* execution) {
  {
    std::lock_guard<std::mutex> hold(mutex_);
    fence->watched = execution;
    Fence* const last = fence.get();
    (first_watched_ == nullptr ? first_watched_ : last_watched_->next_watched) = std::move(fence);
    last_watched_ = last;
  }
  changed_.notify_one();
}

void WatchedStream::WatchLoop() {
  std::unique_lock<std::mutex> lock(mutex_);
  for (;;) {
    changed_.wait(lock, [this] { return ended_ || first_watched_ != nullptr; });
    if (first_watched_ == nullptr) return;
    FenceRef next = std::move(first_watched_);
    first_watched_ = std::move(next->next_watched);
    lock.unlock();
    listener_->AwaitWatchedFence(next, next->watched);
    next = nullptr;  // which may destroy a program's objects
    lock.lock();
  }
}

WatchedStream& StreamSet::For(Device device, FnProperty property) {
  const StreamRole role = RoleOf(property);
  std::lock_guard<std::mutex> hold(mutex_);
  for (const auto& stream : streams_) {
    if (stream->device() == device && stream->role() == role) return *stream;
  }
  DeviceBackend* const backend = FindDeviceBackend(device.type);
  if (backend == nullptr) {
    throw Unimplemented("device ", device, " needs a build with CUDA (--config=cuda)");
  }
  streams_.push_back(std::make_unique<WatchedStream>(backend->NewStream(device, role), device, role,
                                                     static_cast<int>(streams_.size()), listener_));
  return *streams_.back();
}

std::vector<std::string> StreamSet::Names() const {
  std::lock_guard<std::mutex> hold(mutex_);
  std::vector<std::string> names;
  for (const auto& stream : streams_) names.push_back(stream->name());
  return names;
}

}  // namespace tessera::engine_internal
