// Names that a graph does not have: inference refuses them, and binding ignores them.
#include <cstdint>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "mxnet/c_api.h"
#include "tessera/compat/mxnet/testing/client.h"

namespace tessera::mxnet {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

Owned MakeDense() {
  const Owned data = MakeVariable("data");
  return Apply("FullyConnected", "fc", {data.get()}, {{"num_hidden", "4"}});
}

int InferShape(decltype(MXSymbolInferShapeEx)* function, SymbolHandle symbol, const char* name) {
  const uint32_t offsets[] = {0, 2};
  const int extents[] = {2, 3};
  uint32_t sizes[3];
  const int* ranks[3];
  const int** shapes[3];
  int complete = 0;
  return function(symbol, 1, &name, offsets, extents, &sizes[0], &ranks[0], &shapes[0], &sizes[1],
                  &ranks[1], &shapes[1], &sizes[2], &ranks[2], &shapes[2], &complete);
}

int InferType(decltype(MXSymbolInferType)* function, SymbolHandle symbol, const char* name,
              int type) {
  uint32_t sizes[3];
  const int* types[3];
  int complete = 0;
  return function(symbol, 1, &name, &type, &sizes[0], &types[0], &sizes[1], &types[1], &sizes[2],
                  &types[2], &complete);
}

TEST(UnknownNamesTest, InferenceNamesThemAndTheNearest) {
  const Owned dense = MakeDense();
  const auto names_both = AllOf(HasSubstr("\"dta\""), HasSubstr("did you mean \"data\"?"));
  for (const auto function : {MXSymbolInferShapeEx, MXSymbolInferShapePartialEx}) {
    Check(InferShape(function, dense.get(), "data"));
    EXPECT_THAT(ErrorOf(InferShape(function, dense.get(), "dta")), names_both);
    EXPECT_THAT(ErrorOf(InferShape(function, dense.get(), "label")),
                HasSubstr("\"label\"; expected one of data, fc_weight, fc_bias"));
  }
  for (const auto function : {MXSymbolInferType, MXSymbolInferTypePartial}) {
    for (const int type : {0, -1}) {
      Check(InferType(function, dense.get(), "data", type));
      EXPECT_THAT(ErrorOf(InferType(function, dense.get(), "dta", type)), names_both);
    }
  }
}

/// The results of a function that binds.
struct Bound {
  uint32_t num_arguments = 0, num_aux_states = 0;
  NDArrayHandle *arguments = nullptr, *gradients = nullptr, *aux_states = nullptr;
  ExecutorHandle executor = nullptr;

  std::vector<int> first_shape() const { return ShapeOf(arguments[0]); }
};

/// Binds with the shape (2, 3) for some names.
int SimpleBind(SymbolHandle symbol, std::vector<const char*> names, Bound* bound) {
  const int extents[] = {2, 3, 2, 3};
  const uint32_t offsets[] = {0, 2, 4};
  int buffer_size = -1;
  return MXExecutorSimpleBindEx(symbol, 1, 0, 0, nullptr, nullptr, nullptr, 0, nullptr, nullptr,
                                static_cast<uint32_t>(names.size()), names.data(), extents, offsets,
                                0, nullptr, nullptr, 0, nullptr, nullptr, 0, nullptr, &buffer_size,
                                nullptr, nullptr, nullptr, nullptr, &bound->num_arguments,
                                &bound->arguments, &bound->gradients, &bound->num_aux_states,
                                &bound->aux_states, nullptr, &bound->executor);
}

/// Binds an executor's symbol again, with the shape (1, 3) for some names.
int Reshape(ExecutorHandle executor, std::vector<const char*> names, Bound* bound) {
  const int extents[] = {1, 3, 1, 3};
  const uint32_t offsets[] = {0, 2, 4};
  return MXExecutorReshapeEx(
      0, 0, 1, 0, 0, nullptr, nullptr, nullptr, static_cast<uint32_t>(names.size()), names.data(),
      extents, offsets, &bound->num_arguments, &bound->arguments, &bound->gradients,
      &bound->num_aux_states, &bound->aux_states, executor, &bound->executor);
}

TEST(UnknownNamesTest, BindingIgnoresThemAsMxnetDoes) {
  const Owned dense = MakeDense();
  Bound bound, reshaped;
  Check(SimpleBind(dense.get(), {"data", "softmax_label"}, &bound));
  EXPECT_THAT(bound.first_shape(), ElementsAre(2, 3));
  Check(Reshape(bound.executor, {"data", "softmax_label"}, &reshaped));
  EXPECT_THAT(reshaped.first_shape(), ElementsAre(1, 3));
  Check(MXExecutorFree(reshaped.executor));
  Check(MXExecutorFree(bound.executor));
}

TEST(UnknownNamesTest, ABindingThatFailsSaysWhatItHasIgnored) {
  const Owned dense = MakeDense();
  const auto names_both = AllOf(HasSubstr("ignored: dta"), HasSubstr("did you mean \"data\"?"));
  Bound bound, reshaped;
  EXPECT_THAT(ErrorOf(SimpleBind(dense.get(), {"dta"}, &bound)), names_both);
  EXPECT_THAT(ErrorOf(SimpleBind(dense.get(), {"a_label", "dta"}, &bound)),
              HasSubstr("ignored: a_label, dta; did you mean \"data\"?"));
  Check(SimpleBind(dense.get(), {"data"}, &bound));
  EXPECT_THAT(ErrorOf(Reshape(bound.executor, {"dta"}, &reshaped)), names_both);
  Check(MXExecutorFree(bound.executor));
}

}  // namespace
}  // namespace tessera::mxnet
