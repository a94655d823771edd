// Processes that are killed while they save checkpoints of a network that changes each time.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <random>
#include <string>
#include <thread>

#include "tessera/base/environment.h"
#include "tessera/train/checkpoint_folder.h"
#include "tessera/train/testing/numbered_snapshot.h"

namespace tessera {
namespace {

using train_testing::ExpectNumbered;
using train_testing::Numbered;

/// Saves one checkpoint after the other, and writes the step of each that is saved to the pipe. An
/// error ends the process.
[[noreturn]] void SaveUntilKilled(const std::string& path, int pipe) noexcept {
  CheckpointFolder folder(path, {.keep_last = 2});
  for (int64_t step = folder.Latest().value_or(-1) + 1;; ++step) {
    folder.Save(step, Numbered(step));
    if (write(pipe, &step, sizeof(step)) != sizeof(step)) _exit(1);
  }
}

TEST(CheckpointKillTest, AKilledSaveLeavesTheLastCheckpointOrTheNext) {
  const int64_t kills = EnvironmentInt("TESSERA_TEST_KILLS", 50, 1, 1000000);
  const auto seed =
      static_cast<uint64_t>(EnvironmentInt("TESSERA_TEST_SEED", 1, 0, int64_t{1} << 62));
  SCOPED_TRACE("TESSERA_TEST_SEED=" + std::to_string(seed));
  std::mt19937_64 random(seed);
  const std::string path = testing::TempDir() + "/killed";
  std::filesystem::remove_all(path);
  int64_t saved = -1;
  for (int64_t i = 0; i < kills; ++i) {
    int pipes[2];
    ASSERT_EQ(pipe(pipes), 0);
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) SaveUntilKilled(path, pipes[1]);
    close(pipes[1]);
    // The time of a save tells how long to wait in a later one.
    for (int warm = 0; warm < 2; ++warm) {
      ASSERT_EQ(read(pipes[0], &saved, sizeof(saved)), static_cast<ssize_t>(sizeof(saved)));
    }
    const auto start = std::chrono::steady_clock::now();
    ASSERT_EQ(read(pipes[0], &saved, sizeof(saved)), static_cast<ssize_t>(sizeof(saved)));
    const auto of_one = std::chrono::steady_clock::now() - start;
    std::this_thread::sleep_for(of_one * std::uniform_real_distribution<>(0, 2)(random));
    kill(child, SIGKILL);
    ASSERT_EQ(waitpid(child, nullptr, 0), child);
    while (read(pipes[0], &saved, sizeof(saved)) == static_cast<ssize_t>(sizeof(saved))) {
    }
    close(pipes[0]);
    const CheckpointFolder folder(path);
    const std::optional<int64_t> latest = folder.Latest();
    ASSERT_TRUE(latest.has_value());
    // The save may be done and not yet be written to the pipe.
    EXPECT_GE(*latest, saved);
    EXPECT_LE(*latest, saved + 1);
    for (const int64_t step : folder.Steps()) ExpectNumbered(folder.Load(step), step);
    EXPECT_LE(folder.Steps().size(), 3u);
  }
}

}  // namespace
}  // namespace tessera
