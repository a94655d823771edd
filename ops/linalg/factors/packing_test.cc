#include <cmath>
#include <cstdlib>
#include <string>
#include <vector>

#include "tessera/ops/testing/operator_row.h"

namespace tessera::ops_testing {
namespace {

/// Calls function(element of the matrices, element of the vectors) for all elements of the vectors.
template <typename Function>
void ForEachPacked(const ParameterMap& parameters, bool triangle, const TShape& matrices,
                   const Function& function) {
  const ParameterReader read(parameters);
  const index_t offset = read.Int("offset", 0), n = matrices[matrices.ndim() - 1];
  const bool lower = offset < 0 || (offset == 0 && read.Bool("lower", true));
  index_t batch = 1, next = 0;
  for (int d = 0; d < matrices.ndim() - 2; ++d) batch *= matrices[d];
  for (index_t b = 0; b < batch; ++b) {
    // In the order of the longer index, then of the other one.
    for (index_t major = 0; major < n; ++major) {
      for (index_t minor = 0; minor < n; ++minor) {
        const index_t distance = major - minor;
        const bool taken = triangle ? distance >= std::abs(offset) : distance == std::abs(offset);
        if (!taken) continue;
        const index_t row = lower ? major : minor, column = lower ? minor : major;
        function((b * n + row) * n + column, next++);
      }
    }
  }
}

/// The shape with its last dimensions replaced.
TShape WithLast(const TShape& shape, int dropped, std::vector<index_t> last) {
  std::vector<index_t> extents(shape.begin(), shape.end() - dropped);
  extents.insert(extents.end(), last.begin(), last.end());
  return TShape(std::span<const index_t>(extents));
}

OperatorRow Row(const std::string& name, bool triangle, bool makes) {
  OperatorRow row;
  row.name = name;
  row.takes_integers = true;
  row.shapes_follow_from_output = true;
  row.batch_follows_from_output = true;
  row.forward = [=](const ParameterMap& parameters, const std::vector<Values>& in,
                    std::vector<Values>*) {
    const TShape& shape = in[0].shape;
    const index_t distance = std::abs(ParameterReader(parameters).Int("offset", 0));
    const index_t last = shape[shape.ndim() - 1];
    if (makes) {
      const auto k = triangle ? static_cast<index_t>(std::lround(
                                    (std::sqrt(8.0 * static_cast<double>(last) + 1) - 1) / 2))
                              : last;
      Values out(WithLast(shape, 1, {k + distance, k + distance}));
      ForEachPacked(parameters, triangle, out.shape,
                    [&](index_t to, index_t from) { out[to] = in[0][from]; });
      return std::vector<Values>{out};
    }
    const index_t k = last - distance;
    Values out(WithLast(shape, 2, {triangle ? k * (k + 1) / 2 : k}));
    ForEachPacked(parameters, triangle, shape,
                  [&](index_t from, index_t to) { out[to] = in[0][from]; });
    return std::vector<Values>{out};
  };
  const auto add = [&](const std::string& name, const ParameterMap& parameters,
                       const TShape& matrix, index_t length) {
    row.cases.push_back({.name = name,
                         .parameters = parameters,
                         .inputs = {makes ? WithLast(matrix, 2, {length}) : matrix}});
  };
  add("main", {}, {3, 3}, triangle ? 6 : 3);
  row.cases.back().dtypes = {DType::kFloat64, DType::kFloat32, DType::kFloat16, DType::kInt8,
                             DType::kInt64};
  row.cases.back().fills = {Fill::Integers(0, 9)};
  add("above", {{"offset", "1"}}, {4, 4}, triangle ? 6 : 3);
  add("below", {{"offset", "-2"}}, {2, 4, 4}, triangle ? 3 : 2);
  add("one_element", {{"offset", "2"}}, {2, 1, 3, 3}, 1);
  add("no_batch", {}, {0, 2, 2}, triangle ? 3 : 2);
  if (triangle) add("upper", {{"lower", "False"}}, {3, 3}, 6);
  if (makes) {
    row.errors = {{.name = "scalar", .inputs = {TShape::OfRank(0)}, .words = {"A", "at least 1"}}};
    if (triangle) {
      row.errors.push_back({.name = "no_triangle", .inputs = {{4}}, .words = {"A", "(4,)"}});
    }
  } else {
    row.errors = {
        {.name = "not_square", .inputs = {{2, 3}}, .words = {"A", "(2,3)"}},
        {.name = "offset_too_large",
         .parameters = {{"offset", "3"}},
         .inputs = {{3, 3}},
         .words = {"A", "(3,3)", "offset=3"}},
    };
  }
  return row;
}

const RowRegistration kExtractDiag(Row("_linalg_extractdiag", false, false));
const RowRegistration kMakeDiag(Row("_linalg_makediag", false, true));
const RowRegistration kExtractTrian(Row("_linalg_extracttrian", true, false));
const RowRegistration kMakeTrian(Row("_linalg_maketrian", true, true));

}  // namespace
}  // namespace tessera::ops_testing
