// The trace as JSON: which slices stand in which row, and the arrows between
// them.

#include <algorithm>
#include <cstdio>
#include <map>
#include <set>
#include <string_view>
#include <unordered_map>

#include "absl/strings/str_cat.h"
#include "tessera/engine/observe/trace_recorder.h"

namespace tessera::engine_internal {
namespace {

constexpr int kFirstStreamRow = 20000;

/// The length of the UTF-8 sequence at the beginning of `text`; 0 if there is none (RFC 3629).
size_t SequenceLength(std::string_view text) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned first = byte(0);
  if (first < 0x80) return 1;
  const size_t length = first < 0xC2   ? 0
                        : first < 0xE0 ? 2
                        : first < 0xF0 ? 3
                        : first < 0xF5 ? 4
                                       : 0;
  if (length == 0 || length > text.size()) return 0;
  for (size_t i = 1; i < length; ++i) {
    if (byte(i) < 0x80 || byte(i) > 0xBF) return 0;
  }
  // Too long for what they stand for, halves of pairs, and beyond the last character.
  const unsigned second = byte(1);
  if ((first == 0xE0 && second < 0xA0) || (first == 0xED && second > 0x9F)) return 0;
  if ((first == 0xF0 && second < 0x90) || (first == 0xF4 && second > 0x8F)) return 0;
  return length;
}

/// Names may be any bytes: what is no UTF-8 becomes the replacement character.
std::string Quoted(std::string_view text) {
  std::string quoted = "\"";
  while (!text.empty()) {
    const size_t length = SequenceLength(text);
    const char c = text[0];
    if (length == 0) {
      quoted += "\\ufffd";
    } else if (c == '"' || c == '\\') {
      quoted += '\\';
      quoted += c;
    } else if (length == 1 && static_cast<unsigned char>(c) < 0x20) {
      char code[8];
      std::snprintf(code, sizeof(code), "\\u%04x", static_cast<unsigned>(c));
      quoted += code;
    } else {
      quoted += text.substr(0, length);
    }
    text.remove_prefix(std::max<size_t>(length, 1));
  }
  return quoted + "\"";
}

/// The format counts in microseconds and takes fractions.
std::string Microseconds(int64_t ns) {
  char text[32];
  std::snprintf(text, sizeof(text), "%lld.%03lld", static_cast<long long>(ns / 1000),
                static_cast<long long>(ns % 1000));
  return text;
}

/// The events of an operation in the trace.
struct Slice {
  int row = 0;
  int64_t begin_ns = 0;
  int64_t end_ns = 0;
};

class Writer {
 public:
  Writer(uint64_t engine_id, TraceEvents events) : pid_(engine_id), events_(std::move(events)) {}

  std::string Write(int workers, const std::vector<std::string>& streams) {
    std::sort(events_.pushes.begin(), events_.pushes.end(),
              [](const auto& a, const auto& b) { return a.sequence < b.sequence; });
    for (const TracedPush& push : events_.pushes) pushes_[push.sequence] = &push;
    NameRows(workers, streams);
    for (const TracedRun& run : events_.runs) WriteRun(run);
    WriteEnds();
    WriteArrows();
    return absl::StrCat("{\"displayTimeUnit\":\"ns\",\"otherData\":{\"dropped_events\":",
                        events_.dropped, "},\"traceEvents\":[\n", text_, "\n]}\n");
  }

 private:
  /// An event with what all have; `fields` are added.
  void Event(const char* phase, int row, int64_t time_ns, const std::string& fields) {
    absl::StrAppend(&text_, text_.empty() ? "" : ",\n", "{\"ph\":\"", phase, "\",\"pid\":", pid_,
                    ",\"tid\":", row, ",\"ts\":", Microseconds(time_ns), ",", fields, "}");
  }

  void NameRow(int row, const std::string& name) {
    Event("M", row, 0,
          absl::StrCat("\"name\":\"thread_name\",\"args\":{\"name\":", Quoted(name), "}"));
    Event("M", row, 0,
          absl::StrCat("\"name\":\"thread_sort_index\",\"args\":{\"sort_index\":", row, "}"));
  }

  void NameRows(int workers, const std::vector<std::string>& streams) {
    Event("M", 0, 0,
          absl::StrCat("\"name\":\"process_name\",\"args\":{\"name\":\"tessera engine ", pid_,
                       "\"}"));
    for (int i = 0; i < workers; ++i) NameRow(i, absl::StrCat("worker ", i));
    for (size_t i = 0; i < streams.size(); ++i) {
      NameRow(kFirstStreamRow + static_cast<int>(i), absl::StrCat("stream ", streams[i]));
    }
    std::set<int> outside;
    for (const TracedRun& run : events_.runs) {
      if (run.row >= kFirstOutsideRow) outside.insert(run.row);
    }
    for (const int row : outside) NameRow(row, absl::StrCat("thread ", row - kFirstOutsideRow));
  }

