// Tensors of more than 2^31 and of more than 2^32 elements: loops reach their end, and what lies
// that far out is found.
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <string>
#include <system_error>
#include <vector>

#include "gtest/gtest.h"
#include "tessera/tensor/tensor.h"

namespace tessera {
namespace {

constexpr index_t kTwoTo31 = index_t{1} << 31;
constexpr index_t kTwoTo32 = index_t{1} << 32;
constexpr index_t kBlock = index_t{1} << 24;
constexpr index_t kTail = index_t{1} << 20;

/// head + kTail bytes that take up hardly any memory, so that the tests run everywhere: the head is
/// one block of kBlock bytes, mapped again and again, and only the tail has bytes of its own. What
/// a test writes to the head must therefore repeat every kBlock elements.
///
/// On both sides lie 2^31 bytes without access: an offset cut to a signed 32-bit number ends the
/// process. One cut to an unsigned number finds the head, whose values are none of the tail's.
class LargeMemory {
 public:
  explicit LargeMemory(index_t head) : head_(head) {
    const int file = memfd_create("large_tensor_test", 0);
    Require(file >= 0 && ftruncate(file, kBlock + kTail) == 0, "a file in memory");
    reserved_ = mmap(nullptr, ReservedBytes(), PROT_NONE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    Require(reserved_ != MAP_FAILED, "a range of addresses");
    for (index_t at = 0; at < head_; at += kBlock) Map(file, at, kBlock, 0);
    Map(file, head_, kTail, kBlock);
    close(file);
    for (index_t i = 0; i < kBlock; ++i) data()[i] = At(i);
    for (index_t i = head_; i < size(); ++i) data()[i] = At(i);
  }
  LargeMemory(const LargeMemory&) = delete;
  LargeMemory& operator=(const LargeMemory&) = delete;
  ~LargeMemory() { munmap(reserved_, ReservedBytes()); }

  uint8_t* data() const { return static_cast<uint8_t*>(reserved_) + kTwoTo31; }
  index_t size() const { return head_ + kTail; }
  /// Returns byte i at first: below 128 in the head, at least 128 in the tail.
  uint8_t At(index_t i) const {
    return static_cast<uint8_t>(i < head_ ? i % kBlock % 127 : 128 + (i - head_) % 113);
  }

 private:
  size_t ReservedBytes() const { return static_cast<size_t>(size() + 2 * kTwoTo31); }
  void Map(int file, index_t at, index_t bytes, index_t offset) {
    Require(mmap(data() + at, static_cast<size_t>(bytes), PROT_READ | PROT_WRITE,
                 MAP_SHARED | MAP_FIXED, file, offset) != MAP_FAILED,
            "a part of the file");
  }
  static void Require(bool done, const char* what) {
    if (!done) throw std::system_error(errno, std::generic_category(), what);
  }

  index_t head_;
  void* reserved_;
};

/// The sum of value(i) over the whole tensor, the head's repetitions counted without a loop.
template <typename Value>
int64_t SumOf(index_t head, const Value& value) {
  int64_t block = 0, tail = 0;
  for (index_t i = 0; i < kBlock; ++i) block += value(i);
  for (index_t i = head; i < head + kTail; ++i) tail += value(i);
  return head / kBlock * block + tail;
}

TEST(LargeTensorTest, AssignmentsReachTheEnd) {
  const LargeMemory from(kTwoTo31), to(kTwoTo31);
  const index_t size = from.size() - 5;  // no multiple of a packet
  const Tensor<cpu, 1, uint8_t> a(from.data(), Shape1(size));
  Tensor<cpu, 1, uint8_t> r(to.data(), Shape1(size));
  r = a * 2 + 1;
  index_t wrong = 0;
  const auto check = [&](index_t begin, index_t end) {
    for (index_t i = begin; i < end; ++i) {
      wrong += r.dptr_[i] != static_cast<uint8_t>(from.At(i) * 2 + 1) ? 1 : 0;
    }
  };
  check(0, kBlock);
  check(kTwoTo31, size);
  EXPECT_EQ(wrong, 0);
  for (index_t i = size; i < to.size(); ++i) EXPECT_EQ(r.dptr_[i], to.At(i)) << "behind the end";
}

TEST(LargeTensorTest, ReductionsTakeInEveryElement) {
  const LargeMemory memory(kTwoTo31);
  const auto at = [&](index_t i) { return memory.At(i); };
  const Tensor<cpu, 1, uint8_t> v(memory.data(), Shape1(memory.size()));
  const int64_t total = sum(tcast<int64_t>(v));
  EXPECT_EQ(total, SumOf(kTwoTo31, at));
  v[memory.size() - 1] = 255;
  const uint8_t largest = maximum(v);
  EXPECT_EQ(static_cast<int>(largest), 255);
}

TEST(LargeTensorTest, RowAndColumnSumsTakeInEveryElement) {
  const LargeMemory memory(kTwoTo31);
  const index_t columns = 4096, rows = memory.size() / columns;
  const Tensor<cpu, 2, uint8_t> m(memory.data(), Shape2(rows, columns));
  TensorContainer<cpu, 1, int64_t> sums;
  sums = sum<1>(tcast<int64_t>(m));
  ASSERT_EQ(sums.shape_, Shape1(rows));
  const auto expected_at = [&](index_t row) {
    int64_t expected = 0;
    for (index_t x = 0; x < columns; ++x) expected += memory.At(row * columns + x);
    return expected;
  };
  const index_t period = kBlock / columns, rows_in_head = kTwoTo31 / columns;
  for (index_t row = 0; row < period; ++row) {
    const int64_t expected = expected_at(row);
    for (index_t y = row; y < rows_in_head; y += period) {
      ASSERT_EQ(sums[y], expected) << "row " << y;
    }
  }
  for (index_t y = rows_in_head; y < rows; ++y) ASSERT_EQ(sums[y], expected_at(y)) << "row " << y;

  sums = sum_rows(tcast<int64_t>(m));
  ASSERT_EQ(sums.shape_, Shape1(columns));
  for (const index_t x : {index_t{0}, index_t{1}, columns - 1}) {
    const auto in_column = [&](index_t i) { return i % columns == x ? int64_t{memory.At(i)} : 0; };
    EXPECT_EQ(sums[x], SumOf(kTwoTo31, in_column)) << "column " << x;
  }
}

/// Expects that element (y, x) of `e`, its leading dimensions taken as one, is the memory's at
/// place(y, x).
template <typename E, typename Place>
void ExpectPlaces(const E& e, const LargeMemory& memory, const Place& place,
                  const std::string& what) {
  TensorContainer<cpu, E::kRank, uint8_t> out;
  out = e;
  const Tensor<cpu, 2, uint8_t> flat = out.FlatTo2D();
  ASSERT_GT(flat.shape_.Size(), 0) << what;
  for (index_t y = 0; y < flat.size(0); ++y) {
    for (index_t x = 0; x < flat.size(1); ++x) {
      ASSERT_EQ(static_cast<int>(flat[y][x]), static_cast<int>(memory.At(place(y, x))))
          << what << " at (" << y << "," << x << ")";
    }
  }
}

TEST(LargeTensorTest, VectorsAreReadBeyondTheirFirst32Bits) {
  const LargeMemory memory(kTwoTo32);
  const Tensor<cpu, 1, uint8_t> v(memory.data(), Shape1(memory.size()));
  EXPECT_EQ(v.MSize(), kTwoTo32 + kTail);
  for (const index_t middle : {kTwoTo31, kTwoTo32}) {
    const std::string where = " around " + std::to_string(middle);
    const auto in_steps_of = [middle](index_t step) {
      return [=](index_t, index_t x) { return middle - 2 + step * x; };
    };
    ExpectPlaces(v.Slice(middle - 2, middle + 3), memory, in_steps_of(1), "Slice" + where);
    ExpectPlaces(slice<0>(v, middle - 2, middle + 3), memory, in_steps_of(1), "slice<0>" + where);
    ExpectPlaces(slice(v, Shape1(middle - 2), Shape1(middle + 9), Shape1(3)), memory,
                 in_steps_of(3), "slice with steps" + where);
    ExpectPlaces(View(v, Range(middle - 2, middle - 9, -2)), memory, in_steps_of(-2),
                 "View" + where);
  }
  const auto backwards = [&](index_t, index_t x) { return memory.size() - 1 - x; };
  ExpectPlaces(slice<0>(flip(v, 0), 0, 5), memory, backwards, "flip");

  const TensorContainer<cpu, 1, uint8_t> behind(Shape1(2), 77);
  TensorContainer<cpu, 1, uint8_t> seam;
  seam = slice<0>(concat<0>(v, behind), memory.size() - 1, memory.size() + 2);
  EXPECT_EQ(static_cast<int>(seam[0]), static_cast<int>(memory.At(memory.size() - 1)));
  EXPECT_EQ(static_cast<int>(seam[2]), 77);
  TensorContainer<cpu, 1, int64_t> numbers;
  numbers = slice<0>(range<int64_t>(0, kTwoTo32 + 10), kTwoTo32, kTwoTo32 + 3);
  EXPECT_EQ(numbers[2], kTwoTo32 + 2);
}

TEST(LargeTensorTest, MatricesAreReadBeyondTheirFirst32Bits) {
  const LargeMemory memory(kTwoTo32);
  const index_t size = memory.size(), columns = 4096, rows = size / columns;
  const Tensor<cpu, 1, uint8_t> v(memory.data(), Shape1(size));
  const Tensor<cpu, 2, uint8_t> m(memory.data(), Shape2(rows, columns));
  EXPECT_EQ(m.FlatTo1D().size(0), size);
  const auto last_rows = [&](index_t y, index_t x) { return (rows - 2 + y) * columns + x; };
  ExpectPlaces(m.Slice(rows - 2, rows), memory, last_rows, "Slice");
  ExpectPlaces(slice<0>(m, rows - 2, rows), memory, last_rows, "slice<0>");
  const auto corner = [&](index_t y, index_t x) { return last_rows(y, columns - 3 + x); };
  ExpectPlaces(crop(m, Shape2(2, 3), rows - 2, columns - 3), memory, corner, "crop");
  const auto upwards = [&](index_t y, index_t x) { return last_rows(1 - 2 * y, 1000 * x); };
  ExpectPlaces(View(m, Range(rows - 1, rows - 4, -2), Range(0, columns, 1000)), memory, upwards,
               "View");
  const auto transposed = [&](index_t y, index_t x) { return last_rows(x, y); };
  ExpectPlaces(slice<1>(m.T(), rows - 2, rows), memory, transposed, "T()");
  ExpectPlaces(slice<1>(swapaxis<1, 0>(m), rows - 2, rows), memory, transposed, "swapaxis");

  const auto tail = [](index_t y, index_t x) { return kTwoTo32 + y * 1024 + x; };
  const Shape<3> cube = Shape3(size / kTail, 1024, 1024);
  ExpectPlaces(slice<0>(reshape(v, cube), cube[0] - 1, cube[0]), memory, tail, "reshape");
  ExpectPlaces(slice<0>(reshape(m, Shape1(size)), kTwoTo32, kTwoTo32 + 2), memory, tail,
               "reshape to a vector");

  // Row numbers, too, have more than 32 bits.
  const Tensor<cpu, 2, uint8_t> tall(memory.data(), Shape2(size, 1));
  TensorContainer<cpu, 1, int64_t> index(Shape1(3));
  for (index_t i = 0; i < 3; ++i) index[i] = kTwoTo32 + 7 * i;
  const auto chosen = [](index_t y, index_t) { return kTwoTo32 + 7 * y; };
  ExpectPlaces(take(index, tall), memory, chosen, "take");
  ExpectPlaces(View(tall, Range(kTwoTo32, kTwoTo32 + 20, 7), kAll), memory, chosen, "View of rows");
  ExpectPlaces(slice<1>(tall.T(), kTwoTo32, kTwoTo32 + 4), memory, tail, "T() of a column");
}

TEST(LargeTensorTest, PlacesBeyondTheirFirst32BitsAreWritten) {
  const LargeMemory memory(kTwoTo32);
  const Tensor<cpu, 1, uint8_t> v(memory.data(), Shape1(memory.size()));
  slice<0>(v, kTwoTo32 + 1, kTwoTo32 + 3) = 1;
  View(v, Range(kTwoTo32 + 5, kTwoTo32 + 10, 2)) = 2;
  // Rows that lie further apart than 2^30 elements, the last one in the tail.
  const index_t stride = (index_t{1} << 30) + (index_t{1} << 17);
  Tensor<cpu, 2, uint8_t> wide(memory.data(), Shape2(5, 7), stride, nullptr);
  wide += 1;
  wide[4][6] = 3;
  std::vector<int> expected;
  for (index_t i = kTwoTo32; i < memory.size(); ++i) expected.push_back(memory.At(i));
  expected[1] = expected[2] = 1;
  expected[5] = expected[7] = expected[9] = 2;
  for (size_t x = 0; x < 7; ++x) ++expected[static_cast<size_t>(4 * stride - kTwoTo32) + x];
  expected[static_cast<size_t>(4 * stride - kTwoTo32) + 6] = 3;
  const uint8_t* const tail = memory.data() + kTwoTo32;
  EXPECT_EQ(std::vector<int>(tail, tail + kTail), expected);
  for (index_t y = 0; y < 4; ++y) {
    for (index_t x = 0; x < 7; ++x) {
      EXPECT_EQ(static_cast<int>(wide.dptr_[y * stride + x]), memory.At(y * stride + x) + 1);
    }
  }
}

}  // namespace
}  // namespace tessera
