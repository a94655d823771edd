#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "tessera/ops/quantization/quantized_reference.h"
#include "tessera/ops/testing/operator_row.h"
#include "tessera/ops/testing/window_reference.h"

namespace tessera::ops_testing {
namespace {

/// The windows over an image.
struct Windows {
  Windows(const ParameterMap& parameters, const TShape& data) : image(Spatial(data)) {
    const ParameterReader p(parameters);
    const int rank = data.ndim();
    const bool global = p.Bool("global_pool", false);
    kernel = global ? image : Extents(p, "kernel", rank, 1, 1);
    stride = Extents(p, "stride", rank, 1, 1);
    pad = Extents(p, "pad", rank, 0, 0);
    for (size_t d = 0; d < 3; ++d) {
      const index_t slack = image[d] + 2 * pad[d] - kernel[d];
      const bool partial = p.Text("pooling_convention", "valid") == "full";
      out[d] = (slack + (partial ? stride[d] - 1 : 0)) / stride[d] + 1;
    }
  }
  /// Returns the elements of an image that the window at position i covers.
  std::vector<index_t> ElementsOf(index_t i) const {
    const Extents3 o = {i / (out[1] * out[2]), i / out[2] % out[1], i % out[2]};
    std::vector<index_t> elements;
    for (index_t e = 0; e < image[0] * image[1] * image[2]; ++e) {
      const Extents3 x = {e / (image[1] * image[2]), e / image[2] % image[1], e % image[2]};
      bool inside = true;
      for (size_t d = 0; d < 3; ++d) {
        const index_t tap = x[d] - (o[d] * stride[d] - pad[d]);
        inside = inside && tap >= 0 && tap < kernel[d];
      }
      if (inside) elements.push_back(e);
    }
    return elements;
  }

  Extents3 image, kernel, stride, pad, out;
};

std::vector<Values> Forward(const ParameterMap& parameters, const std::vector<Values>& in,
                            std::vector<Values>*) {
  const ParameterReader p(parameters);
  const Windows w(parameters, in[0].shape);
  const bool max = p.Text("pool_type", "max") == "max";
  const bool padded = p.Bool("count_include_pad", true);
  Values out(ImageOf(in[0].shape[0], in[0].shape[1], w.out, in[0].shape.ndim()));
  const index_t positions = w.out[0] * w.out[1] * w.out[2];
  const index_t size = w.image[0] * w.image[1] * w.image[2];
  for (index_t i = 0; i < out.size(); ++i) {
    const std::vector<index_t> elements = w.ElementsOf(i % positions);
    double sum = 0, maximum = -128;
    for (const index_t e : elements) {
      const double x = in[0][i / positions * size + e];
      sum += x;
      maximum = std::max(maximum, x);
    }
    const double count = padded ? static_cast<double>(w.kernel[0] * w.kernel[1] * w.kernel[2])
                                : static_cast<double>(elements.size());
    out[i] = max ? maximum : elements.empty() ? 0 : std::nearbyint(sum / count);
  }
  return {out, in[1], in[2]};
}

OperatorRow Row() {
  OperatorRow row = RowOfCodes("_contrib_quantized_pooling");
  row.forward = Forward;
  const auto add = [&row](const std::string& name, const ParameterMap& parameters,
                          const TShape& data, DType type = DType::kInt8) {
    row.cases.push_back(Arguments().AddCodes(type, data).AddRange(-1, 2).Case(name, parameters));
  };
  add("max", {{"kernel", "(2,2)"}}, {2, 3, 4, 5});
  add("max_uint8", {{"kernel", "(2,2)"}, {"stride", "(2,2)"}}, {1, 2, 4, 4}, DType::kUint8);
  add("max_padded", {{"kernel", "(3,3)"}, {"pad", "(1,2)"}}, {1, 2, 3, 4});
  // An average of four elements is often in the middle of two integers.
  add("avg", {{"kernel", "(2,2)"}, {"pool_type", "avg"}}, {2, 2, 5, 5});
  add("avg_uint8", {{"kernel", "(2,2)"}, {"pool_type", "avg"}}, {2, 2, 5, 5}, DType::kUint8);
  const ParameterMap padded = {
      {"kernel", "(3,3)"}, {"pad", "(1,1)"}, {"stride", "(2,1)"}, {"pool_type", "avg"}};
  add("avg_padded", padded, {1, 2, 5, 4});
  ParameterMap without = padded;
  without["count_include_pad"] = "False";
  add("avg_without_padding", without, {1, 2, 5, 4});
  ParameterMap full = padded;
  full["pooling_convention"] = "full";
  full["stride"] = "(3,3)";
  add("avg_full", full, {1, 2, 5, 6});
  add("max_full", {{"kernel", "(2,2)"}, {"stride", "(2,3)"}, {"pooling_convention", "full"}},
      {1, 2, 5, 4});
  add("global", {{"global_pool", "True"}, {"pool_type", "avg"}}, {2, 3, 3, 5});
  add("one_dimension", {{"kernel", "(2,)"}}, {2, 2, 5});
  add("three_dimensions", {{"kernel", "(2,2,2)"}, {"pool_type", "avg"}}, {1, 2, 3, 3, 3});
  add("no_images", {{"kernel", "(2,2)"}}, {0, 2, 3, 3});
  const ParameterMap kernel = {{"kernel", "(3,3)"}};
  row.errors = {
      {.name = "sum",
       .parameters = {{"kernel", "(2,2)"}, {"pool_type", "sum"}},
       .words = {"pool_type=sum", "max or avg"}},
      {.name = "same",
       .parameters = {{"kernel", "(2,2)"}, {"pooling_convention", "same"}},
       .words = {"pooling_convention=same"}},
      {.name = "no_kernel", .words = {"kernel"}},
      {.name = "kernel_does_not_fit",
       .parameters = kernel,
       .inputs = {{1, 2, 2, 5}},
       .words = {"kernel", "(1,2,2,5)"}},
      {.name = "vector_of_ranges",
       .parameters = kernel,
       .inputs = {{1, 2, 5, 5}, {2}},
       .words = {"min_data", "(2,)", "(1,)"}},
  };
  return row;
}

const RowRegistration kRow(Row());

}  // namespace
}  // namespace tessera::ops_testing
