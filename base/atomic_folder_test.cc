#include "tessera/base/atomic_folder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>
#include <string>
#include <vector>

#include "tessera/base/atomic_file.h"
#include "tessera/base/error.h"
#include "tessera/tools/testing/failing_files.h"

namespace tessera {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

class AtomicFolderTest : public testing::Test {
 protected:
  AtomicFolderTest() {
    const auto* const info = testing::UnitTest::GetInstance()->current_test_info();
    place_ = std::filesystem::path(testing::TempDir()) / (std::string("afd_") + info->name());
    std::filesystem::remove_all(place_);
    std::filesystem::create_directory(place_);
  }

  std::string Path(const std::string& name) const { return place_ / name; }
  static std::set<std::string> Names(const std::string& folder) {
    std::set<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(folder)) {
      names.insert(entry.path().filename());
    }
    return names;
  }
  static void Put(const std::string& path, const std::string& text) {
    AtomicFile file(path, "Test");
    file.Write(text.data(), static_cast<int64_t>(text.size()));
    file.Commit();
  }
  static std::string Read(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  }
  /// Makes a folder x with two files of that text.
  void Make(const std::string& text) const {
    AtomicFolder folder(Path("x"), "Test");
    Put(folder.PathOf("a"), text);
    Put(folder.PathOf("b"), text);
    folder.Commit();
  }
  /// Returns the text of both files of x, or "" if there is no x.
  std::string Text() const {
    if (!std::filesystem::exists(Path("x"))) return "";
    EXPECT_THAT(Names(Path("x")), ElementsAre("a", "b"));
    EXPECT_EQ(Read(Path("x/a")), Read(Path("x/b")));
    return Read(Path("x/a"));
  }

  std::filesystem::path place_;
};

TEST_F(AtomicFolderTest, AppearsWholeAtCommit) {
  AtomicFolder folder(Path("x/"), "Test");
  Put(folder.PathOf("a"), "1");
  EXPECT_FALSE(std::filesystem::exists(Path("x")));
  folder.Commit();
  EXPECT_EQ(Read(Path("x/a")), "1");
  EXPECT_THAT(Names(place_), ElementsAre("x"));
}

TEST_F(AtomicFolderTest, ReplacesWithAndWithoutAnExchangeOfNames) {
  Make("old");
  Make("new");
  EXPECT_EQ(Text(), "new");
  EXPECT_THAT(Names(place_), ElementsAre("x"));
  const FailingFiles failing({.no_exchange = true});
  Make("last");
  EXPECT_EQ(Text(), "last");
  EXPECT_THAT(Names(place_), ElementsAre("x"));
}

TEST_F(AtomicFolderTest, WithoutCommitTheOldFolderStays) {
  Make("old");
  {
    AtomicFolder folder(Path("x"), "Test");
    Put(folder.PathOf("a"), "new");
  }
  EXPECT_EQ(Text(), "old");
  EXPECT_THAT(Names(place_), ElementsAre("x"));
}

TEST_F(AtomicFolderTest, EachCallThatFailsLeavesTheOldOrTheNew) {
  for (const bool no_exchange : {false, true}) {
    for (const bool replaces : {false, true}) {
      int64_t n = 0;
      for (bool has_failed = true; has_failed; ++n) {
        std::filesystem::remove_all(Path("x"));
        if (replaces) Make("old");
        bool threw = false;
        {
          const FailingFiles failing({.failing_call = n, .no_exchange = no_exchange});
          try {
            Make("new");
          } catch (const Error& error) {
            EXPECT_THAT(error.what(), HasSubstr("Test: "));
            threw = true;
          }
          has_failed = failing.has_failed();
        }
        EXPECT_EQ(Text(), !threw ? "new" : replaces ? "old" : "") << n;
        EXPECT_EQ(Names(place_).size(), threw && !replaces ? 0u : 1u) << n;
      }
      EXPECT_GT(n, 8);
    }
  }
}

TEST_F(AtomicFolderTest, AFullDiskLeavesTheOldAndShortWritesAreContinued) {
  Make("old");
  for (int64_t room = 0; room < 6; ++room) {
    const FailingFiles failing({.room_bytes = room});
    try {
      Make("new");
      ADD_FAILURE() << "no error with room for " << room << " bytes";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Error::kResourceExhausted) << error.what();
    }
    EXPECT_EQ(Text(), "old");
  }
  const FailingFiles failing({.largest_write_bytes = 2});
  Make("a longer text");
  EXPECT_TRUE(failing.has_failed());
  EXPECT_EQ(Text(), "a longer text");
}

TEST_F(AtomicFolderTest, TheNextOneInThePlaceRemovesWhatAKilledOneLeft) {
  const pid_t killed = fork();
  if (killed == 0) {
    AtomicFolder folder(Path("x"), "Test");
    Put(folder.PathOf("a"), "new");
    kill(getpid(), SIGKILL);
  }
  ASSERT_EQ(waitpid(killed, nullptr, 0), killed);
  EXPECT_EQ(Names(place_).size(), 1u);
  AtomicFolder live(Path("y"), "Test");
  EXPECT_EQ(Names(place_).size(), 1u);
  AtomicFolder second(Path("z"), "Test");
  EXPECT_EQ(Names(place_).size(), 2u) << "a folder in use was removed";
  live.Commit();
  second.Commit();
  EXPECT_THAT(Names(place_), ElementsAre("y", "z"));
}

TEST_F(AtomicFolderTest, RemovesAFolder) {
  Make("old");
  RemoveFolder(Path("x/"), "Test");
  EXPECT_THAT(Names(place_), IsEmpty());
  try {
    RemoveFolder(Path("x"), "Test");
    ADD_FAILURE() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Error::kNotFound) << error.what();
  }
  EXPECT_THAT(Names(place_), IsEmpty());
}

TEST_F(AtomicFolderTest, NamesOperationAndFolderInErrors) {
  const auto expect = [](absl::StatusCode code, const std::string& path) {
    try {
      AtomicFolder folder(path, "Test");
      ADD_FAILURE() << "expected an error for " << path;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), code) << error.what();
      EXPECT_THAT(error.what(), HasSubstr("Test: " + path));
    }
  };
  std::ofstream(Path("plain")) << "";
  std::filesystem::create_symlink(place_, Path("link"));
  expect(Error::kNotFound, Path("no/x"));
  expect(Error::kNotFound, Path("plain/x"));
  expect(Error::kFailedPrecondition, Path("plain"));
  expect(Error::kFailedPrecondition, Path("link"));
  expect(Error::kFailedPrecondition, Path(std::string(256, 'a')));
  expect(Error::kFailedPrecondition, "..");
}

}  // namespace
}  // namespace tessera
