// MXNet's `.params` files. All numbers are little-endian.
//
//   file    u64 0x112, u64 reserved 0, u64 number of arrays, arrays,
//           u64 number of names (that of arrays, or 0), names,
//           from Tessera: u32 0x54534744, u64 digest (or neither),
//                         u32 0x4b434843, u32 CRC-32 of all bytes before these eight
//   name    u64 length, bytes
//   array   V0  u32 rank, u32 extents[rank], context, type, elements
//           V1  u32 0xf993fac8, shape, context, type, elements
//           V2  u32 0xf993fac9, i32 storage type, [shape of the stored elements,] shape, context,
//               type, [auxiliary types and shapes,] elements[, auxiliary elements]
//           V3  u32 0xf993faca, the rest as V2
//   shape   i32 rank, i64 extents[rank]
//   context i32 device type, i32 device number
//   type    i32, the numbers of DType
//
// Up to V2 an array of rank 0 is one without a shape, and ends after the rank; in V3 that is rank
// -1, and rank 0 is a scalar. Storage type 0 is dense. Storage types 1 (row_sparse) and 2 (csr) are
// sparse and have the fields in brackets: one auxiliary array (rows) or two (row ends, columns).
// Source: MXNet 1.9.1, src/ndarray/ndarray.cc (Save, Load, LegacyLoad).

#include "tessera/ndarray/serialization.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>
#include <memory>
#include <optional>
#include <ostream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tessera/base/atomic_file.h"
#include "tessera/base/checked_size.h"
#include "tessera/base/error.h"
#include "tessera/base/foreign_file.h"
#include "tessera/base/quote.h"
#include "tessera/ndarray/params_format.h"

namespace tessera {
namespace {

static_assert(std::endian::native == std::endian::little,
              "the format is little-endian; this host would need to swap bytes");

using ndarray_internal::ByteSource;

constexpr uint64_t kListMagic = 0x112;
constexpr uint32_t kMagicV1 = 0xf993fac8;
constexpr uint32_t kMagicV2 = 0xf993fac9;
constexpr uint32_t kMagicV3 = 0xf993faca;
// "CHCK". MXNet reads no further than the names, so a file may have more data after them.
constexpr uint32_t kChecksumMagic = 0x4b434843;
constexpr int64_t kChecksumBytes = 2 * sizeof(uint32_t);
// "DGST"
constexpr uint32_t kDigestMagic = 0x54534744;
constexpr int64_t kDigestBytes = sizeof(uint32_t) + sizeof(uint64_t);
constexpr int32_t kUndefinedStorage = -1;
constexpr int32_t kDenseStorage = 0;
constexpr int32_t kCsrStorage = 2;
// NumPy's limit, which MXNet's arrays have as well.
constexpr int32_t kMaxRank = 32;

/// A number that errors print as the format's description does.
struct Hex {
  uint64_t value;
};
std::ostream& operator<<(std::ostream& os, Hex hex) {
  return os << "0x" << std::hex << hex.value << std::dec;
}

/// The CRC-32 of the added bytes.
class Checksum {
 public:
  void Add(const void* data, int64_t size_bytes) {
    // zlib restarts if the address is null, which an empty range may have.
    if (size_bytes == 0) return;
    value_ = crc32_z(value_, static_cast<const Bytef*>(data), static_cast<size_t>(size_bytes));
  }
  uint32_t value() const { return static_cast<uint32_t>(value_); }

 private:
  uLong value_ = crc32_z(0, nullptr, 0);
};

/// Reads and checks values, and knows the offset of each.
class Parser {
 public:
  explicit Parser(ByteSource& source) : source_(source) {}

  std::map<std::string, NDArray> ReadFile(std::vector<LeftOutArray>* left_out);

  /// Returns the file's digest, after ReadFile.
  std::optional<uint64_t> digest() const { return digest_; }

 private:
  /// The shape and type of a block of elements. The rank may be above TShape's limit.
  struct Block {
    std::vector<index_t> extents;
    DType dtype = DType::kUnknown;
  };

