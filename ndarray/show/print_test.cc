#include "tessera/ndarray/print.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <memory>
#include <ostream>
#include <sstream>
#include <string>
#include <vector>

#include "tessera/base/dtype.h"
#include "tessera/base/tshape.h"
#include "tessera/ndarray/ndarray.h"
#include "tessera/ndarray/sparse.h"
#include "tessera/ops/sparse.h"

namespace tessera {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

/// An array and the text that NumPy 1.19.5 makes of it: str(array).
struct Case {
  const char* name;
  DType dtype;
  TShape shape;
  std::vector<double> values;
  const char* expected;
};

void PrintTo(const Case& test_case, std::ostream* os) { *os << test_case.name; }

/// Returns 0, step, 2 * step, …
std::vector<double> Sequence(int size, double step) {
  std::vector<double> values;
  for (int i = 0; i < size; ++i) values.push_back(i * step);
  return values;
}

template <typename T>
NDArray ArrayOf(const std::vector<T>& values, const TShape& shape) {
  NDArray array(shape, Device::Cpu(), kDTypeOf<T>);
  array.SyncCopyFromCPU(values.data(), static_cast<index_t>(values.size()));
  return array;
}

NDArray ArrayOf(const Case& test_case) {
  return VisitDType(test_case.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    const size_t size = test_case.values.size();
    const auto values = std::make_unique<T[]>(size);
    for (size_t i = 0; i < size; ++i) {
      if constexpr (sizeof(T) == 2) {
        values[i] = T(static_cast<float>(test_case.values[i]));
      } else {
        values[i] = static_cast<T>(test_case.values[i]);
      }
    }
    NDArray array(test_case.shape, Device::Cpu(), test_case.dtype);
    array.SyncCopyFromCPU(values.get(), static_cast<index_t>(size));
    return array;
  });
}

/// Returns the text without its last line.
std::string Elements(const NDArray& array) {
  const std::string text = ToString(array);
  return text.substr(0, text.rfind('\n'));
}

class PrintTest : public ::testing::TestWithParam<Case> {};

TEST_P(PrintTest, PrintsElementsLikeNumpy) {
  EXPECT_EQ(Elements(ArrayOf(GetParam())), GetParam().expected);
}

