#ifndef TESSERA_IO_EXAMPLE_ITER_H_
#define TESSERA_IO_EXAMPLE_ITER_H_

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "tessera/io/data_iter.h"

namespace tessera {

/// Options by which an ExampleIter makes batches of its examples.
struct BatchingOptions {
  index_t batch_size = 128;  ///< examples in a batch, at least 1
  /// Tells whether every epoch has its own order, which `seed` and the epoch's number determine.
  bool shuffle = false;
  uint64_t seed = 0;
  /// The treatment of the last examples of an epoch if they do not fill a batch: true pads the
  /// batch with examples from the epoch's beginning, false drops them.
  bool round_batch = true;
};

/// An iterator over numbered examples. It selects the examples, and a derived class copies them.
/// Batches are in a ring of reused arrays. A loop may therefore run several batches ahead of its
/// computations, allocates nothing after the first round, and never overwrites an array that an
/// operation still reads.
class ExampleIter : public DataIter {
 public:
  void BeforeFirst() final;
  bool Next() final;
  const DataBatch& GetBatch() const final;
  const std::vector<DataDesc>& ProvideData() const final { return data_; }
  const std::vector<DataDesc>& ProvideLabel() const final { return label_; }
  index_t batch_size() const final { return options_.batch_size; }

  /// Return the number of examples in an epoch, without padding, and of batches.
  index_t num_examples() const { return end_ - begin_; }
  index_t num_batches() const { return num_batches_; }

 protected:
  /// Constructs an iterator over examples [begin, end) of a set, with arrays whose shapes begin
  /// with the batch size. `what` begins the errors. Throws Error(kInvalidArgument) if the batch
  /// size is not positive or exceeds the number of examples.
  ExampleIter(std::string_view what, std::vector<DataDesc> data, std::vector<DataDesc> label,
              index_t begin, index_t end, const BatchingOptions& options);

  /// Writes the rows of the given examples to `rows`, one after the other, in the description's
  /// type. `array` counts ProvideData and then ProvideLabel. Next calls it in its thread, for the
  /// examples of several batches at once, and throws what it throws.
  virtual void CopyRows(int array, std::span<const index_t> examples, void* rows) const = 0;

 private:
  void StartEpoch();
  void MakeRing();
  void FillBlock(index_t first_batch);

  const BatchingOptions options_;
  const std::vector<DataDesc> data_;
  const std::vector<DataDesc> label_;
  const index_t begin_;
  const index_t end_;
  index_t num_batches_ = 0;

  std::vector<index_t> order_;  // num_batches_ * batch_size examples
  uint64_t epoch_ = 0;
  index_t position_ = -1;  // the epoch's current batch
  bool started_ = false;

  // A block is several batches, with one array for each description. One wait for the readers of a
  // block then serves all of its batches.
  index_t batches_per_block_ = 0;
  std::vector<std::vector<NDArray>> blocks_;
  std::vector<DataBatch> ring_;  // slices of the blocks
  index_t slot_ = 0;
};

}  // namespace tessera

#endif  // TESSERA_IO_EXAMPLE_ITER_H_
