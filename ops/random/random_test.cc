// The operators of random numbers: distributions, and that numbers depend on the seed alone.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <tbb/global_control.h>
#include <tbb/task_arena.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <memory>
#include <numbers>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "tessera/base/error.h"
#include "tessera/ops/registry.h"
#include "tessera/ops/testing/test_device.h"

namespace tessera {
namespace {

using ops_testing::MakeCpuTestDevice;
using ops_testing::TestDevice;
using ops_testing::TestResource;
using ::testing::HasSubstr;

using Doubles = std::vector<double>;

/// Calls of an operator of float64 inputs, with the numbers of one sequence.
class RandomCall {
 public:
  RandomCall(const std::string& op, const ParameterMap& parameters,
             const std::vector<std::pair<TShape, Doubles>>& inputs = {})
      : property_(OperatorRegistry::Get().Create(op, parameters)) {
    for (const auto& [shape, values] : inputs) {
      in_shapes_.push_back(shape);
      in_.push_back(values);
    }
    out_shapes_.resize(property_->ListOutputs().size());
    EXPECT_TRUE(property_->InferShape(&in_shapes_, &out_shapes_));
    in_types_.assign(in_.size(), DType::kFloat64);
    out_types_.resize(out_shapes_.size(), DType::kUnknown);
    EXPECT_TRUE(property_->InferType(&in_types_, &out_types_));
    operator_ = property_->CreateOperator(Device::Cpu(), in_shapes_, in_types_);
    random_ = std::make_unique<TestResource>(device_.get(),
                                             ResourceRequest{ResourceRequest::Type::kRandom});
  }

  /// Returns the first output; all() has all of them.
  Doubles Draw() {
    TestResource space(device_.get(), {ResourceRequest::Type::kTempSpace});
    Resource* const resources[] = {random_.get(), &space};
    std::vector<TBlob> in, out;
    for (size_t i = 0; i < in_.size(); ++i) in.push_back(Blob(&in_[i], in_shapes_[i]));
    std::vector<std::vector<char>> bytes;
    for (size_t i = 0; i < out_shapes_.size(); ++i) {
      bytes.emplace_back(
          static_cast<size_t>(out_shapes_[i].Size() * DTypeSizeBytes(out_types_[i])));
      out.emplace_back(bytes.back().data(), out_shapes_[i], out_types_[i], Device::Cpu());
    }
    const std::vector<OpReqType> req(out.size(), kWriteTo);
    operator_->Forward({.requested = resources}, in, req, out);
    all_.clear();
    for (const TBlob& blob : out) {
      Doubles& values = all_.emplace_back();
      VisitDType(blob.type_flag_, [&](auto tag) {
        const auto* const elements = static_cast<const typename decltype(tag)::type*>(blob.dptr_);
        for (index_t i = 0; i < blob.Size(); ++i) {
          values.push_back(static_cast<double>(elements[i]));
        }
      });
    }
    return all_[0];
  }
  const std::vector<Doubles>& all() const { return all_; }
  const std::vector<TShape>& out_shapes() const { return out_shapes_; }
  const std::vector<DType>& out_types() const { return out_types_; }

 private:
  static TBlob Blob(Doubles* values, const TShape& shape) {
    return TBlob(values->data(), shape, DType::kFloat64, Device::Cpu());
  }