INSTANTIATE_TEST_SUITE_P(
    Arrays, PrintTest,
    ::testing::ValuesIn(std::vector<Case>{
        {"Zeros",
         DType::kFloat32,
         {2, 3},
         {0.0, 0.0, 0.0, 0.0, 0.0, 0.0},
         R"([[0. 0. 0.]
 [0. 0. 0.]])"},
        {"Fractions",
         DType::kFloat32,
         {2, 2},
         {1.0, 2.5, 3.0, 0.25},
         R"([[1.   2.5 ]
 [3.   0.25]])"},
        {"Tenths",
         DType::kFloat32,
         {4},
         {0.10000000149011612, 0.20000000298023224, 0.30000001192092896, -0.699999988079071},
         R"([ 0.1  0.2  0.3 -0.7])"},
        {"Signs", DType::kFloat32, {4}, {-1.5, 2.0, -0.0, 0.0}, R"([-1.5  2.  -0.   0. ])"},
        {"Thirds",
         DType::kFloat32,
         {3},
         {0.3333333432674408, 0.6666666865348816, 33.33333206176758},
         R"([ 0.33333334  0.6666667  33.333332  ])"},
        {"ThirdsInDouble",
         DType::kFloat64,
         {3},
         {0.3333333333333333, -0.6666666666666666, 33.333333333333336},
         R"([ 0.33333333 -0.66666667 33.33333333])"},
        {"HalfIntegers",
         DType::kFloat16,
         {4},
         {0.333251953125, 65504.0, 5.960464477539063e-08, 0.0999755859375},
         R"([3.333e-01 6.550e+04 5.960e-08 9.998e-02])"},
        {"Halves",
         DType::kFloat16,
         {2, 2},
         {0.333251953125, -0.66650390625, 0.0999755859375, 33.3125},
         R"([[ 0.3333 -0.6665]
 [ 0.1    33.3   ]])"},
        {"HalfPowerOfTwo", DType::kFloat16, {1}, {0.015625}, R"([0.01563])"},
        {"LargestPositional",
         DType::kFloat32,
         {2},
         {100000000.0, 1000001.0},
         R"([1.000000e+08 1.000001e+06])"},
        {"SmallestScientific",
         DType::kFloat32,
         {2},
         {100000000.0, 200000000.0},
         R"([1.e+08 2.e+08])"},
        {"SmallestOfDouble",
         DType::kFloat64,
         {2},
         {100000000.0, 200000000.0},
         R"([1.e+08 2.e+08])"},
        {"BelowTenThousandth",
         DType::kFloat32,
         {2},
         {9.999999747378752e-05, 0.05000000074505806},
         R"([1.e-04 5.e-02])"},
        {"TenThousandthInDouble", DType::kFloat64, {2}, {0.0001, 0.05}, R"([0.0001 0.05  ])"},
        {"WideRange", DType::kFloat64, {2}, {0.01, 10.5}, R"([1.00e-02 1.05e+01])"},
        {"WiderRange", DType::kFloat64, {2}, {0.01, -10.5}, R"([ 1.00e-02 -1.05e+01])"},
        {"FactorOfThousand", DType::kFloat64, {2}, {0.001, 1.0}, R"([0.001 1.   ])"},
        {"ExponentsOfThreeDigits",
         DType::kFloat64,
         {2},
         {1e-300, 2.5e+100},
         R"([1.0e-300 2.5e+100])"},
        {"DigitsOfScientific",
         DType::kFloat32,
         {2},
         {9.999999747378752e-06, 1.2345678442216013e-05},
         R"([9.9999997e-06 1.2345678e-05])"},
        {"ScientificDoubles",
         DType::kFloat64,
         {4},
         {1.23456789012e-10, -5.0, 0.0, 20000000000.0},
         R"([ 1.23456789e-10 -5.00000000e+00  0.00000000e+00  2.00000000e+10])"},
        {"NotFinite",
         DType::kFloat32,
         {4},
         {kNan, 1.0, -kInfinity, kInfinity},
         R"([ nan   1. -inf  inf])"},
        {"OnlyNotFinite", DType::kFloat32, {2}, {kNan, kInfinity}, R"([nan inf])"},
        {"NegativeInfinityAlone", DType::kFloat32, {1}, {-kInfinity}, R"([-inf])"},
        {"ScientificNotFinite",
         DType::kFloat64,
         {3},
         {10000000000.0, kNan, -kInfinity},
         R"([1.e+10    nan   -inf])"},
        {"Booleans",
         DType::kBool,
         {2, 2},
         {true, false, true, true},
         R"([[ True False]
 [ True  True]])"},
        {"OnlyTrue", DType::kBool, {2}, {true, true}, R"([ True  True])"},
        {"Integers",
         DType::kInt32,
         {2, 2},
         {1, -20, 300, 4},
         R"([[  1 -20]
 [300   4]])"},
        {"Bytes", DType::kUint8, {3}, {0, 255, 7}, R"([  0 255   7])"},
        {"Scalar", DType::kFloat32, TShape::OfRank(0), {1.5}, R"(1.5)"},
        {"ScalarWithoutFraction", DType::kFloat32, TShape::OfRank(0), {3.0}, R"(3.0)"},
        {"ScalarThird",
         DType::kFloat64,
         TShape::OfRank(0),
         {0.3333333333333333},
         R"(0.3333333333333333)"},
        {"ScalarFloatThird",
         DType::kFloat32,
         TShape::OfRank(0),
         {0.3333333432674408},
         R"(0.33333334)"},
        {"LargeScalar", DType::kFloat32, TShape::OfRank(0), {1.0000000272564224e+16}, R"(1e+16)"},
        {"LargePositionalScalar",
         DType::kFloat32,
         TShape::OfRank(0),
         {123456792.0},
         R"(123456790.0)"},
        {"SmallScalar", DType::kFloat64, TShape::OfRank(0), {5e-05}, R"(5e-05)"},
        {"IntegerScalar", DType::kInt64, TShape::OfRank(0), {-5}, R"(-5)"},
        {"BooleanScalar", DType::kBool, TShape::OfRank(0), {true}, R"(True)"},
        {"HalfScalar", DType::kFloat16, TShape::OfRank(0), {0.0999755859375}, R"(0.1)"},
        {"NanScalar", DType::kFloat32, TShape::OfRank(0), {kNan}, R"(nan)"},
        {"Empty", DType::kFloat32, {0}, {}, R"([])"},
        {"EmptyRows", DType::kFloat32, {3, 0}, {}, R"([])"},
        {"Cube",
         DType::kFloat32,
         {2, 3, 2},
         {0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0, 11.0},
         R"([[[ 0.  1.]
  [ 2.  3.]
  [ 4.  5.]]

 [[ 6.  7.]
  [ 8.  9.]
  [10. 11.]]])"},
        {"RankFour",
         DType::kInt32,
         {2, 2, 1, 2},
         {0, 1, 2, 3, 4, 5, 6, 7},
         R"([[[[0 1]]

  [[2 3]]]


 [[[4 5]]

  [[6 7]]]])"},
        {"BrokenLines",
         DType::kFloat32,
         {30},
         {0.0,  1.25,  2.5,  3.75,  5.0,  6.25,  7.5,  8.75,  10.0, 11.25,
          12.5, 13.75, 15.0, 16.25, 17.5, 18.75, 20.0, 21.25, 22.5, 23.75,
          25.0, 26.25, 27.5, 28.75, 30.0, 31.25, 32.5, 33.75, 35.0, 36.25},
         R"([ 0.    1.25  2.5   3.75  5.    6.25  7.5   8.75 10.   11.25 12.5  13.75
 15.   16.25 17.5  18.75 20.   21.25 22.5  23.75 25.   26.25 27.5  28.75
 30.   31.25 32.5  33.75 35.   36.25])"},
        {"BrokenRows",
         DType::kInt64,
         {2, 20},
         {0,       123456,  246912,  370368,  493824,  617280,  740736,  864192,  987648,  1111104,
          1234560, 1358016, 1481472, 1604928, 1728384, 1851840, 1975296, 2098752, 2222208, 2345664,
          2469120, 2592576, 2716032, 2839488, 2962944, 3086400, 3209856, 3333312, 3456768, 3580224,
          3703680, 3827136, 3950592, 4074048, 4197504, 4320960, 4444416, 4567872, 4691328, 4814784},
         R"([[      0  123456  246912  370368  493824  617280  740736  864192  987648
  1111104 1234560 1358016 1481472 1604928 1728384 1851840 1975296 2098752
  2222208 2345664]
 [2469120 2592576 2716032 2839488 2962944 3086400 3209856 3333312 3456768
  3580224 3703680 3827136 3950592 4074048 4197504 4320960 4444416 4567872
  4691328 4814784]])"},
        {"ThousandElements",
         DType::kUint8,
         {4, 250},
         Sequence(1000, 0.0),
         R"([[0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0
  0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0
  0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0
  0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0
  0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0
  0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0
  0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0]
 [0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0
  0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0
  0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0
  0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0
  0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0
  0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0
  0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0]
 [0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0
  0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0
  0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0
  0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0
  0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0
  0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0
  0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0]
 [0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0
  0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0
  0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0
  0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0
  0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0
  0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0
  0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0]])"},
        {"SummaryOfVector",
         DType::kFloat32,
         {1001},
         Sequence(1001, 1.0),
         R"([   0.    1.    2. ...  998.  999. 1000.])"},
        {"SummaryOfMatrix",
         DType::kInt32,
         {40, 50},
         Sequence(2000, 1.0),
         R"([[   0    1    2 ...   47   48   49]
 [  50   51   52 ...   97   98   99]
 [ 100  101  102 ...  147  148  149]
 ...
 [1850 1851 1852 ... 1897 1898 1899]
 [1900 1901 1902 ... 1947 1948 1949]
 [1950 1951 1952 ... 1997 1998 1999]])"},
        {"SummaryOfShortRows",
         DType::kFloat32,
         {600, 5},
         Sequence(3000, 0.125),
         R"([[0.00000e+00 1.25000e-01 2.50000e-01 3.75000e-01 5.00000e-01]
 [6.25000e-01 7.50000e-01 8.75000e-01 1.00000e+00 1.12500e+00]
 [1.25000e+00 1.37500e+00 1.50000e+00 1.62500e+00 1.75000e+00]
 ...
 [3.73125e+02 3.73250e+02 3.73375e+02 3.73500e+02 3.73625e+02]
 [3.73750e+02 3.73875e+02 3.74000e+02 3.74125e+02 3.74250e+02]
 [3.74375e+02 3.74500e+02 3.74625e+02 3.74750e+02 3.74875e+02]])"},
        {"SummaryOfCube",
         DType::kInt32,
         {2, 1001, 1},
         Sequence(2002, 1.0),
         R"([[[   0]
  [   1]
  [   2]
  ...
  [ 998]
  [ 999]
  [1000]]

 [[1001]
  [1002]
  [1003]
  ...
  [1999]
  [2000]
  [2001]]])"}}),
    [](const ::testing::TestParamInfo<Case>& info) { return std::string(info.param.name); });

