// The layers that draw random numbers: what the rows of Dropout and LeakyReLU leave open.
#include <gtest/gtest.h>

#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "tessera/ops/registry.h"
#include "tessera/ops/testing/test_device.h"

namespace tessera {
namespace {

using ops_testing::MakeCpuTestDevice;
using ops_testing::TestDevice;
using ops_testing::TestResource;

/// Calls of an operator of one float array, with the random numbers of one sequence.
class RandomLayer {
 public:
  RandomLayer(const std::string& op, const ParameterMap& parameters, const TShape& shape)
      : property_(OperatorRegistry::Get().Create(op, parameters)), shapes_{shape} {
    out_shapes_.resize(2);
    property_->InferShape(&shapes_, &out_shapes_);
    const DType types[] = {DType::kFloat32};
    operator_ = property_->CreateOperator(Device::Cpu(), shapes_, types);
    random_ = std::make_unique<TestResource>(device_.get(),
                                             ResourceRequest{ResourceRequest::Type::kRandom});
    data_.assign(static_cast<size_t>(shape.Size()), 1);
    out_.resize(data_.size());
    mask_.resize(static_cast<size_t>(out_shapes_[1].Size()));
  }

  void Forward(bool is_train, OpReqType mask_req = kWriteTo) {
    TestResource space(device_.get(), {ResourceRequest::Type::kTempSpace});
    Resource* const resources[] = {random_.get(), &space};
    const TBlob in[] = {Blob(&data_, shapes_[0])};
    const TBlob out[] = {Blob(&out_, shapes_[0]), Blob(&mask_, out_shapes_[1])};
    const OpReqType req[] = {kWriteTo, mask_req};
    operator_->Forward({.is_train = is_train, .requested = resources}, in, req, out);
  }
  std::vector<float> Backward() {
    std::vector<float> head(data_.size(), 2), grad(data_.size());
    const TBlob in[] = {Blob(&data_, shapes_[0])};
    const TBlob out[] = {Blob(&out_, shapes_[0]), Blob(&mask_, out_shapes_[1])};
    const TBlob out_grad[] = {Blob(&head, shapes_[0]), TBlob()};
    const TBlob in_grad[] = {Blob(&grad, shapes_[0])};
    const OpReqType req[] = {kWriteTo};
    operator_->Backward({.is_train = true}, out_grad, in, out, req, in_grad);
    return grad;
  }

  std::vector<float> data_, out_, mask_;

 private:
  static TBlob Blob(std::vector<float>* values, const TShape& shape) {
    return TBlob(values->data(), shape, DType::kFloat32, Device::Cpu());
  }

