#include "tessera/ops/testing/calls_that_once_failed.h"

#include <limits>

namespace tessera::ops_testing {

const std::vector<FailedCall>& CallsThatOnceFailed() {
  constexpr index_t kMost = std::numeric_limits<index_t>::max();
  static const auto* const calls = new std::vector<FailedCall>{
      // Names of inputs without number.
      {"add_n", {{"num_args", "2147483647"}}, {}},
      {"UpSampling", {{"num_args", "2147483647"}, {"scale", "2"}, {"sample_type", "nearest"}}, {}},
      // Many rows without elements.
      {"LRN", {{"nsize", "5"}}, {{2147483648, 0, 8}}},
      {"L2Normalization", {}, {{4294967296, 2, 0}}},
      {"softmin", {}, {{5, 2147483647, 2, 4, 0}}},
      {"BatchNorm", {}, {{2147483648, 17, 3, 0, 1}, {17}, {17}, {17}, {17}}},
      {"SoftmaxOutput", {{"multi_output", "True"}}, {{17, 2147483648, 3, 1, 0, 0}, {17, 0}}},
      {"InstanceNorm", {}, {{2147483648, 1, 3, 0}, {1}, {1}}},
      // Many matrices, images or steps without elements.
      {"_linalg_gelqf", {}, {{2147483648, 0, 3}}},
      {"_linalg_inverse", {}, {{2147483648, 0, 0}}},
      {"_linalg_potrf", {}, {{2147483648, 0, 0}}},
      {"_linalg_potri", {}, {{65536, 2147483648, 0, 0}}},
      {"_linalg_syevd", {}, {{2147483648, 0, 0}}},
      {"_linalg_syrk", {}, {{2147483648, 65536, 0, 0}}},
      {"_linalg_trsm", {}, {{2147483648, 0, 0}, {2147483648, 0, 3}}},
      {"_linalg_gemm", {}, {{kMost, 0, 0}, {kMost, 0, 2}, {kMost, 0, 2}}},
      {"batch_dot", {}, {{1099511627776, 0, 3}, {1099511627776, 3, 0}}},
      {"_contrib_interleaved_matmul_selfatt_qk",
       {{"heads", "2"}},
       {{0, 4294967296, kMost / 6 * 6}}},
      {"Deconvolution", {{"kernel", "(2, 2)"}, {"num_filter", "4"}}, {{2147483648, 3, 0, 5}, {}}},
      {"UpSampling",
       {{"num_args", "2"}, {"num_filter", "1"}, {"sample_type", "bilinear"}, {"scale", "2"}},
       {{2147483648, 1, 4, 0}, {1, 1, 4, 4}}},
      {"UpSampling",
       {{"num_args", "1"}, {"sample_type", "nearest"}, {"scale", "2"}},
       {{2147483648, 65536, 4, 0}}},
      {"RNN",
       {{"mode", "lstm"}, {"num_layers", "1"}, {"state_size", "2"}},
       {{2147483648, 0, 3}, {56}, {1, 0, 2}, {1, 0, 2}}},
      // Windows over images without elements.
      {"Pooling", {{"global_pool", "True"}}, {{65536, 1, 65536, 0}}},
      {"Pooling", {{"global_pool", "True"}}, {{2, 2, 0, 4294967296, kMost}}},
      {"Pooling", {{"global_pool", "True"}}, {{0, 1, 4294967296, kMost}}},
      {"Pooling_v1", {{"global_pool", "True"}}, {{0, 0, kMost, 1}}},
      {"_pick_maxima", {{"global_pool", "True"}}, {{65536, 1, 65536, 0}, {65536, 1, 65536, 0}}},
      // Errors that did not name the operator.
      {"LogisticRegressionOutput", {}, {{5, kMost, 3}, {5, kMost}}},
      {"reshape_like", {{"lhs_end", "1"}}, {{2, 8, 1, 5, 5, 2}, {8, 2, 3, 17, 3}}},
      {"Reshape", {{"shape", "(1, 2, 3, 4, 5, 6, 7, 8, 9)"}}, {TShape()}},
      {"diag", {{"k", "-2"}}, {{kMost}}},
      // Axes before the first.
      {"Dropout", {{"axes", "(-1, -1)"}}, {{2, 3}}},
      {"Dropout", {{"axes", "(None, 3)"}}, {{2, 3}}},
      // Empty arrays whose other extents have a product beyond 63 bits.
      {"exp", {}, {{0, 4294967296, kMost}}},
      {"sum", {{"axis", "1"}}, {{0, kMost, 17}}},
      {"slice_axis", {{"axis", "0"}, {"begin", "0"}, {"end", "0"}}, {{0, kMost, 8}}},
      {"take", {}, {{0, 4, 4611686018427387904}, {0}}},
      {"pick", {{"axis", "1"}}, {{0, 2, 4, kMost}, {0, 4, kMost}}},
      {"dot", {}, {{0, 0}, {0, 4294967296, kMost}}},
      {"SequenceReverse", {}, {{2, 0, 4294967296, kMost}}},
      {"tile", {{"reps", "(2, 4, 38, 3)"}}, {{3, 4, 0, 0, 0}}},
      {"repeat", {{"repeats", "2"}}, {TShape(std::vector<index_t>{})}},
      // The label -0.5 of no class.
      {"softmax_cross_entropy", {}, {{1, 0}, {1}}},
  };
  return *calls;
}

}  // namespace tessera::ops_testing
