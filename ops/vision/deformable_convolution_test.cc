#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "tessera/ops/nn/window_reference.h"
#include "tessera/ops/testing/operator_row.h"

namespace tessera::ops_testing {
namespace {

/// A product of the convolution: data[pixel] * weight * weights[i_weight], of which the first two
/// factors depend on the offset's two elements.
struct Product {
  index_t i_out, i_weight, pixel, i_offset_y, i_offset_x;
  double weight, slope_y, slope_x;
};

/// Calls visit(product) for each product, and returns the output's shape.
template <typename Visit>
TShape ForEachProduct(const ParameterMap& parameters, const std::vector<Values>& in,
                      const Visit& visit) {
  const ParameterReader p(parameters);
  const TShape &data = in[0].shape, &weight = in[2].shape;
  const Extents3 kernel = Extents(p, "kernel", 4, 1, 1), stride = Extents(p, "stride", 4, 1, 1);
  const Extents3 dilate = Extents(p, "dilate", 4, 1, 1), pad = Extents(p, "pad", 4, 0, 0);
  const index_t offset_groups = p.Int("num_deformable_group", 1);
  const TShape out = {data[0], weight[0], in[1].shape[2], in[1].shape[3]};
  const index_t positions = out[2] * out[3], taps = kernel[1] * kernel[2];
  for (index_t o = 0; o < out.Size(); ++o) {
    const index_t at = o % positions, f = o / positions % out[1], n = o / positions / out[1];
    const index_t group = f / (out[1] / p.Int("num_group", 1));
    for (index_t k = 0; k < weight[1] * taps; ++k) {
      const index_t channel = group * weight[1] + k / taps, tap = k % taps;
      const index_t offset_group = channel / (data[1] / offset_groups);
      const index_t offset_y =
          ((n * offset_groups + offset_group) * taps + tap) * 2 * positions + at;
      const index_t offset_x = offset_y + positions;
      const double y =
          static_cast<double>(at / out[3] * stride[1] - pad[1] + tap / kernel[2] * dilate[1]) +
          in[1][offset_y];
      const double x =
          static_cast<double>(at % out[3] * stride[2] - pad[2] + tap % kernel[2] * dilate[2]) +
          in[1][offset_x];
      if (y < 0 || y >= static_cast<double>(data[2])) continue;
      if (x < 0 || x >= static_cast<double>(data[3])) continue;
      for (int corner = 0; corner < 4; ++corner) {
        const double row = std::floor(y) + corner / 2, column = std::floor(x) + corner % 2;
        const double side_y = corner / 2 == 0 ? -1 : 1, side_x = corner % 2 == 0 ? -1 : 1;
        const double of_y = 1 - std::abs(y - row), of_x = 1 - std::abs(x - column);
        // Behind the last pixel, the value does not change.
        const index_t i = std::min(static_cast<index_t>(row), data[2] - 1);
        const index_t j = std::min(static_cast<index_t>(column), data[3] - 1);
        const index_t pixel = ((n * data[1] + channel) * data[2] + i) * data[3] + j;
        visit(Product{o, f * weight[1] * taps + k, pixel, offset_y, offset_x, of_y * of_x,
                      side_y * of_x, side_x * of_y});
      }
    }
  }
  return out;
}

OperatorRow Row() {
  OperatorRow row;
  row.name = "_contrib_DeformableConvolution";
  row.forward = [](const ParameterMap& parameters, const std::vector<Values>& in,
                   std::vector<Values>*) {
    Values out({in[0].shape[0], in[2].shape[0], in[1].shape[2], in[1].shape[3]});
    if (in.size() > 3) {
      for (index_t i = 0; i < out.size(); ++i) out[i] = in[3][ChannelOf(out.shape, i)];
    }
    ForEachProduct(parameters, in, [&](const Product& p) {
      out[p.i_out] += p.weight * in[0][p.pixel] * in[2][p.i_weight];
    });
    return std::vector<Values>{out};
  };
  row.backward = [](const ParameterMap& parameters, const std::vector<Values>& out_grad,
                    const std::vector<Values>& in, const std::vector<Values>&) {
    std::vector<Values> grad;
    for (const Values& x : in) grad.emplace_back(x.shape);
    ForEachProduct(parameters, in, [&](const Product& p) {
      const double g = out_grad[0][p.i_out];
      grad[0][p.pixel] += g * p.weight * in[2][p.i_weight];
      grad[1][p.i_offset_y] += g * p.slope_y * in[0][p.pixel] * in[2][p.i_weight];
      grad[1][p.i_offset_x] += g * p.slope_x * in[0][p.pixel] * in[2][p.i_weight];
      grad[2][p.i_weight] += g * p.weight * in[0][p.pixel];
    });
    if (in.size() > 3) {
      const Values& g = out_grad[0];
      for (index_t i = 0; i < g.size(); ++i) grad[3][ChannelOf(g.shape, i)] += g[i];
    }
    return grad;
  };
  const auto add = [&row](const std::string& name, ParameterMap parameters, const TShape& data,
                          const TShape& offset, const TShape& weight,
                          bool bias = true) -> OperatorCase& {
    parameters["num_filter"] = std::to_string(weight[0]);
    if (!bias) parameters["no_bias"] = "True";
    std::vector<TShape> inputs = {data, offset, weight};
    if (bias) inputs.push_back({weight[0]});
    row.cases.push_back({.name = name,
                         .parameters = parameters,
                         .inputs = inputs,
                         .fills = {Fill(), Fill::Uniform(-1.3, 1.3)}});
    return row.cases.back();
  };
  add("image", {{"kernel", "(2, 3)"}}, {2, 2, 4, 5}, {2, 12, 3, 3}, {3, 2, 2, 3});
  add("strides",
      {{"kernel", "(3, 2)"}, {"stride", "(2, 1)"}, {"dilate", "(1, 2)"}, {"pad", "(1, 1)"}},
      {1, 2, 4, 4}, {1, 12, 2, 4}, {2, 2, 3, 2}, /*bias=*/false);
  add("groups", {{"kernel", "(2, 2)"}, {"num_group", "2"}, {"num_deformable_group", "2"}},
      {2, 4, 3, 4}, {2, 16, 2, 3}, {4, 2, 2, 2});
  add("no_samples", {{"kernel", "(2, 2)"}}, {0, 2, 4, 4}, {0, 8, 3, 3}, {3, 2, 2, 2});
  OperatorCase& parallel = add("parallel", {{"kernel", "(3, 3)"}, {"pad", "(1, 1)"}},
                               {2, 4, 16, 17}, {2, 18, 16, 17}, {5, 4, 3, 3});
  parallel.dtypes = {DType::kFloat32};
  parallel.large = true;
  const ParameterMap valid = {{"kernel", "(2, 2)"}, {"num_filter", "3"}};
  row.errors = {
      {.name = "line",
       .parameters = {{"kernel", "(2,)"}, {"num_filter", "3"}},
       .code = Error::kUnimplemented,
       .words = {"kernel", "(2,)"}},
      {.name = "offset_of_other_size",
       .parameters = valid,
       .inputs = {{1, 2, 4, 4}, {1, 8, 4, 4}},
       .words = {"offset", "(1,8,4,4)"}},
      {.name = "channels_not_divided",
       .parameters = {{"kernel", "(2, 2)"}, {"num_filter", "3"}, {"num_deformable_group", "2"}},
       .inputs = {{1, 3, 4, 4}},
       .words = {"(1,3,4,4)", "2 groups"}},
      {.name = "large_kernel",
       .parameters = {{"kernel", "(5, 5)"}, {"num_filter", "3"}},
       .inputs = {{1, 2, 4, 4}},
       .words = {"(5,5)", "(1,2,4,4)"}},
  };
  row.forward_tolerance = {
      .float64 = 1e-14, .float32 = 1e-5, .float16 = 4e-3, .bfloat16 = 3e-2, .of_largest = true};
  row.backward_tolerance = {
      .float64 = 1e-14, .float32 = 1e-5, .float16 = 4e-3, .bfloat16 = 3e-2, .of_largest = true};
  return row;
}

const RowRegistration kRow(Row());

}  // namespace
}  // namespace tessera::ops_testing
