#include <string>
#include <vector>

#include "tessera/ops/testing/operator_row.h"
#include "tessera/ops/testing/window_reference.h"

namespace tessera::ops_testing {
namespace {

/// The windows over images of a shape.
struct Windows {
  Windows(const ParameterMap& parameters, const TShape& shape) : image(shape) {
    const ParameterReader p(parameters);
    const int rank = shape.ndim();
    reference = {.batch = shape[0],
                 .groups = shape[1],
                 .channels = shape[1],
                 .filters = shape[1],
                 .in = Spatial(shape),
                 .out = {},
                 .kernel = Extents(p, "kernel", rank, 1, 1),
                 .stride = Extents(p, "stride", rank, 1, 1),
                 .dilate = Extents(p, "dilate", rank, 1, 1),
                 .pad = Extents(p, "pad", rank, 0, 0)};
    columns = {shape[0], shape[1], 1};
    for (size_t d = 0; d < 3; ++d) {
      const index_t reach = (reference.kernel[d] - 1) * reference.dilate[d] + 1;
      reference.out[d] = (reference.in[d] + 2 * reference.pad[d] - reach) / reference.stride[d] + 1;
      columns[1] *= reference.kernel[d];
      columns[2] *= reference.out[d];
    }
  }

  /// Calls visit(i_image, i_columns).
  template <typename Visit>
  void ForEach(const Visit& visit) const {
    if (image.Size() == 0) return;
    const index_t taps = reference.kernel[0] * reference.kernel[1] * reference.kernel[2];
    reference.ForEachProduct([&](index_t o, index_t w, index_t i) {
      visit(i, (o / columns[2] * taps + w % taps) * columns[2] + o % columns[2]);
    });
  }
  Values Unpack(const Values& from) const {
    Values to(columns);
    ForEach([&](index_t i, index_t k) { to[k] = from[i]; });
    return to;
  }
  Values Pack(const Values& from) const {
    Values to(image);
    ForEach([&](index_t i, index_t k) { to[i] += from[k]; });
    return to;
  }

