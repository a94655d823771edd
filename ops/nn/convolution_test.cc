#include <vector>

#include "tessera/ops/nn/window_reference.h"
#include "tessera/ops/testing/operator_row.h"

namespace tessera::ops_testing {
namespace {

ConvolutionReference Reference(const ParameterMap& parameters, const TShape& data) {
  const ParameterReader p(parameters);
  const int rank = data.ndim();
  ConvolutionReference c = {.batch = data[0],
                            .groups = p.Int("num_group", 1),
                            .channels = data[1],
                            .filters = p.Int("num_filter", 0),
                            .in = Spatial(data),
                            .kernel = Extents(p, "kernel", rank, 1, 1),
                            .stride = Extents(p, "stride", rank, 1, 1),
                            .dilate = Extents(p, "dilate", rank, 1, 1),
                            .pad = Extents(p, "pad", rank, 0, 0)};
  for (size_t d = 0; d < 3; ++d) {
    const index_t window = (c.kernel[d] - 1) * c.dilate[d] + 1;
    c.out[d] = (c.in[d] + 2 * c.pad[d] - window) / c.stride[d] + 1;
  }
  return c;
}

/// The products of a convolution, for SumProducts.
auto ProductsOf(const ConvolutionReference& c) {
  return [&c](const auto& visit) { c.ForEachProduct(visit); };
}

std::vector<Values> Forward(const ParameterMap& parameters, const std::vector<Values>& in,
                            std::vector<Values>*) {
  const ConvolutionReference c = Reference(parameters, in[0].shape);
  return SumProducts(in, Values(ImageOf(c.batch, c.filters, c.out, in[0].shape.ndim())),
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
       .inputs = {{2, 3, 5, 6}, {4, 3, 3, 3}, {4}}},
      {.name = "no_bias",
       .parameters = P{{"kernel", "(3,3)"}, {"num_filter", "4"}, {"no_bias", "True"}},
       .inputs = {{2, 3, 5, 6}, {4, 3, 3, 3}}},
      {.name = "padded",
       .parameters = P{{"kernel", "(3,3)"}, {"num_filter", "2"}, {"pad", "(1,1)"}},
       .inputs = {{2, 3, 4, 5}, {2, 3, 3, 3}, {2}}},
      {.name = "padding_wider_than_the_kernel",
       .parameters = P{{"kernel", "(2,1)"}, {"num_filter", "2"}, {"pad", "(3,2)"}},
       .inputs = {{1, 2, 2, 3}, {2, 2, 2, 1}, {2}}},
      {.name = "strided",
       .parameters = P{{"kernel", "(3,2)"}, {"num_filter", "3"}, {"stride", "(2,3)"}},
       .inputs = {{2, 2, 8, 9}, {3, 2, 3, 2}, {3}}},
      {.name = "stride_beyond_the_kernel",
       .parameters = P{{"kernel", "(1,1)"}, {"num_filter", "3"}, {"stride", "(3,2)"}},
       .inputs = {{2, 2, 7, 5}, {3, 2, 1, 1}, {3}}},
      {.name = "dilated",
       .parameters = P{{"kernel", "(3,2)"}, {"num_filter", "3"}, {"dilate", "(2,3)"}},
       .inputs = {{2, 2, 7, 6}, {3, 2, 3, 2}, {3}}},
      {.name = "strided_dilated_padded",
       .parameters = P{{"kernel", "(3,3)"},
                       {"num_filter", "2"},
                       {"stride", "(2,1)"},
                       {"dilate", "(1,2)"},
                       {"pad", "(1,3)"}},
       .inputs = {{2, 2, 6, 5}, {2, 2, 3, 3}, {2}}},
      {.name = "grouped",
       .parameters = P{{"kernel", "(2,2)"}, {"num_filter", "6"}, {"num_group", "2"}},
       .inputs = {{2, 4, 4, 3}, {6, 2, 2, 2}, {6}}},
      {.name = "depthwise",
       .parameters = P{{"kernel", "(3,3)"},
                       {"num_filter", "3"},
                       {"num_group", "3"},
                       {"pad", "(1,1)"},
                       {"no_bias", "True"}},
       .inputs = {{2, 3, 4, 4}, {3, 1, 3, 3}}},
      {.name = "kernel_1x1",
       .parameters = P{{"kernel", "(1,1)"}, {"num_filter", "5"}},
       .inputs = {{3, 4, 3, 2}, {5, 4, 1, 1}, {5}}},
      {.name = "kernel_1x1_grouped",
       .parameters = P{{"kernel", "(1,1)"}, {"num_filter", "4"}, {"num_group", "2"}},
       .inputs = {{2, 6, 3, 2}, {4, 3, 1, 1}, {4}}},
      {.name = "kernel_1x1_padded",
       .parameters = P{{"kernel", "(1,1)"}, {"num_filter", "2"}, {"pad", "(1,0)"}},
       .inputs = {{2, 3, 3, 2}, {2, 3, 1, 1}, {2}}},
      {.name = "kernel_of_the_image",
       .parameters = P{{"kernel", "(4,3)"}, {"num_filter", "5"}},
       .inputs = {{3, 2, 4, 3}, {5, 2, 4, 3}, {5}}},
      {.name = "one_dimension",
       .parameters = P{{"kernel", "(3,)"}, {"num_filter", "4"}, {"layout", "NCW"}},
       .inputs = {{2, 3, 9}, {4, 3, 3}, {4}}},
      {.name = "one_dimension_strided_dilated_padded",
       .parameters = P{{"kernel", "(3,)"},
                       {"num_filter", "4"},
                       {"stride", "(2,)"},
                       {"dilate", "(2,)"},
                       {"pad", "(3,)"},
                       {"num_group", "2"}},
       .inputs = {{2, 4, 9}, {4, 2, 3}, {4}}},
      {.name = "three_dimensions",
       .parameters = P{{"kernel", "(2,3,2)"}, {"num_filter", "3"}, {"layout", "NCDHW"}},
       .inputs = {{2, 2, 3, 4, 5}, {3, 2, 2, 3, 2}, {3}}},
      {.name = "three_dimensions_with_everything",
       .parameters = P{{"kernel", "(3,2,3)"},
                       {"num_filter", "4"},
                       {"stride", "(2,1,3)"},
                       {"dilate", "(1,2,2)"},
                       {"pad", "(1,0,2)"},
                       {"num_group", "2"},
                       {"workspace", "1"},
                       {"cudnn_tune", "fastest"},
                       {"cudnn_off", "1"}},
       .inputs = {{2, 2, 4, 5, 6}, {4, 1, 3, 2, 3}, {4}}},
      {.name = "depthwise_with_a_multiplier",
       .parameters = P{{"kernel", "(3,2)"},
                       {"num_filter", "6"},
                       {"num_group", "3"},
                       {"stride", "(2,1)"},
                       {"pad", "(1,1)"}},
       .inputs = {{2, 3, 5, 4}, {6, 1, 3, 2}, {6}}},
      {.name = "depthwise_of_one_dimension",
       .parameters = P{{"kernel", "(3,)"}, {"num_filter", "4"}, {"num_group", "4"}},
       .inputs = {{2, 4, 7}, {4, 1, 3}, {4}}},
      {.name = "depthwise_of_three_dimensions",
       .parameters = P{{"kernel", "(2,2,2)"},
                       {"num_filter", "2"},
                       {"num_group", "2"},
                       {"stride", "(1,2,3)"},
                       {"no_bias", "1"}},
       .inputs = {{2, 2, 3, 4, 5}, {2, 1, 2, 2, 2}}},
      {.name = "batch_0",
       .parameters = P{{"kernel", "(3,3)"}, {"num_filter", "4"}},
       .inputs = {{0, 3, 5, 6}, {4, 3, 3, 3}, {4}}},
      {.name = "batch_1",
       .parameters = P{{"kernel", "(3,3)"}, {"num_filter", "4"}},
       .inputs = {{1, 3, 5, 6}, {4, 3, 3, 3}, {4}}},
      {.name = "no_channels",
       .parameters = P{{"kernel", "(3,3)"}, {"num_filter", "2"}},
       .inputs = {{2, 0, 5, 6}, {2, 0, 3, 3}, {2}}},
      // Images fall into two chunks, of 8 and 9.
      {.name = "batch_17",
       .parameters = P{{"kernel", "(3,3)"}, {"num_filter", "3"}, {"pad", "(1,1)"}},
       .inputs = {{17, 2, 4, 4}, {3, 2, 3, 3}, {3}},
       .large = true},
      // The second layer of the digits network with fewer channels: 16 chunks, blocked products.
      {.name = "batch_130",
       .parameters = P{{"kernel", "(3,3)"}, {"num_filter", "20"}, {"pad", "(1,1)"}},
       .inputs = {{130, 9, 8, 8}, {20, 9, 3, 3}, {20}},
       .dtypes = {DType::kFloat32, DType::kBFloat16},
       .large = true},
      // Tiles of whole lines, and of parts of one.
      {.name = "tiles_of_lines",
       .parameters = P{{"kernel", "(5,5)"}, {"num_filter", "2"}, {"stride", "(1,2)"}},
       .inputs = {{1, 24, 40, 40}, {2, 24, 5, 5}, {2}},
       .large = true},
      {.name = "tiles_of_parts_of_a_line",
       .parameters = P{{"kernel", "(9,)"}, {"num_filter", "2"}, {"pad", "(4,)"}},
       .inputs = {{2, 20, 3001}, {2, 20, 9}, {2}},
       .large = true},
      // Sixteen lines of a depthwise convolution are worth several tasks.
      {.name = "depthwise_in_parallel",
       .parameters =
           P{{"kernel", "(3,3)"}, {"num_filter", "16"}, {"num_group", "16"}, {"pad", "(1,1)"}},
       .inputs = {{3, 16, 21, 37}, {16, 1, 3, 3}, {16}},
       .large = true},
  };
}

std::vector<ErrorCase> Errors() {
  using P = ParameterMap;
  return {
      {.name = "without_kernel",
       .parameters = P{{"num_filter", "4"}},
       .words = {"required", "kernel"}},
      {.name = "without_num_filter",
       .parameters = P{{"kernel", "(3,3)"}},
       .words = {"required", "num_filter"}},
      {.name = "kernel_of_no_extent",
       .parameters = P{{"kernel", "(3,0)"}, {"num_filter", "4"}},
       .words = {"kernel", "(3,0)"}},
      {.name = "negative_pad",
       .parameters = P{{"kernel", "(3,3)"}, {"num_filter", "4"}, {"pad", "(-1,0)"}},
       .words = {"pad", "expected [0,"}},
      {.name = "huge_stride",
       .parameters = P{{"kernel", "(3,3)"}, {"num_filter", "4"}, {"stride", "(4294967296,1)"}},
       .words = {"stride", "4294967296"}},
      {.name = "stride_of_other_rank",
       .parameters = P{{"kernel", "(3,3)"}, {"num_filter", "4"}, {"stride", "(2,)"}},
       .words = {"stride", "(2,)", "2"}},
      {.name = "bad_shape_text",
       .parameters = P{{"kernel", "(3,x)"}, {"num_filter", "4"}},
       .words = {"kernel", "(3,x)"}},
      {.name = "four_dimensions",
       .parameters = P{{"kernel", "(3,3,3,3)"}, {"num_filter", "4"}},
       .code = Error::kUnimplemented,
       .words = {"kernel", "(3,3,3,3)"}},
      {.name = "huge_image",
       .parameters = P{{"kernel", "(3,)"}, {"num_filter", "4"}},
       .inputs = {{1, 1, 9223372036854775807}},
       .words = {"2^62"}},
      {.name = "no_dimensions",
       .parameters = P{{"kernel", "()"}, {"num_filter", "4"}},
       .words = {"kernel", "()"}},
      {.name = "groups_that_do_not_divide_filters",
       .parameters = P{{"kernel", "(3,3)"}, {"num_filter", "4"}, {"num_group", "3"}},
       .words = {"num_group=3", "num_filter=4"}},
      {.name = "groups_that_do_not_divide_channels",
       .parameters = P{{"kernel", "(3,3)"}, {"num_filter", "4"}, {"num_group", "2"}},
       .inputs = {{2, 3, 5, 5}},
       .words = {"num_group=2", "3 channels"}},
      {.name = "channels_last",
       .parameters = P{{"kernel", "(3,3)"}, {"num_filter", "4"}, {"layout", "NHWC"}},
       .code = Error::kUnimplemented,
       .words = {"layout", "NHWC", "NCHW"}},
      {.name = "kernel_beyond_the_image",
       .parameters = P{{"kernel", "(3,3)"}, {"num_filter", "4"}},
       .inputs = {{2, 3, 2, 5}},
       .words = {"kernel", "(3,3)", "(2,3,2,5)"}},
      {.name = "data_of_other_rank",
       .parameters = P{{"kernel", "(3,3)"}, {"num_filter", "4"}},
       .inputs = {{2, 3, 5}},
       .words = {"data", "(2,3,5)", "kernel=(3,3)", "4 dimensions"}},
      {.name = "weight_of_other_channels",
       .parameters = P{{"kernel", "(3,3)"}, {"num_filter", "4"}},
       .inputs = {{2, 3, 5, 5}, {4, 2, 3, 3}},
       .words = {"weight", "(4,2,3,3)", "(4,3,3,3)"}},
  };
}

const RowRegistration kRow({
    .name = "Convolution",
    .cases = Cases(),
    .forward = Forward,
    .backward = Backward,
    .forward_tolerance = {.of_largest = true},
    .backward_tolerance = {.float64 = 2e-14, .of_largest = true},
    .errors = Errors(),
});

}  // namespace
}  // namespace tessera::ops_testing
