#ifndef TESSERA_IO_EXAMPLE_ITER_H_
#define TESSERA_IO_EXAMPLE_ITER_H_

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "tessera/io/data_iter.h"

namespace tessera {

/// How an ExampleIter makes batches of its examples.
struct BatchingOptions {
  index_t batch_size = 128;  ///< examples in each, at least 1
  /// Every epoch in an order of its own, which seed and number of the epoch determine.
  bool shuffle = false;
  uint64_t seed = 0;
  /// The last examples of an epoch, where they do not fill a batch: true takes examples from the
  /// epoch's beginning as padding, false leaves them out.
  bool round_batch = true;
};

/// An iterator over examples that can be had by number: it chooses them, and a derived class says
/// what they are. Batches lie in a ring of arrays that are reused, so that a loop which runs ahead
/// of its computations can do so by several batches, takes no memory after the first round, and
/// never disturbs an operation that still reads.
class ExampleIter : public DataIter {
 public:
  void BeforeFirst() final;
  bool Next() final;
  const DataBatch& GetBatch() const final;
  const std::vector<DataDesc>& ProvideData() const final { return data_; }
  const std::vector<DataDesc>& ProvideLabel() const final { return label_; }
  index_t batch_size() const final { return options_.batch_size; }

  /// Examples in an epoch, padding not included, and batches.
  index_t num_examples() const { return end_ - begin_; }
  index_t num_batches() const { return num_batches_; }

 protected:
  /// For examples [begin, end) of a set, with arrays whose shapes begin with the batch size.
  /// `what` begins the errors: Error(kInvalidArgument) if the batch size is not positive, or if it
  /// is larger than the number of examples.
  ExampleIter(std::string_view what, std::vector<DataDesc> data, std::vector<DataDesc> label,
              index_t begin, index_t end, const BatchingOptions& options);

  /// Writes the rows of the given examples, one after the other, of the type of the description.
  /// `array` counts ProvideData and then ProvideLabel. Called by Next, in its thread, for the
  /// examples of several batches at once; what it throws Next throws.
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
  index_t position_ = -1;  // the present batch of the epoch
  bool started_ = false;

  // Several batches make a block, one array for each description: waiting until nobody reads it any
  // more is then done once for all of them.
  index_t batches_per_block_ = 0;
  std::vector<std::vector<NDArray>> blocks_;
  std::vector<DataBatch> ring_;  // slices of the blocks
  index_t slot_ = 0;
};

}  // namespace tessera

#endif  // TESSERA_IO_EXAMPLE_ITER_H_
