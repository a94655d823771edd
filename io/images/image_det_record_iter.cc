#include "tessera/io/image_det_record_iter.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "tessera/base/error.h"
#include "tessera/image/decode.h"
#include "tessera/image/planes.h"
#include "tessera/io/images/record_batches.h"
#include "tessera/io/records/record_file.h"

namespace tessera {
namespace {

using io_internal::CheckPixelOptions;
using io_internal::ListedLabels;
using io_internal::RecordBatches;
using io_internal::RecordFile;

constexpr const char* kWhat = "ImageDetRecordIter";
/// The numbers before an example's labels: channels, height, width, and the number of labels.
constexpr int64_t kPrefix = 4;
/// Labels of an image; a record that claims more counts as damaged.
constexpr int64_t kMostLabels = int64_t{1} << 20;

const ImageDetRecordIterOptions& Checked(const ImageDetRecordIterOptions& options) {
  CheckPixelOptions(kWhat, options.channels, options.deviation);
  if (options.label_pad_width < -1 || options.label_pad_width > kMostLabels) {
    throw InvalidArgument(kWhat, ": label_pad_width ", options.label_pad_width, ", expected -1 to ",
                          kMostLabels);
  }
  return options;
}

/// Returns the most labels that a list or the file's records have. Records whose labels exceed
/// them or kMostLabels do not count: they are damaged, which reading them says.
int64_t MostLabels(const std::string& path, const ListedLabels& listed) {
  int64_t most = 0;
  for (const auto& [id, labels] : listed) {
    most = std::max(most, static_cast<int64_t>(labels.size()));
  }
  if (!listed.empty()) return most;
  // All parts have the same shape.
  RecordFile(path, 1, 0)
      .ReadBeginnings(sizeof(uint32_t), [&most](const RecordFile::Beginning& beginning) {
        uint32_t count = 0;
        if (beginning.bytes.size() < sizeof count) return;
        std::memcpy(&count, beginning.bytes.data(), sizeof count);
        constexpr int64_t kHeaderBytes = 24;
        const int64_t possible =
            (beginning.part_bytes - kHeaderBytes) / static_cast<int64_t>(sizeof(float));
        if (count <= kMostLabels && count <= possible) most = std::max<int64_t>(most, count);
      });
  return most;
}

int64_t PadWidth(const ImageDetRecordIterOptions& options, const ListedLabels& listed) {
  const int64_t most = MostLabels(options.path_imgrec, listed);
  if (options.label_pad_width <= 0) return most;
  if (options.label_pad_width < most) {
    throw InvalidArgument(kWhat, ": label_pad_width ", options.label_pad_width,
                          ", expected at least ", most, ", the labels of an image in ",
                          options.path_imgrec);
  }
  return options.label_pad_width;
}

/// Makes examples of records as the options say.
class Maker final : public io_internal::ExampleMaker {
 public:
  Maker(const ImageDetRecordIterOptions& options, int64_t pad_width)
      : options_(Checked(options)), augmenter_(options.augmenter), pad_width_(pad_width) {
    for (size_t c = 0; c < scale_.factor.size(); ++c) {
      scale_.factor[c] = options.scale / options.deviation[c];
      scale_.shift[c] = -options.mean[c] * scale_.factor[c];
    }
  }

  void Make(const ImageRecord& record, std::string_view name, ImageRandom* random, Image* image,
            void* data, float* label) const override {
    const auto count = static_cast<int64_t>(record.label.size());
    if (options_.label_width > 0 && count != options_.label_width) {
      throw InvalidArgument(name, ": found ", count, " labels, expected label_width ",
                            options_.label_width);
    }
    if (count > pad_width_) {
      throw DataLoss(name, ": found ", count, " labels, expected at most ", pad_width_);
    }
    DetectionLabel objects = ParseDetectionLabel(record.label, name);
    DecodeImage(record.file, name, {.channels = static_cast<int>(options_.channels)}, image);
    augmenter_.Augment(random, image, &objects);
    WritePlanes(std::as_const(*image).view(), Mirroring::kNone, scale_, options_.augmenter.size,
                static_cast<float*>(data));
    WriteLabels(*image, objects, label);
  }

 private:
  void WriteLabels(const Image& image, const DetectionLabel& objects, float* to) const {
    float* const end = to + kPrefix + pad_width_;
    *to++ = static_cast<float>(image.channels);
    *to++ = static_cast<float>(image.height);
    *to++ = static_cast<float>(image.width);
    *to++ = static_cast<float>(objects.header.size() + objects.objects.size());
    to = std::copy(objects.header.begin(), objects.header.end(), to);
    to = std::copy(objects.objects.begin(), objects.objects.end(), to);
    std::fill(to, end, options_.label_pad_value);
  }

  const ImageDetRecordIterOptions options_;
  const ImageDetAugmenter augmenter_;
  const int64_t pad_width_;
  LevelScale scale_;
};

std::unique_ptr<RecordBatches> MakeBatches(const ImageDetRecordIterOptions& options) {
  Checked(options);
  ListedLabels listed = io_internal::ReadListedLabels(options.path_imglist);
  const int64_t pad_width = PadWidth(options, listed);
  auto maker = std::make_unique<Maker>(options, pad_width);
  return io_internal::MakeImageBatches(kWhat, options, DType::kFloat32,
                                       TShape({options.batch_size, kPrefix + pad_width}),
                                       std::move(listed), std::move(maker));
}

}  // namespace

ImageDetRecordIter::ImageDetRecordIter(const ImageDetRecordIterOptions& options)
    : ImageBatchIter(MakeBatches(options)) {}

}  // namespace tessera
