// Values of normalizations at the ends of the range of float, and lengths that a softmax refuses.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tessera/base/error.h"
#include "tessera/ops/registry.h"

namespace tessera {
namespace {

using ::testing::ElementsAre;
using ::testing::FloatEq;
using ::testing::FloatNear;
using ::testing::HasSubstr;

TBlob Blob(std::vector<float>* values, const TShape& shape) {
  return TBlob(values->data(), shape, DType::kFloat32, Device::Cpu());
}

/// An operator of float data and perhaps of gamma, which is 1, beta and moving statistics, all 0.
class Normalization {
 public:
  Normalization(const std::string& name, ParameterMap parameters, const TShape& shape,
                std::vector<float> data)
      : property_(OperatorRegistry::Get().Create(name, parameters)), data_(std::move(data)) {
    shapes_ = {shape};
    const size_t num_inputs = property_->ListArguments().size();
    shapes_.resize(num_inputs);
    std::vector<TShape> out_shapes(property_->ListOutputs().size());
    EXPECT_TRUE(property_->InferShape(&shapes_, &out_shapes));
    operator_ = property_->CreateOperator(Device::Cpu(), shapes_,
                                          std::vector<DType>(num_inputs, DType::kFloat32));
    in_ = {Blob(&data_, shape)};
    for (size_t i = 1; i < num_inputs; ++i) {
      vectors_.emplace_back(static_cast<size_t>(shapes_[i].Size()), i == 1 ? 1.0f : 0.0f);
      in_.push_back(Blob(&vectors_.back(), shapes_[i]));
    }
    for (const TShape& out : out_shapes) {
      results_.emplace_back(static_cast<size_t>(out.Size()));
      out_.push_back(Blob(&results_.back(), out));
    }
  }

  /// Returns the first output.
  const std::vector<float>& Forward() {
    operator_->Forward({.is_train = true}, in_, Requests(), out_);
    return results_[0];
  }
  /// Returns the gradient of the data, after Forward.
  std::vector<float> Backward(std::vector<float> head) {
    std::vector<float> gradient(data_.size());
    std::vector<std::vector<float>> others = vectors_;
    std::vector<TBlob> out_grad = out_, in_grad = {Blob(&gradient, shapes_[0])};
    out_grad[0] = Blob(&head, shapes_[0]);
    for (size_t i = 0; i < others.size(); ++i) in_grad.push_back(Blob(&others[i], shapes_[i + 1]));
    operator_->Backward({.is_train = true}, out_grad, in_, out_, Requests(), in_grad);
    return gradient;
  }

 private:
  std::vector<OpReqType> Requests() const {
    return std::vector<OpReqType>(std::max(in_.size(), out_.size()), kWriteTo);
  }