TEST(PrintTest, PrintsIntegersOf64BitsExactly) {
  using Limits = std::numeric_limits<int64_t>;
  EXPECT_EQ(Elements(ArrayOf<int64_t>({Limits::min(), Limits::max()}, {2})),
            "[-9223372036854775808  9223372036854775807]");
  EXPECT_EQ(Elements(ArrayOf<uint64_t>({std::numeric_limits<uint64_t>::max(), 1}, {2})),
            "[18446744073709551615                    1]");
}

TEST(PrintTest, PrintsBfloat16WithItsOwnFewestDigits) {
  EXPECT_EQ(Elements(ArrayOf<bfloat16_t>({bfloat16_t(0.1f), bfloat16_t(-2.5f)}, {2})),
            "[ 0.1 -2.5]");
}

TEST(PrintTest, TellsShapeTypeAndDevice) {
  EXPECT_EQ(ToString(NDArray::FromVector(std::vector<float>{0, 1, 2}, {1, 3})),
            "[[0. 1. 2.]]\n<NDArray 1x3 float32 @cpu(0)>");
  EXPECT_EQ(ToString(ArrayOf<int32_t>({7}, TShape::OfRank(0))),
            "7\n<NDArray scalar int32 @cpu(0)>");
  EXPECT_EQ(ToString(NDArray({2, 0}, Device::Cpu(1), DType::kFloat64)),
            "[]\n<NDArray 2x0 float64 @cpu(1)>");
  EXPECT_EQ(ToString(NDArray()), "<NDArray none>");
}

