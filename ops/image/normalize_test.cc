#include <string>
#include <vector>

#include "tessera/ops/testing/operator_row.h"

namespace tessera::ops_testing {
namespace {

/// Returns the value of the channel that element i lies in.
double OfChannel(const ParameterMap& parameters, const std::string& name, const std::string& absent,
                 const TShape& shape, index_t i) {
  const std::string text = ParameterReader(parameters).Text(name, absent);
  const auto values = ops_internal::ParameterText<std::vector<float>>::Parse(text);
  const int rank = shape.ndim();
  const index_t channel = i / (shape[rank - 2] * shape[rank - 1]) % shape[rank - 3];
  return static_cast<double>(values.size() == 1 ? values[0] : values[static_cast<size_t>(channel)]);
}

std::vector<Values> Forward(const ParameterMap& parameters, const std::vector<Values>& in,
                            std::vector<Values>*) {
  Values out = in[0];
  for (index_t i = 0; i < out.size(); ++i) {
    out[i] = (out[i] - OfChannel(parameters, "mean", "(0, 0, 0, 0)", out.shape, i)) /
             OfChannel(parameters, "std", "(1, 1, 1, 1)", out.shape, i);
  }
  return {out};
}

std::vector<Values> Backward(const ParameterMap& parameters, const std::vector<Values>& out_grad,
                             const std::vector<Values>&, const std::vector<Values>&) {
  Values grad = out_grad[0];
  for (index_t i = 0; i < grad.size(); ++i) {
    grad[i] /= OfChannel(parameters, "std", "(1, 1, 1, 1)", grad.shape, i);
  }
  return {grad};
}

OperatorRow Row() {
  OperatorRow row;
  row.name = "_image_normalize";
  row.forward = Forward;
  row.backward = Backward;
  row.shapes_follow_from_output = true;
  const ParameterMap imagenet = {{"mean", "(0.485, 0.456, 0.406)"}, {"std", "(0.229,0.224,0.225)"}};
  row.cases = {
      {.name = "by_channel", .parameters = imagenet, .inputs = {{3, 5, 7}}},
      {.name = "batch", .parameters = imagenet, .inputs = {{2, 3, 4, 2}}},
      {.name = "grey", .parameters = {{"mean", "0.13"}, {"std", "0.31"}}, .inputs = {{1, 6, 6}}},
      {.name = "one_mean",
       .parameters = {{"mean", "0.5"}, {"std", "(1, 2, 4)"}},
       .inputs = {{3, 2, 3}}},
      {.name = "one_std",
       .parameters = {{"mean", "(1, 2)"}, {"std", "(0.5,)"}},
       .inputs = {{2, 3, 1}}},
      {.name = "default", .inputs = {{4, 2, 3}}},
      {.name = "no_images", .parameters = imagenet, .inputs = {{0, 3, 2, 2}}},
  };
  row.errors = {
      {.name = "matrix", .inputs = {{4, 5}}, .words = {"(4,5)", "(channels, height, width)"}},
      {.name = "too_few_means",
       .parameters = {{"mean", "(1, 2)"}},
       .inputs = {{3, 2, 2}},
       .words = {"mean has 2", "(3,2,2)", "3 channels"}},
      {.name = "too_many_deviations",
       .parameters = {{"mean", "0"}, {"std", "(1, 2, 3)"}},
       .inputs = {{5, 1, 2, 2}},
       .words = {"std has 3", "(5,1,2,2)", "1 channels"}},
      {.name = "no_mean",
       .parameters = {{"mean", "()"}},
       .inputs = {{3, 2, 2}},
       .words = {"mean has 0"}},
      {.name = "no_number", .parameters = {{"std", "(a,)"}}, .words = {"std", "a"}},
  };
  return row;
}

const RowRegistration kRow(Row());

}  // namespace
}  // namespace tessera::ops_testing
