#include <string>
#include <vector>

#include "tessera/ops/testing/operator_row.h"

namespace tessera::ops_testing {
namespace {

/// The windows over images of a shape.
struct Windows {
  TShape in, out;

  Windows(const ParameterMap& parameters, const TShape& shape) : in(shape), out(shape) {
    const ParameterReader p(parameters);
    const std::string text = p.Text("output_size", "1");
    const bool pair = text.find(',') != std::string::npos && text.find(",)") == std::string::npos;
    const size_t digit = text.find_first_of("0123456789");
    out[2] = std::stoll(text.substr(digit));
    out[3] = pair ? std::stoll(text.substr(text.find(',') + 1)) : out[2];
  }

  /// Calls visit(i_out, i_in, share) for each element of each window.
  template <typename Visit>
  void ForEachElement(const Visit& visit) const {
    for (index_t k = 0; k < out.Size(); ++k) {
      const index_t x = k % out[3], y = k / out[3] % out[2], plane = k / (out[2] * out[3]);
      // Element i overlaps [o extent / size, (o + 1) extent / size).
      const auto inside = [this](int d, index_t i, index_t o) {
        return (i + 1) * out[d] > o * in[d] && i * out[d] < (o + 1) * in[d];
      };
      std::vector<index_t> elements;
      for (index_t i = 0; i < in[2] * in[3]; ++i) {
        if (inside(2, i / in[3], y) && inside(3, i % in[3], x)) elements.push_back(i);
      }
      for (const index_t i : elements) {
        visit(k, plane * in[2] * in[3] + i, 1 / static_cast<double>(elements.size()));
      }
    }
  }
};

std::vector<Values> Forward(const ParameterMap& parameters, const std::vector<Values>& in,
                            std::vector<Values>*) {
  const Windows windows(parameters, in[0].shape);
  Values out(windows.out);
  windows.ForEachElement([&](index_t o, index_t i, double share) { out[o] += in[0][i] * share; });
  return {out};
}

std::vector<Values> Backward(const ParameterMap& parameters, const std::vector<Values>& out_grad,
                             const std::vector<Values>& in, const std::vector<Values>&) {
  Values grad(in[0].shape);
  Windows(parameters, in[0].shape).ForEachElement([&](index_t o, index_t i, double share) {
    grad[i] += out_grad[0][o] * share;
  });
  return {grad};
}

OperatorRow Row() {
  using P = ParameterMap;
  OperatorRow row;
  row.name = "_contrib_AdaptiveAvgPooling2D";
  row.forward = Forward;
  row.backward = Backward;
  const TShape image = {2, 3, 5, 7};
  row.cases = {
      {.name = "to_one", .parameters = P{}, .inputs = {image}},
      {.name = "square", .parameters = P{{"output_size", "2"}}, .inputs = {image}},
      {.name = "tuple_of_one", .parameters = P{{"output_size", "(3,)"}}, .inputs = {image}},
      {.name = "pair", .parameters = P{{"output_size", "(2, 3)"}}, .inputs = {image}},
      {.name = "larger", .parameters = P{{"output_size", "(7,9)"}}, .inputs = {{1, 2, 3, 4}}},
      {.name = "of_one_size", .parameters = P{{"output_size", "(5,7)"}}, .inputs = {image}},
      {.name = "of_nothing", .parameters = P{{"output_size", "2"}}, .inputs = {{0, 3, 5, 5}}},
      {.name = "parallel",
       .parameters = P{{"output_size", "(3,5)"}},
       .inputs = {{3, 8, 40, 45}},
       .dtypes = {DType::kFloat32},
       .large = true},
  };
  row.errors = {
      {.name = "size_0", .parameters = P{{"output_size", "(0,2)"}}, .words = {"output_size"}},
      {.name = "three_sizes",
       .parameters = P{{"output_size", "(1,2,3)"}},
       .words = {"output_size"}},
      {.name = "no_pixels", .inputs = {{1, 2, 0, 3}}, .words = {"(1,2,0,3)", "no pixels"}},
      {.name = "vector", .inputs = {{3}}, .words = {"data", "(3,)"}},
  };
  row.forward_tolerance = {.float32 = 2e-6};
  row.backward_tolerance = {.float32 = 2e-6};
  return row;
}

const RowRegistration kRow(Row());

}  // namespace
}  // namespace tessera::ops_testing
