#include "tessera/ndarray/npy.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>

#include "tessera/base/error.h"
#include "tessera/ndarray/files/array_size.h"
#include "tessera/ndarray/files/npy_format.h"
#include "tessera/ndarray/files/npy_header.h"

namespace tessera {
namespace ndarray_internal {
namespace {

/// Reverses the bytes of every element.
void SwapBytes(char* bytes, int64_t size_bytes, int64_t element_bytes) {
  for (char* const end = bytes + size_bytes; bytes != end; bytes += element_bytes) {
    std::reverse(bytes, bytes + element_bytes);
  }
}

/// Reads elements of which the first index varies fastest, into row-major order.
void ReadFortranOrder(ByteSource& source, const TShape& shape, int64_t element_bytes, char* to) {
  int64_t stride_bytes[TShape::kMaxRank];
  int64_t size_bytes = element_bytes;
  for (int i = shape.ndim() - 1; i >= 0; --i) {
    stride_bytes[i] = size_bytes;
    size_bytes *= shape[i];
  }
  index_t index[TShape::kMaxRank] = {};
  char buffer[1 << 14];  // Every element's size divides its size.
  while (size_bytes > 0) {
    const int64_t piece = std::min<int64_t>(size_bytes, sizeof(buffer));
    source.Read(buffer, piece);
    size_bytes -= piece;
    for (int64_t at = 0; at < piece; at += element_bytes) {
      std::memcpy(to, buffer + at, static_cast<size_t>(element_bytes));
      for (int i = 0; i < shape.ndim(); ++i) {
        to += stride_bytes[i];
        if (++index[i] < shape[i]) break;
        to -= stride_bytes[i] * shape[i];
        index[i] = 0;
      }
    }
  }
}

/// Returns the size of the elements. Throws unless they are the rest of the source.
int64_t RequireElements(const ByteSource& source, const NpyHeader& header) {
  const std::optional<int64_t> size_bytes = ElementsSizeBytes(header.extents, header.dtype);
  if (!size_bytes || *size_bytes != source.left()) {
    throw DataLoss(source.name(), ": damaged at byte ", source.offset(), ": found ", source.left(),
                   " more bytes, expected ", size_bytes ? std::to_string(*size_bytes) : "too many",
                   " for the elements of shape ", ShapeText(header.extents), " of ", header.dtype);
  }
  if (header.extents.size() > TShape::kMaxRank) {
    throw Unimplemented(source.name(), ": rank ", header.extents.size(),
                        " is not supported, at most ", TShape::kMaxRank);
  }
  return *size_bytes;
}

}  // namespace

NDArray ReadNpy(ByteSource& source) {
  const NpyHeader header = ReadNpyHeader(source);
  const int64_t begin = source.offset();
  // The elements' size is checked before the array allocates memory.
  const int64_t size_bytes = RequireElements(source, header);
  const int64_t element_bytes = DTypeSizeBytes(header.dtype);
  NDArray array(TShape(std::span(header.extents)), Device::Cpu(), header.dtype);
  // No operation uses the new array yet, so its memory may be written.
  auto* const bytes = static_cast<char*>(array.data().dptr_);
  if (header.is_fortran_order && header.extents.size() > 1 && size_bytes > 0) {
    ReadFortranOrder(source, array.shape(), element_bytes, bytes);
  } else {
    source.Read(bytes, size_bytes);
  }
  if (header.is_big_endian) SwapBytes(bytes, size_bytes, element_bytes);
  if (header.dtype == DType::kBool && FindNoBoolean(bytes, size_bytes)) {
    throw DataLoss(source.name(), ": damaged: found a byte other than 0 and 1 after byte ", begin,
                   " as a boolean");
  }
  return array;
}

void WriteNpy(const std::string& name, const NDArray& array, ByteSink& sink) {
  sink.WriteText(FormatNpyHeader(name, array.dtype(), array.shape()));
  WriteElements(array, sink);
}

}  // namespace ndarray_internal

namespace {

using namespace ndarray_internal;  // NOLINT

/// Waits for the array and throws its errors.
void RequireWritable(const std::string& name, const NDArray& array) {
  if (array.is_none()) throw InvalidArgument(name, ": found no array (is_none())");
  FormatNpyHeader(name, array.dtype(), array.shape());
  array.WaitToRead();
}

}  // namespace

void SaveNpy(const std::string& path, const NDArray& array) {
  const std::string name = "SaveNpy: " + path;
  RequireWritable(name, array);
  FileSink sink("SaveNpy", path);
  WriteNpy(name, array, sink);
  sink.Commit();
}

std::string SerializeNpy(const NDArray& array) {
  RequireWritable("SerializeNpy", array);
  StringSink sink;
  WriteNpy("SerializeNpy", array, sink);
  return std::move(sink.bytes());
}

NDArray LoadNpy(const std::string& path) {
  FileSource source("LoadNpy", path);
  return ReadNpy(source);
}

NDArray DeserializeNpy(std::string_view bytes) {
  MemorySource source("DeserializeNpy", bytes);
  return ReadNpy(source);
}

}  // namespace tessera
