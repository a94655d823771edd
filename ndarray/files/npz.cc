// Reads and writes `.npz` files: zip archives of `.npy` files.

#include <zip.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <exception>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tessera/base/error.h"
#include "tessera/base/quote.h"
#include "tessera/ndarray/files/byte_sink.h"
#include "tessera/ndarray/files/npy_format.h"
#include "tessera/ndarray/files/npy_header.h"
#include "tessera/ndarray/files/zip_reader.h"
#include "tessera/ndarray/npy.h"

namespace tessera {
namespace {

using namespace ndarray_internal;  // NOLINT

constexpr std::string_view kSuffix = ".npy";

std::vector<NamedArray> ReadNpz(const ZipReader& reader) {
  std::vector<NamedArray> arrays;
  std::set<std::string_view> names;
  for (size_t i = 0; i < reader.entries().size(); ++i) {
    const std::string_view name = reader.entries()[i].name;
    if (!name.ends_with(kSuffix)) {
      throw Unimplemented(reader.name(), ": entry \"", Excerpt(name),
                          "\" is no array; expected a name that ends with .npy");
    }
    if (!names.insert(name).second) {
      throw DataLoss(reader.name(), ": damaged: found the entry \"", Excerpt(name),
                     "\" a second time");
    }
    ZipEntrySource source(reader, i);
    NDArray array = ReadNpy(source);
    source.RequireEnd();
    arrays.push_back({std::string(name.substr(0, name.size() - kSuffix.size())), std::move(array)});
  }
  return arrays;
}

/// An array that libzip reads as the bytes of an `.npy` file. They exist only while it reads them.
class EntryWriter {
 public:
  EntryWriter(const std::string& name, const NDArray& array) : name_(name), array_(array) {
    zip_error_init(&error_);
  }
  EntryWriter(const EntryWriter&) = delete;
  EntryWriter& operator=(const EntryWriter&) = delete;

  /// Answers libzip. `self` is an EntryWriter.
  static zip_int64_t Call(void* self, void* data, zip_uint64_t size, zip_source_cmd_t command) {
    return static_cast<EntryWriter*>(self)->Answer(data, size, command);
  }

  /// Rethrows an exception that was thrown during a call.
  void Rethrow() const {
    if (failure_ != nullptr) std::rethrow_exception(failure_);
  }

 private:
  zip_int64_t Answer(void* data, zip_uint64_t size, zip_source_cmd_t command) {
    switch (command) {
      case ZIP_SOURCE_OPEN:
        return Open();
      case ZIP_SOURCE_READ: {
        const size_t piece = std::min<size_t>(size, sink_.bytes().size() - next_);
        std::memcpy(data, sink_.bytes().data() + next_, piece);
        next_ += piece;
        return static_cast<zip_int64_t>(piece);
      }
      case ZIP_SOURCE_CLOSE:
        sink_ = StringSink();
        return 0;
      case ZIP_SOURCE_STAT:
        return Describe(static_cast<zip_stat_t*>(data), size);
      case ZIP_SOURCE_ERROR:
        return zip_error_to_data(&error_, data, size);
      case ZIP_SOURCE_FREE:
        return 0;
      case ZIP_SOURCE_SUPPORTS:
        return zip_source_make_command_bitmap(ZIP_SOURCE_OPEN, ZIP_SOURCE_READ, ZIP_SOURCE_CLOSE,
                                              ZIP_SOURCE_STAT, ZIP_SOURCE_ERROR, ZIP_SOURCE_FREE,
                                              -1);
      default:
        zip_error_set(&error_, ZIP_ER_OPNOTSUPP, 0);
        return -1;
    }
  }

  zip_int64_t Open() {
    try {
      WriteNpy(name_, array_, sink_);
      next_ = 0;
      return 0;
    } catch (...) {
      // No exception may pass through C.
      failure_ = std::current_exception();
      zip_error_set(&error_, ZIP_ER_INTERNAL, 0);
      return -1;
    }
  }

  zip_int64_t Describe(zip_stat_t* status, zip_uint64_t size) {
    if (size < sizeof(*status)) return -1;
    zip_stat_init(status);
    // The size tells libzip which arrays need the fields for large ones.
    const std::string header = FormatNpyHeader(name_, array_.dtype(), array_.shape());
    status->size = header.size() +
                   static_cast<uint64_t>(array_.shape().Size() * DTypeSizeBytes(array_.dtype()));
    status->valid = ZIP_STAT_SIZE;
    return sizeof(*status);
  }

  const std::string& name_;
  const NDArray& array_;
  StringSink sink_;
  size_t next_ = 0;
  zip_error_t error_;
  std::exception_ptr failure_;
};

/// An archive that is made in memory.
class ZipWriter {
 public:
  /// `name` begins every error.
  explicit ZipWriter(const std::string& name) : name_(name) {
    zip_error_t error;
    zip_error_init(&error);
    source_.reset(zip_source_buffer_create(nullptr, 0, 0, &error));
    if (source_ == nullptr) Fail(&error);
    archive_ = zip_open_from_source(source_.get(), ZIP_CREATE | ZIP_TRUNCATE, &error);
    if (archive_ == nullptr) Fail(&error);
    zip_source_keep(source_.get());  // The archive frees its own reference.
  }
  ~ZipWriter() {
    if (archive_ != nullptr) zip_discard(archive_);
  }
  ZipWriter(const ZipWriter&) = delete;
  ZipWriter& operator=(const ZipWriter&) = delete;

