#include <string>
#include <vector>

#include "tessera/ops/testing/operator_row.h"

namespace tessera::ops_testing {
namespace {

std::vector<Values> Adjust(const ParameterMap& parameters, const std::vector<Values>& in,
                           std::vector<Values>*) {
  Values out = in[0];
  if (out.shape[out.shape.ndim() - 1] == 1) return {out};
  const auto alpha = ops_internal::ParameterText<std::vector<float>>::Parse(
      ParameterReader(parameters).Text("alpha", ""));
  // Rows are the channels, columns the principal components.
  const double components[3][3] = {
      {-0.5675, 0.7192, 0.4009}, {-0.5808, -0.0045, -0.8140}, {-0.5836, -0.6948, 0.4203}};
  const double eigenvalues[] = {55.46, 4.794, 1.148};
  for (index_t i = 0; i < out.size(); ++i) {
    for (size_t k = 0; k < 3; ++k) {
      out[i] += components[i % 3][k] * eigenvalues[k] * static_cast<double>(alpha[k]);
    }
  }
  return {out};
}

OperatorRow Row(const std::string& name) {
  OperatorRow row;
  row.name = name;
  row.shapes_follow_from_output = true;
  row.takes_integers = true;
  return row;
}

OperatorRow AdjustRow() {
  OperatorRow row = Row("_image_adjust_lighting");
  row.forward = Adjust;
  row.forward_tolerance.of_largest = true;  // bright light cancels
  const ParameterMap light = {{"alpha", "(0.5, -0.25, 1)"}};
  row.cases = {
      {.name = "color", .parameters = light, .inputs = {{3, 4, 3}}},
      {.name = "batch", .parameters = light, .inputs = {{2, 3, 4, 3}}},
      {.name = "dark", .parameters = {{"alpha", "(0.01, 0, 0.02)"}}, .inputs = {{25, 30, 3}}},
      {.name = "grey", .parameters = light, .inputs = {{3, 4, 1}}},
      {.name = "no_rows", .parameters = light, .inputs = {{0, 4, 3}}},
  };
  row.errors = {
      {.name = "two_numbers", .parameters = {{"alpha", "(1, 2)"}}, .words = {"alpha has 2", "3"}},
      {.name = "no_alpha", .words = {"alpha"}},
      {.name = "two_channels",
       .parameters = light,
       .inputs = {{3, 4, 2}},
       .words = {"(3,4,2)", "2 channels"}},
  };
  return row;
}

// No light; random_images_test has other cases.
OperatorRow RandomRow() {
  OperatorRow row = Row("_image_random_lighting");
  row.forward = [](const ParameterMap&, const std::vector<Values>& in, std::vector<Values>*) {
    return std::vector<Values>{in[0]};
  };
  row.cases = {
      {.name = "color", .parameters = {{"alpha_std", "0"}}, .inputs = {{3, 4, 3}}},
      {.name = "grey", .inputs = {{2, 3, 4, 1}}},
  };
  row.errors = {
      {.name = "negative", .parameters = {{"alpha_std", "-1"}}, .words = {"alpha_std", "-1"}},
      {.name = "two_channels", .inputs = {{3, 4, 2}}, .words = {"(3,4,2)", "2 channels"}},
  };
  return row;
}

const RowRegistration kAdjust(AdjustRow());
const RowRegistration kRandom(RandomRow());

}  // namespace
}  // namespace tessera::ops_testing
