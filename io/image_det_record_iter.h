#ifndef TESSERA_IO_IMAGE_DET_RECORD_ITER_H_
#define TESSERA_IO_IMAGE_DET_RECORD_ITER_H_

#include <array>
#include <cstdint>
#include <string>

#include "tessera/io/image_batch_iter.h"
#include "tessera/io/image_det_augmenter.h"
#include "tessera/io/image_record.h"

namespace tessera {

/// The record file of an ImageDetRecordIter, and the options by which it makes batches. Most names
/// are those of MXNet's ImageDetRecordIter; those that ImageRecordIterOptions has too mean the
/// same.
struct ImageDetRecordIterOptions {
  std::string path_imgrec;  ///< a RecordIO file of image records with labels as DetectionLabel says
  std::string path_imglist;  ///< labels that replace those of the records; empty: their own
  int64_t label_width = -1;  ///< labels that each image must have; -1: any number
  /// Labels to which each image's are padded; 0 or -1: as many as the file's images have at most.
  int64_t label_pad_width = 0;
  float label_pad_value = -1;  ///< the value of padding
  int64_t channels = 3;        ///< 1 for gray, 3 for color, 4 for color and alpha

  index_t batch_size = 128;  ///< examples in a batch, at least 1
  bool round_batch = true;   ///< whether the next epoch's first examples pad the last batch
  bool shuffle = false;      ///< whether each epoch has its own order, which `seed` determines
  uint64_t seed = 0;         ///< of orders and of augmentation
  int num_parts = 1;         ///< the number of parts of the file, about equal in bytes
  int part_index = 0;        ///< the part that is read
  int prefetch_buffer = 4;   ///< batches that are made ahead, at least 1
  DamagedImages damaged = DamagedImages::kThrow;  ///< labels of another form are damage too

  ImageDetAugmenterOptions augmenter;

  /// Levels become (level - mean) scale / deviation, channel by channel.
  std::array<float, 4> mean = {0, 0, 0, 0};
  std::array<float, 4> deviation = {1, 1, 1, 1};
  float scale = 1;

  std::string data_name = "data";            ///< the variable that the images feed
  std::string label_name = "softmax_label";  ///< the variable that the labels feed
};

/// Decodes, augments and batches the images of a record file with the boxes of their objects, like
/// MXNet's ImageDetRecordIter. It works as ImageRecordIter does.
///
/// Shapes: images (batch, channels, height, width), float32; an image that does not fill its size
/// lies in the upper left corner, and the rest is 0. Labels (batch, 4 + label_pad_width), float32:
/// the image's channels, height and width, the number of its labels, the labels, and padding. Of
/// the labels, objects are missing that augmentation has cut off.
///
/// The constructor opens the files, and throws Error: kNotFound, kFailedPrecondition,
/// kInvalidArgument for impossible options and for a label_pad_width below that of the file's
/// images, kDataLoss for a damaged list. Next throws what ImageRecordIter::Next throws.
class ImageDetRecordIter final : public ImageBatchIter {
 public:
  explicit ImageDetRecordIter(const ImageDetRecordIterOptions& options);
};

}  // namespace tessera

#endif  // TESSERA_IO_IMAGE_DET_RECORD_ITER_H_
