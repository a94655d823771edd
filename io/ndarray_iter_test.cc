#include "tessera/io/ndarray_iter.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <numeric>
#include <string>
#include <vector>

#include "tessera/base/error.h"
#include "tessera/base/testing/errors.h"
#include "tessera/base/tshape.h"
#include "tessera/ndarray/ndarray.h"
#include "tessera/ndarray/sparse.h"

namespace tessera {
namespace {

using base_testing::MessageOf;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

NDArray Numbers(const TShape& shape) {
  std::vector<float> values(static_cast<size_t>(shape.Size()));
  std::iota(values.begin(), values.end(), 0.0f);
  return NDArray::FromVector(values, shape);
}

TEST(NDArrayIterTest, GivesRowsOfAllArraysTogether) {
  NDArray label({3}, Device::Cpu(), DType::kInt32);
  const int32_t labels[] = {7, 8, 9};
  label.SyncCopyFromCPU(labels, 3);
  NDArrayIter iter({{"a", Numbers({3, 2})}, {"b", Numbers({3, 1, 1})}}, {{"label", label}},
                   {.batch_size = 2});
  EXPECT_EQ(iter.ProvideData()[1].shape, TShape({2, 1, 1}));
  EXPECT_EQ(iter.ProvideLabel()[0].dtype, DType::kInt32);
  ASSERT_TRUE(iter.Next());
  ASSERT_TRUE(iter.Next());
  const DataBatch& batch = iter.GetBatch();
  EXPECT_THAT(batch.data[0].ToVector(), ElementsAre(4, 5, 0, 1));
  EXPECT_THAT(batch.data[1].ToVector(), ElementsAre(2, 0));
  EXPECT_THAT(batch.label[0].ToVector(), ElementsAre(9, 7));
  EXPECT_EQ(batch.pad, 1);
  EXPECT_FALSE(iter.Next());
}

TEST(NDArrayIterTest, RowsOfSparseArraysAreThoseOfDenseOnes) {
  // Every third element is not 0, and the rows 1 and 4 are all 0.
  std::vector<float> elements(7 * 5, 0.0f);
  for (size_t i = 0; i < elements.size(); i += 3) {
    if (i / 5 != 1 && i / 5 != 4) elements[i] = static_cast<float>(i + 1);
  }
  const NDArray dense = NDArray::FromVector(elements, {7, 5});
  const NDArray csr = sparse::Cast(dense, StorageType::kCsr);
  const NDArray rows = sparse::Cast(dense, StorageType::kRowSparse);
  for (const bool shuffle : {false, true}) {
    NDArrayIter iter({{"dense", dense}, {"csr", csr}, {"rows", rows}}, {{"label", csr}},
                     {.batch_size = 3, .shuffle = shuffle, .seed = 5});
    EXPECT_EQ(iter.ProvideData()[1].storage, StorageType::kCsr);
    EXPECT_EQ(iter.ProvideData()[2].storage, StorageType::kDefault);
    EXPECT_EQ(iter.ProvideLabel()[0].storage, StorageType::kCsr);
    NDArray first;
    std::vector<float> first_elements;
    for (int epoch = 0; epoch < 12; ++epoch) {
      int batches = 0;
      for (iter.BeforeFirst(); iter.Next(); ++batches) {
        const DataBatch& batch = iter.GetBatch();
        EXPECT_EQ(StorageTypeOf(batch.data[1]), StorageType::kCsr);
        sparse::CheckFormat(batch.data[1]);
        const std::vector<float> expected = batch.data[0].ToVector();
        EXPECT_EQ(batch.data[1].ToVector(), expected) << epoch;
        EXPECT_EQ(batch.data[2].ToVector(), expected) << epoch;
        EXPECT_EQ(batch.label[0].ToVector(), expected) << epoch;
        if (first.is_none()) {
          first = batch.data[1];
          first_elements = expected;
        }
      }
      EXPECT_EQ(batches, 3);
    }
    EXPECT_EQ(first.ToVector(), first_elements) << "a csr batch stays what it is";
  }
}

TEST(NDArrayIterTest, AnArrayMayStoreNothing) {
  NDArrayIter iter({{"csr", sparse::Zeros(StorageType::kCsr, {2, int64_t{1} << 40})},
                    {"rows", sparse::Zeros(StorageType::kRowSparse, {2, 3})}},
                   {}, {.batch_size = 2});
  ASSERT_TRUE(iter.Next());
  EXPECT_EQ(sparse::Count(iter.GetBatch().data[0]), 0);
  EXPECT_EQ(iter.GetBatch().data[0].shape(), TShape({2, int64_t{1} << 40}));
  EXPECT_THAT(iter.GetBatch().data[1].ToVector(), testing::Each(0));
}

TEST(NDArrayIterTest, KeepsItsPlaceInTheRingAcrossEpochs) {
  NDArrayIter iter({{"a", Numbers({7, 1})}}, {}, {.batch_size = 2});
  for (int epoch = 0; epoch < 30; ++epoch) {
    iter.BeforeFirst();
    // Stops early in most epochs.
    for (int i = 0; i <= epoch % 4 && iter.Next(); ++i) {
      const float first = static_cast<float>(2 * i);
      EXPECT_THAT(iter.GetBatch().data[0].ToVector(),
                  ElementsAre(first, i == 3 ? 0.0f : first + 1));
    }
  }
}

TEST(NDArrayIterTest, LargeBatchesHaveABlockEach) {
  NDArrayIter iter({{"a", Numbers({10, 100000})}}, {}, {.batch_size = 2});
  for (int epoch = 0; epoch < 2; ++epoch) {
    for (index_t i = 0; iter.Next(); ++i) {
      EXPECT_EQ(iter.GetBatch().data[0].At(1).ToVector()[0],
                static_cast<float>(2 * i + 1) * 100000);
    }
    iter.BeforeFirst();
  }
}

/// Returns the numbers of an epoch's examples, a batch between semicolons.
std::string Epoch(DataIter* iter) {
  std::string text;
  while (iter->Next()) {
    for (const float value : iter->GetBatch().data[0].ToVector()) {
      text += std::to_string(static_cast<int>(value)) + " ";
    }
    text.back() = ';';
  }
  return text;
}

TEST(NDArrayIterTest, RolledOverExamplesBeginTheNextEpoch) {
  NDArrayIter iter({{"a", Numbers({5})}}, {},
                   {.batch_size = 3, .last_batch = LastBatch::kRollOver});
  for (const char* const expected : {"0 1 2;", "3 4 0;1 2 3;", "4 0 1;2 3 4;", "0 1 2;"}) {
    EXPECT_EQ(Epoch(&iter), expected);
    iter.BeforeFirst();
  }
}

TEST(NDArrayIterTest, DiscardsTheRestOfAPart) {
  NDArrayIter iter(
      {{"a", Numbers({10})}}, {},
      {.batch_size = 2, .last_batch = LastBatch::kDiscard, .num_parts = 2, .part_index = 1});
  EXPECT_EQ(iter.num_examples(), 5);
  EXPECT_EQ(iter.num_batches(), 2);
  EXPECT_EQ(Epoch(&iter), "5 6;7 8;");
}

TEST(NDArrayIterTest, AResumedIteratorGivesTheSameBatches) {
  for (const LastBatch last : {LastBatch::kPad, LastBatch::kDiscard, LastBatch::kRollOver}) {
    const auto make = [last] {
      return NDArrayIter({{"a", Numbers({11, 1})}}, {},
                         {.batch_size = 2, .shuffle = true, .seed = 9, .last_batch = last});
    };
    // Saves before the first batch, within an epoch, after its last batch, and after its end.
    for (const int given : {0, 1, 3, 5, 6, 7}) {
      NDArrayIter whole = make();
      Epoch(&whole);
      whole.BeforeFirst();
      for (int i = 0; i < given; ++i) whole.Next();
      NDArrayIter resumed = make();
      resumed.Next();
      resumed.LoadState(whole.SaveState());
      EXPECT_THROW(resumed.GetBatch(), Error);
      for (int epoch = 0; epoch < 3; ++epoch) {
        EXPECT_EQ(Epoch(&resumed), Epoch(&whole)) << given << " " << epoch;
        whole.BeforeFirst();
        resumed.BeforeFirst();
      }
    }
  }
}

TEST(NDArrayIterTest, AResumedIteratorMayBeginItsEpochAgain) {
  NDArrayIter whole({{"a", Numbers({4})}}, {}, {.batch_size = 2, .shuffle = true});
  Epoch(&whole);
  whole.BeforeFirst();
  NDArrayIter resumed({{"a", Numbers({4})}}, {}, {.batch_size = 2, .shuffle = true});
  resumed.LoadState(whole.SaveState());
  resumed.BeforeFirst();  // changes nothing before the first batch
  EXPECT_EQ(Epoch(&resumed), Epoch(&whole));
}

TEST(NDArrayIterTest, AStateThatDoesNotFitIsRefused) {
  NDArrayIter iter({{"a", Numbers({4})}}, {}, {.batch_size = 1});
  iter.Next();
  TrainingState state = iter.SaveState();
  const auto message = [&iter](const TrainingState& wrong) {
    return MessageOf([&] { iter.LoadState(wrong); });
  };
  EXPECT_THAT(message(NDArrayIter({{"a", Numbers({4})}}, {}, {.batch_size = 2}).SaveState()),
              AllOf(HasSubstr("value 1 of setup is 2"), HasSubstr("expected 1")));
  state.integers["batch"] = {5};
  EXPECT_THAT(message(state), HasSubstr("batch is 5, expected 0 to 4"));
  state.integers.erase("batch");
  EXPECT_THAT(message(state), HasSubstr("batch"));
  state.texts["iterator"] = "Other";
  EXPECT_THAT(message(state), HasSubstr("Other"));
  EXPECT_EQ(iter.GetBatch().data[0].ToVector()[0], 0.0f);  // nothing has changed
  EXPECT_EQ(Epoch(&iter), "1;2;3;");
}

TEST(NDArrayIterTest, ArraysThatDoNotFitAreNamed) {
  EXPECT_THAT(MessageOf([] { NDArrayIter({}, {}, {}); }), HasSubstr("no data array"));
  EXPECT_THAT(MessageOf([] {
                NDArrayIter({{"a", NDArray()}}, {}, {});
              }),
              HasSubstr("array a has no rows"));
  EXPECT_THAT(MessageOf([] {
                NDArrayIter({{"a", Numbers({3, 2})}}, {{"y", Numbers({4})}}, {.batch_size = 1});
              }),
              AllOf(HasSubstr("array y"), HasSubstr("expected 3 examples")));
  EXPECT_THAT(MessageOf([] {
                NDArrayIter({{"a", Numbers({3, 2})}}, {}, {.batch_size = 4});
              }),
              HasSubstr("batch_size 4 is larger"));
  EXPECT_THAT(MessageOf([] {
                NDArrayIter({{"a", Numbers({3, 2})}}, {},
                            {.batch_size = 1, .last_batch = LastBatch::kKeep});
              }),
              HasSubstr("kKeep"));
}

}  // namespace
}  // namespace tessera
