#ifndef TESSERA_IO_SAMPLER_H_
#define TESSERA_IO_SAMPLER_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string_view>
#include <vector>

#include "tessera/base/shape.h"

namespace tessera {

/// The treatment of the last examples of an epoch if they do not fill a batch.
enum class LastBatch : uint8_t {
  kPad,       ///< the batch is padded with examples from the epoch's beginning
  kKeep,      ///< the batch is smaller
  kDiscard,   ///< the examples are left out
  kRollOver,  ///< the examples begin the next epoch's first batch
};

/// Options by which an iterator makes batches of its examples.
struct BatchingOptions {
  index_t batch_size = 128;  ///< examples in a batch, at least 1
  /// Tells whether every epoch has its own order, which `seed` and the epoch's number determine.
  bool shuffle = false;
  uint64_t seed = 0;
  LastBatch last_batch = LastBatch::kPad;  ///< the treatment of the last examples
  /// The examples are divided into num_parts consecutive parts whose sizes differ by at most 1, and
  /// the iterator has part part_index.
  int num_parts = 1;
  int part_index = 0;
};

/// The examples [begin, end).
struct ExampleRange {
  index_t begin = 0;  ///< the first example
  index_t end = 0;    ///< the example after the last

  /// Returns the number of examples.
  index_t size() const { return end - begin; }
};

/// Returns the examples of the part that the options name, out of `count`. `what` begins the
/// errors. Throws Error(kInvalidArgument) for impossible parts.
ExampleRange PartOf(std::string_view what, index_t count, const BatchingOptions& options);

/// Returns the examples of an epoch in their order. The result depends on the epoch's number alone,
/// so that a position is an epoch and a number in it.
using Sampler = std::function<std::vector<index_t>(uint64_t epoch)>;

/// Returns the sampler of the examples in the order of their numbers.
Sampler SequentialSampler(ExampleRange range);
/// Returns the sampler that gives each epoch an order of its own, by Fisher and Yates's shuffle.
Sampler RandomSampler(ExampleRange range, uint64_t seed);

/// The batches of an epoch.
struct EpochBatches {
  /// The examples [begin, end) of EpochBatches::examples.
  struct Batch {
    index_t begin = 0;       ///< position of the first example
    index_t end = 0;         ///< position after the last example
    index_t pad = 0;         ///< how many examples at the end only pad the batch
    index_t bucket_key = 0;  ///< DataBatch::bucket_key
  };
  std::vector<index_t> examples;  ///< the examples of the batches, in their order
  std::vector<Batch> batches;     ///< the batches

  /// Returns the examples of a batch.
  std::span<const index_t> ExamplesOf(const Batch& batch) const {
    return std::span(examples).subspan(static_cast<size_t>(batch.begin),
                                       static_cast<size_t>(batch.end - batch.begin));
  }
};

/// Returns the batches of an epoch, which depend on the epoch's number alone.
using BatchSampler = std::function<EpochBatches(uint64_t epoch)>;

/// Returns the sampler that divides a sampler's epochs into batches. With kRollOver, all epochs
/// have as many examples. The result throws Error(kInvalidArgument) for a batch larger than an
/// epoch, except with kKeep. Throws Error(kInvalidArgument) for a batch size below 1.
BatchSampler InBatches(Sampler sampler, index_t batch_size, LastBatch last_batch);

/// Returns the sampler of `count` examples that the options describe. `what` begins the errors.
/// Throws Error(kInvalidArgument) for impossible parts or a part without examples, and for a batch
/// size that is not positive or, except with kKeep, larger than the part.
BatchSampler MakeBatchSampler(std::string_view what, index_t count, const BatchingOptions& options);

/// Returns the sampler of batches of examples with similar lengths. Example i, of length
/// lengths[i], belongs to the smallest of the buckets, which ascend, that is not shorter. A batch
/// has examples of one bucket, and the bucket is its key. With options.shuffle, the examples of
/// each bucket and then the batches are shuffled. kPad repeats examples of the bucket.
///
/// Throws Error(kInvalidArgument) for a batch size below 1, for impossible parts or a part without
/// examples, unless the buckets are positive and ascend, for an example that is longer than the
/// last bucket, which it names, and for kRollOver.
BatchSampler InBuckets(std::span<const index_t> lengths, std::span<const index_t> buckets,
                       const BatchingOptions& options);

}  // namespace tessera

#endif  // TESSERA_IO_SAMPLER_H_