  std::unique_ptr<OperatorProperty> property_;
  std::unique_ptr<Operator> operator_;
  std::vector<TShape> shapes_;
  std::vector<float> data_;
  std::vector<std::vector<float>> vectors_, results_;
  std::vector<TBlob> in_, out_;
};

TEST(RowValuesTest, LengthsAreRightWhereSquaresOverflowOrUnderflow) {
  for (const float unit : {1.0f, 1e30f, 1e-18f, 1e-30f}) {
    Normalization length("L2Normalization", {{"eps", "0"}}, {1, 2}, {3 * unit, 4 * unit});
    EXPECT_THAT(length.Forward(), ElementsAre(FloatEq(0.6f), FloatEq(0.8f))) << unit;
    const std::vector<float> gradient = length.Backward({1, 0});
    EXPECT_NEAR(gradient[0] * unit, 0.128f, 1e-7) << unit;
    EXPECT_NEAR(gradient[1] * unit, -0.096f, 1e-7) << unit;
  }
}

TEST(RowValuesTest, DeviationsAreRightWhereSquaresOverflowOrUnderflow) {
  // With mean 0 and variance 5 / 2, the normal form is x / sqrt(5 / 2).
  const float first = static_cast<float>(std::sqrt(0.4));
  struct Operator {
    std::string name;
    TShape shape;
    ParameterMap parameters;
  };
  for (const Operator& op : std::vector<Operator>{{"LayerNorm", {1, 4}, {{"eps", "0"}}},
                                                  {"GroupNorm", {1, 1, 4}, {{"eps", "0"}}},
                                                  {"InstanceNorm", {1, 1, 4}, {{"eps", "0"}}},
                                                  {"BatchNorm", {4, 1}, {{"eps", "0"}}},
                                                  {"BatchNorm_v1", {4, 1}, {{"eps", "0"}}}}) {
    for (const float unit : {1.0f, 1e30f, 1e-15f, 1e-21f}) {
      SCOPED_TRACE(op.name + " in units of " + std::to_string(std::log10(unit)));
      Normalization normal(op.name, op.parameters, op.shape, {unit, -unit, 2 * unit, -2 * unit});
      EXPECT_THAT(normal.Forward(), ElementsAre(FloatEq(first), FloatEq(-first), FloatEq(2 * first),
                                                FloatEq(-2 * first)));
      // Its output `var` has no such variance.
      if (op.name == "BatchNorm_v1" && (unit > 1 || unit < 1e-15f)) continue;
      // (g - mean g - xhat mean(g xhat)) / std
      const std::vector<float> gradient = normal.Backward({1, 0, 0, 0});
      EXPECT_NEAR(gradient[0] * unit, 0.65f * first, 2e-7);
      EXPECT_NEAR(gradient[1] * unit, -0.15f * first, 2e-7);
      EXPECT_NEAR(gradient[2] * unit, -0.45f * first, 2e-7);
      EXPECT_NEAR(gradient[3] * unit, -0.05f * first, 2e-7);
    }
  }
}

TEST(RowValuesTest, MeansAreRightWhereSumsOverflow) {
  Normalization normal("LayerNorm", {}, {1, 4}, {3e38f, 3e38f, 2e38f, 2e38f});
  EXPECT_THAT(normal.Forward(), ElementsAre(FloatNear(1, 1e-6f), FloatNear(1, 1e-6f),
                                            FloatNear(-1, 1e-6f), FloatNear(-1, 1e-6f)));
}

TEST(RowValuesTest, ResponsesAreRightWhereSquaresOverflow) {
  // With s = x^2 / 4, the response is x s^(-1/4) and its derivative s^(-1/4) / 2.
  Normalization response("LRN", {{"nsize", "1"}, {"alpha", "0.25"}, {"beta", "0.25"}}, {1, 2},
                         {2e30f, -2e26f});
  EXPECT_THAT(response.Forward(), ElementsAre(FloatEq(2e15f), FloatEq(-2e13f)));
  EXPECT_THAT(response.Backward({1, 1}), ElementsAre(FloatEq(5e-16f), FloatEq(5e-14f)));
}

/// Returns softmax of rows of two elements, of which `lengths` count.
std::vector<float> SoftmaxOf(std::vector<float> data, std::vector<int32_t> lengths) {
  const auto rows = static_cast<index_t>(lengths.size());
  const std::vector<TShape> shapes = {{rows, 2}, {rows}};
  const std::vector<DType> types = {DType::kFloat32, DType::kInt32};
  const auto made = OperatorRegistry::Get()
                        .Create("softmax", {{"use_length", "True"}})
                        ->CreateOperator(Device::Cpu(), shapes, types);
  std::vector<float> result(data.size());
  const TBlob in[] = {Blob(&data, shapes[0]),
                      TBlob(lengths.data(), shapes[1], DType::kInt32, Device::Cpu())};
  const TBlob out[] = {Blob(&result, shapes[0])};
  const OpReqType req[] = {kWriteTo};
  made->Forward({}, in, req, out);
  return result;
}

TEST(RowValuesTest, SoftmaxRefusesLengthsThatItsRowsDoNotHave) {
  EXPECT_THAT(SoftmaxOf({1, 1, 1, NAN}, {2, 0}), ElementsAre(0.5f, 0.5f, 0, 0));
  EXPECT_THAT(SoftmaxOf({1, 1, 1, NAN}, {2, 1}), ElementsAre(0.5f, 0.5f, 1, 0));
  for (const int32_t wrong : {-1, 3}) {
    for (const size_t place : {1, 1500}) {
      std::vector<int32_t> lengths(2000, 2);
      lengths[place] = wrong;
      try {
        SoftmaxOf(std::vector<float>(4000), lengths);
        ADD_FAILURE() << "was not refused";
      } catch (const Error& error) {
        EXPECT_EQ(error.code(), Error::kOutOfRange);
        EXPECT_THAT(error.what(), HasSubstr("length " + std::to_string(wrong) + " at element " +
                                            std::to_string(place) + ","));
        EXPECT_THAT(error.what(), HasSubstr("0 to 2"));
      }
    }
  }
}

}  // namespace
}  // namespace tessera
