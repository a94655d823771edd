// Damaged networks and parameters for the fuzz target, each an error or a network that runs.
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <random>
#include <string>
#include <vector>

#include "mxnet/c_api.h"
#include "mxnet/c_predict_api.h"
#include "tessera/compat/mxnet/testing/client.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace tessera::mxnet {
namespace {

constexpr const char* kNetwork =
    R"graph({"nodes": [{"op": "null", "name": "data", "inputs": []},
{"op": "null", "name": "w", "inputs": [], "attrs": {"__shape__": "(2, 1, 2, 2)"}},
{"op": "Convolution", "name": "conv", "inputs": [[0, 0, 0], [1, 0, 0]],
 "attrs": {"kernel": "(2, 2)", "num_filter": "2", "no_bias": "True"}},
{"op": "null", "name": "g", "inputs": []}, {"op": "null", "name": "b", "inputs": []},
{"op": "null", "name": "mean", "inputs": []}, {"op": "null", "name": "var", "inputs": []},
{"op": "BatchNorm", "name": "bn",
 "inputs": [[2, 0, 0], [3, 0, 0], [4, 0, 0], [5, 0, 1], [6, 0, 1]]},
{"op": "Reshape", "name": "flat", "attrs": {"shape": "(0, -1)"}, "inputs": [[7, 0, 0]]},
{"op": "softmax", "name": "out", "attrs": {"axis": "-1"}, "inputs": [[8, 0, 0]]}],
"arg_nodes": [0, 1, 3, 4, 5, 6], "heads": [[9, 0, 0]],
"attrs": {"mxnet_version": ["int", 10901]}})graph";

std::string Parameters() {
  const Owned weight = MakeArray({1, 2, 3, 4, 4, 3, 2, 1}, {2, 1, 2, 2});
  const Owned ones = MakeArray({1, 1}, {2}), halves = MakeArray({0.5, 0.5}, {2});
  return ParamsFile({{"arg:w", weight.get()},
                     {"arg:g", ones.get()},
                     {"arg:b", halves.get()},
                     {"aux:mean", halves.get()},
                     {"aux:var", ones.get()}});
}

void Fuzz(const std::string& json, const std::string& parameters) {
  // An exact heap copy, past whose end AddressSanitizer sees.
  std::vector<uint8_t> copy(json.begin(), json.end());
  copy.push_back(0);
  copy.insert(copy.end(), parameters.begin(), parameters.end());
  LLVMFuzzerTestOneInput(copy.data(), copy.size());
}

/// Returns whether the network runs.
bool Predicts(const std::string& json, const std::string& parameters, std::vector<float>* result) {
  const char* names[] = {"data"};
  const uint32_t offsets[] = {0, 4}, extents[] = {1, 1, 2, 3};
  const float input[] = {1, 2, 3, 4, 5, 6};
  PredictorHandle handle = nullptr;
  if (MXPredCreate(json.c_str(), parameters.data(), static_cast<int>(parameters.size()), 1, 0, 1,
                   names, offsets, extents, &handle) != 0) {
    return false;
  }
  const Owned predictor(handle, MXPredFree);
  result->resize(4);
  return MXPredSetInput(handle, "data", input, 6) == 0 && MXPredForward(handle) == 0 &&
         MXPredGetOutput(handle, 0, result->data(), 4) == 0;
}

TEST(PredictFuzzTest, DamagedParametersAreErrors) {
  const std::string file = Parameters();
  std::vector<float> right, result;
  ASSERT_TRUE(Predicts(kNetwork, file, &right)) << MXGetLastError();
  // The file ends with a checksum, so nothing wrong is taken.
  for (size_t at = 0; at < file.size(); ++at) {
    // Without the checksum, which MXNet does not write, the file is whole.
    if (at != 0 && Predicts(kNetwork, file.substr(0, at), &result)) {
      EXPECT_EQ(result, right) << at;
    }
    for (const int bit : {0, 7}) {
      std::string damaged = file;
      damaged[at] = static_cast<char>(damaged[at] ^ (1 << bit));
      EXPECT_FALSE(Predicts(kNetwork, damaged, &result)) << at;
    }
    Fuzz(kNetwork, file.substr(0, at));
  }
}

TEST(PredictFuzzTest, DamagedNetworksRunOrAreErrors) {
  const std::string file = Parameters();
  const std::string json = kNetwork;
  for (size_t at = 0; at < json.size(); ++at) {
    Fuzz(json.substr(0, at), file);
    for (const char byte : {'"', '9', ','}) {
      std::string damaged = json;
      damaged[at] = byte;
      Fuzz(damaged, file);
    }
  }
}

TEST(PredictFuzzTest, PiecesMayBeExchanged) {
  const char* const given = std::getenv("TESSERA_TEST_SEED");
  const unsigned seed = given != nullptr ? static_cast<unsigned>(std::atol(given)) : 20240611u;
  RecordProperty("seed", static_cast<int>(seed));
  SCOPED_TRACE(seed);
  std::mt19937 random(seed);
  const auto below = [&](size_t limit) { return static_cast<size_t>(random()) % limit; };
  const std::string json = kNetwork, file = Parameters();
  for (int round = 0; round < 1000; ++round) {
    std::string texts[] = {json, file};
    for (size_t i = below(3); i < 3; ++i) {
      std::string& text = texts[below(2)];
      const std::string piece = text.substr(below(text.size()), below(20));
      text.replace(below(text.size()), below(20), piece);
    }
    Fuzz(texts[0], texts[1]);
  }
}

}  // namespace
}  // namespace tessera::mxnet