  void WriteSlice(const Slice& slice, const std::string& name, const std::string& arguments) {
    Event("X", slice.row, slice.begin_ns,
          absl::StrCat("\"dur\":", Microseconds(slice.end_ns - slice.begin_ns),
                       ",\"name\":", Quoted(name), ",\"args\":{", arguments, "}"));
  }

  void WriteRun(const TracedRun& run) {
    std::string arguments = absl::StrCat("\"push\":", run.sequence);
    const auto push = pushes_.find(run.sequence);
    if (push != pushes_.end()) {
      const std::source_location& site = push->second->site;
      absl::StrAppend(&arguments,
                      ",\"pushed_at\":", Quoted(absl::StrCat(site.file_name(), ":", site.line())),
                      ",\"queued_us\":",
                      Microseconds(std::max<int64_t>(0, run.begin_ns - push->second->time_ns)));
    }
    if (run.skipped) arguments += ",\"skipped\":true";
    const Slice slice{run.row, run.begin_ns, run.end_ns};
    slices_[run.sequence] = slice;
    WriteSlice(slice, run.name, arguments);
  }

  void WriteEnds() {
    std::sort(events_.ends.begin(), events_.ends.end(),
              [](const auto& a, const auto& b) { return a.end_ns < b.end_ns; });
    std::map<int, int64_t> stream_free_ns;
    for (const TracedEnd& end : events_.ends) {
      if (end.stream < 0) {
        const auto run = slices_.find(end.sequence);
        if (run == slices_.end() || run->second.end_ns >= end.end_ns) continue;
        const std::string fields =
            absl::StrCat("\"cat\":\"async\",\"id\":", end.sequence, ",\"name\":", Quoted(end.name));
        Event("b", run->second.row, run->second.end_ns, fields);
        Event("e", run->second.row, end.end_ns, fields);
        continue;
      }
      // A stream does one thing after the other; when the device began it does
      // not say.
      int64_t& free_ns = stream_free_ns[end.stream];
      const Slice slice{kFirstStreamRow + end.stream, std::max(end.issued_ns, free_ns), end.end_ns};
      free_ns = end.end_ns;
      slices_[end.sequence] = slice;  // its arrows are the device's
      WriteSlice(slice, end.name, absl::StrCat("\"push\":", end.sequence));
    }
  }

  void WriteArrows() {
    struct Users {
      uint64_t writer = 0;  // 0: nobody in this trace
      std::vector<uint64_t> readers;
    };
    std::unordered_map<uint64_t, Users> users;  // by variable
    for (const TracedPush& push : events_.pushes) {
      std::set<uint64_t> before;
      for (const auto& [variable, access] : push.variables) {
        Users& past = users[variable];
        if (access == Access::kRead) {
          before.insert(past.writer);
          past.readers.push_back(push.sequence);
          continue;
        }
        if (past.readers.empty()) before.insert(past.writer);
        before.insert(past.readers.begin(), past.readers.end());
        past = {push.sequence, {}};
      }
      for (const uint64_t sequence : before) WriteArrow(sequence, push.sequence);
    }
  }

  void WriteArrow(uint64_t from_sequence, uint64_t to_sequence) {
    const auto from = slices_.find(from_sequence), to = slices_.find(to_sequence);
    if (from == slices_.end() || to == slices_.end()) return;
    const Slice &a = from->second, &b = to->second;
    // An arrow belongs to the slice in whose time it begins, and must not go
    // back in time.
    const int64_t leaves_ns = std::max(a.begin_ns, std::min(a.end_ns - 1, b.begin_ns));
    if (leaves_ns > b.begin_ns) return;
    const std::string fields =
        absl::StrCat("\"cat\":\"dependency\",\"name\":\"dependency\",\"id\":", ++arrows_);
    Event("s", a.row, leaves_ns, fields);
    Event("f", b.row, b.begin_ns, absl::StrCat(fields, ",\"bp\":\"e\""));
  }

  const uint64_t pid_;
  TraceEvents events_;
  std::string text_;
  uint64_t arrows_ = 0;
  std::unordered_map<uint64_t, const TracedPush*> pushes_;
  std::unordered_map<uint64_t, Slice> slices_;  // by operation
};

}  // namespace

std::string TraceToJson(TraceEvents events, uint64_t engine_id, int workers,
                        const std::vector<std::string>& streams) {
  return Writer(engine_id, std::move(events)).Write(workers, streams);
}

}  // namespace tessera::engine_internal
