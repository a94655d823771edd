#include "tessera/tensor/dense/dense.h"

#include <cstddef>
#include <numeric>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "tessera/tensor/testing/guarded_tensor.h"
#include "tessera/tensor/testing/test_values.h"

namespace tessera {
namespace {

constexpr auto kFailedPrecondition = Error::kFailedPrecondition;

std::vector<float> Counting(index_t count) {
  std::vector<float> values(static_cast<size_t>(count));
  std::iota(values.begin(), values.end(), 0.0f);
  return values;
}

static_assert(std::is_trivially_copyable_v<Tensor<cpu, 4, half_t>>);
static_assert(sizeof(Tensor<cpu, 2, float>) == sizeof(Tensor<gpu, 2, float>));

TEST(TensorTest, DefaultIsEmpty) {
  const Tensor<cpu, 3, float> tensor;
  EXPECT_EQ(tensor.dptr_, nullptr);
  EXPECT_EQ(tensor.shape_, Shape3(0, 0, 0));
  EXPECT_EQ(tensor.MSize(), 0);
  EXPECT_EQ(tensor.stream_, nullptr);
}

TEST(TensorTest, CopyIsAnotherHandleToTheSameMemory) {
  std::vector<float> memory = Counting(6);
  const Tensor<cpu, 2, float> tensor(memory.data(), Shape2(2, 3));
  Tensor<cpu, 2, float> copy;
  copy = tensor;
  EXPECT_EQ(copy.dptr_, memory.data());
  copy = 9.0f;
  EXPECT_EQ(memory, std::vector<float>(6, 9.0f));
}

// As code for every kind of expression, and for every place, takes one.
template <typename R, int N, typename E, int kForm>
void Twice(TRValue<R, cpu, N, float>* dst, const expr::Exp<E, float, kForm>& e) {
  *dst->ptrself() = e;
  *dst->ptrself() += e;
}

TEST(TensorTest, IsAPlaceForFunctionsOfAnyPlace) {
  std::vector<float> memory = Counting(6);
  Tensor<cpu, 2, float> tensor(memory.data(), Shape2(2, 3));
  Twice(&tensor, tensor + 1.0f);
  EXPECT_EQ(memory[2], 3 + 4);
}

// A stride is any integer, and no pointer is a stride.
TEST(TensorTest, AStrideMayStandWithoutAStream) {
  std::vector<float> memory = Counting(8);
  EXPECT_EQ((Tensor<cpu, 2, float>(memory.data(), Shape2(2, 3), 4)[1][0]), 4.0f);
  EXPECT_EQ((Tensor<cpu, 2, float>(memory.data(), Shape2(2, 3), 4u).stride_), 4);
  EXPECT_EQ((Tensor<cpu, 2, float>(memory.data(), Shape2(2, 3), nullptr).stride_), 3);
  EXPECT_EQ(RowStride(size_t{5}).elements, 5);
  static_assert(!std::is_convertible_v<double, RowStride> &&
                !std::is_convertible_v<Stream<cpu>*, RowStride>);
}

struct Pair {
  float a, b;
  Pair operator+(Pair other) const { return {a + other.a, b + other.b}; }
};

// Elements of any type fill a tensor of them.
TEST(TensorTest, TakesAnElementForAll) {
  std::vector<Pair> memory(3);
  Tensor<cpu, 1, Pair> tensor(memory.data(), Shape1(3));
  static_assert(expr::FillsElements<Pair, Tensor<cpu, 1, Pair>>);
  static_assert(!expr::FillsElements<Pair, Tensor<cpu, 1, float>>);
  tensor = Pair{1, 2};
  tensor = tensor + tensor;
  EXPECT_EQ(memory[2].b, 4.0f);
}

TEST(TensorTest, SizesCountPaddingOnlyWhereTheySaySo) {
  GuardedTensor<3, float> guarded(Shape3(2, 3, 5), GuardedLayout{.row_padding = 3});
  const Tensor<cpu, 3, float>& tensor = *guarded;
  EXPECT_EQ(tensor.size(0), 2);
  EXPECT_EQ(tensor.size(2), 5);
  EXPECT_EQ(tensor.stride_, 8);
  EXPECT_EQ(tensor.MSize(), 48);
  EXPECT_EQ(tensor.MemSize<1>(), 24);
  EXPECT_EQ(tensor.MemSize<2>(), 8);
  EXPECT_EQ(tensor.shape_.Size(), 30);
  EXPECT_FALSE(tensor.CheckContiguous());
}

TEST(TensorTest, IndexingFollowsThePaddedRows) {
  GuardedTensor<3, float> guarded(Shape3(2, 3, 5), Counting(30), GuardedLayout{.row_padding = 3});
  const Tensor<cpu, 3, float>& tensor = *guarded;
  for (index_t i = 0; i < 2; ++i) {
    EXPECT_EQ(tensor[i].shape_, Shape2(3, 5));
    for (index_t j = 0; j < 3; ++j) {
      for (index_t k = 0; k < 5; ++k) {
        EXPECT_EQ(tensor[i][j][k], static_cast<float>((i * 3 + j) * 5 + k));
      }
    }
  }
  tensor[1][2][4] = -1.0f;
  EXPECT_EQ(guarded.values().back(), -1.0f);
}

TEST(TensorTest, ARowOfAPaddedMatrixIsAContiguousVector) {
  GuardedTensor<2, float> guarded(Shape2(3, 5), Counting(15), GuardedLayout{.row_padding = 3});
  const Tensor<cpu, 1, float> row = (*guarded)[1];
  EXPECT_TRUE(row.CheckContiguous());
  EXPECT_EQ(row.MSize(), 5);
  EXPECT_EQ(row.FlatTo1D().dptr_, guarded->dptr_ + 8);
}

TEST(TensorTest, AssigningToASubTensorLeavesTheRest) {
  GuardedTensor<3, float> guarded(Shape3(3, 2, 5), Counting(30), GuardedLayout{.row_padding = 1});
  (*guarded)[1] = 100.0f;
  (*guarded)[2][1] += 1000.0f;
  std::vector<float> expected = Counting(30);
  for (size_t i = 10; i < 20; ++i) expected[i] = 100.0f;
  for (size_t i = 25; i < 30; ++i) expected[i] += 1000.0f;
  EXPECT_EQ(guarded.values(), expected);
  EXPECT_TRUE(guarded.GuardsIntact());
}

TEST(TensorTest, SliceSharesMemoryAndKeepsTheStride) {
  GuardedTensor<2, float> guarded(Shape2(4, 3), Counting(12), GuardedLayout{.row_padding = 2});
  Tensor<cpu, 2, float> middle = guarded->Slice(1, 3);
  EXPECT_EQ(middle.shape_, Shape2(2, 3));
  EXPECT_EQ(middle.stride_, 5);
  EXPECT_EQ(middle[0][0], 3.0f);
  middle = 0.0f;
  EXPECT_EQ(guarded.values(), (std::vector<float>{0, 1, 2, 0, 0, 0, 0, 0, 0, 9, 10, 11}));
  EXPECT_EQ(guarded->Slice(2, 2).shape_.Size(), 0);
  EXPECT_EQ(guarded->Slice(0, 4).dptr_, guarded->dptr_);
}

TEST(TensorTest, ASliceMustLieInTheTensor) {
  GuardedTensor<2, float> guarded(Shape2(2, 3));
  for (const auto& [begin, end] : {std::pair<index_t, index_t>{1, 3}, {-1, 1}, {2, 1}}) {
    try {
      guarded->Slice(begin, end);
      ADD_FAILURE() << begin << " to " << end << " passed";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Error::kInvalidArgument);
      EXPECT_NE(std::string_view(error.what()).find("Tensor::Slice: ["), std::string_view::npos);
      EXPECT_NE(std::string_view(error.what()).find("(2,3)"), std::string_view::npos);
    }
  }
}

TEST(TensorTest, SliceOfAVectorIsContiguous) {
  GuardedTensor<1, float> guarded(Shape1(10), Counting(10));
  Tensor<cpu, 1, float> middle = guarded->Slice(3, 7);
  EXPECT_EQ(middle.shape_, Shape1(4));
  EXPECT_TRUE(middle.CheckContiguous());
  middle *= -1.0f;
  EXPECT_EQ(guarded.values(), (std::vector<float>{0, 1, 2, -3, -4, -5, -6, 7, 8, 9}));
}

TEST(TensorTest, FlatTo2DKeepsPadding) {
  GuardedTensor<4, float> guarded(Shape4(2, 3, 2, 5), Counting(60),
                                  GuardedLayout{.row_padding = 1});
  const Tensor<cpu, 2, float> flat = guarded->FlatTo2D();
  EXPECT_EQ(flat.shape_, Shape2(12, 5));
  EXPECT_EQ(flat[11][4], 59.0f);
  EXPECT_EQ((*guarded)[0][0][0].FlatTo2D().shape_, Shape2(1, 5));
}

TEST(TensorTest, FlatTo1DNeedsContiguousRows) {
  GuardedTensor<2, float> contiguous(Shape2(3, 4), Counting(12));
  EXPECT_EQ(contiguous->FlatTo1D().shape_, Shape1(12));
  EXPECT_EQ(contiguous->FlatTo1D()[11], 11.0f);
  GuardedTensor<2, float> padded(Shape2(3, 4), GuardedLayout{.row_padding = 2});
  ExpectError([&] { padded->FlatTo1D(); }, kFailedPrecondition,
              {"FlatTo1D", "4 elements", "6 apart", "contiguous"});
}

TEST(TensorTest, StreamTravelsToEveryView) {
  Stream<cpu> stream;
  std::vector<float> memory(24);
  Tensor<cpu, 3, float> tensor(memory.data(), Shape3(2, 3, 4));
  tensor.set_stream(&stream);
  EXPECT_EQ(tensor[0].stream_, &stream);
  EXPECT_EQ(tensor.Slice(0, 1).stream_, &stream);
  EXPECT_EQ(tensor.FlatTo1D().stream_, &stream);
  EXPECT_EQ(tensor.FlatTo2D().stream_, &stream);
}

TEST(TensorTest, CpuStreamsAreAlwaysIdle) {
  Stream<cpu>* const stream = NewStream<cpu>();
  EXPECT_TRUE(stream->CheckIdle());
  stream->Wait();
  DeleteStream(stream);
}

}  // namespace
}  // namespace tessera
