#include <string>
#include <vector>

#include "tessera/ops/testing/operator_row.h"
#include "tessera/ops/testing/shape_reference.h"

namespace tessera::ops_testing {
namespace {

/// Types whose sums of copies stay small.
std::vector<DType> SummedDTypes() {
  std::vector<DType> dtypes = RealDTypes();
  dtypes.insert(dtypes.end(), {DType::kInt32, DType::kInt64});
  return dtypes;
}

Values Broadcast(const Values& in, const TShape& shape) {
  return Gather(in, shape, [&](Position at) {
    for (int d = 0; d < shape.ndim(); ++d) {
      if (in.shape[d] == 1) at[static_cast<size_t>(d)] = 0;
    }
    return at;
  });
}

const RowRegistration kBroadcastTo({
    .name = "broadcast_to",
    .cases =
        {
            {.name = "outer_and_inner",
             .parameters = {{"shape", "(2,3,4)"}},
             .inputs = {{1, 3, 1}},
             .dtypes = SummedDTypes()},
            {.name = "zero_keeps", .parameters = {{"shape", "(2,0,4)"}}, .inputs = {{1, 3, 1}}},
            {.name = "nothing_to_do", .parameters = {{"shape", "(2,3)"}}, .inputs = {{2, 3}}},
            {.name = "one_element", .parameters = {{"shape", "(3,5)"}}, .inputs = {{1, 1}}},
            {.name = "empty", .parameters = {{"shape", "(0,4)"}}, .inputs = {{0, 1}}},
        },
    .forward =
        [](const ParameterMap& parameters, const std::vector<Values>& in, std::vector<Values>*) {
          TShape shape = TShape::Parse(ParameterReader(parameters).Text("shape", "()"));
          for (int d = 0; d < shape.ndim(); ++d) {
            if (shape[d] == 0) shape[d] = in[0].shape[d];
          }
          return std::vector<Values>{Broadcast(in[0], shape)};
        },
    .batch_follows_from_output = false,
    .takes_integers = true,
    .errors =
        {
            {.name = "extent_above_1",
             .parameters = {{"shape", "(2,4)"}},
             .inputs = {{1, 3}},
             .words = {"(1,3)", "(2,4)"}},
            {.name = "ranks_differ",
             .parameters = {{"shape", "(2,3,4)"}},
             .inputs = {{3, 1}},
             .words = {"(3,1)"}},
            {.name = "negative", .parameters = {{"shape", "(2,-1)"}}, .words = {"shape"}},
        },
});

const RowRegistration kBroadcastAxis({
    .name = "broadcast_axis",
    .cases =
        {
            {.name = "two",
             .parameters = {{"axis", "(0,2)"}, {"size", "(2,4)"}},
             .inputs = {{1, 3, 1}},
             .dtypes = SummedDTypes()},
            {.name = "one", .parameters = {{"axis", "1"}, {"size", "3"}}, .inputs = {{2, 1}}},
            {.name = "to_nothing",
             .parameters = {{"axis", "1"}, {"size", "0"}},
             .inputs = {{2, 1}}},
        },
    .forward =
        [](const ParameterMap& parameters, const std::vector<Values>& in, std::vector<Values>*) {
          const ParameterReader read(parameters);
          const TShape axis = TShape::Parse(read.Text("axis", "()"));
          const TShape size = TShape::Parse(read.Text("size", "()"));
          TShape shape = in[0].shape;
          for (int i = 0; i < axis.ndim(); ++i) shape[static_cast<int>(axis[i])] = size[i];
          return std::vector<Values>{Broadcast(in[0], shape)};
        },
    .takes_integers = true,
    .errors =
        {
            {.name = "extent_above_1",
             .parameters = {{"axis", "1"}, {"size", "2"}},
             .inputs = {{1, 3, 1}},
             .words = {"(1,3,1)"}},
            {.name = "counts_differ",
             .parameters = {{"axis", "(0,2)"}, {"size", "(2,)"}},
             .words = {"axis", "size"}},
            {.name = "no_such_axis",
             .parameters = {{"axis", "3"}, {"size", "2"}},
             .inputs = {{1, 3, 1}},
             .words = {"axis 3"}},
            {.name = "negative_size",
             .parameters = {{"axis", "0"}, {"size", "-2"}},
             .words = {"size"}},
        },
});

const RowRegistration kBroadcastLike({
    .name = "broadcast_like",
    .cases =
        {
            {.name = "all",
             .inputs = {{1, 3, 1}, {2, 3, 4}},
             .dtypes = SummedDTypes(),
             .fixed_types = {DType::kUnknown, DType::kInt32},
             .shapes_follow_from_first = false},
            {.name = "some",
             .parameters = {{"lhs_axes", "(0,-1)"}, {"rhs_axes", "(0,-1)"}},
             .inputs = {{1, 3, 1}, {2, 4}},
             .fixed_types = {DType::kUnknown, DType::kInt32},
             .shapes_follow_from_first = false},
        },
    .forward =
        [](const ParameterMap&, const std::vector<Values>& in, std::vector<Values>*) {
          return std::vector<Values>{Broadcast(in[0], {2, 3, 4})};
        },
    .batch_follows_from_output = false,
    .takes_integers = true,
    .errors =
        {
            {.name = "extent_above_1", .inputs = {{2, 3}, {2, 4}}, .words = {"(2,3)", "(2,4)"}},
            {.name = "axes_of_one_side",
             .parameters = {{"lhs_axes", "(0,)"}},
             .words = {"lhs_axes", "rhs_axes"}},
        },
});

std::vector<index_t> Reps(const ParameterMap& parameters, int rank) {
  const TShape reps = TShape::Parse(ParameterReader(parameters).Text("reps", "()"));
  std::vector<index_t> copies(reps.begin(), reps.end());
  while (static_cast<int>(copies.size()) < rank) copies.insert(copies.begin(), 1);
  return copies;
}

const RowRegistration kTile({
    .name = "tile",
    .cases =
        {
            {.name = "last_dimensions",
             .parameters = {{"reps", "(2,3)"}},
             .inputs = {{2, 3, 2}},
             .dtypes = SummedDTypes()},
            {.name = "more_dimensions", .parameters = {{"reps", "(2,1,3)"}}, .inputs = {{2, 2}}},
            {.name = "alternating",
             .parameters = {{"reps", "(2,3,2,2)"}},
             .inputs = {{2, 2, 2, 2}}},
            {.name = "of_a_scalar",
             .parameters = {{"reps", "(2,)"}},
             .inputs = {TShape::OfRank(0)}},
            {.name = "nothing_to_do", .parameters = {{"reps", "()"}}, .inputs = {{2, 3}}},
            {.name = "empty", .parameters = {{"reps", "(2,)"}}, .inputs = {{0}}},
        },
    .forward =
        [](const ParameterMap& parameters, const std::vector<Values>& in, std::vector<Values>*) {
          const auto copies = Reps(parameters, in[0].shape.ndim());
          const int rank = static_cast<int>(copies.size());
          TShape shape = TShape::OfRank(rank), data = shape;
          for (int d = 0; d < rank; ++d) {
            const int from = d - rank + in[0].shape.ndim();
            data[d] = from < 0 ? 1 : in[0].shape[from];
            shape[d] = data[d] * copies[static_cast<size_t>(d)];
          }
          return std::vector<Values>{Gather(InShape(in[0], data), shape, [&](Position at) {
            for (int d = 0; d < rank; ++d) at[static_cast<size_t>(d)] %= data[d];
            return at;
          })};
        },
    .takes_integers = true,
    .errors =
        {
            {.name = "no_copies", .parameters = {{"reps", "(0,1)"}}, .words = {"reps"}},
            {.name = "negative", .parameters = {{"reps", "(-1,)"}}, .words = {"reps"}},
            {.name = "overflowing_extents",
             .parameters = {{"reps", "(4611686018427387904,)"}},
             .inputs = {{4}},
             .words = {"63 bits"}},
        },
});

const RowRegistration kRepeat({
    .name = "repeat",
    .cases =
        {
            {.name = "flattened",
             .parameters = {{"repeats", "2"}},
             .inputs = {{2, 3}},
             .dtypes = SummedDTypes()},
            {.name = "last", .parameters = {{"repeats", "3"}, {"axis", "-1"}}, .inputs = {{2, 3}}},
            {.name = "first", .parameters = {{"repeats", "2"}, {"axis", "0"}}, .inputs = {{2, 3}}},
            {.name = "once", .parameters = {{"repeats", "1"}, {"axis", "1"}}, .inputs = {{2, 3}}},
            {.name = "not_at_all", .parameters = {{"repeats", "0"}}, .inputs = {{2, 3}}},
            {.name = "not_at_all_along_an_axis",
             .parameters = {{"repeats", "0"}, {"axis", "1"}},
             .inputs = {{2, 3}}},
        },
    .forward =
        [](const ParameterMap& parameters, const std::vector<Values>& in, std::vector<Values>*) {
          const ParameterReader read(parameters);
          const index_t repeats = read.Int("repeats", 1);
          Values data = in[0];
          if (read.Text("axis", "").empty() || repeats == 0) data.shape = {data.size()};
          const int rank = data.shape.ndim();
          const auto axis = static_cast<size_t>((read.Int("axis", 0) + rank) % rank);
          TShape shape = data.shape;
          shape[static_cast<int>(axis)] *= repeats;
          return std::vector<Values>{Gather(data, shape, [&](Position at) {
            at[axis] /= repeats;
            return at;
          })};
        },
    .batch_follows_from_output = false,
    .takes_integers = true,
    .errors =
        {
            {.name = "negative", .parameters = {{"repeats", "-1"}}, .words = {"repeats"}},
            {.name = "no_such_axis",
             .parameters = {{"repeats", "2"}, {"axis", "2"}},
             .inputs = {{2, 3}},
             .words = {"axis 2"}},
        },
});

}  // namespace
}  // namespace tessera::ops_testing
