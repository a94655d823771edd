// Reads safetensors files; safetensors_format.h describes them.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "tessera/base/error.h"
#include "tessera/base/quote.h"
#include "tessera/base/tshape.h"
#include "tessera/graph/json/json_value.h"
#include "tessera/ndarray/files/array_size.h"
#include "tessera/ndarray/files/byte_source.h"
#include "tessera/ndarray/files/safetensors_format.h"
#include "tessera/ndarray/safetensors.h"

namespace tessera {
namespace {

using namespace ndarray_internal;  // NOLINT
using graph::JsonValue;
using graph::JsonWalker;

/// An array that the header describes. Its elements are bytes [begin, end) after the header.
struct Description {
  std::string name;
  TShape shape;
  DType dtype = DType::kUnknown;
  int64_t begin = 0;
  int64_t end = 0;
};

class Reader {
 public:
  explicit Reader(ByteSource& source) : source_(source) {}

  Safetensors Read() {
    const std::string header = ReadHeader();
    const JsonValue root = JsonValue::Parse(source_.name() + ": damaged header", header);
    RequireRoom(source_.name(), static_cast<uint64_t>(root.size()), source_.size_bytes());
    Safetensors contents;
    std::vector<Description> descriptions;
    bool has_metadata = false;
    for (JsonWalker child(root); child.Next();) {
      std::string name = child.key();
      if (name != kMetadataKey) {
        descriptions.push_back(ReadDescription(std::move(name), child.value()));
        continue;
      }
      if (std::exchange(has_metadata, true)) Fail("found ", Quote(name), " a second time");
      ReadMetadata(child.value(), &contents.metadata);
    }
    RequireDistinct(descriptions);
    RequireCovered(&descriptions);
    for (Description& description : descriptions) {
      NDArray array = ReadElements(description);
      contents.arrays.push_back({std::move(description.name), std::move(array)});
    }
    return contents;
  }

 private:
  static std::string Quote(std::string_view text) { return "\"" + Excerpt(text) + "\""; }

  template <typename... Pieces>
  [[noreturn]] void Fail(const Pieces&... pieces) const {
    throw DataLoss(source_.name(), ": damaged: ", pieces...);
  }

  std::string ReadHeader();
  void ReadMetadata(JsonValue value, std::map<std::string, std::string>* metadata) const;
  Description ReadDescription(std::string name, JsonValue value) const;
  DType ReadType(const std::string& name, JsonValue value) const;
  std::vector<int64_t> ReadIntegers(const std::string& name, std::string_view key,
                                    JsonValue value) const;
  void RequireDistinct(const std::vector<Description>& descriptions) const;
  void RequireCovered(std::vector<Description>* descriptions) const;
  NDArray ReadElements(const Description& description);

