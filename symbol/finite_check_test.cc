// The setting TESSERA_CHECK_FINITE, which this test's target turns on: calls of arrays and of bound
// graphs name the first operator whose output is not finite.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <string>
#include <vector>

#include "tessera/base/error.h"
#include "tessera/ndarray/imperative.h"
#include "tessera/ndarray/testing/array_values.h"
#include "tessera/symbol/executor.h"

namespace tessera {
namespace {

using ndarray_testing::Vector;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

/// Returns the message of the error that waiting for the array throws, or "" if there is none.
std::string ErrorOf(const NDArray& array) {
  try {
    array.WaitToRead();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Error::kOutOfRange) << error.what();
    return error.what();
  }
  return "";
}

TEST(FiniteCheckTest, AnImperativeCallNamesOperatorElementAndInputs) {
  EXPECT_THAT(ErrorOf(Invoke("log", {Vector({1, -1, 2})})[0]),
              AllOf(HasSubstr("log of float32(3,)"),
                    HasSubstr("output output of shape (3,) has NaN at element 1"),
                    HasSubstr("TESSERA_CHECK_FINITE"), Not(HasSubstr("input"))));
  EXPECT_THAT(ErrorOf(Invoke("log", {Vector({1, 0})})[0]), HasSubstr("has -inf at element 1"));
  EXPECT_EQ(ErrorOf(Invoke("log", {Vector({1, 2})})[0]), "");
}

TEST(FiniteCheckTest, TheFirstOperatorIsNamedByWhatDependsOnIt) {
  const NDArray bad = Invoke("sqrt", {Vector({-4})})[0];
  EXPECT_THAT(ErrorOf(Invoke("square", {bad})[0]),
              AllOf(HasSubstr("sqrt of float32(1,)"), Not(HasSubstr("square of"))));
}

TEST(FiniteCheckTest, AnInputThatIsNotFiniteIsNamed) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  EXPECT_THAT(ErrorOf(Invoke("elemwise_add", {Vector({1, 2}), Vector({1, nan})})[0]),
              AllOf(HasSubstr("elemwise_add of float32(2,), float32(2,)"),
                    HasSubstr("input rhs has NaN at element 1"), Not(HasSubstr("input lhs"))));
  // In place, the input is gone.
  const NDArray x = Vector({nan});
  const NDArray inputs[] = {x};
  Invoke("square", inputs, inputs);
  EXPECT_THAT(ErrorOf(x), AllOf(HasSubstr("output output"), Not(HasSubstr("input"))));
}

TEST(FiniteCheckTest, SixteenBitTypesAreCheckedAndIntegersAreFinite) {
  EXPECT_THAT(ErrorOf(Invoke("Cast", {Vector({1e6f})}, {{"dtype", "float16"}})[0]),
              AllOf(HasSubstr("Cast of float32(1,)"), HasSubstr("has inf at element 0")));
  EXPECT_EQ(ErrorOf(Invoke("Cast", {Vector({1e6f})}, {{"dtype", "int32"}})[0]), "");
}

TEST(FiniteCheckTest, ABoundGraphNamesTheNode) {
  Symbol net = Symbol::Apply("log", {Symbol::Variable("x")}, {}, "first");
  net = Symbol::Apply("exp", {net}, {}, "second");
  const auto executor = SimpleBind(net, Device::Cpu(), {.shapes = {{"x", {2}}}});
  CopyFromTo(Vector({3, -3}), executor->arg_dict().at("x"));
  executor->Forward(/*is_train=*/false);
  EXPECT_THAT(ErrorOf(executor->outputs()[0]),
              AllOf(HasSubstr("node \"first\" (log of float32(2,))"),
                    HasSubstr("has NaN at element 1"), Not(HasSubstr("second"))));
  // With other values, the same graph goes on.
  CopyFromTo(Vector({3, 4}), executor->arg_dict().at("x"));
  executor->Forward(/*is_train=*/false);
  EXPECT_EQ(ErrorOf(executor->outputs()[0]), "");
}

TEST(FiniteCheckTest, AGradientNamesTheOperatorItBelongsTo) {
  const auto executor = SimpleBind(Symbol::Apply("sqrt", {Symbol::Variable("x")}, {}, "root"),
                                   Device::Cpu(), {.shapes = {{"x", {2}}}});
  CopyFromTo(Vector({4, 0}), executor->arg_dict().at("x"));
  executor->Forward(/*is_train=*/true);
  EXPECT_EQ(ErrorOf(executor->outputs()[0]), "");
  executor->Backward({Vector({1, 1})});
  EXPECT_THAT(ErrorOf(executor->grad_dict().at("x")),
              AllOf(HasSubstr("_backward_sqrt"), HasSubstr("output data_grad"),
                    HasSubstr("has inf at element 1")));
}

TEST(FiniteCheckTest, AnOutputThatAddsUpIsCheckedAsASum) {
  const auto executor = SimpleBind(Symbol::Variable("x") * 3.0, Device::Cpu(),
                                   {.shapes = {{"x", {1}}}, .grad_req = kAddTo});
  const NDArray gradient = executor->grad_dict().at("x");
  CopyFromTo(Vector({3e38f}), gradient);
  executor->Forward(/*is_train=*/true);
  executor->Backward({Vector({1e38f})});
  EXPECT_THAT(ErrorOf(gradient), HasSubstr("has inf at element 0"));
}

}  // namespace
}  // namespace tessera
