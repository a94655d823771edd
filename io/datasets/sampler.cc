#include "tessera/io/sampler.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "tessera/base/error.h"
#include "tessera/io/datasets/split_mix.h"

namespace tessera {
namespace {

using io_internal::SplitMix;

std::vector<index_t> InOrder(ExampleRange range) {
  std::vector<index_t> examples(static_cast<size_t>(range.size()));
  std::iota(examples.begin(), examples.end(), range.begin);
  return examples;
}

template <typename T>
void Shuffle(std::vector<T>* values, SplitMix* random) {
  for (size_t i = values->size(); i > 1; --i) {
    std::swap((*values)[i - 1],
              (*values)[static_cast<size_t>(random->Below(static_cast<index_t>(i)))]);
  }
}

void CheckBatchSize(std::string_view what, index_t batch_size) {
  if (batch_size < 1) {
    throw InvalidArgument(what, ": batch_size ", batch_size, ", expected at least 1");
  }
}

void CheckFits(std::string_view what, index_t batch_size, index_t count, LastBatch last_batch) {
  if (batch_size > count && last_batch != LastBatch::kKeep) {
    throw InvalidArgument(what, ": batch_size ", batch_size,
                          " is larger than the data, expected at most ", count,
                          ", its number of examples");
  }
}

/// Returns the part that the options name, which has examples.
ExampleRange CheckedPart(std::string_view what, index_t count, const BatchingOptions& options) {
  CheckBatchSize(what, options.batch_size);
  const ExampleRange part = PartOf(what, count, options);
  if (part.size() == 0) throw InvalidArgument(what, ": found no examples, expected at least 1");
  return part;
}

/// Appends batches of the examples from position `begin` on. Padding is taken from there.
void Divide(index_t begin, index_t batch_size, LastBatch last_batch, index_t bucket_key,
            EpochBatches* epoch) {
  const auto size = [epoch] { return static_cast<index_t>(epoch->examples.size()); };
  const index_t rest = (size() - begin) % batch_size;
  index_t pad = 0;
  if (rest > 0 && last_batch == LastBatch::kPad) {
    pad = batch_size - rest;
    // If there are fewer examples than padding, copies are copied.
    for (index_t i = 0; i < pad; ++i) {
      epoch->examples.push_back(epoch->examples[static_cast<size_t>(begin + i)]);
    }
  } else if (rest > 0 && last_batch != LastBatch::kKeep) {
    epoch->examples.resize(static_cast<size_t>(size() - rest));
  }
  for (index_t at = begin; at < size(); at += batch_size) {
    epoch->batches.push_back(
        {.begin = at, .end = std::min(at + batch_size, size()), .bucket_key = bucket_key});
  }
  if (pad > 0) epoch->batches.back().pad = pad;
}

}  // namespace

ExampleRange PartOf(std::string_view what, index_t count, const BatchingOptions& options) {
  const index_t parts = options.num_parts;
  const index_t part = options.part_index;
  if (parts < 1 || part < 0 || part >= parts) {
    throw InvalidArgument(what, ": part_index ", part, " of num_parts ", parts,
                          ", expected 0 <= part_index < num_parts");
  }
  return {count * part / parts, count * (part + 1) / parts};
}

Sampler SequentialSampler(ExampleRange range) {
  return [range](uint64_t) { return InOrder(range); };
}

Sampler RandomSampler(ExampleRange range, uint64_t seed) {
  return [range, seed](uint64_t epoch) {
    std::vector<index_t> examples = InOrder(range);
    SplitMix random(seed, epoch);
    Shuffle(&examples, &random);
    return examples;
  };
}

BatchSampler InBatches(Sampler sampler, index_t batch_size, LastBatch last_batch) {
  CheckBatchSize("InBatches", batch_size);
  return [sampler = std::move(sampler), batch_size, last_batch](uint64_t epoch) {
    EpochBatches result{.examples = sampler(epoch)};
    const auto count = static_cast<index_t>(result.examples.size());
    CheckFits("InBatches", batch_size, count, last_batch);
    if (last_batch == LastBatch::kRollOver && epoch > 0) {
      // Earlier epochs form a sequence of epoch * count examples, whose last ones filled no batch.
      __extension__ using Wide = unsigned __int128;
      const auto carried = static_cast<index_t>(Wide{epoch} * static_cast<uint64_t>(count) %
                                                static_cast<uint64_t>(batch_size));
      const std::vector<index_t> earlier = sampler(epoch - 1);
      result.examples.insert(result.examples.begin(), earlier.end() - carried, earlier.end());
    }
    Divide(0, batch_size, last_batch, 0, &result);
    return result;
  };
}

BatchSampler MakeBatchSampler(std::string_view what, index_t count,
                              const BatchingOptions& options) {
  const ExampleRange part = CheckedPart(what, count, options);
  CheckFits(what, options.batch_size, part.size(), options.last_batch);
  return InBatches(options.shuffle ? RandomSampler(part, options.seed) : SequentialSampler(part),
                   options.batch_size, options.last_batch);
}

BatchSampler InBuckets(std::span<const index_t> lengths, std::span<const index_t> buckets,
                       const BatchingOptions& options) {
  const ExampleRange part = CheckedPart("InBuckets", static_cast<index_t>(lengths.size()), options);
  if (options.last_batch == LastBatch::kRollOver) {
    throw InvalidArgument("InBuckets: last_batch kRollOver, expected kPad, kKeep or kDiscard");
  }
  for (size_t i = 0; i < buckets.size(); ++i) {
    const index_t least = i == 0 ? 1 : buckets[i - 1] + 1;
    if (buckets[i] < least) {
      throw InvalidArgument("InBuckets: bucket ", buckets[i], " at position ", i,
                            ", expected at least ", least);
    }
  }
  std::vector<std::vector<index_t>> members(buckets.size());
  for (index_t i = part.begin; i < part.end; ++i) {
    const index_t length = lengths[static_cast<size_t>(i)];
    const auto bucket = std::lower_bound(buckets.begin(), buckets.end(), length);
    if (bucket == buckets.end()) {
      throw InvalidArgument("InBuckets: example ", i, " has length ", length, ", expected at most ",
                            buckets.empty() ? 0 : buckets.back(), ", the last bucket");
    }
    members[static_cast<size_t>(bucket - buckets.begin())].push_back(i);
  }
  return [members = std::move(members), keys = std::vector(buckets.begin(), buckets.end()),
          options](uint64_t epoch) {
    SplitMix random(options.seed, epoch);
    EpochBatches result;
    for (size_t i = 0; i < keys.size(); ++i) {
      std::vector<index_t> examples = members[i];
      if (options.shuffle) Shuffle(&examples, &random);
      const auto begin = static_cast<index_t>(result.examples.size());
      result.examples.insert(result.examples.end(), examples.begin(), examples.end());
      Divide(begin, options.batch_size, options.last_batch, keys[i], &result);
    }
    if (options.shuffle) Shuffle(&result.batches, &random);
    return result;
  };
}

}  // namespace tessera
