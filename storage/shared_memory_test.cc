#include "tessera/storage/shared_memory.h"

#include <signal.h>
#include <spawn.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdint>
#include <cstring>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tessera/base/error.h"
#include "tessera/storage/device/poison.h"
#include "tessera/storage/storage.h"

extern char** environ;

namespace tessera {
namespace {

using testing::HasSubstr;

constexpr int64_t kMegabyte = int64_t{1} << 20;
constexpr int kChildFoundNothing = 3;

/// Runs the other program, which adds one to each byte of the block. Returns its exit status.
int RunChild(const std::string& block) {
  std::string program = "storage/testing/shared_memory_child";
  std::string argument = block;
  char* const arguments[] = {program.data(), argument.data(), nullptr};
  pid_t child = 0;
  if (posix_spawn(&child, program.c_str(), nullptr, nullptr, arguments, environ) != 0) return -1;
  int status = 0;
  if (waitpid(child, &status, 0) != child || !WIFEXITED(status)) return -1;
  return WEXITSTATUS(status);
}

absl::StatusCode CodeOf(const auto& call) {
  try {
    call();
  } catch (const Error& error) {
    return error.code();
  }
  return absl::StatusCode{};
}

TEST(SharedMemoryTest, AnotherProgramReadsAndWritesABlock) {
  Storage storage;
  // The sizes lie inside a page, span several pages, and fill a whole segment.
  for (const int64_t size : {int64_t{1}, int64_t{100}, int64_t{70000}, 2 * kMegabyte}) {
    const Storage::Handle before = storage.Alloc(200, Device::CpuShared());
    const Storage::Handle block = storage.Alloc(size, Device::CpuShared());
    const Storage::Handle after = storage.Alloc(200, Device::CpuShared());
    std::memset(before.dptr, 7, 200);
    std::memset(after.dptr, 7, 200);
    auto* const bytes = static_cast<unsigned char*>(block.dptr);
    for (int64_t i = 0; i < size; ++i) bytes[i] = static_cast<unsigned char>(i % 251);
    ASSERT_EQ(RunChild(Share(block).ToString()), 0);
    int64_t wrong = 0;
    for (int64_t i = 0; i < size; ++i) wrong += bytes[i] != i % 251 + 1;
    for (int i = 0; i < 200; ++i) {
      wrong += static_cast<char*>(before.dptr)[i] != 7 || static_cast<char*>(after.dptr)[i] != 7;
    }
    EXPECT_EQ(wrong, 0) << size;
    for (const Storage::Handle& handle : {before, block, after}) storage.Free(handle);
  }
}

TEST(SharedMemoryTest, MemoryThatWentBackToTheSystemIsNotFound) {
  Storage storage;
  const Storage::Handle block = storage.Alloc(4 * kMegabyte, Device::CpuShared());
  const std::string gone = Share(block).ToString();
  storage.Free(block);
  storage.ReleaseAll(Device::CpuShared());
  EXPECT_EQ(RunChild(gone), kChildFoundNothing);
  // The descriptor, and probably the address, now refer to other memory.
  const Storage::Handle next = storage.Alloc(4 * kMegabyte, Device::CpuShared());
  EXPECT_EQ(RunChild(gone), kChildFoundNothing);
  EXPECT_EQ(RunChild(Share(next).ToString()), 0);
  storage.Free(next);
}

TEST(SharedMemoryTest, AMappingKeepsTheMemoryThatTheOwnerGaveBack) {
  Storage storage;
  const Storage::Handle block = storage.Alloc(kMegabyte, Device::CpuShared());
  std::memset(block.dptr, 5, kMegabyte);
  SharedMapping mapping = SharedMapping::Open(Share(block));
  ASSERT_NE(mapping.data(), block.dptr);
  storage.Free(block);
  storage.ReleaseAll(Device::CpuShared());
  EXPECT_EQ(static_cast<char*>(mapping.data())[kMegabyte - 1], 5);
  const SharedMapping moved = std::move(mapping);
  EXPECT_EQ(mapping.data(), nullptr);  // NOLINT: the state after a move is promised
  EXPECT_EQ(moved.size_bytes(), kMegabyte);
}

TEST(SharedMemoryTest, OnlyLiveSharedBlocksCanBeShared) {
  Storage storage;
  const Storage::Handle ordinary = storage.Alloc(100, Device::Cpu());
  EXPECT_EQ(CodeOf([&] { Share(ordinary); }), Error::kFailedPrecondition);
  storage.Free(ordinary);
  const Storage::Handle freed = storage.Alloc(100, Device::CpuShared());
  storage.Free(freed);
  EXPECT_EQ(CodeOf([&] { Share(freed); }), Error::kFailedPrecondition);
}

TEST(SharedMemoryTest, ABlockOfNoBytesCanBeSharedToo) {
  Storage storage;
  const SharedBlock shared = Share(storage.Alloc(0, Device::CpuShared()));
  EXPECT_EQ(RunChild(shared.ToString()), 0);
  EXPECT_EQ(SharedMapping::Open(shared).data(), nullptr);
}

TEST(SharedMemoryTest, TheTextOfABlockReadsBack) {
  const SharedBlock block = {.process_id = 1,
                             .descriptor = 22,
                             .file_number = uint64_t{1} << 63,
                             .offset_bytes = 4096,
                             .size_bytes = int64_t{1} << 40};
  EXPECT_EQ(SharedBlock::FromString(block.ToString()), block);
  for (const char* text :
       {"", "tessera-shared", "tessera-shared:1:2:3:4", "tessera-shared:1:2:3:4:5:6",
        "tessera-shared:1:-2:3:4:5", "tessera-shared:1:2:3:4:x", "other:1:2:3:4:5",
        "tessera-shared:1:2:3:4:99999999999999999999"}) {
    try {
      SharedBlock::FromString(text);
      ADD_FAILURE() << "expected an Error for " << text;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Error::kInvalidArgument);
      EXPECT_THAT(error.what(), HasSubstr(text));
    }
  }
}

TEST(SharedMemoryTest, PlacesWhereNoBlockCanLieAreRefused) {
  Storage storage;
  const Storage::Handle block = storage.Alloc(kMegabyte, Device::CpuShared());
  SharedBlock shared = Share(block);
  shared.size_bytes = int64_t{1} << 40;
  EXPECT_EQ(CodeOf([&] { SharedMapping::Open(shared); }), Error::kInvalidArgument);
  shared.offset_bytes = std::numeric_limits<int64_t>::max();
  EXPECT_EQ(CodeOf([&] { SharedMapping::Open(shared); }), Error::kInvalidArgument);
  shared.process_id = std::numeric_limits<int64_t>::max();
  EXPECT_EQ(CodeOf([&] { SharedMapping::Open(shared); }), Error::kNotFound);
  storage.Free(block);
}

/// Sends signals faster than the system can reserve much memory, like a profiler.
class Interruptions {
 public:
  Interruptions() {
    struct sigaction action = {};
    action.sa_handler = [](int) {
      constexpr int kMany = 100000;  // after some 20 seconds
      static volatile sig_atomic_t signals = 0;
      signals = signals + 1;
      if (signals > kMany) _exit(1);
    };
    action.sa_flags = SA_RESTART;
    EXPECT_EQ(sigaction(SIGALRM, &action, &action_before_), 0);
    const itimerval often = {.it_interval = {.tv_usec = 200}, .it_value = {.tv_usec = 200}};
    EXPECT_EQ(setitimer(ITIMER_REAL, &often, nullptr), 0);
  }
  ~Interruptions() {
    const itimerval never = {};
    setitimer(ITIMER_REAL, &never, nullptr);
    sigaction(SIGALRM, &action_before_, nullptr);
  }
  Interruptions(const Interruptions&) = delete;
  Interruptions& operator=(const Interruptions&) = delete;

