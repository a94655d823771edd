// Reads MXNet's `.params` files and raw arrays; params_format.h describes them.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <numeric>
#include <optional>
#include <ostream>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tessera/base/error.h"
#include "tessera/base/quote.h"
#include "tessera/ndarray/array_memory.h"
#include "tessera/ndarray/files/array_size.h"
#include "tessera/ndarray/files/byte_source.h"
#include "tessera/ndarray/files/params_format.h"
#include "tessera/ndarray/memory/sparse_store.h"
#include "tessera/ndarray/serialization.h"
#include "tessera/ops/sparse.h"

namespace tessera {
namespace {

using namespace ndarray_internal;  // NOLINT

/// A number that errors print as the format's description does.
struct Hex {
  uint64_t value;
};
std::ostream& operator<<(std::ostream& os, Hex hex) {
  return os << "0x" << std::hex << hex.value << std::dec;
}

/// Reads and checks values, and knows the offset of each.
class Parser {
 public:
  explicit Parser(ByteSource& source) : source_(source) {}

  /// Reads a file. Arrays of a file without names are called by their numbers.
  NDArrayList ReadFile(std::vector<LeftOutArray>* left_out);

  /// Reads a single array, which ends with the source.
  NDArray ReadRawArray();

  /// Returns the meaning of the shapes that were read.
  ShapeMeaning shapes() const {
    if (num_v3_ == 0 && num_older_ > 0) return ShapeMeaning::kLegacy;
    return num_v3_ > 0 && num_older_ == 0 ? ShapeMeaning::kNumpy : ShapeMeaning::kMixed;
  }

 private:
  /// The shape and type of a block of elements. The rank may be above TShape's limit.
  struct Block {
    std::vector<index_t> extents;
    DType dtype = DType::kUnknown;
  };

  std::vector<LeftOutArray> ReadNames(NDArrayList* list, std::map<uint64_t, std::string> reasons);
  void RequireDistinct(const std::vector<NamedArray>& arrays, const std::vector<int64_t>& begins);
  /// Returns an array, or why an NDArray cannot hold it.
  std::pair<NDArray, std::string> ReadArray();
  /// Reads the parts of a sparse array of `num_aux` auxiliary arrays: 1 of row_sparse, 2 of csr.
  std::pair<NDArray, std::string> ReadSparse(const Block& array, const Block& data, int num_aux);
  std::vector<index_t> ReadExtents(uint32_t magic, bool* has_shape);
  void ReadContext();
  DType ReadType();
  int64_t RequireElements(const Block& block);
  void ReadElements(const Block& block, NDArray* array);
  /// Reads the elements of a block to memory of its size.
  void ReadBlock(const Block& block, void* data);
  std::string ReadName();
  [[noreturn]] void FailAtMagicNumber(uint64_t magic);
  void ReadChecksum(const std::string& last_name, NDArrayList* list);
  uint64_t ReadCount(const char* what, int64_t least_bytes_each);

  int64_t offset() const { return source_.offset(); }
  int64_t left() const { return source_.left(); }

