#include "tessera/storage/pool/timeline.h"

#include <chrono>
#include <cinttypes>
#include <cstdio>
#include <utility>

namespace tessera::storage_internal {

Timeline::Recording Timeline::WithCapacity(int64_t max_events) {
  Recording recording;
  recording.events.reserve(static_cast<size_t>(max_events));
  return recording;
}

void Timeline::Start(Recording empty, int64_t live_bytes, int64_t reserved_bytes) {
  const std::lock_guard<std::mutex> lock(mutex_);
  recording_ = std::move(empty);
  live_bytes_ = live_bytes;
  Append(reserved_bytes);
  is_recording_.store(true, std::memory_order_relaxed);
}

Timeline::Recording Timeline::Copy() {
  const std::lock_guard<std::mutex> lock(mutex_);
  return recording_;
}

void Timeline::Stop() {
  const std::lock_guard<std::mutex> lock(mutex_);
  is_recording_.store(false, std::memory_order_relaxed);
  recording_ = Recording();
}

void Timeline::Record(int64_t live_change_bytes, int64_t reserved_bytes) {
  const std::lock_guard<std::mutex> lock(mutex_);
  live_bytes_ += live_change_bytes;
  // Stop may have run after the caller read is_recording().
  if (is_recording()) Append(reserved_bytes);
}

void Timeline::Append(int64_t reserved_bytes) {
  if (recording_.events.size() == recording_.events.capacity()) {
    ++recording_.dropped_events;
    return;
  }
  const std::chrono::nanoseconds now = std::chrono::steady_clock::now().time_since_epoch();
  recording_.events.push_back({now.count(), live_bytes_, reserved_bytes});
}

namespace {

int64_t DroppedEvents(const std::vector<DeviceRecording>& recordings) {
  int64_t dropped_events = 0;
  for (const DeviceRecording& device : recordings) {
    dropped_events += device.recording.dropped_events;
  }
  return dropped_events;
}

/// Returns the events as JSON objects, separated by commas.
std::string Events(const std::vector<DeviceRecording>& recordings) {
  std::string json;
  const char* separator = "\n";
  for (const DeviceRecording& device : recordings) {
    const std::string name = device.device.ToString();
    for (const Timeline::Event& event : device.recording.events) {
      // Simultaneous changes may be recorded in either order. Cached bytes must not be negative.
      const int64_t cached_bytes =
          event.reserved_bytes > event.live_bytes ? event.reserved_bytes - event.live_bytes : 0;
      char text[256];
      std::snprintf(text, sizeof(text),
                    "%s{\"name\": \"memory %s\", \"cat\": \"storage\", \"ph\": \"C\", \"pid\": 0, "
                    "\"ts\": %" PRId64 ".%03d, \"args\": {\"live\": %" PRId64
                    ", \"cached\": %" PRId64 "}}",
                    separator, name.c_str(), event.nanoseconds / 1000,
                    static_cast<int>(event.nanoseconds % 1000), event.live_bytes, cached_bytes);
      json += text;
      separator = ",\n";
    }
  }
  return json;
}

}  // namespace

std::string TimelineJson(const std::vector<DeviceRecording>& recordings) {
  return "{\"displayTimeUnit\": \"ns\", \"traceEvents\": [" + Events(recordings) +
         "\n], \"otherData\": {\"dropped_events\": " + std::to_string(DroppedEvents(recordings)) +
         "}}\n";
}

std::string AddToTrace(std::string_view trace, const std::vector<DeviceRecording>& recordings) {
  // The name of an operation cannot match the key, because its quotation marks are escaped.
  constexpr std::string_view kKey = "\"traceEvents\"";
  static constexpr std::string_view kSpace = " \t\r\n";
  const auto skip_to = [trace](size_t place, char expected) {
    place = trace.find_first_not_of(kSpace, place);
    return place < trace.size() && trace[place] == expected ? place + 1 : std::string_view::npos;
  };
  const size_t object = skip_to(0, '{');
  const size_t key = trace.find(kKey);
  if (object == std::string_view::npos || key == std::string_view::npos) return {};
  const size_t colon = skip_to(key + kKey.size(), ':');
  const size_t list = colon == std::string_view::npos ? colon : skip_to(colon, '[');
  if (list == std::string_view::npos) return {};
  std::string events = Events(recordings);
  const bool is_empty = skip_to(list, ']') != std::string_view::npos;
  if (!events.empty() && !is_empty) events += ',';
  std::string json(trace.substr(0, object));
  json += "\"storage_dropped_events\":" + std::to_string(DroppedEvents(recordings)) + ",";
  json += trace.substr(object, list - object);
  json += events;
  json += trace.substr(list);
  return json;
}

}  // namespace tessera::storage_internal