  void Add(const NamedArray& entry, NpzCompression compression) {
    entries_.push_back(std::make_unique<EntryWriter>(name_, entry.array));
    zip_source_t* const source =
        zip_source_function(archive_, &EntryWriter::Call, entries_.back().get());
    if (source == nullptr) Fail(zip_get_error(archive_));
    const std::string file = entry.name + std::string(kSuffix);
    const zip_int64_t index = zip_file_add(archive_, file.c_str(), source, ZIP_FL_ENC_UTF_8);
    if (index < 0) {
      zip_source_free(source);
      if (zip_error_code_zip(zip_get_error(archive_)) == ZIP_ER_INVAL) {
        throw InvalidArgument(name_, ": the name \"", Excerpt(entry.name), "\" is not UTF-8");
      }
      Fail(zip_get_error(archive_));
    }
    const auto position = static_cast<zip_uint64_t>(index);
    constexpr zip_uint16_t kFirstOfJanuary1980 = 1 << 5 | 1;
    const zip_int32_t method =
        compression == NpzCompression::kDeflated ? ZIP_CM_DEFLATE : ZIP_CM_STORE;
    if (zip_set_file_compression(archive_, position, method, 0) < 0 ||
        zip_file_set_dostime(archive_, position, 0, kFirstOfJanuary1980, 0) < 0) {
      Fail(zip_get_error(archive_));
    }
  }

  /// Writes the archive to the sink.
  void Finish(ByteSink& sink) {
    if (entries_.empty()) {
      // libzip makes no archive without entries: an end record alone.
      sink.WriteText(std::string("PK\5\6").append(18, '\0'));
      return;
    }
    if (zip_close(archive_) < 0) {
      for (const auto& entry : entries_) entry->Rethrow();
      Fail(zip_get_error(archive_));
    }
    archive_ = nullptr;
    if (zip_source_open(source_.get()) < 0) Fail(zip_source_error(source_.get()));
    char buffer[1 << 14];
    for (;;) {
      const zip_int64_t read = zip_source_read(source_.get(), buffer, sizeof(buffer));
      if (read < 0) Fail(zip_source_error(source_.get()));
      if (read == 0) break;
      sink.Write(buffer, read);
    }
    zip_source_close(source_.get());
  }

 private:
  struct Free {
    void operator()(zip_source_t* source) const { zip_source_free(source); }
  };

  [[noreturn]] void Fail(zip_error_t* error) const {
    throw ResourceExhausted(name_, ": the archive cannot be made: ", zip_error_strerror(error));
  }

  const std::string& name_;
  std::vector<std::unique_ptr<EntryWriter>> entries_;
  std::unique_ptr<zip_source_t, Free> source_;
  zip_t* archive_ = nullptr;
};

void WriteNpz(const std::string& name, std::span<const NamedArray> arrays,
              NpzCompression compression, ByteSink& sink) {
  ZipWriter archive(name);
  for (const NamedArray& entry : arrays) archive.Add(entry, compression);
  archive.Finish(sink);
}

/// Waits for the arrays and throws their errors. `name` begins the errors of the list.
void RequireWritable(const std::string& name, std::span<const NamedArray> arrays) {
  std::set<std::string_view> names;
  for (const NamedArray& entry : arrays) {
    if (const size_t zero = entry.name.find('\0'); zero != std::string::npos) {
      throw InvalidArgument(name, ": found a zero byte in a name, after \"",
                            Excerpt(entry.name.substr(0, zero)), "\"");
    }
    const std::string where = name + ": entry \"" + Excerpt(entry.name) + "\"";
    if (entry.array.is_none()) throw InvalidArgument(where, " is no array (is_none())");
    if (!names.insert(entry.name).second) {
      throw InvalidArgument(where, " exists twice; expected distinct names");
    }
    FormatNpyHeader(where, entry.array.dtype(), entry.array.shape());
  }
  for (const NamedArray& entry : arrays) entry.array.WaitToRead();
}

}  // namespace

std::vector<NamedArray> LoadNpz(const std::string& path, const NpzLimits& limits) {
  return ReadNpz(ZipReader::OpenFile("LoadNpz", path, limits.size_bytes));
}

std::vector<NamedArray> DeserializeNpz(std::string_view bytes, const NpzLimits& limits) {
  return ReadNpz(ZipReader::OpenMemory("DeserializeNpz", bytes, limits.size_bytes));
}

void SaveNpz(const std::string& path, std::span<const NamedArray> arrays,
             NpzCompression compression) {
  const std::string name = "SaveNpz: " + path;
  RequireWritable(name, arrays);
  FileSink sink("SaveNpz", path);
  WriteNpz(name, arrays, compression, sink);
  sink.Commit();
}

std::string SerializeNpz(std::span<const NamedArray> arrays, NpzCompression compression) {
  RequireWritable("SerializeNpz", arrays);
  StringSink sink;
  WriteNpz("SerializeNpz", arrays, compression, sink);
  return std::move(sink.bytes());
}

}  // namespace tessera
