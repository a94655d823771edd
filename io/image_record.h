#ifndef TESSERA_IO_IMAGE_RECORD_H_
#define TESSERA_IO_IMAGE_RECORD_H_

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/base/dialect.h"

namespace tessera {

/// The treatment of a damaged record or image.
enum class DamagedImages {
  kThrow,  ///< Next throws Error(kDataLoss) that names file, record and byte
  kSkip,   ///< it is left out and counted
};

/// A record of an image data set as MXNet's im2rec writes it: labels, a number, and an image file.
struct ImageRecord {
  std::vector<float> label;       ///< at least one
  uint64_t id = 0;                ///< the image's number in its list
  std::span<const uint8_t> file;  ///< the image file, which belongs to the record's bytes
};

/// Reads a record's bytes, which the result refers to. `name` begins the error. Throws
/// Error(kDataLoss) that names the bytes found and expected if the record is too short.
ImageRecord ParseImageRecord(std::string_view record, std::string_view name);

/// Returns the bytes of a record. A single label stands in the header, several behind it.
std::string PackImageRecord(const ImageRecord& record);

}  // namespace tessera

#endif  // TESSERA_IO_IMAGE_RECORD_H_
