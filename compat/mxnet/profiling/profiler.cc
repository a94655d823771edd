#include "tessera/compat/mxnet/profiling/profiler.h"

#include <pthread.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <exception>
#include <new>

#include "tessera/base/atomic_file.h"
#include "tessera/base/device.h"
#include "tessera/base/error.h"
#include "tessera/compat/mxnet/core/api_call.h"
#include "tessera/storage/storage.h"

namespace tessera::mxnet {
namespace {

constexpr const char* kOperators = "operator";
constexpr const char* kClientOperators = "Custom Operator";
constexpr const char* kApi = "MXNET_C_API";
constexpr std::string_view kMemory = "Device Storage";
constexpr const char* kHostMemory = "Memory: cpu/0";
constexpr double kNsPerMs = 1e6;
constexpr double kBytesPerKilobyte = 1000;

/// Returns the name of what is a part of something.
std::string Joined(std::string_view whole, std::string_view part) {
  return std::string(whole) + "::" + std::string(part);
}

/// Receives a call of the API, whose name stands before the parameters: "int MXGetVersion(int*)".
void ReportApiCall(const char* function, int64_t begin_ns, int64_t end_ns) {
  std::string_view name = function;
  name = name.substr(0, name.find('('));
  const size_t type_end = name.rfind(' ');
  if (type_end != std::string_view::npos) name.remove_prefix(type_end + 1);
  // A profile does not show the calls that control it.
  if (name.find("Profile") != std::string_view::npos) return;
  Profiler::Get().OnApiCall(name, begin_ns, end_ns);
}

}  // namespace

Profiler& Profiler::Get() {
  static auto* const profiler = new Profiler;
  return *profiler;
}

int64_t Profiler::NowNs() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

Profiler::Profiler() {
  std::atexit([] { Get().WriteAtExit(); });
  pthread_atfork([] { Get().mutex_.lock(); }, [] { Get().mutex_.unlock(); },
                 [] { Get().StopInChild(); });
}

void Profiler::Configure(const ProfilerOptions& options) {
  const std::lock_guard<std::mutex> lock(mutex_);
  options_ = options;
}

void Profiler::SetRunning(bool running) {
  const std::lock_guard<std::mutex> lock(mutex_);
  running_ = running;
  paused_ = false;
  if (running && !has_profile_) {
    has_profile_ = true;
    trace_.Clear();
    last_write_ns_ = NowNs();
  }
  Update();
}

void Profiler::SetPaused(bool paused) {
  const std::lock_guard<std::mutex> lock(mutex_);
  paused_ = paused;
  Update();
}

/// Begins or ends to record, as the state demands.
void Profiler::Update() {
  const bool recording = running_ && !paused_;
  recording_.store(recording, std::memory_order_relaxed);
  SetCallObserver(recording ? this : nullptr);
  api_observer.store(recording ? ReportApiCall : nullptr, std::memory_order_relaxed);
}

void Profiler::Dump(bool finished) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (!has_profile_) {
    throw FailedPrecondition(
        "the profiler has not run; expected a call that sets its state to run before the dump");
  }
  Write();
  if (!finished) return;
  has_profile_ = false;
  running_ = false;
  Update();
  trace_.Clear();
}

std::string Profiler::Statistics(StatisticsFormat format, StatisticsOrder order, bool ascending,
                                 bool reset) {
  const std::lock_guard<std::mutex> lock(mutex_);
  std::string text;
  if (options_.aggregate_stats) text = statistics_.Print(format, order, ascending);
  if (reset) statistics_.Clear();
  return text;
}

void Profiler::Write() {
  const std::string json = trace_.ToJson();
  AtomicFile file(options_.filename, "profiler");
  file.Write(json.data(), static_cast<int64_t>(json.size()));
  file.Commit();
  is_written_ = true;
  last_write_ns_ = NowNs();
}

void Profiler::WriteAtPeriod() {
  if (!options_.continuous_dump) return;
  if (static_cast<double>(NowNs() - last_write_ns_) < 1e9 * options_.dump_period) return;
  last_write_ns_ = NowNs();  // also if writing fails: Dump reports that
  Write();
}

