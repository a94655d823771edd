#include "tessera/ops/testing/stated_values.h"

#include <cmath>
#include <limits>

namespace tessera::ops_testing {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNotANumber = std::numeric_limits<double>::quiet_NaN();

}  // namespace

const std::vector<Stated>& StatedValues() {
  using Data = std::vector<double>;
  const auto vector = [](const Data& data) {
    return std::pair(TShape({static_cast<index_t>(data.size())}), data);
  };
  const auto row = [](const Data& data) {
    return std::pair(TShape({1, static_cast<index_t>(data.size())}), data);
  };
  static const auto* const stated = new std::vector<Stated>{
      // x^y at x = 0: the gradient of y is 0 for y >= 0, that of x is 0 for y = 0.
      {"_power",
       {},
       {vector({0, 0, 0, 0, -2}), vector({2, 1, 0.5, 0, 2})},
       {0, 0, 0, 1, 4},
       {{0, 1, kInf, 0, -4}, {0, 0, 0, 0, kNotANumber}}},
      {"broadcast_power",
       {},
       {row({0, 0, 0, 2}), vector({3, 1, 0, 0})},
       {0, 0, 1, 1},
       {{0, 1, 0, 0}, {0, 0, 0, std::log(2.0)}}},
      {"_power_scalar", {{"scalar", "0"}}, {vector({0, 2, -3})}, {1, 1, 1}, {{0, 0, 0}}, {0, 0, 0}},
      {"_power_scalar", {{"scalar", "1"}}, {vector({0, 2})}, {0, 2}, {{1, 1}}, {0, 0}},
      {"_power_scalar", {{"scalar", "2"}}, {vector({0, -3})}, {0, 9}, {{0, -6}}, {2, 2}},
      {"_power_scalar", {{"scalar", "0.5"}}, {vector({0, 4})}, {0, 2}, {{kInf, 0.25}}},
      {"_power_scalar", {{"scalar", "-1"}}, {vector({2})}, {0.5}, {{-0.25}}, {0.25}},
      {"_rpower_scalar", {{"scalar", "0"}}, {vector({0, 2})}, {1, 0}, {{0, 0}}},
      {"_rpower_scalar", {{"scalar", "1"}}, {vector({0, 2})}, {1, 1}, {{0, 0}}, {0, 0}},
      // Lengths: 0 at the origin, right where squares overflow or underflow.
      {"_hypot",
       {},
       {vector({0, 3, 3e30, 3e-30, 0}), vector({0, 4, 4e30, 4e-30, 2})},
       {0, 5, 5e30, 5e-30, 2},
       {{0, 0.6, 0.6, 0.6, 0}, {0, 0.8, 0.8, 0.8, 1}}},
      {"broadcast_hypot", {}, {row({0, 3e30}), row({0, 4e30})}, {0, 5e30}, {{0, 0.6}, {0, 0.8}}},
      {"_hypot_scalar", {{"scalar", "0"}}, {vector({0, -2})}, {0, 2}, {{0, -1}}},
      {"norm", {}, {vector({0, 0, 0})}, {0}, {{0, 0, 0}}},
      {"norm", {{"ord", "1"}}, {vector({0, -2, 0})}, {2}, {{0, -1, 0}}},
      {"norm", {}, {vector({3, 4})}, {5}, {{0.6, 0.8}}, {0.032, -0.024}},
      {"norm", {}, {vector({3e30, 4e30})}, {5e30}, {{0.6, 0.8}}},
      {"norm", {}, {vector({3e-30, 4e-30})}, {5e-30}, {{0.6, 0.8}}},
      {"L2Normalization", {}, {row({3e30, 4e30})}, {0.6, 0.8}, {{3.2e-32, -2.4e-32}}},
      {"L2Normalization", {}, {row({0, 0})}, {0, 0}, {{1e5, 1e5}}},
      {"L2Normalization",
       {{"mode", "channel"}},
       {{TShape({1, 2, 1}), {3e30, 4e30}}},
       {0.6, 0.8},
       {{3.2e-32, -2.4e-32}}},
      {"L2Normalization",
       {{"mode", "spatial"}},
       {{TShape({1, 1, 2}), {3e30, 4e30}}},
       {0.6, 0.8},
       {{3.2e-32, -2.4e-32}}},
      // Deviations from a mean, divided by their root mean square.
      {"LayerNorm", {}, {row({3e30, 5e30}), vector({1, 1}), vector({0, 0})}, {-1, 1}},
      {"LayerNorm",
       {},
       {row({2, 2}), vector({1, 1}), vector({0, 3})},
       {0, 3},
       {{0, 0}, {0, 0}, {1, 1}}},
      {"InstanceNorm", {}, {{TShape({1, 1, 2}), {3e30, 5e30}}, vector({1}), vector({0})}, {-1, 1}},
      {"GroupNorm",
       {{"num_groups", "1"}},
       {{TShape({1, 1, 2}), {3e30, 5e30}}, vector({1}), vector({0})},
       {-1, 1}},
      {"BatchNorm",
       {{"fix_gamma", "False"}},
       {{TShape({2, 1}), {3e30, 5e30}}, vector({1}), vector({0}), vector({0}), vector({1})},
       {-1, 1}},
      {"LRN",
       {{"nsize", "1"}, {"alpha", "1"}, {"beta", "0.5"}},
       {{TShape({1, 1, 1, 2}), {3e30, -4e30}}},
       {1, -1}},
      // Rows with infinities: exp(-inf) is 0, and a row of -inf alone has no distribution.
      {"softmax", {}, {row({-kInf, 0})}, {0, 1}, {{0, 0}}},
      {"softmax", {}, {row({5, 5})}, {0.5, 0.5}, {{0, 0}}},
      {"softmax", {}, {row({3e38, -3e38})}, {1, 0}, {{0, 0}}},
      {"softmax", {}, {row({-kInf, -kInf})}, {kNotANumber, kNotANumber}},
      {"softmin", {}, {row({kInf, 0})}, {0, 1}, {{0, 0}}},
      {"log_softmax", {}, {row({-kInf, 0})}, {-kInf, 0}, {{1, -1}}},
      {"log_softmax", {}, {row({3e30, 0})}, {0, -3e30}, {{-1, 1}}},
      {"log_softmax", {}, {row({-kInf, -kInf})}, {kNotANumber, kNotANumber}},
      {"SoftmaxActivation", {}, {row({-kInf, 0})}, {0, 1}, {{0, 0}}},
      // Products with zeros.
      {"prod", {}, {vector({2, 0, 3})}, {0}, {{0, 6, 0}}, {3, 5, 2}},
      {"prod", {}, {vector({0, 0, 3})}, {0}, {{0, 0, 0}}, {3, 3, 0}},
      {"nanprod", {}, {vector({2, 0, 3})}, {0}, {{0, 6, 0}}},
      // Roots and inverses at the ends of their domain.
      {"sqrt", {}, {vector({0, 4, kInf})}, {0, 2, kInf}, {{kInf, 0.25, 0}}},
      {"cbrt", {}, {vector({0, 8})}, {0, 2}, {{kInf, 1.0 / 12}}},
      {"rsqrt", {}, {vector({kInf, 4})}, {0, 0.5}, {{0, -0.0625}}},
      {"rcbrt", {}, {vector({8, 8e-30})}, {0.5, 5e9}, {{-1.0 / 48, -6.25e38 / 3}}},
      {"reciprocal", {}, {vector({kInf, -kInf, 2})}, {0, 0, 0.5}, {{0, 0, -0.25}}},
      {"log", {}, {vector({0, 1})}, {-kInf, 0}, {{kInf, 1}}},
      {"log1p", {}, {vector({-1, 0})}, {-kInf, 0}, {{kInf, 1}}},
      {"arcsin", {}, {vector({1, 0})}, {M_PI_2, 0}, {{kInf, 1}}},
      {"arccos", {}, {vector({1, 0})}, {0, M_PI_2}, {{-kInf, -1}}},
      {"abs", {}, {vector({0, -2})}, {0, 2}, {{0, -1}}, {0, 0}},
      // Functions that level off or grow.
      {"exp", {}, {vector({-kInf, 0})}, {0, 1}, {{0, 1}}},
      {"expm1", {}, {vector({-kInf, 0})}, {-1, 0}, {{0, 1}}},
      {"sigmoid", {}, {vector({-kInf, 0, kInf})}, {0, 0.5, 1}, {{0, 0.25, 0}}},
      {"tanh", {}, {vector({-kInf, 0, kInf})}, {-1, 0, 1}, {{0, 1, 0}}},
      {"arctan", {}, {vector({kInf, 0})}, {M_PI_2, 0}, {{0, 1}}},
      {"erf", {}, {vector({-kInf, 0, kInf})}, {-1, 0, 1}, {{0, M_2_SQRTPI, 0}}},
      {"arcsinh",
       {},
       {vector({3e30, -3e30})},
       {std::asinh(3e30), -std::asinh(3e30)},
       {{1 / 3e30, 1 / 3e30}}},
      {"arccosh", {}, {vector({3e30})}, {std::acosh(3e30)}, {{1 / 3e30}}},
      {"softsign", {}, {vector({3e38, -3e38})}, {1, -1}, {{1 / 9e76, 1 / 9e76}}},
      {"relu", {}, {vector({-kInf, 0, kInf})}, {0, 0, kInf}, {{0, 0, 1}}},
      {"Activation",
       {{"act_type", "softrelu"}},
       {vector({-kInf, 0, 3e30})},
       {0, std::log(2.0), 3e30},
       {{0, 0.5, 1}}},
      {"LeakyReLU",
       {{"act_type", "elu"}, {"slope", "0.25"}},
       {vector({-kInf, 2})},
       {-0.25, 2},
       {{0, 1}}},
      {"LeakyReLU",
       {{"act_type", "gelu"}},
       {vector({-kInf, 0, kInf})},
       {0, 0, kInf},
       {{0, 0.5, 1}}},
      {"smooth_l1", {{"scalar", "0"}}, {vector({2, -3, 0, 3e30})}, {0, 0, 0, 0}, {{0, 0, 0, 0}}},
      // The square of a divisor underflows.
      {"elemwise_div", {}, {vector({1e-30}), vector({1e-25})}, {1e-5}, {{1e25}, {-1e20}}},
      {"elemwise_div", {}, {vector({3e30}), vector({1e30})}, {3}, {{1e-30}, {-3e-30}}},
      {"_rdiv_scalar", {{"scalar", "1e-30"}}, {vector({1e-25})}, {1e-5}, {{-1e20}}},
      // A choice does not read what it leaves out.
      {"where",
       {},
       {vector({1, 0}), vector({2, kNotANumber}), vector({kNotANumber, 3})},
       {2, 3},
       {{}, {1, 0}, {0, 1}}},
      {"_linalg_gemm",
       {{"beta", "0"}},
       {{TShape({1, 1}), {2}}, {TShape({1, 1}), {3}}, {TShape({1, 1}), {kNotANumber}}},
       {6},
       {{3}, {2}, {0}}},
  };
  return *stated;
}

}  // namespace tessera::ops_testing
