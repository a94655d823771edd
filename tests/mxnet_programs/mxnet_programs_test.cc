// Programs with gradients against MXNet 1.9.1: those of programs.py in C++, on the arrays that it
// wrote into expected/, with the results that MXNet gave.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "tessera/base/error.h"
#include "tessera/ndarray/autograd.h"
#include "tessera/ndarray/imperative.h"
#include "tessera/ndarray/ndarray.h"
#include "tessera/ndarray/serialization.h"

namespace tessera {
namespace {

/// The largest difference, relative to the largest element of an array.
constexpr double kTolerance = 1e-5;

using Arrays = std::map<std::string, NDArray>;

/// The arrays that a program starts from, by name.
class Inputs {
 public:
  explicit Inputs(const Arrays& saved) : saved_(saved) {}

  NDArray Take(const std::string& name) const {
    const auto found = saved_.find("in:" + name);
    if (found == saved_.end()) throw NotFound("no array in:", name, " in the file");
    return found->second;
  }
  /// Returns the array as a variable with a gradient.
  NDArray Parameter(const std::string& name, OpReqType request = kWriteTo) const {
    NDArray array = Take(name);
    array.AttachGrad(request);
    return array;
  }

 private:
  const Arrays& saved_;
};

std::string Text(index_t number) { return std::to_string(number); }

NDArray Call(const std::string& op, std::vector<NDArray> inputs,
             const ParameterMap& parameters = {}) {
  return Invoke(op, inputs, parameters)[0];
}

NDArray Dense(const NDArray& x, const NDArray& weight, const NDArray& bias) {
  return Call("FullyConnected", {x, weight, bias}, {{"num_hidden", Text(weight.shape()[0])}});
}

NDArray Zeros(const TShape& shape) {
  NDArray array(shape);
  array = 0.0f;
  return array;
}

/// Adds the present gradient of an array to the results, under "grad_NAME".
void AddGradient(const std::string& name, const NDArray& array, Arrays* results,
                 const std::string& prefix = "") {
  (*results)[prefix + "grad_" + name] = array.grad().Copy(Device::Cpu());
}

Arrays LstmCells(const Inputs& inputs) {
  const NDArray x = inputs.Parameter("x"), target = inputs.Take("target");
  const NDArray wx = inputs.Parameter("wx"), bx = inputs.Parameter("bx");
  const NDArray wh = inputs.Parameter("wh"), bh = inputs.Parameter("bh");
  NDArray h = Zeros({3, 6}), c = Zeros({3, 6}), loss;
  {
    const autograd::Record record;
    for (index_t t = 0; t < 4; ++t) {
      const NDArray gates = Dense(x.At(t), wx, bx) + Dense(h, wh, bh);
      const std::vector<NDArray> parts =
          Invoke("SliceChannel", {gates}, {{"num_outputs", "4"}, {"axis", "1"}});
      c = Call("sigmoid", {parts[1]}) * c + Call("sigmoid", {parts[0]}) * Call("tanh", {parts[2]});
      h = Call("sigmoid", {parts[3]}) * Call("tanh", {c});
      const NDArray step = Call("sum", {Call("square", {h - target})});
      loss = loss.is_none() ? step : loss + step;
    }
  }
  loss.Backward();
  Arrays results = {{"loss", loss}, {"h", h}};
  AddGradient("x", x, &results);
  AddGradient("wx", wx, &results);
  AddGradient("bx", bx, &results);
  AddGradient("wh", wh, &results);
  AddGradient("bh", bh, &results);
  return results;
}

Arrays LstmOperator(const Inputs& inputs) {
  const NDArray x = inputs.Parameter("x"), parameters = inputs.Parameter("parameters");
  const NDArray h = inputs.Parameter("h"), c = inputs.Parameter("c");
  std::vector<NDArray> out;
  NDArray loss;
  {
    const autograd::Record record;
    out = Invoke(
        "RNN", {x, parameters, h, c},
        {{"state_size", "4"}, {"num_layers", "2"}, {"mode", "lstm"}, {"state_outputs", "True"}});
    loss = Call("sum", {Call("square", {out[0]})}) + Call("sum", {out[1] * out[2]});
  }
  loss.Backward();
  Arrays results = {{"loss", loss}, {"out", out[0]}};
  AddGradient("x", x, &results);
  AddGradient("parameters", parameters, &results);
  AddGradient("h", h, &results);
  AddGradient("c", c, &results);
  return results;
}

/// A convolution with a BatchNorm behind it.
struct NormalizedConvolution {
  NormalizedConvolution(const Inputs& inputs, const std::string& number, int kernel_size,
                        int stride_size)
      : layer(number), kernel(kernel_size), stride(stride_size) {
    weight = inputs.Parameter("w" + layer);
    gamma = inputs.Parameter("gamma" + layer);
    beta = inputs.Parameter("beta" + layer);
    mean = inputs.Take("mean" + layer);
    var = inputs.Take("var" + layer);
  }

