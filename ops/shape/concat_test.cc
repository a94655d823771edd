#include <string>
#include <vector>

#include "tessera/ops/testing/operator_row.h"
#include "tessera/ops/testing/shape_reference.h"

namespace tessera::ops_testing {
namespace {

/// Arrays of one rank side by side along an axis.
Values Join(const std::vector<Values>& parts, int axis) {
  TShape shape = parts[0].shape;
  shape[axis] = 0;
  for (const Values& part : parts) shape[axis] += part.shape[axis];
  Values out(shape);
  for (index_t i = 0; i < out.size(); ++i) {
    Position at = PositionOf(shape, i);
    size_t k = 0;
    while (at[static_cast<size_t>(axis)] >= parts[k].shape[axis]) {
      at[static_cast<size_t>(axis)] -= parts[k++].shape[axis];
    }
    out[i] = parts[k][IndexOf(parts[k].shape, at)];
  }
  return out;
}

/// Positions [begin, end) of an axis.
Values Part(const Values& in, int axis, index_t begin, index_t end) {
  TShape shape = in.shape;
  shape[axis] = end - begin;
  return Gather(in, shape, [&](Position at) {
    at[static_cast<size_t>(axis)] += begin;
    return at;
  });
}

TShape WithoutAxis(const TShape& shape, int axis) {
  std::vector<index_t> extents(shape.begin(), shape.end());
  extents.erase(extents.begin() + axis);
  return TShape(std::span<const index_t>(extents));
}

int AxisOf(const ParameterMap& parameters, const std::string& name, index_t absent, int rank) {
  const index_t axis = ParameterReader(parameters).Int(name, absent);
  return static_cast<int>(axis < 0 ? axis + rank : axis);
}

std::vector<OperatorCase> ConcatCases() {
  return {
      {.name = "channels",
       .parameters = {{"num_args", "3"}},
       .inputs = {{2, 3, 2}, {2, 1, 2}, {2, 4, 2}},
       .dtypes = MovedDTypes(),
       .shapes_follow_from_first = false},
      {.name = "last",
       .parameters = {{"num_args", "2"}, {"dim", "-1"}},
       .inputs = {{2, 3}, {2, 4}},
       .shapes_follow_from_first = false},
      {.name = "first",
       .parameters = {{"num_args", "2"}, {"dim", "0"}},
       .inputs = {{3}, {4}},
       .shapes_follow_from_first = false},
      {.name = "one", .parameters = {{"num_args", "1"}}, .inputs = {{2, 3}}},
      {.name = "empty_part",
       .parameters = {{"num_args", "2"}},
       .inputs = {{2, 0}, {2, 4}},
       .shapes_follow_from_first = false},
  };
}

ForwardReference Concat() {
  return [](const ParameterMap& parameters, const std::vector<Values>& in, std::vector<Values>*) {
    return std::vector<Values>{Join(in, AxisOf(parameters, "dim", 1, in[0].shape.ndim()))};
  };
}

const RowRegistration kConcat({
    .name = "Concat",
    .cases = ConcatCases(),
    .forward = Concat(),
    .takes_integers = true,
    .errors =
        {
            {.name = "other_extents_differ",
             .parameters = {{"num_args", "2"}},
             .inputs = {{2, 3, 4}, {2, 3, 5}},
             .words = {"arg1", "(2,3,5)"}},
            {.name = "no_such_axis",
             .parameters = {{"num_args", "2"}, {"dim", "3"}},
             .inputs = {{2, 3, 4}, {2, 3, 4}},
             .words = {"dim", "axis 3"}},
            {.name = "no_arrays", .parameters = {{"num_args", "0"}}, .words = {"num_args"}},
            {.name = "overflowing_sum",
             .parameters = {{"num_args", "2"}, {"dim", "0"}},
             .inputs = {{index_t{1} << 62}, {index_t{1} << 62}},
             .words = {"63 bits"}},
        },
});

const RowRegistration kRnnParamConcat({.name = "_rnn_param_concat",
                                       .cases = ConcatCases(),
                                       .forward = Concat(),
                                       .takes_integers = true});

const RowRegistration kStack({
    .name = "stack",
    .cases =
        {
            {.name = "first",
             .parameters = {{"num_args", "2"}},
             .inputs = {{2, 3}, {2, 3}},
             .dtypes = MovedDTypes()},
            {.name = "middle",
             .parameters = {{"num_args", "2"}, {"axis", "1"}},
             .inputs = {{2, 3}, {2, 3}}},
            {.name = "last",
             .parameters = {{"num_args", "3"}, {"axis", "-1"}},
             .inputs = {{2, 3}, {2, 3}, {2, 3}}},
            {.name = "scalars",
             .parameters = {{"num_args", "2"}},
             .inputs = {TShape::OfRank(0), TShape::OfRank(0)}},
        },
    .forward =
        [](const ParameterMap& parameters, std::vector<Values> in, std::vector<Values>*) {
          const int axis = AxisOf(parameters, "axis", 0, in[0].shape.ndim() + 1);
          for (Values& part : in) {
            std::vector<index_t> extents(part.shape.begin(), part.shape.end());
            extents.insert(extents.begin() + axis, 1);
            part.shape = TShape(std::span<const index_t>(extents));
          }
          return std::vector<Values>{Join(in, axis)};
        },
    .shapes_follow_from_output = true,
    .takes_integers = true,
    .errors =
        {
            {.name = "shapes_differ",
             .parameters = {{"num_args", "2"}},
             .inputs = {{2, 3, 4}, {2, 3, 5}},
             .words = {"arg1"}},
            {.name = "ranks_differ",
             .parameters = {{"num_args", "2"}},
             .inputs = {{2, 3}, {2, 3, 5}},
             .words = {"arg1", "(2,3,5)"}},
            {.name = "no_such_axis",
             .parameters = {{"num_args", "2"}, {"axis", "4"}},
             .inputs = {{2, 3, 4}, {2, 3, 4}},
             .words = {"axis 4"}},
        },
});

const RowRegistration kSliceChannel({
    .name = "SliceChannel",
    .cases =
        {
            {.name = "three",
             .parameters = {{"num_outputs", "3"}},
             .inputs = {{2, 6, 2}},
             .dtypes = MovedDTypes()},
            {.name = "squeezed",
             .parameters = {{"num_outputs", "3"}, {"squeeze_axis", "True"}},
             .inputs = {{2, 3, 2}}},
            {.name = "last_axis",
             .parameters = {{"num_outputs", "2"}, {"axis", "-1"}},
             .inputs = {{2, 3, 4}}},
            {.name = "one", .parameters = {{"num_outputs", "1"}}, .inputs = {{2, 3}}},
            {.name = "to_scalars",
             .parameters = {{"num_outputs", "3"}, {"axis", "0"}, {"squeeze_axis", "1"}},
             .inputs = {{3}}},
            {.name = "empty", .parameters = {{"num_outputs", "2"}}, .inputs = {{0, 4}}},
        },
    .forward =
        [](const ParameterMap& parameters, const std::vector<Values>& in, std::vector<Values>*) {
          const ParameterReader read(parameters);
          const index_t count = read.Int("num_outputs", 1);
          const int axis = AxisOf(parameters, "axis", 1, in[0].shape.ndim());
          const index_t extent = in[0].shape[axis] / count;
          std::vector<Values> parts;
          for (index_t k = 0; k < count; ++k) {
            parts.push_back(Part(in[0], axis, k * extent, (k + 1) * extent));
            if (read.Bool("squeeze_axis", false)) {
              parts.back().shape = WithoutAxis(parts.back().shape, axis);
            }
          }
          return parts;
        },
    .shapes_follow_from_output = true,
    .takes_integers = true,
    .errors =
        {
            {.name = "no_equal_parts",
             .parameters = {{"num_outputs", "5"}},
             .inputs = {{2, 3, 4}},
             .words = {"(2,3,4)", "5 equal parts"}},
            {.name = "squeezes_more_than_one",
             .parameters = {{"num_outputs", "2"}, {"axis", "2"}, {"squeeze_axis", "True"}},
             .inputs = {{2, 3, 4}},
             .words = {"output0"}},
            {.name = "no_outputs", .parameters = {{"num_outputs", "0"}}, .words = {"num_outputs"}},
        },
});

const RowRegistration kSplitV2({
    .name = "_split_v2",
    .cases =
        {
            {.name = "at_positions",
             .parameters = {{"indices", "(0,1,3)"}},
             .inputs = {{2, 5, 2}},
             .dtypes = MovedDTypes()},
            {.name = "empty_part",
             .parameters = {{"indices", "(0,0,2)"}, {"axis", "-1"}},
             .inputs = {{2, 4}}},
            {.name = "sections",
             .parameters = {{"indices", "()"}, {"axis", "2"}, {"sections", "3"}},
             .inputs = {{2, 3, 4}}},
            {.name = "squeezed",
             .parameters = {{"indices", "(0,1,2)"}, {"squeeze_axis", "True"}},
             .inputs = {{2, 3}}},
            {.name = "one", .parameters = {{"indices", "(0,)"}}, .inputs = {{2, 3}}},
        },
    .forward =
        [](const ParameterMap& parameters, const std::vector<Values>& in, std::vector<Values>*) {
          const ParameterReader read(parameters);
          const int axis = AxisOf(parameters, "axis", 1, in[0].shape.ndim());
          const TShape indices = TShape::Parse(read.Text("indices", "()"));
          std::vector<index_t> begins(indices.begin(), indices.end());
          const index_t extent = in[0].shape[axis], sections = read.Int("sections", 0);
          for (index_t k = 0, at = 0; k < sections; ++k) {
            begins.push_back(at);
            at += extent / sections + (k < extent % sections ? 1 : 0);
          }
          begins.push_back(extent);
          std::vector<Values> parts;
          for (size_t k = 0; k + 1 < begins.size(); ++k) {
            parts.push_back(Part(in[0], axis, begins[k], begins[k + 1]));
            if (read.Bool("squeeze_axis", false)) {
              parts.back().shape = WithoutAxis(parts.back().shape, axis);
            }
          }
          return parts;
        },
    .shapes_follow_from_output = true,
    .takes_integers = true,
    .errors =
        {
            {.name = "descending", .parameters = {{"indices", "(0,3,2)"}}, .words = {"indices"}},
            {.name = "not_from_0", .parameters = {{"indices", "(1,2)"}}, .words = {"indices"}},
            {.name = "none", .parameters = {{"indices", "()"}}, .words = {"indices"}},
            {.name = "beyond_the_end",
             .parameters = {{"indices", "(0,7)"}, {"axis", "2"}},
             .inputs = {{2, 3, 4}},
             .words = {"(2,3,4)", "indices"}},
        },
});

}  // namespace
}  // namespace tessera::ops_testing
