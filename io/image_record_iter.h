#ifndef TESSERA_IO_IMAGE_RECORD_ITER_H_
#define TESSERA_IO_IMAGE_RECORD_ITER_H_

#include <array>
#include <cstdint>
#include <string>

#include "tessera/io/image_augmenter.h"
#include "tessera/io/image_batch_iter.h"
#include "tessera/io/image_record.h"

namespace tessera {

/// The record file of an ImageRecordIter, and the options by which it makes batches. Most names are
/// those of MXNet's ImageRecordIter.
struct ImageRecordIterOptions {
  std::string path_imgrec;  ///< a RecordIO file of image records, as im2rec writes it
  /// Labels that replace those of the records: lines of an image's number, labels and a path,
  /// separated by tabs. Records without a line are left out. Empty: the records' own labels.
  std::string path_imglist;
  int64_t label_width = 1;  ///< labels of each image; 1 gives labels of shape (batch)
  int64_t channels = 3;     ///< 1 for gray, 3 for color, 4 for color and alpha

  index_t batch_size = 128;  ///< examples in a batch, at least 1
  /// The treatment of the last examples if they do not fill a batch. True pads the batch with the
  /// next epoch's first examples, after which that epoch begins. False pads it with zeros.
  bool round_batch = true;
  bool shuffle = false;     ///< whether each epoch has its own order, which `seed` determines
  uint64_t seed = 0;        ///< of orders and of augmentation
  int num_parts = 1;        ///< the number of parts of the file, about equal in bytes
  int part_index = 0;       ///< the part that is read
  int prefetch_buffer = 4;  ///< batches that are made ahead, at least 1
  DamagedImages damaged = DamagedImages::kThrow;

  ImageAugmenterOptions augmenter;

  bool mirror = false;       ///< exchanges left and right
  bool rand_mirror = false;  ///< does so for half of the images
  /// Levels become ((level - mean) contrast + illumination) scale / deviation, channel by channel,
  /// where contrast is in [1 - max_random_contrast, 1 + max_random_contrast] and illumination in
  /// [-max_random_illumination, max_random_illumination]. With int8 they become level - mean, cut
  /// off and clamped, and with uint8 they stay.
  std::array<float, 4> mean = {0, 0, 0, 0};
  std::array<float, 4> deviation = {1, 1, 1, 1};
  float scale = 1;
  float max_random_contrast = 0;
  float max_random_illumination = 0;

  DType dtype = DType::kFloat32;   ///< of the images: float32, uint8 or int8; labels are float32
  std::string data_name = "data";  ///< the variable that the images feed
  std::string label_name = "softmax_label";  ///< the variable that the labels feed
};

/// Decodes, augments and batches the images of a record file, like MXNet's ImageRecordIter.
///
/// Shapes: images (batch, channels, height, width), labels (batch) or (batch, label_width).
/// DataBatch::index has the images' numbers.
///
/// The constructor opens the files, and throws Error: kNotFound, kFailedPrecondition,
/// kInvalidArgument for impossible options, kDataLoss for a damaged list. Next throws Error:
/// kDataLoss for a damaged record or image, unless it is skipped, and if there are no records;
/// kInvalidArgument for a record with another number of labels. After an Error, BeforeFirst begins
/// anew.
class ImageRecordIter final : public ImageBatchIter {
 public:
  explicit ImageRecordIter(const ImageRecordIterOptions& options);
};

}  // namespace tessera

#endif  // TESSERA_IO_IMAGE_RECORD_ITER_H_
