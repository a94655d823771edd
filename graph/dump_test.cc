#include "tessera/graph/dump.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "tessera/base/error.h"
#include "tessera/graph/testing/evaluate.h"

namespace tessera::graph {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

/// Sets TESSERA_DUMP_GRAPH for a scope.
class ScopedSetting {
 public:
  explicit ScopedSetting(const std::string& folder) {
    setenv("TESSERA_DUMP_GRAPH", folder.c_str(), /*overwrite=*/1);
  }
  ~ScopedSetting() { unsetenv("TESSERA_DUMP_GRAPH"); }
};

std::string Read(const std::filesystem::path& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

std::string TestFolder(const std::string& name) {
  const std::filesystem::path folder = std::filesystem::path(testing::TempDir()) / name;
  std::filesystem::remove_all(folder);
  return folder.string();
}

TEST(DumpTest, WithoutTheSettingNothingIsWritten) {
  GraphDump dump;
  EXPECT_FALSE(dump.enabled());
  dump.Write("pass", {MakeVariable("x")});
}

TEST(DumpTest, EachPassIsAPairOfFilesInTheGraphsFolder) {
  const std::filesystem::path folder = TestFolder("dumps");
  const ScopedSetting setting(folder.string());
  GraphDump dump;
  const std::vector<NodeEntry> heads = {graph_testing::Apply("exp", "e", {MakeVariable("x")})};
  dump.Write("first", {MakeVariable("x")});
  dump.Write("second", heads);
  ASSERT_EQ(std::distance(std::filesystem::directory_iterator(folder), {}), 1);
  const auto graph = std::filesystem::directory_iterator(folder)->path();
  EXPECT_EQ(graph.filename().string().rfind("graph_", 0), 0u);
  EXPECT_EQ(Read(graph / "00_first.txt"), ToText({MakeVariable("x")}));
  EXPECT_EQ(Read(graph / "01_second.txt"), ToText(heads));
  EXPECT_EQ(Read(graph / "01_second.dot"), ToGraphviz(heads));
}

TEST(DumpTest, ThreadsGetFoldersOfTheirOwn) {
  const std::filesystem::path folder = TestFolder("threads");
  const ScopedSetting setting(folder.string());
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([] {
      for (int k = 0; k < 5; ++k) GraphDump().Write("pass", {MakeVariable("x")});
    });
  }
  for (std::thread& thread : threads) thread.join();
  int written = 0;
  for (const auto& graph : std::filesystem::directory_iterator(folder)) {
    written += std::filesystem::exists(graph.path() / "00_pass.dot");
  }
  EXPECT_EQ(written, 20);
}

TEST(DumpTest, AFolderThatCannotBeWrittenIsAnError) {
  const std::string file = TestFolder("file");
  std::ofstream(file) << "no folder";
  const ScopedSetting setting(file);
  try {
    GraphDump dump;
    FAIL() << "made a folder in a file";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Error::kFailedPrecondition);
    EXPECT_THAT(error.what(), AllOf(HasSubstr("TESSERA_DUMP_GRAPH"), HasSubstr(file + "/graph_"),
                                    HasSubstr("Not a directory")));
  }
}

}  // namespace
}  // namespace tessera::graph
