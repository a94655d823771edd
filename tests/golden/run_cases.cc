// run_cases FILE: runs the cases of FILE.json and FILE.params for tests/golden/compare. Writes a
// line "run NAME" before each case and "differs NAME SENTENCE" for what differs from MXNet.
#include <cstdio>
#include <exception>
#include <string>

#include "tessera/tests/golden/golden_case.h"

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: %s FILE\n", argv[0]);
    return 2;
  }
  try {
    const int count = tessera::RunGoldenCases(
        argv[1], /*slack=*/5,  // large arrays and sums round more
        [](const std::string& name) {
          std::printf("run %s\n", name.c_str());
          std::fflush(stdout);
        },
        [](const tessera::GoldenResult& result) {
          for (std::string sentence : result.differences) {
            for (char& c : sentence) c = c == '\n' ? ' ' : c;
            std::printf("differs %s %s\n", result.name.c_str(), sentence.c_str());
          }
        });
    std::printf("done %d\n", count);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
  return 0;
}
