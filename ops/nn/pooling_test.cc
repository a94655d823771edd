#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "tessera/ops/testing/operator_row.h"

namespace tessera::ops_testing {
namespace {

/// The windows over an image; one spatial dimension is seen as an image one row high.
struct Geometry {
  index_t planes, height, width, out_y, out_x;
  std::array<index_t, 2> kernel, stride, pad;
  std::string type;
  bool count_include_pad;

  Geometry(const ParameterMap& parameters, const TShape& data) {
    const ParameterReader p(parameters);
    const bool image = data.ndim() == 4;
    planes = data[0] * data[1];
    height = image ? data[2] : 1;
    width = data[image ? 3 : 2];
    type = p.Text("pool_type", "max");
    const std::string include = p.Text("count_include_pad", "True");
    count_include_pad = include != "False" && include != "0";
    if (p.Bool("global_pool", false)) {
      kernel = {height, width};
      stride = {1, 1};
      pad = {0, 0};
    } else {
      kernel = p.Window("kernel", 0, 1);
      stride = p.Window("stride", 1, 1);
      pad = p.Window("pad", 0, 0);
    }
    const bool full = p.Text("pooling_convention", "valid") == "full";
    const auto positions = [&](int axis, index_t extent) {
      const double steps = static_cast<double>(extent + 2 * pad[axis] - kernel[axis]) /
                           static_cast<double>(stride[axis]);
      return 1 + static_cast<index_t>(full ? std::ceil(steps) : std::floor(steps));
    };
    out_y = positions(0, height);
    out_x = positions(1, width);
  }

