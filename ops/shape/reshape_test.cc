#include <string>
#include <vector>

#include "tessera/ops/testing/operator_row.h"
#include "tessera/ops/testing/shape_reference.h"

namespace tessera::ops_testing {
namespace {

/// A call and the output's shape, which MXNet 1.9.1 gives too.
struct ShapeCase {
  std::string name;
  ParameterMap parameters;
  std::vector<TShape> inputs;
  TShape out;
};

std::vector<OperatorCase> CasesOf(const std::vector<ShapeCase>& table,
                                  const std::vector<DType>& fixed_types = {}) {
  std::vector<OperatorCase> cases;
  for (const ShapeCase& row : table) {
    cases.push_back({.name = row.name,
                     .parameters = row.parameters,
                     .inputs = row.inputs,
                     .dtypes = {DType::kFloat32},
                     .fixed_types = fixed_types,
                     .shapes_follow_from_first = row.inputs.size() == 1});
  }
  cases[0].dtypes = MovedDTypes();
  return cases;
}

ForwardReference ReferenceOf(const std::vector<ShapeCase>& table) {
  return
      [table](const ParameterMap& parameters, const std::vector<Values>& in, std::vector<Values>*) {
        for (const ShapeCase& row : table) {
          if (row.parameters == parameters && row.inputs[0] == in[0].shape) {
            return std::vector<Values>{InShape(in[0], row.out)};
          }
        }
        return std::vector<Values>{in[0]};
      };
}

const std::vector<ShapeCase>& ReshapeCases() {
  static const TShape k234 = {2, 3, 4};
  static const std::vector<ShapeCase> cases = {
      {"rest", {{"shape", "(0,-1)"}}, {k234}, {2, 12}},
      {"flat", {{"shape", "-1"}}, {k234}, {24}},
      {"all_that_follow", {{"shape", "(-2,)"}}, {k234}, {2, 3, 4}},
      {"copy_and_all_that_follow", {{"shape", "(0,-2)"}}, {k234}, {2, 3, 4}},
      {"append", {{"shape", "(-2,1)"}}, {k234}, {2, 3, 4, 1}},
      {"join", {{"shape", "(-3,-2)"}}, {k234}, {6, 4}},
      {"join_last", {{"shape", "(0,-3)"}}, {k234}, {2, 12}},
      {"join_and_keep", {{"shape", "(-3,4)"}}, {k234}, {6, 4}},
      {"split", {{"shape", "(-4,1,2,-2)"}}, {k234}, {1, 2, 3, 4}},
      {"split_first_unknown", {{"shape", "(-4,-1,2,-2)"}}, {k234}, {1, 2, 3, 4}},
      {"split_second_unknown", {{"shape", "(-4,2,-1,-2)"}}, {k234}, {2, 1, 3, 4}},
      {"split_last", {{"shape", "(2,3,-4,2,-1)"}}, {k234}, {2, 3, 2, 2}},
      {"rest_then_copy", {{"shape", "(-1,0)"}}, {k234}, {8, 3}},
      {"rest_then_copy_reversed", {{"shape", "(-1,0)"}, {"reverse", "True"}}, {k234}, {6, 4}},
      {"copy_reversed", {{"shape", "(0,-1)"}, {"reverse", "1"}}, {k234}, {3, 8}},
      {"join_reversed", {{"shape", "(0,-3)"}, {"reverse", "True"}}, {k234}, {2, 12}},
      {"split_reversed", {{"shape", "(-1,2,2,-4)"}, {"reverse", "True"}}, {k234}, {6, 2, 2}},
      {"documented_reversed", {{"shape", "(-1,0)"}, {"reverse", "True"}}, {{10, 5, 4}}, {50, 4}},
      {"target", {{"target_shape", "(2,0)"}}, {k234}, {2, 12}},
      {"target_keeps_highest",
       {{"target_shape", "(5,0)"}, {"keep_highest", "True"}},
       {k234},
       {2, 12}},
      {"empty_batch", {{"shape", "(0,-1)"}}, {{0, 3, 4}}, {0, 12}},
      {"one_element", {{"shape", "(1,1)"}}, {{1}}, {1, 1}},
      {"scalar", {{"shape", "(1,)"}}, {TShape::OfRank(0)}, {1}},
  };
  return cases;
}

const RowRegistration kReshape({
    .name = "Reshape",
    .cases = CasesOf(ReshapeCases()),
    .forward = ReferenceOf(ReshapeCases()),
    .takes_integers = true,
    .errors =
        {
            {.name = "two_rests",
             .parameters = {{"shape", "(-1,-1)"}},
             .words = {"shape", "more than one -1"}},
            {.name = "unknown_code", .parameters = {{"shape", "(-5,)"}}, .words = {"below -4"}},
            {.name = "split_into_nothing_known",
             .parameters = {{"shape", "(-4,-1,-1)"}},
             .words = {"-4"}},
            {.name = "split_without_extents",
             .parameters = {{"shape", "(-4,2)"}},
             .words = {"-4 without"}},
            {.name = "too_few_elements",
             .parameters = {{"shape", "(25,)"}},
             .inputs = {{2, 3, 4}},
             .words = {"(2,3,4)", "(25,)"}},
            {.name = "no_divisor",
             .parameters = {{"shape", "(5,-1)"}},
             .inputs = {{2, 3, 4}},
             .words = {"(2,3,4)", "(5,-1)"}},
            {.name = "copies_beyond_the_input",
             .parameters = {{"shape", "(0,0,0,0)"}},
             .inputs = {{2, 3, 4}},
             .words = {"(2,3,4)"}},
            {.name = "joins_beyond_the_input",
             .parameters = {{"shape", "(-3,-3)"}},
             .inputs = {{2, 3, 4}},
             .words = {"(2,3,4)"}},
            {.name = "split_that_does_not_fit",
             .parameters = {{"shape", "(-4,3,-1,-2)"}},
             .inputs = {{2, 3, 4}},
             .words = {"(2,3,4)"}},
            {.name = "overflowing_extents",
             .parameters = {{"shape", "(4611686018427387904,4,-1)"}},
             .inputs = {{2, 3, 4}},
             .words = {"63 bits"}},
            {.name = "nine_dimensions",
             .parameters = {{"shape", "(-4,1,1,-2)"}},
             .inputs = {{1, 1, 1, 1, 1, 1, 1, 1}},
             .words = {"(1,1,1,1,1,1,1,1)"}},
        },
});

index_t Columns(const TShape& shape) {
  index_t columns = 1;
  for (int i = 1; i < shape.ndim(); ++i) columns *= shape[i];
  return columns;
}

const RowRegistration kFlatten({
    .name = "Flatten",
    .cases =
        {
            {.name = "rank_1", .inputs = {{5}}},
            {.name = "rank_2", .inputs = {{3, 4}}},
            {.name = "rank_4", .inputs = {{2, 3, 4, 5}}, .dtypes = MovedDTypes()},
            {.name = "rank_8", .inputs = {{2, 1, 2, 1, 3, 1, 2, 1}}},
            {.name = "batch_0", .inputs = {{0, 3, 4}}},
            {.name = "no_columns", .inputs = {{3, 0, 4}}},
        },
    .forward =
        [](const ParameterMap&, const std::vector<Values>& in, std::vector<Values>*) {
          return std::vector<Values>{InShape(in[0], {in[0].shape[0], Columns(in[0].shape)})};
        },
    .takes_integers = true,
    .errors =
        {
            {.name = "scalar", .inputs = {TShape::OfRank(0)}, .words = {"data", "scalar"}},
            {.name = "overflowing_extents",
             .inputs = {{1, index_t{1} << 40, index_t{1} << 40}},
             .words = {"data", "63 bits"}},
        },
});

const std::vector<ShapeCase>& ExpandDimsCases() {
  static const std::vector<ShapeCase> cases = {
      {"first", {{"axis", "0"}}, {{2, 3}}, {1, 2, 3}},
      {"middle", {{"axis", "1"}}, {{2, 3}}, {2, 1, 3}},
      {"last", {{"axis", "2"}}, {{2, 3}}, {2, 3, 1}},
      {"from_the_end", {{"axis", "-1"}}, {{2, 3}}, {2, 3, 1}},
      {"from_the_end_to_the_first", {{"axis", "-3"}}, {{2, 3}}, {1, 2, 3}},
      {"of_a_scalar", {{"axis", "0"}}, {TShape::OfRank(0)}, {1}},
      {"of_nothing", {{"axis", "1"}}, {{0, 3}}, {0, 1, 3}},
  };
  return cases;
}

const RowRegistration kExpandDims({
    .name = "expand_dims",
    .cases = CasesOf(ExpandDimsCases()),
    .forward = ReferenceOf(ExpandDimsCases()),
    .shapes_follow_from_output = true,
    .takes_integers = true,
    .errors =
        {
            {.name = "axis_too_large",
             .parameters = {{"axis", "4"}},
             .inputs = {{2, 3, 4}},
             .words = {"axis 4"}},
            {.name = "axis_too_small",
             .parameters = {{"axis", "-5"}},
             .inputs = {{2, 3, 4}},
             .words = {"axis -5"}},
            {.name = "nine_dimensions",
             .parameters = {{"axis", "0"}},
             .inputs = {{1, 1, 1, 1, 1, 1, 1, 1}},
             .words = {"rank"}},
        },
});

const std::vector<ShapeCase>& SqueezeCases() {
  static const std::vector<ShapeCase> cases = {
      {"all", {}, {{1, 3, 1, 2}}, {3, 2}},
      {"first", {{"axis", "0"}}, {{1, 3, 1}}, {3, 1}},
      {"several", {{"axis", "(0,-1)"}}, {{1, 3, 1}}, {3}},
      {"none", {{"axis", "()"}}, {{1, 3, 1}}, {1, 3, 1}},
      {"to_one_element", {}, {{1, 1}}, {1}},
      {"to_one_element_by_axes", {{"axis", "(0,1)"}}, {{1, 1}}, {1}},
      {"nothing_to_leave_out", {{"axis", "None"}}, {{2, 3}}, {2, 3}},
      {"empty", {}, {{1, 0}}, {0}},
  };
  return cases;
}

const RowRegistration kSqueeze({
    .name = "squeeze",
    .cases = CasesOf(SqueezeCases()),
    .forward = ReferenceOf(SqueezeCases()),
    .batch_follows_from_output = false,
    .takes_integers = true,
    .errors =
        {
            {.name = "extent_above_1",
             .parameters = {{"axis", "1"}},
             .inputs = {{1, 3, 1}},
             .words = {"(1,3,1)", "axis"}},
            {.name = "axis_twice",
             .parameters = {{"axis", "(0,-3)"}},
             .inputs = {{1, 3, 1}},
             .words = {"twice"}},
            {.name = "no_such_axis",
             .parameters = {{"axis", "3"}},
             .inputs = {{1, 3, 1}},
             .words = {"axis 3"}},
        },
});

const std::vector<ShapeCase>& ReshapeLikeCases() {
  static const ParameterMap kSome = {
      {"lhs_begin", "0"}, {"lhs_end", "1"}, {"rhs_begin", "0"}, {"rhs_end", "2"}};
  static const ParameterMap kFromTheEnd = {
      {"lhs_begin", "-2"}, {"lhs_end", "-1"}, {"rhs_begin", "None"}, {"rhs_end", "-1"}};
  static const std::vector<ShapeCase> cases = {
      {"all", {}, {{4, 3, 5}, {5, 12}}, {5, 12}},
      {"some", kSome, {{30, 7}, {15, 2, 4}}, {15, 2, 7}},
      {"from_the_end", kFromTheEnd, {{30, 7}, {15, 2, 4}}, {15, 2, 7}},
      {"empty", {}, {{0, 3}, {3, 0}}, {3, 0}},
  };
  return cases;
}

const RowRegistration kReshapeLike({
    .name = "reshape_like",
    .cases = CasesOf(ReshapeLikeCases(), {DType::kUnknown, DType::kInt32}),
    .forward = ReferenceOf(ReshapeLikeCases()),
    .batch_follows_from_output = false,
    .takes_integers = true,
    .errors =
        {
            {.name = "sizes_differ", .inputs = {{4, 3}, {5, 2}}, .words = {"(4,3)", "(5,2)"}},
            {.name = "range_beyond_the_rank",
             .parameters = {{"lhs_begin", "1"}, {"lhs_end", "4"}},
             .inputs = {{4, 3}, {4, 3}},
             .words = {"lhs_begin"}},
        },
});

std::vector<Values> Same(const ParameterMap&, const std::vector<Values>& in, std::vector<Values>*) {
  return in;
}

std::vector<OperatorCase> SameShapeCases(const ParameterMap& parameters) {
  return {{.name = "rank_2", .parameters = parameters, .inputs = {{3, 4}}, .dtypes = MovedDTypes()},
          {.name = "rank_0", .parameters = parameters, .inputs = {TShape::OfRank(0)}},
          {.name = "empty", .parameters = parameters, .inputs = {{2, 0}}}};
}

const RowRegistration kCopy({.name = "_copy",
                             .cases = SameShapeCases({}),
                             .forward = Same,
                             .shapes_follow_from_output = true,
                             .takes_integers = true});

const RowRegistration kIdentityLike({
    .name = "_identity_with_attr_like_rhs",
    .cases = {{.name = "rank_2",
               .inputs = {{3, 4}, {3, 4}},
               .dtypes = MovedDTypes(),
               .fixed_types = {DType::kUnknown, DType::kInt32}},
              {.name = "rank_0",
               .inputs = {TShape::OfRank(0), TShape::OfRank(0)},
               .fixed_types = {DType::kUnknown, DType::kInt32}},
              {.name = "empty",
               .inputs = {{2, 0}, {2, 0}},
               .fixed_types = {DType::kUnknown, DType::kInt32}}},
    .forward = [](const ParameterMap&, const std::vector<Values>& in,
                  std::vector<Values>*) { return std::vector<Values>{in[0]}; },
    .shapes_follow_from_output = true,
    .takes_integers = true,
    .errors = {{.name = "other_shape", .inputs = {{2, 3}, {2, 4}}, .words = {"rhs", "(2,4)"}}},
});

const RowRegistration kBlockGrad({.name = "BlockGrad",
                                  .cases = SameShapeCases({}),
                                  .forward = Same,
                                  .gradient_is_derivative = false,
                                  .shapes_follow_from_output = true,
                                  .takes_integers = true});

const RowRegistration kCastStorage({
    .name = "cast_storage",
    .cases = SameShapeCases({{"stype", "default"}}),
    .forward = Same,
    .shapes_follow_from_output = true,
    .takes_integers = true,
    .errors = {{.name = "csr_of_three_axes",
                .parameters = {{"stype", "csr"}},
                .inputs = {{2, 3, 4}},
                .words = {"(2,3,4)", "csr", "two axes"}},
               {.name = "rows_of_a_scalar",
                .parameters = {{"stype", "row_sparse"}},
                .inputs = {TShape::OfRank(0)},
                .words = {"row_sparse", "one axis"}}},
});

}  // namespace
}  // namespace tessera::ops_testing
