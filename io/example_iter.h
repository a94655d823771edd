#ifndef TESSERA_IO_EXAMPLE_ITER_H_
#define TESSERA_IO_EXAMPLE_ITER_H_

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "tessera/io/data_iter.h"
#include "tessera/io/sampler.h"

namespace tessera {

/// An iterator over numbered examples. It selects the examples, and a derived class copies them.
/// Dense batches are in a ring of reused arrays. A loop may therefore run several batches ahead of
/// its computations, allocates no array after the first round, and never overwrites one that an
/// operation still reads. Each csr batch is a new array.
class ExampleIter : public DataIter {
 public:
  void BeforeFirst() final;
  bool Next() final;
  const DataBatch& GetBatch() const final;
  const std::vector<DataDesc>& ProvideData() const final { return data_; }
  const std::vector<DataDesc>& ProvideLabel() const final { return label_; }
  index_t batch_size() const final { return options_.batch_size; }
  TrainingState SaveState() const final;
  void LoadState(const TrainingState& state) final;

  /// Return the number of examples in the iterator's part, and of batches in the current epoch.
  index_t num_examples() const { return num_examples_; }
  index_t num_batches() const { return static_cast<index_t>(order_.batches.size()); }

 protected:
  /// Constructs an iterator over examples of a set of `count`, with arrays whose shapes begin with
  /// the batch size. `what` begins the errors. Throws what MakeBatchSampler throws, and
  /// Error(kInvalidArgument) for kKeep.
  ExampleIter(std::string_view what, std::vector<DataDesc> data, std::vector<DataDesc> label,
              index_t count, const BatchingOptions& options);

  /// Writes the rows of the given examples to `rows`, one after the other, in the description's
  /// type. `array` counts ProvideData and then ProvideLabel. Next calls it in its thread, for the
  /// examples of several batches at once, and throws what it throws.
  virtual void CopyRows(int array, std::span<const index_t> examples, void* rows) const = 0;

  /// Returns a new csr array with the rows of the given examples. `array` counts as in CopyRows.
  /// Next calls it in place of CopyRows for an array whose description says csr.
  virtual NDArray CsrRows(int array, std::span<const index_t> examples) const;

 private:
  std::vector<int64_t> Setup() const;
  void StartEpoch(uint64_t epoch);
  void MakeRing();
  void FillBlock(index_t slot, index_t first_batch);

  const BatchingOptions options_;
  const std::vector<DataDesc> data_;
  const std::vector<DataDesc> label_;
  const BatchSampler sampler_;
  const index_t num_examples_;

  uint64_t epoch_ = 0;
  EpochBatches order_;  // of the epoch
  index_t given_ = 0;   // the epoch's batches up to the current one
  bool has_batch_ = false;

  // A block is several batches, with one array for each description. One wait for the readers of a
  // block then serves all of its batches.
  index_t batches_per_block_ = 0;
  std::vector<std::vector<NDArray>> blocks_;
  std::vector<DataBatch> ring_;  // slices of the blocks
  index_t slot_ = 0;
};

}  // namespace tessera

#endif  // TESSERA_IO_EXAMPLE_ITER_H_
