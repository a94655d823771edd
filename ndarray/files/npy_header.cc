#include "tessera/ndarray/files/npy_header.h"

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <iterator>
#include <string_view>
#include <system_error>

#include "tessera/base/error.h"
#include "tessera/base/quote.h"
#include "tessera/ndarray/files/array_size.h"

namespace tessera::ndarray_internal {
namespace {

constexpr std::string_view kMagic = "\x93NUMPY";
constexpr size_t kAlignment = 64;

/// NumPy's letter and size of an element type.
struct NpyType {
  std::string_view name;
  DType dtype;
};
constexpr NpyType kTypes[] = {
    {"f2", DType::kFloat16}, {"f4", DType::kFloat32}, {"f8", DType::kFloat64},
    {"i1", DType::kInt8},    {"i2", DType::kInt16},   {"i4", DType::kInt32},
    {"i8", DType::kInt64},   {"u1", DType::kUint8},   {"u2", DType::kUint16},
    {"u4", DType::kUint32},  {"u8", DType::kUint64},  {"b1", DType::kBool},
};

/// Reads the dictionary: a literal of Python with these keys and kinds of values alone.
class DictionaryParser {
 public:
  /// `begin` is the text's offset in the file.
  DictionaryParser(const std::string& name, std::string_view text, int64_t begin)
      : name_(name), text_(text), begin_(begin) {}

  NpyHeader Parse() {
    NpyHeader header;
    bool has_type = false, has_order = false, has_shape = false;
    Expect('{');
    while (!Take('}')) {
      const std::string_view key = ReadText();
      Expect(':');
      if (key == "descr" && !has_type) {
        has_type = true;
        ReadType(&header);
      } else if (key == "fortran_order" && !has_order) {
        has_order = true;
        header.is_fortran_order = ReadBool();
      } else if (key == "shape" && !has_shape) {
        has_shape = true;
        header.extents = ReadExtents();
      } else {
        Fail("the keys descr, fortran_order and shape, each once, but found ", Quote(key));
      }
      if (!Take(',')) {
        Expect('}');
        break;
      }
    }
    SkipSpace();
    if (at_ != text_.size()) Fail("the header's text to end");
    if (!has_type || !has_order || !has_shape) Fail("the keys descr, fortran_order and shape");
    return header;
  }

 private:
  static std::string Quote(std::string_view text) { return "\"" + Excerpt(text) + "\""; }

  template <typename... Pieces>
  [[noreturn]] void Fail(const Pieces&... expected) const {
    throw DataLoss(name_, ": damaged at byte ", begin_ + static_cast<int64_t>(at_), ": expected ",
                   expected..., " in the header");
  }

