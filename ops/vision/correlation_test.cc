#include <cmath>
#include <string>
#include <vector>

#include "tessera/ops/testing/operator_row.h"

namespace tessera::ops_testing {
namespace {

/// The pairs of elements that a correlation compares.
struct Pairs {
  Pairs(const ParameterMap& parameters, const TShape& data) : in(data), out(data) {
    const ParameterReader p(parameters);
    kernel = p.Int("kernel_size", 1);
    shift = p.Int("max_displacement", 1);
    stride1 = p.Int("stride1", 1);
    stride2 = p.Int("stride2", 1);
    pad = p.Int("pad_size", 0);
    multiply = p.Bool("is_multiply", true);
    radius = shift / stride2;
    out[1] = (2 * radius + 1) * (2 * radius + 1);
    for (const int d : {2, 3}) {
      out[d] = 0;
      // A position's patch and its displaced ones lie inside of the padded image.
      for (index_t first = shift; first + kernel + shift <= in[d] + 2 * pad; first += stride1) {
        ++out[d];
      }
    }
  }

  /// Calls visit(i_out, i_data1, i_data2), with -1 for an element outside.
  template <typename Visit>
  void ForEach(const Visit& visit) const {
    const index_t side = 2 * radius + 1;
    for (index_t o = 0; o < out.Size(); ++o) {
      const index_t x = o % out[3], y = o / out[3] % out[2], k = o / (out[3] * out[2]) % out[1];
      const index_t n = o / (out[1] * out[2] * out[3]);
      const index_t dx = (k % side - radius) * stride2, dy = (k / side - radius) * stride2;
      for (index_t t = 0; t < in[1] * kernel * kernel; ++t) {
        const index_t plane = n * in[1] + t / (kernel * kernel);
        const index_t row = y * stride1 + shift - pad + t / kernel % kernel;
        const index_t column = x * stride1 + shift - pad + t % kernel;
        visit(o, At(plane, row, column), At(plane, row + dy, column + dx));
      }
    }
  }
  index_t At(index_t plane, index_t row, index_t column) const {
    const bool inside = row >= 0 && row < in[2] && column >= 0 && column < in[3];
    return inside ? (plane * in[2] + row) * in[3] + column : -1;
  }
  double Size() const { return static_cast<double>(kernel * kernel * in[1]); }

  TShape in, out;
  index_t kernel, shift, stride1, stride2, pad, radius;
  bool multiply;
};

std::vector<Values> Forward(const ParameterMap& parameters, const std::vector<Values>& in,
                            std::vector<Values>*) {
  const Pairs pairs(parameters, in[0].shape);
  Values out(pairs.out);
  pairs.ForEach([&](index_t o, index_t i, index_t j) {
    const double a = i < 0 ? 0 : in[0][i], b = j < 0 ? 0 : in[1][j];
    out[o] += (pairs.multiply ? a * b : std::abs(a - b)) / pairs.Size();
  });
  return {out};
}

std::vector<Values> Backward(const ParameterMap& parameters, const std::vector<Values>& out_grad,
                             const std::vector<Values>& in, const std::vector<Values>&) {
  const Pairs pairs(parameters, in[0].shape);
  std::vector<Values> grad = {Values(in[0].shape), Values(in[1].shape)};
  pairs.ForEach([&](index_t o, index_t i, index_t j) {
    const double a = i < 0 ? 0 : in[0][i], b = j < 0 ? 0 : in[1][j];
    const double g = out_grad[0][o] / pairs.Size(), sign = a >= b ? 1 : -1;
    if (i >= 0) grad[0][i] += g * (pairs.multiply ? b : sign);
    if (j >= 0) grad[1][j] += g * (pairs.multiply ? a : -sign);
  });
  return grad;
}

OperatorRow Row() {
  OperatorRow row;
  row.name = "Correlation";
  row.forward = Forward;
  row.backward = Backward;
  const auto add = [&row](const std::string& name, ParameterMap parameters, const TShape& data) {
    for (const bool multiply : {true, false}) {
      parameters["is_multiply"] = multiply ? "True" : "False";
      // Equal elements of 16-bit types would have no derivative, but the gradient is defined.
      row.cases.push_back({.name = name + (multiply ? "" : "_of_differences"),
                           .parameters = parameters,
                           .inputs = {data, data}});
    }
  };
  add("small", {}, {2, 3, 5, 6});
  add("no_displacement", {{"max_displacement", "0"}}, {1, 2, 4, 3});
  add("padded", {{"max_displacement", "2"}, {"pad_size", "2"}}, {1, 2, 3, 4});
  add("kernel",
      {{"kernel_size", "3"}, {"max_displacement", "2"}, {"stride2", "2"}, {"pad_size", "3"}},
      {1, 2, 4, 5});
  add("strides", {{"kernel_size", "3"}, {"stride1", "2"}, {"pad_size", "1"}}, {2, 1, 6, 7});
  add("far_padded", {{"max_displacement", "4"}, {"stride2", "3"}, {"pad_size", "7"}}, {1, 1, 2, 1});
  add("no_samples", {}, {0, 2, 4, 4});
  for (const char* const multiply : {"True", "False"}) {
    row.cases.push_back(
        {.name = std::string("parallel_") + multiply,
         .parameters = {{"max_displacement", "2"}, {"pad_size", "2"}, {"is_multiply", multiply}},
         .inputs = {{2, 4, 20, 35}, {2, 4, 20, 35}},
         .dtypes = {DType::kFloat32},
         .large = true});
  }
  row.errors = {
      {.name = "even_kernel",
       .parameters = {{"kernel_size", "2"}},
       .words = {"kernel_size", "odd"}},
      {.name = "stride_0", .parameters = {{"stride1", "0"}}, .words = {"stride1"}},
      {.name = "displacement_stride_0", .parameters = {{"stride2", "0"}}, .words = {"stride2"}},
      {.name = "small_image",
       .parameters = {{"kernel_size", "3"}},
       .inputs = {{1, 2, 4, 4}, {1, 2, 4, 4}},
       .words = {"(1,2,4,4)", "small"}},
      {.name = "other_shape",
       .inputs = {{1, 2, 8, 8}, {1, 2, 8, 9}},
       .words = {"data2", "(1,2,8,9)"}},
      {.name = "three_axes", .inputs = {{2, 8, 8}}, .words = {"data1", "(2,8,8)"}},
  };
  row.forward_tolerance = {.float64 = 4e-15, .float32 = 2e-6};
  row.backward_tolerance = {.float64 = 1e-14, .float32 = 4e-6, .of_largest = true};
  return row;
}

const RowRegistration kRow(Row());

}  // namespace
}  // namespace tessera::ops_testing
