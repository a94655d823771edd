#include <cmath>
#include <string>
#include <vector>

#include "tessera/ops/testing/operator_row.h"
#include "tessera/ops/testing/shape_reference.h"

namespace tessera::ops_testing {
namespace {

/// A call without inputs, whose output has the type that its parameters name.
OperatorCase Call(const std::string& name, const ParameterMap& parameters) {
  return {.name = name, .parameters = parameters, .inputs = {}, .dtypes = {DType::kFloat32}};
}

ForwardReference Constant(double absent) {
  return
      [absent](const ParameterMap& parameters, const std::vector<Values>&, std::vector<Values>*) {
        const ParameterReader read(parameters);
        double value = read.Real("value", absent);
        if (read.Text("dtype", "").find("int") != std::string::npos) value = std::trunc(value);
        if (read.Text("dtype", "") == "bool") value = value != 0;
        return std::vector<Values>{Values(TShape::Parse(read.Text("shape", "")), value)};
      };
}

std::vector<OperatorCase> ConstantCases(ParameterMap parameters) {
  std::vector<OperatorCase> cases;
  for (const char* dtype :
       {"float32", "float64", "float16", "bfloat16", "int32", "int64", "int8", "uint8", "bool"}) {
    parameters["shape"] = "(2,3)";
    parameters["dtype"] = dtype;
    cases.push_back(Call(dtype, parameters));
  }
  parameters.erase("dtype");
  parameters["ctx"] = "cpu(0)";
  parameters["shape"] = "(100,70)";
  cases.push_back(Call("large", parameters));
  return cases;
}

const std::vector<ErrorCase>& ShapeErrors() {
  static const std::vector<ErrorCase> errors = {
      {.name = "negative",
       .parameters = {{"shape", "(2,-3)"}, {"value", "1"}},
       .words = {"shape", "-3"}},
      {.name = "nine_dimensions",
       .parameters = {{"shape", "(1,1,1,1,1,1,1,1,1)"}, {"value", "1"}},
       .words = {"shape"}},
  };
  return errors;
}

std::vector<ErrorCase> WithoutValue(std::vector<ErrorCase> errors) {
  for (ErrorCase& error : errors) error.parameters.erase("value");
  return errors;
}

OperatorRow ConstantRow(const std::string& name, double value) {
  OperatorRow row;
  row.name = name;
  row.cases = ConstantCases({});
  row.forward = Constant(value);
  row.takes_integers = true;
  row.errors = WithoutValue(ShapeErrors());
  return row;
}

const RowRegistration kConstants[] = {
    RowRegistration(ConstantRow("_zeros", 0)),
    RowRegistration(ConstantRow("_npi_zeros", 0)),
    RowRegistration(ConstantRow("_ones", 1)),
    RowRegistration(ConstantRow("_npi_ones", 1)),
};

OperatorRow UntypedZerosRow() {
  OperatorRow row;
  row.name = "_zeros_without_dtype";
  row.forward = Constant(0);
  row.takes_integers = true;
  for (const DType dtype : {DType::kFloat32, DType::kFloat64, DType::kFloat16, DType::kUint8,
                            DType::kInt64, DType::kBool, DType::kBFloat16}) {
    row.cases.push_back(
        Call(std::string(DTypeName(dtype)),
             {{"shape", "(2,3)"}, {"dtype", std::to_string(static_cast<int>(dtype))}}));
  }
  row.errors = WithoutValue(ShapeErrors());
  row.errors.push_back(
      {.name = "no_such_type", .parameters = {{"dtype", "13"}}, .words = {"dtype", "13"}});
  row.errors.push_back(
      {.name = "below_unknown", .parameters = {{"dtype", "-2"}}, .words = {"dtype", "-2"}});
  return row;
}

const RowRegistration kUntypedZeros(UntypedZerosRow());
const RowRegistration kFull({.name = "_full",
                             .cases = ConstantCases({{"value", "3.75"}}),
                             .forward = Constant(0),
                             .takes_integers = true,
                             .errors = ShapeErrors()});

const RowRegistration kSetValue({
    .name = "_set_value",
    .cases = {{.name = "rank_2",
               .parameters = {{"src", "3.5"}},
               .inputs = {},
               .dtypes = {DType::kFloat32},
               .outputs = {{2, 3}}}},
    .forward =
        [](const ParameterMap&, const std::vector<Values>&, std::vector<Values>*) {
          return std::vector<Values>{Values({2, 3}, 3.5)};
        },
    .takes_integers = true,
});

const RowRegistration kArange({
    .name = "_arange",
    .cases =
        {
            Call("to_stop", {{"start", "5"}}),
            Call("from_start", {{"start", "2"}, {"stop", "7.5"}, {"step", "1.5"}}),
            Call("down_repeated", {{"start", "3"}, {"stop", "0"}, {"step", "-1"}, {"repeat", "2"}}),
            Call("integers",
                 {{"start", "0.5"}, {"stop", "6.7"}, {"step", "1.5"}, {"dtype", "int32"}}),
            Call("float16",
                 {{"start", "0.1"}, {"stop", "1"}, {"step", "0.25"}, {"dtype", "float16"}}),
            Call("large", {{"start", "0"}, {"stop", "70000"}}),
        },
    .forward =
        [](const ParameterMap& parameters, const std::vector<Values>&, std::vector<Values>*) {
          const ParameterReader read(parameters);
          const bool has_stop = !read.Text("stop", "").empty();
          double start = has_stop ? read.Real("start", 0) : 0, step = read.Real("step", 1);
          const double stop = has_stop ? read.Real("stop", 0) : read.Real("start", 0);
          const index_t repeat = read.Int("repeat", 1);
          Values out({static_cast<index_t>(std::ceil((stop - start) / step)) * repeat});
          if (read.Text("dtype", "") == "int32") {
            start = std::trunc(start);
            step = std::trunc(step);
          }
          for (index_t i = 0; i < out.size(); ++i) {
            out[i] = start + static_cast<double>(i / repeat) * step;
          }
          return std::vector<Values>{out};
        },
    .takes_integers = true,
    .forward_tolerance = {.float32 = 1e-3},
    .errors =
        {
            {.name = "no_step",
             .parameters = {{"start", "3"}, {"step", "0"}},
             .words = {"more than"}},
            {.name = "wrong_way",
             .parameters = {{"start", "3"}, {"step", "-1"}},
             .words = {"steps"}},
            {.name = "empty", .parameters = {{"start", "3"}, {"stop", "3"}}, .words = {"3 to 3"}},
            {.name = "too_many",
             .parameters = {{"start", "0"}, {"stop", "1e30"}},
             .words = {"more than"}},
            {.name = "too_many_repeated",
             .parameters = {{"start", "0"}, {"stop", "4e18"}, {"repeat", "4"}},
             .words = {"more than"}},
        },
});

const RowRegistration kLinspace({
    .name = "_linspace",
    .cases =
        {
            Call("with_stop", {{"start", "0"}, {"stop", "1"}, {"num", "5"}}),
            Call("without_stop",
                 {{"start", "0"}, {"stop", "1"}, {"num", "5"}, {"endpoint", "False"}}),
            Call("one", {{"start", "3"}, {"stop", "1"}, {"num", "1"}}),
            Call("none", {{"start", "3"}, {"stop", "1"}, {"num", "0"}}),
        },
    .forward =
        [](const ParameterMap& parameters, const std::vector<Values>&, std::vector<Values>*) {
          const ParameterReader read(parameters);
          Values out({read.Int("num", 0)});
          const double start = read.Real("start", 0), stop = read.Real("stop", 0);
          const index_t steps = out.size() - (read.Bool("endpoint", true) ? 1 : 0);
          for (index_t i = 0; i < out.size(); ++i) {
            out[i] =
                start +
                (i == 0 ? 0 : static_cast<double>(i) * (stop - start) / static_cast<double>(steps));
          }
          return std::vector<Values>{out};
        },
    .takes_integers = true,
    .errors = {{.name = "negative",
                .parameters = {{"start", "0"}, {"stop", "1"}, {"num", "-1"}},
                .words = {"num"}}},
});

const RowRegistration kEye({
    .name = "_eye",
    .cases =
        {
            Call("square", {{"N", "3"}}),
            Call("above", {{"N", "3"}, {"M", "4"}, {"k", "1"}}),
            Call("below", {{"N", "3"}, {"k", "-1"}, {"dtype", "int64"}}),
            Call("empty", {{"N", "0"}, {"M", "2"}}),
        },
    .forward =
        [](const ParameterMap& parameters, const std::vector<Values>&, std::vector<Values>*) {
          const ParameterReader read(parameters);
          const index_t rows = read.Int("N", 0), columns = read.Int("M", rows);
          Values out({rows, columns});
          for (index_t i = 0; i < out.size(); ++i) {
            out[i] = i % columns - i / columns == read.Int("k", 0) ? 1 : 0;
          }
          return std::vector<Values>{out};
        },
    .takes_integers = true,
    .errors =
        {
            {.name = "negative", .parameters = {{"N", "-3"}}, .words = {"N"}},
            {.name = "too_large",
             .parameters = {{"N", "4611686018427387904"}},
             .words = {"63 bits"}},
        },
});

std::vector<OperatorCase> LikeCases(const std::vector<DType>& dtypes) {
  return {{.name = "rank_2", .inputs = {{3, 4}}, .dtypes = dtypes},
          {.name = "rank_0", .inputs = {TShape::OfRank(0)}},
          {.name = "empty", .inputs = {{2, 0}}}};
}

ForwardReference Like(double value) {
  return [value](const ParameterMap&, const std::vector<Values>& in, std::vector<Values>*) {
    return std::vector<Values>{Values(in[0].shape, value)};
  };
}

const RowRegistration kZerosLike({.name = "zeros_like",
                                  .cases = LikeCases(MovedDTypes()),
                                  .forward = Like(0),
                                  .shapes_follow_from_output = true,
                                  .takes_integers = true});
const RowRegistration kOnesLike({.name = "ones_like",
                                 .cases = LikeCases(MovedDTypes()),
                                 .forward = Like(1),
                                 .shapes_follow_from_output = true,
                                 .takes_integers = true});

const RowRegistration kArangeLike({
    .name = "_contrib_arange_like",
    .cases =
        {
            {.name = "whole",
             .parameters = {{"start", "1"}, {"step", "2"}, {"repeat", "2"}},
             .inputs = {{2, 3, 4}},
             .dtypes = {DType::kFloat32, DType::kFloat16, DType::kInt32}},
            {.name = "dimension", .parameters = {{"axis", "-2"}}, .inputs = {{2, 3, 4}}},
            {.name = "repeated_dimension",
             .parameters = {{"axis", "2"}, {"repeat", "2"}},
             .inputs = {{2, 3, 4}}},
        },
    .forward =
        [](const ParameterMap& parameters, const std::vector<Values>& in, std::vector<Values>*) {
          const ParameterReader read(parameters);
          const index_t rank = in[0].shape.ndim();
          TShape shape = in[0].shape;
          if (!read.Text("axis", "").empty()) {
            shape = {shape[static_cast<int>((read.Int("axis", 0) + rank) % rank)]};
          }
          Values out(shape);
          for (index_t i = 0; i < out.size(); ++i) {
            out[i] = read.Real("start", 0) +
                     static_cast<double>(i / read.Int("repeat", 1)) * read.Real("step", 1);
          }
          return std::vector<Values>{out};
        },
    .batch_follows_from_output = false,
    .takes_integers = true,
    .errors =
        {
            {.name = "no_such_axis",
             .parameters = {{"axis", "3"}},
             .inputs = {{2, 3, 4}},
             .words = {"axis 3"}},
            {.name = "no_repeat", .parameters = {{"repeat", "0"}}, .words = {"repeat"}},
        },
});

std::vector<OperatorCase> ShapeCases() {
  return {{.name = "rank_3",
           .inputs = {{2, 3, 4}},
           .dtypes = {DType::kFloat32, DType::kInt32},
           .fixed_types = {DType::kUnknown}},
          {.name = "rank_0", .inputs = {TShape::OfRank(0)}, .fixed_types = {DType::kUnknown}},
          {.name = "empty", .inputs = {{2, 0}}, .fixed_types = {DType::kUnknown}}};
}

const RowRegistration kShapeArray({
    .name = "shape_array",
    .cases = ShapeCases(),
    .forward =
        [](const ParameterMap&, const std::vector<Values>& in, std::vector<Values>*) {
          Values out({in[0].shape.ndim()});
          for (int d = 0; d < in[0].shape.ndim(); ++d) {
            out[d] = static_cast<double>(in[0].shape[d]);
          }
          return std::vector<Values>{out};
        },
    .batch_follows_from_output = false,
    .takes_integers = true,
});

const RowRegistration kSizeArray({
    .name = "size_array",
    .cases = ShapeCases(),
    .forward =
        [](const ParameterMap&, const std::vector<Values>& in, std::vector<Values>*) {
          return std::vector<Values>{Values({1}, static_cast<double>(in[0].size()))};
        },
    .batch_follows_from_output = false,
    .takes_integers = true,
});

}  // namespace
}  // namespace tessera::ops_testing