  void SkipSpace() { at_ = std::min(text_.find_first_not_of(" \t\n", at_), text_.size()); }
  bool Take(char c) {
    SkipSpace();
    if (at_ == text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }
  void Expect(char c) {
    if (!Take(c)) Fail("\"", c, "\"");
  }

  std::string_view ReadText() {
    SkipSpace();
    const char quote = at_ < text_.size() ? text_[at_] : ' ';
    const size_t end = quote == '\'' || quote == '"' ? text_.find(quote, at_ + 1) : text_.npos;
    if (end == text_.npos) Fail("a text in quotes");
    const std::string_view text = text_.substr(at_ + 1, end - at_ - 1);
    at_ = end + 1;
    return text;
  }

  bool ReadBool() {
    SkipSpace();
    for (const std::string_view word : {"True", "False"}) {
      if (text_.substr(at_).starts_with(word)) {
        at_ += word.size();
        return word == "True";
      }
    }
    Fail("True or False");
  }

  std::vector<index_t> ReadExtents() {
    std::vector<index_t> extents;
    Expect('(');
    while (!Take(')')) {
      SkipSpace();
      const char* const begin = text_.data() + at_;
      uint64_t extent = 0;
      const auto [end, error] = std::from_chars(begin, text_.data() + text_.size(), extent);
      if (error != std::errc() || extent > INT64_MAX) Fail("an extent of 0 or more");
      if (extents.size() == kMaxFileRank) Fail("at most ", kMaxFileRank, " extents");
      extents.push_back(static_cast<index_t>(extent));
      at_ += static_cast<size_t>(end - begin);
      // Python 2 marks long integers.
      if (at_ < text_.size() && text_[at_] == 'L') ++at_;
      if (!Take(',')) {
        Expect(')');
        break;
      }
    }
    return extents;
  }

  void ReadType(NpyHeader* header) {
    SkipSpace();
    if (at_ < text_.size() && text_[at_] == '[') {
      throw Unimplemented(name_, ": elements are structures; expected booleans or numbers");
    }
    const std::string_view type = ReadText();
    if (type.empty() || std::string_view("<>|=").find(type[0]) == std::string_view::npos) {
      Fail("an element type that begins with its byte order, but found ", Quote(type));
    }
    const auto* const found = std::find_if(
        std::begin(kTypes), std::end(kTypes),
        [&type](const NpyType& candidate) { return candidate.name == type.substr(1); });
    if (found == std::end(kTypes)) {
      throw Unimplemented(
          name_, ": element type ", Quote(type), " is not supported",
          type.substr(1) == "V2" ? " (ml_dtypes writes bfloat16 so, as bare bytes)" : "",
          "; expected bool, integers of 8 to 64 bits, float16, float32 or float64");
    }
    header->dtype = found->dtype;
    header->is_big_endian = type[0] == '>';
  }

  const std::string& name_;
  const std::string_view text_;
  const int64_t begin_;
  size_t at_ = 0;
};

void RequireLeft(const ByteSource& source, int64_t size_bytes, const char* what) {
  if (size_bytes > source.left()) {
    throw DataLoss(source.name(), ": damaged at byte ", source.offset(), ": found ", source.left(),
                   " more bytes, expected ", size_bytes, " for ", what);
  }
}

}  // namespace

NpyHeader ReadNpyHeader(ByteSource& source) {
  uint8_t start[8];
  RequireLeft(source, sizeof(start), "the magic number and the version");
  source.Read(start, sizeof(start));
  const std::string_view first(reinterpret_cast<const char*>(start), sizeof(start));
  if (!first.starts_with(kMagic)) {
    const std::string_view foreign = DescribeForeign(source, first);
    throw DataLoss(source.name(), ": not an .npy file", foreign.empty() ? "" : ", but ", foreign,
                   "; expected it to begin with \"\\x93NUMPY\"");
  }
  const int major = start[6];
  if (major < 1 || major > 3 || start[7] != 0) {
    throw Unimplemented(source.name(), ": found version ", major, ".", int{start[7]},
                        " of the .npy format; expected 1.0, 2.0 or 3.0");
  }
  uint8_t length[4] = {};
  const int64_t length_bytes = major == 1 ? 2 : 4;
  RequireLeft(source, length_bytes, "the header's length");
  source.Read(length, length_bytes);
  const int64_t text_bytes =
      length[0] | length[1] << 8 | length[2] << 16 | static_cast<int64_t>(length[3]) << 24;
  RequireLeft(source, text_bytes, "the header");
  const int64_t begin = source.offset();
  std::string text(static_cast<size_t>(text_bytes), '\0');
  source.Read(text.data(), text_bytes);
  return DictionaryParser(source.name(), text, begin).Parse();
}

std::string FormatNpyHeader(const std::string& name, DType dtype, const TShape& shape) {
  const auto* const type =
      std::find_if(std::begin(kTypes), std::end(kTypes),
                   [dtype](const NpyType& candidate) { return candidate.dtype == dtype; });
  if (type == std::end(kTypes)) {
    throw Unimplemented(name, ": NumPy has no type for ", dtype,
                        "; expected another type, such as float32, or the safetensors format");
  }
  std::string extents;
  for (const index_t extent : shape) {
    extents += (extents.empty() ? "" : ", ") + std::to_string(extent);
  }
  if (shape.ndim() == 1) extents += ',';
  std::string text = "{'descr': '";
  text += DTypeSizeBytes(dtype) == 1 ? '|' : '<';
  text += type->name;
  text += "', 'fortran_order': False, 'shape': (" + extents + "), }";
  const size_t start_bytes = kMagic.size() + 4;
  // The line feed is the last byte before the elements.
  text.append(kAlignment - 1 - (start_bytes + text.size()) % kAlignment, ' ');
  text += '\n';
  std::string header(kMagic);
  header +=
      {'\x01', '\0', static_cast<char>(text.size() & 0xff), static_cast<char>(text.size() >> 8)};
  return header + text;
}

}  // namespace tessera::ndarray_internal
