#ifndef TESSERA_IO_IMAGES_RECORD_BATCHES_H_
#define TESSERA_IO_IMAGES_RECORD_BATCHES_H_

#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "tessera/base/dtype.h"
#include "tessera/base/shape.h"
#include "tessera/base/tshape.h"
#include "tessera/engine/engine.h"
#include "tessera/image/image.h"
#include "tessera/io/data_iter.h"
#include "tessera/io/image_random.h"
#include "tessera/io/image_record.h"
#include "tessera/io/records/record_file.h"

namespace tessera::io_internal {

/// Makes examples of image records.
///
/// Threads: concurrent calls have distinct arguments.
class ExampleMaker {
 public:
  virtual ~ExampleMaker() = default;

  /// Writes the data and the labels of a record to those of one example of a batch, all of them.
  /// `name` begins the errors. The memory of `image` is used again. The result depends on nothing
  /// but record and random numbers. Throws Error: kDataLoss and kResourceExhausted if the image is
  /// damaged, others if the options do not suit it.
  virtual void Make(const ImageRecord& record, std::string_view name, ImageRandom* random,
                    Image* image, void* data, float* label) const = 0;
};

/// Images whose memory is used again: as many as are made at once. Thread-safe.
class SpareImages {
 public:
  std::unique_ptr<Image> Take() {
    const std::lock_guard lock(mutex_);
    if (images_.empty()) return std::make_unique<Image>();
    std::unique_ptr<Image> image = std::move(images_.back());
    images_.pop_back();
    return image;
  }
  void GiveBack(std::unique_ptr<Image> image) {
    const std::lock_guard lock(mutex_);
    images_.push_back(std::move(image));
  }

 private:
  std::mutex mutex_;
  std::vector<std::unique_ptr<Image>> images_;  // guarded by mutex_
};

/// The labels of images by their numbers, which replace those of records.
using ListedLabels = std::unordered_map<uint64_t, std::vector<float>>;

/// Reads the labels of a list. Returns none for an empty path. Throws what ReadImageList throws,
/// and Error(kDataLoss) if the list is empty.
ListedLabels ReadListedLabels(const std::string& path);

/// The options by which RecordBatches selects records and batches their examples. They are those of
/// ImageRecordIterOptions.
struct RecordBatchOptions {
  std::string path_imgrec;
  index_t batch_size = 1;
  bool round_batch = true;
  bool shuffle = false;
  uint64_t seed = 0;
  int num_parts = 1;
  int part_index = 0;
  int prefetch_buffer = 1;
  DamagedImages damaged = DamagedImages::kThrow;
};

/// Makes batches of the examples of a record file ahead: what the iterators over images do.
///
/// The batches are in a ring of arrays, each of which is written again once no operation uses it.
/// They are made in the ring's order, again and again. For each, one operation reads the records,
/// one for each image decodes it, and a last one ends the batch. A variable for the reader orders
/// the first ones, and one for each batch its own operations. Operations keep errors for Next, and
/// fail themselves never.
class RecordBatches final : public DataIter {
 public:
  /// `data` and `label`, whose labels are float, describe a batch. `what` begins the errors. Throws
  /// Error(kInvalidArgument) for impossible options, and what RecordFile's constructor throws.
  RecordBatches(std::string_view what, const RecordBatchOptions& options, ListedLabels labels,
                const DataDesc& data, const DataDesc& label, std::unique_ptr<ExampleMaker> maker);
  ~RecordBatches() override;

  void BeforeFirst() override;
  bool Next() override;
  const DataBatch& GetBatch() const override;
  const std::vector<DataDesc>& ProvideData() const override { return data_; }
  const std::vector<DataDesc>& ProvideLabel() const override { return label_; }
  index_t batch_size() const override { return options_.batch_size; }
  TrainingState SaveState() const override;
  void LoadState(const TrainingState& state) override;

  /// Returns the number of damaged records and images that were left out, of all batches that Next
  /// has returned.
  int64_t num_damaged() const { return num_damaged_; }

 private:
  struct Example;
  struct Slot;
  /// Where the operations that read records are.
  struct Position {
    uint64_t pass = 0;        // passes that have begun
    int64_t record = 0;       // RecordFile::position
    uint64_t pass_count = 0;  // records that the pass has read
  };

  std::vector<int64_t> Setup() const;
  Position ReaderPosition() const { return {pass_, file_.position(), pass_count_}; }
  void WaitForAll();
  void Make(Slot* slot);
  void StartPass();
  void ReadRecords(Slot* slot);
  [[noreturn]] void ThrowNoRecords() const;
  bool ReadExample(Slot* slot);
  void DecodeExample(Slot* slot, index_t i);
  void Decode(Slot* slot, index_t i, Example* example);
  void EndBatch(Slot* slot);

  const std::string what_;
  const RecordBatchOptions options_;
  const ListedLabels labels_;
  const std::vector<DataDesc> data_;
  const std::vector<DataDesc> label_;
  const std::unique_ptr<ExampleMaker> maker_;
  RecordFile file_;
  SpareImages images_;

  Engine* const engine_;
  Variable* const reader_;
  std::vector<Slot> slots_;
  // Of the operations that read records: see Position.
  uint64_t pass_ = 0;
  uint64_t pass_count_ = 0;

  // Of the program's thread.
  size_t current_ = 0;           // the slot of the last batch
  bool has_begun_ = false;       // whether the slots are made
  bool is_at_beginning_ = true;  // whether BeforeFirst has nothing to do
  bool epoch_ended_ = false;
  bool has_failed_ = false;
  bool has_batch_ = false;
  int64_t num_damaged_ = 0;
};

/// Throws Error(kInvalidArgument) unless the channels are 1, 3 or 4 and no deviation is 0. `what`
/// begins the error.
void CheckPixelOptions(std::string_view what, int64_t channels, std::span<const float> deviation);

/// Makes the batches of an iterator over images. `options` has the fields of RecordBatchOptions,
/// and those of both iterators that describe the images. `dtype` is that of the images, and
/// `label_shape` the shape of a batch's labels. Throws what the constructor of RecordBatches does.
template <typename Options>
std::unique_ptr<RecordBatches> MakeImageBatches(std::string_view what, const Options& options,
                                                DType dtype, const TShape& label_shape,
                                                ListedLabels labels,
                                                std::unique_ptr<ExampleMaker> maker) {
  const ImageSize size = options.augmenter.size;
  const TShape shape = {options.batch_size, options.channels, size.height, size.width};
  return std::make_unique<RecordBatches>(
      what,
      RecordBatchOptions{.path_imgrec = options.path_imgrec,
                         .batch_size = options.batch_size,
                         .round_batch = options.round_batch,
                         .shuffle = options.shuffle,
                         .seed = options.seed,
                         .num_parts = options.num_parts,
                         .part_index = options.part_index,
                         .prefetch_buffer = options.prefetch_buffer,
                         .damaged = options.damaged},
      std::move(labels), DataDesc{options.data_name, shape, dtype},
      DataDesc{options.label_name, label_shape, DType::kFloat32}, std::move(maker));
}

}  // namespace tessera::io_internal

#endif  // TESSERA_IO_IMAGES_RECORD_BATCHES_H_
