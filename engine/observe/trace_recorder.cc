#include "tessera/engine/observe/trace_recorder.h"

#include <algorithm>
#include <iterator>
#include <new>

namespace tessera::engine_internal {
namespace {

// For each thread and kind; a trace that someone forgot to end must not eat all
// memory.
constexpr size_t kMaxEvents = size_t{1} << 20;

int64_t SteadyNs() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

template <typename Event>
void MoveAll(std::vector<Event>& from, std::vector<Event>& to) {
  to.insert(to.end(), std::make_move_iterator(from.begin()), std::make_move_iterator(from.end()));
}

}  // namespace

void TraceRecorder::Start() {
  Stop();
  {
    std::lock_guard<std::mutex> hold(mutex_);
    start_ns_.store(SteadyNs(), std::memory_order_relaxed);
  }
  on_.store(true, std::memory_order_relaxed);
}

TraceEvents TraceRecorder::Stop() {
  on_.store(false, std::memory_order_relaxed);
  TraceEvents all;
  std::lock_guard<std::mutex> hold(mutex_);
  for (auto& [thread, buffer] : buffers_) {
    TraceEvents events;
    {
      std::lock_guard<FutexLock> hold_buffer(buffer->lock);
      events = std::exchange(buffer->events, {});
    }
    MoveAll(events.pushes, all.pushes);
    MoveAll(events.runs, all.runs);
    MoveAll(events.ends, all.ends);
    all.dropped += events.dropped;
  }
  all.dropped += lost_.exchange(0, std::memory_order_relaxed);
  const int64_t start_ns = start_ns_.load(std::memory_order_relaxed);
  // Operations that an earlier trace saw begin have no place in this one, except those that a
  // device is still at.
  std::erase_if(all.pushes, [&](const TracedPush& push) { return push.time_ns < start_ns; });
  std::erase_if(all.runs, [&](const TracedRun& run) { return run.begin_ns < start_ns; });
  std::erase_if(all.ends, [&](const TracedEnd& end) { return end.end_ns < start_ns; });
  for (TracedEnd& end : all.ends) end.issued_ns = std::max(end.issued_ns, start_ns);
  return all;
}

int64_t TraceRecorder::Now() const { return SteadyNs(); }

TraceRecorder::Buffer& TraceRecorder::OwnBuffer() {
  // The last one that this thread used. Recorders are told apart by number,
  // because another may come to have the same address.
  static thread_local uint64_t last_number = 0;
  static thread_local Buffer* last_buffer = nullptr;
  if (last_number == number_) return *last_buffer;
  std::lock_guard<std::mutex> hold(mutex_);
  const std::thread::id thread = std::this_thread::get_id();
  auto own = buffers_.find(thread);
  if (own == buffers_.end()) {
    auto buffer = std::make_unique<Buffer>();
    buffer->row = kFirstOutsideRow + static_cast<int>(buffers_.size());
    own = buffers_.emplace(thread, std::move(buffer)).first;
  }
  last_number = number_;
  last_buffer = own->second.get();
  return *last_buffer;
}

template <typename Event>
void TraceRecorder::AddTo(Buffer& buffer, std::vector<Event>& events, Event event) {
  std::lock_guard<FutexLock> hold(buffer.lock);
  if (events.size() >= kMaxEvents) {
    ++buffer.events.dropped;
    return;
  }
  events.push_back(std::move(event));
}

template <typename AddToBuffer>
void TraceRecorder::AddOrDrop(const AddToBuffer& add) noexcept {
  try {
    add(OwnBuffer());
  } catch (const std::bad_alloc&) {
    lost_.fetch_add(1, std::memory_order_relaxed);
  }
}

void TraceRecorder::Add(TracedPush push) noexcept {
  AddOrDrop([&](Buffer& buffer) { AddTo(buffer, buffer.events.pushes, std::move(push)); });
}

void TraceRecorder::Add(TracedRun run, std::string_view name, int worker) noexcept {
  AddOrDrop([&](Buffer& buffer) {
    run.name = name;
    run.row = worker >= 0 ? worker : buffer.row;
    AddTo(buffer, buffer.events.runs, std::move(run));
  });
}

void TraceRecorder::Add(TracedEnd end, std::string_view name) noexcept {
  AddOrDrop([&](Buffer& buffer) {
    end.name = name;
    AddTo(buffer, buffer.events.ends, std::move(end));
  });
}

}  // namespace tessera::engine_internal