  ByteSource& source_;
};

std::string Reader::ReadHeader() {
  char first[8] = {};
  const int64_t first_bytes = std::min<int64_t>(source_.size_bytes(), sizeof(first));
  source_.Read(first, first_bytes);
  uint64_t length = 0;
  for (size_t i = 0; i < sizeof(first); ++i) {
    length |= static_cast<uint64_t>(static_cast<unsigned char>(first[i])) << 8 * i;
  }
  if (first_bytes < 8 || length > kMaxHeaderBytes) {
    const std::string_view foreign =
        DescribeForeign(source_, {first, static_cast<size_t>(first_bytes)});
    if (!foreign.empty()) {
      throw DataLoss(source_.name(), ": not a safetensors file, but ", foreign);
    }
  }
  if (first_bytes < 8) Fail("found ", first_bytes, " bytes, expected 8 for the header's length");
  if (length > kMaxHeaderBytes || length > static_cast<uint64_t>(source_.left())) {
    Fail("found a header of ", length, " bytes, expected at most ",
         std::min(kMaxHeaderBytes, source_.left()));
  }
  std::string header(length, '\0');
  source_.Read(header.data(), static_cast<int64_t>(length));
  if (!header.starts_with('{')) Fail("found a header that does not begin with \"{\"");
  return header;
}

void Reader::ReadMetadata(JsonValue value, std::map<std::string, std::string>* metadata) const {
  if (!value.is_object()) Fail("found ", kMetadataKey, " that is no object");
  RequireRoom(source_.name(), static_cast<uint64_t>(value.size()), source_.size_bytes());
  for (JsonWalker member(value); member.Next();) {
    const std::string key = member.key();
    if (!member.value().is_string()) {
      Fail("found ", kMetadataKey, " with ", Quote(key), " that is no text");
    }
    if (!metadata->emplace(key, member.value().string()).second) {
      Fail("found ", kMetadataKey, " with ", Quote(key), " a second time");
    }
  }
}

Description Reader::ReadDescription(std::string name, JsonValue value) const {
  if (!value.is_object()) Fail("array ", Quote(name), ": found no object");
  Description description;
  std::optional<std::vector<int64_t>> extents, offsets;
  for (JsonWalker member(value); member.Next();) {
    const std::string key = member.key();
    bool is_repeated = false;
    if (key == "dtype") {
      is_repeated = description.dtype != DType::kUnknown;
      description.dtype = ReadType(name, member.value());
    } else if (key == "shape") {
      is_repeated = extents.has_value();
      extents = ReadIntegers(name, key, member.value());
    } else if (key == "data_offsets") {
      is_repeated = offsets.has_value();
      offsets = ReadIntegers(name, key, member.value());
    }
    if (is_repeated) Fail("array ", Quote(name), ": found ", key, " a second time");
  }
  if (description.dtype == DType::kUnknown || !extents || !offsets || offsets->size() != 2) {
    Fail("array ", Quote(name), ": expected a dtype, a shape and two data_offsets");
  }
  description.begin = (*offsets)[0];
  description.end = (*offsets)[1];
  const std::optional<int64_t> size_bytes = ElementsSizeBytes(*extents, description.dtype);
  if (!size_bytes || description.end < description.begin ||
      description.end - description.begin != *size_bytes) {
    Fail("array ", Quote(name), ": found data_offsets [", description.begin, ",", description.end,
         "] for shape ", ShapeText(*extents), " of ", description.dtype);
  }
  if (extents->size() > TShape::kMaxRank) {
    throw Unimplemented(source_.name(), ": array ", Quote(name), ": rank ", extents->size(),
                        " is not supported, at most ", TShape::kMaxRank);
  }
  description.shape = TShape(std::span<const index_t>(*extents));
  description.name = std::move(name);
  return description;
}

DType Reader::ReadType(const std::string& name, JsonValue value) const {
  if (!value.is_string()) Fail("array ", Quote(name), ": found a dtype that is no text");
  const std::string type = value.string();
  for (const SafetensorsType& candidate : kSafetensorsTypes) {
    if (candidate.name == type) return candidate.dtype;
  }
  throw Unimplemented(source_.name(), ": array ", Quote(name), ": element type ", Quote(type),
                      " is not supported");
}

std::vector<int64_t> Reader::ReadIntegers(const std::string& name, std::string_view key,
                                          JsonValue value) const {
  std::vector<int64_t> integers;
  if (!value.is_array()) Fail("array ", Quote(name), ": found a ", key, " that is no array");
  for (JsonWalker child(value); child.Next();) {
    const std::optional<int64_t> integer = child.value().integer();
    if (!integer || *integer < 0) {
      Fail("array ", Quote(name), ": found ", Excerpt(child.value().text()), " in ", key,
           ", expected an integer of 0 or more");
    }
    if (integers.size() == kMaxFileRank) {
      Fail("array ", Quote(name), ": found more than ", kMaxFileRank, " integers in ", key);
    }
    integers.push_back(*integer);
  }
  return integers;
}

void Reader::RequireDistinct(const std::vector<Description>& descriptions) const {
  std::vector<std::string_view> names;
  for (const Description& description : descriptions) names.push_back(description.name);
  std::sort(names.begin(), names.end());
  const auto repeated = std::adjacent_find(names.begin(), names.end());
  if (repeated != names.end()) Fail("found the array ", Quote(*repeated), " a second time");
}

/// Puts the arrays into the order of their elements. Throws unless these cover the rest of the
/// source, and each byte once.
void Reader::RequireCovered(std::vector<Description>* descriptions) const {
  std::stable_sort(descriptions->begin(), descriptions->end(),
                   [](const Description& a, const Description& b) {
                     return std::tie(a.begin, a.end) < std::tie(b.begin, b.end);
                   });
  int64_t end = 0;
  for (const Description& description : *descriptions) {
    if (description.begin != end) {
      Fail("array ", Quote(description.name), ": found elements from byte ", description.begin,
           ", expected ", end, ", the end of those before them");
    }
    end = description.end;
  }
  if (end != source_.left()) {
    Fail("found ", source_.left(), " bytes of elements, expected ", end);
  }
}

NDArray Reader::ReadElements(const Description& description) {
  NDArray array(description.shape, Device::Cpu(), description.dtype);
  // No operation uses the new array yet, so its memory may be written.
  void* const bytes = array.data().dptr_;
  const int64_t size_bytes = description.end - description.begin;
  source_.Read(bytes, size_bytes);
  if (description.dtype == DType::kBool && FindNoBoolean(bytes, size_bytes)) {
    Fail("array ", Quote(description.name), ": found a byte other than 0 and 1 as a boolean");
  }
  return array;
}

}  // namespace

Safetensors LoadSafetensors(const std::string& path) {
  FileSource source("LoadSafetensors", path);
  return Reader(source).Read();
}

Safetensors DeserializeSafetensors(std::string_view bytes) {
  MemorySource source("DeserializeSafetensors", bytes);
  return Reader(source).Read();
}

}  // namespace tessera
