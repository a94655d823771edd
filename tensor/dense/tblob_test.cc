#include "tessera/tensor/dense/tblob.h"

#include <cstdint>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "tessera/tensor/testing/guarded_tensor.h"
#include "tessera/tensor/testing/test_values.h"

namespace tessera {
namespace {

constexpr auto kInvalidArgument = Error::kInvalidArgument;

TEST(TBlobTest, DescribesTheTensorThatItIsMadeOf) {
  GuardedTensor<3, half_t> tensor(Shape3(2, 3, 4));
  const TBlob blob(*tensor);
  EXPECT_EQ(blob.dptr_, tensor->dptr_);
  EXPECT_EQ(blob.shape_, TShape({2, 3, 4}));
  EXPECT_EQ(blob.type_flag_, DType::kFloat16);
  EXPECT_EQ(blob.device_, Device::Cpu());
  EXPECT_EQ(blob.ndim(), 3);
  EXPECT_EQ(blob.size(2), 4);
  EXPECT_EQ(blob.Size(), 24);
  EXPECT_EQ(blob.dev_mask(), cpu::kDevMask);
  EXPECT_TRUE(blob.CheckContiguous());
  EXPECT_EQ(TBlob(Tensor<gpu, 1, int32_t>(Shape1(2))).device_, Device::Gpu());
}

TEST(TBlobTest, RowsOfAPaddedMatrixAreBlobsButTheMatrixIsNot) {
  GuardedTensor<2, float> padded(Shape2(2, 3), GuardedLayout{.row_padding = 1});
  EXPECT_EQ(TBlob((*padded)[1]).shape_, TShape({3}));
  ExpectError([&] { TBlob blob(*padded); }, kInvalidArgument,
              {"TBlob", "3 elements", "4 apart", "contiguous"});
}

TEST(TBlobTest, TensorsShareTheMemory) {
  std::vector<double> memory(24);
  const TBlob blob(memory.data(), TShape({2, 3, 4}), DType::kFloat64, Device::Cpu());
  Stream<cpu> stream;
  const auto same = blob.get<cpu, 3, double>(&stream);
  EXPECT_EQ(same.dptr_, memory.data());
  EXPECT_EQ(same.shape_, Shape3(2, 3, 4));
  EXPECT_EQ(same.stream_, &stream);
  EXPECT_TRUE(same.CheckContiguous());
  EXPECT_EQ((blob.get_with_shape<cpu, 2, double>(Shape2(4, 6)).shape_), Shape2(4, 6));
  EXPECT_EQ((blob.FlatTo1D<cpu, double>().shape_), Shape1(24));
  EXPECT_EQ((blob.FlatTo2D<cpu, double>().shape_), Shape2(6, 4));
  EXPECT_EQ((blob.FlatTo3D<cpu, double>(1, 1).shape_), Shape3(2, 3, 4));
  EXPECT_EQ((blob.FlatTo3D<cpu, double>(0, 1).shape_), Shape3(1, 6, 4));
  EXPECT_EQ((blob.FlatTo3D<cpu, double>(1).shape_), Shape3(2, 3, 4));
  EXPECT_EQ((blob.FlatToKD<cpu, 1, double>().shape_), Shape1(24));
  EXPECT_EQ((blob.FlatToKD<cpu, 2, double>().shape_), Shape2(6, 4));
  EXPECT_EQ((blob.FlatToKD<cpu, 3, double>().shape_), Shape3(2, 3, 4));
  EXPECT_EQ((blob.FlatToKD<cpu, 5, double>(&stream).shape_), Shape5(1, 1, 2, 3, 4));
  EXPECT_EQ((blob.FlatToKD<cpu, 5, double>(&stream).stream_), &stream);
  blob.get_with_shape<cpu, 2, double>(Shape2(4, 6))[3] = 5.0;
  EXPECT_EQ(memory[23], 5.0);
  EXPECT_EQ(blob.dptr<double>(), memory.data());
  EXPECT_EQ(blob.reshape(TShape({6, 4})).shape_, TShape({6, 4}));
}

TEST(TBlobTest, ScalarsAndEmptyArraysHaveViews) {
  float value = 3;
  const TBlob scalar(&value, TShape({}), DType::kFloat32, Device::Cpu());
  EXPECT_EQ(scalar.Size(), 1);
  EXPECT_EQ((scalar.FlatTo1D<cpu, float>()[0]), 3.0f);
  EXPECT_EQ((scalar.FlatTo2D<cpu, float>().shape_), Shape2(1, 1));
  EXPECT_EQ((scalar.FlatToKD<cpu, 2, float>().shape_), Shape2(1, 1));
  const TBlob empty(nullptr, TShape({2, 0}), DType::kFloat32, Device::Cpu());
  EXPECT_EQ((empty.get<cpu, 2, float>().shape_), Shape2(2, 0));
  EXPECT_EQ((empty.FlatTo1D<cpu, float>().shape_), Shape1(0));
  EXPECT_EQ((empty.FlatToKD<cpu, 3, float>().shape_), Shape3(1, 2, 0));
}

TEST(TBlobTest, PinnedMemoryIsTheHosts) {
  float value = 3;
  const TBlob pinned(&value, TShape({1}), DType::kFloat32, Device::CpuPinned());
  EXPECT_EQ((pinned.get<cpu, 1, float>()[0]), 3.0f);
}

TEST(TBlobErrorTest, WrongTypeRankDeviceOrSizeIsRefused) {
  std::vector<float> memory(6);
  const TBlob blob(memory.data(), TShape({2, 3}), DType::kFloat32, Device::Cpu());
  ExpectError([&] { blob.get<cpu, 2, double>(); }, kInvalidArgument,
              {"TBlob", "float32", "float64"});
  ExpectError([&] { blob.dptr<int32_t>(); }, kInvalidArgument, {"float32", "int32"});
  ExpectError([&] { blob.get<cpu, 3, float>(); }, kInvalidArgument, {"(2,3)", "3"});
  ExpectError([&] { blob.get<gpu, 2, float>(); }, kInvalidArgument, {"TBlob", "cpu(0)", "gpu"});
  ExpectError([&] { blob.get_with_shape<cpu, 1, float>(Shape1(7)); }, kInvalidArgument,
              {"TBlob", "(2,3)", "6 elements", "(7,)"});
  ExpectError([&] { blob.reshape(TShape({4})); }, kInvalidArgument, {"(2,3)", "(4,)"});
}

}  // namespace
}  // namespace tessera
