#include <cstdlib>
#include <string>
#include <string_view>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tbb/task_arena.h"
#include "tessera/base/error.h"
#include "tessera/tensor/allocate.h"
#include "tessera/tensor/elementwise.h"
#include "tessera/tensor/inspect.h"
#include "tessera/tensor/parallel.h"
#include "tessera/tensor/reduce.h"

namespace tessera {
namespace {

using ::testing::HasSubstr;

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
  const auto inspect = [&](index_t elements) {
    const Tensor<cpu, 1, float> a(nullptr, Shape1(elements));
    return arena.execute([&] { return Inspect(a * 2); });
  };
  EXPECT_THAT(inspect(2048), HasSubstr("; 1 thread\n"));
  EXPECT_THAT(inspect(2049), HasSubstr("; up to 2 threads\n"));
  EXPECT_EQ(ElementsPerTask(), 2048);
  EXPECT_EQ(StepsPerTask(100), 20);
  EXPECT_EQ(StepsPerTask(5000), 1);
  EXPECT_EQ(StepsPerTask(0), 2048);

  // Read once.
  setenv(kName, "4096", 1);
  EXPECT_EQ(ElementsPerTask(), 2048);
}

}  // namespace
}  // namespace tessera
