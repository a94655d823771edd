// Every optimizer against a plain reference in double, and against MXNet 1.9.1.
#include "tessera/train/optimizers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <memory>
#include <ostream>
#include <string>
#include <vector>

#include "tessera/base/error.h"
#include "tessera/ndarray/testing/array_values.h"

namespace tessera {
namespace {

using ndarray_testing::Read;
using ndarray_testing::ReadAs;
using ndarray_testing::Vector;

using Reals = std::vector<double>;

constexpr int kSteps = 100;
constexpr double kWd = 0.01, kRescale = 0.5, kClip = 0.8;
const std::vector<float> kFirst = {1, -2, 0.5f, 3};

/// Returns the gradient of step t, from 1.
std::vector<float> GradientOf(int t) {
  std::vector<float> grad;
  for (int i = 0; i < 4; ++i) grad.push_back(static_cast<float>(2 * std::cos(0.7 * t + i)));
  return grad;
}

double Clip(double g, double bound = kClip) { return std::clamp(g, -bound, bound); }
/// clip(rescale * grad), and the same with the decay inside.
double G(double grad) { return Clip(kRescale * grad); }
double DecayedG(double w, double grad) { return Clip(kRescale * grad + kWd * w); }
double Sign(double x) { return x > 0 ? 1 : x < 0 ? -1 : 0; }
double Norm(const Reals& values) {
  double sum = 0;
  for (const double x : values) sum += x * x;
  return std::sqrt(sum);
}

OptimizerOptions Common(double learning_rate) {
  return {
      .learning_rate = learning_rate, .wd = kWd, .rescale_grad = kRescale, .clip_gradient = kClip};
}

/// One step of a reference: changes the weights and three states of each, which are 0 at first.
using Reference = std::function<void(int t, const std::vector<float>& grad, Reals* w, Reals* s)>;

/// Makes a reference of a function of one element.
template <typename Step>
Reference OfElements(const Step& step) {
  return [step](int t, const std::vector<float>& grad, Reals* w, Reals* s) {
    for (size_t i = 0; i < w->size(); ++i) {
      step(t, static_cast<double>(grad[i]), (*w)[i], s->data() + 3 * i);
    }
  };
}

struct Case {
  std::string name;
  std::function<std::unique_ptr<Optimizer>()> make;
  Reference reference;
  std::vector<float> mxnet;  ///< the weights after kSteps steps in MXNet 1.9.1

