// Writes safetensors files; safetensors_format.h describes them.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tessera/base/error.h"
#include "tessera/base/quote.h"
#include "tessera/graph/json/json_value.h"
#include "tessera/ndarray/files/byte_sink.h"
#include "tessera/ndarray/files/safetensors_format.h"
#include "tessera/ndarray/safetensors.h"

namespace tessera {
namespace {

using namespace ndarray_internal;  // NOLINT

/// Returns the place of a type in kSafetensorsTypes, which has all types.
size_t TypeIndex(DType dtype) {
  const auto* const found =
      std::find_if(std::begin(kSafetensorsTypes), std::end(kSafetensorsTypes),
                   [dtype](const SafetensorsType& candidate) { return candidate.dtype == dtype; });
  return static_cast<size_t>(found - std::begin(kSafetensorsTypes));
}

/// Returns the text as JSON. Throws Error(kInvalidArgument) that begins with `name` unless it is
/// UTF-8.
std::string JsonText(const std::string& name, std::string_view text) {
  constexpr std::string_view kEscaped = "\"\\\b\f\n\r\t";
  constexpr std::string_view kLetters = "\"\\bfnrt";
  constexpr char kDigits[] = "0123456789abcdef";
  std::string json = "\"";
  for (const char c : text) {
    if (const size_t escaped = kEscaped.find(c); escaped != kEscaped.npos) {
      json += {'\\', kLetters[escaped]};
    } else if (static_cast<unsigned char>(c) < 0x20) {
      json += {'\\', 'u', '0', '0', kDigits[c >> 4], kDigits[c & 15]};
    } else {
      json += c;
    }
  }
  json += '"';
  try {
    graph::JsonValue::Parse("text", json);
  } catch (const Error&) {
    throw InvalidArgument(name, ": \"", Excerpt(text), "\" is not UTF-8");
  }
  return json;
}

/// Waits for the arrays and throws their errors.
void RequireWritable(const std::string& name, const Safetensors& contents) {
  std::set<std::string_view> names;
  for (const NamedArray& entry : contents.arrays) {
    const std::string where = name + ": array \"" + Excerpt(entry.name) + "\"";
    if (entry.array.is_none()) throw InvalidArgument(where, " is no array (is_none())");
    if (entry.name == kMetadataKey) {
      throw InvalidArgument(where, " has a name that the format keeps for metadata");
    }
    if (!names.insert(entry.name).second) {
      throw InvalidArgument(where, " exists twice; expected distinct names");
    }
  }
  for (const NamedArray& entry : contents.arrays) entry.array.WaitToRead();
}

/// Returns the arrays in the order in which they are written.
std::vector<const NamedArray*> Ordered(const std::vector<NamedArray>& arrays) {
  std::vector<const NamedArray*> ordered;
  for (const NamedArray& entry : arrays) ordered.push_back(&entry);
  std::sort(ordered.begin(), ordered.end(), [](const NamedArray* a, const NamedArray* b) {
    return std::pair(TypeIndex(a->array.dtype()), std::string_view(a->name)) <
           std::pair(TypeIndex(b->array.dtype()), std::string_view(b->name));
  });
  return ordered;
}

/// Returns the header without its length.
std::string FormatHeader(const std::string& name, const std::vector<const NamedArray*>& arrays,
                         const Safetensors& contents) {
  std::string header = "{";
  if (!contents.metadata.empty()) {
    std::string members;
    for (const auto& [key, text] : contents.metadata) {
      members += (members.empty() ? "" : ",") + JsonText(name, key) + ":" + JsonText(name, text);
    }
    header.append("\"").append(kMetadataKey).append("\":{").append(members).append("}");
  }
  int64_t begin = 0;
  for (const NamedArray* const entry : arrays) {
    const NDArray& array = entry->array;
    std::string extents;
    for (const index_t extent : array.shape()) {
      extents += (extents.empty() ? "" : ",") + std::to_string(extent);
    }
    const int64_t end = begin + array.shape().Size() * DTypeSizeBytes(array.dtype());
    if (header.size() > 1) header += ',';
    header.append(JsonText(name, entry->name)).append(":{\"dtype\":\"");
    header.append(kSafetensorsTypes[TypeIndex(array.dtype())].name).append("\",\"shape\":[");
    header.append(extents).append("],\"data_offsets\":[").append(std::to_string(begin));
    header.append(",").append(std::to_string(end)).append("]}");
    begin = end;
  }
  header += '}';
  // The elements are aligned for every type.
  header.append((8 - header.size() % 8) % 8, ' ');
  if (header.size() > kMaxHeaderBytes) {
    throw InvalidArgument(name, ": the header has ", header.size(), " bytes, expected at most ",
                          kMaxHeaderBytes);
  }
  return header;
}

void Write(const std::string& header, const std::vector<const NamedArray*>& arrays,
           ByteSink& sink) {
  sink.WriteNumber<uint64_t>(header.size());
  sink.WriteText(header);
  for (const NamedArray* const entry : arrays) WriteElements(entry->array, sink);
}

}  // namespace

void SaveSafetensors(const std::string& path, const Safetensors& contents) {
  const std::string name = "SaveSafetensors: " + path;
  RequireWritable(name, contents);
  const std::vector<const NamedArray*> arrays = Ordered(contents.arrays);
  const std::string header = FormatHeader(name, arrays, contents);
  FileSink sink("SaveSafetensors", path);
  Write(header, arrays, sink);
  sink.Commit();
}

std::string SerializeSafetensors(const Safetensors& contents) {
  RequireWritable("SerializeSafetensors", contents);
  const std::vector<const NamedArray*> arrays = Ordered(contents.arrays);
  StringSink sink;
  Write(FormatHeader("SerializeSafetensors", arrays, contents), arrays, sink);
  return std::move(sink.bytes());
}

}  // namespace tessera
