#include "tessera/io/sampler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <numeric>
#include <string>
#include <vector>

#include "tessera/base/error.h"

namespace tessera {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

std::string MessageOf(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Error::kInvalidArgument);
    return error.what();
  }
  return "no error";
}

/// Returns the examples of each batch, with the number that only pad it and the bucket's key.
std::string Text(const EpochBatches& epoch) {
  std::string text;
  for (const EpochBatches::Batch& batch : epoch.batches) {
    for (const index_t example : epoch.ExamplesOf(batch)) text += std::to_string(example) + " ";
    if (batch.pad > 0) text += "pad " + std::to_string(batch.pad) + " ";
    if (batch.bucket_key > 0) text += "key " + std::to_string(batch.bucket_key) + " ";
    text.back() = ';';
  }
  return text;
}

BatchSampler Sequential(index_t count, index_t batch_size, LastBatch last_batch) {
  return MakeBatchSampler("test", count, {.batch_size = batch_size, .last_batch = last_batch});
}

TEST(SamplerTest, TheLastExamplesAreTreatedAsAsked) {
  EXPECT_EQ(Text(Sequential(7, 3, LastBatch::kPad)(0)), "0 1 2;3 4 5;6 0 1 pad 2;");
  EXPECT_EQ(Text(Sequential(7, 3, LastBatch::kKeep)(0)), "0 1 2;3 4 5;6;");
  EXPECT_EQ(Text(Sequential(7, 3, LastBatch::kDiscard)(0)), "0 1 2;3 4 5;");
  EXPECT_EQ(Text(Sequential(2, 3, LastBatch::kKeep)(0)), "0 1;");
  for (const LastBatch last :
       {LastBatch::kPad, LastBatch::kKeep, LastBatch::kDiscard, LastBatch::kRollOver}) {
    EXPECT_EQ(Text(Sequential(6, 3, last)(1)), "0 1 2;3 4 5;");
  }
}

TEST(SamplerTest, RolledOverExamplesBeginTheNextEpoch) {
  const BatchSampler sampler = Sequential(7, 3, LastBatch::kRollOver);
  EXPECT_EQ(Text(sampler(0)), "0 1 2;3 4 5;");
  EXPECT_EQ(Text(sampler(1)), "6 0 1;2 3 4;");
  EXPECT_EQ(Text(sampler(2)), "5 6 0;1 2 3;4 5 6;");
  EXPECT_EQ(Text(sampler(3)), "0 1 2;3 4 5;");
}

TEST(SamplerTest, RolledOverExamplesAreThoseThatTheirOrderLeft) {
  constexpr index_t kCount = 10, kBatch = 4;
  const Sampler order = RandomSampler({0, kCount}, 5);
  const BatchSampler sampler = InBatches(order, kBatch, LastBatch::kRollOver);
  std::vector<index_t> expected, found;
  for (uint64_t epoch = 0; epoch < 9; ++epoch) {
    const std::vector<index_t> examples = order(epoch);
    expected.insert(expected.end(), examples.begin(), examples.end());
    const EpochBatches batches = sampler(epoch);
    found.insert(found.end(), batches.examples.begin(), batches.examples.end());
  }
  ASSERT_EQ(found.size(), 88u);  // of 90
  expected.resize(found.size());
  EXPECT_EQ(found, expected);
}

TEST(SamplerTest, AnOrderDependsOnSeedAndEpochAlone) {
  const Sampler sampler = RandomSampler({3, 103}, 7);
  const std::vector<index_t> fifth = sampler(5);
  EXPECT_NE(sampler(6), fifth);
  EXPECT_EQ(RandomSampler({3, 103}, 7)(5), fifth);
  EXPECT_NE(RandomSampler({3, 103}, 8)(5), fifth);
  std::vector<index_t> sorted = fifth, all(100);
  std::sort(sorted.begin(), sorted.end());
  std::iota(all.begin(), all.end(), 3);
  EXPECT_EQ(sorted, all);
}

TEST(SamplerTest, AllOrdersAreAboutEquallyFrequent) {
  const Sampler sampler = RandomSampler({0, 3}, 1);
  std::vector<int> frequency(9);
  constexpr int kEpochs = 6000;
  for (uint64_t epoch = 0; epoch < kEpochs; ++epoch) {
    const std::vector<index_t> order = sampler(epoch);
    ++frequency[static_cast<size_t>(order[0] * 3 + order[1])];
  }
  for (size_t i = 0; i < frequency.size(); ++i) {
    // The standard deviation of 6,000 draws with probability 1 / 6 is 29.
    EXPECT_NEAR(frequency[i], i % 4 == 0 ? 0 : kEpochs / 6, i % 4 == 0 ? 0 : 150) << i;
  }
}

TEST(SamplerTest, PartsAreConsecutiveAndTogetherTheWhole) {
  index_t begin = 0;
  for (int part = 0; part < 4; ++part) {
    const ExampleRange range = PartOf("test", 10, {.num_parts = 4, .part_index = part});
    EXPECT_EQ(range.begin, begin);
    EXPECT_TRUE(range.size() == 2 || range.size() == 3) << range.size();
    begin = range.end;
  }
  EXPECT_EQ(begin, 10);
  EXPECT_EQ(
      Text(MakeBatchSampler(
          "test", 10,
          {.batch_size = 2, .last_batch = LastBatch::kKeep, .num_parts = 4, .part_index = 3})(0)),
      "7 8;9;");
}

