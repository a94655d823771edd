// RNN with a random mask between its layers: what its row leaves open. Two layers must be what each
// gives alone, with the mask between them.
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

constexpr index_t kSteps = 20, kBatch = 8, kInputs = 3, kSize = 10;

using Floats = std::vector<float>;

/// A bidirectional GRU with arrays of floats.
struct Net {
  Net(index_t layers, index_t inputs, const std::string& p, const Floats& parameters,
      const Floats& data)
      : property(OperatorRegistry::Get().Create("RNN", {{"mode", "gru"},
                                                        {"state_size", std::to_string(kSize)},
                                                        {"num_layers", std::to_string(layers)},
                                                        {"bidirectional", "True"},
                                                        {"p", p}})) {
    in_shapes = {{kSteps, kBatch, inputs}, {}, {}};
    out_shapes.resize(property->ListOutputs().size());
    property->InferShape(&in_shapes, &out_shapes);
    const DType types[] = {DType::kFloat32, DType::kFloat32, DType::kFloat32};
    op = property->CreateOperator(Device::Cpu(), in_shapes, types);
    for (const TShape& shape : in_shapes) in.emplace_back(static_cast<size_t>(shape.Size()), 0.1f);
    for (const TShape& shape : out_shapes) out.emplace_back(static_cast<size_t>(shape.Size()));
    gradients = in;
    if (!data.empty()) in[0] = data;
    if (!parameters.empty()) in[1] = parameters;
  }

  void Forward(bool is_train) {
    Resource* const resources[] = {&random};
    const std::vector<OpReqType> req(out.size(), kWriteTo);
    op->Forward({.is_train = is_train, .requested = resources}, Blobs(&in, in_shapes), req,
                Blobs(&out, out_shapes));
  }
  void Backward(const Floats& head) {
    std::vector<Floats> heads = {head};
    std::vector<TBlob> out_grad = Blobs(&heads, out_shapes);
    out_grad.resize(out.size());
    const std::vector<OpReqType> req(in.size(), kWriteTo);
    op->Backward({.is_train = true}, out_grad, Blobs(&in, in_shapes), Blobs(&out, out_shapes), req,
                 Blobs(&gradients, in_shapes));
  }
  static std::vector<TBlob> Blobs(std::vector<Floats>* values, const std::vector<TShape>& shapes) {
    std::vector<TBlob> blobs;
    for (size_t i = 0; i < values->size(); ++i) {
      blobs.emplace_back((*values)[i].data(), shapes[i], DType::kFloat32, Device::Cpu());
    }
    return blobs;
  }

  const std::unique_ptr<TestDevice> device = MakeCpuTestDevice();
  TestResource random{device.get(), ResourceRequest{ResourceRequest::Type::kRandom}};
  const std::unique_ptr<OperatorProperty> property;
  std::unique_ptr<Operator> op;
  std::vector<TShape> in_shapes, out_shapes;
  std::vector<Floats> in, out, gradients;
};

constexpr size_t kMask = 3;  // among the outputs: output, gates, layers, mask

Floats Wave(size_t count, float step) {
  Floats values(count);
  for (size_t i = 0; i < count; ++i) values[i] = 0.5f * std::sin(step * static_cast<float>(i));
  return values;
}

Floats Times(Floats a, const Floats& b) {
  for (size_t i = 0; i < a.size(); ++i) a[i] *= b[i];
  return a;
}

void ExpectNear(const Floats& actual, const Floats& expected, const std::string& what) {
  ASSERT_EQ(actual.size(), expected.size());
  for (size_t i = 0; i < actual.size(); ++i) {
    ASSERT_NEAR(actual[i], expected[i], 1e-5f) << what << ", element " << i;
  }
}

TEST(RnnDropoutTest, TwoLayersAreEachAloneWithTheMaskBetween) {
  Net both(2, kInputs, "0.25", {}, {});
  both.in[0] = Wave(both.in[0].size(), 0.7f);
  both.in[1] = Wave(both.in[1].size(), 1.3f);
  both.Forward(/*is_train=*/true);
  const Floats& mask = both.out[kMask];
  double sum = 0;
  for (const float x : mask) {
    ASSERT_TRUE(x == 0 || x == 1 / 0.75f) << x;
    sum += static_cast<double>(x);
  }
  const double count = static_cast<double>(mask.size());
  EXPECT_NEAR(sum / count, 1, 5 * std::sqrt(0.25 / 0.75 / count));

  // All matrices come before all biases.
  const auto from = both.in[1].begin();
  const index_t first = 2 * 3 * kSize * (kInputs + kSize);
  const index_t second = first + 2 * 3 * kSize * 3 * kSize;
  const index_t biases = 2 * 2 * 3 * kSize;
  Floats of_lower(from, from + first), of_upper(from + first, from + second);
  of_lower.insert(of_lower.end(), from + second, from + second + biases);
  of_upper.insert(of_upper.end(), from + second + biases, both.in[1].end());
  Net lower(1, kInputs, "0", of_lower, both.in[0]);
  lower.Forward(/*is_train=*/true);
  Net upper(1, 2 * kSize, "0", of_upper, Times(lower.out[0], mask));
  upper.Forward(/*is_train=*/true);
  ExpectNear(both.out[0], upper.out[0], "output");

  const Floats head = Wave(both.out[0].size(), 0.3f);
  both.Backward(head);
  upper.Backward(head);
  lower.Backward(Times(upper.gradients[0], mask));
  ExpectNear(both.gradients[0], lower.gradients[0], "gradient of data");
}

TEST(RnnDropoutTest, EachCallHasAMaskAndOnlyTrainingDrops) {
  Net a(2, kInputs, "0.5", {}, {}), b(2, kInputs, "0.5", {}, {});
  a.Forward(/*is_train=*/true);
  b.Forward(/*is_train=*/true);
  EXPECT_EQ(a.out[kMask], b.out[kMask]);
  b.Forward(/*is_train=*/true);
  EXPECT_NE(a.out[kMask], b.out[kMask]);
  b.Forward(/*is_train=*/false);
  EXPECT_EQ(b.out[kMask], Floats(b.out[kMask].size(), 1));
}

}  // namespace
}  // namespace tessera
