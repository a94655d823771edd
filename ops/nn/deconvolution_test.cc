#include <algorithm>
#include <vector>

#include "tessera/ops/testing/operator_row.h"
#include "tessera/ops/testing/window_reference.h"

namespace tessera::ops_testing {
namespace {

/// The convolution from the output, its image, to the data, its result.
ConvolutionReference Reference(const ParameterMap& parameters, const TShape& data) {
  const ParameterReader p(parameters);
  const int rank = data.ndim();
  ConvolutionReference c = {.batch = data[0],
                            .groups = p.Int("num_group", 1),
                            .channels = p.Int("num_filter", 0),
                            .filters = data[1],
                            .out = Spatial(data),
                            .kernel = Extents(p, "kernel", rank, 1, 1),
                            .stride = Extents(p, "stride", rank, 1, 1),
                            .dilate = Extents(p, "dilate", rank, 1, 1),
                            .pad = Extents(p, "pad", rank, 0, 0)};
  const Extents3 adj = Extents(p, "adj", rank, 0, 0),
                 target = Extents(p, "target_shape", rank, 0, 1);
  const bool has_target = std::count(target.begin(), target.end(), 0) == 0;
  for (size_t d = 0; d < 3; ++d) {
    const index_t whole = (c.out[d] - 1) * c.stride[d] + (c.kernel[d] - 1) * c.dilate[d] + 1;
    c.in[d] = whole - 2 * c.pad[d] + adj[d];
    if (!has_target || d < static_cast<size_t>(5 - rank)) continue;
    c.in[d] = target[d];
    c.pad[d] = (whole - target[d] + 1) / 2;
  }
  return c;
}

/// The products of a deconvolution, for SumProducts: the convolution's data is the output.
auto ProductsOf(const ConvolutionReference& c) {
  return [&c](const auto& visit) {
    c.ForEachProduct([&](index_t d, index_t w, index_t o) { visit(o, w, d); });
  };
}

std::vector<Values> Forward(const ParameterMap& parameters, const std::vector<Values>& in,
                            std::vector<Values>*) {
  const ConvolutionReference c = Reference(parameters, in[0].shape);
  return SumProducts(in, Values(ImageOf(c.batch, c.channels, c.in, in[0].shape.ndim())),
                     ProductsOf(c));
}

std::vector<Values> Backward(const ParameterMap& parameters, const std::vector<Values>& out_grad,
                             const std::vector<Values>& in, const std::vector<Values>&) {
  const ConvolutionReference c = Reference(parameters, in[0].shape);
  return SumProductsGradient(out_grad[0], in, ProductsOf(c));
}

std::vector<OperatorCase> Cases() {
  using P = ParameterMap;
  return {
      {.name = "kernel_3x3",
       .parameters = P{{"kernel", "(3, 3)"}, {"num_filter", "4"}},
       .inputs = {{2, 3, 4, 5}, {3, 4, 3, 3}}},
      {.name = "with_bias",
       .parameters = P{{"kernel", "(2,3)"}, {"num_filter", "4"}, {"no_bias", "False"}},
       .inputs = {{2, 3, 4, 3}, {3, 4, 2, 3}, {4}}},
      {.name = "strided_padded",
       .parameters = P{{"kernel", "(4,3)"},
                       {"num_filter", "2"},
                       {"stride", "(2,3)"},
                       {"pad", "(1,1)"},
                       {"adj", "(1,2)"},
                       {"no_bias", "0"}},
       .inputs = {{2, 3, 3, 4}, {3, 2, 4, 3}, {2}}},
      {.name = "stride_beyond_the_kernel",
       .parameters = P{{"kernel", "(1,2)"}, {"num_filter", "2"}, {"stride", "(3,3)"}},
       .inputs = {{1, 2, 3, 2}, {2, 2, 1, 2}}},
      {.name = "dilated",
       .parameters = P{{"kernel", "(3,2)"}, {"num_filter", "2"}, {"dilate", "(2,3)"}},
       .inputs = {{1, 2, 3, 4}, {2, 2, 3, 2}}},
      {.name = "target_shape",
       .parameters = P{{"kernel", "(3,3)"},
                       {"num_filter", "2"},
                       {"stride", "(2,2)"},
                       {"pad", "(2,2)"},
                       {"adj", "(1,1)"},
                       {"target_shape", "(7,8)"}},
       .inputs = {{1, 2, 4, 4}, {2, 2, 3, 3}}},
      {.name = "target_shape_of_zeros",
       .parameters = P{{"kernel", "(3,3)"}, {"num_filter", "2"}, {"target_shape", "(0,0)"}},
       .inputs = {{1, 2, 3, 4}, {2, 2, 3, 3}}},
      {.name = "target_beyond_the_positions",
       .parameters = P{{"kernel", "(3,3)"}, {"num_filter", "2"}, {"target_shape", "(5,3)"}},
       .inputs = {{1, 2, 4, 4}, {2, 2, 3, 3}}},
      {.name = "grouped",
       .parameters =
           P{{"kernel", "(2,2)"}, {"num_filter", "6"}, {"num_group", "2"}, {"no_bias", "0"}},
       .inputs = {{2, 4, 3, 3}, {4, 3, 2, 2}, {6}}},
      {.name = "depthwise",
       .parameters = P{{"kernel", "(4,4)"},
                       {"num_filter", "3"},
                       {"num_group", "3"},
                       {"stride", "(2,2)"},
                       {"pad", "(1,1)"}},
       .inputs = {{2, 3, 3, 4}, {3, 1, 4, 4}}},
      {.name = "depthwise_of_two_channels_a_group",
       .parameters = P{{"kernel", "(3,3)"},
                       {"num_filter", "3"},
                       {"num_group", "3"},
                       {"stride", "(2,2)"},
                       {"pad", "(1,0)"},
                       {"adj", "(1,0)"},
                       {"no_bias", "0"}},
       .inputs = {{2, 6, 3, 4}, {6, 1, 3, 3}, {3}}},
      {.name = "few_channels_a_group",
       .parameters = P{{"kernel", "(3,3)"},
                       {"num_filter", "6"},
                       {"num_group", "2"},
                       {"pad", "(1,2)"},
                       {"no_bias", "0"}},
       .inputs = {{2, 4, 5, 6}, {4, 3, 3, 3}, {6}}},
      {.name = "same_size",
       .parameters =
           P{{"kernel", "(3,3)"}, {"num_filter", "2"}, {"pad", "(1,1)"}, {"no_bias", "0"}},
       .inputs = {{2, 3, 5, 4}, {3, 2, 3, 3}, {2}}},
      {.name = "kernel_1x1",
       .parameters = P{{"kernel", "(1,1)"}, {"num_filter", "5"}, {"no_bias", "0"}},
       .inputs = {{2, 4, 3, 2}, {4, 5, 1, 1}, {5}}},
      {.name = "one_dimension",
       .parameters = P{{"kernel", "(3,)"},
                       {"num_filter", "2"},
                       {"stride", "(2,)"},
                       {"adj", "(1,)"},
                       {"layout", "NCW"}},
       .inputs = {{2, 3, 5}, {3, 2, 3}}},
      {.name = "three_dimensions",
       .parameters = P{{"kernel", "(2,3,2)"},
                       {"num_filter", "4"},
                       {"stride", "(2,1,2)"},
                       {"dilate", "(1,2,1)"},
                       {"pad", "(1,0,0)"},
                       {"adj", "(1,0,1)"},
                       {"num_group", "2"},
                       {"no_bias", "0"}},
       .inputs = {{2, 2, 3, 2, 3}, {2, 2, 2, 3, 2}, {4}}},
      {.name = "channels_last",
       .parameters = P{{"kernel", "(3,2)"},
                       {"num_filter", "6"},
                       {"num_group", "2"},
                       {"stride", "(2,1)"},
                       {"pad", "(1,0)"},
                       {"no_bias", "0"},
                       {"layout", "NHWC"}},
       .inputs = {{2, 3, 4, 4}, {4, 3, 2, 3}, {6}}},
      {.name = "channels_last_of_one_dimension",
       .parameters =
           P{{"kernel", "(3,)"}, {"num_filter", "2"}, {"stride", "(2,)"}, {"layout", "NWC"}},
       .inputs = {{2, 5, 3}, {3, 3, 2}}},
      {.name = "channels_last_of_three_dimensions",
       .parameters = P{{"kernel", "(2,3,2)"}, {"num_filter", "4"}, {"layout", "NDHWC"}},
       .inputs = {{2, 3, 2, 3, 2}, {2, 2, 3, 2, 4}}},
      {.name = "batch_0",
       .parameters = P{{"kernel", "(3,3)"}, {"num_filter", "4"}},
       .inputs = {{0, 3, 4, 5}, {3, 4, 3, 3}}},
      {.name = "no_channels",
       .parameters = P{{"kernel", "(3,3)"}, {"num_filter", "2"}},
       .inputs = {{2, 0, 3, 4}, {0, 2, 3, 3}}},
      {.name = "batch_17",
       .parameters = P{{"kernel", "(4,4)"}, {"num_filter", "8"}, {"stride", "(2,2)"}},
       .inputs = {{17, 6, 8, 7}, {6, 8, 4, 4}},
       .large = true},
      // Channels in blocks.
      {.name = "blocks_of_channels",
       .parameters = P{{"kernel", "(5,5)"}, {"num_filter", "20"}, {"stride", "(1,2)"}},
       .inputs = {{1, 2, 30, 30}, {2, 20, 5, 5}},
       .large = true},
  };
}

std::vector<ErrorCase> Errors() {
  using P = ParameterMap;
  const auto with = [](P more) {
    more.insert({{"kernel", "(3,3)"}, {"num_filter", "4"}});
    return more;
  };
  return {
      {.name = "without_kernel",
       .parameters = P{{"num_filter", "4"}},
       .words = {"required", "kernel"}},
      {.name = "adj_as_large_as_the_stride",
       .parameters = with({{"adj", "(1,0)"}}),
       .words = {"adj", "(1,0)", "stride"}},
      {.name = "adj_of_other_rank",
       .parameters = with({{"adj", "(0,)"}}),
       .words = {"adj", "kernel"}},
      {.name = "negative_target",
       .parameters = with({{"target_shape", "(-2,3)"}}),
       .words = {"target_shape"}},
      {.name = "target_too_large",
       .parameters = with({{"target_shape", "(6,7)"}}),
       .inputs = {{1, 2, 4, 4}},
       .words = {"target_shape=(6,7)", "larger", "(1,2,4,4)"}},
      {.name = "no_output",
       .parameters = with({{"pad", "(3,3)"}}),
       .inputs = {{1, 2, 4, 4}},
       .words = {"pad=(3,3)", "(1,2,4,4)"}},
      {.name = "groups_that_do_not_divide_channels",
       .parameters = with({{"num_group", "2"}}),
       .inputs = {{2, 3, 5, 5}},
       .words = {"num_group=2", "3 channels"}},
      {.name = "groups_that_do_not_divide_filters",
       .parameters = with({{"num_group", "3"}}),
       .words = {"num_group=3", "num_filter=4"}},
      {.name = "huge_image",
       .parameters = with({{"stride", "(2000000000,1)"}}),
       .inputs = {{1, 1, 9000000000000000000, 3}},
       .words = {"2^62"}},
      {.name = "unknown_layout",
       .parameters = with({{"layout", "CHWN"}}),
       .code = Error::kUnimplemented,
       .words = {"layout", "CHWN", "NCHW", "NHWC"}},
      {.name = "weight_of_other_filters",
       .parameters = with({}),
       .inputs = {{2, 3, 5, 5}, {3, 2, 3, 3}},
       .words = {"weight", "(3,2,3,3)", "(3,4,3,3)"}},
  };
}

const RowRegistration kRow({
    .name = "Deconvolution",
    .cases = Cases(),
    .forward = OfAllLayouts(Forward, 2),
    .backward = GradientOfAllLayouts(Backward, 2),
    .forward_tolerance = {.of_largest = true},
    .backward_tolerance = {.float64 = 2e-14, .of_largest = true},
    .errors = Errors(),
});

}  // namespace
}  // namespace tessera::ops_testing
