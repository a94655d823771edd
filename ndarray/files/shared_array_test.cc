#include "tessera/ndarray/shared_array.h"

#include <sys/wait.h>
#include <unistd.h>

#include <memory>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tessera/base/error.h"
#include "tessera/ndarray/imperative.h"

namespace tessera {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TEST(SharedArrayTest, ADescriptorOpensTheSameElements) {
  const NDArray array = NDArray::FromVector(std::vector<float>{1, 2, 3}, {3});
  const NDArray shared = array.AsInContext(Device::CpuShared());
  shared.WaitToRead();
  const std::shared_ptr<SharedFile> file = SharedFileOf(shared);
  ASSERT_NE(file, nullptr);
  NDArray same = OpenSharedArray(dup(file->descriptor()), {3});
  EXPECT_EQ(same.device(), Device::CpuShared());
  EXPECT_THAT(same.ToVector(), ElementsAre(1, 2, 3));
  same = 5.0f;
  same.WaitToRead();
  EXPECT_THAT(shared.ToVector(), ElementsAre(5, 5, 5));
}

TEST(SharedArrayTest, AChildsArrayOutlivesTheChild) {
  const NDArray before(NDArray::FromVector(std::vector<float>{1, 2}, {2}));
  const NDArray shared({2}, Device::CpuShared());
  NDArray::WaitAll();
  const pid_t child = fork();
  if (child == 0) {
    alarm(30);
    // The child has an engine of its own, and reads arrays from before the fork.
    Invoke("_plus_scalar", {&before, 1}, {&shared, 1}, {{"scalar", "1"}});
    shared.WaitToRead();
    _exit(0);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_EQ(status, 0);
  EXPECT_THAT(shared.ToVector(), ElementsAre(2, 3));
}

TEST(SharedArrayTest, OtherArraysHaveNoFile) {
  EXPECT_EQ(SharedFileOf(NDArray({2})), nullptr);
  const NDArray shared({2, 3}, Device::CpuShared());
  EXPECT_EQ(SharedFileOf(shared.At(1)), nullptr);
  EXPECT_NE(SharedFileOf(shared.Reshape(TShape{6})), nullptr);
  // A pool's block would be another array's after the first one is gone.
  EXPECT_NE(SharedFileOf(NDArray({2}, Device::CpuShared()))->data(), SharedFileOf(shared)->data());
}

TEST(SharedArrayTest, EmptyArraysAreShared) {
  const NDArray shared({0, 3}, Device::CpuShared());
  const NDArray same = OpenSharedArray(dup(SharedFileOf(shared)->descriptor()), {0, 3});
  EXPECT_TRUE(same.ToVector().empty());
}

TEST(SharedArrayTest, ShapesThatDoNotFitAreErrors) {
  const NDArray shared({2}, Device::CpuShared());
  const auto message = [&](const TShape& shape) -> std::string {
    try {
      OpenSharedArray(SharedFileOf(shared)->descriptor(), shape);
    } catch (const Error& error) {
      return error.what();
    }
    return "no error";
  };
  EXPECT_THAT(message({3}), HasSubstr("12 bytes"));
  EXPECT_THAT(message({TShape::kUnknown}), HasSubstr("(None,)"));
  EXPECT_THAT(message({index_t{1} << 62}), HasSubstr("63 bits"));
}

}  // namespace
}  // namespace tessera
