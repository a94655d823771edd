// Compares the networks that zoo.py has written with MXNet's outputs:
//
//   compare_models FOLDER [--tolerance=0.0001]
//
// Prints a line for each network and exits with 1 if one differs by more, or does not run.
#include <algorithm>
#include <chrono>
#include <filesystem>
#include <iomanip>
#include <iostream>
#include <string>

#include "CLI/CLI.hpp"
#include "tessera/base/error.h"
#include "tessera/tests/graphs/saved_model.h"

namespace tessera {
namespace {

int Main(int argc, char** argv) {
  CLI::App app("Compares networks with MXNet's outputs.", "compare_models");
  std::string folder;
  double tolerance = 1e-4;
  app.add_option("folder", folder, "folder that zoo.py has written")->required();
  app.add_option("--tolerance", tolerance, "largest relative difference");
  CLI11_PARSE(app, argc, argv);
  int failed = 0;
  std::cout << std::left << std::setw(24) << "network" << std::setw(9) << "outputs" << std::setw(14)
            << "difference" << std::setw(10) << "seconds"
            << "\n";
  for (const std::string& prefix : SavedModels(folder)) {
    std::cout << std::setw(24) << std::filesystem::path(prefix).filename().string();
    try {
      const auto start = std::chrono::steady_clock::now();
      const std::vector<OutputDifference> differences = CompareWithMxnet(prefix);
      const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
      double largest = 0;
      for (const OutputDifference& each : differences) largest = std::max(largest, each.relative);
      const bool fits = largest <= tolerance;
      failed += !fits;
      std::cout << std::setw(9) << differences.size() << std::setw(14) << std::setprecision(3)
                << largest << std::setw(10) << seconds.count() << (fits ? "ok" : "differs")
                << std::endl;
    } catch (const Error& error) {
      ++failed;
      std::cout << "failed: " << error.what() << std::endl;
    }
  }
  std::cout << failed << " failed\n";
  return failed == 0 ? 0 : 1;
}

}  // namespace
}  // namespace tessera

int main(int argc, char** argv) { return tessera::Main(argc, argv); }
