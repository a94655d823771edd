// Runs with one and with several worker threads, with NaiveEngine, and in .ci/run under
// ThreadSanitizer.
#include "tessera/io/data_loader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <new>
#include <span>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tessera/base/error.h"
#include "tessera/base/testing/errors.h"
#include "tessera/base/tshape.h"
#include "tessera/ndarray/ndarray.h"
#include "tessera/ndarray/sparse.h"
#include "tessera/ndarray/testing/array_values.h"

namespace tessera {
namespace {

using base_testing::ErrorOf;
using ndarray_testing::ReadAs;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

/// Example i is the vector (i, 10 i) of float32 and the int32 label 100 i.
class Numbers final : public Dataset {
 public:
  explicit Numbers(index_t size) : size_(size) {}

  index_t size() const override { return size_; }
  Example Get(index_t index) const override {
    ++calls_;
    const float values[] = {static_cast<float>(index), static_cast<float>(10 * index)};
    return {HostArray::FromValues<float>(values, {2}),
            HostArray::Scalar(static_cast<int32_t>(100 * index))};
  }
  /// Returns how many examples have been read.
  int calls() const { return calls_; }

 private:
  const index_t size_;
  mutable std::atomic<int> calls_{0};
};

/// Example i is a sequence of i + 1 times the number i, and the label i.
class Sequences final : public Dataset {
 public:
  index_t size() const override { return 6; }
  Example Get(index_t index) const override {
    const auto number = static_cast<int32_t>(index);
    const std::vector<int32_t> values(static_cast<size_t>(index) + 1, number);
    return {HostArray::FromValues<int32_t>(values, {index + 1}), HostArray::Scalar(number)};
  }
};

std::shared_ptr<Numbers> Count(index_t size) { return std::make_shared<Numbers>(size); }

/// Returns the elements of an epoch's batches, with the numbers of the examples, as text.
std::string Epoch(DataIter* iter) {
  std::string text;
  while (iter->Next()) {
    const DataBatch& batch = iter->GetBatch();
    for (const index_t index : batch.index) text += std::to_string(index) + " ";
    text += ":";
    for (const double value : ndarray_testing::Read(batch.data[0])) {
      text += " " + std::to_string(static_cast<int64_t>(value));
    }
    for (const int32_t label : ReadAs<int32_t>(batch.label[0]))
      text += ", " + std::to_string(label);
    text += "\n";
  }
  return text;
}

TEST(DataLoaderTest, StacksExamplesInTheirOrder) {
  DataLoader loader(Count(5), {.batching = {.batch_size = 2}});
  EXPECT_EQ(loader.ProvideData()[0].shape, TShape({2, 2}));
  EXPECT_EQ(loader.ProvideLabel()[0].shape, TShape({2}));
  EXPECT_EQ(loader.ProvideLabel()[0].dtype, DType::kInt32);
  EXPECT_EQ(loader.num_batches(), 3);
  EXPECT_EQ(ErrorOf([&] { loader.GetBatch(); }).code(), Error::kFailedPrecondition);
  for (int epoch = 0; epoch < 5; ++epoch) {
    loader.BeforeFirst();
    EXPECT_EQ(Epoch(&loader),
              "0 1 : 0 0 1 10, 0, 100\n"
              "2 3 : 2 20 3 30, 200, 300\n"
              "4 0 : 4 40 0 0, 400, 0\n");
    EXPECT_FALSE(loader.Next());
  }
}

TEST(DataLoaderTest, TheLastBatchIsTreatedAsAsked) {
  DataLoader keep(Count(3), {.batching = {.batch_size = 2, .last_batch = LastBatch::kKeep}});
  ASSERT_TRUE(keep.Next());
  ASSERT_TRUE(keep.Next());
  EXPECT_EQ(keep.GetBatch().data[0].shape(), TShape({1, 2}));
  EXPECT_EQ(ReadAs<int32_t>(keep.GetBatch().label[0]), std::vector<int32_t>{200});
  ASSERT_TRUE(DataLoader(Count(1), {.batching = {.last_batch = LastBatch::kKeep}}).Next());

  DataLoader pad(Count(3), {.batching = {.batch_size = 2}});
  ASSERT_TRUE(pad.Next());
  EXPECT_EQ(pad.GetBatch().pad, 0);
  ASSERT_TRUE(pad.Next());
  EXPECT_EQ(pad.GetBatch().pad, 1);

  DataLoader roll(Count(3), {.batching = {.batch_size = 2, .last_batch = LastBatch::kRollOver}});
  EXPECT_EQ(Epoch(&roll), "0 1 : 0 0 1 10, 0, 100\n");
  roll.BeforeFirst();
  EXPECT_EQ(Epoch(&roll), "2 0 : 2 20 0 0, 200, 0\n1 2 : 1 10 2 20, 100, 200\n");

  DataLoader part(
      Count(5),
      {.batching = {
           .batch_size = 2, .last_batch = LastBatch::kDiscard, .num_parts = 2, .part_index = 1}});
  EXPECT_EQ(Epoch(&part), "2 3 : 2 20 3 30, 200, 300\n");
}

/// Five sparse vectors of six elements as a csr array, and the same as a dense one.
NDArray FiveRows(bool is_csr) {
  std::vector<float> elements(5 * 6, 0.0f);
  for (size_t i = 0; i < elements.size(); i += 4) elements[i] = static_cast<float>(i + 1);
  for (size_t i = 12; i < 18; ++i) elements[i] = 0;  // a row without elements
  const NDArray dense = NDArray::FromVector(elements, {5, 6});
  return is_csr ? sparse::Cast(dense, StorageType::kCsr) : dense;
}

TEST(DataLoaderTest, SparseVectorsMakeCsrBatches) {
  for (const index_t prefetch : {0, 3}) {
    const auto load = [prefetch](bool is_csr) {
      const std::vector<NDArray> arrays = {FiveRows(is_csr), FiveRows(!is_csr)};
      return DataLoader(
          std::make_shared<ArrayDataset>(arrays),
          {.batching = {.batch_size = 2, .shuffle = true, .seed = 3}, .prefetch = prefetch});
    };
    DataLoader csr = load(true), dense = load(false);
    EXPECT_EQ(csr.ProvideData()[0].storage, StorageType::kCsr);
    EXPECT_EQ(csr.ProvideData()[0].shape, TShape({2, 6}));
    EXPECT_EQ(csr.ProvideLabel()[0].storage, StorageType::kDefault);
    EXPECT_EQ(dense.ProvideLabel()[0].storage, StorageType::kCsr);
    NDArray first;
    std::vector<float> elements;
    for (int epoch = 0; epoch < 4; ++epoch) {
      csr.BeforeFirst();
      dense.BeforeFirst();
      while (csr.Next()) {
        ASSERT_TRUE(dense.Next());
        const NDArray rows = csr.GetBatch().data[0];
        EXPECT_EQ(StorageTypeOf(rows), StorageType::kCsr);
        sparse::CheckFormat(rows);
        EXPECT_EQ(rows.ToVector(), dense.GetBatch().data[0].ToVector());
        EXPECT_EQ(csr.GetBatch().label[0].ToVector(), dense.GetBatch().label[0].ToVector());
        if (first.is_none()) {
          first = rows;
          elements = rows.ToVector();
        }
      }
      EXPECT_FALSE(dense.Next());
    }
    EXPECT_EQ(first.ToVector(), elements) << "a csr batch stays what it is";
  }
}

/// Example i is a sparse vector of three elements; the last one is wrong.
class WrongVectors final : public Dataset {
 public:
  explicit WrongVectors(HostArray wrong) : wrong_(std::move(wrong)) {}

