#include "tessera/ops/benchmark/peer_cases.h"

#include <utility>

namespace tessera::ops_benchmark {
namespace {

using benchmarking::Bound;
using benchmarking::Mean;

// A bound of 0 only prints the figures.
constexpr double kNoBound = 0;

/// A square convolution without bias whose output, at stride 1, is as large as its image.
struct ConvolutionLayer {
  std::string label;
  index_t image, channels, filters, kernel;
  index_t stride = 1, groups = 1, dilation = 1;

  bool is_depthwise() const { return groups == channels && groups == filters; }
  /// 3x3 layers of ResNet-50 that Winograd's algorithm can compute.
  bool is_for_winograd() const { return label.starts_with("r50_3x3_") && stride == 1; }
  double Flops(index_t batch) const {
    const index_t positions = (image + stride - 1) / stride;
    return 2.0 * static_cast<double>(batch * positions * positions * filters * channels / groups *
                                     kernel * kernel);
  }
};

/// Every distinct convolution of ResNet-50, with the strides of its 3x3 layers as in PyTorch's
/// model, and of MobileNet-v2, as in Gluon's model. Then others' layers: 5x5 depthwise
/// (EfficientNet-B0), 32 groups (ResNeXt-50) and dilation 2 (DeepLab).
std::vector<ConvolutionLayer> ConvolutionLayers() {
  return {
      // label, image, channels, filters, kernel, stride, groups, dilation
      {"r50_7x7s2", 224, 3, 64, 7, 2},
      {"r50_1x1_64_64", 56, 64, 64, 1},
      {"r50_3x3_64", 56, 64, 64, 3},
      {"r50_1x1_64_256", 56, 64, 256, 1},
      {"r50_1x1_256_64", 56, 256, 64, 1},
      {"r50_1x1_256_128", 56, 256, 128, 1},
      {"r50_3x3s2_128", 56, 128, 128, 3, 2},
      {"r50_1x1_128_512", 28, 128, 512, 1},
      {"r50_1x1s2_256_512", 56, 256, 512, 1, 2},
      {"r50_1x1_512_128", 28, 512, 128, 1},
      {"r50_3x3_128", 28, 128, 128, 3},
      {"r50_1x1_512_256", 28, 512, 256, 1},
      {"r50_3x3s2_256", 28, 256, 256, 3, 2},
      {"r50_1x1_256_1024", 14, 256, 1024, 1},
      {"r50_1x1s2_512_1024", 28, 512, 1024, 1, 2},
      {"r50_1x1_1024_256", 14, 1024, 256, 1},
      {"r50_3x3_256", 14, 256, 256, 3},
      {"r50_1x1_1024_512", 14, 1024, 512, 1},
      {"r50_3x3s2_512", 14, 512, 512, 3, 2},
      {"r50_1x1_512_2048", 7, 512, 2048, 1},
      {"r50_1x1s2_1024_2048", 14, 1024, 2048, 1, 2},
      {"r50_1x1_2048_512", 7, 2048, 512, 1},
      {"r50_3x3_512", 7, 512, 512, 3},
      {"mb2_3x3s2_32", 224, 3, 32, 3, 2},
      {"mb2_1x1_32_32", 112, 32, 32, 1},
      {"mb2_dw32", 112, 32, 32, 3, 1, 32},
      {"mb2_1x1_32_16", 112, 32, 16, 1},
      {"mb2_1x1_16_96", 112, 16, 96, 1},
      {"mb2_dw96s2", 112, 96, 96, 3, 2, 96},
      {"mb2_1x1_96_24", 56, 96, 24, 1},
      {"mb2_1x1_24_144", 56, 24, 144, 1},
      {"mb2_dw144", 56, 144, 144, 3, 1, 144},
      {"mb2_1x1_144_24", 56, 144, 24, 1},
      {"mb2_dw144s2", 56, 144, 144, 3, 2, 144},
      {"mb2_1x1_144_32", 28, 144, 32, 1},
      {"mb2_1x1_32_192", 28, 32, 192, 1},
      {"mb2_dw192", 28, 192, 192, 3, 1, 192},
      {"mb2_1x1_192_32", 28, 192, 32, 1},
      {"mb2_dw192s2", 28, 192, 192, 3, 2, 192},
      {"mb2_1x1_192_64", 14, 192, 64, 1},
      {"mb2_1x1_64_384", 14, 64, 384, 1},
      {"mb2_dw384", 14, 384, 384, 3, 1, 384},
      {"mb2_1x1_384_64", 14, 384, 64, 1},
      {"mb2_1x1_384_96", 14, 384, 96, 1},
      {"mb2_1x1_96_576", 14, 96, 576, 1},
      {"mb2_dw576", 14, 576, 576, 3, 1, 576},
      {"mb2_1x1_576_96", 14, 576, 96, 1},
      {"mb2_dw576s2", 14, 576, 576, 3, 2, 576},
      {"mb2_1x1_576_160", 7, 576, 160, 1},
      {"mb2_1x1_160_960", 7, 160, 960, 1},
      {"mb2_dw960", 7, 960, 960, 3, 1, 960},
      {"mb2_1x1_960_160", 7, 960, 160, 1},
      {"mb2_1x1_960_320", 7, 960, 320, 1},
      {"mb2_1x1_320_1280", 7, 320, 1280, 1},
      {"dw5x5_240", 28, 240, 240, 5, 1, 240},
      {"grp32_256", 28, 256, 256, 3, 1, 32},
      {"dil2_256", 28, 256, 256, 3, 1, 1, 2},
  };
}

/// One of the ways in which each convolution is timed.
struct ConvolutionWay {
  std::string label;
  index_t batch;
  Work work;
  double passes;  ///< through the multiplications of a forward call
};

std::vector<ConvolutionWay> ConvolutionWays() {
  return {
      {"f1", 1, Work::kForward, 1},
      {"f8", 8, Work::kForward, 1},
      {"fb8", 8, Work::kForwardAndBackward, 3},
      {"data1", 1, Work::kDataGradient, 1},
      {"data8", 8, Work::kDataGradient, 1},
      {"weight1", 1, Work::kWeightGradient, 1},
      {"weight8", 8, Work::kWeightGradient, 1},
  };
}

std::vector<Bound> ConvolutionBounds(const ConvolutionLayer& layer, Work work) {
  // A gradient alone shows where the time of fb8 goes.
  if (work == Work::kDataGradient || work == Work::kWeightGradient) {
    return {{.peer = "torch", .at_least = kNoBound}};
  }
  double at_least = 0.7;
  if (layer.is_depthwise() && layer.stride == 1) at_least = 0.8;
  if (layer.is_for_winograd() && work == Work::kForward) at_least = 1.2;
  return {{.peer = "torch", .at_least = at_least}, {.peer = "mxnet", .at_least = kNoBound}};
}

std::string Pair(index_t n) {
  const std::string text = std::to_string(n);
  return "(" + text + "," + text + ")";
}

void AddConvolutions(std::vector<PeerCase>* cases) {
  for (const ConvolutionWay& way : ConvolutionWays()) {
    for (const ConvolutionLayer& layer : ConvolutionLayers()) {
      const std::string family = layer.is_depthwise() ? "depthwise/" : "convolution/";
      cases->push_back(
          {.name = family + way.label + "/" + layer.label,
           .call = {.op = "Convolution",
                    .parameters = {{"kernel", Pair(layer.kernel)},
                                   {"stride", Pair(layer.stride)},
                                   {"pad", Pair(layer.dilation * (layer.kernel - 1) / 2)},
                                   {"dilate", Pair(layer.dilation)},
                                   {"num_filter", std::to_string(layer.filters)},
                                   {"num_group", std::to_string(layer.groups)},
                                   {"no_bias", "True"}},
                    .inputs = {{way.batch, layer.channels, layer.image, layer.image}, {}},
                    .work = way.work},
           .bounds = ConvolutionBounds(layer, way.work),
           .flops = way.passes * layer.Flops(way.batch)});
    }
  }
}

/// Operators of 64 Ki elements or more. Sizes that no comment explains are past the second-level
/// cache, where most activations of networks are.
std::vector<PeerCase> OtherOperators() {
  constexpr index_t k4Mi = index_t{1} << 22;
  const auto product = [](index_t batch, index_t m, index_t n, index_t k) {
    return 2.0 * static_cast<double>(batch * m * n * k);
  };
  return {
      {"elementwise/add", {"elemwise_add", {}, {{k4Mi}, {k4Mi}}}},
      {"elementwise/relu", {"relu", {}, {{k4Mi}}}},
      {"elementwise/sigmoid", {"sigmoid", {}, {{k4Mi}}}},
      {"elementwise/gelu", {"LeakyReLU", {{"act_type", "gelu"}}, {{k4Mi}}}},
      // A bias of a dense layer, and a scale of each channel.
      {"broadcast/broadcast_add_row", {"broadcast_add", {}, {{2048, 1024}, {1, 1024}}}},
      {"broadcast/broadcast_mul_c", {"broadcast_mul", {}, {{16, 64, 56, 56}, {1, 64, 1, 1}}}},
      {"reduction/sum_all", {"sum", {}, {{2048, 2048}}}},
      {"reduction/sum_axis1", {"sum", {{"axis", "1"}}, {{2048, 2048}}}},
      {"reduction/max_axis0", {"max", {{"axis", "0"}}, {{2048, 2048}}}},
      {"reduction/mean_hw", {"mean", {{"axis", "(2,3)"}}, {{32, 128, 28, 28}}}},
      {"reduction/argmax", {"argmax", {{"axis", "1"}}, {{1024, 1000}}}},
      // The last and the first pooling of ResNet-50.
      {"pooling/avgpool_global",
       {"Pooling",
        {{"pool_type", "avg"}, {"global_pool", "True"}, {"kernel", "(1,1)"}},
        {{32, 2048, 7, 7}}}},
      {"pooling/maxpool3s2",
       {"Pooling",
        {{"pool_type", "max"}, {"kernel", "(3,3)"}, {"stride", "(2,2)"}, {"pad", "(1,1)"}},
        {{16, 64, 112, 112}}}},
      // The classes of ImageNet, those of each pixel, and the rows of BERT.
      {"normalization/softmax_1000", {"softmax", {}, {{1024, 1000}}}},
      {"normalization/log_softmax_1000", {"log_softmax", {}, {{1024, 1000}}}},
      {"normalization/softmax_axis1", {"softmax", {{"axis", "1"}}, {{8, 21, 128, 128}}}},
      {"normalization/layernorm_768", {"LayerNorm", {}, {{2048, 768}, {}, {}}}},
      {"normalization/bn_infer",
       {.op = "BatchNorm",
        .parameters = {{"fix_gamma", "False"}},
        .inputs = {{16, 64, 56, 56}, {}, {}, {}, {}},
        .low = 0.5,
        .high = 2.5}},
      {"normalization/bn_train_fb",
       {.op = "BatchNorm",
        .parameters = {{"fix_gamma", "False"}},
        .inputs = {{32, 64, 56, 56}, {}, {}, {}, {}},
        .work = Work::kForwardAndBackward,
        .low = 0.5,
        .high = 2.5}},
      {"movement/concat_c",
       {"Concat", {{"num_args", "2"}, {"dim", "1"}}, {{8, 128, 28, 28}, {8, 128, 28, 28}}}},
      {"movement/slice_axis",
       {"slice_axis", {{"axis", "1"}, {"begin", "512"}, {"end", "1536"}}, {{2048, 2048}}}},
      // The heads of attention.
      {"movement/transpose_0213", {"transpose", {{"axes", "(0,2,1,3)"}}, {{8, 128, 12, 64}}}},
      {"movement/transpose_2d", {"transpose", {{"axes", "(1,0)"}}, {{2048, 2048}}}},
      {"movement/transpose_nhwc", {"transpose", {{"axes", "(0,2,3,1)"}}, {{16, 64, 56, 56}}}},
      {"movement/embedding",
       {.op = "Embedding",
        .parameters = {{"input_dim", "10000"}, {"output_dim", "256"}},
        .inputs = {{32, 128}, {10000, 256}},
        .index_input = 0,
        .index_below = 10000}},
      {"movement/take_rows",
       {.op = "take",
        .parameters = {{"axis", "0"}},
        .inputs = {{10000, 256}, {4096}},
        .index_input = 1,
        .index_below = 10000}},
      {"movement/one_hot",
       {.op = "one_hot",
        .parameters = {{"depth", "1000"}},
        .inputs = {{1024}},
        .index_input = 0,
        .index_below = 1000}},
      {"order/topk5", {"topk", {{"k", "5"}}, {{1024, 1000}}}},
      {"order/sort", {"sort", {}, {{1024, 1000}}}},
      {"random/dropout", {"Dropout", {{"p", "0.5"}, {"mode", "always"}}, {{k4Mi}}}},
      {"random/rand_uniform",
       {"_random_uniform", {{"low", "0"}, {"high", "1"}, {"shape", "(4194304,)"}}}},
      {"random/rand_normal",
       {"_random_normal", {{"loc", "0"}, {"scale", "1"}, {"shape", "(4194304,)"}}}},
      {.name = "product/dot_1024",
       .call = {"dot", {}, {{1024, 1024}, {1024, 1024}}},
       .flops = product(1, 1024, 1024, 1024)},
      // Eight sequences of 128 in twelve heads of 64.
      {.name = "product/batch_dot_attn",
       .call = {"batch_dot", {}, {{96, 128, 64}, {96, 64, 128}}},
       .flops = product(96, 128, 128, 64)},
      {.name = "product/fc_1024_4096",
       .call = {"FullyConnected", {{"num_hidden", "4096"}}, {{128, 1024}, {}, {}}},
       .flops = product(1, 128, 4096, 1024)},
  };
}

void AddOtherOperators(std::vector<PeerCase>* cases) {
  for (PeerCase& c : OtherOperators()) {
    c.bounds = {{.peer = "torch", .at_least = c.name == "order/sort" ? 0.6 : 0.7},
                {.peer = "mxnet", .at_least = 1.0}};
    cases->push_back(std::move(c));
  }
}

/// A stack of LSTM layers of equal size over sequences of as many features.
PeerCase Lstm(const std::string& name, index_t steps, index_t batch, index_t size, index_t layers,
              Work work) {
  const double passes = work == Work::kForward ? 1 : 3;
  return {.name = "recurrent/" + name,
          .call = {.op = "RNN",
                   .parameters = {{"mode", "lstm"},
                                  {"state_size", std::to_string(size)},
                                  {"num_layers", std::to_string(layers)}},
                   .inputs = {{steps, batch, size}, {}, {}, {}},
                   .work = work,
                   // Gates that do not saturate: gradients that vanish end as subnormal numbers.
                   .low = -0.08,
                   .high = 0.08},
          .bounds = {{.peer = "torch", .at_least = 1.0}, {.peer = "mxnet", .at_least = 1.0}},
          .flops = passes * 2.0 * static_cast<double>(steps * batch * layers * 8 * size * size)};
}

}  // namespace

std::vector<PeerCase> PeerCases() {
  std::vector<PeerCase> cases;
  AddOtherOperators(&cases);
  cases.push_back(Lstm("lstm_f/35x32x256x2", 35, 32, 256, 2, Work::kForward));
  cases.push_back(Lstm("lstm_fb/35x32x256x2", 35, 32, 256, 2, Work::kForwardAndBackward));
  cases.push_back(Lstm("lstm_f/100x1x512", 100, 1, 512, 1, Work::kForward));
  AddConvolutions(&cases);
  return cases;
}

std::vector<Mean> PeerMeans() {
  return {
      {.name = "mean/operators",
       .cases = "^(elementwise|broadcast|reduction|pooling|normalization|movement|order|random|"
                "product)/",
       .peer = "torch",
       .at_least = 1.0},
      {.name = "mean/convolution/f1",
       .cases = "^convolution/f1/",
       .peer = "torch",
       .at_least = 0.95},
      {.name = "mean/convolution/f8",
       .cases = "^convolution/f8/",
       .peer = "torch",
       .at_least = 0.95},
      {.name = "mean/convolution/fb8",
       .cases = "^convolution/fb8/",
       .peer = "torch",
       .at_least = 1.0},
  };
}

}  // namespace tessera::ops_benchmark