  NDArray operator()(const NDArray& x) const {
    const auto pair = [](index_t extent) { return TShape{extent, extent}.ToString(); };
    const NDArray y = Call("Convolution", {x, weight},
                           {{"kernel", pair(kernel)},
                            {"pad", pair(kernel / 2)},
                            {"stride", pair(stride)},
                            {"num_filter", "8"},
                            {"no_bias", "True"}});
    return Call("BatchNorm", {y, gamma, beta, mean, var}, {{"fix_gamma", "False"}});
  }

  void AddTo(Arrays* results) const {
    AddGradient("w" + layer, weight, results);
    AddGradient("gamma" + layer, gamma, results);
    AddGradient("beta" + layer, beta, results);
    (*results)["mean" + layer] = mean;
    (*results)["var" + layer] = var;
  }

  const std::string layer;
  const int kernel, stride;
  NDArray weight, gamma, beta, mean, var;
};

Arrays ResidualBlock(const Inputs& inputs) {
  const NDArray x = inputs.Parameter("x"), label = inputs.Take("label");
  const NDArray w = inputs.Parameter("w"), b = inputs.Parameter("b");
  const NormalizedConvolution first(inputs, "1", 3, 2), second(inputs, "2", 3, 1),
      beside(inputs, "3", 1, 2);
  NDArray loss;
  {
    const autograd::Record record;
    NDArray y = second(Call("relu", {first(x)}));
    y = Call("relu", {y + beside(x)});
    y = Call("Pooling", {y}, {{"kernel", "(3,3)"}, {"pool_type", "avg"}, {"global_pool", "True"}});
    loss = Call("softmax_cross_entropy", {Dense(Call("Flatten", {y}), w, b), label});
  }
  loss.Backward();
  Arrays results = {{"loss", loss}};
  AddGradient("x", x, &results);
  AddGradient("w", w, &results);
  AddGradient("b", b, &results);
  for (const NormalizedConvolution* layer : {&first, &second, &beside}) layer->AddTo(&results);
  return results;
}

Arrays Gan(const Inputs& inputs) {
  const NDArray z = inputs.Take("z"), real = inputs.Take("real");
  const std::vector<std::string> names = {"g1", "g2", "g3", "g4", "d1", "d2", "d3", "d4"};
  std::vector<NDArray> p;
  for (const std::string& name : names) p.push_back(inputs.Parameter(name));
  const auto discriminate = [&p](const NDArray& x) {
    const ParameterMap leaky = {{"act_type", "leaky"}, {"slope", "0.2"}};
    return Dense(Call("LeakyReLU", {Dense(x, p[4], p[5])}, leaky), p[6], p[7]);
  };
  const auto mean_softplus = [](const NDArray& x) {
    return Call("mean", {Call("Activation", {x}, {{"act_type", "softrelu"}})});
  };
  const auto negative = [](const NDArray& x) { return Call("negative", {x}); };
  NDArray loss_d, loss_g;
  {
    const autograd::Record record;
    const NDArray fake = Call("tanh", {Dense(Call("relu", {Dense(z, p[0], p[1])}), p[2], p[3])});
    const NDArray judged = discriminate(fake);
    loss_d = mean_softplus(negative(discriminate(real))) + mean_softplus(judged);
    loss_g = mean_softplus(negative(judged));
  }
  Arrays results = {{"loss_d", loss_d}, {"loss_g", loss_g}};
  loss_d.Backward({}, {.retain_graph = true});
  for (size_t i = 0; i < p.size(); ++i) AddGradient(names[i], p[i], &results, "d_");
  loss_g.Backward();
  for (size_t i = 0; i < p.size(); ++i) AddGradient(names[i], p[i], &results, "g_");
  return results;
}

Arrays Accumulation(const Inputs& inputs) {
  const NDArray w = inputs.Parameter("w", kAddTo), b = inputs.Parameter("b", kAddTo);
  NDArray loss;
  for (int batch = 0; batch < 3; ++batch) {
    const NDArray x = inputs.Take("x" + std::to_string(batch));
    {
      const autograd::Record record;
      loss = Call("mean", {Call("square", {Call("tanh", {Dense(x, w, b)})})});
    }
    loss.Backward();
  }
  Invoke("sgd_update", {w, w.grad()}, {w}, {{"lr", "0.5"}});
  Arrays results = {{"loss", loss}, {"w", w}};
  AddGradient("w", w, &results);
  AddGradient("b", b, &results);
  return results;
}

Arrays Detach(const Inputs& inputs) {
  const NDArray x = inputs.Parameter("x"), w = inputs.Parameter("w");
  NDArray loss;
  {
    const autograd::Record record;
    const NDArray y = Call("tanh", {Call("dot", {x, w})});
    const NDArray z = y * y.Detach() + Call("BlockGrad", {Call("exp", {y})}) * x;
    NDArray factor;
    {
      const autograd::Pause pause;
      factor = y * 2.0f;
    }
    loss = Call("sum", {z * factor});
  }
  loss.Backward();
  Arrays results = {{"loss", loss}};
  AddGradient("x", x, &results);
  AddGradient("w", w, &results);
  return results;
}

Arrays GradientPenalty(const Inputs& inputs) {
  const NDArray x = inputs.Parameter("x");
  const NDArray w1 = inputs.Parameter("w1"), b1 = inputs.Parameter("b1");
  const NDArray w2 = inputs.Parameter("w2"), b2 = inputs.Parameter("b2");
  NDArray loss, slope;
  {
    const autograd::Record record;
    const NDArray score = Dense(Call("tanh", {Dense(x, w1, b1)}), w2, b2);
    slope = autograd::Grad({score}, {x}, {}, {.create_graph = true})[0];
    const NDArray norm =
        Call("sqrt", {Call("sum", {Call("square", {slope})}, {{"axis", "1"}}) + 1e-6f});
    loss = Call("mean", {score}) + Call("mean", {Call("square", {norm - 1.0f})}) * 10.0f;
  }
  loss.Backward();
  Arrays results = {{"loss", loss}, {"slope", slope}};
  AddGradient("x", x, &results);
  AddGradient("w1", w1, &results);
  AddGradient("b1", b1, &results);
  AddGradient("w2", w2, &results);
  AddGradient("b2", b2, &results);
  return results;
}

Arrays SecondDerivatives(const Inputs& inputs) {
  Arrays results;
  for (const std::string name : {"sin", "cos", "exp", "log", "tanh", "sigmoid", "sqrt", "square",
                                 "reciprocal", "arctan", "cbrt"}) {
    const NDArray x = inputs.Parameter("x_" + name), factor = inputs.Take("factor_" + name);
    NDArray first;
    {
      const autograd::Record record;
      const NDArray y = Call(name, {x});
      first = autograd::Grad({y}, {x}, {factor}, {.create_graph = true})[0];
    }
    first.Backward();
    results["first_" + name] = first;
    results["second_" + name] = x.grad().Copy(Device::Cpu());
  }
  return results;
}

const std::map<std::string, std::function<Arrays(const Inputs&)>>& Programs() {
  static const auto* const programs =
      new std::map<std::string, std::function<Arrays(const Inputs&)>>{
          {"accumulation", Accumulation},
          {"detach", Detach},
          {"gan", Gan},
          {"gradient_penalty", GradientPenalty},
          {"lstm_cells", LstmCells},
          {"lstm_operator", LstmOperator},
          {"residual_block", ResidualBlock},
          {"second_derivatives", SecondDerivatives}};
  return *programs;
}

std::vector<std::string> Names() {
  std::vector<std::string> names;
  for (const auto& [name, program] : Programs()) names.push_back(name);
  return names;
}

/// Returns the largest difference relative to the largest expected element; infinite if sizes
/// differ.
double Difference(const NDArray& actual, const NDArray& expected) {
  const std::vector<float> a = actual.ToVector(), e = expected.ToVector();
  if (a.size() != e.size()) return INFINITY;
  double largest = 1e-30, difference = 0;
  for (size_t i = 0; i < e.size(); ++i) {
    largest = std::max(largest, std::abs(static_cast<double>(e[i])));
    const double d = std::abs(static_cast<double>(a[i]) - e[i]);
    difference = std::isnan(d) ? INFINITY : std::max(difference, d);
  }
  return difference / largest;
}

class MxnetProgramsTest : public testing::TestWithParam<std::string> {};

TEST_P(MxnetProgramsTest, GivesTheResultsOfMxnet) {
  const std::string name = GetParam();
  const Arrays saved = LoadNDArrays("tests/mxnet_programs/expected/" + name + ".params");
  const Arrays results = Programs().at(name)(Inputs(saved));
  size_t compared = 0;
  for (const auto& [key, expected] : saved) {
    if (!key.starts_with("out:")) continue;
    ++compared;
    const auto found = results.find(key.substr(4));
    ASSERT_NE(found, results.end()) << key;
    EXPECT_LE(Difference(found->second, expected), kTolerance) << key;
  }
  EXPECT_EQ(compared, results.size());
}

INSTANTIATE_TEST_SUITE_P(All, MxnetProgramsTest, testing::ValuesIn(Names()),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace tessera
