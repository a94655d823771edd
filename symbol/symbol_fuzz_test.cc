// Damaged graphs for the fuzz target, each an error or a graph.
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "tessera/symbol/symbol.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace tessera {
namespace {

void Fuzz(const std::string& text) {
  // An exact heap copy, past whose end AddressSanitizer sees.
  const std::vector<uint8_t> copy(text.begin(), text.end());
  LLVMFuzzerTestOneInput(copy.data(), copy.size());
}

/// Graphs of several ages, with every field of the format.
std::vector<std::string> Corpus() {
  return {
      R"graph({"nodes": [{"op": "null", "name": "x", "inputs": [],
          "attrs": {"__shape__": "(2, 3, 5, 5)", "__dtype__": "0", "lr_mult": "2"}},
          {"op": "null", "name": "w", "inputs": []},
          {"op": "Convolution", "name": "conv", "inputs": [[0, 0, 0], [1, 0, 0]],
           "attrs": {"kernel": "(3, 3)", "num_filter": "4", "no_bias": "True", "weight_wd_mult": "0"}},
          {"op": "Reshape", "name": "r", "attrs": {"shape": "(0, -1)"}, "inputs": [[2, 0, 0]]},
          {"op": "SliceChannel", "name": "s", "attrs": {"num_outputs": "2"}, "inputs": [[3, 0, 0]]},
          {"op": "Concat", "name": "c", "attrs": {"num_args": "2"},
           "inputs": [[4, 1, 0], [4, 0, 0]]}],
          "arg_nodes": [0, 1], "node_row_ptr": [0, 1, 2, 3, 4, 6, 7], "heads": [[5, 0, 0]],
          "attrs": {"mxnet_version": ["int", 10901]}})graph",
      R"graph({"nodes": [{"op": "null", "param": {}, "name": "x", "inputs": [],
           "backward_source_id": -1},
          {"op": "BatchNorm", "param": {"eps": "0.1"}, "name": "bn", "inputs": [[0, 0]],
           "attr": {"ctx_group": "a", "gamma_lr_mult": "1"}},
          {"op": "argmax", "param": {"axis": "-1"}, "name": "a", "inputs": [[1, 0]]}],
          "arg_nodes": [0], "heads": [[2, 0]]})graph",
      R"graph({"nodes": [{"op": "null", "name": "x\u00e9", "inputs": []},
          {"op": "_foreach", "name": "f", "inputs": [[0, 0, 0], [0, 0, 0]],
           "attrs": {"num_args": "3", "num_outputs": "2", "num_out_data": "1",
             "in_data_locs": "[0]", "in_state_locs": "[1]", "remain_locs": "[]"},
           "subgraphs": [{"nodes": [{"op": "null", "name": "y", "inputs": []},
             {"op": "null", "name": "s", "inputs": []},
             {"op": "RNN", "name": "r", "inputs": [[0, 0, 0], [0, 0, 0], [1, 0, 0], [1, 0, 0]],
              "attrs": {"mode": "lstm", "state_size": "3", "num_layers": "2"}}],
             "heads": [[2, 0, 0], [1, 0, 0]]}]}],
          "heads": [[1, 1, 0], [0, 0, 0]]})graph",
      R"graph({"nodes": [{"op": "null", "name": "x", "inputs": []},
          {"op": "_sg_mkldnn_conv", "name": "f",
           "inputs": [[0, 0, 0], [0, 0, 0], [0, 0, 0], [0, 0, 0]],
           "attrs": {"min_calib_range": "-1", "max_calib_range": "2"},
           "subgraphs": [{"nodes": [{"op": "null", "name": "y", "inputs": []},
             {"op": "null", "name": "w", "inputs": []},
             {"op": "Convolution", "name": "c", "inputs": [[0, 0, 0], [1, 0, 0]],
              "attrs": {"kernel": "(1,)", "num_filter": "1", "no_bias": "1"}}],
             "heads": [[2, 0, 0]]}]}],
          "heads": [[1, 2, 0], [0, 0, 0]]})graph"};
}

TEST(SymbolFuzzTest, AnyByteMayBeMissingOrWrong) {
  for (const std::string& text : Corpus()) {
    EXPECT_FALSE(Symbol::FromJson(text).is_none());
    Fuzz(text);
    for (size_t at = 0; at < text.size(); ++at) {
      Fuzz(text.substr(0, at));
      for (const char byte : {'"', '9', '-', ',', ']', '\\', '\0', '\xff'}) {
        std::string damaged = text;
        damaged[at] = byte;
        Fuzz(damaged);
      }
    }
  }
}

TEST(SymbolFuzzTest, PiecesMayBeExchanged) {
  std::mt19937 random(20240611);
  const std::vector<std::string> corpus = Corpus();
  const auto below = [&](size_t limit) { return static_cast<size_t>(random()) % limit; };
  for (int round = 0; round < 3000; ++round) {
    std::string text = corpus[below(corpus.size())];
    const std::string& other = corpus[below(corpus.size())];
    for (size_t i = below(3); i < 3; ++i) {
      const std::string piece = other.substr(below(other.size()), below(20));
      text.replace(below(text.size()), below(20), piece);
    }
    Fuzz(text);
  }
}

}  // namespace
}  // namespace tessera
