#include <string>
#include <vector>

#include "tessera/ops/testing/operator_row.h"

namespace tessera::ops_testing {
namespace {

/// The extents of a call, and where the elements of its arrays (outer, rows, inner, columns) lie.
struct Products {
  index_t outer = 1, inner = 1, m, n, k;
  bool transpose_a, transpose_b;
  double alpha;
  TShape out;

  Products(const ParameterMap& parameters, const TShape& lhs, const TShape& rhs) {
    const ParameterReader read(parameters);
    transpose_a = read.Bool("transpose_a", false);
    transpose_b = read.Bool("transpose_b", false);
    alpha = read.Real("alpha", 1);
    const int last = lhs.ndim() - 1;
    index_t row = read.Int("axis", -2);
    if (row < 0) row += lhs.ndim();
    for (int i = 0; i < last; ++i) {
      if (i < row) outer *= lhs[i];
      if (i > row) inner *= lhs[i];
    }
    const int axis = static_cast<int>(row);
    m = lhs[transpose_a ? last : axis];
    k = lhs[transpose_a ? axis : last];
    n = rhs[transpose_b ? axis : last];
    out = lhs;
    out[axis] = m;
    out[last] = n;
  }
  index_t count() const { return outer * inner; }
  /// The index of element (y, x) of matrix b in an array of matrices (rows, columns).
  index_t At(index_t b, index_t y, index_t x, index_t rows, index_t columns) const {
    return ((b / inner * rows + y) * inner + b % inner) * columns + x;
  }
  index_t Lhs(index_t b, index_t i, index_t p) const {
    return transpose_a ? At(b, p, i, k, m) : At(b, i, p, m, k);
  }
  index_t Rhs(index_t b, index_t p, index_t j) const {
    return transpose_b ? At(b, j, p, n, k) : At(b, p, j, k, n);
  }

