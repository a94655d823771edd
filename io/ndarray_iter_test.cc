#include "tessera/io/ndarray_iter.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

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

NDArray Numbers(const TShape& shape) {
  std::vector<float> values(static_cast<size_t>(shape.Size()));
  std::iota(values.begin(), values.end(), 0.0f);
  return NDArray::FromVector(values, shape);
}

std::string MessageOf(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
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
}

}  // namespace
}  // namespace tessera
