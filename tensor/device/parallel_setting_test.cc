#include <cstdlib>
#include <string>
#include <string_view>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tbb/task_arena.h"
#include "tessera/base/error.h"
#include "tessera/tensor/dense/allocate.h"
#include "tessera/tensor/device/parallel.h"
#include "tessera/tensor/expr/elementwise.h"
#include "tessera/tensor/inspect/inspect.h"
#include "tessera/tensor/reduce/reduce.h"
#include "tessera/tensor/reduce/reductions.h"

namespace tessera {
namespace {

using ::testing::HasSubstr;

// A functor that says what it costs.
struct Dear {
  static constexpr index_t kElementCost = 15;
  TESSERA_HD static float Map(float a) { return a; }
};

// One test, because the setting is read once in a process.
TEST(ParallelSettingTest, SaysWhereASecondThreadBegins) {
  constexpr const char* kName = "TESSERA_ELEMENTS_PER_TASK";
  for (const char* bad : {"1023", "2000000000000", "many"}) {
    setenv(kName, bad, 1);
    try {
      ElementsPerTask();
      ADD_FAILURE() << bad << " was taken";
    } catch (const Error& error) {
      EXPECT_THAT(error.what(), HasSubstr(std::string(kName) + "=\"" + bad + "\""));
    }
  }

  setenv(kName, "2048", 1);
  tbb::task_arena arena(4);
  // `most` elements of what make_expression says are for one thread, and more are not.
  const auto expect_one_thread = [&](index_t most, const auto& make_expression) {
    const auto inspect = [&](index_t elements) {
      const Tensor<cpu, 1, float> a(nullptr, Shape1(elements));
      return arena.execute([&] { return Inspect(make_expression(a)); });
    };
    EXPECT_THAT(inspect(most), HasSubstr("; 1 thread\n"));
    EXPECT_THAT(inspect(most + 1), HasSubstr("; up to 2 threads\n"));
  };
  expect_one_thread(2048, [](const auto& a) { return a * 2; });
  expect_one_thread(2048, [](const auto& a) { return sqrt(a * a + a) / (abs(a) + 1); });
  expect_one_thread(1024, [](const auto& a) { return exp(a * 2) + a; });
  expect_one_thread(682, [](const auto& a) { return exp(a) * exp2(a); });
  expect_one_thread(128, [](const auto& a) { return F<Dear>(a); });
  const index_t by_library = 2048 / (1 + op::kLibraryCost);
  expect_one_thread(by_library, [](const auto& a) { return pow(tcast<half_t>(a), 0.3f); });
  expect_one_thread(by_library, [](const auto& a) { return exp(tcast<half_t>(a)); });
  expect_one_thread(op::kInWideLanes<float> ? 2048 / (1 + op::kLibraryCost / 2) : by_library,
                    [](const auto& a) { return pow(a, 0.3f); });
  expect_one_thread(8, [](const auto& a) {
    const auto h = tcast<half_t>(a);
    return pow(pow(pow(pow(h, h), pow(h, h)), h), pow(pow(pow(h, h), h), h));
  });
  // Sums are made of chunks whatever is added up; tasks take fewer of dearer elements.
  expect_one_thread(expr::kReduceChunk, [](const auto& a) { return sum(a); });
  // Rows of a matrix.
  const auto of_rows = [&](index_t rows) {
    const Tensor<cpu, 2, float> a(nullptr, Shape2(rows, 16));
    return arena.execute([&] { return Inspect(sum<1>(F<Dear>(a))); });
  };
  EXPECT_THAT(of_rows(8), HasSubstr("; 1 thread\n"));
  EXPECT_THAT(of_rows(9), HasSubstr("; up to 2 threads\n"));
  EXPECT_EQ(ElementsPerTask(), 2048);
  EXPECT_EQ(StepsPerTask(100), 20);
  EXPECT_EQ(StepsPerTask(5000), 1);
  EXPECT_EQ(StepsPerTask(0), 2048);
  EXPECT_EQ(ElementsPerTask(7), 256);
  EXPECT_EQ(StepsPerTask(100, 1), 10);
  EXPECT_EQ(StepsPerTask(100, 4000), 1);

  // Read once.
  setenv(kName, "4096", 1);
  EXPECT_EQ(ElementsPerTask(), 2048);
}

}  // namespace
}  // namespace tessera