  /// Calls visit(i_out, i_data, share) for each image element under each window; share is what an
  /// average multiplies it by.
  template <typename Visit>
  void ForEachElement(const Visit& visit) const {
    for (index_t i = 0; i < planes * out_y * out_x; ++i) {
      const index_t plane = i / (out_y * out_x);
      const index_t top = i / out_x % out_y * stride[0] - pad[0];
      const index_t left = i % out_x * stride[1] - pad[1];
      // The window ends with the padded image; of its elements those in the image take part.
      index_t padded = 0, inside = 0;
      for (int pass = 0; pass < 2; ++pass) {
        for (index_t y = top; y < std::min(top + kernel[0], height + pad[0]); ++y) {
          for (index_t x = left; x < std::min(left + kernel[1], width + pad[1]); ++x) {
            const bool in_image = y >= 0 && y < height && x >= 0 && x < width;
            if (pass == 0) {
              ++padded;
              inside += in_image;
            } else if (in_image) {
              visit(i, (plane * height + y) * width + x,
                    1.0 / static_cast<double>(count_include_pad ? padded : inside));
            }
          }
        }
      }
    }
  }
};

/// For each window the index of its first maximum in row order, or -1 where it has no element.
std::vector<index_t> FirstMaxima(const Geometry& g, const Values& data) {
  std::vector<index_t> first(static_cast<size_t>(g.planes * g.out_y * g.out_x), -1);
  g.ForEachElement([&](index_t o, index_t d, double) {
    index_t& best = first[static_cast<size_t>(o)];
    if (best < 0 || data[d] > data[best]) best = d;
  });
  return first;
}

std::vector<Values> Forward(const ParameterMap& parameters, const std::vector<Values>& in,
                            std::vector<Values>*) {
  const Geometry g(parameters, in[0].shape);
  TShape shape = in[0].shape;
  shape[shape.ndim() - 1] = g.out_x;
  if (shape.ndim() == 4) shape[2] = g.out_y;
  Values out(shape);
  if (g.type == "max") {
    const auto first = FirstMaxima(g, in[0]);
    for (index_t i = 0; i < out.size(); ++i) out[i] = in[0][first[static_cast<size_t>(i)]];
  } else {
    g.ForEachElement([&](index_t o, index_t d, double share) {
      out[o] += in[0][d] * (g.type == "avg" ? share : 1);
    });
  }
  return {out};
}

std::vector<Values> Backward(const ParameterMap& parameters, const std::vector<Values>& out_grad,
                             const std::vector<Values>& in, const std::vector<Values>&) {
  const Geometry g(parameters, in[0].shape);
  Values grad(in[0].shape);
  if (g.type == "max") {
    const auto first = FirstMaxima(g, in[0]);
    for (index_t i = 0; i < out_grad[0].size(); ++i) {
      grad[first[static_cast<size_t>(i)]] += out_grad[0][i];
    }
  } else {
    g.ForEachElement([&](index_t o, index_t d, double share) {
      grad[d] += out_grad[0][o] * (g.type == "avg" ? share : 1);
    });
  }
  return {grad};
}

std::vector<OperatorCase> Cases() {
  using P = ParameterMap;
  std::vector<OperatorCase> cases;
  const auto add = [&](const std::string& name, P parameters, const TShape& data) {
    for (const std::string type : {"max", "avg", "sum"}) {
      P with_type = parameters;
      with_type["pool_type"] = type;
      cases.push_back({.name = type + "_" + name,
                       .parameters = with_type,
                       .inputs = {data},
                       .fills = {Fill::Distinct()}});
    }
  };
  add("2x2", {{"kernel", "(2, 2)"}, {"stride", "(2, 2)"}}, {2, 3, 6, 4});
  add("overlapping", {{"kernel", "(3,2)"}}, {2, 2, 5, 4});
  add("rest_left_out", {{"kernel", "(2,2)"}, {"stride", "(2,2)"}}, {1, 2, 5, 7});
  add("full", {{"kernel", "(2,2)"}, {"stride", "(2,2)"}, {"pooling_convention", "full"}},
      {1, 2, 5, 7});
  add("full_padded",
      {{"kernel", "(3,3)"}, {"stride", "(2,2)"}, {"pad", "(1,1)"}, {"pooling_convention", "full"}},
      {2, 2, 6, 5});
  add("padded", {{"kernel", "(3,3)"}, {"stride", "(2,2)"}, {"pad", "(1,1)"}}, {2, 2, 6, 5});
  add("padded_at_two_edges", {{"kernel", "(5,4)"}, {"pad", "(2,3)"}}, {1, 2, 3, 2});
  add("without_counting_padding",
      {{"kernel", "(3,3)"}, {"stride", "(2,1)"}, {"pad", "(1,1)"}, {"count_include_pad", "False"}},
      {2, 2, 6, 5});
  add("full_without_counting_padding",
      {{"kernel", "(3,3)"},
       {"stride", "(2,2)"},
       {"pad", "(1,1)"},
       {"pooling_convention", "full"},
       {"count_include_pad", "0"}},
      {2, 2, 6, 5});
  add("padding_count_by_default",
      {{"kernel", "(3,3)"}, {"pad", "(1,1)"}, {"count_include_pad", "None"}}, {1, 1, 4, 5});
  add("stride_beyond_the_kernel", {{"kernel", "(1,2)"}, {"stride", "(3,4)"}}, {2, 2, 7, 9});
  add("global", {{"global_pool", "True"}}, {2, 3, 4, 5});
  add("global_ignores_the_window",
      {{"global_pool", "True"},
       {"kernel", "(2,2)"},
       {"stride", "(2,2)"},
       {"pad", "(1,1)"},
       {"pooling_convention", "full"}},
      {2, 3, 4, 5});
  add("kernel_of_the_image", {{"kernel", "(4,5)"}}, {2, 3, 4, 5});
  add("one_dimension", {{"kernel", "(3,)"}, {"stride", "(2,)"}, {"pad", "(1,)"}}, {2, 3, 8});
  add("one_dimension_full",
      {{"kernel", "(3,)"}, {"stride", "(2,)"}, {"pooling_convention", "full"}}, {2, 3, 8});
  add("one_dimension_global", {{"global_pool", "True"}, {"layout", "NCW"}}, {2, 3, 8});
  add("batch_0", {{"kernel", "(2,2)"}}, {0, 3, 6, 4});
  add("one_element", {{"kernel", "(1,1)"}}, {1, 1, 1, 1});
  // Equal maxima: the first in row order takes the whole gradient.
  for (const std::string window : {"(2,2)", "(3,3)"}) {
    cases.push_back({.name = "ties_" + window.substr(1, 1),
                     .parameters = P{{"kernel", window}, {"stride", "(1,2)"}, {"pad", "(1,1)"}},
                     .inputs = {{2, 2, 5, 6}},
                     .fills = {Fill::Integers(0, 2)},
                     .large = true});
  }
  cases.push_back({.name = "all_minus_infinity",
                   .parameters = P{{"kernel", "(2,2)"}, {"pad", "(1,1)"}},
                   .inputs = {{1, 2, 3, 3}},
                   .fills = {Fill::Given({-INFINITY})},
                   .large = true});
  // The digits network's first pooling; more than one task's worth.
  cases.push_back({.name = "parallel",
                   .parameters = P{{"kernel", "(2,2)"}, {"stride", "(2,2)"}},
                   .inputs = {{33, 33, 8, 8}},
                   .dtypes = {DType::kFloat32, DType::kFloat16},
                   .large = true});
  return cases;
}

std::vector<ErrorCase> Errors() {
  using P = ParameterMap;
  return {
      {.name = "without_kernel", .words = {"kernel", "required"}},
      {.name = "unknown_pool_type",
       .parameters = P{{"kernel", "(2,2)"}, {"pool_type", "median"}},
       .words = {"pool_type", "median", "max"}},
      {.name = "kernel_of_no_extent",
       .parameters = P{{"kernel", "(0,2)"}},
       .words = {"kernel", "(0,2)"}},
      {.name = "pad_as_wide_as_the_kernel",
       .parameters = P{{"kernel", "(2,2)"}, {"pad", "(0,2)"}},
       .words = {"pad", "(0,2)", "kernel", "(2,2)"}},
      {.name = "stride_of_other_rank",
       .parameters = P{{"kernel", "(2,2)"}, {"stride", "(2,)"}},
       .words = {"stride", "(2,)"}},
      {.name = "stride_0",
       .parameters = P{{"kernel", "(2,2)"}, {"stride", "(1,0)"}},
       .words = {"stride", "(1,0)"}},
      {.name = "three_dimensions",
       .parameters = P{{"kernel", "(2,2,2)"}},
       .code = Error::kUnimplemented,
       .words = {"kernel", "(2,2,2)"}},
      {.name = "channels_last",
       .parameters = P{{"kernel", "(2,2)"}, {"layout", "NHWC"}},
       .code = Error::kUnimplemented,
       .words = {"layout", "NHWC"}},
      {.name = "windows_in_no_image",
       .parameters = P{{"kernel", "(1,1)"}, {"stride", "(3,3)"}, {"pooling_convention", "full"}},
       .inputs = {{1, 1, 5, 4}},
       .words = {"(1,1,5,4)", "stride", "full"}},
      {.name = "kernel_beyond_the_image",
       .parameters = P{{"kernel", "(3,3)"}},
       .inputs = {{2, 3, 2, 5}},
       .words = {"kernel", "(3,3)", "(2,3,2,5)"}},
      {.name = "data_of_other_rank",
       .parameters = P{{"kernel", "(3,3)"}},
       .inputs = {{2, 3, 5}},
       .words = {"data", "(2,3,5)", "kernel=(3,3)", "4 dimensions"}},
      {.name = "global_over_a_matrix",
       .parameters = P{{"global_pool", "True"}},
       .inputs = {{2, 3}},
       .words = {"data", "(2,3)"}},
  };
}

const RowRegistration kRow({
    .name = "Pooling",
    .cases = Cases(),
    .forward = Forward,
    .backward = Backward,
    .errors = Errors(),
});

}  // namespace
}  // namespace tessera::ops_testing
