#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "tessera/ops/testing/operator_row.h"
#include "tessera/ops/testing/window_reference.h"

namespace tessera::ops_testing {
namespace {

/// A product of the convolution: data[pixel] * weight * mask[i_mask] * weights[i_weight]. `weight`
/// depends on the offset's two elements. i_mask is -1 if there is no mask.
struct Product {
  index_t i_out, i_weight, pixel, i_offset_y, i_offset_x, i_mask;
  double weight, slope_y, slope_x;
};

/// Returns the position of a pixel along an axis, or -1 if it is outside. Without mask, the last
/// pixel's value does not change behind it.
index_t PixelAt(double place, index_t extent, bool has_mask) {
  const auto last = static_cast<double>(extent - 1);
  if (has_mask && (place < 0 || place > last)) return -1;
  return static_cast<index_t>(std::min(place, last));
}

/// Calls visit(product) for each product.
template <typename Visit>
void ForEachProduct(const ParameterMap& parameters, const std::vector<Values>& in, bool has_mask,
                    const Visit& visit) {
  const ParameterReader p(parameters);
  const TShape &data = in[0].shape, &weight = in[has_mask ? 3 : 2].shape;
  const Extents3 kernel = Extents(p, "kernel", 4, 1, 1), stride = Extents(p, "stride", 4, 1, 1);
  const Extents3 dilate = Extents(p, "dilate", 4, 1, 1), pad = Extents(p, "pad", 4, 0, 0);
  const index_t offset_groups = p.Int("num_deformable_group", 1);
  const TShape out = {data[0], weight[0], in[1].shape[2], in[1].shape[3]};
  const index_t positions = out[2] * out[3], taps = kernel[1] * kernel[2];
  const auto inside = [has_mask](double place, index_t extent) {
    return (has_mask ? place > -1 : place >= 0) && place < static_cast<double>(extent);
  };
  for (index_t o = 0; o < out.Size(); ++o) {
    const index_t at = o % positions, f = o / positions % out[1], n = o / positions / out[1];
    const index_t group = f / (out[1] / p.Int("num_group", 1));
    for (index_t k = 0; k < weight[1] * taps; ++k) {
      const index_t channel = group * weight[1] + k / taps, tap = k % taps;
      const index_t offset_group = channel / (data[1] / offset_groups);
      const index_t row = (n * offset_groups + offset_group) * taps + tap;
      const index_t offset_y = 2 * row * positions + at, offset_x = offset_y + positions;
      const double y =
          static_cast<double>(at / out[3] * stride[1] - pad[1] + tap / kernel[2] * dilate[1]) +
          in[1][offset_y];
      const double x =
          static_cast<double>(at % out[3] * stride[2] - pad[2] + tap % kernel[2] * dilate[2]) +
          in[1][offset_x];
      if (!inside(y, data[2]) || !inside(x, data[3])) continue;
      for (int corner = 0; corner < 4; ++corner) {
        const double line = std::floor(y) + corner / 2, column = std::floor(x) + corner % 2;
        const double side_y = corner / 2 == 0 ? -1 : 1, side_x = corner % 2 == 0 ? -1 : 1;
        const double of_y = 1 - std::abs(y - line), of_x = 1 - std::abs(x - column);
        const index_t i = PixelAt(line, data[2], has_mask), j = PixelAt(column, data[3], has_mask);
        if (i < 0 || j < 0) continue;
        const index_t pixel = ((n * data[1] + channel) * data[2] + i) * data[3] + j;
        visit(Product{o, f * weight[1] * taps + k, pixel, offset_y, offset_x,
                      has_mask ? row * positions + at : -1, of_y * of_x, side_y * of_x,
                      side_x * of_y});
      }
    }
  }
}

/// Sets the row's references.
void SetReferences(OperatorRow* row, bool has_mask) {
  const size_t weight = has_mask ? 3 : 2, bias = weight + 1;
  row->forward = [=](const ParameterMap& parameters, const std::vector<Values>& in,
                     std::vector<Values>*) {
    Values out({in[0].shape[0], in[weight].shape[0], in[1].shape[2], in[1].shape[3]});
    if (in.size() > bias) {
      for (index_t i = 0; i < out.size(); ++i) out[i] = in[bias][ChannelOf(out.shape, i)];
    }
    ForEachProduct(parameters, in, has_mask, [&](const Product& p) {
      const double mask = has_mask ? in[2][p.i_mask] : 1;
      out[p.i_out] += p.weight * mask * in[0][p.pixel] * in[weight][p.i_weight];
    });
    return std::vector<Values>{out};
  };
  row->backward = [=](const ParameterMap& parameters, const std::vector<Values>& out_grad,
                      const std::vector<Values>& in, const std::vector<Values>&) {
    std::vector<Values> grad;
    for (const Values& x : in) grad.emplace_back(x.shape);
    ForEachProduct(parameters, in, has_mask, [&](const Product& p) {
      const double g = out_grad[0][p.i_out], w = in[weight][p.i_weight], x = in[0][p.pixel];
      const double mask = has_mask ? in[2][p.i_mask] : 1;
      grad[0][p.pixel] += g * p.weight * mask * w;
      grad[1][p.i_offset_y] += g * p.slope_y * mask * x * w;
      grad[1][p.i_offset_x] += g * p.slope_x * mask * x * w;
      if (has_mask) grad[2][p.i_mask] += g * p.weight * x * w;
      grad[weight][p.i_weight] += g * p.weight * mask * x;
    });
    if (in.size() > bias) {
      const Values& g = out_grad[0];
      for (index_t i = 0; i < g.size(); ++i) grad[bias][ChannelOf(g.shape, i)] += g[i];
    }
    return grad;
  };
}

OperatorRow Row(const std::string& name, bool has_mask) {
  OperatorRow row;
  row.name = name;
  SetReferences(&row, has_mask);
  const auto add = [&](const std::string& case_name, ParameterMap parameters, const TShape& data,
                       const TShape& offset, const TShape& weight,
                       bool bias = true) -> OperatorCase& {
    parameters["num_filter"] = std::to_string(weight[0]);
    if (!bias) parameters["no_bias"] = "True";
    std::vector<TShape> inputs = {data, offset};
    if (has_mask) inputs.push_back({offset[0], offset[1] / 2, offset[2], offset[3]});
    inputs.push_back(weight);
    if (bias) inputs.push_back({weight[0]});
    row.cases.push_back({.name = case_name,
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
  if (has_mask) {
    row.errors.push_back({.name = "mask_of_other_size",
                          .parameters = valid,
                          .inputs = {{1, 2, 4, 4}, {1, 8, 3, 3}, {1, 8, 3, 3}},
                          .words = {"mask", "(1,8,3,3)", "(1,4,3,3)"}});
    row.errors.push_back(
        {.name = "step_of_0",
         .parameters = {{"kernel", "(2, 2)"}, {"num_filter", "3"}, {"im2col_step", "0"}},
         .words = {"im2col_step"}});
  }
  row.forward_tolerance = {
      .float64 = 1e-14, .float32 = 1e-5, .float16 = 4e-3, .bfloat16 = 3e-2, .of_largest = true};
  row.backward_tolerance = {
      .float64 = 1e-14, .float32 = 1e-5, .float16 = 4e-3, .bfloat16 = 3e-2, .of_largest = true};
  return row;
}

const RowRegistration kRow(Row("_contrib_DeformableConvolution", /*has_mask=*/false));
const RowRegistration kRowWithMask(Row("_contrib_ModulatedDeformableConvolution",
                                       /*has_mask=*/true));

}  // namespace
}  // namespace tessera::ops_testing
