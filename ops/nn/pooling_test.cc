#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "tessera/ops/testing/operator_row.h"
#include "tessera/ops/testing/window_reference.h"

namespace tessera::ops_testing {
namespace {

/// The windows over an image, by the rules of Pooling or Pooling_v1.
struct Geometry {
  index_t planes;
  Extents3 image, out, kernel, stride, pad;
  std::string type;
  bool count_include_pad, v1;
  double power;

  Geometry(const ParameterMap& parameters, const TShape& data, bool is_v1) : v1(is_v1) {
    const ParameterReader p(parameters);
    const int rank = data.ndim();
    planes = data[0] * data[1];
    image = Spatial(data);
    type = p.Text("pool_type", "max");
    power = p.Real("p_value", 1);
    const std::string include = p.Text("count_include_pad", "True");
    count_include_pad = include != "False" && include != "0";
    if (p.Bool("global_pool", false)) {
      kernel = image;
      stride = {1, 1, 1};
      pad = {0, 0, 0};
    } else {
      kernel = Extents(p, "kernel", rank, 1, 1);
      stride = Extents(p, "stride", rank, 1, 1);
      pad = Extents(p, "pad", rank, 0, 0);
    }
    const std::string convention = p.Text("pooling_convention", "valid");
    for (size_t d = 0; d < 3; ++d) {
      const double steps =
          static_cast<double>(image[d] + 2 * pad[d] - kernel[d]) / static_cast<double>(stride[d]);
      out[d] =
          1 + static_cast<index_t>(convention == "full" ? std::ceil(steps) : std::floor(steps));
      if (convention == "same") out[d] = (image[d] + stride[d] - 1) / stride[d];
    }
  }

