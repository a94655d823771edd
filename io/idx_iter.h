#ifndef TESSERA_IO_IDX_ITER_H_
#define TESSERA_IO_IDX_ITER_H_

#include <optional>
#include <span>
#include <string>

#include "tessera/io/example_iter.h"
#include "tessera/io/host_array.h"
#include "tessera/io/idx_file.h"

namespace tessera {

/// The files of an IdxIter, and the options by which it makes batches.
struct IdxIterOptions {
  std::string image;  ///< path of an IDX file of rank 2 to 4: (examples, [channels,] height, width)
  std::string label;  ///< path of an IDX file of rank 1 with as many elements
  index_t batch_size = 128;  ///< BatchingOptions explains this and the next two
  bool shuffle = true;       ///< on by default, unlike in BatchingOptions
  uint64_t seed = 0;         ///< of the order
  bool round_batch = true;   ///< whether the last batch is padded, not discarded
  /// Tells whether images have shape (batch, pixels) instead of (batch, channels, height, width).
  bool flat = false;
  /// BatchingOptions explains the parts.
  int num_parts = 1;
  int part_index = 0;
  /// If positive, labels must be in [0, num_classes).
  index_t num_classes = 0;
  /// The factor of pixels; by default 1 / the largest pixel of the file.
  std::optional<float> scale = std::nullopt;
  std::string data_name = "data";            ///< the variable that images feed
  std::string label_name = "softmax_label";  ///< the variable that labels feed
};

/// Images and labels from two IDX files as float32, like MXNet's MNISTIter.
///
/// The constructor reads both files. It throws what ReadIdxFile throws, and Error that names the
/// file, the value found and the value expected. kDataLoss: a rank that does not fit, images
/// without a pixel, different numbers of images and labels, or pixels that are not finite if the
/// scale depends on them. kOutOfRange: a label outside its range, with its position.
/// kInvalidArgument: a batch larger than the data, or impossible parts.
class IdxIter final : public ExampleIter {
 public:
  explicit IdxIter(const IdxIterOptions& options);

  /// Returns the factor of pixels. The iterator over the test images should have the same.
  float scale() const { return scale_; }

  /// Returns the shape of one image, as in its file.
  TShape image_shape() const {
    return TShape(std::span<const index_t>(image_.shape.begin() + 1, image_.shape.end()));
  }

 private:
  /// The checked contents of the files, read before the iterator is constructed.
  struct Contents;

  IdxIter(const IdxIterOptions& options, Contents contents);
  void CopyRows(int array, std::span<const index_t> examples, void* rows) const override;

  HostArray image_;
  HostArray label_;
  index_t pixels_;
  float scale_;
};

}  // namespace tessera

#endif  // TESSERA_IO_IDX_ITER_H_