  const std::unique_ptr<TestDevice> device_ = MakeCpuTestDevice();
  const std::unique_ptr<OperatorProperty> property_;
  std::vector<TShape> in_shapes_, out_shapes_;
  std::vector<DType> in_types_, out_types_;
  std::vector<Doubles> in_, all_;
  std::unique_ptr<Operator> operator_;
  std::unique_ptr<TestResource> random_;
};

Doubles Draw(const std::string& op, const ParameterMap& parameters,
             const std::vector<std::pair<TShape, Doubles>>& inputs = {}) {
  return RandomCall(op, parameters, inputs).Draw();
}

double Mean(const Doubles& values) {
  double sum = 0;
  for (const double x : values) sum += x;
  return sum / static_cast<double>(values.size());
}

double Variance(const Doubles& values) {
  const double mean = Mean(values);
  double sum = 0;
  for (const double x : values) sum += (x - mean) * (x - mean);
  return sum / static_cast<double>(values.size());
}

/// Returns the distance of Kolmogorov and Smirnov from a continuous distribution, times sqrt(n).
/// With the right distribution, 1 of 1000 is above 1.95.
double Distance(Doubles values, const std::function<double(double)>& probability_below) {
  std::sort(values.begin(), values.end());
  const auto n = static_cast<double>(values.size());
  double distance = 0;
  for (size_t i = 0; i < values.size(); ++i) {
    const double p = probability_below(values[i]);
    const auto rank = static_cast<double>(i);
    distance = std::max({distance, p - rank / n, (rank + 1) / n - p});
  }
  return distance * std::sqrt(n);
}
constexpr double kMaxDistance = 1.95;

/// Returns the part of values that is at most x.
double FractionUpTo(const Doubles& values, double x) {
  const auto count = std::count_if(values.begin(), values.end(), [x](double v) { return v <= x; });
  return static_cast<double>(count) / static_cast<double>(values.size());
}

double UniformBelow(double x) { return std::clamp(x, 0.0, 1.0); }
double NormalBelow(double x) { return std::erfc(-x / std::numbers::sqrt2) / 2; }
double ExponentialBelow(double x) { return 1 - std::exp(-x); }
/// The gamma distribution of shape 3 and scale 1.
double Gamma3Below(double x) { return 1 - std::exp(-x) * (1 + x + x * x / 2); }
/// The gamma distribution of shape 1/2 and scale 1.
double GammaHalfBelow(double x) { return std::erf(std::sqrt(x)); }

constexpr index_t kSize = 40000;
const char* const kTypes[] = {"float32", "float64"};

TEST(RandomTest, NumbersHaveTheirDistribution) {
  for (const char* const dtype : kTypes) {
    SCOPED_TRACE(dtype);
    const ParameterMap base = {{"shape", "(200,200)"}, {"dtype", dtype}};
    const auto draw = [&](const std::string& op, const ParameterMap& parameters) {
      ParameterMap all = base;
      all.insert(parameters.begin(), parameters.end());
      return Draw(op, all);
    };
    EXPECT_LT(Distance(draw("_random_uniform", {}), UniformBelow), kMaxDistance);
    EXPECT_LT(Distance(draw("_random_uniform", {{"low", "-2"}, {"high", "6"}}),
                       [](double x) { return UniformBelow((x + 2) / 8); }),
              kMaxDistance);
    EXPECT_LT(Distance(draw("_random_normal", {}), NormalBelow), kMaxDistance);
    EXPECT_LT(Distance(draw("_random_normal", {{"loc", "3"}, {"scale", "0.5"}}),
                       [](double x) { return NormalBelow(2 * (x - 3)); }),
              kMaxDistance);
    EXPECT_LT(Distance(draw("_random_exponential", {}), ExponentialBelow), kMaxDistance);
    EXPECT_LT(Distance(draw("_random_exponential", {{"lam", "4"}}),
                       [](double x) { return ExponentialBelow(4 * x); }),
              kMaxDistance);
    EXPECT_LT(Distance(draw("_random_gamma", {{"alpha", "3"}, {"beta", "2"}}),
                       [](double x) { return Gamma3Below(x / 2); }),
              kMaxDistance);
    EXPECT_LT(Distance(draw("_random_gamma", {{"alpha", "0.5"}}), GammaHalfBelow), kMaxDistance);
  }
}

TEST(RandomTest, LikeFormsHaveTheirDistribution) {
  const std::vector<std::pair<TShape, Doubles>> like = {{{kSize}, Doubles(kSize)}};
  const auto draw = [&](const std::string& name, const ParameterMap& parameters) {
    return Draw("_random_" + name + "_like", parameters, like);
  };
  EXPECT_LT(Distance(draw("uniform", {}), UniformBelow), kMaxDistance);
  EXPECT_LT(Distance(draw("normal", {}), NormalBelow), kMaxDistance);
  EXPECT_LT(Distance(draw("exponential", {}), ExponentialBelow), kMaxDistance);
  EXPECT_LT(Distance(draw("gamma", {{"alpha", "3"}}), Gamma3Below), kMaxDistance);
}

/// Expects mean and variance to within five standard deviations; kurtosis is that of the
/// distribution, at most.
void ExpectMoments(const Doubles& values, double mean, double variance, double kurtosis) {
  const auto n = static_cast<double>(values.size());
  EXPECT_NEAR(Mean(values), mean, 5 * std::sqrt(variance / n));
  EXPECT_NEAR(Variance(values), variance, 5 * variance * std::sqrt((kurtosis - 1) / n));
}

TEST(RandomTest, CountsHaveTheirDistribution) {
  for (const char* const lam : {"0.5", "3", "40"}) {
    const double mean = std::stod(lam);
    const Doubles values = Draw("_random_poisson", {{"shape", "(40000,)"}, {"lam", lam}});
    ExpectMoments(values, mean, mean, 3 + 1 / mean);
    const double none = std::exp(-mean);
    EXPECT_NEAR(FractionUpTo(values, 0), none, 5 * std::sqrt(none / kSize));
  }
  // k failures of probability 1 - p: mean k (1 - p) / p, variance k (1 - p) / p^2.
  const Doubles binomial =
      Draw("_random_negative_binomial", {{"shape", "(40000,)"}, {"k", "3"}, {"p", "0.25"}});
  ExpectMoments(binomial, 9, 36, 6);
  EXPECT_NEAR(FractionUpTo(binomial, 0), 0.015625, 5 * std::sqrt(0.015625 / kSize));
  const Doubles general = Draw("_random_generalized_negative_binomial",
                               {{"shape", "(40000,)"}, {"mu", "4"}, {"alpha", "0.5"}});
  ExpectMoments(general, 4, 12, 8);
  ExpectMoments(Draw("_random_generalized_negative_binomial",
                     {{"shape", "(40000,)"}, {"mu", "4"}, {"alpha", "0"}}),
                4, 4, 4);
}

TEST(RandomTest, IntegersAreUniformInTheirRange) {
  for (const char* const dtype : {"None", "int32", "int64"}) {
    std::map<double, int> counts;
    for (const double x :
         Draw("_random_randint",
              {{"shape", "(40000,)"}, {"low", "-2"}, {"high", "3"}, {"dtype", dtype}})) {
      ++counts[x];
    }
    ASSERT_EQ(counts.size(), 5u) << dtype;
    EXPECT_EQ(counts.begin()->first, -2);
    for (const auto& [value, count] : counts) {
      EXPECT_NEAR(count, 8000, 5 * std::sqrt(8000 * 0.8)) << value;
    }
  }
  for (const double x : Draw("_random_randint", {{"shape", "(100,)"},
                                                 {"low", "9007199254740000"},
                                                 {"high", "9007199254740003"},
                                                 {"dtype", "int64"}})) {
    EXPECT_TRUE(x >= 9007199254740000 && x < 9007199254740003) << x;
  }
}

TEST(RandomTest, IntegersThatDoNotFitTheirTypeAreRefused) {
  const auto property = OperatorRegistry::Get().Create(
      "_random_randint", {{"low", "0"}, {"high", "4294967296"}, {"shape", "(3,)"}});
  std::vector<DType> in, out = {DType::kUnknown};
  try {
    property->InferType(&in, &out);
    ADD_FAILURE() << "accepted";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("_random_randint: low = 0, high = 4294967296"));
  }
  out = {DType::kInt64};
  EXPECT_TRUE(property->InferType(&in, &out));
}

/// Expects each element of the inputs to have numbers of its own distribution: those of element 0
/// divided by 1, of element 1 by 4.
TEST(RandomTest, SamplesHaveTheDistributionOfTheirElement) {
  struct Sampled {
    const char* name;
    std::vector<std::pair<TShape, Doubles>> inputs;
    std::function<double(int row, double x)> below;
  };
  const Sampled all[] = {
      {"uniform",
       {{{2}, {0, -1}}, {{2}, {1, 3}}},
       [](int row, double x) { return UniformBelow(row == 0 ? x : (x + 1) / 4); }},
      {"normal",
       {{{2}, {0, 5}}, {{2}, {1, 4}}},
       [](int row, double x) { return NormalBelow(row == 0 ? x : (x - 5) / 4); }},
      {"exponential",
       {{{2}, {1, 0.25}}},
       [](int row, double x) { return ExponentialBelow(row == 0 ? x : x / 4); }},
      {"gamma",
       {{{2}, {3, 0.5}}, {{2}, {1, 4}}},
       [](int row, double x) { return row == 0 ? Gamma3Below(x) : GammaHalfBelow(x / 4); }},
  };
  for (const Sampled& each : all) {
    for (const char* const dtype : {"None", "float64"}) {
      SCOPED_TRACE(std::string(each.name) + " " + dtype);
      const Doubles values = Draw(std::string("_sample_") + each.name,
                                  {{"shape", "(40000,)"}, {"dtype", dtype}}, each.inputs);
      ASSERT_EQ(values.size(), 2u * kSize);
      for (int row = 0; row < 2; ++row) {
        const Doubles own(values.begin() + row * kSize, values.begin() + (row + 1) * kSize);
        EXPECT_LT(Distance(own, [&](double x) { return each.below(row, x); }), kMaxDistance);
      }
    }
  }
}

TEST(RandomTest, SamplesOfManyElementsAreIndependent) {
  const Doubles ones(kSize, 1), threes(kSize, 3);
  const auto column = [](const Doubles& values) {
    return std::pair<TShape, Doubles>{{kSize}, values};
  };
  EXPECT_LT(
      Distance(Draw("_sample_normal", {}, {column(Doubles(kSize)), column(ones)}), NormalBelow),
      kMaxDistance);
  EXPECT_LT(Distance(Draw("_sample_gamma", {}, {column(threes), column(ones)}), Gamma3Below),
            kMaxDistance);
  ExpectMoments(Draw("_sample_poisson", {}, {column(threes)}), 3, 3, 4);
  ExpectMoments(
      Draw("_sample_negative_binomial", {}, {column(threes), column(Doubles(kSize, 0.25))}), 9, 36,
      6);
  ExpectMoments(Draw("_sample_generalized_negative_binomial", {},
                     {column(Doubles(kSize, 4)), column(Doubles(kSize, 0.5))}),
                4, 12, 8);
}

TEST(RandomTest, WrongElementsAreNamed) {
  const auto refusal = [](const std::string& op, const Doubles& a, const Doubles& b) {
    const auto n = static_cast<index_t>(a.size());
    std::vector<std::pair<TShape, Doubles>> inputs = {{{n}, a}};
    if (!b.empty()) inputs.push_back({{n}, b});
    try {
      Draw(op, {}, inputs);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Error::kInvalidArgument);
      return std::string(error.what());
    }
    return std::string("accepted");
  };
  EXPECT_THAT(refusal("_sample_normal", {0, 0, 0}, {1, 1, -2}),
              HasSubstr("element 2 of the inputs has mu = 0, sigma = -2"));
  EXPECT_THAT(refusal("_sample_uniform", {3}, {1}), HasSubstr("low = 3, high = 1"));
  EXPECT_THAT(refusal("_sample_gamma", {1, -1}, {1, 1}), HasSubstr("element 1"));
  EXPECT_THAT(refusal("_sample_exponential", {0}, {}), HasSubstr("lam = 0"));
  EXPECT_THAT(refusal("_sample_poisson", {NAN}, {}), HasSubstr("lam = nan"));
  EXPECT_THAT(refusal("_sample_multinomial", {0.5, -0.25, 1}, {}),
              HasSubstr("probability -0.25 of class 1 in row 0"));
  EXPECT_THAT(refusal("_sample_multinomial", {0, 0}, {}), HasSubstr("sum to 0"));
  EXPECT_THAT(refusal("_sample_multinomial", {0, NAN}, {}), HasSubstr("probability nan"));
}

