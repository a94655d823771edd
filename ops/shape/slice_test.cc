#include <algorithm>
#include <string>
#include <vector>

#include "tessera/ops/testing/operator_row.h"
#include "tessera/ops/testing/shape_reference.h"

namespace tessera::ops_testing {
namespace {

/// Splits "(None,1)" and the like into its entries.
std::vector<std::string> Entries(const std::string& text) {
  std::vector<std::string> entries(1);
  for (const char c : text) {
    if (c == ',') {
      entries.emplace_back();
    } else if (c != '(' && c != ')' && c != ' ') {
      entries.back() += c;
    }
  }
  if (entries.back().empty()) entries.pop_back();
  return entries;
}

/// The positions of a dimension that Python's slice(begin, end, step) takes.
std::vector<index_t> PythonSlice(const std::string& begin, const std::string& end,
                                 const std::string& step_text, index_t extent) {
  const index_t step = step_text == "None" ? 1 : std::stoll(step_text);
  const auto bound = [&](const std::string& text, index_t absent) {
    if (text == "None") return absent;
    index_t value = std::stoll(text);
    if (value < 0) value += extent;
    return step > 0 ? std::clamp<index_t>(value, 0, extent)
                    : std::clamp<index_t>(value, -1, extent - 1);
  };
  const index_t first = bound(begin, step > 0 ? 0 : extent - 1);
  const index_t last = bound(end, step > 0 ? extent : -1);
  std::vector<index_t> positions;
  for (index_t i = first; step > 0 ? i < last : i > last; i += step) positions.push_back(i);
  return positions;
}

/// The positions that the parameters of slice name, by dimension.
std::vector<std::vector<index_t>> Sliced(const ParameterMap& parameters, const TShape& shape) {
  const ParameterReader read(parameters);
  const auto begin = Entries(read.Text("begin", "()")), end = Entries(read.Text("end", "()"));
  const auto step = Entries(read.Text("step", "()"));
  std::vector<std::vector<index_t>> positions;
  for (int d = 0; d < shape.ndim(); ++d) {
    const auto at = [d](const std::vector<std::string>& entries) {
      return d < static_cast<int>(entries.size()) ? entries[static_cast<size_t>(d)] : "None";
    };
    positions.push_back(PythonSlice(at(begin), at(end), at(step), shape[d]));
  }
  return positions;
}

Values Take(const Values& in, const std::vector<std::vector<index_t>>& positions) {
  TShape shape = in.shape;
  for (size_t d = 0; d < positions.size(); ++d) {
    shape[static_cast<int>(d)] = static_cast<index_t>(positions[d].size());
  }
  return Gather(in, shape, [&](Position at) {
    for (size_t d = 0; d < at.size(); ++d) at[d] = positions[d][static_cast<size_t>(at[d])];
    return at;
  });
}

OperatorCase SliceCase(const std::string& name, const std::string& begin, const std::string& end,
                       const std::string& step, const TShape& shape) {
  return {.name = name,
          .parameters = {{"begin", begin}, {"end", end}, {"step", step}},
          .inputs = {shape},
          .dtypes = {DType::kFloat32}};
}

std::vector<OperatorCase> SliceCases() {
  std::vector<OperatorCase> cases = {
      SliceCase("rows_and_columns", "(0,1)", "(2,3)", "()", {2, 3, 4}),
      SliceCase("open", "(None,1)", "(None,3)", "()", {2, 3, 4}),
      SliceCase("backwards", "(0,2,3)", "(2,None,None)", "(1,-1,-2)", {2, 3, 4}),
      SliceCase("from_the_end_backwards", "(0,-1)", "(2,-4)", "(1,-1)", {2, 3, 4}),
      SliceCase("end_cut", "(0,)", "(5,)", "()", {2, 3, 4}),
      SliceCase("begin_cut", "(-5,)", "(2,)", "()", {2, 3, 4}),
      SliceCase("begin_cut_backwards", "(0,3)", "(1,0)", "(1,-1)", {2, 3, 4}),
      SliceCase("end_cut_backwards", "(None,None,None)", "(None,None,-5)", "(None,None,-1)",
                {2, 3, 4}),
      SliceCase("empty", "(1,)", "(0,)", "()", {2, 3}),
      SliceCase("empty_beyond_the_end", "(0,5)", "(2,7)", "()", {2, 3}),
      SliceCase("step_beyond_the_end", "(0,)", "(3,)", "(9223372036854775807,)", {3, 2}),
      SliceCase("all", "()", "()", "()", {2, 3}),
      SliceCase("of_nothing", "(None,)", "(None,)", "(-1,)", {0, 3}),
  };
  cases[0].dtypes = MovedDTypes();
  return cases;
}

const RowRegistration kSlice({
    .name = "slice",
    .cases = SliceCases(),
    .forward =
        [](const ParameterMap& parameters, const std::vector<Values>& in, std::vector<Values>*) {
          return std::vector<Values>{Take(in[0], Sliced(parameters, in[0].shape))};
        },
    .batch_follows_from_output = false,
    .takes_integers = true,
    .errors =
        {
            {.name = "step_0",
             .parameters = {{"begin", "(0,)"}, {"end", "(1,)"}, {"step", "(0,)"}},
             .words = {"step"}},
            {.name = "lengths_differ",
             .parameters = {{"begin", "(0,)"}, {"end", "(1,2)"}},
             .words = {"begin", "end"}},
            {.name = "more_entries_than_dimensions",
             .parameters = {{"begin", "(0,0,0)"}, {"end", "(1,1,1)"}},
             .inputs = {{2, 3}},
             .words = {"(2,3)", "begin"}},
        },
});

const RowRegistration kSliceAxis({
    .name = "slice_axis",
    .cases =
        {
            {.name = "middle",
             .parameters = {{"axis", "1"}, {"begin", "0"}, {"end", "2"}},
             .inputs = {{2, 3, 4}},
             .dtypes = MovedDTypes()},
            {.name = "from_the_end",
             .parameters = {{"axis", "-1"}, {"begin", "-3"}, {"end", "-1"}},
             .inputs = {{2, 3, 4}}},
            {.name = "open",
             .parameters = {{"axis", "1"}, {"begin", "1"}, {"end", "None"}},
             .inputs = {{2, 3, 4}}},
            {.name = "of_an_empty_axis",
             .parameters = {{"axis", "1"}, {"begin", "0"}, {"end", "None"}},
             .inputs = {{3, 0}}},
            {.name = "of_nothing",
             .parameters = {{"axis", "1"}, {"begin", "1"}, {"end", "2"}},
             .inputs = {{0, 3}}},
        },
    .forward =
        [](const ParameterMap& parameters, const std::vector<Values>& in, std::vector<Values>*) {
          const ParameterReader read(parameters);
          const int rank = in[0].shape.ndim();
          const index_t axis = (read.Int("axis", 0) + rank) % rank;
          std::vector<std::vector<index_t>> positions;
          for (int d = 0; d < rank; ++d) {
            const bool taken = d == axis;
            positions.push_back(PythonSlice(taken ? read.Text("begin", "") : "None",
                                            taken ? read.Text("end", "") : "None", "None",
                                            in[0].shape[d]));
          }
          return std::vector<Values>{Take(in[0], positions)};
        },
    .batch_follows_from_output = true,
    .takes_integers = true,
    .errors =
        {
            {.name = "empty",
             .parameters = {{"axis", "1"}, {"begin", "2"}, {"end", "1"}},
             .inputs = {{2, 3}},
             .words = {"begin 2", "end 1", "(2,3)"}},
            {.name = "beyond_the_end",
             .parameters = {{"axis", "1"}, {"begin", "0"}, {"end", "9"}},
             .inputs = {{2, 3}},
             .words = {"end 9"}},
            {.name = "before_the_begin",
             .parameters = {{"axis", "1"}, {"begin", "-9"}, {"end", "2"}},
             .inputs = {{2, 3}},
             .words = {"begin -9"}},
            {.name = "no_such_axis",
             .parameters = {{"axis", "3"}, {"begin", "0"}, {"end", "1"}},
             .inputs = {{2, 3, 4}},
             .words = {"axis 3"}},
        },
});

/// A part as large as `shape`, from `begin` on.
Values Box(const Values& in, const TShape& shape, const Position& begin) {
  return Gather(in, shape, [&](Position at) {
    for (size_t d = 0; d < at.size(); ++d) at[d] += begin[d];
    return at;
  });
}

const RowRegistration kSliceLike({
    .name = "slice_like",
    .cases =
        {
            {.name = "all",
             .inputs = {{4, 3, 5}, {2, 3, 4}},
             .dtypes = MovedDTypes(),
             .fixed_types = {DType::kUnknown, DType::kInt32},
             .shapes_follow_from_first = false},
            {.name = "some",
             .parameters = {{"axes", "(0,1)"}},
             .inputs = {{4, 3, 5}, {2, 3}},
             .fixed_types = {DType::kUnknown, DType::kInt32},
             .shapes_follow_from_first = false},
            {.name = "from_the_end",
             .parameters = {{"axes", "(-3,)"}},
             .inputs = {{4, 3, 5}, {2, 7}},
             .fixed_types = {DType::kUnknown, DType::kInt32},
             .shapes_follow_from_first = false},
            {.name = "one_axis_twice",
             .parameters = {{"axes", "(1,0,-2)"}},
             .inputs = {{4, 3, 5}, {2, 2}},
             .fixed_types = {DType::kUnknown, DType::kInt32},
             .shapes_follow_from_first = false},
        },
    .forward =
        [](const ParameterMap& parameters, const std::vector<Values>& in, std::vector<Values>*) {
          TShape shape = in[0].shape;
          const auto axes = Entries(ParameterReader(parameters).Text("axes", "()"));
          for (int d = 0; d < shape.ndim(); ++d) {
            const bool taken =
                axes.empty() || std::any_of(axes.begin(), axes.end(), [&](const std::string& axis) {
                  return (std::stoi(axis) + shape.ndim()) % shape.ndim() == d;
                });
            if (taken) shape[d] = in[1].shape[d];
          }
          return std::vector<Values>{Box(in[0], shape, Position(3, 0))};
        },
    .batch_follows_from_output = false,
    .takes_integers = true,
    .errors =
        {
            {.name = "larger", .inputs = {{4, 3}, {5, 3}}, .words = {"(4,3)", "(5,3)"}},
            {.name = "ranks_differ", .inputs = {{4, 3}, {4}}, .words = {"(4,3)", "(4,)"}},
            {.name = "shape_like_lacks_the_axis",
             .parameters = {{"axes", "(1,)"}},
             .inputs = {{4, 3}, {4}},
             .words = {"axes", "(4,)"}},
        },
});

const RowRegistration kCrop({
    .name = "Crop",
    .cases =
        {
            {.name = "at_an_offset",
             .parameters = {{"num_args", "1"}, {"h_w", "(2,3)"}, {"offset", "(1,2)"}},
             .inputs = {{2, 3, 5, 6}},
             .dtypes = MovedDTypes()},
            {.name = "centre",
             .parameters = {{"num_args", "1"}, {"h_w", "(2,3)"}, {"center_crop", "True"}},
             .inputs = {{2, 1, 5, 6}}},
            {.name = "like_another",
             .parameters = {{"num_args", "2"}},
             .inputs = {{2, 3, 5, 6}, {3, 1, 3, 4}},
             .shapes_follow_from_first = false},
            {.name = "centre_like_another",
             .parameters = {{"num_args", "2"}, {"center_crop", "True"}},
             .inputs = {{2, 3, 5, 6}, {2, 1, 2, 4}},
             .shapes_follow_from_first = false},
        },
    .forward =
        [](const ParameterMap& parameters, const std::vector<Values>& in, std::vector<Values>*) {
          const ParameterReader read(parameters);
          const auto size = read.Window("h_w", 0, 0), offset = read.Window("offset", 0, 0);
          TShape shape = in[0].shape;
          Position begin(4, 0);
          for (size_t k = 0; k < 2; ++k) {
            const int d = static_cast<int>(k) + 2;
            shape[d] = in.size() == 2 ? in[1].shape[d] : size[k];
            begin[k + 2] =
                read.Bool("center_crop", false) ? (in[0].shape[d] - shape[d]) / 2 : offset[k];
          }
          return std::vector<Values>{Box(in[0], shape, begin)};
        },
    .takes_integers = true,
    .errors =
        {
            {.name = "no_size", .parameters = {{"num_args", "1"}}, .words = {"h_w"}},
            {.name = "outside",
             .parameters = {{"num_args", "1"}, {"h_w", "(2,3)"}, {"offset", "(4,2)"}},
             .inputs = {{2, 3, 5, 6}},
             .words = {"(2,3,5,6)"}},
            {.name = "too_large",
             .parameters = {{"num_args", "1"}, {"h_w", "(7,3)"}},
             .inputs = {{2, 3, 5, 6}},
             .words = {"(2,3,5,6)"}},
            {.name = "negative_offset",
             .parameters = {{"num_args", "1"}, {"h_w", "(2,3)"}, {"offset", "(-1,0)"}},
             .words = {"offset"}},
            {.name = "three_arguments", .parameters = {{"num_args", "3"}}, .words = {"num_args"}},
        },
});

const RowRegistration kReverse({
    .name = "reverse",
    .cases =
        {
            {.name = "outer_and_inner",
             .parameters = {{"axis", "(0,2)"}},
             .inputs = {{2, 3, 4}},
             .dtypes = MovedDTypes()},
            {.name = "one", .parameters = {{"axis", "1"}}, .inputs = {{2, 3}}},
            {.name = "none", .parameters = {{"axis", "()"}}, .inputs = {{2, 3}}},
            {.name = "twice", .parameters = {{"axis", "(1,1)"}}, .inputs = {{2, 3}}},
            {.name = "empty", .parameters = {{"axis", "(0,)"}}, .inputs = {{0, 3}}},
        },
    .forward =
        [](const ParameterMap& parameters, const std::vector<Values>& in, std::vector<Values>*) {
          const auto axes = Entries(ParameterReader(parameters).Text("axis", "()"));
          return std::vector<Values>{Gather(in[0], in[0].shape, [&](Position at) {
            for (const std::string& axis : axes) {
              const int d = std::stoi(axis);
              at[static_cast<size_t>(d)] = in[0].shape[d] - 1 - at[static_cast<size_t>(d)];
            }
            return at;
          })};
        },
    .shapes_follow_from_output = true,
    .takes_integers = true,
    .errors = {{.name = "no_such_axis",
                .parameters = {{"axis", "(2,)"}},
                .inputs = {{2, 3}},
                .words = {"axis 2"}}},
});

/// `in` with the sliced elements replaced by `part`, or all by its only one.
Values Assign(const ParameterMap& parameters, Values in, const Values& part) {
  Values index(in.shape);
  for (index_t i = 0; i < in.size(); ++i) index[i] = static_cast<double>(i);
  const Values taken = Take(index, Sliced(parameters, in.shape));
  for (index_t i = 0; i < taken.size(); ++i) {
    in[static_cast<index_t>(taken[i])] = part.size() == 1 ? part[0] : part[i];
  }
  return in;
}

const RowRegistration kSliceAssign({
    .name = "_slice_assign",
    .cases =
        {
            {.name = "block",
             .parameters = {{"begin", "(0,1)"}, {"end", "(1,3)"}},
             .inputs = {{2, 3, 4}, {1, 2, 4}},
             .dtypes = MovedDTypes()},
            {.name = "backwards",
             .parameters = {{"begin", "(None,)"}, {"end", "(None,)"}, {"step", "(-2,)"}},
             .inputs = {{5, 2}, {3, 2}}},
            {.name = "nothing",
             .parameters = {{"begin", "(1,)"}, {"end", "(1,)"}},
             .inputs = {{2, 3}, {0, 3}}},
        },
    .forward =
        [](const ParameterMap& parameters, const std::vector<Values>& in, std::vector<Values>*) {
          return std::vector<Values>{Assign(parameters, in[0], in[1])};
        },
    .takes_integers = true,
    .errors = {{.name = "another_shape",
                .parameters = {{"begin", "(0,1)"}, {"end", "(1,3)"}},
                .inputs = {{2, 3, 4}, {1, 2}},
                .words = {"rhs", "(1,2)"}}},
});

const RowRegistration kSliceAssignScalar({
    .name = "_slice_assign_scalar",
    .cases =
        {
            {.name = "block",
             .parameters =
                 {{"scalar", "9"}, {"begin", "(0,2)"}, {"end", "(1,None)"}, {"step", "(1,-1)"}},
             .inputs = {{2, 3, 4}},
             .dtypes = MovedDTypes()},
            {.name = "nothing",
             .parameters = {{"begin", "(1,)"}, {"end", "(1,)"}},
             .inputs = {{2, 3}}},
        },
    .forward =
        [](const ParameterMap& parameters, const std::vector<Values>& in, std::vector<Values>*) {
          Values scalar({1});
          scalar[0] = ParameterReader(parameters).Real("scalar", 0);
          return std::vector<Values>{Assign(parameters, in[0], scalar)};
        },
    .shapes_follow_from_output = true,
    .takes_integers = true,
    .errors = {{.name = "more_entries_than_dimensions",
                .parameters = {{"begin", "(0,0,0)"}, {"end", "(1,1,1)"}},
                .inputs = {{2, 3}},
                .words = {"(2,3)"}}},
});

}  // namespace
}  // namespace tessera::ops_testing
