#include <algorithm>
#include <cmath>

#include "tessera/ops/elemwise/binary_row.h"

namespace tessera::ops_testing {
namespace {

double One(double, double) { return 1; }
double MinusOne(double, double) { return -1; }
double Zero(double, double) { return 0; }
double Plus(double a, double b) { return a + b; }
double Minus(double a, double b) { return a - b; }
double Over(double a, double b) { return a / b; }
double OverRight(double a, double b) { return -a / (b * b); }
/// The gradients of powers at zeros are those of PyTorch, and those of hypot subgradients.
double PowerLeft(double a, double b) { return b == 0 ? 0 : b * std::pow(a, b - 1); }
double PowerRight(double a, double b) {
  return a == 0 && b >= 0 ? 0 : std::pow(a, b) * std::log(a);
}
double HypotLeft(double a, double b) { return a == 0 && b == 0 ? 0 : a / std::hypot(a, b); }
/// The exact remainder with the sign of b.
double Remainder(double a, double b) {
  const double rest = std::fmod(a, b);
  return rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
}
double Left(double a, double) { return a; }
double Right(double, double b) { return b; }

const BinaryRows kRows[] = {
    BinaryRows({"elemwise_add", "broadcast_add", "_plus_scalar", "", &Plus, &One, &One}),
    BinaryRows({"elemwise_sub", "broadcast_sub", "_minus_scalar", "_rminus_scalar", &Minus, &One,
                &MinusOne}),
    BinaryRows({"elemwise_mul", "broadcast_mul", "_mul_scalar", "",
                [](double a, double b) { return a * b; }, &Right, &Left}),
    BinaryRows({"elemwise_div", "broadcast_div", "_div_scalar", "_rdiv_scalar", &Over,
                [](double, double b) { return 1 / b; }, &OverRight}),
    BinaryRows({"_grad_add", "", "_scatter_plus_scalar", "", &Plus, &One, &One}),
    BinaryRows({"", "", "_scatter_minus_scalar", "", &Minus, &One, &MinusOne}),
    BinaryRows({"_scatter_elemwise_div", "", "", "", &Over, [](double, double b) { return 1 / b; },
                &OverRight, Fill(), Fill::Uniform(0.5, 2),
                /*is_smooth=*/true, /*special_left=*/{1e-30, 1e30},
                /*special_right=*/{1e-25, 1e30}}),
    BinaryRows({"", "", "_contrib_gradientmultiplier", "", &Left, &Right, &Zero, Fill(), Fill(),
                /*is_smooth=*/false}),
    // Away from the steps, and exact in every type.
    BinaryRows({"_mod", "broadcast_mod", "_mod_scalar", "_rmod_scalar", &Remainder, &One,
                [](double a, double b) { return -std::floor(a / b); },
                Fill::Given({-2.875, 3.125, 0.375, -0.125, 4.625}), Fill::Given({1.5, 0.75, 2.5})}),
    BinaryRows({"_power", "broadcast_power", "_power_scalar", "_rpower_scalar",
                [](double a, double b) { return std::pow(a, b); }, &PowerLeft, &PowerRight,
                Fill::Uniform(0.5, 2), Fill::Uniform(0.5, 2), /*is_smooth=*/true,
                /*special_left=*/{0, 0, 0, 0, 0, 2, -2, -0.0},
                /*special_right=*/{0, 0.5, 1, 2, -1, 0, 0, 3}}),
    BinaryRows({"_hypot", "broadcast_hypot", "_hypot_scalar", "",
                [](double a, double b) { return std::hypot(a, b); }, &HypotLeft,
                [](double a, double b) { return HypotLeft(b, a); }, Fill(), Fill::Uniform(0.5, 2),
                /*is_smooth=*/true, /*special_left=*/{0, 0, 3, -0.0, 1e-25, 3e4},
                /*special_right=*/{0, 2, 0, -1, 1e-25, -4e4}}),
    BinaryRows({"_maximum", "broadcast_maximum", "_maximum_scalar", "",
                [](double a, double b) { return std::max(a, b); },
                [](double a, double b) { return a >= b ? 1.0 : 0.0; },
                [](double a, double b) { return a >= b ? 0.0 : 1.0; },
                Fill::Given({0.25, -1.5, 3, 0.75}), Fill::Given({0.5, 2, -1.75})}),
    BinaryRows({"_minimum", "broadcast_minimum", "_minimum_scalar", "",
                [](double a, double b) { return std::min(a, b); },
                [](double a, double b) { return a <= b ? 1.0 : 0.0; },
                [](double a, double b) { return a <= b ? 0.0 : 1.0; },
                Fill::Given({0.25, -1.5, 3, 0.75}), Fill::Given({0.5, 2, -1.75})}),
};

}  // namespace
}  // namespace tessera::ops_testing