  /// Returns an array, or why an NDArray cannot hold it.
  std::pair<NDArray, std::string> ReadArray();
  void SkipSparse(Block data, int num_aux);
  std::vector<index_t> ReadExtents(uint32_t magic, bool* has_shape);
  void ReadContext();
  DType ReadType();
  int64_t RequireElements(const Block& block);
  void ReadElements(const Block& block, NDArray* array);
  std::string ReadName();
  [[noreturn]] void FailAtMagicNumber(uint64_t magic);
  void ReadChecksum(const std::string& last_name);
  uint64_t ReadCount(const char* what, int64_t least_bytes_each);

  int64_t left() const { return source_.size_bytes() - offset_; }

  void ReadBytes(void* data, int64_t size_bytes, const char* what) {
    Require(size_bytes, what);
    source_.Read(data, size_bytes);
    checksum_.Add(data, size_bytes);
    offset_ += size_bytes;
  }
  void SkipBytes(int64_t size_bytes) {
    char block[1 << 12];
    while (size_bytes > 0) {
      const int64_t piece = std::min<int64_t>(size_bytes, sizeof(block));
      ReadBytes(block, piece, "the elements");
      size_bytes -= piece;
    }
  }
  template <typename T>
  T ReadNumber(const char* what) {
    T value;
    begin_ = offset_;
    ReadBytes(&value, sizeof(value), what);
    return value;
  }
  void Require(int64_t size_bytes, const char* what) {
    if (size_bytes > left()) {
      begin_ = offset_;
      Fail("found ", left(), " more bytes, expected ", size_bytes, " for ", what);
    }
  }

  /// Throws an error at the offset of the last value.
  template <typename... Pieces>
  [[noreturn]] void Fail(const Pieces&... pieces) const {
    throw DataLoss(source_.name(), ": damaged at byte ", begin_, Where{array_}, ": ", pieces...);
  }

  struct Where {
    int64_t array;
    friend std::ostream& operator<<(std::ostream& os, Where where) {
      return where.array < 0 ? os : os << " (array " << where.array << ")";
    }
  };

