#include "tessera/storage/shared_file.h"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdint>
#include <cstring>
#include <memory>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tessera/base/error.h"

namespace tessera {
namespace {

using testing::HasSubstr;

/// Returns the message of the call's Error(kInvalidArgument), or another text.
std::string MessageOf(const auto& call) {
  try {
    call();
  } catch (const Error& error) {
    return error.code() == Error::kInvalidArgument ? error.what() : "another code";
  }
  return "no error";
}

bool IsOpen(int descriptor) { return fcntl(descriptor, F_GETFD) >= 0; }

TEST(SharedFileTest, TheChildOfAForkWritesWhatItsParentReads) {
  const std::shared_ptr<SharedFile> file = SharedFile::Create(10000);
  auto* const bytes = static_cast<char*>(file->data());
  EXPECT_EQ(bytes[0], 0);
  const pid_t child = fork();
  if (child == 0) {
    std::memset(bytes, 7, 10000);
    _exit(0);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(bytes[0] + bytes[9999], 14);
}

TEST(SharedFileTest, ADescriptorOpensTheSameMemoryAndIsOwned) {
  const std::shared_ptr<SharedFile> file = SharedFile::Create(100);
  const int passed = dup(file->descriptor());
  std::shared_ptr<SharedFile> opened = SharedFile::Open(passed, 100);
  EXPECT_EQ(opened->descriptor(), passed);
  static_cast<char*>(file->data())[99] = 5;
  EXPECT_EQ(static_cast<char*>(opened->data())[99], 5);
  opened = nullptr;
  EXPECT_FALSE(IsOpen(passed));
}

TEST(SharedFileTest, TheMemoryOutlivesTheObjectThatMadeIt) {
  std::shared_ptr<SharedFile> file = SharedFile::Create(8);
  static_cast<char*>(file->data())[0] = 3;
  const std::shared_ptr<SharedFile> opened = SharedFile::Open(dup(file->descriptor()), 8);
  file = nullptr;
  EXPECT_EQ(static_cast<char*>(opened->data())[0], 3);
}

TEST(SharedFileTest, ADescriptorOfAnotherObjectIsNotClosedTwice) {
  const std::shared_ptr<SharedFile> file = SharedFile::Create(8);
  std::shared_ptr<SharedFile> opened = SharedFile::Open(file->descriptor(), 8);
  EXPECT_NE(opened->descriptor(), file->descriptor());
  opened = nullptr;
  EXPECT_TRUE(IsOpen(file->descriptor()));
}

TEST(SharedFileTest, AnEmptyFileHasAnAddress) {
  const std::shared_ptr<SharedFile> file = SharedFile::Create(0);
  EXPECT_NE(file->data(), nullptr);
  EXPECT_EQ(SharedFile::Open(dup(file->descriptor()), 0)->size_bytes(), 0);
}

TEST(SharedFileTest, WrongDescriptorsAndSizesAreErrors) {
  const std::shared_ptr<SharedFile> file = SharedFile::Create(8);
  EXPECT_THAT(MessageOf([] { SharedFile::Create(-1); }), HasSubstr("-1"));
  EXPECT_THAT(MessageOf([] { SharedFile::Open(-1, 8); }), HasSubstr("-1 is not the descriptor"));
  EXPECT_THAT(MessageOf([] { SharedFile::Open(100000, 8); }), HasSubstr("100000"));
  EXPECT_THAT(MessageOf([&] { SharedFile::Open(file->descriptor(), 9); }), HasSubstr("9 bytes"));
  EXPECT_THAT(MessageOf([&] { SharedFile::Open(file->descriptor(), -9); }), HasSubstr("-9 bytes"));
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  EXPECT_THAT(MessageOf([&] { SharedFile::Open(ends[0], 0); }), HasSubstr("is not the descriptor"));
  EXPECT_TRUE(IsOpen(ends[0]));
  close(ends[0]);
  close(ends[1]);
}

}  // namespace
}  // namespace tessera