  index_t size() const override { return 2; }
  Example Get(index_t index) const override { return {index == 0 ? Vector({0, 2}) : wrong_}; }

  static HostArray Vector(const std::vector<int64_t>& columns) {
    const std::vector<float> values(columns.size(), 1.0f);
    return HostArray::SparseVector<float>(values, columns, 3);
  }

 private:
  const HostArray wrong_;
};

TEST(DataLoaderTest, ASparseVectorThatDoesNotFitIsNamed) {
  const auto error = [](HostArray wrong) {
    DataLoader loader(std::make_shared<WrongVectors>(std::move(wrong)),
                      {.batching = {.batch_size = 2}, .label_names = {}});
    return ErrorOf([&] { loader.Next(); });
  };
  const std::vector<std::vector<int64_t>> wrong = {{2, 0}, {1, 1}, {-1, 1}, {0, 3}};
  for (const std::vector<int64_t>& columns : wrong) {
    EXPECT_THAT(error(WrongVectors::Vector(columns)).what(),
                AllOf(HasSubstr("example 1: array 0 (data)"), HasSubstr("columns"),
                      HasSubstr("at most 2")));
  }
  const std::vector<float> dense = {1, 2, 3};
  EXPECT_THAT(error(HostArray::FromValues<float>(dense, {3})).what(),
              HasSubstr("is float32 of shape (3,), expected sparse float32"));
  HostArray few = WrongVectors::Vector({0, 1});
  few.bytes.pop_back();
  EXPECT_THAT(error(few).what(), HasSubstr("has 7 bytes, expected 8"));
}

/// Replaces the data by the example's random bits.
Example RandomBits(Example example, const ExampleInfo& info) {
  example[0] = HostArray::Scalar(static_cast<int64_t>(info.random >> 16));
  return example;
}

DataLoaderOptions Shuffled(index_t prefetch) {
  return {.batching = {.batch_size = 3, .shuffle = true, .seed = 8},
          .transform = RandomBits,
          .prefetch = prefetch};
}

TEST(DataLoaderTest, BatchesDoNotDependOnPrefetching) {
  std::vector<std::string> expected;
  for (const index_t prefetch : {0, 1, 2, 30}) {
    DataLoader loader(Count(20), Shuffled(prefetch));
    for (size_t epoch = 0; epoch < 4; ++epoch, loader.BeforeFirst()) {
      const std::string text = Epoch(&loader);
      if (prefetch == 0) {
        for (const std::string& earlier : expected) EXPECT_NE(text, earlier);
        expected.push_back(text);
      }
      EXPECT_EQ(text, expected[epoch]) << prefetch;
    }
  }
}

TEST(DataLoaderTest, AnEpochMayEndEarly) {
  DataLoader whole(Count(20), Shuffled(0));
  Epoch(&whole);
  whole.BeforeFirst();
  const std::string second = Epoch(&whole);
  for (int given = 1; given <= 7; ++given) {
    DataLoader loader(Count(20), Shuffled(3));
    for (int i = 0; i < given; ++i) loader.Next();
    loader.BeforeFirst();
    EXPECT_EQ(Epoch(&loader), second) << given;
  }
}

TEST(DataLoaderTest, AResumedLoaderGivesTheSameBatches) {
  for (const int given : {0, 1, 4, 7, 8}) {
    DataLoader whole(Count(20), Shuffled(2));
    Epoch(&whole);
    whole.BeforeFirst();
    for (int i = 0; i < given; ++i) whole.Next();
    DataLoader resumed(Count(20), Shuffled(5));
    resumed.Next();
    resumed.LoadState(whole.SaveState());
    EXPECT_EQ(ErrorOf([&] { resumed.GetBatch(); }).code(), Error::kFailedPrecondition);
    for (int epoch = 0; epoch < 3; ++epoch) {
      EXPECT_EQ(Epoch(&resumed), Epoch(&whole)) << given << " " << epoch;
      whole.BeforeFirst();
      resumed.BeforeFirst();
    }
  }
}

TEST(DataLoaderTest, AStateThatDoesNotFitIsRefused) {
  DataLoader loader(Count(20), Shuffled(2));
  loader.Next();
  const std::string other =
      ErrorOf([&] { loader.LoadState(DataLoader(Count(21), Shuffled(2)).SaveState()); }).what();
  EXPECT_THAT(other, AllOf(HasSubstr("value 0 of setup is 21"), HasSubstr("expected 20")));
  TrainingState state = loader.SaveState();
  state.integers["batch"] = {8};
  EXPECT_THAT(ErrorOf([&] { loader.LoadState(state); }).what(),
              HasSubstr("batch is 8, expected 0 to 7"));
  EXPECT_EQ(loader.GetBatch().index.size(), 3u);
}

TEST(DataLoaderTest, ABatchStaysAsItIsForOperationsPushedOnIt) {
  DataLoader loader(Count(30), {.batching = {.batch_size = 3, .shuffle = true}, .prefetch = 1});
  std::vector<NDArray> results;
  std::vector<std::vector<index_t>> indices;
  for (int epoch = 0; epoch < 5; ++epoch, loader.BeforeFirst()) {
    while (loader.Next()) {
      NDArray scaled = loader.GetBatch().data[0] * 2.0f;
      for (int i = 0; i < 5; ++i) scaled += loader.GetBatch().data[0];
      results.push_back(scaled);
      indices.push_back(loader.GetBatch().index);
    }
  }
  for (size_t i = 0; i < results.size(); ++i) {
    const std::vector<float> values = results[i].ToVector();
    for (size_t row = 0; row < 3; ++row) {
      EXPECT_EQ(values[2 * row], static_cast<float>(7 * indices[i][row]));
      EXPECT_EQ(values[2 * row + 1], static_cast<float>(70 * indices[i][row]));
    }
  }
}

TEST(DataLoaderTest, ASlowCallerBoundsWhatIsLoaded) {
  const std::shared_ptr<Numbers> numbers = Count(20);
  DataLoader loader(numbers, {.batching = {.batch_size = 2}, .prefetch = 3});
  EXPECT_EQ(numbers->calls(), 1);  // for the shapes
  for (int i = 1; i <= 12; ++i) {
    // Prefetching goes on in the next epoch.
    if (!loader.Next()) {
      loader.BeforeFirst();
      ASSERT_TRUE(loader.Next());
    }
    NDArray::WaitAll();
    EXPECT_EQ(numbers->calls(), 1 + 2 * (i + 3));
  }
}

TEST(DataLoaderTest, AnErrorNamesItsExampleAndTheNextBatchFollows) {
  const Transform fail = [](Example example, const ExampleInfo& info) {
    if (info.index == 3) throw DataLoss("damaged");
    if (info.index == 4) throw std::runtime_error("odd");
    if (info.index == 7) throw 5;
    if (info.index == 8) throw std::bad_alloc();
    return example;
  };
  DataLoader loader(Count(12), {.batching = {.batch_size = 2}, .transform = fail});
  for (int epoch = 0; epoch < 3; ++epoch, loader.BeforeFirst()) {
    ASSERT_TRUE(loader.Next());
    const struct {
      absl::StatusCode code;
      const char* text;
    } expected[] = {{Error::kDataLoss, "example 3: damaged"},
                    {Error::kInvalidArgument, "example 4: odd"},
                    {Error::kInvalidArgument, "example 7: "},
                    {Error::kResourceExhausted, "example 8: no memory"}};
    for (const auto& [code, text] : expected) {
      const Error error = ErrorOf([&] { loader.Next(); });
      EXPECT_EQ(error.code(), code);
      EXPECT_THAT(error.what(), HasSubstr(text));
      EXPECT_THROW(loader.GetBatch(), Error);
    }
    ASSERT_TRUE(loader.Next());
    EXPECT_THAT(loader.GetBatch().index, ElementsAre(10, 11));
    EXPECT_FALSE(loader.Next());
  }
  NDArray::WaitAll();  // the engine knows of no error
}

TEST(DataLoaderTest, PrefetchedErrorsThatNobodyAskedForAreNoErrors) {
  const Transform fail = [](Example example, const ExampleInfo& info) {
    if (info.index >= 2) throw DataLoss("damaged");
    return example;
  };
  {
    DataLoader loader(Count(12), {.batching = {.batch_size = 2}, .transform = fail});
    ASSERT_TRUE(loader.Next());
  }
  NDArray::WaitAll();
}

TEST(DataLoaderTest, AnExampleThatDoesNotFitIsNamed) {
  const auto message = [](const std::function<void(Example*)>& change) {
    const Transform transform = [change](Example example, const ExampleInfo& info) {
      if (info.index == 1) change(&example);
      return example;
    };
    DataLoader loader(Count(4), {.batching = {.batch_size = 2}, .transform = transform});
    const Error error = ErrorOf([&] { loader.Next(); });
    EXPECT_EQ(error.code(), Error::kInvalidArgument);
    return std::string(error.what());
  };
  EXPECT_THAT(message([](Example* example) {
                example->front() = HostArray::FromValues<float>(std::vector<float>{1, 2, 3}, {3});
              }),
              AllOf(HasSubstr("example 1: array 0 (data) is float32 of shape (3,)"),
                    HasSubstr("expected float32 of shape (2,)")));
  EXPECT_THAT(message([](Example* example) { example->back() = HostArray::Scalar(1.0f); }),
              AllOf(HasSubstr("array 1 (softmax_label) is float32"), HasSubstr("expected int32")));
  EXPECT_THAT(message([](Example* example) { example->pop_back(); }),
              HasSubstr("example 1 has 1 arrays, expected 2"));
  EXPECT_THAT(message([](Example* example) { example->front().bytes.pop_back(); }),
              HasSubstr("has 7 bytes, expected 8"));
  EXPECT_THAT(message([](Example* example) { example->front().shape = TShape(); }),
              HasSubstr("of shape None"));
}

TEST(DataLoaderTest, ImpossibleOptionsAreNamed) {
  const auto message = [](const std::shared_ptr<Dataset>& dataset,
                          const DataLoaderOptions& options) {
    const Error error = ErrorOf([&] { DataLoader loader(dataset, options); });
    EXPECT_EQ(error.code(), Error::kInvalidArgument);
    return std::string(error.what());
  };
  EXPECT_THAT(message(nullptr, {}), HasSubstr("no data set"));
  EXPECT_THAT(message(Count(0), {}), HasSubstr("no examples"));
  EXPECT_THAT(message(Count(3), {}), HasSubstr("batch_size 128 is larger"));
  EXPECT_THAT(message(Count(3), {.batching = {.batch_size = 1}, .prefetch = -1}),
              HasSubstr("prefetch -1"));
  EXPECT_THAT(message(Count(3), {.batching = {.batch_size = 1}, .label_names = {}}),
              HasSubstr("has 2 arrays, expected 1"));
  EXPECT_THAT(message(Count(3), {.sampler = [](uint64_t) { return EpochBatches{}; }}),
              HasSubstr("epoch 0 has no batch"));
  EXPECT_THAT(message(Count(3), {.sampler =
                                     [](uint64_t) {
                                       return EpochBatches{.examples = {0},
                                                           .batches = {{.begin = 0, .end = 2}}};
                                     }}),
              HasSubstr("is [0, 2) of 1 examples"));
}

TEST(DataLoaderTest, LaterEpochsOfASamplerNeedTheRoomOfTheFirst) {
  const BatchSampler growing = [](uint64_t epoch) {
    return InBatches(SequentialSampler({0, 4}), static_cast<index_t>(epoch) + 1,
                     LastBatch::kDiscard)(epoch);
  };
  DataLoader loader(Count(4), {.sampler = growing});
  EXPECT_EQ(loader.batch_size(), 1);
  for (int i = 0; i < 4; ++i) ASSERT_TRUE(loader.Next());
  EXPECT_FALSE(loader.Next());
  EXPECT_THAT(ErrorOf([&] { loader.BeforeFirst(); }).what(),
              AllOf(HasSubstr("batch 0 of epoch 1"), HasSubstr("expected 1 to 1")));
}

TEST(DataLoaderTest, BucketsArePaddedToTheirKey) {
  const std::vector<index_t> lengths = {1, 2, 3, 4, 5, 6}, buckets = {3, 6};
  DataLoader loader(
      std::make_shared<Sequences>(),
      {.sampler = InBuckets(lengths, buckets, {.batch_size = 2, .last_batch = LastBatch::kKeep}),
       .pad_values = {-1}});
  EXPECT_EQ(loader.ProvideData()[0].shape, TShape({2, 6}));
  EXPECT_EQ(loader.ProvideLabel()[0].shape, TShape({2}));
  for (int epoch = 0; epoch < 2; ++epoch, loader.BeforeFirst()) {
    const std::vector<std::vector<int32_t>> expected = {{0, -1, -1, 1, 1, -1},
                                                        {2, 2, 2},
                                                        {3, 3, 3, 3, -1, -1, 4, 4, 4, 4, 4, -1},
                                                        {5, 5, 5, 5, 5, 5}};
    for (const std::vector<int32_t>& values : expected) {
      ASSERT_TRUE(loader.Next());
      const DataBatch& batch = loader.GetBatch();
      const index_t rows = batch.label[0].shape()[0];
      EXPECT_EQ(batch.data[0].shape(), TShape({rows, batch.bucket_key}));
      EXPECT_EQ(ReadAs<int32_t>(batch.data[0]), values);
    }
    EXPECT_FALSE(loader.Next());
  }
}

TEST(DataLoaderTest, ASequenceLongerThanItsBucketIsNamed) {
  // Wrong lengths put example 3, of length 4, in bucket 3.
  DataLoader loader(std::make_shared<Sequences>(),
                    {.sampler = InBuckets(std::vector<index_t>{1, 2, 3, 3, 5, 6},
                                          std::vector<index_t>{3, 6}, {.batch_size = 4})});
  EXPECT_THAT(ErrorOf([&] { loader.Next(); }).what(),
              AllOf(HasSubstr("example 3: array 0"), HasSubstr("expected int32 of shape (3,)"),
                    HasSubstr("or a smaller first extent")));
  EXPECT_TRUE(loader.Next());
}

TEST(DataLoaderTest, ATransformMayUseOperators) {
  const Transform sum = [](Example example, const ExampleInfo&) {
    const std::span<const float> values = example[0].values<float>();
    const NDArray x = NDArray::FromVector(values, {2});
    const std::vector<float> result = (x * 2.0f + 1.0f).ToVector();
    example[0] = HostArray::FromValues<float>(result, {2});
    return example;
  };
  DataLoader loader(Count(8), {.batching = {.batch_size = 4}, .transform = sum, .prefetch = 2});
  EXPECT_EQ(Epoch(&loader),
            "0 1 2 3 : 1 1 3 21 5 41 7 61, 0, 100, 200, 300\n"
            "4 5 6 7 : 9 81 11 101 13 121 15 141, 400, 500, 600, 700\n");
}

TEST(DataLoaderTest, NothingIsLoadedAfterDestruction) {
  for (int round = 0; round < 100; ++round) {
    std::atomic<int> begun{0}, ended{0};
    const Transform count = [&](Example example, const ExampleInfo&) {
      ++begun;
      std::this_thread::yield();
      ++ended;
      return example;
    };
    {
      DataLoader loader(Count(64), {.batching = {.batch_size = 8}, .transform = count});
      for (int i = 0; i < round % 4; ++i) loader.Next();
    }
    const int at_destruction = begun;
    EXPECT_EQ(ended, at_destruction);
    NDArray::WaitAll();
    EXPECT_EQ(begun, at_destruction);
  }
}

TEST(DataLoaderTest, AnEndedEpochIsNotLoadedFurther) {
  const std::thread::id caller = std::this_thread::get_id();
  std::atomic<bool> released{false};
  std::atomic<int> late{0};
  const Transform block = [&](Example example, const ExampleInfo& info) {
    // NaiveEngine loads in the caller's thread.
    if (info.epoch == 0 && info.index >= 100 && std::this_thread::get_id() != caller) {
      ++late;
      while (!released) std::this_thread::yield();
    }
    return example;
  };
  DataLoader loader(Count(200),
                    {.batching = {.batch_size = 100}, .transform = block, .prefetch = 1});
  ASSERT_TRUE(loader.Next());
  loader.BeforeFirst();  // while a worker may be at the second batch's first example
  released = true;
  ASSERT_TRUE(loader.Next());
  EXPECT_EQ(loader.GetBatch().index[0], 0);
  NDArray::WaitAll();
  EXPECT_LE(late, 1);
}

TEST(DataLoaderTest, LoadersInSeveralThreads) {
  std::vector<std::string> texts(4);
  std::vector<std::thread> threads;
  const std::shared_ptr<Numbers> shared = Count(20);
  for (std::string& text : texts) {
    threads.emplace_back([&text, shared] {
      DataLoader loader(shared, Shuffled(3));
      for (int epoch = 0; epoch < 5; ++epoch, loader.BeforeFirst()) text += Epoch(&loader);
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const std::string& text : texts) EXPECT_EQ(text, texts[0]);
  EXPECT_FALSE(texts[0].empty());
}

}  // namespace
}  // namespace tessera