  ByteSource& source_;
  Checksum checksum_;
  int64_t offset_ = 0;
  int64_t begin_ = 0;
  int64_t array_ = -1;
  std::optional<uint64_t> digest_;
};

std::map<std::string, NDArray> Parser::ReadFile(std::vector<LeftOutArray>* left_out) {
  const auto magic = ReadNumber<uint64_t>("the file's magic number");
  if (magic != kListMagic) FailAtMagicNumber(magic);
  const auto reserved = ReadNumber<uint64_t>("the reserved field");
  if (reserved != 0) Fail("found ", Hex{reserved}, ", expected 0 in the reserved field");

  // An array of V0 without a shape has 4 bytes, and a name has at least its length.
  const uint64_t num_arrays = ReadCount("arrays", 4);
  std::vector<NDArray> arrays;
  std::map<uint64_t, std::string> reasons;  // why arrays are left out, by number
  for (uint64_t i = 0; i < num_arrays; ++i) {
    array_ = static_cast<int64_t>(i);
    auto [array, reason] = ReadArray();
    arrays.push_back(std::move(array));
    if (!reason.empty()) reasons.emplace(i, std::move(reason));
  }
  array_ = -1;
  const uint64_t num_names = ReadCount("names", 8);
  if (num_names != 0 && num_names != num_arrays) {
    Fail("found ", num_names, " names for ", num_arrays, " arrays");
  }
  std::map<std::string, NDArray> named;
  std::vector<LeftOutArray> unsupported;
  std::string last_name;
  for (uint64_t i = 0; i < num_arrays; ++i) {
    const int64_t begin = offset_;
    last_name = num_names == 0 ? std::to_string(i) : ReadName();
    const auto [entry, is_new] = named.emplace(last_name, std::move(arrays[i]));
    if (!is_new) {
      begin_ = begin;
      Fail("found the name \"", Excerpt(last_name), "\" a second time");
    }
    if (const auto reason = reasons.find(i); reason != reasons.end()) {
      unsupported.push_back({last_name, std::move(reason->second)});
    }
  }
  ReadChecksum(last_name);
  for (const LeftOutArray& array : unsupported) named.erase(array.name);
  if (left_out != nullptr) {
    *left_out = std::move(unsupported);
  } else if (!unsupported.empty()) {
    std::vector<std::string> names;
    for (const LeftOutArray& array : unsupported) names.push_back("\"" + array.name + "\"");
    throw Unimplemented(source_.name(), ": cannot load ", ListNames(names), ": ",
                        unsupported[0].reason,
                        "; LoadNDArrays with a list for what it leaves out "
                        "returns the other arrays");
  }
  return named;
}

void Parser::FailAtMagicNumber(uint64_t magic) {
  std::string bytes(reinterpret_cast<const char*>(&magic), sizeof(magic));
  bytes.resize(static_cast<size_t>(std::min<int64_t>(source_.size_bytes(), 64)));
  source_.Read(bytes.data() + sizeof(magic), static_cast<int64_t>(bytes.size() - sizeof(magic)));
  std::string_view foreign = DescribeForeignFile(bytes);
  if (bytes.starts_with('{')) foreign = "a JSON text, such as a network's";
  if (!foreign.empty()) throw DataLoss(source_.name(), ": not a .params file, but ", foreign);
  Fail("found magic number ", Hex{magic}, ", expected ", Hex{kListMagic},
       ", as in every .params file");
}

void Parser::ReadChecksum(const std::string& last_name) {
  begin_ = offset_;
  const int64_t more = left();
  if (more == 0) {
    // MXNet writes no checksum. A name with a damaged length may also have swallowed it.
    const size_t at = last_name.rfind(
        std::string_view(reinterpret_cast<const char*>(&kChecksumMagic), sizeof(kChecksumMagic)));
    if (at != std::string::npos && at + kChecksumBytes == last_name.size()) {
      Fail("found the last name to contain the checksum");
    }
    return;
  }
  bool is_known = more == kChecksumBytes || more == kDigestBytes + kChecksumBytes;
  if (is_known && more > kChecksumBytes) {
    is_known = ReadNumber<uint32_t>("a magic number") == kDigestMagic;
    if (is_known) digest_ = ReadNumber<uint64_t>("the digest");
  }
  const uint32_t computed = checksum_.value();
  if (!is_known || ReadNumber<uint32_t>("a magic number") != kChecksumMagic) {
    begin_ = source_.size_bytes() - more;
    Fail("found ", more, " more bytes, expected the file to end");
  }
  const int64_t end = begin_;
  const auto stated = ReadNumber<uint32_t>("the checksum");
  if (stated != computed) {
    throw DataLoss(source_.name(), ": damaged: the bytes before byte ", end, " have checksum ",
                   Hex{computed}, ", expected ", Hex{stated}, ", as the file says");
  }
}

uint64_t Parser::ReadCount(const char* what, int64_t least_bytes_each) {
  const auto count = ReadNumber<uint64_t>(what);
  if (count > static_cast<uint64_t>(left() / least_bytes_each)) {
    Fail("found ", count, " as the number of ", what, ", but only ", left(), " bytes follow");
  }
  return count;
}

std::string Parser::ReadName() {
  const auto size_bytes = ReadNumber<uint64_t>("a name's length");
  if (size_bytes > static_cast<uint64_t>(left())) {
    Fail("found a name of ", size_bytes, " bytes, but only ", left(), " follow");
  }
  std::string name(size_bytes, '\0');
  ReadBytes(name.data(), static_cast<int64_t>(size_bytes), "a name");
  return name;
}

std::pair<NDArray, std::string> Parser::ReadArray() {
  const auto magic = ReadNumber<uint32_t>("an array's magic number");
  int num_aux = 0;
  if (magic == kMagicV2 || magic == kMagicV3) {
    const auto storage = ReadNumber<int32_t>("the storage type");
    if (storage < kUndefinedStorage || storage > kCsrStorage) {
      Fail("found storage type ", storage, ", expected 0 (dense), 1 (row_sparse) or 2 (csr)");
    }
    num_aux = std::max(storage, 0);
  }
  Block block;
  bool has_shape = false;
  std::vector<index_t> stored;
  if (num_aux > 0) stored = ReadExtents(magic, &has_shape);
  if (!has_shape) stored = {0};
  block.extents = ReadExtents(magic, &has_shape);
  if (!has_shape) return {};
  ReadContext();
  block.dtype = ReadType();
  if (num_aux > 0) {
    SkipSparse({std::move(stored), block.dtype}, num_aux);
    return {NDArray(),
            num_aux == 1 ? "row_sparse arrays are not supported" : "csr arrays are not supported"};
  }
  if (block.extents.size() > TShape::kMaxRank) {
    SkipBytes(RequireElements(block));
    return {NDArray(), "rank " + std::to_string(block.extents.size()) +
                           " is not supported, at most " + std::to_string(TShape::kMaxRank)};
  }
  NDArray array;
  ReadElements(block, &array);
  return {array, ""};
}

void Parser::SkipSparse(Block data, int num_aux) {
  std::vector<Block> blocks = {std::move(data)};
  for (int i = 0; i < num_aux; ++i) {
    Block& aux = blocks.emplace_back();
    aux.dtype = ReadType();
    bool has_shape = false;
    aux.extents = ReadExtents(kMagicV2, &has_shape);
    if (!has_shape) aux.extents = {0};
  }
  for (const Block& block : blocks) SkipBytes(RequireElements(block));
}

std::vector<index_t> Parser::ReadExtents(uint32_t magic, bool* has_shape) {
  const bool is_v0 = magic != kMagicV1 && magic != kMagicV2 && magic != kMagicV3;
  // V0 has the rank in the place of later versions' magic number.
  const int32_t rank = is_v0 ? static_cast<int32_t>(magic) : ReadNumber<int32_t>("a rank");
  if (is_v0 && (rank < 0 || rank > kMaxRank)) {
    Fail("found ", Hex{magic}, ", expected the magic number of an array (", Hex{kMagicV1}, ", ",
         Hex{kMagicV2}, " or ", Hex{kMagicV3}, ")");
  }
  if (rank < -1 || rank > kMaxRank) Fail("found rank ", rank, ", expected 0 to ", kMaxRank);
  *has_shape = rank > 0 || (rank == 0 && magic == kMagicV3);
  std::vector<index_t> extents;
  for (int32_t i = 0; i < rank; ++i) {
    const index_t extent =
        is_v0 ? ReadNumber<uint32_t>("an extent") : ReadNumber<int64_t>("an extent");
    if (extent < 0) Fail("found extent ", extent, ", expected 0 or more");
    extents.push_back(extent);
  }
  return extents;
}

void Parser::ReadContext() {
  // The device of the saved array is only checked, because damage shows there.
  const auto type = ReadNumber<int32_t>("a device type");
  switch (static_cast<DeviceType>(type)) {
    case DeviceType::kCpu:
    case DeviceType::kGpu:
    case DeviceType::kCpuPinned:
    case DeviceType::kCpuShared:
      break;
    default:
      Fail("found device type ", type, ", expected 1, 2, 3 or 5");
  }
  const auto id = ReadNumber<int32_t>("a device number");
  if (id < 0) Fail("found device number ", id, ", expected 0 or more");
}

DType Parser::ReadType() {
  const auto flag = ReadNumber<int32_t>("an element type");
  constexpr auto kLast = static_cast<int32_t>(DType::kBFloat16);
  if (flag < 0 || flag > kLast) Fail("found element type ", flag, ", expected 0 to ", kLast);
  return static_cast<DType>(flag);
}

/// Returns the size of a block's elements in bytes. Throws unless the file has as many left.
int64_t Parser::RequireElements(const Block& block) {
  begin_ = offset_;
  CheckedSize size_bytes(DTypeSizeBytes(block.dtype));
  const bool empty =
      std::find(block.extents.begin(), block.extents.end(), 0) != block.extents.end();
  if (empty) size_bytes = 0;
  for (const index_t extent : block.extents) {
    if (!empty) size_bytes = size_bytes * extent;
  }
  if (!size_bytes.valid()) {
    std::string shape;
    for (const index_t extent : block.extents) {
      shape += (shape.empty() ? "(" : ",") + std::to_string(extent);
    }
    Fail("found shape ", shape, ") of ", block.dtype, ", too large for any file");
  }
  Require(*size_bytes.value(), "the elements");
  return *size_bytes.value();
}

void Parser::ReadElements(const Block& block, NDArray* array) {
  // The elements' size is checked before the array allocates memory.
  const int64_t size_bytes = RequireElements(block);
  *array = NDArray(TShape(std::span<const index_t>(block.extents)), Device::Cpu(), block.dtype);
  // No operation uses the new array yet, so its memory may be written.
  const TBlob blob = array->data();
  ReadBytes(blob.dptr_, size_bytes, "the elements");
  if (block.dtype == DType::kBool) {
    const auto* const bytes = static_cast<const uint8_t*>(blob.dptr_);
    const auto* const end = bytes + size_bytes;
    const auto* const wrong = std::find_if(bytes, end, [](uint8_t byte) { return byte > 1; });
    if (wrong != end) {
      begin_ += wrong - bytes;
      Fail("found ", int{*wrong}, " as a boolean, expected 0 or 1");
    }
  }
}

/// A file that is read once from its front.
class FileSource final : public ByteSource {
 public:
  explicit FileSource(const std::string& path)
      : name_("LoadNDArrays: " + path), buffer_(kBufferBytes) {
    do {
      // Opening a pipe without a writer blocks unless O_NONBLOCK is set. The flag has no effect on
      // files.
      descriptor_ = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    } while (descriptor_ < 0 && errno == EINTR);
    if (descriptor_ < 0) {
      const int error = errno;
      if (error == ENOENT || error == ENOTDIR) throw NotFound(name_, ": ", std::strerror(error));
      throw FailedPrecondition(name_, ": ", std::strerror(error));
    }
    struct stat status;
    if (fstat(descriptor_, &status) != 0 || !S_ISREG(status.st_mode)) {
      close(descriptor_);
      throw FailedPrecondition(name_, ": not an ordinary file");
    }
    size_bytes_ = status.st_size;
  }
  ~FileSource() override { close(descriptor_); }
  FileSource(const FileSource&) = delete;
  FileSource& operator=(const FileSource&) = delete;

