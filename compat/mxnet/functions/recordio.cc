// RecordIO files. Functions of MXNet's C API; see types.h.
#include <cstddef>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>

#include "tessera/base/error.h"
#include "tessera/compat/mxnet/core/api_call.h"
#include "tessera/compat/mxnet/core/handle_table.h"
#include "tessera/compat/mxnet/core/types.h"
#include "tessera/io/record_reader.h"
#include "tessera/io/record_writer.h"

namespace tessera::mxnet {
namespace {

Handles<RecordReader>& Readers() {
  static auto* const readers = new Handles<RecordReader>("a reader of records", 40);
  return *readers;
}

Handles<std::unique_ptr<RecordWriter>>& Writers() {
  static auto* const writers =
      new Handles<std::unique_ptr<RecordWriter>>("a writer of records", 41);
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
    *out = Readers().Add(RecordReader(NotNull(uri, "uri")));
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
    // The reader keeps the bytes until it reads again. A null pointer stands for the end.
    const std::optional<std::string_view> record = Readers().Get(handle)->ReadRecord();
    *buf = record ? record->data() : nullptr;
    *size = record ? record->size() : 0;
  });
}

TESSERA_MXNET_API int MXRecordIOReaderSeek(RecordIOHandle handle, size_t pos) {
  return ApiCall([&] { Readers().Get(handle)->Seek(static_cast<int64_t>(pos)); });
}

TESSERA_MXNET_API int MXRecordIOReaderTell(RecordIOHandle handle, size_t* pos) {
  return ApiCall(
      [&] { *NotNull(pos, "pos") = static_cast<size_t>(Readers().Get(handle)->Tell()); });
}

TESSERA_MXNET_API int MXRecordIOWriterCreate(const char* uri, RecordIOHandle* out) {
  return ApiCall([&] {
    NotNull(out, "out");
    *out = Writers().Add(std::make_unique<RecordWriter>(NotNull(uri, "uri")));
  });
}

TESSERA_MXNET_API int MXRecordIOWriterFree(RecordIOHandle handle) {
  return ApiCall([&] {
    const auto writer = Writers().Get(handle);
    Writers().Remove(handle);
    (*writer)->Close();
  });
}

TESSERA_MXNET_API int MXRecordIOWriterWriteRecord(RecordIOHandle handle, const char* buf,
                                                  size_t size) {
  return ApiCall([&] {
    const std::span<const char> record = ListOf(buf, size, "buf");
    (*Writers().Get(handle))->WriteRecord({record.data(), record.size()});
  });
}

TESSERA_MXNET_API int MXRecordIOWriterTell(RecordIOHandle handle, size_t* pos) {
  return ApiCall(
      [&] { *NotNull(pos, "pos") = static_cast<size_t>((*Writers().Get(handle))->Tell()); });
}
