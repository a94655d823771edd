#include "tessera/io/image_record_iter.h"

#include <algorithm>
#include <memory>
#include <string_view>
#include <utility>

#include "tessera/base/error.h"
#include "tessera/image/decode.h"
#include "tessera/image/planes.h"
#include "tessera/io/images/image_steps.h"
#include "tessera/io/images/record_batches.h"

namespace tessera {
namespace {

using io_internal::CheckPixelOptions;
using io_internal::Draw;
using io_internal::RecordBatches;

constexpr const char* kWhat = "ImageRecordIter";

const ImageRecordIterOptions& Checked(const ImageRecordIterOptions& options) {
  constexpr int64_t kMostLabels = int64_t{1} << 24;
  if (options.label_width < 1 || options.label_width > kMostLabels) {
    throw InvalidArgument(kWhat, ": label_width ", options.label_width, ", expected 1 to ",
                          kMostLabels);
  }
  CheckPixelOptions(kWhat, options.channels, options.deviation);
  if (options.dtype != DType::kFloat32 && options.dtype != DType::kUint8 &&
      options.dtype != DType::kInt8) {
    throw InvalidArgument(kWhat, ": dtype ", options.dtype, ", expected float32, uint8 or int8");
  }
  return options;
}

/// Makes examples of records as the options say.
class Maker final : public io_internal::ExampleMaker {
 public:
  explicit Maker(const ImageRecordIterOptions& options)
      : options_(Checked(options)), augmenter_(options.augmenter) {}

  void Make(const ImageRecord& record, std::string_view name, ImageRandom* random, Image* image,
            void* data, float* label) const override {
    if (static_cast<int64_t>(record.label.size()) != options_.label_width) {
      throw InvalidArgument(name, ": found ", record.label.size(), " labels, expected label_width ",
                            options_.label_width);
    }
    DecodeImage(record.file, name, {.channels = static_cast<int>(options_.channels)}, image);
    augmenter_.Augment(random, image);
    Store(*image, random, data);
    std::copy(record.label.begin(), record.label.end(), label);
  }

 private:
  /// Writes an image as an example: mirrored, normalized, and channel by channel.
  void Store(const Image& image, ImageRandom* random, void* to) const {
    const double coin = Draw(random, 0, 1);
    const auto contrast = static_cast<float>(
        1 + Draw(random, -options_.max_random_contrast, options_.max_random_contrast));
    const auto illumination = static_cast<float>(
        Draw(random, -options_.max_random_illumination, options_.max_random_illumination));
    const Mirroring mirroring = options_.mirror || (options_.rand_mirror && coin < 0.5)
                                    ? Mirroring::kLeftRight
                                    : Mirroring::kNone;
    if (options_.dtype == DType::kUint8) {
      StorePlanes(image, mirroring, static_cast<uint8_t*>(to),
                  [](uint8_t level, int64_t) { return level; });
      return;
    }
    if (options_.dtype == DType::kInt8) {
      StorePlanes(image, mirroring, static_cast<int8_t*>(to),
                  [this](uint8_t level, int64_t channel) {
                    const float value =
                        static_cast<float>(level) - options_.mean[static_cast<size_t>(channel)];
                    return static_cast<int8_t>(std::clamp(value, -128.0f, 127.0f));
                  });
      return;
    }
    LevelScale scale;
    for (size_t c = 0; c < scale.factor.size(); ++c) {
      const float unit = options_.scale / options_.deviation[c];
      scale.factor[c] = contrast * unit;
      scale.shift[c] = (illumination - options_.mean[c] * contrast) * unit;
    }
    WritePlanes(image.view(), mirroring, scale, {image.height, image.width},
                static_cast<float*>(to));
  }

  template <typename T, typename Convert>
  static void StorePlanes(const Image& image, Mirroring mirroring, T* to, const Convert& convert) {
    const int64_t channels = image.channels, width = image.width;
    for (int64_t c = 0; c < channels; ++c) {
      for (int64_t y = 0; y < image.height; ++y, to += width) {
        const uint8_t* const row = image.view().row(y) + c;
        if (mirroring == Mirroring::kLeftRight) {
          for (int64_t x = 0; x < width; ++x) to[x] = convert(row[(width - 1 - x) * channels], c);
        } else {
          for (int64_t x = 0; x < width; ++x) to[x] = convert(row[x * channels], c);
        }
      }
    }
  }

  const ImageRecordIterOptions options_;
  const ImageAugmenter augmenter_;
};

std::unique_ptr<RecordBatches> MakeBatches(const ImageRecordIterOptions& options) {
  auto maker = std::make_unique<Maker>(options);
  const TShape label_shape = options.label_width == 1
                                 ? TShape({options.batch_size})
                                 : TShape({options.batch_size, options.label_width});
  return io_internal::MakeImageBatches(kWhat, options, options.dtype, label_shape,
                                       io_internal::ReadListedLabels(options.path_imglist),
                                       std::move(maker));
}

}  // namespace

ImageRecordIter::ImageRecordIter(const ImageRecordIterOptions& options)
    : ImageBatchIter(MakeBatches(options)) {}

}  // namespace tessera