  /// Calls visit(i_out, i_data, share) for each image element under each window; share is what an
  /// average multiplies it by. For padding under a window, i_data is -1.
  template <typename Visit>
  void ForEachElement(const Visit& visit) const {
    const index_t positions = out[0] * out[1] * out[2];
    for (index_t i = 0; i < planes * positions; ++i) {
      const index_t at = i % positions;
      const Extents3 o = {at / (out[1] * out[2]), at / out[2] % out[1], at % out[2]};
      // The window ends with the padded image; of its elements those in the image take part.
      double padded = 0, inside = 0;
      for (int pass = 0; pass < 2; ++pass) {
        for (index_t k = 0; k < kernel[0] * kernel[1] * kernel[2]; ++k) {
          const Extents3 tap = {k / (kernel[1] * kernel[2]), k / kernel[2] % kernel[1],
                                k % kernel[2]};
          Extents3 x;
          bool in_image = true, in_padded = true;
          for (size_t d = 0; d < 3; ++d) {
            x[d] = o[d] * stride[d] - pad[d] + tap[d];
            in_image = in_image && x[d] >= 0 && x[d] < image[d];
            in_padded = in_padded && x[d] < image[d] + pad[d];
          }
          if (!in_padded) continue;
          if (pass == 0) {
            ++padded;
            inside += in_image;
            continue;
          }
          const double size = static_cast<double>(kernel[0] * kernel[1] * kernel[2]);
          const index_t element =
              ((i / positions * image[0] + x[0]) * image[1] + x[1]) * image[2] + x[2];
          visit(i, in_image ? element : -1, 1 / (v1 ? size : count_include_pad ? padded : inside));
        }
      }
    }
  }
};

std::vector<Values> Pool(const ParameterMap& parameters, const Values& in, bool v1) {
  const Geometry g(parameters, in.shape, v1);
  const bool max = g.type == "max";
  Values out(ImageOf(in.shape[0], in.shape[1], g.out, in.shape.ndim()), max ? -INFINITY : 0);
  std::vector<bool> filled(out.data.size());
  g.ForEachElement([&](index_t o, index_t d, double share) {
    if (max) {
      if (d < 0 && !v1) return;
      const double x = d < 0 ? 0 : in[d];
      if (!filled[static_cast<size_t>(o)] || x > out[o]) out[o] = x;
      filled[static_cast<size_t>(o)] = true;
    } else if (d >= 0) {
      out[o] += g.type == "lp" ? std::pow(in[d], g.power) : in[d] * (g.type == "avg" ? share : 1);
    }
  });
  if (g.type == "lp" && g.power == 2) {
    for (double& x : out.data) x = std::sqrt(x);
  } else if (g.type == "lp" && g.power == 3) {
    for (double& x : out.data) x = std::cbrt(x);
  }
  return {out};
}

std::vector<Values> Unpool(const ParameterMap& parameters, const std::vector<Values>& out_grad,
                           const std::vector<Values>& in, bool v1) {
  const Geometry g(parameters, in[0].shape, v1);
  const Values pooled = Pool(parameters, in[0], v1)[0];
  Values grad(in[0].shape);
  std::vector<bool> given(pooled.data.size());
  g.ForEachElement([&](index_t o, index_t d, double share) {
    if (d < 0) return;
    if (g.type == "max") {
      if (in[0][d] != pooled[o] || (given[static_cast<size_t>(o)] && !v1)) return;
      given[static_cast<size_t>(o)] = true;
      grad[d] += out_grad[0][o];
    } else if (g.type == "lp") {
      if (pooled[o] == 0) return;
      grad[d] += out_grad[0][o] * std::pow(in[0][d] / pooled[o], g.power - 1);
    } else {
      grad[d] += out_grad[0][o] * (g.type == "avg" ? share : 1);
    }
  });
  return {grad};
}

template <bool kV1>
std::vector<Values> Forward(const ParameterMap& parameters, const std::vector<Values>& in,
                            std::vector<Values>*) {
  return Pool(parameters, in[0], kV1);
}
template <bool kV1>
std::vector<Values> Backward(const ParameterMap& parameters, const std::vector<Values>& out_grad,
                             const std::vector<Values>& in, const std::vector<Values>&) {
  return Unpool(parameters, out_grad, in, kV1);
}

std::vector<OperatorCase> Cases() {
  using P = ParameterMap;
  std::vector<OperatorCase> cases;
  const auto add = [&](const std::string& name, P parameters, const TShape& data) {
    for (const std::string type : {"max", "avg", "sum"}) {
      // The maximum of no elements is the type's lowest number, which golden cases show.
      if (type == "max" && name.starts_with("windows_beyond")) continue;
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
  // Around the partial sums of a row, and more than a packet.
  for (const index_t size : {31, 32, 33, 75}) {
    add("global_" + std::to_string(size), {{"global_pool", "True"}}, {2, 2, size});
  }
  add("one_dimension", {{"kernel", "(3,)"}, {"stride", "(2,)"}, {"pad", "(1,)"}}, {2, 3, 8});
  add("one_dimension_full",
      {{"kernel", "(3,)"}, {"stride", "(2,)"}, {"pooling_convention", "full"}}, {2, 3, 8});
  add("one_dimension_global", {{"global_pool", "True"}, {"layout", "NCW"}}, {2, 3, 8});
  add("pad_with_more_axes", {{"kernel", "(3,)"}, {"stride", "(2,)"}, {"pad", "(1,2,0)"}},
      {2, 3, 8});
  add("stride_with_more_axes", {{"kernel", "(3,)"}, {"stride", "(2,3)"}}, {2, 3, 8});
  add("channels_last",
      {{"kernel", "(3,2)"}, {"stride", "(2,1)"}, {"pad", "(1,0)"}, {"layout", "NHWC"}},
      {2, 6, 5, 3});
  add("channels_last_of_one_dimension", {{"kernel", "(3,)"}, {"layout", "NWC"}}, {2, 8, 3});
  add("channels_last_of_three_dimensions", {{"kernel", "(2,3,2)"}, {"layout", "NDHWC"}},
      {2, 3, 4, 5, 2});
  add("channels_last_global", {{"global_pool", "True"}, {"layout", "NHWC"}}, {2, 4, 5, 3});
  add("batch_0", {{"kernel", "(2,2)"}}, {0, 3, 6, 4});
  add("one_element", {{"kernel", "(1,1)"}}, {1, 1, 1, 1});
  add("three_dimensions",
      {{"kernel", "(2,3,2)"}, {"stride", "(1,2,2)"}, {"pad", "(1,1,0)"}, {"layout", "NCDHW"}},
      {2, 2, 3, 4, 5});
  add("three_dimensions_full",
      {{"kernel", "(2,2,2)"}, {"stride", "(2,2,2)"}, {"pooling_convention", "full"}},
      {1, 2, 3, 5, 4});
  add("three_dimensions_global", {{"global_pool", "True"}}, {2, 2, 3, 4, 5});
  add("global_of_another_rank", {{"global_pool", "1"}, {"kernel", "(3,3)"}}, {2, 2, 5});
  add("same", {{"kernel", "(3,2)"}, {"stride", "(2,3)"}, {"pooling_convention", "same"}},
      {1, 2, 5, 7});
  add("same_of_a_kernel_beyond_the_image",
      {{"kernel", "(9,)"}, {"stride", "(2,)"}, {"pooling_convention", "same"}}, {1, 2, 5});
  add("wide", {{"kernel", "(2,3)"}, {"stride", "(1,2)"}, {"pad", "(0,1)"}}, {1, 2, 4, 70});
  add("windows_beyond_the_image",
      {{"kernel", "(3,)"}, {"stride", "(3,)"}, {"pad", "(1,)"}, {"pooling_convention", "full"}},
      {1, 2, 5});
  add("windows_beyond_the_padding",
      {{"kernel", "(1,1)"}, {"stride", "(3,3)"}, {"pooling_convention", "full"}}, {1, 1, 5, 4});
  for (const std::string power : {"1", "2", "3"}) {
    for (const std::string kernel : {"(2,3)", "(3,)", "(2,2,2)"}) {
      P parameters = {{"kernel", kernel}, {"pool_type", "lp"}, {"p_value", power}};
      TShape data = {2, 2, 5};
      if (kernel != "(3,)") {
        data = kernel == "(2,3)" ? TShape{2, 2, 4, 5} : TShape{1, 2, 3, 3, 4};
      } else {
        parameters.insert({{"stride", "(2,)"}, {"pad", "(1,)"}});
      }
      cases.push_back({.name = "lp_" + power + "_" + std::to_string(data.ndim()),
                       .parameters = parameters,
                       .inputs = {data},
                       .fills = {Fill::Uniform(0.25, 1)}});
    }
  }
  cases.push_back({.name = "lp_of_zeros",
                   .parameters = P{{"kernel", "(2,)"}, {"pool_type", "lp"}, {"p_value", "2"}},
                   .inputs = {{1, 2, 4}},
                   .fills = {Fill::Given({0})},
                   .large = true});
  // Gradients tell the tiny results apart from 0.
  for (const std::string power : {"2", "3"}) {
    for (const bool huge : {true, false}) {
      cases.push_back({.name = "lp_" + power + (huge ? "_of_huge_numbers" : "_of_tiny_numbers"),
                       .parameters = P{{"kernel", "(2,)"}, {"pool_type", "lp"}, {"p_value", power}},
                       .inputs = {{1, 2, 4}},
                       .fills = {huge ? Fill::Given({3e30, 4e30, 1e25, 2e25})
                                      : Fill::Given({3e-30, 4e-30, 1e-25, 2e-25})},
                       .dtypes = {DType::kFloat32, DType::kFloat64, DType::kBFloat16},
                       .large = true});
    }
  }
  for (const std::string power : {"1", "2", "3"}) {
    cases.push_back(
        {.name = "lp_" + power + "_global",
         .parameters = P{{"global_pool", "True"}, {"pool_type", "lp"}, {"p_value", power}},
         .inputs = {{2, 2, 4, 9}},
         .fills = {Fill::Uniform(0.25, 1)}});
  }
  // Equal maxima: the first in row order takes the whole gradient.
  cases.push_back({.name = "ties_global",
                   .parameters = P{{"global_pool", "True"}},
                   .inputs = {{2, 2, 5, 7}},
                   .fills = {Fill::Integers(0, 2)},
                   .large = true});
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
      {.name = "four_dimensions",
       .parameters = P{{"kernel", "(2,2,2,2)"}},
       .code = Error::kUnimplemented,
       .words = {"kernel", "(2,2,2,2)"}},
      {.name = "lp_without_a_power",
       .parameters = P{{"kernel", "(2,2)"}, {"pool_type", "lp"}},
       .words = {"lp", "p_value", "None"}},
      {.name = "lp_of_another_power",
       .parameters = P{{"kernel", "(2,2)"}, {"pool_type", "lp"}, {"p_value", "4"}},
       .words = {"lp", "p_value", "4"}},
      {.name = "same_with_padding",
       .parameters = P{{"kernel", "(2,)"}, {"pad", "(1,)"}, {"pooling_convention", "same"}},
       .words = {"pad=(1,)", "same"}},
      {.name = "layout_of_another_rank",
       .parameters = P{{"kernel", "(2,)"}, {"layout", "NCHW"}},
       .inputs = {{2, 3, 5}},
       .code = Error::kUnimplemented,
       .words = {"layout", "NCHW", "NCW"}},
      {.name = "unknown_layout",
       .parameters = P{{"kernel", "(2,2)"}, {"layout", "CHWN"}},
       .code = Error::kUnimplemented,
       .words = {"layout", "CHWN", "NHWC"}},
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

std::vector<OperatorCase> V1Cases() {
  std::vector<OperatorCase> cases;
  const auto add = [&](const std::string& name, ParameterMap parameters, const TShape& data) {
    for (const std::string type : {"max", "avg", "sum"}) {
      if (type == "max" && name.starts_with("windows_beyond")) continue;
      parameters["pool_type"] = type;
      cases.push_back({.name = type + "_" + name,
                       .parameters = parameters,
                       .inputs = {data},
                       .fills = {Fill::Distinct()}});
    }
  };
  add("2x2", {{"kernel", "(2, 2)"}, {"stride", "(2, 2)"}}, {2, 3, 6, 4});
  add("padded", {{"kernel", "(3,3)"}, {"stride", "(2,2)"}, {"pad", "(1,1)"}}, {2, 2, 6, 5});
  add("padding_as_wide_as_the_kernel", {{"kernel", "(2,1)"}, {"pad", "(2,1)"}}, {1, 2, 3, 4});
  add("full",
      {{"kernel", "(3,3)"}, {"stride", "(2,3)"}, {"pad", "(1,0)"}, {"pooling_convention", "full"}},
      {2, 2, 6, 5});
  add("windows_beyond_the_image",
      {{"kernel", "(1,1)"}, {"stride", "(3,3)"}, {"pooling_convention", "full"}}, {1, 1, 5, 4});
  add("global", {{"global_pool", "True"}, {"kernel", "(2,2)"}, {"pad", "(1,1)"}}, {2, 3, 4, 5});
  add("batch_0", {{"kernel", "(2,2)"}}, {0, 3, 6, 4});
  cases.push_back({.name = "ties",
                   .parameters = {{"kernel", "(2,2)"}, {"pad", "(1,1)"}},
                   .inputs = {{2, 2, 5, 6}},
                   .fills = {Fill::Integers(0, 2)},
                   .large = true});
  return cases;
}

std::vector<ErrorCase> V1Errors() {
  using P = ParameterMap;
  return {
      {.name = "without_kernel", .words = {"kernel", "two"}},
      {.name = "one_dimension", .parameters = P{{"kernel", "(2,)"}}, .words = {"kernel", "two"}},
      {.name = "norm", .parameters = P{{"kernel", "(2,2)"}, {"pool_type", "lp"}}, .words = {"lp"}},
      {.name = "stride_0",
       .parameters = P{{"kernel", "(2,2)"}, {"stride", "(1,0)"}},
       .words = {"stride", "(1,0)"}},
      {.name = "kernel_beyond_the_image",
       .parameters = P{{"kernel", "(3,3)"}},
       .inputs = {{2, 3, 2, 5}},
       .words = {"kernel", "(3,3)", "(2,3,2,5)"}},
      {.name = "sequence",
       .parameters = P{{"kernel", "(2,2)"}},
       .inputs = {{2, 3, 5}},
       .words = {"data", "(2,3,5)"}},
  };
}

/// The elements of in[0] at the first maxima of in[1].
std::vector<Values> Picked(const ParameterMap& parameters, const std::vector<Values>& in,
                           std::vector<Values>*) {
  const Geometry g(parameters, in[1].shape, /*is_v1=*/false);
  const Values pooled = Pool(parameters, in[1], /*v1=*/false)[0];
  Values out(pooled.shape);
  std::vector<bool> given(pooled.data.size());
  g.ForEachElement([&](index_t o, index_t d, double) {
    if (d < 0 || in[1][d] != pooled[o] || given[static_cast<size_t>(o)]) return;
    given[static_cast<size_t>(o)] = true;
    out[o] = in[0][d];
  });
  return {out};
}
std::vector<Values> PickedGradient(const ParameterMap& parameters,
                                   const std::vector<Values>& out_grad,
                                   const std::vector<Values>& in, const std::vector<Values>&) {
  return {Unpool(parameters, out_grad, {in[1]}, /*v1=*/false)[0], in[1]};
}

/// Those of Pooling for maxima.
std::vector<OperatorCase> PickCases() {
  std::vector<OperatorCase> cases;
  for (OperatorCase test_case : Cases()) {
    const bool picks = test_case.name.starts_with("max_") || test_case.name.starts_with("ties_");
    if (!picks && test_case.name != "parallel") continue;
    test_case.inputs.push_back(test_case.inputs[0]);
    test_case.fills.resize(1);
    test_case.fills.insert(test_case.fills.begin(), Fill());
    cases.push_back(std::move(test_case));
  }
  return cases;
}

const RowRegistration kRow({
    .name = "Pooling",
    .cases = Cases(),
    .forward = OfAllLayouts(Forward<false>, 1),
    .backward = GradientOfAllLayouts(Backward<false>, 1),
    .errors = Errors(),
});
const RowRegistration kV1Row({
    .name = "Pooling_v1",
    .cases = V1Cases(),
    .forward = Forward<true>,
    .backward = Backward<true>,
    .errors = V1Errors(),
});
const RowRegistration kPickRow({
    .name = "_pick_maxima",
    .cases = PickCases(),
    .forward = OfAllLayouts(Picked, 2),
    .backward = GradientOfAllLayouts(PickedGradient, 2),
    .errors = {{.name = "without_kernel", .words = {"kernel", "required"}},
               {.name = "of_an_average",
                .parameters = {{"kernel", "(2,2)"}, {"pool_type", "avg"}},
                .words = {"pool_type", "max"}},
               {.name = "other_shape",
                .parameters = {{"kernel", "(2,2)"}},
                .inputs = {{1, 2, 4, 5}, {1, 2, 5, 4}},
                .words = {"data", "(1,2,5,4)", "(1,2,4,5)"}}},
});

}  // namespace
}  // namespace tessera::ops_testing