TEST(RandomTest, ClassesAreDrawnWithTheirProbability) {
  const Doubles weights = {0.1, 0, 0.4, 0.5, 2, 1, 1, 0};
  RandomCall call("_sample_multinomial", {{"shape", "(200,100)"}, {"get_prob", "True"}},
                  {{{2, 4}, weights}});
  EXPECT_EQ(call.out_shapes(), (std::vector<TShape>{{2, 200, 100}, {2, 200, 100}}));
  EXPECT_EQ(call.out_types(), (std::vector<DType>{DType::kInt32, DType::kFloat64}));
  const Doubles index = call.Draw();
  constexpr int kDraws = 20000;
  for (size_t row = 0; row < 2; ++row) {
    std::vector<int> counts(4);
    for (size_t i = row * kDraws; i < (row + 1) * kDraws; ++i) {
      const auto c = static_cast<size_t>(index[i]);
      ++counts[c];
      ASSERT_EQ(call.all()[1][i], std::log(weights[row * 4 + c]));
    }
    for (size_t c = 0; c < 4; ++c) {
      const double p = weights[row * 4 + c] / (row == 0 ? 1 : 4);
      EXPECT_NEAR(counts[c], kDraws * p, 5 * std::sqrt(kDraws * p * (1 - p))) << row << ' ' << c;
    }
  }
}

