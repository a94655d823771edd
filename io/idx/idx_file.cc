#include "tessera/io/idx_file.h"

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <cstddef>
#include <filesystem>
#include <new>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/base/checked_size.h"
#include "tessera/base/foreign_file.h"
#include "tessera/io/internal/byte_source.h"

namespace tessera {
namespace {

using io_internal::ByteSource;

/// Returns the element type of a code.
std::optional<DType> DTypeFromCode(uint8_t code) {
  switch (code) {
    case 0x08:
      return DType::kUint8;
    case 0x09:
      return DType::kInt8;
    case 0x0b:
      return DType::kInt16;
    case 0x0c:
      return DType::kInt32;
    case 0x0d:
      return DType::kFloat32;
    case 0x0e:
      return DType::kFloat64;
    default:
      return std::nullopt;
  }
}

uint32_t BigEndian32(const uint8_t* bytes) {
  return uint32_t{bytes[0]} << 24 | uint32_t{bytes[1]} << 16 | uint32_t{bytes[2]} << 8 | bytes[3];
}

std::string Hex(uint32_t value) {
  constexpr int kDigits = 8;
  char digits[kDigits];
  const std::string hex(digits, std::to_chars(digits, digits + kDigits, value, 16).ptr);
  return "0x" + std::string(kDigits - hex.size(), '0') + hex;
}

/// Fills `out`, part of the header. Throws if the source ends.
void ReadHeader(ByteSource& source, std::span<uint8_t> out, int64_t offset, std::string_view name) {
  const int64_t count = source.Read(out);
  if (count < static_cast<int64_t>(out.size())) {
    throw DataLoss(name, ": truncated header: found ", offset + count, " bytes, expected at least ",
                   offset + static_cast<int64_t>(out.size()), " of an IDX file");
  }
}

/// Reads type and extents, and returns the size of the elements in bytes.
int64_t ParseHeader(ByteSource& source, std::string_view name, HostArray* array) {
  std::array<uint8_t, 4> magic;
  ReadHeader(source, magic, 0, name);
  const std::optional<DType> dtype = DTypeFromCode(magic[2]);
  const int rank = magic[3];
  if (magic[0] != 0 || magic[1] != 0 || !dtype || rank < 1 || rank > TShape::kMaxRank) {
    std::string beginning(magic.begin(), magic.end());
    std::array<uint8_t, 60> more;
    const auto count = static_cast<std::ptrdiff_t>(source.Read(more));
    beginning.append(more.begin(), more.begin() + count);
    const std::string_view foreign = DescribeForeignFile(beginning);
    if (!foreign.empty()) throw DataLoss(name, ": not an IDX file, but ", foreign);
    throw DataLoss(
        name, ": wrong magic number ", Hex(BigEndian32(magic.data())),
        "; expected that of an IDX file, such as 0x00000803 for images or 0x00000801 for "
        "labels");
  }
  array->dtype = *dtype;
  array->shape = TShape::OfRank(rank);
  CheckedSize size_bytes = DTypeSizeBytes(*dtype);
  for (int i = 0; i < rank; ++i) {
    std::array<uint8_t, 4> extent;
    ReadHeader(source, extent, 4 + 4 * i, name);
    array->shape[i] = BigEndian32(extent.data());
    size_bytes = size_bytes * array->shape[i];
  }
  if (!size_bytes.valid()) {
    throw DataLoss(name, ": impossible shape ", array->shape, " of ", array->dtype,
                   "; expected a size below 2^63 bytes");
  }
  return *size_bytes.value();
}

/// Reads exactly the elements. The memory doubles as they are read, so that a header alone cannot
/// make it large.
void ReadElements(ByteSource& source, std::string_view name, int64_t size_bytes, HostArray* array) {
  constexpr int64_t kFirstBytes = 1 << 16;
  const int64_t header_bytes = 4 + 4 * array->shape.ndim();
  std::vector<uint8_t>& bytes = array->bytes;
  int64_t found = 0;
  while (found < size_bytes) {
    const int64_t wanted = std::min(size_bytes, std::max(kFirstBytes, 2 * found));
    bytes.resize(static_cast<size_t>(wanted));
    found += source.Read(std::span(bytes).subspan(static_cast<size_t>(found)));
    if (found < wanted) {
      throw DataLoss(name, ": truncated: found ", header_bytes + found, " bytes, expected ",
                     header_bytes + size_bytes, " for shape ", array->shape, " of ", array->dtype);
    }
  }
  // At most one byte after the elements is decompressed.
  const std::optional<int64_t> left = source.BytesLeft();
  std::array<uint8_t, 1> more;
  if (source.Read(more) != 0) {
    throw DataLoss(name, ": too long: found ",
                   left ? std::to_string(header_bytes + size_bytes + *left) : "more",
                   " bytes, expected ", header_bytes + size_bytes, " for shape ", array->shape,
                   " of ", array->dtype);
  }
}

void FromBigEndian(HostArray* array) {
  const int64_t element_bytes = DTypeSizeBytes(array->dtype);
  if (element_bytes == 1 || std::endian::native == std::endian::big) return;
  for (auto at = array->bytes.begin(); at != array->bytes.end(); at += element_bytes) {
    std::reverse(at, at + element_bytes);
  }
}

HostArray Parse(ByteSource& source, std::string_view name) {
  HostArray array;
  const int64_t size_bytes = ParseHeader(source, name, &array);
  try {
    ReadElements(source, name, size_bytes, &array);
  } catch (const std::bad_alloc&) {
    throw ResourceExhausted(name, ": no memory for its ", size_bytes, " bytes of elements");
  }
  FromBigEndian(&array);
  return array;
}

}  // namespace

HostArray ReadIdxFile(const std::string& path) { return Parse(*io_internal::OpenFile(path), path); }

HostArray ParseIdx(std::span<const uint8_t> contents, std::string_view name) {
  return Parse(*io_internal::OpenMemory(contents, std::string(name)), name);
}

std::string FindIdxFile(const std::string& folder, const std::string& name) {
  const std::string plain = (std::filesystem::path(folder) / name).string();
  const std::string packed = plain + ".gz";
  for (const std::string& path : {plain, packed}) {
    std::error_code failed;
    if (std::filesystem::exists(path, failed)) return path;
    if (failed) {
      throw FailedPrecondition(plain, ", or ", packed,
                               ": cannot be looked for: ", failed.message());
    }
  }
  throw NotFound(plain, ": there is no such file, nor ", packed, "; expected an IDX file");
}

}  // namespace tessera
