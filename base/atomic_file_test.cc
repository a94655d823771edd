#include "tessera/base/atomic_file.h"

#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <thread>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tessera/base/error.h"

namespace tessera {
namespace {

using ::testing::HasSubstr;

class AtomicFileTest : public ::testing::Test {
 protected:
  AtomicFileTest() {
    const auto* const info = ::testing::UnitTest::GetInstance()->current_test_info();
    folder_ = std::filesystem::path(::testing::TempDir()) / (std::string("af_") + info->name());
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directory(folder_);
  }

  std::string Path(const std::string& name) const { return folder_ / name; }
  int NumFiles() const {
    return static_cast<int>(std::distance(std::filesystem::directory_iterator(folder_),
                                          std::filesystem::directory_iterator()));
  }
  static std::string Read(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  }
  static void Put(AtomicFile* file, const std::string& text) {
    file->Write(text.data(), static_cast<int64_t>(text.size()));
  }

  std::filesystem::path folder_;
};

TEST_F(AtomicFileTest, AppearsWholeAtCommit) {
  AtomicFile file(Path("x"), "Test");
  const std::string large(1 << 17, 'b');
  Put(&file, "a");
  Put(&file, large);
  Put(&file, "c");
  EXPECT_FALSE(std::filesystem::exists(Path("x")));
  file.Commit();
  EXPECT_EQ(Read(Path("x")), "a" + large + "c");
  EXPECT_EQ(NumFiles(), 1);
}

TEST_F(AtomicFileTest, WithoutCommitTheOldFileStays) {
  std::ofstream(Path("x")) << "old";
  {
    AtomicFile file(Path("x"), "Test");
    Put(&file, std::string(1 << 17, 'n'));
  }
  EXPECT_EQ(Read(Path("x")), "old");
  EXPECT_EQ(NumFiles(), 1);
}

TEST_F(AtomicFileTest, ReplacesTheTargetOfALinkAndKeepsPermissions) {
  std::ofstream(Path("target")) << "old";
  ASSERT_EQ(chmod(Path("target").c_str(), 0640), 0);
  std::filesystem::create_symlink("target", Path("link"));
  AtomicFile file(Path("link"), "Test");
  Put(&file, "new");
  file.Commit();
  EXPECT_TRUE(std::filesystem::is_symlink(Path("link")));
  EXPECT_EQ(Read(Path("target")), "new");
  struct stat status;
  ASSERT_EQ(stat(Path("target").c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 07777, 0640u);
}

TEST_F(AtomicFileTest, TwoWritersDoNotMix) {
  AtomicFile one(Path("x"), "Test");
  AtomicFile two(Path("x"), "Test");
  Put(&one, "one");
  Put(&two, "two");
  one.Commit();
  EXPECT_EQ(Read(Path("x")), "one");
  two.Commit();
  EXPECT_EQ(Read(Path("x")), "two");
  EXPECT_EQ(NumFiles(), 1);
}

TEST_F(AtomicFileTest, TheNextWriterRemovesWhatAKilledOneLeft) {
  std::ofstream(Path("x")) << "old";
  const pid_t killed = fork();
  if (killed == 0) {
    AtomicFile file(Path("x"), "Test");
    Put(&file, std::string(1 << 17, 'n'));
    kill(getpid(), SIGKILL);
  }
  ASSERT_EQ(waitpid(killed, nullptr, 0), killed);
  EXPECT_EQ(NumFiles(), 2);
  AtomicFile other(Path("y"), "Test");
  EXPECT_EQ(NumFiles(), 3) << "a writer of another file removed it";
  AtomicFile live(Path("x"), "Test");
  EXPECT_EQ(NumFiles(), 3);
  AtomicFile last(Path("x"), "Test");
  EXPECT_EQ(NumFiles(), 4) << "the file of a writer at work is removed";
  Put(&live, "live");
  live.Commit();
  EXPECT_EQ(Read(Path("x")), "live");
}

TEST_F(AtomicFileTest, WritersOfOneFileDoNotRemoveEachOthers) {
  std::vector<std::thread> writers;
  for (const std::string text : {"one", "two", "three", "four"}) {
    writers.emplace_back([this, text] {
      for (int i = 0; i < 50; ++i) {
        AtomicFile file(Path("x"), "Test");
        Put(&file, text);
        if (i % 5 == 0) file.Commit();
      }
    });
  }
  for (std::thread& writer : writers) writer.join();
  EXPECT_THAT(Read(Path("x")), ::testing::AnyOf("one", "two", "three", "four"));
  EXPECT_EQ(NumFiles(), 1);
}

TEST_F(AtomicFileTest, NamesMayBeAsLongAsTheSystemTakes) {
  AtomicFile file(Path(std::string(255, 'a')), "Test");
  Put(&file, "new");
  file.Commit();
  EXPECT_EQ(Read(Path(std::string(255, 'a'))), "new");
  try {
    AtomicFile(Path(std::string(256, 'a')), "Test");
    ADD_FAILURE() << "expected an error before anything is written";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Error::kFailedPrecondition) << error.what();
    EXPECT_THAT(error.what(), HasSubstr("too long"));
  }
}

TEST_F(AtomicFileTest, ARelativePathMeansTheFolderOfTheConstructor) {
  const std::filesystem::path before = std::filesystem::current_path();
  std::filesystem::current_path(folder_);
  AtomicFile file("x", "Test");
  std::filesystem::current_path(before);
  Put(&file, "new");
  file.Commit();
  EXPECT_EQ(Read(Path("x")), "new");
}

TEST_F(AtomicFileTest, NamesOperationAndFileInErrors) {
  const auto expect = [](absl::StatusCode code, const std::string& path) {
    try {
      AtomicFile file(path, "Test");
      ADD_FAILURE() << "expected an error for " << path;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), code) << error.what();
      EXPECT_THAT(error.what(), HasSubstr("Test: " + path));
    }
  };
  expect(Error::kNotFound, Path("no/x"));
  expect(Error::kFailedPrecondition, folder_);
  expect(Error::kFailedPrecondition, Path(""));
  std::ofstream(Path("plain")) << "";
  expect(Error::kNotFound, Path("plain/x"));
}

TEST_F(AtomicFileTest, AFullDiskIsAnErrorAndLeavesNothing) {
  std::ofstream(Path("x")) << "old";
  // A limit on the size of files stands in for a full disk.
  rlimit old_limit;
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &old_limit), 0);
  const auto old_handler = std::signal(SIGXFSZ, SIG_IGN);
  const rlimit limit = {1 << 16, old_limit.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &limit), 0);
  try {
    AtomicFile file(Path("x"), "Test");
    Put(&file, std::string(1 << 20, 'n'));
    file.Commit();
    ADD_FAILURE() << "expected an error";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Error::kResourceExhausted) << error.what();
  }
  setrlimit(RLIMIT_FSIZE, &old_limit);
  std::signal(SIGXFSZ, old_handler);
  EXPECT_EQ(Read(Path("x")), "old");
  EXPECT_EQ(NumFiles(), 1);
}

}  // namespace
}  // namespace tessera