TEST(RandomTest, ZipfianClassesAreDistinctAndHaveTheirProbability) {
  constexpr int kRows = 20000, kClasses = 5, kEach = 3;
  RandomCall call("_sample_unique_zipfian", {{"range_max", "5"}, {"shape", "(20000,3)"}});
  const Doubles drawn = call.Draw();
  std::vector<int> first(kClasses);
  for (size_t row = 0; row < kRows; ++row) {
    const std::set<double> classes(drawn.begin() + static_cast<int>(row) * kEach,
                                   drawn.begin() + static_cast<int>(row + 1) * kEach);
    ASSERT_EQ(classes.size(), size_t{kEach}) << row;
    ASSERT_TRUE(*classes.begin() >= 0 && *classes.rbegin() < kClasses) << row;
    ASSERT_GE(call.all()[1][row], kEach);
    ++first[static_cast<size_t>(drawn[row * kEach])];
  }
  for (size_t c = 0; c < kClasses; ++c) {
    const auto x = static_cast<double>(c);
    const double p = std::log((x + 2) / (x + 1)) / std::log(kClasses + 1.0);
    EXPECT_NEAR(first[c], kRows * p, 5 * std::sqrt(kRows * p * (1 - p))) << c;
  }
}

TEST(RandomTest, ZipfianDrawsCountThoseOfClassesThatTheRowHas) {
  // After a first class of probability p, 1 / (1 - p) draws give another one, on average.
  RandomCall call("_sample_unique_zipfian", {{"range_max", "2"}, {"shape", "(40000,2)"}});
  call.Draw();
  const double p = std::log(2.0) / std::log(3.0);
  const double mean = 1 + p / (1 - p) + (1 - p) / p;
  EXPECT_NEAR(Mean(call.all()[1]), mean, 5 * std::sqrt(Variance(call.all()[1]) / kSize));
}

