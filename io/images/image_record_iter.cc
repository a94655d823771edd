#include "tessera/io/image_record_iter.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "tessera/base/error.h"
#include "tessera/image/decode.h"
#include "tessera/image/planes.h"
#include "tessera/io/images/image_steps.h"
#include "tessera/io/images/record_batches.h"

namespace tessera {
namespace {

using io_internal::Draw;
using io_internal::RecordBatches;

constexpr const char* kWhat = "ImageRecordIter";

const ImageRecordIterOptions& Checked(const ImageRecordIterOptions& options) {
  constexpr int64_t kMostLabels = int64_t{1} << 24;
  if (options.label_width < 1 || options.label_width > kMostLabels) {
    throw InvalidArgument(kWhat, ": label_width ", options.label_width, ", expected 1 to ",
                          kMostLabels);
  }
  if (options.channels != 1 && options.channels != 3 && options.channels != 4) {
    throw InvalidArgument(kWhat, ": ", options.channels, " channels, expected 1, 3 or 4");
  }
  if (options.dtype != DType::kFloat32 && options.dtype != DType::kUint8 &&
      options.dtype != DType::kInt8) {
    throw InvalidArgument(kWhat, ": dtype ", options.dtype, ", expected float32, uint8 or int8");
  }
  for (const float deviation : options.deviation) {
    if (deviation == 0) throw InvalidArgument(kWhat, ": a deviation is 0, expected other numbers");
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
  const DataDesc data = {options.data_name,
                         TShape({options.batch_size, options.channels,
                                 options.augmenter.size.height, options.augmenter.size.width}),
                         options.dtype};
  const DataDesc label = {options.label_name,
                          options.label_width == 1
                              ? TShape({options.batch_size})
                              : TShape({options.batch_size, options.label_width}),
                          DType::kFloat32};
  return std::make_unique<RecordBatches>(
      kWhat,
      io_internal::RecordBatchOptions{.path_imgrec = options.path_imgrec,
                                      .batch_size = options.batch_size,
                                      .round_batch = options.round_batch,
                                      .shuffle = options.shuffle,
                                      .seed = options.seed,
                                      .num_parts = options.num_parts,
                                      .part_index = options.part_index,
                                      .prefetch_buffer = options.prefetch_buffer,
                                      .damaged = options.damaged},
      io_internal::ReadListedLabels(options.path_imglist), data, label, std::move(maker));
}

}  // namespace

ImageRecordIter::ImageRecordIter(const ImageRecordIterOptions& options)
    : batches_(MakeBatches(options)) {}

ImageRecordIter::~ImageRecordIter() = default;

void ImageRecordIter::BeforeFirst() { batches_->BeforeFirst(); }
bool ImageRecordIter::Next() { return batches_->Next(); }
const DataBatch& ImageRecordIter::GetBatch() const { return batches_->GetBatch(); }
const std::vector<DataDesc>& ImageRecordIter::ProvideData() const {
  return batches_->ProvideData();
}
const std::vector<DataDesc>& ImageRecordIter::ProvideLabel() const {
  return batches_->ProvideLabel();
}
index_t ImageRecordIter::batch_size() const { return batches_->batch_size(); }
TrainingState ImageRecordIter::SaveState() const { return batches_->SaveState(); }
void ImageRecordIter::LoadState(const TrainingState& state) { batches_->LoadState(state); }
int64_t ImageRecordIter::num_damaged() const { return batches_->num_damaged(); }

}  // namespace tessera
