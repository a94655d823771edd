#include "tessera/train/event_file.h"

#include <unistd.h>

#include <atomic>
#include <bit>
#include <chrono>
#include <cstddef>
#include <cstring>
#include <filesystem>
#include <system_error>

#include "tessera/base/error.h"
#include "tessera/train/checkpoint/crc32c.h"

namespace tessera {
namespace {

// Protocol Buffers' wire types.
constexpr int kVarint = 0, kFixed64 = 1, kBytes = 2, kFixed32 = 5;

/// Appends the bytes of a number, the lowest first.
template <typename T>
void AppendFixed(std::string* text, T value) {
  static_assert(std::endian::native == std::endian::little);
  char bytes[sizeof(T)];
  std::memcpy(bytes, &value, sizeof(T));
  text->append(bytes, sizeof(T));
}

/// Appends seven bits a byte, the lowest first.
void AppendVarint(std::string* text, uint64_t value) {
  for (; value >= 128; value >>= 7) text->push_back(static_cast<char>(value | 128));
  text->push_back(static_cast<char>(value));
}

void AppendKey(std::string* text, int field, int wire_type) {
  AppendVarint(text, static_cast<uint64_t>(field << 3 | wire_type));
}

void AppendBytes(std::string* text, int field, std::string_view bytes) {
  AppendKey(text, field, kBytes);
  AppendVarint(text, bytes.size());
  text->append(bytes);
}

double Now() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

/// Returns the checksum of a record, which is changed so that it is no checksum of data that hold
/// one.
uint32_t MaskedCrc32c(std::string_view bytes) {
  return std::rotr(train_internal::Crc32c(bytes), 15) + 0xa282ead8u;
}

}  // namespace

namespace train_internal {

// Event: wall_time = 1 (double), step = 2 (int64), file_version = 3 (string), summary = 5.
std::string FirstEvent(double time) {
  std::string event;
  AppendKey(&event, 1, kFixed64);
  AppendFixed(&event, time);
  AppendBytes(&event, 3, "brain.Event:2");
  return event;
}

// Summary: value = 1; Summary.Value: tag = 1 (string), simple_value = 2 (float).
std::string ScalarEvent(double time, int64_t step, std::string_view tag, float value) {
  std::string entry;
  AppendBytes(&entry, 1, tag);
  AppendKey(&entry, 2, kFixed32);
  AppendFixed(&entry, value);
  std::string summary;
  AppendBytes(&summary, 1, entry);
  std::string event;
  AppendKey(&event, 1, kFixed64);
  AppendFixed(&event, time);
  AppendKey(&event, 2, kVarint);
  AppendVarint(&event, static_cast<uint64_t>(step));
  AppendBytes(&event, 5, summary);
  return event;
}

std::string RecordOf(std::string_view data) {
  std::string record;
  AppendFixed(&record, static_cast<uint64_t>(data.size()));
  AppendFixed(&record, MaskedCrc32c(record));
  record += data;
  AppendFixed(&record, MaskedCrc32c(data));
  return record;
}

}  // namespace train_internal

EventFile::EventFile(const std::string& folder) {
  // TensorBoard reads the files of a folder in the order of their names.
  static std::atomic<int> count{0};
  path_ = folder + "/events.out.tfevents." + std::to_string(static_cast<int64_t>(Now())) +
          ".tessera." + std::to_string(getpid()) + "." + std::to_string(count++);
  std::error_code ignored;
  std::filesystem::create_directories(folder, ignored);
  file_.open(path_, std::ios::binary);
  if (!file_) {
    throw FailedPrecondition("EventFile: ", path_,
                             " cannot be made, expected a folder that may be written");
  }
  Write(train_internal::FirstEvent(Now()));
}

void EventFile::AddScalar(std::string_view tag, double value, int64_t step) {
  Write(train_internal::ScalarEvent(Now(), step, tag, static_cast<float>(value)));
}

void EventFile::Write(const std::string& event) {
  const std::string record = train_internal::RecordOf(event);
  file_.write(record.data(), static_cast<std::streamsize>(record.size()));
  file_.flush();
  if (!file_) {
    throw ResourceExhausted("EventFile: ", path_, " cannot be written, expected room on the disk");
  }
}

}  // namespace tessera
