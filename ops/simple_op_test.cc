#include "tessera/ops/simple_op.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "tessera/base/error.h"
#include "tessera/ops/registry.h"
#include "tessera/ops/testing/operator_harness.h"
#include "tessera/ops/testing/operator_row.h"
#include "tessera/ops/testing/property_checks.h"
#include "tessera/ops/testing/test_device.h"

namespace tessera {
namespace {

using ops_testing::OperatorCase;
using ops_testing::OperatorHarness;
using ops_testing::OperatorRow;
using ops_testing::Values;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

/// x^2 / (1 + scalar x^2)
struct Saturating {
  static constexpr double kScalar = 0.5;
  template <typename T>
  TESSERA_HD static T Map(T x, T scalar) {
    return x * x / (T(1) + scalar * x * x);
  }
  template <typename T>
  TESSERA_HD static T Derivative(T x, T scalar) {
    const T below = T(1) + scalar * x * x;
    return T(2) * x / (below * below);
  }
};
TESSERA_REGISTER_SIMPLE_OP(test_saturating, ElementwiseOp<Saturating>())
    .Describe("x^2 / (1 + scalar x^2)")
    .Alias("test_saturating_alias");

/// lhs^2 rhs
struct SquareTimes {
  template <typename T>
  TESSERA_HD static T Map(T lhs, T rhs) {
    return lhs * lhs * rhs;
  }
  template <typename T>
  TESSERA_HD static T LeftDerivative(T lhs, T rhs) {
    return T(2) * lhs * rhs;
  }
  template <typename T>
  TESSERA_HD static T RightDerivative(T lhs, T) {
    return lhs * lhs;
  }
};
TESSERA_REGISTER_SIMPLE_OP(test_square_times, ElementwiseOp<SquareTimes>()).Describe("lhs^2 rhs");

/// 1 if lhs > rhs, else 0, a function without gradients.
struct Above {
  template <typename T>
  TESSERA_HD static T Map(T lhs, T rhs) {
    return T(lhs > rhs);
  }
};
TESSERA_REGISTER_SIMPLE_OP(test_above, ElementwiseOp<Above>()).Describe("1 if lhs > rhs, else 0");

/// out[i] = sum over j of data[i][j]
TShape RowSumShape(std::span<const TShape> in_shape) {
  if (in_shape[0].ndim() != 2) {
    throw InvalidArgument("data has shape ", in_shape[0], ", expected a matrix");
  }
  return {in_shape[0][0]};
}
void RowSumForward(const OpContext& context, std::span<const TBlob> in_data,
                   const TBlob& out_data) {
  VisitRealDType(out_data.type_flag_, "row sum", [&](auto tag) {
    using T = typename decltype(tag)::type;
    auto* const stream = context.get_stream<xpu>();
    auto out = out_data.get<xpu, 1, T>(stream);
    out = sumall_except_dim<0>(in_data[0].get<xpu, 2, T>(stream));
  });
}
void RowSumBackward(const OpContext& context, const TBlob& out_grad, std::span<const TBlob>,
                    const TBlob&, std::span<const TBlob> in_grad) {
  if (in_grad[0].dptr_ == nullptr) return;
  VisitRealDType(out_grad.type_flag_, "row sum", [&](auto tag) {
    using T = typename decltype(tag)::type;
    auto* const stream = context.get_stream<xpu>();
    auto gradient = in_grad[0].get<xpu, 2, T>(stream);
    gradient = broadcast<0>(out_grad.get<xpu, 1, T>(stream), gradient.shape_);
  });
}
TESSERA_REGISTER_SIMPLE_OP(test_row_sum, SimpleOp{.shape = RowSumShape,
                                                  .forward = RowSumForward,
                                                  .backward = RowSumBackward})
    .Describe("the sum of each row");

/// Returns the row of an operator of one output whose elements `f` computes.
template <typename Function>
OperatorRow ElementwiseRow(const std::string& name, std::vector<OperatorCase> cases, Function f) {
  return {
      .name = name,
      .cases = std::move(cases),
      .forward =
          [f](const ParameterMap& parameters, const std::vector<Values>& in, std::vector<Values>*) {
            Values out(in[0].shape);
            for (index_t i = 0; i < out.size(); ++i) out[i] = f(parameters, in, i);
            return std::vector<Values>{out};
          },
      .shapes_follow_from_output = true};
}

/// Runs an operator through the checks that operators_test makes of every registered one.
void CheckRow(const OperatorRow& row) {
  const auto device = ops_testing::MakeCpuTestDevice();
  for (const OperatorCase& test_case : row.cases) {
    SCOPED_TRACE(row.name + ", " + test_case.name);
    ops_testing::CheckProperty(row, test_case);
    ops_testing::CheckShapeInference(row, test_case);
    ops_testing::CheckTypeInference(row, test_case);
    for (const DType dtype : test_case.dtypes) {
      OperatorHarness harness(row, test_case, dtype, device.get());
      harness.ExpectForward(harness.Forward());
      for (const InplacePair pair : harness.ForwardInplaceOption()) {
        harness.ExpectForward(harness.Forward({.req = {kWriteInplace}, .inplace = {pair}}));
      }
      if (harness.AcceptsAddTo()) {
        harness.ExpectForward(harness.Forward({.req = {kAddTo}}), {kAddTo});
      }
      if (!harness.property().HasGradient()) continue;
      const size_t n = harness.num_inputs();
      harness.ExpectBackward(harness.Backward());
      for (const InplacePair pair : harness.BackwardInplaceOption()) {
        std::vector<OpReqType> req(n, kWriteTo);
        req[0] = kWriteInplace;
        harness.ExpectBackward(harness.Backward({.req = req, .inplace = {pair}}));
      }
      const std::vector<OpReqType> add(n, kAddTo);
      if (harness.AcceptsAddTo()) harness.ExpectBackward(harness.Backward({.req = add}), add);
      for (size_t i = 0; n > 1 && i < n; ++i) {
        std::vector<OpReqType> req(n, kWriteTo);
        req[i] = kNullOp;
        harness.ExpectBackward(harness.Backward({.req = req, .null_blobs_for_null_req = true}),
                               req);
      }
    }
  }
}

TEST(SimpleOpTest, AFunctorOfOneElementHasAScalar) {
  CheckRow(ElementwiseRow(
      "test_saturating",
      {{.name = "default_scalar", .inputs = {{3, 4}}},
       {.name = "scalar", .parameters = {{"scalar", "2"}}, .inputs = {{5}}},
       {.name = "rank_0", .inputs = {TShape(std::vector<index_t>{})}},
       {.name = "empty", .inputs = {{0, 2}}}},
      [](const ParameterMap& parameters, const std::vector<Values>& in, index_t i) {
        const double x = in[0][i];
        const double scalar = ops_testing::ParameterReader(parameters).Real("scalar", 0.5);
        return x * x / (1 + scalar * x * x);
      }));
  const OperatorEntry* const entry = OperatorRegistry::Get().Find("test_saturating_alias");
  ASSERT_NE(entry, nullptr);
  EXPECT_EQ(entry->description, "x^2 / (1 + scalar x^2)");
  ASSERT_EQ(entry->describe_parameters().size(), 1u);
  EXPECT_EQ(entry->describe_parameters()[0].default_value, "0.5");
}

TEST(SimpleOpTest, AFunctorOfTwoElementsHasTwoGradients) {
  CheckRow(ElementwiseRow("test_square_times", {{.name = "matrix", .inputs = {{3, 4}, {3, 4}}}},
                          [](const ParameterMap&, const std::vector<Values>& in, index_t i) {
                            return in[0][i] * in[0][i] * in[1][i];
                          }));
  const auto property = OperatorRegistry::Get().Create("test_square_times", {});
  EXPECT_THAT(property->ListArguments(), ElementsAre("lhs", "rhs"));
}

TEST(SimpleOpTest, AFunctorWithoutDerivativeHasNoGradient) {
  CheckRow(ElementwiseRow("test_above", {{.name = "vector", .inputs = {{7}, {7}}}},
                          [](const ParameterMap&, const std::vector<Values>& in, index_t i) {
                            return in[0][i] > in[1][i] ? 1.0 : 0.0;
                          }));
  EXPECT_FALSE(OperatorRegistry::Get().Create("test_above", {})->HasGradient());
}

TEST(SimpleOpTest, FunctionsOfArraysInferTheirShape) {
  CheckRow(
      {.name = "test_row_sum",
       .cases = {{.name = "matrix", .inputs = {{3, 4}}}, {.name = "empty", .inputs = {{0, 4}}}},
       .forward =
           [](const ParameterMap&, const std::vector<Values>& in, std::vector<Values>*) {
             Values out({in[0].shape[0]});
             const index_t width = in[0].shape[1];
             for (index_t i = 0; i < in[0].size(); ++i) out[i / width] += in[0][i];
             return std::vector<Values>{out};
           },
       .batch_follows_from_output = false});
}

TEST(SimpleOpTest, ErrorsNameTheOperator) {
  const auto expect = [](const char* words, const auto& call) {
    try {
      call();
      ADD_FAILURE() << "no error with " << words;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Error::kInvalidArgument) << error.what();
      EXPECT_THAT(error.what(), HasSubstr(words));
    }
  };
  expect("test_row_sum: data has shape (2,)", [] {
    std::vector<TShape> in = {{2}}, out(1);
    OperatorRegistry::Get().Create("test_row_sum", {})->InferShape(&in, &out);
  });
  expect("test_square_times: rhs has shape (3,)", [] {
    std::vector<TShape> in = {{2}, {3}}, out(1);
    OperatorRegistry::Get().Create("test_square_times", {})->InferShape(&in, &out);
  });
  expect("test_row_sum", [] { OperatorRegistry::Get().Create("test_row_sum", {{"scalar", "1"}}); });
  expect("test_saturating", [] {
    OperatorRegistry::Get().Create("test_saturating", {{"scalar", "much"}});
  });
  expect("test_row_sum", [] {
    const std::vector<TShape> in = {{2, 2}};
    const std::vector<DType> types = {DType::kInt32};
    OperatorRegistry::Get().Create("test_row_sum", {})->CreateOperator(Device::Cpu(), in, types);
  });
}

}  // namespace
}  // namespace tessera
