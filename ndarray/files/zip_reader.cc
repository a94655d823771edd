#include "tessera/ndarray/files/zip_reader.h"

#include <unistd.h>
#include <zip.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <utility>

#include "tessera/base/error.h"
#include "tessera/base/foreign_file.h"
#include "tessera/base/quote.h"
#include "tessera/ndarray/files/array_size.h"
#include "tessera/ndarray/files/input_file.h"

namespace tessera::ndarray_internal {
namespace {

/// deflate's greatest ratio: a match of 258 bytes takes at least two bits (zlib's technical notes).
constexpr uint64_t kMaxDeflateRatio = 1032;

// Sizes and fields of the records at an archive's end (APPNOTE.TXT 6.3.10, 4.3.14 to 4.3.16).
constexpr int64_t kEndBytes = 22;
constexpr int64_t kLocatorBytes = 20;
constexpr int64_t kEnd64Bytes = 56;
constexpr int64_t kMaxTailBytes = 0xffff + kEndBytes + kLocatorBytes;
constexpr std::string_view kEndMagic("PK\5\6");
constexpr std::string_view kLocatorMagic("PK\6\7");

/// The most memory that libzip takes for a byte of the directory: an extra field of 4 bytes becomes
/// an object of the heap.
constexpr int64_t kDirectoryFactor = 12;

/// Throws what libzip's error means.
[[noreturn]] void Throw(const std::string& name, zip_error_t* error) {
  const int code = zip_error_code_zip(error);
  const std::string text = zip_error_strerror(error);
  if (code == ZIP_ER_MEMORY) throw ResourceExhausted(name, ": ", text);
  throw DataLoss(name, ": damaged: ", text);
}

template <typename T>
T Number(std::string_view bytes, size_t at) {
  T value;
  std::memcpy(&value, bytes.data() + at, sizeof(value));
  return value;
}

/// Returns bytes of an open source.
std::string ReadAt(const std::string& name, zip_source_t* source, int64_t offset,
                   int64_t size_bytes) {
  std::string bytes(static_cast<size_t>(size_bytes), '\0');
  if (zip_source_seek(source, offset, SEEK_SET) < 0 ||
      zip_source_read(source, bytes.data(), bytes.size()) != size_bytes) {
    Throw(name, zip_source_error(source));
  }
  return bytes;
}

/// Returns the size of the directory that the end record at `tail[at]` names, or 0 if libzip will
/// refuse it. `tail` begins at byte `begin` of the source.
int64_t DirectorySizeBytes(const std::string& name, zip_source_t* source, std::string_view tail,
                           int64_t begin, size_t at) {
  if (at < kLocatorBytes || tail.substr(at - kLocatorBytes, 4) != kLocatorMagic) {
    const uint64_t size_bytes = Number<uint32_t>(tail, at + 12);
    const uint64_t end = size_bytes + Number<uint32_t>(tail, at + 16);
    return end > static_cast<uint64_t>(begin) + at ? 0 : static_cast<int64_t>(size_bytes);
  }
  const auto record = Number<uint64_t>(tail, at - kLocatorBytes + 8);
  if (record > static_cast<uint64_t>(begin) + at ||
      begin + static_cast<int64_t>(at) - static_cast<int64_t>(record) < kEnd64Bytes) {
    return 0;
  }
  const std::string end64 = ReadAt(name, source, static_cast<int64_t>(record), kEnd64Bytes);
  const auto size_bytes = Number<uint64_t>(end64, 40);
  const auto offset = Number<uint64_t>(end64, 48);
  return offset > record || size_bytes > record - offset ? 0 : static_cast<int64_t>(size_bytes);
}

/// Returns the size of the largest directory that libzip may choose to read.
int64_t MaxDirectorySizeBytes(const std::string& name, zip_source_t* source, int64_t size_bytes) {
  if (zip_source_open(source) < 0) Throw(name, zip_source_error(source));
  const int64_t tail_bytes = std::min(size_bytes, kMaxTailBytes);
  const int64_t begin = size_bytes - tail_bytes;
  const std::string tail = ReadAt(name, source, begin, tail_bytes);
  int64_t most = 0;
  for (size_t at = tail.find(kEndMagic);
       at != tail.npos && static_cast<int64_t>(at) + kEndBytes <= tail_bytes;
       at = tail.find(kEndMagic, at + 1)) {
    most = std::max(most, DirectorySizeBytes(name, source, tail, begin, at));
  }
  const std::string first = ReadAt(name, source, 0, std::min<int64_t>(size_bytes, 64));
  zip_source_close(source);
  if (!first.starts_with("PK")) {
    const std::string_view foreign = DescribeForeignFile(first);
    throw DataLoss(name, ": not an .npz file", foreign.empty() ? "" : ", but ", foreign,
                   "; expected a zip archive");
  }
  return most;
}

}  // namespace

void ZipReader::Discard::operator()(zip* archive) const { zip_discard(archive); }
void ZipReader::Discard::operator()(zip_source* source) const { zip_source_free(source); }

ZipReader ZipReader::OpenFile(const std::string& operation, const std::string& path,
                              std::optional<int64_t> limit_bytes) {
  InputFile file(operation, path);
  FILE* const stream = fdopen(file.Release(), "rb");
  if (stream == nullptr) throw ResourceExhausted(file.name(), ": no memory to read it");
  Source source(zip_source_filep_create(stream, 0, -1, nullptr));
  if (source == nullptr) std::fclose(stream);
  return ZipReader(file.name(), std::move(source), file.size_bytes(), limit_bytes);
}

ZipReader ZipReader::OpenMemory(const std::string& operation, std::string_view bytes,
                                std::optional<int64_t> limit_bytes) {
  Source source(zip_source_buffer_create(bytes.data(), bytes.size(), /*freep=*/0, nullptr));
  return ZipReader(operation, std::move(source), static_cast<int64_t>(bytes.size()), limit_bytes);
}

ZipReader::ZipReader(std::string name, Source source, int64_t size_bytes,
                     std::optional<int64_t> limit_bytes)
    : name_(std::move(name)), size_bytes_(size_bytes) {
  if (source == nullptr) throw ResourceExhausted(name_, ": no memory to read it");
  // libzip 1.7 crashes if it reads an empty source.
  if (size_bytes < kEndBytes) {
    throw DataLoss(name_, ": not an .npz file: found ", size_bytes, " bytes, expected at least ",
                   kEndBytes);
  }
  const int64_t directory_bytes = MaxDirectorySizeBytes(name_, source.get(), size_bytes);
  const int64_t budget_bytes = 4 * size_bytes + kFreeBytes - kDirectoryFactor * directory_bytes;
  if (budget_bytes < 0) {
    throw ResourceExhausted(name_, ": found a directory of ", directory_bytes,
                            " bytes in an archive of ", size_bytes,
                            "; reading it would take too much memory");
  }
  zip_error_t error;
  zip_error_init(&error);
  archive_.reset(zip_open_from_source(source.get(), ZIP_RDONLY, &error));
  if (archive_ == nullptr) Throw(name_, &error);
  static_cast<void>(source.release());  // The archive owns it.
  const zip_int64_t count = zip_get_num_entries(archive_.get(), 0);
  RequireRoom(name_, static_cast<uint64_t>(count), size_bytes);
  ReadEntries(limit_bytes.value_or(std::max<int64_t>(budget_bytes - kArrayBytes * count, 0)));
}

void ZipReader::ReadEntries(int64_t budget_bytes) {
  const auto count = static_cast<uint64_t>(zip_get_num_entries(archive_.get(), 0));
  int64_t total_bytes = 0;
  for (uint64_t i = 0; i < count; ++i) {
    entries_.push_back(ReadEntry(i));
    const int64_t size_bytes = entries_.back().size_bytes;
    if (size_bytes > budget_bytes - total_bytes) {
      throw ResourceExhausted(name_, ": the entries up to \"", Excerpt(entries_.back().name),
                              "\" take more than ", budget_bytes,
                              " bytes when they are decompressed; if that is right, expected "
                              "NpzLimits with a higher limit");
    }
    total_bytes += size_bytes;
  }
}

ZipReader::Entry ZipReader::ReadEntry(uint64_t index) const {
  zip_stat_t status;
  zip_stat_init(&status);
  if (zip_stat_index(archive_.get(), index, 0, &status) < 0) {
    Throw(name_, zip_get_error(archive_.get()));
  }
  constexpr zip_uint64_t kNeeded =
      ZIP_STAT_NAME | ZIP_STAT_SIZE | ZIP_STAT_COMP_SIZE | ZIP_STAT_COMP_METHOD;
  if ((status.valid & kNeeded) != kNeeded) {
    throw DataLoss(name_, ": damaged: entry ", index, " has no name or no size");
  }
  Entry entry{.name = status.name};
  const std::string where = name_ + ": entry \"" + Excerpt(entry.name) + "\"";
  if ((status.valid & ZIP_STAT_ENCRYPTION_METHOD) != 0 && status.encryption_method != ZIP_EM_NONE) {
    throw Unimplemented(where, " is encrypted, which is not supported");
  }
  if (status.comp_method != ZIP_CM_STORE && status.comp_method != ZIP_CM_DEFLATE) {
    throw Unimplemented(where, " is compressed by method ", status.comp_method,
                        ", expected 0 (stored) or 8 (deflate)");
  }
  const bool fits =
      status.comp_size <= static_cast<uint64_t>(size_bytes_) &&
      (status.comp_method == ZIP_CM_STORE ? status.size == status.comp_size
                                          : status.size / kMaxDeflateRatio <= status.comp_size);
  if (!fits) {
    throw DataLoss(where, ": damaged: found ", status.comp_size,
                   " compressed bytes, which cannot "
                   "hold ",
                   status.size);
  }
  entry.size_bytes = static_cast<int64_t>(status.size);
  return entry;
}

ZipEntrySource::ZipEntrySource(const ZipReader& reader, size_t entry)
    : ByteSource(reader.name() + ": entry \"" + Excerpt(reader.entries()[entry].name) + "\"",
                 reader.entries()[entry].size_bytes),
      file_(zip_fopen_index(reader.archive_.get(), entry, 0)) {
  if (file_ == nullptr) Throw(name(), zip_get_error(reader.archive_.get()));
}

ZipEntrySource::~ZipEntrySource() { zip_fclose(file_); }

int64_t ZipEntrySource::ReadSome(char* data, int64_t size_bytes) {
  const zip_int64_t read = zip_fread(file_, data, static_cast<zip_uint64_t>(size_bytes));
  if (read < 0) Throw(name(), zip_file_get_error(file_));
  return read;
}

void ZipEntrySource::ReadNext(char* data, int64_t size_bytes) {
  while (size_bytes > 0) {
    const int64_t read = ReadSome(data, size_bytes);
    if (read == 0) {
      throw DataLoss(name(), ": damaged: ends ", size_bytes, " bytes before what was expected");
    }
    data += read;
    size_bytes -= read;
  }
}

void ZipEntrySource::RequireEnd() {
  // libzip verifies the checksum when it reaches the end.
  char more;
  if (ReadSome(&more, 1) != 0) {
    throw DataLoss(name(), ": damaged: found more than the ", size_bytes(), " bytes it declares");
  }
}

}  // namespace tessera::ndarray_internal