TEST(RandomTest, DensitiesAtTheEndsOfTheirSupportAreTheLimits) {
  const auto density = [](const std::string& name, const Doubles& sample,
                          const std::vector<Doubles>& parameters) {
    const auto n = static_cast<index_t>(sample.size());
    std::vector<std::pair<TShape, Doubles>> inputs = {{{n}, sample}};
    for (const Doubles& each : parameters) inputs.push_back({{n}, each});
    return Draw("_random_pdf_" + name, {}, inputs)[0];
  };
  EXPECT_DOUBLE_EQ(density("gamma", {0}, {{1}, {2}}), 2);
  EXPECT_DOUBLE_EQ(density("poisson", {0}, {{0}}), 1);
  EXPECT_DOUBLE_EQ(density("negative_binomial", {0}, {{3}, {1}}), 1);
  EXPECT_DOUBLE_EQ(density("generalized_negative_binomial", {0}, {{0}, {2}}), 1);
  EXPECT_DOUBLE_EQ(density("dirichlet", {0, 1}, {{1, 2}}), 2);
}

TEST(RandomTest, EveryOrderOfRowsIsEquallyLikely) {
  RandomCall call("_shuffle", {}, {{{4, 2}, {0, 0.5, 1, 1.5, 2, 2.5, 3, 3.5}}});
  std::map<Doubles, int> counts;
  constexpr int kCalls = 4800;
  for (int i = 0; i < kCalls; ++i) {
    const Doubles rows = call.Draw();
    for (size_t row = 0; row < 4; ++row) ASSERT_EQ(rows[2 * row + 1], rows[2 * row] + 0.5);
    ++counts[rows];
  }
  ASSERT_EQ(counts.size(), 24u);
  for (const auto& [order, count] : counts) EXPECT_NEAR(count, 200, 5 * std::sqrt(200.0));
}