TEST(SamplerTest, BucketsHoldExamplesThatFit) {
  const std::vector<index_t> lengths = {5, 1, 3, 2, 4, 5, 5}, buckets = {2, 3, 5};
  EXPECT_EQ(Text(InBuckets(lengths, buckets, {.batch_size = 2})(0)),
            "1 3 key 2;2 2 pad 1 key 3;0 4 key 5;5 6 key 5;");
  EXPECT_EQ(Text(InBuckets(lengths, buckets, {.batch_size = 3, .last_batch = LastBatch::kKeep})(0)),
            "1 3 key 2;2 key 3;0 4 5 key 5;6 key 5;");
  EXPECT_EQ(
      Text(InBuckets(lengths, buckets, {.batch_size = 3, .last_batch = LastBatch::kDiscard})(0)),
      "0 4 5 key 5;");
  EXPECT_EQ(
      Text(InBuckets(lengths, buckets, {.batch_size = 2, .num_parts = 2, .part_index = 1})(0)),
      "3 3 pad 1 key 2;4 5 key 5;6 4 pad 1 key 5;");
  // Copies pad what has fewer examples than padding.
  EXPECT_EQ(Text(InBuckets(std::vector<index_t>{1, 1}, buckets, {.batch_size = 5})(0)),
            "0 1 0 1 0 pad 3 key 2;");
}

TEST(SamplerTest, BucketsAreShuffledEachEpoch) {
  std::vector<index_t> lengths(60);
  for (size_t i = 0; i < lengths.size(); ++i) lengths[i] = static_cast<index_t>(i % 6 + 1);
  const std::vector<index_t> buckets = {2, 4, 6};
  const BatchSampler sampler = InBuckets(lengths, buckets, {.batch_size = 5, .shuffle = true});
  const EpochBatches epoch = sampler(3);
  EXPECT_EQ(Text(sampler(3)), Text(epoch));
  EXPECT_NE(Text(sampler(4)), Text(epoch));
  std::vector<index_t> seen, keys;
  for (const EpochBatches::Batch& batch : epoch.batches) {
    keys.push_back(batch.bucket_key);
    for (const index_t example : epoch.ExamplesOf(batch)) {
      seen.push_back(example);
      const index_t length = lengths[static_cast<size_t>(example)];
      EXPECT_TRUE(length == batch.bucket_key || length == batch.bucket_key - 1);
    }
  }
  EXPECT_FALSE(std::is_sorted(keys.begin(), keys.end()));
  std::sort(seen.begin(), seen.end());
  std::vector<index_t> all(60);
  std::iota(all.begin(), all.end(), 0);
  EXPECT_EQ(seen, all);
}

TEST(SamplerTest, ImpossibleOptionsAreNamed) {
  EXPECT_THAT(MessageOf([] { MakeBatchSampler("x", 3, {.batch_size = 0}); }),
              HasSubstr("x: batch_size 0, expected at least 1"));
  EXPECT_THAT(MessageOf([] { MakeBatchSampler("x", 3, {.batch_size = 4}); }),
              HasSubstr("x: batch_size 4 is larger than the data, expected at most 3"));
  EXPECT_THAT(MessageOf([] { MakeBatchSampler("x", 3, {.batch_size = 1, .num_parts = 0}); }),
              HasSubstr("part_index 0 of num_parts 0"));
  EXPECT_THAT(MessageOf([] { MakeBatchSampler("x", 3, {.batch_size = 1, .num_parts = 4}); }),
              HasSubstr("x: found no examples"));
  EXPECT_THAT(MessageOf([] {
                InBatches(SequentialSampler({0, 2}), 3, LastBatch::kDiscard)(0);
              }),
              HasSubstr("batch_size 3 is larger"));
  const std::vector<index_t> lengths = {1, 9};
  EXPECT_THAT(MessageOf([&] {
                InBuckets(lengths, std::vector<index_t>{4, 8}, {});
              }),
              AllOf(HasSubstr("example 1 has length 9"), HasSubstr("at most 8")));
  EXPECT_THAT(MessageOf([&] {
                InBuckets(lengths, std::vector<index_t>{4, 4}, {});
              }),
              HasSubstr("bucket 4 at position 1, expected at least 5"));
  EXPECT_THAT(MessageOf([&] {
                InBuckets(lengths, std::vector<index_t>{9}, {.last_batch = LastBatch::kRollOver});
              }),
              HasSubstr("kRollOver"));
}

TEST(SamplerTest, AnOrderOfOnesOwn) {
  const BatchSampler sampler =
      InBatches([](uint64_t epoch) { return std::vector<index_t>(3, static_cast<index_t>(epoch)); },
                2, LastBatch::kKeep);
  EXPECT_EQ(Text(sampler(4)), "4 4;4;");
  EXPECT_THAT(sampler(7).examples, ElementsAre(7, 7, 7));
}

}  // namespace
}  // namespace tessera
