// RecordIO files. Functions of MXNet's C API; see types.h.
#include <atomic>
#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "tessera/base/error.h"
#include "tessera/compat/mxnet/core/api_call.h"
#include "tessera/compat/mxnet/core/exclusive_use.h"
#include "tessera/compat/mxnet/core/handle_table.h"
#include "tessera/compat/mxnet/core/types.h"
#include "tessera/io/record_reader.h"
#include "tessera/io/record_writer.h"

namespace tessera::mxnet {
namespace {

/// A reader or a writer of records.
template <typename File>
class ApiFile {
 public:
  explicit ApiFile(const char* uri) : file_(uri) {}

  /// Returns visit(file). Throws Error(kFailedPrecondition) if another call uses the file.
  template <typename Visit>
  auto Use(const Visit& visit) {
    const ExclusiveUse use(&in_use_,
                           "the RecordIO file is used by another call; expected calls that follow "
                           "each other, or a reader for each thread");
    return visit(file_);
  }

 private:
  File file_;
  std::atomic<bool> in_use_{false};
};

using ApiReader = ApiFile<RecordReader>;
using ApiWriter = ApiFile<RecordWriter>;

Handles<ApiReader>& Readers() {
  static auto* const readers = new Handles<ApiReader>("a reader of records", 40);
  return *readers;
}

Handles<ApiWriter>& Writers() {
  static auto* const writers = new Handles<ApiWriter>("a writer of records", 41);
  return *writers;
}

}  // namespace
}  // namespace tessera::mxnet

using tessera::RecordReader;
using tessera::RecordWriter;
using namespace tessera::mxnet;  // NOLINT: the bodies of this file

TESSERA_MXNET_API int MXRecordIOReaderCreate(const char* uri, RecordIOHandle* out) {
  return ApiCall([&] {
    NotNull(out, "out");
    *out = Readers().Add(std::make_shared<ApiReader>(NotNull(uri, "uri")));
  });
}

TESSERA_MXNET_API int MXRecordIOReaderFree(RecordIOHandle handle) {
  return ApiCall([&] { Readers().Remove(handle); });
}

TESSERA_MXNET_API int MXRecordIOReaderReadRecord(RecordIOHandle handle, const char** buf,
                                                 size_t* size) {
  return ApiCall([&] {
    NotNull(buf, "buf");
    NotNull(size, "size");
    // A copy, because other threads may read on. A null pointer stands for the end.
    auto record = Readers().Get(handle)->Use([](RecordReader& reader) {
      const std::optional<std::string_view> bytes = reader.ReadRecord();
      return bytes ? std::optional<std::string>(*bytes) : std::nullopt;
    });
    *size = record ? record->size() : 0;
    *buf = record ? Results::OfThread().Keep(std::move(*record)) : nullptr;
  });
}

TESSERA_MXNET_API int MXRecordIOReaderSeek(RecordIOHandle handle, size_t pos) {
  return ApiCall([&] {
    Readers().Get(handle)->Use(
        [&](RecordReader& reader) { reader.Seek(static_cast<int64_t>(pos)); });
  });
}

TESSERA_MXNET_API int MXRecordIOReaderTell(RecordIOHandle handle, size_t* pos) {
  return ApiCall([&] {
    NotNull(pos, "pos");
    *pos = static_cast<size_t>(
        Readers().Get(handle)->Use([](RecordReader& reader) { return reader.Tell(); }));
  });
}

TESSERA_MXNET_API int MXRecordIOWriterCreate(const char* uri, RecordIOHandle* out) {
  return ApiCall([&] {
    NotNull(out, "out");
    *out = Writers().Add(std::make_shared<ApiWriter>(NotNull(uri, "uri")));
  });
}

TESSERA_MXNET_API int MXRecordIOWriterFree(RecordIOHandle handle) {
  return ApiCall([&] {
    Writers().Get(handle)->Use([&](RecordWriter& writer) {
      Writers().Remove(handle);
      writer.Close();
    });
  });
}

TESSERA_MXNET_API int MXRecordIOWriterWriteRecord(RecordIOHandle handle, const char* buf,
                                                  size_t size) {
  return ApiCall([&] {
    const std::span<const char> record = ListOf(buf, size, "buf");
    Writers().Get(handle)->Use([&](RecordWriter& writer) {
      writer.WriteRecord({record.data(), record.size()});
    });
  });
}

TESSERA_MXNET_API int MXRecordIOWriterTell(RecordIOHandle handle, size_t* pos) {
  return ApiCall([&] {
    NotNull(pos, "pos");
    *pos = static_cast<size_t>(
        Writers().Get(handle)->Use([](RecordWriter& writer) { return writer.Tell(); }));
  });
}