  const std::string& name() const override { return name_; }
  int64_t size_bytes() const override { return size_bytes_; }

  void Read(void* data, int64_t size_bytes) override {
    char* to = static_cast<char*>(data);
    while (size_bytes > 0) {
      if (buffer_begin_ == buffer_end_ && size_bytes >= kBufferBytes) {
        const int64_t read = ReadSome(to, size_bytes);
        to += read;
        size_bytes -= read;
        continue;
      }
      if (buffer_begin_ == buffer_end_) {
        buffer_begin_ = 0;
        buffer_end_ = 0;
        buffer_end_ = ReadSome(buffer_.data(), kBufferBytes);
      }
      const int64_t piece = std::min(size_bytes, buffer_end_ - buffer_begin_);
      std::memcpy(to, buffer_.data() + buffer_begin_, static_cast<size_t>(piece));
      buffer_begin_ += piece;
      to += piece;
      size_bytes -= piece;
    }
  }

 private:
  static constexpr int64_t kBufferBytes = 1 << 16;

  int64_t ReadSome(void* data, int64_t size_bytes) {
    for (;;) {
      const ssize_t read = ::read(descriptor_, data, static_cast<size_t>(size_bytes));
      if (read > 0) return read;
      if (read == 0) throw DataLoss(name_, ": became shorter while it was read");
      if (errno != EINTR) throw DataLoss(name_, ": ", std::strerror(errno));
    }
  }