  const std::unique_ptr<TestDevice> device_ = MakeCpuTestDevice();
  const std::unique_ptr<OperatorProperty> property_;
  std::vector<TShape> shapes_, out_shapes_;
  std::unique_ptr<Operator> operator_;
  std::unique_ptr<TestResource> random_;
};

constexpr index_t kSize = 40000;

double Mean(const std::vector<float>& values) {
  double sum = 0;
  for (const float x : values) sum += static_cast<double>(x);
  return sum / static_cast<double>(values.size());
}

TEST(DropoutTest, DropsAFractionPAndEnlargesTheRest) {
  RandomLayer layer("Dropout", {{"p", "0.25"}}, {kSize});
  layer.Forward(/*is_train=*/true);
  for (const float x : layer.out_) ASSERT_TRUE(x == 0 || x == 1 / 0.75f) << x;
  EXPECT_EQ(layer.out_, layer.mask_);
  // Five standard deviations.
  EXPECT_NEAR(Mean(layer.out_), 1, 5 * std::sqrt(0.25 / 0.75 / kSize));
  const std::vector<float> gradient = layer.Backward();
  for (size_t i = 0; i < gradient.size(); ++i) ASSERT_EQ(gradient[i], 2 * layer.mask_[i]);
}

TEST(DropoutTest, OneSeedGivesOneMaskAndEachCallAnother) {
  RandomLayer a("Dropout", {}, {kSize}), b("Dropout", {}, {kSize});
  a.Forward(/*is_train=*/true);
  b.Forward(/*is_train=*/true);
  EXPECT_EQ(a.mask_, b.mask_);
  b.Forward(/*is_train=*/true);
  EXPECT_NE(a.mask_, b.mask_);
}

TEST(DropoutTest, BlocksHaveTheMaskOfOneDraw) {
  constexpr index_t kOdd = kSize + 77;
  // A mask along an axis of extent 1 is drawn as a whole.
  RandomLayer whole("Dropout", {{"axes", "(1,)"}}, {kOdd, 1}), blocks("Dropout", {}, {kOdd});
  RandomLayer unwanted("Dropout", {}, {kOdd}), added("Dropout", {}, {kOdd});
  added.mask_.assign(added.mask_.size(), 1);
  for (int call = 0; call < 2; ++call) {
    whole.Forward(/*is_train=*/true);
    blocks.Forward(/*is_train=*/true);
    EXPECT_EQ(blocks.mask_, whole.mask_);
    EXPECT_EQ(blocks.out_, whole.out_);
    unwanted.Forward(/*is_train=*/true, kNullOp);
    EXPECT_EQ(unwanted.out_, whole.out_);
    std::vector<float> sum = added.mask_;
    for (size_t i = 0; i < sum.size(); ++i) sum[i] += whole.mask_[i];
    added.Forward(/*is_train=*/true, kAddTo);
    EXPECT_EQ(added.out_, whole.out_);
    EXPECT_EQ(added.mask_, sum);
  }
  EXPECT_EQ(unwanted.mask_, std::vector<float>(kOdd));
}

TEST(DropoutTest, DropsOutsideOfTrainingOnlyIfAlways) {
  RandomLayer layer("Dropout", {}, {kSize});
  layer.Forward(/*is_train=*/false);
  EXPECT_EQ(layer.out_, layer.data_);
  EXPECT_EQ(layer.Backward(), std::vector<float>(kSize, 2));
  RandomLayer always("Dropout", {{"mode", "always"}}, {kSize});
  always.Forward(/*is_train=*/false);
  EXPECT_NE(always.out_, always.data_);
}

TEST(DropoutTest, RepeatsTheMaskAlongAxes) {
  RandomLayer layer("Dropout", {{"axes", "(1,)"}}, {200, 3, 50});
  layer.Forward(/*is_train=*/true);
  ASSERT_EQ(layer.mask_.size(), 200u * 50u);
  for (size_t i = 0; i < layer.out_.size(); ++i) {
    ASSERT_EQ(layer.out_[i], layer.mask_[i / 150 * 50 + i % 50]);
  }
  EXPECT_NEAR(Mean(layer.mask_), 1, 5 * std::sqrt(1.0 / 10000));
}

TEST(LeakyReLUTest, RandomSlopesAreUniformInTraining) {
  RandomLayer layer("LeakyReLU", {{"act_type", "rrelu"}}, {kSize});
  layer.data_.assign(kSize, -2);
  layer.data_[0] = 3;
  layer.Forward(/*is_train=*/true);
  EXPECT_EQ(layer.out_[0], 3);
  for (size_t i = 1; i < kSize; ++i) {
    ASSERT_EQ(layer.out_[i], -2 * layer.mask_[i]);
    ASSERT_TRUE(layer.mask_[i] >= 0.125f && layer.mask_[i] < 0.334f) << layer.mask_[i];
  }
  const double width = 0.334 - 0.125;
  EXPECT_NEAR(Mean(layer.mask_), (0.334 + 0.125) / 2, 5 * width / std::sqrt(12.0 * kSize));
  EXPECT_EQ(layer.Backward()[1], 2 * layer.mask_[1]);
  layer.Forward(/*is_train=*/false);
  EXPECT_FLOAT_EQ(layer.out_[1], -0.334f - 0.125f);
}

}  // namespace
}  // namespace tessera
