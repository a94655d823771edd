#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "tessera/ops/testing/operator_row.h"

namespace tessera::ops_testing {
namespace {

// Cases that leave nothing to chance; random_images_test has the random ones.

/// Returns the grey of the pixel that element i belongs to.
double Grey(const Values& images, index_t i) {
  const index_t channels = images.shape[images.shape.ndim() - 1];
  if (channels == 1) return images[i];
  const index_t pixel = i / 3 * 3;
  return 0.299 * images[pixel] + 0.587 * images[pixel + 1] + 0.114 * images[pixel + 2];
}

double Factor(const ParameterMap& parameters) {
  return static_cast<double>(static_cast<float>(ParameterReader(parameters).Real("min_factor", 0)));
}

/// Returns the means between the elements and center(images, element).
std::vector<Values> Mix(const ParameterMap& parameters, const Values& images,
                        const std::function<double(const Values&, index_t)>& center) {
  const double factor = Factor(parameters);
  Values out = images;
  for (index_t i = 0; i < out.size(); ++i) {
    out[i] = factor * images[i] + (1 - factor) * center(images, i);
  }
  return {out};
}

double MeanGrey(const Values& images, index_t i) {
  const TShape& shape = images.shape;
  const index_t size = shape.ndim() == 4 ? images.size() / shape[0] : images.size();
  double sum = 0;
  for (index_t k = i / size * size; k < (i / size + 1) * size; ++k) sum += Grey(images, k);
  return sum / static_cast<double>(size);
}

/// Returns the color of a hue from 0 to 1, a saturation and a value (Smith 1978).
std::array<double, 3> ColorOf(double hue, double saturation, double value) {
  const double sixths = std::fmod(hue, 1) * 6, part = sixths - std::floor(sixths);
  const double low = value * (1 - saturation), falling = value * (1 - saturation * part);
  const double rising = value * (1 - saturation * (1 - part));
  switch (static_cast<int>(sixths)) {
    case 0:
      return {value, rising, low};
    case 1:
      return {falling, value, low};
    case 2:
      return {low, value, rising};
    case 3:
      return {low, falling, value};
    case 4:
      return {rising, low, value};
    default:
      return {value, low, falling};
  }
}

std::vector<Values> Turn(const ParameterMap& parameters, const std::vector<Values>& in,
                         std::vector<Values>*) {
  Values out = in[0];
  if (out.shape[out.shape.ndim() - 1] == 1) return {out};
  for (index_t i = 0; i < out.size(); i += 3) {
    const double red = out[i], green = out[i + 1], blue = out[i + 2];
    const double value = std::max({red, green, blue});
    const double range = value - std::min({red, green, blue});
    if (range == 0) continue;
    const double sixths = value == red     ? 6 + (green - blue) / range
                          : value == green ? 2 + (blue - red) / range
                                           : 4 + (red - green) / range;
    const auto color = ColorOf(sixths / 6 + Factor(parameters), range / value, value);
    for (index_t c = 0; c < 3; ++c) out[i + c] = color[static_cast<size_t>(c)];
  }
  return {out};
}

void AddErrors(OperatorRow* row, const ParameterMap& parameters) {
  row->errors.push_back({.name = "two_channels",
                         .parameters = parameters,
                         .inputs = {{3, 4, 2}},
                         .words = {"(3,4,2)", "2 channels", "1 or 3"}});
  row->errors.push_back({.name = "matrix",
                         .parameters = parameters,
                         .inputs = {{4, 3}},
                         .words = {"(4,3)", "(height, width, channels)"}});
}

OperatorRow FactorRow(const std::string& name, ForwardReference forward) {
  OperatorRow row;
  row.name = "_image_random_" + name;
  row.forward = std::move(forward);
  row.shapes_follow_from_output = true;
  row.takes_integers = true;
  const auto add = [&row](const std::string& title, const std::string& factor,
                          const TShape& shape) {
    row.cases.push_back({.name = title,
                         .parameters = {{"min_factor", factor}, {"max_factor", factor}},
                         .inputs = {shape},
                         .fills = {Fill::Uniform(0.1, 0.9)}});
  };
  add("less", "0.3", {5, 7, 3});
  add("more", "1.7", {4, 3, 3});
  add("none", "0", {3, 4, 3});
  add("same", "1", {3, 4, 3});
  add("grey", "0.5", {6, 5, 1});
  add("batch", "1.25", {3, 2, 4, 3});
  add("blocks", "0.75", {30, 37, 3});
  add("no_rows", "0.5", {0, 4, 3});
  row.errors = {
      {.name = "negative",
       .parameters = {{"min_factor", "-0.5"}, {"max_factor", "1"}},
       .words = {"min_factor", "-0.5"}},
      {.name = "reversed",
       .parameters = {{"min_factor", "1.5"}, {"max_factor", "0.5"}},
       .words = {"min_factor=1.5", "max_factor=0.5"}},
      {.name = "no_number",
       .parameters = {{"min_factor", "nan"}, {"max_factor", "1"}},
       .words = {"min_factor", "nan"}},
      {.name = "no_maximum", .parameters = {{"min_factor", "1"}}, .words = {"max_factor"}},
  };
  AddErrors(&row, {{"min_factor", "1"}, {"max_factor", "1"}});
  return row;
}

OperatorRow HueRow() {
  OperatorRow row = FactorRow("hue", Turn);
  row.forward_tolerance.float64 = 1e-13;
  row.forward_tolerance.float32 = 1e-5;
  return row;
}

OperatorRow JitterRow() {
  OperatorRow row;
  row.name = "_image_random_color_jitter";
  row.forward = [](const ParameterMap&, const std::vector<Values>& in, std::vector<Values>*) {
    return std::vector<Values>{in[0]};
  };
  row.shapes_follow_from_output = true;
  row.takes_integers = true;
  const ParameterMap none = {
      {"brightness", "0"}, {"contrast", "0"}, {"saturation", "0"}, {"hue", "0"}};
  ParameterMap of_grey = none;
  of_grey["saturation"] = "0.5";
  of_grey["hue"] = "0.25";
  row.cases = {
      {.name = "none", .parameters = none, .inputs = {{3, 4, 3}}},
      {.name = "batch", .parameters = none, .inputs = {{2, 3, 4, 1}}},
      {.name = "grey", .parameters = of_grey, .inputs = {{3, 4, 1}}},
  };
  ParameterMap negative = none;
  negative["contrast"] = "-1";
  row.errors = {
      {.name = "negative", .parameters = negative, .words = {"contrast", "-1"}},
      {.name = "no_hue",
       .parameters = {{"brightness", "0"}, {"contrast", "0"}, {"saturation", "0"}},
       .words = {"hue"}},
  };
  AddErrors(&row, none);
  return row;
}

const RowRegistration kBrightness(FactorRow("brightness", [](const ParameterMap& parameters,
                                                             const std::vector<Values>& in,
                                                             std::vector<Values>*) {
  return Mix(parameters, in[0], [](const Values&, index_t) { return 0.0; });
}));
const RowRegistration kContrast(
    FactorRow("contrast", [](const ParameterMap& parameters, const std::vector<Values>& in,
                             std::vector<Values>*) { return Mix(parameters, in[0], MeanGrey); }));
const RowRegistration kSaturation(
    FactorRow("saturation", [](const ParameterMap& parameters, const std::vector<Values>& in,
                               std::vector<Values>*) { return Mix(parameters, in[0], Grey); }));
const RowRegistration kHue(HueRow());
const RowRegistration kJitter(JitterRow());

}  // namespace
}  // namespace tessera::ops_testing
