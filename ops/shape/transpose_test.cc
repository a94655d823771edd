#include <utility>
#include <vector>

#include "tessera/ops/testing/operator_row.h"
#include "tessera/ops/testing/shape_reference.h"

namespace tessera::ops_testing {
namespace {

/// The array whose dimension d is dimension axes[d] of `in`.
Values Permute(const Values& in, const std::vector<size_t>& axes) {
  TShape shape = in.shape;
  for (size_t d = 0; d < axes.size(); ++d) {
    shape[static_cast<int>(d)] = in.shape[static_cast<int>(axes[d])];
  }
  return Gather(in, shape, [&](const Position& at) {
    Position from(at.size());
    for (size_t d = 0; d < axes.size(); ++d) from[axes[d]] = at[d];
    return from;
  });
}

std::vector<Values> Transpose(const ParameterMap& parameters, const std::vector<Values>& in,
                              std::vector<Values>*) {
  const TShape given = TShape::Parse(ParameterReader(parameters).Text("axes", "()"));
  std::vector<size_t> axes(given.begin(), given.end());
  for (int d = in[0].shape.ndim() - 1; given.ndim() == 0 && d >= 0; --d) {
    axes.push_back(static_cast<size_t>(d));
  }
  return {Permute(in[0], axes)};
}

std::vector<Values> TransposeGradient(const ParameterMap& parameters,
                                      const std::vector<Values>& out_grad,
                                      const std::vector<Values>& in, const std::vector<Values>&) {
  Values index(in[0].shape), gradient(in[0].shape);
  for (index_t i = 0; i < index.size(); ++i) index[i] = static_cast<double>(i);
  const Values moved = Transpose(parameters, {index}, nullptr)[0];
  for (index_t i = 0; i < index.size(); ++i) {
    gradient[static_cast<index_t>(moved[i])] = out_grad[0][i];
  }
  return {gradient};
}

const RowRegistration kTranspose({
    .name = "transpose",
    .cases =
        {
            {.name = "reversed", .inputs = {{2, 3, 4}}, .dtypes = MovedDTypes()},
            {.name = "last_two", .parameters = {{"axes", "(0,2,1)"}}, .inputs = {{2, 5, 4}}},
            {.name = "heads", .parameters = {{"axes", "(0,2,1,3)"}}, .inputs = {{2, 3, 4, 5}}},
            {.name = "to_channels_last",
             .parameters = {{"axes", "(0,2,3,1)"}},
             .inputs = {{2, 3, 5, 4}}},
            {.name = "cycle", .parameters = {{"axes", "(1,2,0)"}}, .inputs = {{2, 3, 4}}},
            {.name = "identity", .parameters = {{"axes", "(0,1)"}}, .inputs = {{2, 3}}},
            {.name = "rank_0", .inputs = {TShape::OfRank(0)}},
            {.name = "rank_1", .inputs = {{4}}},
            {.name = "rank_6", .inputs = {{2, 1, 3, 2, 1, 2}}},
            {.name = "empty", .inputs = {{2, 0, 3}}},
            {.name = "large",
             .inputs = {{70, 530}},
             .dtypes = {DType::kFloat32, DType::kUint8},
             .large = true},
        },
    .forward = Transpose,
    .backward = TransposeGradient,
    .shapes_follow_from_output = true,
    .takes_integers = true,
    .errors =
        {
            {.name = "too_few_axes",
             .parameters = {{"axes", "(0,1)"}},
             .inputs = {{2, 3, 4}},
             .words = {"axes", "(2,3,4)"}},
            {.name = "axis_twice", .parameters = {{"axes", "(0,1,1)"}}, .words = {"twice"}},
            {.name = "no_such_axis", .parameters = {{"axes", "(0,1,3)"}}, .words = {"axis 3"}},
        },
});

const RowRegistration kSwapAxis({
    .name = "SwapAxis",
    .cases =
        {
            {.name = "outer",
             .parameters = {{"dim1", "0"}, {"dim2", "2"}},
             .inputs = {{2, 3, 4}},
             .dtypes = MovedDTypes()},
            {.name = "from_the_end",
             .parameters = {{"dim1", "-1"}, {"dim2", "1"}},
             .inputs = {{2, 3, 4}}},
            {.name = "same", .inputs = {{2, 3}}},
            {.name = "empty", .parameters = {{"dim1", "0"}, {"dim2", "1"}}, .inputs = {{0, 3}}},
        },
    .forward =
        [](const ParameterMap& parameters, const std::vector<Values>& in, std::vector<Values>*) {
          const ParameterReader read(parameters);
          const index_t rank = in[0].shape.ndim();
          const auto axis = [&](const char* name) {
            return static_cast<size_t>((read.Int(name, 0) + rank) % rank);
          };
          std::vector<size_t> axes;
          for (index_t d = 0; d < rank; ++d) axes.push_back(static_cast<size_t>(d));
          std::swap(axes[axis("dim1")], axes[axis("dim2")]);
          return std::vector<Values>{Permute(in[0], axes)};
        },
    .shapes_follow_from_output = true,
    .takes_integers = true,
    .errors = {{.name = "no_such_axis",
                .parameters = {{"dim1", "0"}, {"dim2", "3"}},
                .inputs = {{2, 3, 4}},
                .words = {"dim2", "axis 3"}}},
});

/// The position among deep pixels of a position among wide ones.
Position DeepOf(const Position& wide, index_t b, index_t channels) {
  return {wide[0], (wide[2] % b * b + wide[3] % b) * channels + wide[1], wide[2] / b, wide[3] / b};
}

const RowRegistration kDepthToSpace({
    .name = "depth_to_space",
    .cases =
        {
            {.name = "two",
             .parameters = {{"block_size", "2"}},
             .inputs = {{2, 8, 2, 3}},
             .dtypes = MovedDTypes()},
            {.name = "three", .parameters = {{"block_size", "3"}}, .inputs = {{1, 9, 1, 2}}},
            {.name = "one", .parameters = {{"block_size", "1"}}, .inputs = {{1, 3, 2, 2}}},
            {.name = "no_images", .parameters = {{"block_size", "2"}}, .inputs = {{0, 4, 2, 3}}},
        },
    .forward =
        [](const ParameterMap& parameters, const std::vector<Values>& in, std::vector<Values>*) {
          const index_t b = ParameterReader(parameters).Int("block_size", 1);
          const TShape& s = in[0].shape;
          const TShape out = {s[0], s[1] / (b * b), s[2] * b, s[3] * b};
          return std::vector<Values>{
              Gather(in[0], out, [&](const Position& at) { return DeepOf(at, b, out[1]); })};
        },
    .shapes_follow_from_output = true,
    .takes_integers = true,
    .errors =
        {
            {.name = "channels_do_not_fit",
             .parameters = {{"block_size", "3"}},
             .inputs = {{2, 8, 2, 3}},
             .words = {"(2,8,2,3)", "multiple of 9"}},
            {.name = "no_block", .parameters = {{"block_size", "0"}}, .words = {"block_size"}},
            {.name = "rank_3",
             .parameters = {{"block_size", "2"}},
             .inputs = {{8, 2, 3}},
             .words = {"(8,2,3)"}},
            {.name = "no_pixels",
             .parameters = {{"block_size", "2"}},
             .inputs = {{2, 4, 0, 3}},
             .words = {"data", "(2,4,0,3)", "dimension 2"}},
        },
});

const RowRegistration kSpaceToDepth({
    .name = "space_to_depth",
    .cases =
        {
            {.name = "two",
             .parameters = {{"block_size", "2"}},
             .inputs = {{2, 2, 4, 6}},
             .dtypes = MovedDTypes()},
            {.name = "no_images", .parameters = {{"block_size", "2"}}, .inputs = {{0, 1, 4, 6}}},
        },
    .forward =
        [](const ParameterMap& parameters, const std::vector<Values>& in, std::vector<Values>*) {
          const index_t b = ParameterReader(parameters).Int("block_size", 1);
          const TShape& s = in[0].shape;
          Values out({s[0], s[1] * b * b, s[2] / b, s[3] / b});
          for (index_t i = 0; i < in[0].size(); ++i) {
            out[IndexOf(out.shape, DeepOf(PositionOf(s, i), b, s[1]))] = in[0][i];
          }
          return std::vector<Values>{out};
        },
    .shapes_follow_from_output = true,
    .takes_integers = true,
    .errors = {{.name = "width_does_not_fit",
                .parameters = {{"block_size", "2"}},
                .inputs = {{2, 8, 2, 3}},
                .words = {"(2,8,2,3)", "multiple of 2"}}},
});

}  // namespace
}  // namespace tessera::ops_testing