TEST(PrintTest, PrintsViewsAndPendingWrites) {
  NDArray array = NDArray::FromVector(std::vector<float>{1, 2, 3, 4}, {2, 2});
  array += 1.0f;
  std::ostringstream text;
  text << array.Slice(1, 2);
  EXPECT_EQ(text.str(), "[[4. 5.]]\n<NDArray 1x2 float32 @cpu(0)>");
}

TEST(PrintTest, SparseArraysShowWhatTheyStore) {
  const NDArray dense = NDArray::FromVector(std::vector<float>{0, 0, 1, 2, 0, 0, 3.5, 0}, {4, 2});
  EXPECT_EQ(ToString(sparse::Cast(dense, StorageType::kRowSparse)),
            "[[1.  2. ]\n"
            " [3.5 0. ]]\n"
            "indices [1 3]\n"
            "<NDArray 4x2 float32 row_sparse @cpu(0)>");
  EXPECT_EQ(ToString(sparse::Cast(dense, StorageType::kCsr)),
            "[1.  2.  3.5]\n"
            "indices [0 1 0]\n"
            "indptr [0 0 2 2 3]\n"
            "<NDArray 4x2 float32 csr @cpu(0)>");
  EXPECT_EQ(ToString(sparse::Zeros(StorageType::kRowSparse, {4, 2})),
            "[]\nindices []\n<NDArray 4x2 float32 row_sparse @cpu(0)>");
}

}  // namespace
}  // namespace tessera
