#include "tessera/storage/options.h"

#include <cstdlib>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tessera/base/error.h"

namespace tessera {
namespace {

/// Sets an environment variable until the destructor.
class Setting {
 public:
  Setting(const char* name, const char* value) : name_(name) { setenv(name, value, 1); }
  ~Setting() { unsetenv(name_); }

 private:
  const char* name_;
};

TEST(StorageOptionsTest, DefaultsAreBestFitWithoutLimits) {
  const StorageOptions options = StorageOptions::FromEnvironment(Device::Cpu());
  EXPECT_EQ(options.pool, StoragePoolKind::kBestFit);
  EXPECT_EQ(options.limit_bytes, kNoLimit);
  EXPECT_EQ(options.cached_limit_bytes, kNoLimit);
  EXPECT_EQ(options.round_linear_cutoff_bytes, 1 << 24);
}

TEST(StorageOptionsTest, EachDeviceTypeHasItsOwnVariables) {
  const Setting cpu("TESSERA_CPU_MEM_POOL_TYPE", "exact");
  const Setting gpu("TESSERA_GPU_MEM_POOL_TYPE", "round");
  const Setting pinned("TESSERA_CPU_PINNED_MEM_POOL_TYPE", "none");
  const Setting limit("TESSERA_GPU_MEM_LIMIT_MB", "3");
  const Setting cached("TESSERA_GPU_MEM_CACHED_LIMIT_MB", "0");
  const Setting thread_cache("TESSERA_GPU_MEM_THREAD_CACHE_MB", "2");
  const Setting cutoff("TESSERA_GPU_MEM_POOL_ROUND_LINEAR_CUTOFF", "20");
  EXPECT_EQ(StorageOptions::FromEnvironment(Device::Cpu()).pool, StoragePoolKind::kExact);
  EXPECT_EQ(StorageOptions::FromEnvironment(Device::CpuPinned()).pool, StoragePoolKind::kNone);
  const StorageOptions options = StorageOptions::FromEnvironment(Device::Gpu());
  EXPECT_EQ(options.pool, StoragePoolKind::kRounded);
  EXPECT_EQ(options.limit_bytes, 3 << 20);
  EXPECT_EQ(options.cached_limit_bytes, 0);
  EXPECT_EQ(options.thread_cache_bytes, 2 << 20);
  EXPECT_EQ(options.round_linear_cutoff_bytes, 1 << 20);
}

TEST(StorageOptionsTest, UnknownPoolTypeIsNamedWithWhatIsKnown) {
  const Setting cpu("TESSERA_CPU_MEM_POOL_TYPE", "naive");
  try {
    StorageOptions::FromEnvironment(Device::Cpu());
    FAIL() << "expected an Error";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Error::kInvalidArgument);
    EXPECT_THAT(error.what(),
                testing::AllOf(testing::HasSubstr("TESSERA_CPU_MEM_POOL_TYPE"),
                               testing::HasSubstr("naive"), testing::HasSubstr("best_fit")));
  }
}

}  // namespace
}  // namespace tessera
