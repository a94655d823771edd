// Imperative calls of an operator with two implementations, test_two
// (ops/testing/two_implementations.cc).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "tessera/base/error.h"
#include "tessera/ndarray/autograd.h"
#include "tessera/ndarray/call_observer.h"
#include "tessera/ndarray/imperative.h"
#include "tessera/ndarray/ndarray.h"
#include "tessera/ndarray/testing/array_values.h"
#include "tessera/ops/registry.h"

namespace tessera {
namespace {

using ndarray_testing::Vector;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::vector<float> Call(const NDArray& x, const ParameterMap& parameters = {}) {
  return Invoke("test_two", {x}, parameters)[0].ToVector();
}

TEST(ImplementationTest, IsChosenByShapeParametersAndName) {
  EXPECT_THAT(Call(Vector({0, 1})), ElementsAre(2, 3));
  EXPECT_THAT(Call(Vector({0, 1, 2})), ElementsAre(1, 2, 3)) << "an odd number";
  EXPECT_THAT(Call(Vector({0, 1}), {{"exact", "True"}}), ElementsAre(1, 2));
  EXPECT_THAT(Call(Vector({0, 1}), {{"__implementation__", "native"}}), ElementsAre(1, 2));
  EXPECT_THAT(Call(Vector({0, 1}), {{"__implementation__", "fast"}}), ElementsAre(2, 3));
  EXPECT_THAT(Call(Vector({0, 1})), ElementsAre(2, 3)) << "a call without a name";
  const std::shared_ptr<const OperatorProperty> property =
      OperatorRegistry::Get().Create("test_two", {});
  const NDArray x = Vector({0, 1});
  EXPECT_THAT(Invoke(property, {&x, 1}, "native")[0].ToVector(), ElementsAre(1, 2));
  EXPECT_THAT(Invoke(property, {&x, 1})[0].ToVector(), ElementsAre(2, 3));
}

TEST(ImplementationTest, OneThatDoesNotSupportTheCallIsRefusedWithItsReason) {
  try {
    Call(Vector({0, 1, 2}), {{"__implementation__", "fast"}});
    ADD_FAILURE() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Error::kInvalidArgument);
    EXPECT_STREQ(error.what(),
                 "test_two: implementation \"fast\", which the attribute __implementation__ names, "
                 "does not support float32(3,): the number of elements is odd");
  }
}

TEST(ImplementationTest, BackwardIsThatOfForward) {
  for (const auto& [name, slope] : {std::pair("native", 10.0f), std::pair("fast", 20.0f)}) {
    NDArray x = Vector({0, 1});
    x.AttachGrad();
    NDArray y;
    {
      const autograd::Record record;
      y = Invoke("test_two", {x}, {{"__implementation__", name}})[0];
    }
    y.Backward();
    EXPECT_THAT(x.grad().ToVector(), ElementsAre(slope, slope)) << name;
  }
}

TEST(ImplementationTest, ErrorsNameTheChosenOne) {
  const auto message = [](const NDArray& x) -> std::string {
    try {
      Call(x);
    } catch (const Error& error) {
      EXPECT_EQ(error.op(), "test_two");
      return error.what();
    }
    return "";
  };
  EXPECT_THAT(message(Vector({0, -1})), AllOf(HasSubstr("test_two[fast] of float32(2,)"),
                                              HasSubstr("element 1 is negative")));
  EXPECT_THAT(message(Vector({0, -1, 2})), HasSubstr("test_two[native] of float32(3,)"));
}

class NameList final : public CallObserver {
 public:
  void OnCall(std::string_view op, std::string_view, int64_t, int64_t) noexcept override {
    const std::lock_guard<std::mutex> lock(mutex_);
    names_.emplace_back(op);
  }
  std::vector<std::string> Take() {
    const std::lock_guard<std::mutex> lock(mutex_);
    return std::exchange(names_, {});
  }

 private:
  std::mutex mutex_;
  std::vector<std::string> names_ ABSL_GUARDED_BY(mutex_);
};

TEST(ImplementationTest, ProfilesNameTheChosenOneWhereThereIsAChoice) {
  static auto* const list = new NameList;  // calls may use it until the process ends
  SetCallObserver(list);
  Call(Vector({0, 1}));
  Call(Vector({0, 1, 2}));
  Invoke("square", {Vector({0, 1})})[0].WaitToRead();
  SetCallObserver(nullptr);
  EXPECT_THAT(list->Take(), ElementsAre("test_two[fast]", "test_two[native]", "square"));
}

}  // namespace
}  // namespace tessera