  const std::string name_;
  std::vector<char> buffer_;
  int descriptor_ = -1;
  int64_t size_bytes_ = 0;
  int64_t buffer_begin_ = 0;
  int64_t buffer_end_ = 0;
};

/// Writes values, and their checksum after the last one.
class Writer {
 public:
  explicit Writer(const std::string& path) : file_(path, "SaveNDArrays") {}

  void WriteBytes(const void* data, int64_t size_bytes) {
    checksum_.Add(data, size_bytes);
    file_.Write(data, size_bytes);
  }
  template <typename T>
  void WriteNumber(T value) {
    WriteBytes(&value, sizeof(value));
  }
  void WriteArray(const NDArray& array);

  void Commit(std::optional<uint64_t> digest) {
    if (digest) {
      WriteNumber(kDigestMagic);
      WriteNumber(*digest);
    }
    const uint32_t checksum = checksum_.value();
    WriteNumber(kChecksumMagic);
    WriteNumber(checksum);
    file_.Commit();
  }

 private:
  AtomicFile file_;
  Checksum checksum_;
};

void Writer::WriteArray(const NDArray& array) {
  const TShape& shape = array.shape();
  const index_t size = shape.Size();
  WriteNumber<uint32_t>(shape.ndim() == 0 || size == 0 ? kMagicV3 : kMagicV2);
  WriteNumber<int32_t>(kDenseStorage);
  WriteNumber<int32_t>(shape.ndim());
  for (const index_t extent : shape) WriteNumber<int64_t>(extent);
  // The file always names the CPU, because a reader without the array's device could not use the
  // file otherwise.
  WriteNumber(static_cast<int32_t>(DeviceType::kCpu));
  WriteNumber<int32_t>(0);
  WriteNumber(static_cast<int32_t>(array.dtype()));
  const int64_t size_bytes = size * DTypeSizeBytes(array.dtype());
  // The memory is not zeroed, because all of it is overwritten.
  const std::unique_ptr<char[]> bytes(new char[static_cast<size_t>(size_bytes)]);
  array.SyncCopyToCPU(bytes.get(), size);
  WriteBytes(bytes.get(), size_bytes);
}

}  // namespace

namespace ndarray_internal {

std::map<std::string, NDArray> ReadParams(ByteSource& source, std::vector<LeftOutArray>* left_out,
                                          std::optional<uint64_t>* digest) {
  Parser parser(source);
  std::map<std::string, NDArray> arrays = parser.ReadFile(left_out);
  if (digest != nullptr) *digest = parser.digest();
  return arrays;
}

}  // namespace ndarray_internal

void SaveNDArrays(const std::string& path, const std::map<std::string, NDArray>& arrays,
                  std::optional<uint64_t> digest) {
  for (const auto& [name, array] : arrays) {
    if (array.is_none()) {
      throw InvalidArgument("SaveNDArrays: ", path, ": entry \"", Excerpt(name),
                            "\" is no array (is_none())");
    }
  }
  for (const auto& [name, array] : arrays) array.WaitToRead();
  Writer file(path);
  file.WriteNumber(kListMagic);
  file.WriteNumber<uint64_t>(0);
  file.WriteNumber<uint64_t>(arrays.size());
  for (const auto& [name, array] : arrays) file.WriteArray(array);
  file.WriteNumber<uint64_t>(arrays.size());
  for (const auto& [name, array] : arrays) {
    file.WriteNumber<uint64_t>(name.size());
    file.WriteBytes(name.data(), static_cast<int64_t>(name.size()));
  }
  file.Commit(digest);
}

std::map<std::string, NDArray> LoadNDArrays(const std::string& path,
                                            std::vector<LeftOutArray>* left_out,
                                            std::optional<uint64_t>* digest) {
  FileSource source(path);
  return ndarray_internal::ReadParams(source, left_out, digest);
}

}  // namespace tessera
