#include <cmath>
#include <numbers>
#include <string>
#include <vector>

#include "tessera/ops/testing/operator_row.h"

namespace tessera::ops_testing {
namespace {

/// Returns a shape with another last extent.
TShape Resized(TShape shape, index_t last) {
  shape[shape.ndim() - 1] = last;
  return shape;
}

/// Sums of d^2 terms for each row of d numbers, or of d pairs.
Values Fourier(const Values& in, bool inverse) {
  const index_t last = in.shape[in.shape.ndim() - 1], d = inverse ? last / 2 : last;
  Values out(Resized(in.shape, inverse ? d : 2 * d));
  const index_t rows = d == 0 ? 0 : in.size() / last;
  for (index_t row = 0; row < rows; ++row) {
    for (index_t k = 0; k < d; ++k) {
      for (index_t n = 0; n < d; ++n) {
        const double angle = 2 * std::numbers::pi * static_cast<double>(k * n % d) / double(d);
        const double c = std::cos(angle), s = std::sin(angle);
        if (inverse) {
          const index_t pair = 2 * (row * d + k);
          out[row * d + n] += in[pair] * c - in[pair + 1] * s;
        } else {
          out[2 * (row * d + k)] += in[row * d + n] * c;
          out[2 * (row * d + k) + 1] -= in[row * d + n] * s;
        }
      }
    }
  }
  return out;
}

OperatorRow Row(bool inverse) {
  OperatorRow row;
  row.name = inverse ? "_contrib_ifft" : "_contrib_fft";
  row.shapes_follow_from_output = true;
  row.forward = [inverse](const ParameterMap&, const std::vector<Values>& in,
                          std::vector<Values>*) {
    return std::vector<Values>{Fourier(in[0], inverse)};
  };
  row.backward = [inverse](const ParameterMap&, const std::vector<Values>& out_grad,
                           const std::vector<Values>&, const std::vector<Values>&) {
    return std::vector<Values>{Fourier(out_grad[0], !inverse)};
  };
  const auto add = [&](const std::string& name, const TShape& shape) -> OperatorCase& {
    const index_t last = shape[shape.ndim() - 1];
    row.cases.push_back({.name = name, .inputs = {Resized(shape, inverse ? 2 * last : last)}});
    return row.cases.back();
  };
  // Powers of 2, products and primes.
  for (const index_t length : {1, 2, 3, 4, 5, 6, 7, 8, 12, 16, 17, 31, 33, 60, 64, 97}) {
    add("of_" + std::to_string(length), {2, length});
  }
  add("one_row", {9});
  add("images", {2, 3, 2, 8}).parameters = {{"compute_size", "2"}};
  add("no_numbers", {3, 0});
  add("no_rows", {0, 5});
  for (const index_t length : {32, 45}) {
    OperatorCase& parallel = add("parallel_of_" + std::to_string(length), {150, length});
    parallel.dtypes = {DType::kFloat32};
    parallel.large = true;
  }
  row.errors = {{.name = "scalar", .inputs = {TShape::OfRank(0)}, .words = {"data", "scalar"}}};
  if (inverse) {
    row.errors.push_back({.name = "odd", .inputs = {{2, 7}}, .words = {"data", "(2,7)", "pairs"}});
  } else {
    row.errors.push_back(
        {.name = "too_long", .inputs = {{index_t{1} << 62}}, .words = {"data", "63 bits"}});
  }
  row.forward_tolerance = {
      .float64 = 3e-14, .float32 = 1e-6, .float16 = 1.5e-3, .bfloat16 = 1.2e-2, .of_largest = true};
  row.backward_tolerance = row.forward_tolerance;
  return row;
}

const RowRegistration kForward(Row(/*inverse=*/false)), kInverse(Row(/*inverse=*/true));

}  // namespace
}  // namespace tessera::ops_testing