  TShape image, columns;
  ConvolutionReference reference;
};

/// Returns the windows over the image that the columns are packed into.
Windows Target(const ParameterMap& parameters, const TShape& columns) {
  const TShape size = TShape::Parse(parameters.at("output_size"));
  const TShape kernel = TShape::Parse(parameters.at("kernel"));
  TShape image = TShape::OfRank(2 + size.ndim());
  image[0] = columns[0];
  image[1] = columns[1] / kernel.Size();
  for (int i = 0; i < size.ndim(); ++i) image[2 + i] = size[i];
  return Windows(parameters, image);
}

struct WindowCase {
  std::string name;
  ParameterMap parameters;
  TShape image;
};

std::vector<WindowCase> WindowCases() {
  return {
      {"image", {{"kernel", "(2, 3)"}}, {2, 3, 4, 5}},
      {"strides", {{"kernel", "(3, 2)"}, {"stride", "(2, 3)"}, {"pad", "(1, 2)"}}, {1, 2, 6, 5}},
      {"dilated", {{"kernel", "(2, 2)"}, {"dilate", "(2, 3)"}, {"pad", "(2, 1)"}}, {1, 2, 4, 6}},
      {"line", {{"kernel", "(3,)"}, {"stride", "(2,)"}, {"pad", "(1,)"}}, {2, 3, 7}},
      {"volume", {{"kernel", "(2, 1, 2)"}, {"pad", "(1, 0, 0)"}}, {1, 2, 3, 2, 3}},
      {"one_tap", {{"kernel", "(1, 1)"}}, {2, 3, 3, 4}},
      {"no_samples", {{"kernel", "(2, 2)"}}, {0, 3, 3, 4}},
      {"no_channels", {{"kernel", "(2, 2)"}}, {2, 0, 3, 4}},
      {"parallel", {{"kernel", "(3, 3)"}, {"pad", "(1, 1)"}}, {3, 4, 30, 41}},
  };
}

OperatorRow Im2Col() {
  OperatorRow row;
  row.name = "im2col";
  row.forward = [](const ParameterMap& parameters, const std::vector<Values>& in,
                   std::vector<Values>*) {
    return std::vector<Values>{Windows(parameters, in[0].shape).Unpack(in[0])};
  };
  row.backward = [](const ParameterMap& parameters, const std::vector<Values>& out_grad,
                    const std::vector<Values>& in, const std::vector<Values>&) {
    return std::vector<Values>{Windows(parameters, in[0].shape).Pack(out_grad[0])};
  };
  for (const WindowCase& c : WindowCases()) {
    row.cases.push_back({.name = c.name,
                         .parameters = c.parameters,
                         .inputs = {c.image},
                         .large = c.name == "parallel"});
  }
  row.errors = {
      {.name = "no_kernel", .parameters = {{"kernel", "()"}}, .words = {"kernel"}},
      {.name = "stride_0",
       .parameters = {{"kernel", "(2, 2)"}, {"stride", "(0, 1)"}},
       .words = {"stride", "(0,1)"}},
      {.name = "stride_of_one",
       .parameters = {{"kernel", "(2, 2)"}, {"stride", "(2,)"}},
       .words = {"stride", "(2,)"}},
      {.name = "large_kernel",
       .parameters = {{"kernel", "(3, 3)"}},
       .inputs = {{1, 2, 2, 5}},
       .words = {"(3,3)", "(1,2,2,5)"}},
      {.name = "line",
       .parameters = {{"kernel", "(3, 3)"}},
       .inputs = {{1, 2, 5}},
       .words = {"data", "(1,2,5)"}},
  };
  row.backward_tolerance = {.float32 = 2e-6, .of_largest = true};
  return row;
}

OperatorRow Col2Im() {
  OperatorRow row;
  row.name = "col2im";
  row.forward = [](const ParameterMap& parameters, const std::vector<Values>& in,
                   std::vector<Values>*) {
    return std::vector<Values>{Target(parameters, in[0].shape).Pack(in[0])};
  };
  row.backward = [](const ParameterMap& parameters, const std::vector<Values>& out_grad,
                    const std::vector<Values>& in, const std::vector<Values>&) {
    return std::vector<Values>{Target(parameters, in[0].shape).Unpack(out_grad[0])};
  };
  for (const WindowCase& c : WindowCases()) {
    ParameterMap parameters = c.parameters;
    std::string size = "(";
    for (int i = 2; i < c.image.ndim(); ++i) size += std::to_string(c.image[i]) + ",";
    parameters["output_size"] = size + ")";
    row.cases.push_back({.name = c.name,
                         .parameters = parameters,
                         .inputs = {Windows(parameters, c.image).columns},
                         .large = c.name == "parallel"});
  }
  const ParameterMap to = {{"kernel", "(3, 3)"}, {"output_size", "(8, 9)"}};
  row.errors = {
      {.name = "no_size", .parameters = {{"kernel", "(2, 2)"}}, .words = {"output_size"}},
      {.name = "size_of_one",
       .parameters = {{"kernel", "(2, 2)"}, {"output_size", "(8,)"}},
       .words = {"output_size", "(8,)"}},
      {.name = "size_0",
       .parameters = {{"kernel", "(2, 2)"}, {"output_size", "(0, 4)"}},
       .words = {"output_size", "(0,4)"}},
      {.name = "rows", .parameters = to, .inputs = {{2, 28, 42}}, .words = {"(2,28,42)", "9 taps"}},
      {.name = "positions", .parameters = to, .inputs = {{2, 27, 36}}, .words = {"(2,27,36)"}},
      {.name = "two_axes", .parameters = to, .inputs = {{27, 42}}, .words = {"data", "(27,42)"}},
  };
  row.forward_tolerance = {.float32 = 2e-6, .of_largest = true};
  return row;
}

const RowRegistration kIm2ColRow(Im2Col());
const RowRegistration kCol2ImRow(Col2Im());

}  // namespace
}  // namespace tessera::ops_testing