  friend std::ostream& operator<<(std::ostream& os, const Case& each) { return os << each.name; }
};

template <typename O, typename Options>
std::function<std::unique_ptr<Optimizer>()> Maker(Options options) {
  return [options] { return std::make_unique<O>(options); };
}

Reference LambReference(double lr, double lower, double upper, bool corrects) {
  return [=](int t, const std::vector<float>& grad, Reals* w, Reals* s) {
    Reals direction;
    for (size_t i = 0; i < w->size(); ++i) {
      double& mean = (*s)[3 * i];
      double& var = (*s)[3 * i + 1];
      const double g = G(static_cast<double>(grad[i]));
      mean = 0.9 * mean + 0.1 * g;
      var = 0.999 * var + 0.001 * g * g;
      const double m = corrects ? mean / (1 - std::pow(0.9, t)) : mean;
      const double v = corrects ? var / (1 - std::pow(0.999, t)) : var;
      direction.push_back(m / (std::sqrt(v) + 1e-6) + kWd * (*w)[i]);
    }
    const double ratio = std::clamp(Norm(*w), lower, upper) / Norm(direction);
    for (size_t i = 0; i < w->size(); ++i) (*w)[i] -= lr * ratio * direction[i];
  };
}

std::vector<Case> Cases() {
  std::vector<Case> cases;
  const auto momentum_step = [](double lr, double momentum) {
    return OfElements([=](int, double grad, double& w, double* s) {
      s[0] = momentum * s[0] - lr * (G(grad) + kWd * w);
      w += s[0];
    });
  };
  cases.push_back({"Sgd",
                   Maker<Sgd>(SgdOptions{Common(0.1)}),
                   momentum_step(0.1, 0),
                   {0.766115606f, -1.72530723f, 0.467703581f, 2.88168931f}});
  cases.push_back({"SgdWithMomentum",
                   Maker<Sgd>(SgdOptions{Common(0.1), 0.9}),
                   momentum_step(0.1, 0.9),
                   {0.191672519f, 0.0771778077f, -0.136675388f, 1.48843598f}});
  // MXNet's nag_mom_update with an output of its own: in place, it adds the decay of the new weight
  // to the momentum.
  cases.push_back({"Nag",
                   Maker<Nag>(NagOptions{Common(0.1), 0.9}),
                   OfElements([](int, double grad, double& w, double* s) {
                     const double descent = 0.1 * (G(grad) + kWd * w);
                     s[0] = 0.9 * s[0] - descent;
                     w += 0.9 * s[0] - descent;
                   }),
                   {0.0711643994f, -0.016699329f, -0.112475231f, 1.60876429f}});
  cases.push_back({"Signum",
                   Maker<Signum>(SignumOptions{Common(0.01), 0.9, 0.1}),
                   OfElements([](int, double grad, double& w, double* s) {
                     s[0] = 0.9 * s[0] - 0.1 * (G(grad) + kWd * w);
                     w = (1 - 0.01 * 0.1) * w + 0.01 * Sign(s[0]);
                   }),
                   {0.845754921f, -1.5860064f, 0.525355279f, 2.61865997f}});
  cases.push_back({"SignumWithoutMomentum",
                   Maker<Signum>(SignumOptions{Common(0.01), 0}),
                   OfElements([](int, double grad, double& w, double*) {
                     w = (1 - 0.01 * kWd) * w - 0.01 * Sign(grad);
                   }),
                   {0.870552301f, -1.86086285f, 0.395462811f, 3.0896368f}});
  cases.push_back({"Lars",
                   Maker<Lars>(LarsOptions{Common(0.5), 0.9, 0.1, 0.001}),
                   [](int, const std::vector<float>& grad, Reals* w, Reals* s) {
                     const double norm = Norm(*w);
                     const double of_grad = kRescale * Norm(Reals(grad.begin(), grad.end()));
                     const double lr = 0.5 * 0.1 * norm / (of_grad + kWd * norm + 0.001);
                     for (size_t i = 0; i < w->size(); ++i) {
                       double& mom = (*s)[3 * i];
                       mom = 0.9 * mom - lr * (G(static_cast<double>(grad[i])) + kWd * (*w)[i]);
                       (*w)[i] += mom;
                     }
                   },
                   {0.835412323f, 0.113253072f, -0.321102738f, 1.08503103f}});
  cases.push_back({"Adam",
                   Maker<Adam>(AdamOptions{Common(0.02)}),
                   OfElements([](int t, double grad, double& w, double* s) {
                     const double g = DecayedG(w, grad);
                     s[0] = 0.9 * s[0] + 0.1 * g;
                     s[1] = 0.999 * s[1] + 0.001 * g * g;
                     const double lr =
                         0.02 * std::sqrt(1 - std::pow(0.999, t)) / (1 - std::pow(0.9, t));
                     w -= lr * s[0] / (std::sqrt(s[1]) + 1e-8);
                   }),
                   {0.960566282f, -1.82861745f, 0.547451913f, 2.97844744f}});
  cases.push_back({"AdamW",
                   Maker<AdamW>(AdamWOptions{Common(0.02)}),
                   OfElements([](int t, double grad, double& w, double* s) {
                     const double g = G(grad);
                     s[0] = 0.9 * s[0] + 0.1 * g;
                     s[1] = 0.999 * s[1] + 0.001 * g * g;
                     const double c = std::sqrt(1 - std::pow(0.999, t)) / (1 - std::pow(0.9, t));
                     w -= 0.02 * (c * s[0] / (std::sqrt(s[1]) + 1e-8) + kWd * w);
                   }),
                   {0.959141195f, -1.82562673f, 0.546622336f, 2.97627354f}});
  cases.push_back({"Adamax",
                   Maker<Adamax>(AdamaxOptions{Common(0.02)}),
                   OfElements([](int t, double grad, double& w, double* s) {
                     const double g = DecayedG(w, grad);
                     s[0] = 0.9 * s[0] + 0.1 * g;
                     s[1] = std::max(0.999 * s[1], std::abs(g));
                     w -= 0.02 / (1 - std::pow(0.9, t)) * s[0] / s[1];
                   }),
                   {0.965333104f, -1.85964799f, 0.547778547f, 2.98547673f}});
  cases.push_back({"Lamb",
                   Maker<Lamb>(LambOptions{Common(0.02)}),
                   LambReference(0.02, 0, 1e30, true),
                   {0.609756708f, -1.22467065f, 0.35260126f, 2.7270267f}});
  cases.push_back(
      {"LambWithBounds",
       Maker<Lamb>(LambOptions{Common(0.02), 0.9, 0.999, 1e-6, 1, 2, /*bias_correction=*/false}),
       LambReference(0.02, 1, 2, false),
       {0.8865605f, -1.66525984f, 0.407825857f, 3.04258919f}});
  cases.push_back({"AdaGrad",
                   Maker<AdaGrad>(AdaGradOptions{Common(0.1)}),
                   OfElements([](int, double grad, double& w, double* s) {
                     s[0] += G(grad) * G(grad);
                     w -= 0.1 * (G(grad) / std::sqrt(s[0] + 1e-7) + kWd * w);
                   }),
                   {0.87697804f, -1.57600534f, 0.548991859f, 2.75886679f}});
  cases.push_back({"AdaDelta",
                   Maker<AdaDelta>(AdaDeltaOptions{Common(1)}),
                   OfElements([](int, double grad, double& w, double* s) {
                     s[0] = 0.9 * s[0] + 0.1 * G(grad) * G(grad);
                     const double delta = std::sqrt(s[1] + 1e-5) / std::sqrt(s[0] + 1e-5) * G(grad);
                     s[1] = 0.9 * s[1] + 0.1 * delta * delta;
                     w -= delta + kWd * w;
                   }),
                   {0.341070056f, -0.734701157f, 0.182156175f, 1.1257596f}});
  cases.push_back({"RmsProp",
                   Maker<RmsProp>(RmsPropOptions{Common(0.01)}),
                   OfElements([](int, double grad, double& w, double* s) {
                     const double g = DecayedG(w, grad);
                     s[0] = 0.9 * s[0] + 0.1 * g * g;
                     w -= 0.01 * g / std::sqrt(s[0] + 1e-8);
                   }),
                   {0.966941655f, -1.90821171f, 0.523889065f, 3.00043321f}});
  cases.push_back(
      {"RmsPropCentered",
       Maker<RmsProp>(RmsPropOptions{Common(0.01), 0.9, 0.9, 1e-8, /*centered=*/true, 2.5}),
       OfElements([](int, double grad, double& w, double* s) {
         const double g = DecayedG(w, grad);
         s[0] = 0.9 * s[0] + 0.1 * g * g;
         s[1] = 0.9 * s[1] + 0.1 * g;
         s[2] = 0.9 * s[2] - 0.01 * g / std::sqrt(s[0] - s[1] * s[1] + 1e-8);
         w = Clip(w + s[2], 2.5);
       }),
       {0.856563389f, -0.90892601f, 0.731907964f, 2.29772353f}});
  cases.push_back({"Ftrl",
                   Maker<Ftrl>(FtrlOptions{Common(0.1)}),
                   OfElements([](int, double grad, double& w, double* s) {
                     const double g = G(grad), before = s[1];
                     s[1] += g * g;
                     s[0] += g - (std::sqrt(s[1]) - std::sqrt(before)) * w / 0.1;
                     w = std::abs(s[0]) <= 0.01
                             ? 0
                             : (Sign(s[0]) * 0.01 - s[0]) / ((1 + std::sqrt(s[1])) / 0.1 + kWd);
                   }),
                   {0.416533619f, -0.146152288f, 0.261432886f, 1.35752606f}});
  cases.push_back({"Ftml",
                   Maker<Ftml>(FtmlOptions{Common(0.02)}),
                   OfElements([](int t, double grad, double& w, double* s) {
                     const double g = DecayedG(w, grad);
                     s[1] = 0.999 * s[1] + 0.001 * g * g;
                     const double d = (1 - std::pow(0.6, t)) / 0.02 *
                                      (std::sqrt(s[1] / (1 - std::pow(0.999, t))) + 1e-8);
                     s[2] = 0.6 * s[2] + 0.4 * g - (d - 0.6 * s[0]) * w;
                     s[0] = d;
                     w = -s[2] / d;
                   }),
                   {0.968825161f, -1.94409239f, 0.511681974f, 3.00494957f}});
  return cases;
}

class OptimizersTest : public testing::TestWithParam<Case> {};

TEST_P(OptimizersTest, StepsFollowTheReferenceAndMxnet) {
  const auto optimizer = GetParam().make();
  NDArray weight = Vector(kFirst);
  Reals expected(kFirst.begin(), kFirst.end()), states(12, 0);
  for (int t = 1; t <= kSteps; ++t) {
    const std::vector<float> grad = GradientOf(t);
    optimizer->Update(0, weight, Vector(grad));
    GetParam().reference(t, grad, &expected, &states);
    if (t % 10 != 0) continue;
    const Reals values = Read(weight);
    for (size_t i = 0; i < values.size(); ++i) EXPECT_NEAR(values[i], expected[i], 2e-5) << t;
  }
  const Reals values = Read(weight);
  for (size_t i = 0; i < values.size(); ++i) {
    EXPECT_NEAR(values[i], static_cast<double>(GetParam().mxnet[i]), 2e-5);
  }
}

TEST_P(OptimizersTest, WeightsInDoubleFollowTheReferenceClosely) {
  const auto optimizer = GetParam().make();
  NDArray weight = Vector(kFirst).AsType(DType::kFloat64);
  Reals expected(kFirst.begin(), kFirst.end()), states(12, 0);
  for (int t = 1; t <= kSteps; ++t) {
    const std::vector<float> grad = GradientOf(t);
    optimizer->Update(0, weight, Vector(grad).AsType(DType::kFloat64));
    GetParam().reference(t, grad, &expected, &states);
  }
  // Rates and decays are floats.
  const Reals values = Read(weight);
  for (size_t i = 0; i < values.size(); ++i) EXPECT_NEAR(values[i], expected[i], 2e-6);
}

/// Returns gradients that every 16-bit type has.
NDArray RoughGradient(int t) {
  std::vector<float> grad = GradientOf(t);
  for (float& g : grad) g = std::round(g * 32) / 32;
  return Vector(grad);
}

TEST_P(OptimizersTest, WeightsOf16BitsAreRoundedCopiesOfThoseInFloat) {
  const bool by_norms = GetParam().name.starts_with("La");  // of the weights themselves
  for (const DType dtype : {DType::kFloat16, DType::kBFloat16}) {
    const auto in_float = GetParam().make(), mixed = GetParam().make();
    NDArray weight = Vector(kFirst), rounded = weight.AsType(dtype);
    for (int t = 1; t <= 20; ++t) {
      in_float->Update(0, weight, RoughGradient(t));
      mixed->Update(0, rounded, RoughGradient(t).AsType(dtype));
    }
    if (by_norms) {
      const Reals values = Read(rounded), expected = Read(weight);
      for (size_t i = 0; i < values.size(); ++i) EXPECT_NEAR(values[i], expected[i], 0.05);
    } else {
      EXPECT_EQ(Read(rounded), Read(weight.AsType(dtype)));
    }
  }
}

TEST_P(OptimizersTest, ALoadedStateContinuesBitForBit) {
  const auto whole = GetParam().make(), first = GetParam().make(), second = GetParam().make();
  NDArray expected = Vector(kFirst), weight = Vector(kFirst);
  for (int t = 1; t <= 7; ++t) whole->Update(0, expected, Vector(GradientOf(t)));
  for (int t = 1; t <= 4; ++t) first->Update(0, weight, Vector(GradientOf(t)));
  const TrainingState state = first->SaveState();
  first->Update(0, Vector(kFirst), Vector(GradientOf(5)));  // does not change what was saved
  second->LoadState(state);
  EXPECT_EQ(second->num_update(), 4);
  for (int t = 5; t <= 7; ++t) second->Update(0, weight, Vector(GradientOf(t)));
  EXPECT_EQ(ReadAs<float>(weight), ReadAs<float>(expected));
  EXPECT_EQ(second->num_update(), 7);
}

TEST_P(OptimizersTest, SeveralWeightsAtOnceTakeTheSameSteps) {
  const auto one_by_one = GetParam().make(), together = GetParam().make();
  std::vector<NDArray> expected, weights;
  // The last one is large enough for an operation of its own.
  for (const index_t size : {4, 0, 700, 70000}) {
    std::vector<float> values;
    for (index_t i = 0; i < size; ++i) values.push_back(kFirst[static_cast<size_t>(i % 4)]);
    expected.push_back(NDArray::FromVector(values, {size}));
    weights.push_back(NDArray::FromVector(values, {size}));
  }
  for (int t = 1; t <= 3; ++t) {
    std::vector<ParameterUpdate> updates;
    for (size_t i = 0; i < weights.size(); ++i) {
      std::vector<float> values;
      for (index_t k = 0; k < weights[i].shape()[0]; ++k) {
        values.push_back(GradientOf(t + static_cast<int>(k % 5))[0]);
      }
      const NDArray grad = NDArray::FromVector(values, weights[i].shape());
      one_by_one->Update(static_cast<int>(i), expected[i], grad);
      updates.push_back({static_cast<int>(i), weights[i], grad});
    }
    together->UpdateAll(updates);
  }
  for (size_t i = 0; i < weights.size(); ++i) {
    EXPECT_EQ(ReadAs<float>(weights[i]), ReadAs<float>(expected[i])) << "weight " << i;
  }
}

INSTANTIATE_TEST_SUITE_P(All, OptimizersTest, testing::ValuesIn(Cases()),
                         [](const auto& info) { return info.param.name; });

TEST(OptimizersTest, AdamaxLeavesElementsWithoutGradients) {
  Adamax adamax({{.learning_rate = 0.5}});
  NDArray weight = Vector({1, 2});
  adamax.Update(0, weight, Vector({0, 1}));
  EXPECT_THAT(weight.ToVector(), testing::ElementsAre(1, 1.5f));
}

TEST(OptimizersTest, LarsAdaptsWeightsOnly) {
  Lars lars({{.learning_rate = 0.5}, 0, /*eta=*/0.25});
  lars.SetParameterNames({"fc_weight", "fc_bias"});
  NDArray weight = Vector({3, 4}), bias = Vector({3, 4});
  lars.Update(0, weight, Vector({2, 0}));  // the rate is 0.5 * 0.25 * 5 / 2
  lars.Update(1, bias, Vector({2, 0}));
  EXPECT_THAT(weight.ToVector(), testing::ElementsAre(3 - 0.625f, 4));
  EXPECT_THAT(bias.ToVector(), testing::ElementsAre(2, 4));
}

TEST(OptimizersTest, LarsScalesTheMomentumWithTheRate) {
  for (const bool corrects : {true, false}) {
    LarsOptions options{{.learning_rate = 1}, 0.5};
    options.lr_scheduler = std::make_shared<FactorScheduler>(1, 0.5);
    options.momentum_correction = corrects;
    Lars lars(options);
    lars.SetParameterNames({"bias"});  // not adapted
    NDArray bias = Vector({0});
    lars.Update(0, bias, Vector({-1}));  // mom = 1
    lars.Update(0, bias, Vector({0}));   // mom = 0.5 or, with the halved rate, 0.25
    EXPECT_THAT(bias.ToVector(), testing::ElementsAre(corrects ? 1.25f : 1.5f));
  }
}

TEST(OptimizersTest, ImpossibleNumbersAreRefused) {
  EXPECT_THROW(Nag({{}, 1}), Error);
  EXPECT_THROW(Signum({{}, -0.5}), Error);
  EXPECT_THROW(Lars({{}, 0.5, -1}), Error);
  EXPECT_THROW(Adam({{}, 1}), Error);
  EXPECT_THROW(AdamW({{}, 0.9, NAN}), Error);
  EXPECT_THROW(Adamax({{}, 0.9, 1}), Error);
  EXPECT_THROW(Lamb({{}, 0.9, 0.9, -1}), Error);
  EXPECT_THROW(AdaGrad({{}, -1}), Error);
  EXPECT_THROW(AdaDelta({{}, 1}), Error);
  EXPECT_THROW(RmsProp({{}, 1}), Error);
  EXPECT_THROW(Ftrl({{}, -1}), Error);
  EXPECT_THROW(Ftml({{}, 0.5, 1}), Error);
}

}  // namespace
}  // namespace tessera