void Profiler::WriteAtExit() noexcept {
  try {
    const std::lock_guard<std::mutex> lock(mutex_);
    running_ = false;
    Update();
    if (has_profile_ && !is_written_) Write();
  } catch (const std::exception&) {
    // Nobody is left to be told.
  }
}

/// In the child of a fork, ends a profile of the parent. Requires: the fork holds the mutex.
void Profiler::StopInChild() {
  running_ = false;
  has_profile_ = false;
  Update();
  mutex_.unlock();
}

void Profiler::Record(TraceEventKind kind, std::string_view category, std::string_view name,
                      int64_t begin_ns, int64_t end_ns, int64_t value) noexcept {
  try {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (!is_recording()) return;
    is_written_ = false;
    trace_.Add(kind, category, name, begin_ns, end_ns, value);
    if (options_.aggregate_stats) AddStatistics(kind, category, name, end_ns - begin_ns, value);
    WriteAtPeriod();
  } catch (const std::exception&) {
    // The event is lost, or the file: Dump reports why.
  }
}

void Profiler::AddStatistics(TraceEventKind kind, std::string_view category, std::string_view name,
                             int64_t duration_ns, int64_t value) {
  if (kind == TraceEventKind::kMarker) return;
  if (kind != TraceEventKind::kCounter) {
    statistics_.Add(category, name, StatisticsUnit::kMilliseconds,
                    static_cast<double>(duration_ns) / kNsPerMs);
  } else if (category == kMemory) {
    statistics_.Add(category, name, StatisticsUnit::kKilobytes,
                    static_cast<double>(value) / kBytesPerKilobyte);
  } else {
    statistics_.Add(category, name, StatisticsUnit::kValue, static_cast<double>(value));
  }
}

void Profiler::AddDuration(std::string_view category, std::string_view name, int64_t begin_ns,
                           int64_t end_ns) noexcept {
  Record(TraceEventKind::kDuration, category, name, begin_ns, end_ns);
}

void Profiler::AddCounter(std::string_view category, std::string_view name,
                          int64_t value) noexcept {
  const int64_t now_ns = NowNs();
  Record(TraceEventKind::kCounter, category, name, now_ns, now_ns, value);
}

void Profiler::AddMarker(std::string_view category, std::string_view name, char scope) noexcept {
  const int64_t now_ns = NowNs();
  Record(TraceEventKind::kMarker, category, name, now_ns, now_ns, scope);
}

void Profiler::OnApiCall(std::string_view function, int64_t begin_ns, int64_t end_ns) noexcept {
  Record(TraceEventKind::kCall, kApi, function, begin_ns, end_ns);
}

void Profiler::OnCall(std::string_view op, std::string_view caller, int64_t begin_ns,
                      int64_t end_ns) noexcept {
  try {
    if (!caller.empty()) {
      Record(TraceEventKind::kCall, kClientOperators, Joined(caller, op), begin_ns, end_ns);
    } else if (op != "Custom" && op != "_backward_Custom") {
      Record(TraceEventKind::kCall, kOperators, op, begin_ns, end_ns);
    }
  } catch (const std::bad_alloc&) {
    // The event is lost.
  }
  const int64_t bytes = Storage::Get()->Stats(Device::Cpu()).live_bytes;
  if (memory_bytes_.exchange(bytes, std::memory_order_relaxed) == bytes) return;
  Record(TraceEventKind::kCounter, kMemory, kHostMemory, end_ns, end_ns, bytes);
}

ClientCallTimer::ClientCallTimer(const std::string& name) : name_(name) {
  if (!Profiler::Get().is_recording()) return;
  caller_.emplace(name);
  begin_ns_ = Profiler::NowNs();
}

ClientCallTimer::~ClientCallTimer() {
  if (!caller_) return;
  const int64_t end_ns = Profiler::NowNs();
  try {
    Profiler::Get().AddDuration(kClientOperators, Joined(name_, "pure_python"), begin_ns_, end_ns);
  } catch (const std::bad_alloc&) {
    // The event is lost.
  }
}

}  // namespace tessera::mxnet
