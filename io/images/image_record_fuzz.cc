// A fuzz target for what image records are made of. The first byte chooses: an image record whose
// labels are objects and whose image is augmented with them, or a list of images. Any bytes give
// an example of the size or an Error. Compile this file by clang with -fsanitize=fuzzer,address.
// image_record_mutation_test drives it without clang.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/base/error.h"
#include "tessera/image/decode.h"
#include "tessera/image/image.h"
#include "tessera/io/image_det_augmenter.h"
#include "tessera/io/image_list.h"
#include "tessera/io/image_random.h"
#include "tessera/io/image_record.h"

namespace {

using tessera::ImageDetAugmenter;

void AugmentRecord(std::string_view bytes) {
  static const auto* const augmenter = new ImageDetAugmenter(
      {.size = {6, 5},
       .resize = 8,
       .max_random_hue = 20,
       .random_hue_prob = 0.5f,
       .rand_mirror_prob = 0.5f,
       .rand_pad_prob = 0.5f,
       .max_pad_scale = 2,
       .rand_crop_prob = 1,
       .crops = {{.min_scale = 0.3f, .min_object_coverage = 0.5f}, {.min_aspect_ratio = 0.5f}}});
  const tessera::ImageRecord record = tessera::ParseImageRecord(bytes, "fuzz");
  tessera::DetectionLabel label = tessera::ParseDetectionLabel(record.label, "fuzz");
  const size_t numbers = label.header.size() + label.objects.size();
  tessera::Image image;
  tessera::DecodeImage(record.file, "fuzz", {.max_pixels = 1 << 16}, &image);
  tessera::ImageRandom random(record.id);
  augmenter->Augment(&random, &image, &label);
  if (image.height != 6 || image.width != 5 || image.channels != 3 ||
      label.header.size() + label.objects.size() > numbers) {
    std::abort();
  }
}

/// Every list that is read is read again from the lines of its images.
void ReadList(std::string_view text) {
  for (const tessera::ListedImage& image : tessera::ParseImageList(text, "fuzz")) {
    // A carriage return within a line is no end of one.
    if (image.path.find('\r') != image.path.npos) continue;
    const std::string line = tessera::FormatListedImage(image);
    const std::vector<tessera::ListedImage> again = tessera::ParseImageList(line, "again");
    if (again.size() != 1 || again[0].id != image.id || again[0].path != image.path ||
        again[0].label.size() != image.label.size()) {
      std::abort();
    }
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const std::string_view bytes(reinterpret_cast<const char*>(data) + 1, size - 1);
  try {
    if (data[0] % 2 == 0) {
      AugmentRecord(bytes);
    } else {
      ReadList(bytes);
    }
  } catch (const tessera::Error&) {
  }
  return 0;
}
