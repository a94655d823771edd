#include <cmath>
#include <string>
#include <vector>

#include "tessera/ops/testing/operator_row.h"

namespace tessera::ops_testing {
namespace {

TShape Extents(const ParameterMap& parameters) {
  return TShape::Parse(ParameterReader(parameters).Text("shape", "()"));
}

BackwardReference Zeros() {
  return [](const ParameterMap&, const std::vector<Values>&, const std::vector<Values>& in,
            const std::vector<Values>&) { return std::vector<Values>{Values(in[0].shape)}; };
}

OperatorCase Case(const std::string& name, const std::string& shape, const TShape& data,
                  const Fill& fill) {
  return {.name = name, .parameters = {{"shape", shape}}, .inputs = {data}, .fills = {fill}};
}

std::vector<ErrorCase> Errors() {
  return {
      {.name = "without_shape", .words = {"shape", "at least one extent"}},
      {.name = "unknown_extent",
       .parameters = {{"shape", "(3, -1)"}},
       .words = {"shape", "extent 1 is -1"}},
      {.name = "no_extent", .parameters = {{"shape", "(3, 0)"}}, .words = {"extent 1 is 0"}},
      {.name = "huge",
       .parameters = {{"shape", "(1, 4294967296, 4294967296)"}},
       .words = {"shape", "63 bits"}},
  };
}

OperatorRow RavelRow() {
  OperatorRow row;
  row.name = "_ravel_multi_index";
  row.shapes_follow_from_output = true;
  row.takes_integers = true;
  row.forward = [](const ParameterMap& parameters, const std::vector<Values>& in,
                   std::vector<Values>*) {
    const TShape shape = Extents(parameters);
    const index_t n = in[0].shape[1];
    Values out({n});
    for (index_t i = 0; i < n; ++i) {
      for (int d = 0; d < shape.ndim(); ++d) {
        const double extent = d == 0 ? 1 : static_cast<double>(shape[d]);
        out[i] = out[i] * extent + std::trunc(in[0][d * n + i]);
      }
    }
    return std::vector<Values>{out};
  };
  row.backward = Zeros();
  row.cases = {
      Case("matrix", "(5, 4)", {2, 6}, Fill::Integers(0, 3)),
      Case("vector", "(3,)", {1, 4}, Fill::Integers(0, 2)),
      Case("first_extent_unknown", "(-1, 2, 3)", {3, 5}, Fill::Integers(0, 1)),
      Case("truncates", "(2, 3)", {2, 3}, Fill::Given({0.5, 1.9, 1, 2, 0.25, 1.5})),
      Case("outside", "(3, 4)", {2, 2}, Fill::Given({-1, 5, 0, 9})),
      Case("none", "(3, 4)", {2, 0}, Fill()),
      Case("many", "(10, 10, 10)", {3, 20000}, Fill::Integers(0, 9)),
  };
  row.cases.back().dtypes = {DType::kFloat32, DType::kInt32};
  row.cases.back().large = true;
  row.cases[0].dtypes = {DType::kFloat32, DType::kFloat64, DType::kFloat16,
                         DType::kInt64,   DType::kInt8,    DType::kUint8};
  row.errors = Errors();
  row.errors.push_back({.name = "other_rank",
                        .parameters = {{"shape", "(3, 4)"}},
                        .inputs = {{3, 5}},
                        .words = {"data", "(3,5)", "(2,"}});
  row.errors.push_back({.name = "vector_of_positions",
                        .parameters = {{"shape", "(3, 4)"}},
                        .inputs = {{2}},
                        .words = {"data", "(2,)"}});
  return row;
}

OperatorRow UnravelRow() {
  OperatorRow row;
  row.name = "_unravel_index";
  row.shapes_follow_from_output = true;
  row.takes_integers = true;
  row.forward = [](const ParameterMap& parameters, const std::vector<Values>& in,
                   std::vector<Values>*) {
    const TShape shape = Extents(parameters);
    const index_t n = in[0].size();
    Values out({shape.ndim(), n});
    for (index_t i = 0; i < n; ++i) {
      auto number = static_cast<index_t>(in[0][i]);
      for (int d = shape.ndim() - 1; d >= 0; --d) {
        out[d * n + i] = static_cast<double>(d == 0 ? number : number % shape[d]);
        if (d != 0) number /= shape[d];
      }
    }
    return std::vector<Values>{out};
  };
  row.backward = Zeros();
  row.cases = {
      Case("matrix", "(5, 4)", {6}, Fill::Integers(0, 19)),
      Case("vector", "(3,)", {4}, Fill::Integers(0, 2)),
      Case("first_extent_unknown", "(-1, 2, 3)", {5}, Fill::Integers(0, 40)),
      Case("outside", "(3, 4)", {4}, Fill::Given({-1, 50, -7, 12})),
      Case("truncates", "(3, 4)", {2}, Fill::Given({1.75, 7.5})),
      Case("none", "(3, 4)", {0}, Fill()),
      Case("many", "(10, 10, 10)", {20000}, Fill::Integers(0, 999)),
  };
  row.cases.back().dtypes = {DType::kFloat32, DType::kInt32};
  row.cases.back().large = true;
  row.cases[0].dtypes = {DType::kFloat32, DType::kFloat64, DType::kFloat16,
                         DType::kInt64,   DType::kInt8,    DType::kUint8};
  row.errors = Errors();
  row.errors.push_back({.name = "matrix_of_numbers",
                        .parameters = {{"shape", "(3, 4)"}},
                        .inputs = {{2, 2}},
                        .words = {"data", "(2,2)"}});
  return row;
}

const RowRegistration kRavel(RavelRow());
const RowRegistration kUnravel(UnravelRow());

}  // namespace
}  // namespace tessera::ops_testing