TEST(RandomTest, OneSeedGivesOneResultOnAnyNumberOfThreadsAndEachCallAnother) {
  const Doubles ones(3000, 1), halves(3000, 0.5);
  const std::pair<TShape, Doubles> a = {{3000}, ones}, b = {{3000}, halves};
  const std::pair<TShape, Doubles> like = {{100000}, Doubles(100000)};
  Doubles ramp(100000);
  for (size_t i = 0; i < ramp.size(); ++i) ramp[i] = static_cast<double>(i);
  struct Call {
    std::string op;
    ParameterMap parameters;
    std::vector<std::pair<TShape, Doubles>> inputs;
  };
  std::vector<Call> calls = {
      {"_random_randint", {{"low", "0"}, {"high", "1000"}, {"shape", "(100000,)"}}, {}},
      {"_sample_uniform", {{"shape", "(40,)"}}, {b, a}},
      {"_sample_normal", {{"shape", "(40,)"}}, {b, a}},
      {"_sample_exponential", {{"shape", "(40,)"}}, {a}},
      {"_sample_gamma", {{"shape", "(40,)"}}, {a, b}},
      {"_sample_poisson", {{"shape", "(40,)"}}, {a}},
      {"_sample_negative_binomial", {{"shape", "(40,)"}}, {a, b}},
      {"_sample_generalized_negative_binomial", {{"shape", "(40,)"}}, {a, b}},
      {"_sample_multinomial", {{"shape", "(30,)"}}, {{{1000, 3}, ones}}},
      {"_sample_unique_zipfian", {{"range_max", "500"}, {"shape", "(500,50)"}}, {}},
      {"_shuffle", {}, {{{100000}, ramp}}},
  };
  for (const char* const name :
       {"uniform", "normal", "gamma", "exponential", "poisson", "generalized_negative_binomial"}) {
    calls.push_back({std::string("_random_") + name, {{"shape", "(100000,)"}}, {}});
    calls.push_back({std::string("_random_") + name + "_like", {}, {like}});
  }
  for (const auto& [op, parameters, inputs] : calls) {
    SCOPED_TRACE(op);
    const auto run = [&, &op = op, &parameters = parameters, &inputs = inputs](int threads) {
      tbb::global_control allow(tbb::global_control::max_allowed_parallelism, 8);
      tbb::task_arena arena(threads);
      RandomCall call(op, parameters, inputs);
      std::vector<Doubles> drawn;
      arena.execute([&] { drawn = {call.Draw(), call.Draw()}; });
      return drawn;
    };
    const std::vector<Doubles> expected = run(1);
    EXPECT_NE(expected[0], expected[1]);
    EXPECT_EQ(run(2), expected);
    EXPECT_EQ(run(8), expected);
  }
}

}  // namespace
}  // namespace tessera