  void ReadBytes(void* data, int64_t size_bytes, const char* what) {
    Require(size_bytes, what);
    source_.Read(data, size_bytes);
    checksum_.Add(data, size_bytes);
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
    begin_ = offset();
    ReadBytes(&value, sizeof(value), what);
    return value;
  }
  void Require(int64_t size_bytes, const char* what) {
    if (size_bytes > left()) {
      begin_ = offset();
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
  int64_t begin_ = 0;
  int64_t array_ = -1;
  int64_t num_v3_ = 0, num_older_ = 0;  // arrays
  uint64_t num_arrays_ = 1, num_sparse_ = 0;
};

NDArrayList Parser::ReadFile(std::vector<LeftOutArray>* left_out) {
  const auto magic = ReadNumber<uint64_t>("the file's magic number");
  if (magic != kListMagic) FailAtMagicNumber(magic);
  const auto reserved = ReadNumber<uint64_t>("the reserved field");
  if (reserved != 0) Fail("found ", Hex{reserved}, ", expected 0 in the reserved field");

  // An array of V0 without a shape has 4 bytes, and a name has at least its length.
  const uint64_t num_arrays = ReadCount("arrays", 4);
  RequireRoom(source_.name(), num_arrays, source_.size_bytes());
  num_arrays_ = num_arrays;
  NDArrayList list;
  list.arrays.reserve(num_arrays);
  std::map<uint64_t, std::string> reasons;  // why arrays are left out, by number
  for (uint64_t i = 0; i < num_arrays; ++i) {
    array_ = static_cast<int64_t>(i);
    auto [array, reason] = ReadArray();
    list.arrays.push_back({"", std::move(array)});
    if (!reason.empty()) reasons.emplace(i, std::move(reason));
  }
  array_ = -1;
  list.shapes = shapes();
  std::vector<LeftOutArray> unsupported = ReadNames(&list, std::move(reasons));
  if (left_out != nullptr) {
    *left_out = std::move(unsupported);
  } else if (!unsupported.empty()) {
    std::vector<std::string> names;
    for (const LeftOutArray& array : unsupported) names.push_back("\"" + array.name + "\"");
    throw Unimplemented(source_.name(), ": cannot load ", ListNames(names), ": ",
                        unsupported[0].reason,
                        "; with a list for what is left out, the other arrays are returned");
  }
  return list;
}

/// Reads the names and the rest of the file. Returns the arrays that have a reason, without which
/// it leaves the list.
std::vector<LeftOutArray> Parser::ReadNames(NDArrayList* list,
                                            std::map<uint64_t, std::string> reasons) {
  const uint64_t num_names = ReadCount("names", 8);
  std::vector<NamedArray>& arrays = list->arrays;
  if (num_names != 0 && num_names != arrays.size()) {
    Fail("found ", num_names, " names for ", arrays.size(), " arrays");
  }
  list->has_names = num_names == arrays.size();
  std::vector<int64_t> begins;
  for (size_t i = 0; i < arrays.size(); ++i) {
    begins.push_back(offset());
    arrays[i].name = list->has_names ? ReadName() : std::to_string(i);
  }
  RequireDistinct(arrays, begins);
  ReadChecksum(arrays.empty() ? "" : arrays.back().name, list);

  std::vector<LeftOutArray> unsupported;
  if (reasons.empty()) return unsupported;
  std::vector<NamedArray> supported;
  for (size_t i = 0; i < arrays.size(); ++i) {
    if (const auto reason = reasons.find(i); reason != reasons.end()) {
      unsupported.push_back({std::move(arrays[i].name), std::move(reason->second)});
    } else {
      supported.push_back(std::move(arrays[i]));
    }
  }
  arrays = std::move(supported);
  return unsupported;
}

/// Throws if two names, which begin at the given offsets, are one.
void Parser::RequireDistinct(const std::vector<NamedArray>& arrays,
                             const std::vector<int64_t>& begins) {
  std::vector<size_t> order(arrays.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::sort(order.begin(), order.end(), [&arrays](size_t a, size_t b) {
    const int compared = arrays[a].name.compare(arrays[b].name);
    return compared != 0 ? compared < 0 : a < b;
  });
  for (size_t i = 1; i < order.size(); ++i) {
    const std::string& name = arrays[order[i]].name;
    if (name != arrays[order[i - 1]].name) continue;
    begin_ = begins[order[i]];
    Fail("found the name \"", Excerpt(name), "\" a second time");
  }
}

NDArray Parser::ReadRawArray() {
  auto [array, reason] = ReadArray();
  if (!reason.empty()) throw Unimplemented(source_.name(), ": ", reason);
  if (left() > 0) {
    begin_ = offset();
    Fail("found ", left(), " more bytes, expected the array to end");
  }
  return array;
}

void Parser::FailAtMagicNumber(uint64_t magic) {
  const std::string_view first(reinterpret_cast<const char*>(&magic), sizeof(magic));
  std::string_view foreign = DescribeForeign(source_, first);
  if (first.starts_with('{')) foreign = "a JSON text, such as a network's";
  if (!foreign.empty()) throw DataLoss(source_.name(), ": not a .params file, but ", foreign);
  Fail("found magic number ", Hex{magic}, ", expected ", Hex{kListMagic},
       ", as in every .params file");
}

void Parser::ReadChecksum(const std::string& last_name, NDArrayList* list) {
  begin_ = offset();
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
    if (is_known) list->digest = ReadNumber<uint64_t>("the digest");
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
  ++(magic == kMagicV3 ? num_v3_ : num_older_);
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
  if (num_aux > 0) return ReadSparse(block, {std::move(stored), block.dtype}, num_aux);
  if (block.extents.size() > TShape::kMaxRank) {
    SkipBytes(RequireElements(block));
    return {NDArray(), "rank " + std::to_string(block.extents.size()) +
                           " is not supported, at most " + std::to_string(TShape::kMaxRank)};
  }
  NDArray array;
  ReadElements(block, &array);
  return {array, ""};
}

std::pair<NDArray, std::string> Parser::ReadSparse(const Block& array, const Block& data,
                                                   int num_aux) {
  const bool is_csr = num_aux == 2;
  std::vector<Block> aux;
  for (int i = 0; i < num_aux; ++i) {
    Block& block = aux.emplace_back();
    block.dtype = ReadType();
    bool has_shape = false;
    block.extents = ReadExtents(kMagicV2, &has_shape);
    if (!has_shape) block.extents = {0};
  }
  std::string reason;
  for (const Block& block : aux) {
    if (block.dtype != DType::kInt64) {
      reason = "sparse arrays with " + std::string(DTypeName(block.dtype)) + " indices";
    }
  }
  if (array.extents.size() > TShape::kMaxRank) {
    reason = "rank " + std::to_string(array.extents.size());
  }
  if (!reason.empty()) {
    SkipBytes(RequireElements(data));
    for (const Block& block : aux) SkipBytes(RequireElements(block));
    return {NDArray(), reason + " is not supported"};
  }
  // The number of rows or elements, which data and indices both state.
  const Block& indices = aux.back();
  const index_t count = indices.extents.empty() ? 0 : indices.extents[0];
  std::vector<index_t> expected = {count};
  if (!is_csr && !array.extents.empty()) {
    expected.insert(expected.end(), array.extents.begin() + 1, array.extents.end());
  }
  const bool has_shape = is_csr ? array.extents.size() == 2 : !array.extents.empty();
  if (!has_shape || data.extents != expected || indices.extents.size() != 1 ||
      !ElementsSizeBytes(array.extents, array.dtype)) {
    begin_ = offset();
    Fail("found values of shape ", ShapeText(data.extents), " and ", count, " indices in a ",
         is_csr ? "csr" : "row_sparse", " array of shape ", ShapeText(array.extents));
  }
  if (is_csr && (aux[0].extents.size() != 1 || aux[0].extents[0] - 1 != array.extents[0])) {
    begin_ = offset();
    Fail("found indptr of shape ", ShapeText(aux[0].extents), " in a csr array of shape ",
         ShapeText(array.extents));
  }
  // Sizes are held against the file before memory is allocated.
  int64_t size_bytes = RequireElements(data);
  for (const Block& block : aux) size_bytes += RequireElements(block);
  Require(size_bytes, "the elements");
  RequireRoom(source_.name(), num_arrays_ + ++num_sparse_, source_.size_bytes());
  NDArray result = ArrayAccess::NewSparse(is_csr ? StorageType::kCsr : StorageType::kRowSparse,
                                          TShape(std::span<const index_t>(array.extents)),
                                          Device::Cpu(), array.dtype, "NDArray");
  SparseStore& store = *ArrayAccess::Sparse(result);
  const std::shared_ptr<PartsMemory> memory = store.NewParts(count);
  // No operation uses the new array yet, so its parts may be written.
  store.Replace(memory);
  const SparseBlob parts = store.UncheckedBlob();
  ReadBlock(data, parts.values.dptr_);
  if (is_csr) ReadBlock(aux[0], parts.indptr.data());
  ReadBlock(indices, parts.indices.data());
  try {
    CheckParts(parts, /*full=*/true);
  } catch (const Error& error) {
    Fail("found ", error.what());
  }
  return {result, ""};
}

std::vector<index_t> Parser::ReadExtents(uint32_t magic, bool* has_shape) {
  const bool is_v0 = magic != kMagicV1 && magic != kMagicV2 && magic != kMagicV3;
  // V0 has the rank in the place of later versions' magic number.
  const int32_t rank = is_v0 ? static_cast<int32_t>(magic) : ReadNumber<int32_t>("a rank");
  if (is_v0 && (rank < 0 || rank > kMaxFileRank)) {
    Fail("found ", Hex{magic}, ", expected the magic number of an array (", Hex{kMagicV1}, ", ",
         Hex{kMagicV2}, " or ", Hex{kMagicV3}, ")");
  }
  if (rank < -1 || rank > kMaxFileRank) Fail("found rank ", rank, ", expected 0 to ", kMaxFileRank);
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
  begin_ = offset();
  const std::optional<int64_t> size_bytes = ElementsSizeBytes(block.extents, block.dtype);
  if (!size_bytes) {
    Fail("found shape ", ShapeText(block.extents), " of ", block.dtype, ", too large for any file");
  }
  Require(*size_bytes, "the elements");
  return *size_bytes;
}

void Parser::ReadElements(const Block& block, NDArray* array) {
  // The elements' size is checked before the array allocates memory.
  RequireElements(block);
  *array = NDArray(TShape(std::span<const index_t>(block.extents)), Device::Cpu(), block.dtype);
  // No operation uses the new array yet, so its memory may be written.
  ReadBlock(block, array->data().dptr_);
}

void Parser::ReadBlock(const Block& block, void* data) {
  const int64_t size_bytes = RequireElements(block);
  ReadBytes(data, size_bytes, "the elements");
  if (block.dtype != DType::kBool) return;
  if (const std::optional<int64_t> wrong = FindNoBoolean(data, size_bytes)) {
    begin_ += *wrong;
    Fail("found ", int{static_cast<const uint8_t*>(data)[*wrong]},
         " as a boolean, expected 0 or 1");
  }
}

NDArrayList ReadList(ByteSource& source, std::vector<LeftOutArray>* left_out) {
  NDArrayList list = Parser(source).ReadFile(left_out);
  if (!list.has_names) {
    for (NamedArray& entry : list.arrays) entry.name.clear();
  }
  return list;
}

}  // namespace

NDArrayList LoadNDArrayList(const std::string& path, std::vector<LeftOutArray>* left_out) {
  FileSource source("LoadNDArrayList", path);
  return ReadList(source, left_out);
}

NDArrayList DeserializeNDArrayList(std::string_view bytes, std::vector<LeftOutArray>* left_out) {
  MemorySource source("DeserializeNDArrayList", bytes);
  return ReadList(source, left_out);
}

std::map<std::string, NDArray> LoadNDArrays(const std::string& path,
                                            std::vector<LeftOutArray>* left_out,
                                            std::optional<uint64_t>* digest) {
  FileSource source("LoadNDArrays", path);
  NDArrayList list = Parser(source).ReadFile(left_out);
  if (digest != nullptr) *digest = list.digest;
  std::map<std::string, NDArray> named;
  for (NamedArray& entry : list.arrays) {
    named.emplace(std::move(entry.name), std::move(entry.array));
  }
  return named;
}

NDArray DeserializeArray(std::string_view bytes, ShapeMeaning* shapes) {
  MemorySource source("DeserializeArray", bytes);
  Parser parser(source);
  NDArray array = parser.ReadRawArray();
  if (shapes != nullptr) *shapes = parser.shapes();
  return array;
}

}  // namespace tessera
