#include "tessera/io/dataset.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/base/error.h"
#include "tessera/base/testing/errors.h"
#include "tessera/base/tshape.h"
#include "tessera/io/idx_file.h"
#include "tessera/io/internal/idx_bytes.h"
#include "tessera/ndarray/ndarray.h"
#include "tessera/ndarray/sparse.h"

namespace tessera {
namespace {

using base_testing::ErrorOf;
using io_internal::IdxBytes;
using io_internal::WriteTestFile;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

HostArray Floats(const std::vector<float>& values, const TShape& shape) {
  return HostArray::FromValues<float>(values, shape);
}

std::string WriteText(const std::string& name, std::string_view text) {
  return WriteTestFile(name, {text.begin(), text.end()});
}

TEST(HostArrayTest, HoldsValuesOfItsType) {
  HostArray array = Floats({1, 2, 3, 4}, {2, 2});
  EXPECT_EQ(array.dtype, DType::kFloat32);
  EXPECT_THAT(array.values<float>(), ElementsAre(1, 2, 3, 4));
  array.mutable_values<float>()[2] = 9;
  EXPECT_THAT(array.values<float>(), ElementsAre(1, 2, 9, 4));
  EXPECT_THAT(ErrorOf([&] { array.values<int32_t>(); }).what(),
              AllOf(HasSubstr("int32"), HasSubstr("float32")));
  EXPECT_THAT(ErrorOf([&] { array.mutable_values<double>(); }).what(), HasSubstr("float64"));
  EXPECT_THAT(ErrorOf([] {
                Floats({1, 2, 3}, {2, 2});
              }).what(),
              AllOf(HasSubstr("3 elements"), HasSubstr("(2,2)"), HasSubstr("expected 4")));
  const HostArray scalar = HostArray::Scalar(int64_t{7});
  EXPECT_EQ(scalar.shape, TShape::OfRank(0));
  EXPECT_THAT(scalar.values<int64_t>(), ElementsAre(7));
  EXPECT_TRUE(Floats({}, {0, 3}).bytes.empty());
}

TEST(ArrayDatasetTest, AnExampleIsARowOfEachArray) {
  const std::vector<int32_t> labels = {7, 8, 9};
  const ArrayDataset dataset(
      {Floats({0, 1, 2, 3, 4, 5}, {3, 1, 2}), HostArray::FromValues<int32_t>(labels, {3})});
  EXPECT_EQ(dataset.size(), 3);
  const Example example = dataset.Get(1);
  ASSERT_EQ(example.size(), 2u);
  EXPECT_EQ(example[0].shape, TShape({1, 2}));
  EXPECT_THAT(example[0].values<float>(), ElementsAre(2, 3));
  EXPECT_EQ(example[1].shape, TShape::OfRank(0));
  EXPECT_THAT(example[1].values<int32_t>(), ElementsAre(8));
  EXPECT_EQ(ErrorOf([&] { dataset.Get(3); }).code(), Error::kOutOfRange);
  EXPECT_THAT(ErrorOf([&] { dataset.Get(-1); }).what(), HasSubstr("index -1, expected 0 to 2"));
}

TEST(ArrayDatasetTest, SharesTheElementsOfNDArrays) {
  const std::vector<float> values = {0, 1, 2, 3};
  const NDArray array = NDArray::FromVector(values, {2, 2});
  const NDArray sum = array + 1.0f;  // may still be computed
  const ArrayDataset dataset({array, sum});
  EXPECT_THAT(dataset.Get(1)[0].values<float>(), ElementsAre(2, 3));
  EXPECT_THAT(dataset.Get(1)[1].values<float>(), ElementsAre(3, 4));
}

TEST(ArrayDatasetTest, ReadsFilesOfMnistsFormat) {
  const std::string images = WriteTestFile("images", IdxBytes(0x08, {2, 1, 2}, {1, 2, 3, 4}));
  const std::string labels = WriteTestFile("labels", IdxBytes(0x08, {2}, {5, 6}));
  const ArrayDataset dataset({ReadIdxFile(images), ReadIdxFile(labels)});
  EXPECT_THAT(dataset.Get(1)[0].values<uint8_t>(), ElementsAre(3, 4));
  EXPECT_THAT(dataset.Get(1)[1].values<uint8_t>(), ElementsAre(6));
}

TEST(ArrayDatasetTest, ArraysThatDoNotFitAreNamed) {
  const HostArray three = Floats({0, 1, 2}, {3});
  EXPECT_THAT(ErrorOf([] { ArrayDataset(std::vector<HostArray>()); }).what(),
              HasSubstr("no array"));
  EXPECT_THAT(ErrorOf([&] {
                ArrayDataset({three, Floats({1, 2}, {2})});
              }).what(),
              AllOf(HasSubstr("array 1 has shape (2,)"), HasSubstr("expected 3 examples")));
  EXPECT_THAT(ErrorOf([&] { ArrayDataset({HostArray::Scalar(1.0f)}); }).what(),
              HasSubstr("array 0 has shape ()"));
  HostArray damaged = three;
  damaged.bytes.pop_back();
  EXPECT_THAT(ErrorOf([&] {
                ArrayDataset({three, damaged});
              }).what(),
              AllOf(HasSubstr("array 1 has 11 bytes"), HasSubstr("expected 12")));
  EXPECT_THAT(ErrorOf([] { ArrayDataset(std::vector<NDArray>(1)); }).what(),
              HasSubstr("array 0 is none"));
}

TEST(ReadCsvFileTest, ReadsAllRows) {
  const std::string path = WriteText("rows.csv", "1,2,3,4\n5,6,7,8\n-1,0,0,9\n");
  const HostArray floats = ReadCsvFile(path, {2, 2});
  EXPECT_EQ(floats.shape, TShape({3, 2, 2}));
  EXPECT_THAT(floats.values<float>(), ElementsAre(1, 2, 3, 4, 5, 6, 7, 8, -1, 0, 0, 9));
  const HostArray integers = ReadCsvFile(path, {4}, DType::kInt64);
  EXPECT_EQ(integers.values<int64_t>()[8], -1);
  EXPECT_EQ(ReadCsvFile(WriteText("empty.csv", ""), {4}).shape, TShape({0, 4}));
  EXPECT_EQ(ReadCsvFile(WriteText("numbers.csv", "1\n2\n"), TShape::OfRank(0), DType::kInt32).shape,
            TShape({2}));
}

TEST(ArrayDatasetTest, RowsOfACsrArrayAreSparseVectors) {
  const std::vector<float> elements = {0, 5, 0, 0, 0, 0, 7, 0, 8};
  const NDArray dense = NDArray::FromVector(elements, {3, 3});
  const ArrayDataset dataset(std::vector<NDArray>{sparse::Cast(dense, StorageType::kCsr)});
  EXPECT_EQ(dataset.size(), 3);
  const HostArray last = dataset.Get(2)[0];
  EXPECT_EQ(last.shape, TShape({3}));
  ASSERT_TRUE(last.columns.has_value());
  EXPECT_THAT(*last.columns, ElementsAre(0, 2));
  EXPECT_THAT(last.values<float>(), ElementsAre(7, 8));
  EXPECT_TRUE(dataset.Get(1)[0].columns->empty());
  EXPECT_THAT(ErrorOf([&dense] {
                ArrayDataset(std::vector<NDArray>{sparse::Cast(dense, StorageType::kRowSparse)});
              }).what(),
              HasSubstr("row_sparse"));
}

TEST(ReadCsvFileTest, WhatDoesNotFitIsNamed) {
  const std::string path = WriteText("wide.csv", "1,2,3\n");
  EXPECT_EQ(ErrorOf([&] { ReadCsvFile(path, {2}); }).code(), Error::kDataLoss);
  EXPECT_THAT(ErrorOf([&] { ReadCsvFile(path, {0}); }).what(), HasSubstr("row_shape (0,)"));
  EXPECT_THAT(ErrorOf([&] { ReadCsvFile(path, TShape()); }).what(), HasSubstr("row_shape None"));
  EXPECT_THAT(ErrorOf([&] { ReadCsvFile(path, {3}, DType::kFloat64); }).what(),
              HasSubstr("dtype float64"));
  EXPECT_EQ(ErrorOf([] { ReadCsvFile("no-such.csv", {3}); }).code(), Error::kNotFound);
}

}  // namespace
}  // namespace tessera