  /// Calls function(lhs index, rhs index, out index) for every term.
  template <typename Function>
  void ForEachTerm(const Function& function) const {
    for (index_t b = 0; b < count(); ++b) {
      for (index_t i = 0; i < m; ++i) {
        for (index_t j = 0; j < n; ++j) {
          for (index_t p = 0; p < k; ++p) function(Lhs(b, i, p), Rhs(b, p, j), At(b, i, j, m, n));
        }
      }
    }
  }
};

std::vector<Values> Forward(const ParameterMap& parameters, const std::vector<Values>& in,
                            std::vector<Values>*) {
  const Products products(parameters, in[0].shape, in[1].shape);
  Values out(products.out);
  products.ForEachTerm(
      [&](index_t a, index_t b, index_t c) { out[c] += products.alpha * in[0][a] * in[1][b]; });
  return {out};
}

std::vector<Values> Backward(const ParameterMap& parameters, const std::vector<Values>& out_grad,
                             const std::vector<Values>& in, const std::vector<Values>&) {
  const Products products(parameters, in[0].shape, in[1].shape);
  std::vector<Values> grad = {Values(in[0].shape), Values(in[1].shape)};
  products.ForEachTerm([&](index_t a, index_t b, index_t c) {
    grad[0][a] += products.alpha * out_grad[0][c] * in[1][b];
    grad[1][b] += products.alpha * out_grad[0][c] * in[0][a];
  });
  return grad;
}

ParameterMap Transposes(const std::string& a, const std::string& b) {
  return {{"transpose_a", a}, {"transpose_b", b}};
}

OperatorRow EmptyRow(const std::string& name) {
  OperatorRow row;
  row.name = name;
  row.forward = Forward;
  row.backward = Backward;
  row.forward_tolerance = {.of_largest = true};
  row.backward_tolerance = {.of_largest = true};
  return row;
}

OperatorCase Case(const std::string& name, const ParameterMap& parameters, const TShape& lhs,
                  const TShape& rhs, bool large = false) {
  return {.name = name,
          .parameters = parameters,
          .inputs = {lhs, rhs},
          .shapes_follow_from_first = false,
          .large = large};
}

OperatorRow BatchDotRow() {
  OperatorRow row = EmptyRow("batch_dot");
  row.cases = {
      Case("plain", {}, {2, 4, 5}, {2, 5, 3}),
      Case("transpose_a", Transposes("True", "False"), {2, 5, 4}, {2, 5, 3}),
      Case("transpose_b", Transposes("0", "1"), {2, 4, 5}, {2, 3, 5}),
      Case("transpose_both", Transposes("1", "1"), {2, 5, 4}, {2, 3, 5}),
      Case("two_batch_dimensions", {{"forward_stype", "csr"}}, {2, 3, 2, 4}, {2, 3, 4, 1}),
      Case("three_batch_dimensions", Transposes("1", "0"), {2, 1, 2, 3, 2}, {2, 1, 2, 3, 4}),
      Case("rows_and_columns", {}, {3, 1, 6}, {3, 6, 1}),
      Case("no_batches", {}, {0, 2, 3}, {0, 3, 2}),
      Case("nothing_to_sum", {}, {2, 2, 0}, {2, 0, 3}),
      Case("no_columns", Transposes("0", "1"), {2, 3, 4}, {2, 0, 4}),
      Case("many_small", Transposes("0", "1"), {600, 7, 9}, {600, 7, 9}, true),
      Case("few_large", {}, {2, 65, 200}, {2, 200, 170}, true),
  };
  row.cases.back().dtypes = {DType::kFloat32};
  row.errors = {
      {.name = "matrices", .inputs = {{2, 3}, {3, 2}}, .words = {"lhs", "(2,3)", "at least 3"}},
      {.name = "other_batch",
       .inputs = {{2, 3, 4}, {1, 4, 5}},
       .words = {"rhs", "(1,4,5)", "(2,None,None)"}},
      {.name = "other_rank",
       .inputs = {{2, 3, 4}, {2, 1, 4, 5}},
       .words = {"rhs", "(2,1,4,5)", "(None,None,None)"}},
      {.name = "other_extents",
       .inputs = {{2, 3, 4}, {2, 5, 6}},
       .words = {"rhs", "(2,5,6)", "(None,4,None)"}},
  };
  return row;
}

OperatorRow Gemm2Row() {
  OperatorRow row = EmptyRow("_linalg_gemm2");
  const auto with_axis = [](const std::string& axis, const std::string& a, const std::string& b) {
    return ParameterMap{{"axis", axis}, {"transpose_a", a}, {"transpose_b", b}, {"alpha", "-1.5"}};
  };
  row.cases = {
      Case("matrices", {}, {4, 5}, {5, 3}),
      Case("alpha", {{"alpha", "0.25"}}, {4, 5}, {5, 3}),
      Case("transpose_a", {{"transpose_a", "1"}, {"alpha", "-2"}}, {5, 4}, {5, 3}),
      Case("transpose_b", Transposes("0", "1"), {4, 5}, {3, 5}),
      Case("transpose_both", Transposes("1", "1"), {5, 4}, {3, 5}),
      Case("batch", {{"alpha", "2"}}, {2, 3, 4, 2}, {2, 3, 2, 5}),
      Case("rows_first", with_axis("0", "0", "0"), {4, 2, 3}, {3, 2, 5}),
      Case("rows_first_transposed", with_axis("0", "1", "1"), {3, 2, 4}, {5, 2, 3}),
      Case("rows_between", with_axis("-3", "0", "1"), {2, 3, 2, 4}, {2, 5, 2, 4}),
      Case("rows_before_two", with_axis("1", "1", "0"), {2, 3, 2, 1, 4}, {2, 3, 2, 1, 2}),
      Case("empty", {}, {0, 3}, {3, 2}),
      Case("large", {{"axis", "1"}}, {2, 40, 3, 50}, {2, 50, 3, 60}, true),
  };
  row.errors = {
      {.name = "vectors", .inputs = {{3}, {3}}, .words = {"A", "(3,)", "at least 2"}},
      {.name = "axis_of_columns",
       .parameters = {{"axis", "-1"}},
       .inputs = {{2, 3}, {3, 2}},
       .words = {"axis is -1", "[0, 0]"}},
      {.name = "axis_too_large",
       .parameters = {{"axis", "2"}},
       .inputs = {{2, 3, 4}, {2, 4, 3}},
       .words = {"axis is 2", "(2,3,4)"}},
      {.name = "axis_too_small",
       .parameters = {{"axis", "-9223372036854775808"}},
       .inputs = {{2, 3, 4}, {2, 4, 3}},
       .words = {"axis is -9223372036854775808"}},
      {.name = "other_extents", .inputs = {{2, 3}, {4, 5}}, .words = {"B", "(4,5)", "(3,None)"}},
      {.name = "alpha_is_text", .parameters = {{"alpha", "two"}}, .words = {"alpha", "two"}},
  };
  return row;
}

OperatorRow GemmRow() {
  OperatorRow row;
  row.name = "_linalg_gemm";
  row.forward_tolerance = row.backward_tolerance = {.of_largest = true};
  row.forward = [](const ParameterMap& parameters, const std::vector<Values>& in,
                   std::vector<Values>* mutated) {
    std::vector<Values> out = Forward(parameters, in, mutated);
    const double beta = ParameterReader(parameters).Real("beta", 1);
    for (index_t i = 0; i < out[0].size(); ++i) out[0][i] += beta * in[2][i];
    return out;
  };
  row.backward = [](const ParameterMap& parameters, const std::vector<Values>& out_grad,
                    const std::vector<Values>& in, const std::vector<Values>& out) {
    std::vector<Values> grad = Backward(parameters, out_grad, in, out);
    grad.push_back(out_grad[0]);
    for (double& value : grad[2].data) value *= ParameterReader(parameters).Real("beta", 1);
    return grad;
  };
  const auto add = [&row](const std::string& name, const ParameterMap& parameters, const TShape& a,
                          const TShape& b, const TShape& c) {
    row.cases.push_back(Case(name, parameters, a, b));
    row.cases.back().inputs.push_back(c);
  };
  add("matrices", {}, {4, 5}, {5, 3}, {4, 3});
  add("factors", {{"alpha", "-2"}, {"beta", "0.5"}}, {2, 4, 5}, {2, 5, 3}, {2, 4, 3});
  add("without_c", {{"beta", "0"}}, {4, 5}, {5, 3}, {4, 3});
  add("transposed", {{"transpose_a", "1"}, {"transpose_b", "1"}, {"beta", "-1"}}, {5, 4}, {3, 5},
      {4, 3});
  add("rows_first", {{"axis", "0"}, {"beta", "3"}}, {4, 2, 3}, {3, 2, 5}, {4, 2, 5});
  add("nothing_to_sum", {}, {2, 0}, {0, 3}, {2, 3});
  add("no_rows", {}, {0, 2}, {2, 3}, {0, 3});
  row.errors = {
      {.name = "other_c", .inputs = {{2, 3}, {3, 4}, {2, 5}}, .words = {"(2,5)", "4"}},
      {.name = "vectors", .inputs = {{3}, {3}, {3}}, .words = {"A", "(3,)", "at least 2"}},
      {.name = "beta_is_text", .parameters = {{"beta", "two"}}, .words = {"beta", "two"}},
  };
  return row;
}

const RowRegistration kBatchDot(BatchDotRow());
const RowRegistration kGemm2(Gemm2Row());
const RowRegistration kGemm(GemmRow());

}  // namespace
}  // namespace tessera::ops_testing
