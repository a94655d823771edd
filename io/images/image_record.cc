#include "tessera/io/image_record.h"

#include <bit>
#include <cstddef>
#include <cstring>

#include "tessera/base/error.h"

namespace tessera {
namespace {

static_assert(std::endian::native == std::endian::little, "records are little-endian");

/// The beginning of a record: the number of labels behind it, or 0 and the only label; the image's
/// number; a second number, which MXNet leaves 0.
struct Header {
  uint32_t label_count;
  float label;
  uint64_t id;
  uint64_t second_id;
};
static_assert(sizeof(Header) == 24);

}  // namespace

ImageRecord ParseImageRecord(std::string_view record, std::string_view name) {
  Header header;
  if (record.size() < sizeof header) {
    throw DataLoss(name, ": found a record of ", record.size(), " bytes, expected at least ",
                   sizeof header, ", an image record's header");
  }
  std::memcpy(&header, record.data(), sizeof header);
  const std::string_view rest = record.substr(sizeof header);
  if (header.label_count > rest.size() / sizeof(float)) {
    throw DataLoss(name, ": found a record of ", record.size(), " bytes, expected ",
                   header.label_count, " labels behind its header");
  }
  ImageRecord result = {.label = {header.label}, .id = header.id};
  const size_t label_bytes = header.label_count * sizeof(float);
  if (label_bytes > 0) {
    result.label.resize(header.label_count);
    std::memcpy(result.label.data(), rest.data(), label_bytes);
  }
  result.file = {reinterpret_cast<const uint8_t*>(rest.data()) + label_bytes,
                 rest.size() - label_bytes};
  return result;
}

std::string PackImageRecord(const ImageRecord& record) {
  if (record.label.empty()) {
    throw InvalidArgument("PackImageRecord: there is no label, expected at least one");
  }
  const bool is_single = record.label.size() == 1;
  const Header header = {.label_count = is_single ? 0 : static_cast<uint32_t>(record.label.size()),
                         .label = is_single ? record.label[0] : 0,
                         .id = record.id,
                         .second_id = 0};
  std::string bytes(reinterpret_cast<const char*>(&header), sizeof header);
  if (!is_single) {
    bytes.append(reinterpret_cast<const char*>(record.label.data()),
                 record.label.size() * sizeof(float));
  }
  bytes.append(reinterpret_cast<const char*>(record.file.data()), record.file.size());
  return bytes;
}

}  // namespace tessera