 private:
  struct sigaction action_before_ = {};
};

TEST(SharedMemoryTest, SignalsDoNotPreventAnAllocation) {
  Storage storage;
  const Interruptions interruptions;
  const Storage::Handle block = storage.Alloc(64 * kMegabyte, Device::CpuShared());
  // All memory is reserved: the last page, too, is inside the file.
  static_cast<char*>(block.dptr)[block.size_bytes - 1] = 1;
  const SharedMapping mapping = SharedMapping::Open(Share(block));
  EXPECT_EQ(static_cast<char*>(mapping.data())[block.size_bytes - 1], 1);
  storage.DirectFree(block);
}

TEST(SharedMemoryTest, ThePoolsStatisticsAndReuseHold) {
  Storage storage;
  const Storage::Handle block = storage.Alloc(100000, Device::CpuShared());
  EXPECT_EQ(storage.Stats(Device::CpuShared()).live_bytes, 100000);
  storage.Free(block);
  EXPECT_EQ(storage_internal::IsPoisoned(block.dptr), storage_internal::kPoisons);
  storage.Free(storage.Alloc(100000, Device::CpuShared()));
  EXPECT_EQ(storage.Stats(Device::CpuShared()).system_allocations, 1);
  storage.ReleaseAll(Device::CpuShared());
  EXPECT_EQ(storage.Stats(Device::CpuShared()).reserved_bytes, 0);
}

}  // namespace
}  // namespace tessera
