// Gradients of gradients against numbers of MXNet 1.9.1, which has them for the functions of its
// tests of higher orders: autograd.grad with create_graph, then backward.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tessera/graph/passes/gradient.h"
#include "tessera/ops/registry.h"
#include "tessera/tests/gradients/graph_values.h"

namespace tessera::gradient_testing {
namespace {

using graph::BuildGradients;
using graph::GradientForm;
using graph::MakeNode;
using graph::NodeEntry;
using ops_testing::Values;

constexpr double kTolerance = 1e-5;

Values Given(const TShape& shape, const std::vector<double>& data) {
  Values values(shape);
  values.data = data;
  return values;
}

NodeEntry Apply(const std::string& op, const std::vector<NodeEntry>& inputs,
                const ParameterMap& parameters = {}) {
  static int count = 0;
  return MakeNode(OperatorRegistry::Get().Create(op, parameters), op + std::to_string(count++),
                  inputs);
}

/// Returns the gradients of a head for given head gradients, which get the name `head`.
std::vector<NodeEntry> Gradients(const NodeEntry& head, const std::vector<NodeEntry>& variables,
                                 const std::string& name) {
  auto result = BuildGradients({head}, variables, GradientForm::kDifferentiable);
  result.head_gradients[0].node->name = name;
  return result.gradients;
}

/// A function at x with its first and second derivative.
struct Derivatives {
  std::string op;
  ParameterMap parameters;
  double x, first, second;
};

// MXNet has the wrong sign in the second derivatives of arcsinh and arccosh, which are corrected.
const Derivatives kDerivatives[] = {
    {"sin", {}, 0.3, 0.95533648912560598, -0.29552020666133955},
    {"sin", {}, 0.7, 0.7648421872844885, -0.64421768723769102},
    {"cos", {}, 0.3, -0.29552020666133955, -0.95533648912560598},
    {"cos", {}, 0.7, -0.64421768723769102, -0.7648421872844885},
    {"tan", {}, 0.3, 1.0956889153225471, 0.67787259960942559},
    {"tan", {}, 0.7, 1.7094497158631172, 2.8796992653148323},
    {"sinh", {}, 0.3, 1.0453385141288605, 0.3045202934471426},
    {"sinh", {}, 0.7, 1.255169005630943, 0.75858370183953339},
    {"cosh", {}, 0.3, 0.3045202934471426, 1.0453385141288605},
    {"cosh", {}, 0.7, 0.75858370183953339, 1.255169005630943},
    {"tanh", {}, 0.3, 0.91513696182662918, -0.53318187820145435},
    {"tanh", {}, 0.7, 0.63473958998245839, -0.76723231009191639},
    {"arcsin", {}, 0.3, 1.0482848367219182, 0.34558840771052241},
    {"arcsin", {}, 0.7, 1.4002800840280099, 1.9219530565090333},
    {"arccos", {}, 0.3, -1.0482848367219182, -0.34558840771052241},
    {"arccos", {}, 0.7, -1.4002800840280099, -1.9219530565090333},
    {"arctan", {}, 0.3, 0.9174311926605504, -0.50500799595993595},
    {"arctan", {}, 0.7, 0.67114093959731547, -0.63060222512499442},
    {"arcsinh", {}, 0.3, 0.95782628522115132, -0.26362191336361956},
    {"arcsinh", {}, 0.7, 0.81923192051904048, -0.38487405661968344},
    {"arctanh", {}, 0.3, 1.0989010989010988, 0.72455017509962549},
    {"arctanh", {}, 0.7, 1.9607843137254901, 5.3825451749327176},
    {"radians", {}, 0.3, 0.01745329238474369, 0},
    {"radians", {}, 0.7, 0.01745329238474369, 0},
    {"relu", {}, 0.3, 1, 0},
    {"relu", {}, 0.7, 1, 0},
    {"log", {}, 0.3, 3.3333333333333335, -11.111111111111112},
    {"log", {}, 0.7, 1.4285714285714286, -2.0408163265306123},
    {"log2", {}, 0.3, 4.8089834696298785, -16.029944898766264},
    {"log2", {}, 0.7, 2.0609929155556621, -2.9442755936509459},
    {"log10", {}, 0.3, 1.4476482730108395, -4.825494243369465},
    {"log10", {}, 0.7, 0.62042068843321696, -0.88631526919031001},
    {"log1p", {}, 0.3, 0.76923076923076916, -0.59171597633136086},
    {"log1p", {}, 0.7, 0.58823529411764708, -0.34602076124567477},
    {"expm1", {}, 0.3, 1.3498588075760032, 1.3498588075760032},
    {"expm1", {}, 0.7, 2.0137527074704766, 2.0137527074704766},
    {"square", {}, 0.3, 0.59999999999999998, 2},
    {"square", {}, 0.7, 1.3999999999999999, 2},
    {"reciprocal", {}, 0.3, -11.111111111111111, 74.074074074074076},
    {"reciprocal", {}, 0.7, -2.0408163265306127, 5.830903790087465},
    {"abs", {}, 0.3, 1, 0},
    {"abs", {}, 0.7, 1, 0},
    {"sigmoid", {}, 0.3, 0.24445831169074586, -0.036396183955576263},
    {"sigmoid", {}, 0.7, 0.22171287329310904, -0.074578788440341826},
    {"sqrt", {}, 0.3, 0.9128709291752769, -1.5214515486254618},
    {"sqrt", {}, 0.7, 0.59761430466719678, -0.42686736047656909},
    {"cbrt", {}, 0.3, 0.74381438898018859, -1.6529208644004201},
    {"cbrt", {}, 0.7, 0.42281142940123839, -0.40267755181070319},
    {"rsqrt", {}, 0.3, -3.0429030972509232, 15.214515486254616},
    {"rsqrt", {}, 0.7, -0.8537347209531384, 1.8294315448995822},
    {"rcbrt", {}, 0.3, -1.6597795357619132, 7.3767979367196146},
    {"rcbrt", {}, 0.7, -0.53630851449695527, 1.0215400276132482},
    {"arccosh", {}, 1.3, 1.2038585308576919, -2.268139261036231},
    {"arccosh", {}, 2.1, 0.5415303610738823, -0.33349377074931164},
    {"clip", {{"a_min", "-0.5"}, {"a_max", "0.5"}}, -0.8, 0, 0},
    {"clip", {{"a_min", "-0.5"}, {"a_max", "0.5"}}, 0.3, 1, 0},
};

TEST(MxnetGradientsTest, FirstAndSecondDerivativesOfFunctions) {
  for (const Derivatives& expected : kDerivatives) {
    SCOPED_TRACE(expected.op + " at " + std::to_string(expected.x));
    const NodeEntry x = graph::MakeVariable("x");
    const NodeEntry y = Apply(expected.op, {x}, expected.parameters);
    const NodeEntry first = Gradients(y, {x}, "first").front();
    const NodeEntry second = Gradients(first, {x}, "second").front();
    const Feed feed = {{"x", {Given({1}, {expected.x})}},
                       {"first", {Given({1}, {1})}},
                       {"second", {Given({1}, {1})}}};
    EXPECT_NEAR(Evaluate({first}, feed)[0][0], expected.first, kTolerance);
    // Without a node, it is 0.
    const double actual = second.node == nullptr ? 0 : Evaluate({second}, feed)[0][0];
    EXPECT_NEAR(actual, expected.second, kTolerance);
  }
}

/// A dense layer's gradients for head gradients 1/3, 2/3, …, and those of the sum of the squares of
/// data's gradient and the cubes of weight's.
struct DenseGradients {
  bool flatten;
  TShape weight, out;
  std::vector<double> of_data, of_weight, second_of_data, second_of_weight;
};

const DenseGradients kDense[] = {
    {true,
     {2, 6},
     {2, 2},
     {0.0714285714286, 0.214285714286, 0.357142857143, 0.5, 0.642857142857, 0.785714285714,
      -0.0238095238095, 0.309523809524, 0.642857142857, 0.97619047619, 1.30952380952,
      1.64285714286},
     {0.6, 0.733333333333, 0.866666666667, 1, 1.13333333333, 1.26666666667, 0.8, 1, 1.2, 1.4, 1.6,
      1.8},
     {1.64, 2.53777777778, 3.63111111111, 4.92, 6.40444444444, 8.08444444444, 3.64, 5.61333333333,
      8.01333333333, 10.84, 14.0933333333, 17.7733333333},
     {0, 0.761904761905, 1.52380952381, 2.28571428571, 3.04761904762, 3.80952380952, 0.031746031746,
      1.11111111111, 2.19047619048, 3.26984126984, 4.34920634921, 5.42857142857}},
    {false,
     {2, 3},
     {2, 2, 2},
     {-0.214285714286, -0.0714285714286, 0.0714285714286, -0.595238095238, -0.261904761905,
      0.0714285714286, -0.97619047619, -0.452380952381, 0.0714285714286, -1.35714285714,
      -0.642857142857, 0.0714285714286},
     {3.4, 3.93333333333, 4.46666666667, 4, 4.66666666667, 5.33333333333},
     {43.56, 59.0266666667, 76.84, 98.68, 133.524444444, 173.631111111, 153.8, 208.022222222,
      270.422222222, 208.92, 282.52, 367.213333333},
     {-10.9206349206, -5.07936507937, 0.761904761905, -13.0158730159, -6.03174603175,
      0.952380952381}},
};

void ExpectNear(const Values& actual, const std::vector<double>& expected) {
  ASSERT_EQ(actual.data.size(), expected.size());
  for (size_t i = 0; i < expected.size(); ++i) {
    EXPECT_NEAR(actual.data[i], expected[i], kTolerance) << i;
  }
}

TEST(MxnetGradientsTest, SecondGradientsOfADenseLayer) {
  for (const DenseGradients& expected : kDense) {
    SCOPED_TRACE(expected.flatten ? "flatten" : "without flatten");
    const NodeEntry x = graph::MakeVariable("x"), w = graph::MakeVariable("w"),
                    b = graph::MakeVariable("b");
    const NodeEntry y =
        Apply("FullyConnected", {x, w, b},
              {{"num_hidden", "2"}, {"flatten", expected.flatten ? "True" : "False"}});
    const std::vector<NodeEntry> first = Gradients(y, {x, w}, "head");
    const NodeEntry squares = Apply("sum", {Apply("square", {first[0]})});
    const NodeEntry cubes = Apply("sum", {Apply("_power_scalar", {first[1]}, {{"scalar", "3"}})});
    const std::vector<NodeEntry> second =
        Gradients(Apply("elemwise_add", {squares, cubes}), {x, w, b}, "one");
    Feed feed = {{"x", {Values({2, 2, 3})}},
                 {"w", {Values(expected.weight)}},
                 {"b", {Given({2}, {0.1, 0.2})}},
                 {"head", {Values(expected.out)}},
                 {"one", {Given({1}, {1})}}};
    const auto fill = [&](const char* name, double begin, double step) {
      Values& values = feed.at(name).values;
      for (index_t i = 0; i < values.size(); ++i) {
        values[i] = begin + static_cast<double>(i) * step;
      }
    };
    fill("x", 0, 0.1);
    fill("w", -0.5, 1.0 / 7);
    fill("head", 1.0 / 3, 1.0 / 3);
    ExpectNear(Evaluate({first[0]}, feed)[0], expected.of_data);
    ExpectNear(Evaluate({first[1]}, feed)[0], expected.of_weight);
    ExpectNear(Evaluate({second[0]}, feed)[0], expected.second_of_data);
    ExpectNear(Evaluate({second[1]}, feed)[0], expected.second_of_weight);
    EXPECT_EQ(second[2].node, nullptr);  // nothing depends on the bias
  }
}

}  // namespace
}  // namespace tessera::gradient_testing
