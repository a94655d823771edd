#ifndef TESSERA_IO_DATA_LOADER_H_
#define TESSERA_IO_DATA_LOADER_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tessera/base/number.h"
#include "tessera/io/data_iter.h"
#include "tessera/io/dataset.h"
#include "tessera/io/sampler.h"

namespace tessera {

/// The number, epoch and random bits of a transform's example.
struct ExampleInfo {
  index_t index = 0;   ///< the number in the data set
  uint64_t epoch = 0;  ///< the epoch, from 0
  /// Random bits that depend on BatchingOptions::seed, the epoch and the index alone. A transform
  /// that draws random numbers seeds its generator with them, so that every run draws the same.
  uint64_t random = 0;
};

/// Returns the arrays of an example that go into the batch. Several threads call it at the same
/// time. May throw any exception.
using Transform = std::function<Example(Example example, const ExampleInfo& info)>;

/// Options of a DataLoader.
struct DataLoaderOptions {
  BatchingOptions batching = {};   ///< batches and their order
  BatchSampler sampler = nullptr;  ///< if set, makes the batches; `batching` only has the seed
  Transform transform = nullptr;   ///< if set, called for each example
  index_t prefetch = 4;            ///< batches that are loaded ahead, at least 0
  /// For batches with a bucket key: the element that fills the rest of an array whose first extent
  /// is smaller than the key. One for each array of an example; missing ones are 0.
  std::vector<Number> pad_values = {};
  /// The variables that the arrays of an example feed: first the data, then the labels.
  std::vector<std::string> data_names = {"data"};
  std::vector<std::string> label_names = {"softmax_label"};
};

/// Batches of a data set whose examples are read, transformed and stacked by the engine's worker
/// threads, which also compute. Each batch is loaded by one thread, several batches at the same
/// time; their order and contents do not depend on the threads.
///
///     DataLoader loader(std::make_shared<ArrayDataset>(arrays),
///                       {.batching = {.batch_size = 32, .shuffle = true}, .transform = Augment});
///     for (loader.BeforeFirst(); loader.Next();) Train(loader.GetBatch());
///
/// Arrays: all examples have the shapes and types of the first, which the constructor loads for
/// ProvideData. Sparse vectors make a new csr array for each batch. In batches with a bucket key,
/// the first extent of each array that has one may be any up to the key; it is padded to the key,
/// and ProvideData has the largest key; no array is sparse. With kKeep, an epoch's last batch has
/// fewer rows than batch_size().
///
/// Memory: prefetch + 2 batches, however slow the caller is. Prefetching continues across the end
/// of an epoch. An array is written again when the operations that use it are done.
///
/// Errors: Next throws Error that names the example for an exception of the data set or the
/// transform (with the code of an Error; kResourceExhausted for std::bad_alloc; kInvalidArgument
/// for others) and Error(kInvalidArgument) for an example of other shapes or types. Another call of
/// Next goes on with the batch after the failed one.
///
/// The destructor waits for examples that are being loaded.
class DataLoader final : public DataIter {
 public:
  /// Throws what MakeBatchSampler or the given sampler throws and what Next throws for the first
  /// example. Throws Error(kInvalidArgument) if there is no data set, if an example has another
  /// number of arrays than there are names, and for a negative `prefetch`.
  DataLoader(std::shared_ptr<const Dataset> dataset, const DataLoaderOptions& options);
  ~DataLoader() override;

  void BeforeFirst() override;
  bool Next() override;
  const DataBatch& GetBatch() const override;
  const std::vector<DataDesc>& ProvideData() const override { return data_; }
  const std::vector<DataDesc>& ProvideLabel() const override { return label_; }
  index_t batch_size() const override { return batch_size_; }
  TrainingState SaveState() const override;
  void LoadState(const TrainingState& state) override;

  /// Returns the number of batches in the current epoch.
  index_t num_batches() const { return static_cast<index_t>(epoch_batches_.batches.size()); }

 private:
  struct Source;
  struct Slot;

  std::vector<int64_t> Setup() const;
  EpochBatches BatchesOf(uint64_t epoch) const;
  void CheckBatches(uint64_t epoch, const EpochBatches& batches) const;
  void SetEpoch(uint64_t epoch, EpochBatches batches);
  void Cancel();
  void Prefetch();
  void Load(const std::shared_ptr<Slot>& slot, uint64_t epoch, const EpochBatches& batches,
            index_t number);

  const BatchingOptions batching_;
  const index_t prefetch_;
  BatchSampler sampler_;
  std::shared_ptr<const Source> source_;
  index_t batch_size_ = 0;
  index_t largest_key_ = 0;  // 0: arrays are not padded
  std::vector<DataDesc> data_;
  std::vector<DataDesc> label_;

  uint64_t epoch_ = 0;
  EpochBatches epoch_batches_;
  std::optional<EpochBatches> next_epoch_batches_;  // if some of them are being loaded
  index_t given_ = 0;                               // the epoch's batches that Next has gone past
  bool has_batch_ = false;

  // A ring of batches: the current one precedes `next_`, from which on `loading_` are being loaded.
  std::vector<std::shared_ptr<Slot>> ring_;
  size_t next_ = 0;
  index_t loading_ = 0;
  std::shared_ptr<std::atomic<bool>> cancelled_;  // of the batches that are being loaded
};

}  // namespace tessera

#endif  // TESSERA_IO_DATA_LOADER_H_
