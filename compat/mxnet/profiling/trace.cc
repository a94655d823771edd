#include "tessera/compat/mxnet/profiling/trace.h"

#include <chrono>
#include <functional>
#include <set>

#include "tessera/graph/json/json_value.h"

namespace tessera::mxnet {
namespace {

/// A profile that someone forgot to end must not take all memory.
constexpr size_t kMaxEvents = size_t{1} << 20;

template <typename Clock>
int64_t NowNs() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now().time_since_epoch())
      .count();
}

/// Returns what the system's clock is ahead of the steady one.
int64_t SystemOffsetNs() {
  static const int64_t offset =
      NowNs<std::chrono::system_clock>() - NowNs<std::chrono::steady_clock>();
  return offset;
}

/// Returns a time in the format's microseconds.
std::string Microseconds(int64_t ns) {
  const std::string fraction = std::to_string(ns % 1000);
  return std::to_string(ns / 1000) + "." + std::string(3 - fraction.size(), '0') + fraction;
}

std::string Quoted(std::string_view text) {
  std::string quoted;
  graph::AppendQuoted(text, &quoted);
  return quoted;
}

}  // namespace

void ProfileTrace::Add(TraceEventKind kind, std::string_view category, std::string_view name,
                       int64_t begin_ns, int64_t end_ns, int64_t value) {
  if (events_.size() >= kMaxEvents) {
    ++dropped_;
    return;
  }
  const int thread = threads_.emplace(std::this_thread::get_id(), threads_.size()).first->second;
  events_.push_back({.kind = kind,
                     .category = NumberOf(category),
                     .name = NumberOf(name),
                     .thread = thread,
                     .begin_ns = begin_ns,
                     .end_ns = end_ns,
                     .value = value});
}

std::string ProfileTrace::ToJson() const {
  std::string json = "{\n\"traceEvents\": [";
  std::set<int> categories;
  for (const Event& event : events_) categories.insert(event.category);
  for (const int category : categories) {
    json += json.back() == '[' ? "\n" : ",\n";
    json +=
        "{\"ph\": \"M\", \"args\": {\"name\": " + Quoted(names_[static_cast<size_t>(category)]) +
        "}, \"pid\": " + std::to_string(category) + ", \"name\": \"process_name\"}";
  }
  for (const Event& event : events_) {
    json += json.back() == '[' ? "\n" : ",\n";
    Write(event, &json);
  }
  json += "\n],\n\"displayTimeUnit\": \"ms\",\n\"otherData\": {\"dropped_events\": " +
          std::to_string(dropped_) + "}\n}\n";
  return json;
}

void ProfileTrace::Clear() {
  events_.clear();
  dropped_ = 0;
  numbers_.clear();
  names_.clear();
  threads_.clear();
}

int ProfileTrace::NumberOf(std::string_view name) {
  const auto found = numbers_.find(name);
  if (found != numbers_.end()) return found->second;
  names_.emplace_back(name);
  return numbers_.emplace(name, static_cast<int>(names_.size()) - 1).first->second;
}

void ProfileTrace::Write(const Event& event, std::string* json) const {
  const std::string id = ", \"id\": " + std::to_string(event.thread);
  switch (event.kind) {
    case TraceEventKind::kCall:
    case TraceEventKind::kDuration: {
      const bool is_call = event.kind == TraceEventKind::kCall;
      WriteHalf(event, is_call ? "B" : "b", event.begin_ns, is_call ? "" : id, json);
      *json += ",\n";
      WriteHalf(event, is_call ? "E" : "e", event.end_ns, is_call ? "" : id, json);
      break;
    }
    case TraceEventKind::kCounter:
      WriteHalf(event, "C", event.begin_ns,
                ", \"args\": {" + Quoted(names_[static_cast<size_t>(event.name)]) + ": " +
                    std::to_string(event.value) + "}",
                json);
      break;
    case TraceEventKind::kMarker:
      WriteHalf(event, "i", event.begin_ns,
                std::string(", \"s\": \"") + static_cast<char>(event.value) + "\"", json);
      break;
  }
}

/// Writes an object: an event, or its beginning or end.
void ProfileTrace::WriteHalf(const Event& event, std::string_view phase, int64_t time_ns,
                             const std::string& fields, std::string* json) const {
  *json += "{\"name\": ";
  graph::AppendQuoted(names_[static_cast<size_t>(event.name)], json);
  *json += ", \"cat\": ";
  graph::AppendQuoted(names_[static_cast<size_t>(event.category)], json);
  *json += ", \"ph\": \"";
  *json += phase;
  *json += "\", \"ts\": " + Microseconds(time_ns + SystemOffsetNs()) + fields +
           ", \"pid\": " + std::to_string(event.category) +
           ", \"tid\": " + std::to_string(event.thread) + "}";
}

}  // namespace tessera::mxnet
