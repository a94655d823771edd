#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "tessera/ops/testing/operator_row.h"

// Draws whose result is known, because the distribution has one value; random_test has the others.
namespace tessera::ops_testing {
namespace {

// A power of two so large that the numbers of a gamma distribution of this shape, times its
// inverse, are 1 to within 1e-11, and those of an exponential distribution of this rate 0.
constexpr char kLarge[] = "1208925819614629174706176";
constexpr char kSmall[] = "8.271806125530277e-25";

/// A distribution: parameters that leave one value.
struct Known {
  std::string name;
  std::vector<std::string> inputs;  ///< names of the inputs of _sample_
  ParameterMap parameters;
  std::vector<double> numbers;  ///< those parameters, in the order of the inputs
  double value = 0;
  std::vector<std::pair<ParameterMap, std::vector<std::string>>> wrong{};  ///< with words
};

const std::vector<Known>& Distributions() {
  static const std::vector<Known> all = {
      {.name = "uniform",
       .inputs = {"low", "high"},
       .parameters = {{"low", "1.5"}, {"high", "1.5"}},
       .numbers = {1.5, 1.5},
       .value = 1.5,
       .wrong = {{{{"low", "2"}}, {"low = 2", "high = 1", "low <= high"}},
                 {{{"high", "inf"}}, {"high = inf", "finite"}},
                 {{{"low", "nan"}}, {"low = nan"}}}},
      {.name = "normal",
       .inputs = {"mu", "sigma"},
       .parameters = {{"loc", "-2.5"}, {"scale", "0"}},
       .numbers = {-2.5, 0},
       .value = -2.5,
       .wrong = {{{{"scale", "-1"}}, {"scale = -1", "negative"}},
                 {{{"loc", "nan"}}, {"loc = nan", "finite"}}}},
      {.name = "gamma",
       .inputs = {"alpha", "beta"},
       .parameters = {{"alpha", kLarge}, {"beta", kSmall}},
       .numbers = {0x1p80, 0x1p-80},
       .value = 1,
       .wrong = {{{{"alpha", "0"}}, {"alpha = 0", "above 0"}},
                 {{{"beta", "-1"}}, {"beta = -1", "above 0"}}}},
      {.name = "exponential",
       .inputs = {"lam"},
       .parameters = {{"lam", kLarge}},
       .numbers = {0x1p80},
       .wrong = {{{{"lam", "0"}}, {"lam = 0", "above 0"}}}},
      {.name = "poisson",
       .inputs = {"lam"},
       .parameters = {{"lam", "0"}},
       .numbers = {0},
       .wrong = {{{{"lam", "-0.5"}}, {"lam = -0.5", "[0, 1e15]"}}}},
      {.name = "negative_binomial",
       .inputs = {"k", "p"},
       .parameters = {{"k", "0"}, {"p", "0.5"}},
       .numbers = {3, 1},
       .wrong = {{{{"k", "-1"}}, {"k = -1"}},
                 {{{"p", "0"}}, {"p = 0", "(0, 1]"}},
                 {{{"p", "2"}}, {"p = 2", "(0, 1]"}}}},
      {.name = "generalized_negative_binomial",
       .inputs = {"mu", "alpha"},
       .parameters = {{"mu", "0"}, {"alpha", "0.5"}},
       .numbers = {0, 2},
       .wrong = {{{{"mu", "-1"}}, {"mu = -1"}}, {{{"alpha", "-1"}}, {"alpha = -1"}}}},
  };
  return all;
}

std::vector<ErrorCase> Errors(const Known& known) {
  std::vector<ErrorCase> errors;
  for (const auto& [parameters, words] : known.wrong) {
    errors.push_back({.name = "wrong_" + std::to_string(errors.size()),
                      .parameters = parameters,
                      .words = words});
  }
  return errors;
}

/// The gradient of all inputs is 0.
std::vector<Values> NoGradient(const ParameterMap&, const std::vector<Values>&,
                               const std::vector<Values>& in, const std::vector<Values>&) {
  std::vector<Values> zeros;
  for (const Values& each : in) zeros.emplace_back(each.shape);
  return zeros;
}

const Tolerance kTolerance = {.float64 = 1e-10};

/// _random_NAME: no inputs.
OperatorRow DrawRow(const std::string& name, const ParameterMap& parameters, double value,
                    const std::vector<const char*>& dtypes, std::vector<ErrorCase> errors) {
  OperatorRow row;
  row.name = name;
  row.takes_integers = true;  // it has no inputs to refuse them for
  row.forward_tolerance = kTolerance;
  row.forward = [value](const ParameterMap& given, const std::vector<Values>&,
                        std::vector<Values>*) {
    return std::vector<Values>{
        Values(TShape::Parse(ParameterReader(given).Text("shape", "")), value)};
  };
  const auto add = [&](const std::string& case_name, ParameterMap more) {
    more.insert(parameters.begin(), parameters.end());
    row.cases.push_back({.name = case_name,
                         .parameters = std::move(more),
                         .inputs = {},
                         .dtypes = {DType::kFloat32}});
  };
  for (const char* const dtype : dtypes) {
    add(std::string("of_") + dtype, {{"shape", "(2,3)"}, {"dtype", dtype}});
  }
  add("one_dimension", {{"shape", "(5,)"}, {"ctx", "cpu(0)"}});
  add("parallel", {{"shape", "(300,401)"}});
  row.errors = std::move(errors);
  for (const auto& [shape, word] : {std::pair{"(2,-3)", "-3"},
                                    {"(1,1,1,1,1,1,1,1,1)", "9"},
                                    {"(4000000000,4000000000)", "63 bits"}}) {
    ParameterMap wrong = parameters;
    wrong["shape"] = shape;
    row.errors.push_back({.name = "shape_" + std::to_string(row.errors.size()),
                          .parameters = wrong,
                          .words = {word}});
  }
  row.errors.push_back(
      {.name = "other_type", .parameters = {{"dtype", "uint8"}}, .words = {"dtype", "uint8"}});
  return row;
}

OperatorRow LikeRow(const Known& known) {
  OperatorRow row;
  row.name = "_random_" + known.name + "_like";
  row.shapes_follow_from_output = true;
  row.forward_tolerance = kTolerance;
  row.backward = NoGradient;
  row.forward = [value = known.value](const ParameterMap&, const std::vector<Values>& in,
                                      std::vector<Values>*) {
    return std::vector<Values>{Values(in[0].shape, value)};
  };
  const auto add = [&](const std::string& name, const TShape& shape) {
    row.cases.push_back({.name = name, .parameters = known.parameters, .inputs = {shape}});
  };
  add("plain", {3, 5});
  add("empty", {0, 5});
  add("rank_0", TShape::OfRank(0));
  add("parallel", {300, 401});
  row.cases.back().dtypes = {DType::kFloat32};
  row.cases.back().large = true;
  row.errors = Errors(known);
  return row;
}

OperatorRow SampleRow(const Known& known) {
  OperatorRow row;
  row.name = "_sample_" + known.name;
  row.takes_integers = true;
  row.forward_tolerance = kTolerance;
  row.backward = NoGradient;
  row.forward = [value = known.value](const ParameterMap& given, const std::vector<Values>& in,
                                      std::vector<Values>*) {
    std::vector<index_t> extents(in[0].shape.begin(), in[0].shape.end());
    const std::string tail = ParameterReader(given).Text("shape", "()");
    for (const index_t extent : TShape::Parse(tail)) extents.push_back(extent);
    return std::vector<Values>{Values(TShape(std::span<const index_t>(extents)), value)};
  };
  const auto add = [&](const std::string& name, const ParameterMap& parameters,
                       const TShape& shape) {
    OperatorCase added = {.name = name, .parameters = parameters};
    for (const double number : known.numbers) {
      added.inputs.push_back(shape);
      added.fills.push_back(Fill::Given({number}));
      // 16-bit types do not hold the numbers of gamma.
      added.fixed_types.push_back(DType::kFloat32);
    }
    added.dtypes = {DType::kFloat32};
    row.cases.push_back(std::move(added));
  };
  add("one_each", {}, {7});
  add("several_each", {{"shape", "(3,2)"}}, {2, 2});
  add("of_float16", {{"shape", "(33,)"}, {"dtype", "float16"}}, {5});
  add("of_float64", {{"dtype", "float64"}}, {300});
  add("of_scalars", {{"shape", "(2,)"}}, TShape::OfRank(0));
  add("of_nothing", {{"shape", "(2,)"}}, {0, 3});
  add("nothing_each", {{"shape", "(0,)"}}, {3});
  add("parallel", {{"shape", "(50,)"}}, {2000});
  row.cases.back().large = true;
  const double number = known.numbers[0];
  if (number == std::trunc(number) && number < 100) {
    add("of_integers", {{"shape", "(4,)"}}, {5});
    for (DType& type : row.cases.back().fixed_types) type = DType::kInt32;
  }
  row.errors = {
      {.name = "negative_extent", .parameters = {{"shape", "(-1,)"}}, .words = {"shape", "-1"}},
      {.name = "nine_dimensions",
       .parameters = {{"shape", "(1,1,1)"}},
       .inputs = std::vector<TShape>(known.numbers.size(), TShape{1, 1, 1, 1, 1, 1}),
       .words = {"shape", known.inputs[0]}},
  };
  if (known.inputs.size() == 2) {
    row.errors.push_back(
        {.name = "other_shape", .inputs = {{3}, {4}}, .words = {known.inputs[1], "(3,)", "(4,)"}});
  }
  return row;
}

std::vector<RowRegistration> Register() {
  std::vector<RowRegistration> rows;
  for (const Known& known : Distributions()) {
    rows.emplace_back(DrawRow("_random_" + known.name, known.parameters, known.value,
                              {"None", "float32", "float64", "float16", "bfloat16"},
                              Errors(known)));
    rows.emplace_back(LikeRow(known));
    rows.emplace_back(SampleRow(known));
  }
  rows.emplace_back(
      DrawRow("_random_randint", {{"low", "-7"}, {"high", "-6"}}, -7, {"None", "int32", "int64"},
              {{.name = "nothing_between",
                .parameters = {{"low", "5"}, {"high", "5"}},
                .words = {"low = 5", "high = 5", "low < high"}},
               {.name = "without_high", .parameters = {{"low", "5"}}, .words = {"high"}}}));
  return rows;
}

const std::vector<RowRegistration> kRows = Register();

}  // namespace
}  // namespace tessera::ops_testing
