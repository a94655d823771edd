// RNN over sizes around its packets, tiles and parts, beyond those of its row: outputs against
// plain loops in double, gradients against the slope of these loops, and the same bits from one,
// two and seven threads.
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <random>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "tbb/global_control.h"
#include "tbb/task_arena.h"
#include "tessera/base/dtype.h"
#include "tessera/base/shape.h"
#include "tessera/base/tshape.h"
#include "tessera/ops/registry.h"
#include "tessera/ops/rnn/recurrent_reference.h"

namespace tessera::ops_testing {
namespace {

struct Sizes {
  std::string mode;
  index_t steps, batch, inputs, size, layers, directions;
  bool has_lengths = false;

  std::string Text() const {
    std::string text = mode;
    for (const index_t n : {steps, batch, inputs, size, layers, directions}) {
      text += " " + std::to_string(n);
    }
    return has_lengths ? text + " with lengths" : text;
  }
  ParameterMap Parameters() const {
    return {{"mode", mode},
            {"state_size", std::to_string(size)},
            {"num_layers", std::to_string(layers)},
            {"bidirectional", directions == 2 ? "True" : "False"},
            {"use_sequence_length", has_lengths ? "True" : "False"},
            {"state_outputs", "True"}};
  }
  size_t NumVisible() const { return mode == "lstm" ? 3 : 2; }
  size_t NumWithGradient() const { return mode == "lstm" ? 4 : 3; }
};

// Batches of 1, 2, 3 and 32; 1, 7, 8, 33 and 256 units. The weights are packed if there are 16
// rows. Threads share the units of 256, the samples of 32 and the directions.
const Sizes kSizes[] = {
    {"gru", 17, 1, 5, 1, 1, 2},          {"lstm", 17, 1, 3, 7, 2, 1},
    {"rnn_relu", 17, 1, 3, 8, 1, 2},     {"lstm", 18, 1, 9, 33, 2, 2, true},
    {"gru", 7, 1, 9, 33, 1, 1},          {"lstm", 17, 1, 16, 256, 1, 1},
    {"gru", 16, 1, 8, 256, 1, 2},        {"lstm", 9, 2, 4, 1, 1, 2},
    {"gru", 9, 2, 4, 7, 2, 2, true},     {"rnn_tanh", 8, 2, 5, 33, 2, 1},
    {"lstm", 8, 2, 5, 256, 1, 1},        {"lstm", 4, 3, 5, 8, 2, 2},
    {"lstm", 6, 3, 5, 8, 2, 2, true},    {"gru", 6, 3, 7, 33, 2, 1},
    {"rnn_tanh", 12, 3, 5, 256, 1, 2},   {"gru", 3, 32, 1, 1, 2, 1},
    {"lstm", 5, 32, 6, 7, 1, 2, true},   {"rnn_relu", 5, 32, 6, 8, 1, 2},
    {"lstm", 20, 32, 9, 33, 2, 1, true}, {"gru", 12, 32, 9, 33, 1, 2},
    {"lstm", 2, 32, 12, 256, 1, 1},      {"gru", 3, 32, 12, 96, 1, 1, true},
    {"lstm", 1, 32, 9, 100, 1, 2},
};

using Arrays = std::vector<Array<double>>;

// The inputs, with weights that keep states apart from 1 and 0.
Arrays Inputs(const Sizes& s) {
  std::mt19937 random(static_cast<uint32_t>(s.size + 1000 * s.batch));
  const index_t gates = s.mode == "lstm" ? 4 : s.mode == "gru" ? 3 : 1;
  index_t count = 0;
  for (index_t layer = 0; layer < s.layers; ++layer) {
    const index_t inputs = layer == 0 ? s.inputs : s.directions * s.size;
    count += s.directions * gates * s.size * (inputs + s.size + 2);
  }
  const TShape state = {s.layers * s.directions, s.batch, s.size};
  std::vector<TShape> shapes = {{s.steps, s.batch, s.inputs}, {count}, state};
  if (s.mode == "lstm") shapes.push_back(state);
  Arrays in;
  for (const TShape& shape : shapes) {
    const double bound = in.size() == 1 ? 1.5 / std::sqrt(static_cast<double>(s.size)) : 1.0;
    std::uniform_real_distribution<double> uniform(-bound, bound);
    in.emplace_back(shape);
    // Each is a number of float too.
    for (double& x : in.back().data) x = static_cast<double>(static_cast<float>(uniform(random)));
  }
  if (s.has_lengths) {
    in.emplace_back(TShape({s.batch}));
    for (size_t n = 0; n < in.back().data.size(); ++n) {
      in.back().data[n] = static_cast<double>((7 * n + 3) % static_cast<size_t>(s.steps + 1));
    }
  }
  return in;
}

template <typename T>
using Results = std::vector<std::vector<T>>;

// Outputs and gradients of the operator.
template <typename T>
struct Call {
  Results<T> out, gradients;
};

template <typename T>
std::vector<TBlob> Blobs(Results<T>* values, const std::vector<TShape>& shapes) {
  std::vector<TBlob> blobs;
  for (size_t i = 0; i < values->size(); ++i) {
    blobs.emplace_back((*values)[i].data(), shapes[i], kDTypeOf<T>, Device::Cpu());
  }
  return blobs;
}

template <typename T>
Results<T> Converted(const Arrays& arrays) {
  Results<T> values;
  for (const Array<double>& array : arrays) {
    values.emplace_back();
    for (const double x : array.data) values.back().push_back(static_cast<T>(x));
  }
  return values;
}

template <typename T>
Call<T> Run(const Sizes& s, const Arrays& inputs, const Arrays& heads) {
  const auto property = OperatorRegistry::Get().Create("RNN", s.Parameters());
  std::vector<TShape> in_shapes, out_shapes(property->ListOutputs().size());
  for (const Array<double>& array : inputs) in_shapes.push_back(array.shape);
  property->InferShape(&in_shapes, &out_shapes);
  const std::vector<DType> types(inputs.size(), kDTypeOf<T>);
  const auto op = property->CreateOperator(Device::Cpu(), in_shapes, types);
  Results<T> in = Converted<T>(inputs), head = Converted<T>(heads);
  Call<T> call;
  for (const TShape& shape : out_shapes) call.out.emplace_back(static_cast<size_t>(shape.Size()));
  call.gradients = in;
  const std::vector<OpReqType> write_out(out_shapes.size(), kWriteTo);
  op->Forward({.is_train = true}, Blobs(&in, in_shapes), write_out, Blobs(&call.out, out_shapes));
  std::vector<TBlob> out_grad = Blobs(&head, out_shapes);
  out_grad.resize(out_shapes.size());
  std::vector<OpReqType> write_in(in.size(), kWriteTo);
  if (s.has_lengths) write_in.back() = kNullOp;
  op->Backward({.is_train = true}, out_grad, Blobs(&in, in_shapes), Blobs(&call.out, out_shapes),
               write_in, Blobs(&call.gradients, in_shapes));
  call.gradients.resize(s.NumWithGradient());
  return call;
}

template <typename T>
double Largest(const std::vector<T>& values) {
  double largest = 0;
  for (const T x : values) largest = std::max(largest, std::abs(static_cast<double>(x)));
  return largest;
}

// Expects differences of at most `bound` times the array's largest element.
template <typename T>
void ExpectNear(const std::vector<T>& actual, const std::vector<double>& expected, double bound,
                const std::string& what) {
  ASSERT_EQ(actual.size(), expected.size()) << what;
  const double allowed = bound * Largest(expected);
  for (size_t i = 0; i < expected.size(); ++i) {
    ASSERT_NEAR(static_cast<double>(actual[i]), expected[i], allowed) << what << ", element " << i;
  }
}

// The sum of the visible outputs of plain loops, times heads, after a step along `direction`.
double Loss(const Sizes& s, Arrays in, const Arrays& direction, double step, const Arrays& heads) {
  for (size_t i = 0; i < direction.size(); ++i) {
    for (size_t k = 0; k < in[i].data.size(); ++k) in[i].data[k] += step * direction[i].data[k];
  }
  const Arrays out = Network(s.Parameters(), std::move(in));
  double sum = 0;
  for (size_t i = 0; i < heads.size(); ++i) {
    for (size_t k = 0; k < heads[i].data.size(); ++k) sum += heads[i].data[k] * out[i].data[k];
  }
  return sum;
}

// Returns arrays of the shapes of the first `count` of `like`, with numbers in [-1, 1).
Arrays Random(const Arrays& like, size_t count, uint32_t seed) {
  std::mt19937 random(seed);
  std::uniform_real_distribution<double> uniform(-1, 1);
  Arrays arrays;
  for (size_t i = 0; i < count; ++i) {
    arrays.emplace_back(like[i].shape);
    for (double& x : arrays.back().data)
      x = static_cast<double>(static_cast<float>(uniform(random)));
  }
  return arrays;
}

template <typename T>
bool SameBits(const Results<T>& a, const Results<T>& b) {
  const auto same = [](T x, T y) { return std::memcmp(&x, &y, sizeof(T)) == 0; };
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [&](const auto& x, const auto& y) {
    return std::equal(x.begin(), x.end(), y.begin(), y.end(), same);
  });
}

template <typename T>
Call<T> RunWithAnyThreads(const Sizes& s, const Arrays& in, const Arrays& heads) {
  Call<T> first;
  for (const int threads : {1, 2, 7}) {
    tbb::task_arena arena(threads);
    Call<T> call = arena.execute([&] { return Run<T>(s, in, heads); });
    if (threads == 1) {
      first = std::move(call);
    } else {
      EXPECT_TRUE(SameBits(call.out, first.out)) << threads << " threads, outputs";
      EXPECT_TRUE(SameBits(call.gradients, first.gradients)) << threads << " threads, gradients";
    }
  }
  return first;
}

TEST(RnnSizesTest, OutputsAndGradientsAreThoseOfPlainLoopsWithAnyThreads) {
  const tbb::global_control allow(tbb::global_control::max_allowed_parallelism, 7);
  for (const Sizes& s : kSizes) {
    SCOPED_TRACE(s.Text());
    const Arrays in = Inputs(s);
    const Arrays expected = Network(s.Parameters(), in);
    const Arrays heads = Random(expected, s.NumVisible(), 1);
    const Call<double> exact = RunWithAnyThreads<double>(s, in, heads);
    const Call<float> single = RunWithAnyThreads<float>(s, in, heads);
    for (size_t i = 0; i < expected.size(); ++i) {
      const std::string what = "output " + std::to_string(i);
      ExpectNear(exact.out[i], expected[i].data, 1e-13, what + " of float64");
      ExpectNear(single.out[i], expected[i].data, 1e-5, what + " of float32");
    }
    // Any wrong gradient changes the slope along a direction in which all inputs change.
    const Arrays direction = Random(in, s.NumWithGradient(), 2);
    double slope = 0, magnitude = 0;
    for (size_t i = 0; i < direction.size(); ++i) {
      for (size_t k = 0; k < direction[i].data.size(); ++k) {
        const double term = direction[i].data[k] * exact.gradients[i][k];
        slope += term;
        magnitude += term * term;
      }
    }
    constexpr double kStep = 1e-6;
    const double measured =
        (Loss(s, in, direction, kStep, heads) - Loss(s, in, direction, -kStep, heads)) /
        (2 * kStep);
    EXPECT_NEAR(slope, measured, 1e-5 * std::sqrt(magnitude));
    for (size_t i = 0; i < direction.size(); ++i) {
      ExpectNear(single.gradients[i], exact.gradients[i], 2e-5, "gradient " + std::to_string(i));
    }
  }
}

}  // namespace
}  // namespace tessera::ops_testing
