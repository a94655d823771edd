#ifndef TESSERA_IO_IDX_ITER_H_
#define TESSERA_IO_IDX_ITER_H_

#include <optional>
#include <span>
#include <string>

#include "tessera/io/example_iter.h"
#include "tessera/io/idx_file.h"

namespace tessera {

/// What an IdxIter reads, and how it makes batches of that.
struct IdxIterOptions {
  std::string image;  ///< path of an IDX file of rank 2 to 4: (examples, [channels,] height, width)
  std::string label;  ///< path of an IDX file of rank 1 with as many elements
  index_t batch_size = 128;  ///< these four: see BatchingOptions
  bool shuffle = true;       ///< unlike there, on by default
  uint64_t seed = 0;         ///< of the order
  bool round_batch = true;   ///< whether the last batch is filled up
  /// Images as (batch, pixels) instead of (batch, channels, height, width).
  bool flat = false;
  /// Of num_parts equal parts of the examples, this iterator goes through part_index.
  int num_parts = 1;
  int part_index = 0;
  /// If positive, labels must lie in [0, num_classes).
  index_t num_classes = 0;
  /// What pixels are multiplied by; by default 1 / the largest pixel of the file.
  std::optional<float> scale = std::nullopt;
  std::string data_name = "data";            ///< the variable that images feed
  std::string label_name = "softmax_label";  ///< the variable that labels feed
};

/// Images and labels from two IDX files (what MNISTIter reads), as float32.
///
/// The constructor reads both files and throws what ReadIdxFile throws, and Error that names the
/// file, what was found and what was expected: kDataLoss for a rank that does not fit, images
/// without a pixel, pixels that are not finite where the scale is theirs, or numbers of images and
/// labels that differ; kOutOfRange for a label outside its range, with its position;
/// kInvalidArgument for a batch larger than the data or for impossible parts.
class IdxIter final : public ExampleIter {
 public:
  explicit IdxIter(const IdxIterOptions& options);

  /// What pixels are multiplied by: give it to the iterator over the test images.
  float scale() const { return scale_; }

  /// The shape of one image, as in its file.
  TShape image_shape() const {
    return TShape(std::span<const index_t>(image_.shape.begin() + 1, image_.shape.end()));
  }

 private:
  /// What the files hold, checked, before there is an iterator.
  struct Contents;

  IdxIter(const IdxIterOptions& options, Contents contents);
  void CopyRows(int array, std::span<const index_t> examples, void* rows) const override;

  IdxArray image_;
  IdxArray label_;
  index_t pixels_;
  float scale_;
};

}  // namespace tessera

#endif  // TESSERA_IO_IDX_ITER_H_
