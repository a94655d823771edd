// The operators that change images at random: what their rows leave open.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
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

/// Calls of an operator of one array of images, with the numbers of one sequence.
template <typename T>
class ImageCall {
 public:
  ImageCall(const std::string& op, const ParameterMap& parameters, const TShape& shape,
            const std::vector<T>& data)
      : property_(OperatorRegistry::Get().Create(op, parameters)), shape_(shape), data_(data) {
    std::vector<TShape> in_shape = {shape}, out_shape(1);
    EXPECT_TRUE(property_->InferShape(&in_shape, &out_shape));
    const DType types[] = {DTypeOf<T>::value};
    operator_ = property_->CreateOperator(Device::Cpu(), in_shape, types);
    random_ = std::make_unique<TestResource>(device_.get(),
                                             ResourceRequest{ResourceRequest::Type::kRandom});
  }

  std::vector<T> Draw() {
    std::vector<T> result(data_.size());
    Resource* const resources[] = {random_.get()};
    const TBlob in[] = {TBlob(data_.data(), shape_, DTypeOf<T>::value, Device::Cpu())};
    const TBlob out[] = {TBlob(result.data(), shape_, DTypeOf<T>::value, Device::Cpu())};
    const OpReqType req[] = {kWriteTo};
    operator_->Forward({.requested = resources}, in, req, out);
    return result;
  }

 private:
  const std::unique_ptr<TestDevice> device_ = MakeCpuTestDevice();
  const std::unique_ptr<OperatorProperty> property_;
  const TShape shape_;
  std::vector<T> data_;
  std::unique_ptr<Operator> operator_;
  std::unique_ptr<TestResource> random_;
};

constexpr int kCalls = 4000;
/// Five standard deviations of the mean of kCalls numbers that are uniform in an interval of this
/// length.
double MeanError(double length) { return 5 * length / std::sqrt(12.0 * kCalls); }

// Two pixels, red and blue.
const std::vector<float> kPixels = {0.75f, 0.25f, 0.5f, 0.125f, 0.25f, 0.875f};

float Grey(const std::vector<float>& image, size_t pixel) {
  const float* const x = image.data() + 3 * pixel;
  return 0.299f * x[0] + 0.587f * x[1] + 0.114f * x[2];
}

/// Collects kCalls numbers that a function of a drawn image returns, and expects them to be uniform
/// in [low, high).
template <typename Function>
void ExpectUniform(const std::string& op, const ParameterMap& parameters, double low, double high,
                   const Function& function) {
  SCOPED_TRACE(op);
  ImageCall<float> call(op, parameters, {1, 2, 3}, kPixels);
  double sum = 0, least = high, largest = low;
  for (int i = 0; i < kCalls; ++i) {
    const double x = static_cast<double>(function(call.Draw()));
    sum += x;
    least = std::min(least, x);
    largest = std::max(largest, x);
  }
  const double length = high - low, end = 0.01 * length;
  EXPECT_NEAR(sum / kCalls, (low + high) / 2, MeanError(length));
  EXPECT_NEAR(least, low, end);
  EXPECT_NEAR(largest, high, end);
}

float Brightness(const std::vector<float>& out) { return out[0] / kPixels[0]; }
float Contrast(const std::vector<float>& out) {
  const float mean = (Grey(kPixels, 0) + Grey(kPixels, 1)) / 2;
  return (out[0] - mean) / (kPixels[0] - mean);
}
float Saturation(const std::vector<float>& out) {
  return (out[0] - Grey(kPixels, 0)) / (kPixels[0] - Grey(kPixels, 0));
}

TEST(RandomImagesTest, FactorsAreUniform) {
  const ParameterMap factors = {{"min_factor", "0.5"}, {"max_factor", "1.25"}};
  ExpectUniform("_image_random_brightness", factors, 0.5, 1.25, Brightness);
  ExpectUniform("_image_random_contrast", factors, 0.5, 1.25, Contrast);
  ExpectUniform("_image_random_saturation", factors, 0.5, 1.25, Saturation);
}

TEST(RandomImagesTest, HueIsTurnedUniformly) {
  // Up to a sixth of a turn, green rises from the pixel's smallest number to its largest.
  const std::vector<float> red = {1, 0, 0};
  ImageCall<float> call("_image_random_hue", {{"min_factor", "1"}, {"max_factor", "1.1666666"}},
                        {1, 1, 3}, red);
  double sum = 0;
  for (int i = 0; i < kCalls; ++i) {
    const std::vector<float> out = call.Draw();
    ASSERT_EQ(out[0], 1);
    ASSERT_EQ(out[2], 0);
    sum += static_cast<double>(out[1]);
  }
  EXPECT_NEAR(sum / kCalls, 0.5, MeanError(1));
}

TEST(RandomImagesTest, JitterChangesWhatItsParametersSay) {
  const auto jitter = [](const std::string& name) {
    ParameterMap parameters = {
        {"brightness", "0"}, {"contrast", "0"}, {"saturation", "0"}, {"hue", "0"}};
    parameters[name] = "0.75";
    return parameters;
  };
  const std::string op = "_image_random_color_jitter";
  ExpectUniform(op, jitter("brightness"), 0.25, 1.75, Brightness);
  ExpectUniform(op, jitter("contrast"), 0.25, 1.75, Contrast);
  ExpectUniform(op, jitter("saturation"), 0.25, 1.75, Saturation);
}

