#include "tessera/ndarray/host_function.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <span>
#include <vector>

#include "tessera/base/error.h"
#include "tessera/ndarray/testing/array_values.h"

namespace tessera {
namespace {

using ndarray_testing::Vector;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

float* Elements(const NDArray& array) { return static_cast<float*>(array.data().dptr_); }

TEST(HostFunctionTest, RunsInOrderWithOperationsOnItsArrays) {
  NDArray x = Vector({1, 2}), y = Vector({0, 0});
  for (int i = 0; i < 50; ++i) {
    x += 1.0f;
    PushHostFunction(
        [x, y] {
          for (int k = 0; k < 2; ++k) Elements(y)[k] += Elements(x)[k];
        },
        std::span(&x, 1), std::span(&y, 1), "add");
    x += 1.0f;  // follows the function
  }
  // The sum of x + 1, x + 3, … for x = 1 and 2.
  EXPECT_THAT(y.ToVector(), ElementsAre(50 * 51, 50 * 52));
}

TEST(HostFunctionTest, KeepsItsArrays) {
  NDArray y = Vector({0});
  {
    NDArray x = Vector({3});
    x += 1.0f;
    // The function itself has the address only.
    float* const from = Elements(x);
    PushHostFunction([from, y] { Elements(y)[0] = from[0]; }, std::span(&x, 1), std::span(&y, 1),
                     "copy");
  }
  EXPECT_THAT(y.ToVector(), ElementsAre(4));
}

TEST(HostFunctionTest, AnExceptionSurfacesAtTheWait) {
  NDArray x = Vector({1});
  PushHostFunction([] { throw DataLoss("damaged"); }, {}, std::span(&x, 1), "load");
  const NDArray y = x + 1.0f;
  try {
    y.WaitToRead();
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Error::kDataLoss);
    EXPECT_THAT(error.what(), AllOf(HasSubstr("damaged"), HasSubstr("load")));
  }
  PushHostFunction([x] { Elements(x)[0] = 5; }, {}, std::span(&x, 1), "load");  // clears the error
  EXPECT_THAT(x.ToVector(), ElementsAre(5));
}

TEST(HostFunctionTest, PartsOfOneArrayMayBeReadAndWritten) {
  const NDArray whole = Vector({1, 2, 3, 4});
  const NDArray first = whole.Slice(0, 2), second = whole.Slice(2, 4);
  PushHostFunction(
      [first, second] {
        for (int k = 0; k < 2; ++k) Elements(second)[k] = 10 * Elements(first)[k];
      },
      std::span(&first, 1), std::span(&second, 1), "scale");
  EXPECT_THAT(whole.ToVector(), ElementsAre(1, 2, 10, 20));
}

TEST(HostFunctionTest, AnArrayThatIsNoneIsNamed) {
  bool called = false;
  try {
    PushHostFunction([&called] { called = true; }, {}, std::vector<NDArray>{Vector({1}), NDArray()},
                     "load");
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Error::kInvalidArgument);
    EXPECT_THAT(error.what(), AllOf(HasSubstr("load"), HasSubstr("written array 1 is none")));
  }
  NDArray::WaitAll();
  EXPECT_FALSE(called);
}

}  // namespace
}  // namespace tessera
