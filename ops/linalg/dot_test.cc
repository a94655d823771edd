#include <string>
#include <vector>

#include "tessera/ops/testing/operator_row.h"

namespace tessera::ops_testing {
namespace {

/// The extents of a call, and where the elements of both operands lie.
struct Product {
  index_t m = 1, n = 1, k;
  bool transpose_a, transpose_b;
  TShape out;

  Product(const ParameterMap& parameters, const TShape& lhs, const TShape& rhs) {
    const ParameterReader read(parameters);
    transpose_a = read.Bool("transpose_a", false);
    transpose_b = read.Bool("transpose_b", false);
    const int lhs_sum = transpose_a ? 0 : lhs.ndim() - 1;
    const int rhs_sum = transpose_b ? rhs.ndim() - 1 : 0;
    k = lhs[lhs_sum];
    std::vector<index_t> extents;
    for (int i = 0; i < lhs.ndim(); ++i) {
      if (i == lhs_sum) continue;
      extents.push_back(lhs[i]);
      m *= lhs[i];
    }
    for (int i = 0; i < rhs.ndim(); ++i) {
      if (i == rhs_sum) continue;
      extents.push_back(rhs[i]);
      n *= rhs[i];
    }
    if (extents.empty()) extents = {1};
    out = TShape(std::span<const index_t>(extents));
  }
  index_t Lhs(index_t i, index_t p) const { return transpose_a ? p * m + i : i * k + p; }
  index_t Rhs(index_t p, index_t j) const { return transpose_b ? j * k + p : p * n + j; }
};

std::vector<Values> Forward(const ParameterMap& parameters, const std::vector<Values>& in,
                            std::vector<Values>*) {
  const Product product(parameters, in[0].shape, in[1].shape);
  Values out(product.out);
  for (index_t i = 0; i < product.m; ++i) {
    for (index_t j = 0; j < product.n; ++j) {
      for (index_t p = 0; p < product.k; ++p) {
        out[i * product.n + j] += in[0][product.Lhs(i, p)] * in[1][product.Rhs(p, j)];
      }
    }
  }
  return {out};
}

std::vector<Values> Backward(const ParameterMap& parameters, const std::vector<Values>& out_grad,
                             const std::vector<Values>& in, const std::vector<Values>&) {
  const Product product(parameters, in[0].shape, in[1].shape);
  std::vector<Values> grad = {Values(in[0].shape), Values(in[1].shape)};
  for (index_t i = 0; i < product.m; ++i) {
    for (index_t j = 0; j < product.n; ++j) {
      const double g = out_grad[0][i * product.n + j];
      for (index_t p = 0; p < product.k; ++p) {
        grad[0][product.Lhs(i, p)] += g * in[1][product.Rhs(p, j)];
        grad[1][product.Rhs(p, j)] += g * in[0][product.Lhs(i, p)];
      }
    }
  }
  return grad;
}

ParameterMap Transposes(const std::string& a, const std::string& b) {
  return {{"transpose_a", a}, {"transpose_b", b}};
}

OperatorRow Row() {
  OperatorRow row;
  row.name = "dot";
  row.forward = Forward;
  row.backward = Backward;
  row.batch_follows_from_output = false;  // nor does the length of two vectors
  const auto add = [&row](const std::string& name, const ParameterMap& parameters,
                          const TShape& lhs, const TShape& rhs, bool large = false) {
    row.cases.push_back({.name = name,
                         .parameters = parameters,
                         .inputs = {lhs, rhs},
                         .shapes_follow_from_first = false,
                         .large = large});
  };
  add("matrices", {}, {4, 5}, {5, 3});
  add("transpose_a", Transposes("True", "False"), {5, 4}, {5, 3});
  add("transpose_b", Transposes("0", "1"), {4, 5}, {3, 5});
  add("transpose_b_of_more_rows", Transposes("0", "1"), {13, 9}, {17, 9});
  add("transpose_both", {{"transpose_a", "1"}, {"transpose_b", "1"}, {"forward_stype", "default"}},
      {5, 4}, {3, 5});
  add("vectors", {}, {7}, {7});
  add("vector_and_matrix", {}, {5}, {5, 3});
  add("vector_and_matrix_transposed", Transposes("1", "1"), {5}, {3, 5});
  add("matrix_and_vector", {}, {4, 5}, {5});
  add("matrix_and_vector_transposed", Transposes("1", "1"), {5, 4}, {5});
  add("ranks_3_and_3", {}, {2, 3, 4}, {4, 2, 5});
  add("ranks_3_and_3_transposed", Transposes("1", "1"), {4, 2, 3}, {2, 5, 4});
  add("ranks_4_and_2", Transposes("1", "0"), {4, 2, 1, 3}, {4, 2});
  add("ranks_1_and_4", Transposes("0", "1"), {4}, {2, 1, 3, 4});
  add("ranks_3_and_1", {}, {2, 3, 4}, {4});
  add("one_element", {}, {1, 1}, {1, 1});
  add("no_rows", {}, {0, 3}, {3, 2});
  add("nothing_to_sum", {}, {2, 0}, {0, 3});
  add("no_columns", Transposes("1", "1"), {3, 2}, {0, 3});
  add("empty_vectors", {}, {0}, {0});
  add("large", {}, {70, 300}, {300, 90}, true);
  add("large_transposed", Transposes("1", "1"), {130, 70}, {90, 130}, true);
  add("long_vectors", {}, {30000}, {30000}, true);
  // Without terms that cancel. The reference's own sum has fewer digits than float64.
  row.cases.back().dtypes = {DType::kFloat32, DType::kFloat16};
  row.cases.back().fills = {Fill::Uniform(0, 1), Fill::Uniform(0, 1)};
  add("large_matrix_and_vector", {}, {300, 700}, {700}, true);
  row.forward_tolerance = {.of_largest = true};
  row.backward_tolerance = {.of_largest = true};
  row.errors = {
      {.name = "other_extents", .inputs = {{2, 3}, {4, 5}}, .words = {"rhs", "(4,5)", "(3,None)"}},
      {.name = "other_extents_transposed",
       .parameters = Transposes("1", "1"),
       .inputs = {{2, 3, 4}, {5, 3}},
       .words = {"rhs", "(5,3)", "(None,2)"}},
      {.name = "transposed_vectors",
       .parameters = Transposes("1", "0"),
       .inputs = {{3}, {3}},
       .words = {"vectors", "(3,)", "transposed"}},
      {.name = "scalar",
       .inputs = {TShape::OfRank(0), {3}},
       .words = {"lhs", "()", "at least one"}},
      {.name = "too_many_dimensions",
       .inputs = {{1, 1, 1, 1, 1, 1}, {1, 1, 1, 1, 1}},
       .words = {"9 dimensions", "at most 8"}},
      {.name = "unknown_storage",
       .parameters = {{"forward_stype", "coo"}},
       .words = {"coo", "csr"}},
  };
  return row;
}

const RowRegistration kRow(Row());

}  // namespace
}  // namespace tessera::ops_testing