TEST(RandomImagesTest, JitterTakesItsStepsInBothOrders) {
  // If the saturation is first, it leaves a range s between the largest and the smallest number,
  // which is (1 - s) times the grey of red, and turning the hue keeps both.
  const std::vector<float> red = {1, 0, 0};
  ImageCall<float> call(
      "_image_random_color_jitter",
      {{"brightness", "0"}, {"contrast", "0"}, {"saturation", "0.5"}, {"hue", "0.5"}}, {1, 1, 3},
      red);
  int count = 0;
  for (int i = 0; i < kCalls; ++i) {
    const std::vector<float> out = call.Draw();
    const auto [low, high] = std::minmax_element(out.begin(), out.end());
    count += std::abs(*low - 0.299f * (1 - (*high - *low))) < 1e-5f;
  }
  EXPECT_NEAR(count, kCalls / 2, 5 * std::sqrt(kCalls / 4.0));
}

TEST(RandomImagesTest, LightIsNormalAlongThePrincipalComponents) {
  ImageCall<float> call("_image_random_lighting", {{"alpha_std", "0.1"}}, {1, 1, 3}, {0, 0, 0});
  // The covariance is that of the components times alpha_std squared.
  const double components[3][3] = {{-31.473550, 3.447845, 0.460233},
                                   {-32.211168, -0.021573, -0.934472},
                                   {-32.366456, -3.330871, 0.482504}};
  double sums[3] = {}, products[3][3] = {};
  for (int i = 0; i < kCalls; ++i) {
    const std::vector<float> light = call.Draw();
    for (size_t a = 0; a < 3; ++a) {
      sums[a] += static_cast<double>(light[a]);
      for (size_t b = 0; b < 3; ++b) products[a][b] += static_cast<double>(light[a] * light[b]);
    }
  }
  for (size_t a = 0; a < 3; ++a) {
    EXPECT_NEAR(sums[a] / kCalls, 0, 5 * 3.3 / std::sqrt(kCalls));
    for (size_t b = 0; b < 3; ++b) {
      double expected = 0;
      for (size_t k = 0; k < 3; ++k) expected += 0.01 * components[a][k] * components[b][k];
      EXPECT_NEAR(products[a][b] / kCalls, expected, 5 * std::sqrt(2.0 / kCalls) * 10.7);
    }
  }
}

TEST(RandomImagesTest, HalfOfTheImagesAreFlipped) {
  const std::vector<uint8_t> data = {1, 2, 3, 4, 5, 6};  // two rows, three columns
  const struct {
    std::string name;
    std::vector<uint8_t> flipped;
  } flips[] = {{"_image_random_flip_left_right", {3, 2, 1, 6, 5, 4}},
               {"_image_random_flip_top_bottom", {4, 5, 6, 1, 2, 3}}};
  for (const auto& [name, flipped] : flips) {
    SCOPED_TRACE(name);
    ImageCall<uint8_t> call(name, {}, {2, 3, 1}, data);
    int count = 0;
    for (int i = 0; i < kCalls; ++i) {
      const std::vector<uint8_t> out = call.Draw();
      ASSERT_TRUE(out == data || out == flipped);
      count += out == flipped;
    }
    EXPECT_NEAR(count, kCalls / 2, 5 * std::sqrt(kCalls / 4.0));
  }
}

TEST(RandomImagesTest, IntegersAreCutOffAndLimited) {
  using Bytes = std::vector<uint8_t>;
  const auto draw = [](const std::string& op, const std::string& factor, const Bytes& pixel) {
    const ParameterMap parameters = {{"min_factor", factor}, {"max_factor", factor}};
    return ImageCall<uint8_t>(op, parameters, {1, 1, 3}, pixel).Draw();
  };
  const Bytes pixel = {200, 3, 101};  // its grey is 73.075
  EXPECT_EQ(draw("_image_random_brightness", "1.5", pixel), (Bytes{255, 4, 151}));
  EXPECT_EQ(draw("_image_random_brightness", "0.25", pixel), (Bytes{50, 0, 25}));
  EXPECT_EQ(draw("_image_random_saturation", "0.5", pixel), (Bytes{136, 38, 87}));
  EXPECT_EQ(draw("_image_random_contrast", "2", pixel), (Bytes{255, 0, 128}));
  EXPECT_EQ(draw("_image_random_hue", "0.5", {200, 3, 3}), (Bytes{3, 200, 200}));
}

TEST(RandomImagesTest, OneSeedGivesOneResultAndEachCallAnother) {
  const ParameterMap factors = {{"min_factor", "0.5"}, {"max_factor", "1.25"}};
  const struct {
    std::string op;
    ParameterMap parameters;
  } calls[] = {{"_image_random_brightness", factors},
               {"_image_random_contrast", factors},
               {"_image_random_saturation", factors},
               {"_image_random_hue", factors},
               {"_image_random_lighting", {}},
               {"_image_random_color_jitter",
                {{"brightness", "0.5"}, {"contrast", "0.5"}, {"saturation", "0.5"}, {"hue", "1"}}}};
  for (const auto& [op, parameters] : calls) {
    SCOPED_TRACE(op);
    ImageCall<float> a(op, parameters, {1, 2, 3}, kPixels), b(op, parameters, {1, 2, 3}, kPixels);
    const std::vector<float> first = a.Draw(), second = a.Draw();
    EXPECT_EQ(b.Draw(), first);
    EXPECT_EQ(b.Draw(), second);
    EXPECT_NE(first, second);
  }
}

}  // namespace
}  // namespace tessera
