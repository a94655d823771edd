#include "tessera/ops/windows/convolution_loops.h"

#include <gtest/gtest.h>
#include <tbb/global_control.h>
#include <tbb/task_arena.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "tessera/base/device.h"
#include "tessera/base/dtype.h"
#include "tessera/ops/operator.h"
#include "tessera/ops/windows/window_parameters.h"
#include "tessera/resource/resource.h"
#include "tessera/tensor/linalg/gemm.h"
#include "tessera/tensor/tblob.h"

namespace tessera::ops_internal {
namespace {

/// Workspace that tells its size.
class Workspace final : public Resource {
 public:
  ResourceRequest request() const override { return {}; }
  Device device() const override { return Device(); }
  void* GetSpaceBytes(int64_t size_bytes) override {
    size_bytes_ = size_bytes;
    if (size_bytes == 0) return nullptr;
    constexpr size_t kAlignment = 64;
    size_t space = static_cast<size_t>(size_bytes) + kAlignment;
    memory_.assign(space, 0);
    void* data = memory_.data();
    return std::align(kAlignment, static_cast<size_t>(size_bytes), data, space);
  }
  PhiloxState* GetRandomState() override { return nullptr; }
  int64_t size_bytes() const { return size_bytes_; }

 private:
  int64_t size_bytes_ = 0;
  std::vector<char> memory_;
};

struct Case {
  std::string name;
  ConvolutionGeometry g;
  bool shares_products = false;  ///< whether several images share a product
};

/// Returns the geometry of two-dimensional images and square kernels.
ConvolutionGeometry Geometry(index_t batch, index_t groups, index_t channels, index_t filters,
                             index_t height, index_t width, index_t kernel, index_t stride,
                             index_t dilate, index_t pad) {
  ConvolutionGeometry g = {.batch = batch,
                           .groups = groups,
                           .channels = channels,
                           .filters = filters,
                           .image = {1, height, width},
                           .kernel = {1, kernel, kernel},
                           .stride = {1, stride, stride},
                           .dilate = {1, dilate, dilate},
                           .pad = {0, pad, pad}};
  for (size_t d = 0; d < 3; ++d) {
    g.positions[d] =
        (g.image[d] + 2 * g.pad[d] - (g.kernel[d] - 1) * g.dilate[d] - 1) / g.stride[d] + 1;
  }
  return g;
}

std::vector<float> Random(index_t size, std::mt19937* random) {
  std::uniform_real_distribution<float> uniform(-1, 1);
  std::vector<float> values(static_cast<size_t>(size));
  for (float& value : values) value = uniform(*random);
  return values;
}

/// Images share a product if they have fewer than 128 positions.
TEST(ConvolutionLoopsTest, ColumnsPackedFromImagesGiveTheBitsOfStoredColumns) {
  const Case cases[] = {
      {"same_padding", Geometry(1, 1, 16, 24, 28, 30, 3, 1, 1, 1)},
      {"blocks_of_columns_and_depth", Geometry(1, 1, 29, 20, 41, 43, 3, 1, 1, 1)},
      {"strided", Geometry(2, 1, 3, 64, 61, 57, 7, 2, 1, 3)},
      {"strided_1x1", Geometry(2, 1, 40, 20, 15, 13, 1, 2, 1, 0), true},
      {"images_of_16_positions", Geometry(9, 1, 20, 30, 4, 4, 3, 1, 1, 1), true},
      {"pointwise", Geometry(7, 1, 300, 30, 5, 6, 1, 1, 1, 0), true},
      {"pointwise_on_many_positions", Geometry(2, 2, 270, 14, 11, 13, 1, 1, 1, 0)},
      {"without_padding", Geometry(2, 1, 5, 7, 19, 21, 5, 1, 1, 0)},
      {"dilated", Geometry(1, 1, 6, 9, 23, 17, 3, 1, 2, 2)},
      {"padding_wider_than_the_kernel", Geometry(1, 1, 4, 5, 9, 7, 3, 2, 1, 5)},
      {"grouped", Geometry(2, 4, 18, 8, 14, 14, 3, 1, 1, 1)},
      {"groups_of_many_filters", Geometry(2, 3, 5, 17, 14, 14, 3, 1, 1, 1)},
      {"images_that_share_a_product", Geometry(8, 1, 70, 60, 7, 7, 3, 1, 1, 1), true},
      {"images_that_share_a_product_of_groups", Geometry(5, 2, 17, 11, 5, 6, 3, 1, 1, 1), true},
      {"three_dimensions",
       {.batch = 2,
        .groups = 1,
        .channels = 3,
        .filters = 5,
        .image = {4, 9, 8},
        .positions = {2, 9, 5},
        .kernel = {3, 3, 2},
        .stride = {2, 1, 2},
        .dilate = {1, 1, 1},
        .pad = {1, 1, 1}},
       true},
  };
  std::mt19937 random(1);
  for (const Case& c : cases) {
    SCOPED_TRACE(c.name);
    const ConvolutionGeometry& g = c.g;
    const index_t positions = Volume(g.positions), image_size = Volume(g.image);
    const index_t rows = g.channels * Volume(g.kernel);
    const std::vector<float> image = Random(g.batch * g.groups * g.channels * image_size, &random);
    const std::vector<float> weight = Random(g.groups * g.filters * rows, &random);
    const std::vector<float> bias = Random(g.groups * g.filters, &random);
    const std::vector<float> old = Random(g.batch * g.groups * g.filters * positions, &random);
    std::vector<float> columns(static_cast<size_t>(g.batch * g.groups * rows * positions));
    ConvolutionLoops loops(g, DType::kFloat32);
    loops.Unpack(image.data(), kWriteTo, columns.data());
    const PreparedForm form = loops.WeightForm();
    EXPECT_EQ(form.size_bytes > 0, g.filters > 12);
    std::vector<float> packed(static_cast<size_t>(form.size_bytes) / sizeof(float));
    if (form.size_bytes > 0) {
      std::vector<float> copy = weight;
      const index_t size = static_cast<index_t>(copy.size());
      form.make({}, TBlob(copy.data(), {size}, DType::kFloat32, Device::Cpu()), packed.data());
    }
    for (const bool add : {false, true}) {
      std::vector<float> expected = old;
      for (index_t i = 0; i < g.batch * g.groups; ++i) {
        float* const out = expected.data() + i * g.filters * positions;
        tensor_internal::Gemm({.transpose_a = false,
                               .transpose_b = false,
                               .m = g.filters,
                               .n = positions,
                               .k = rows,
                               .alpha = 1.0f,
                               .a = weight.data() + i % g.groups * g.filters * rows,
                               .lda = rows,
                               .b = columns.data() + i * rows * positions,
                               .ldb = positions,
                               .beta = add ? 1.0f : 0.0f,
                               .c = out,
                               .ldc = positions});
        for (index_t j = 0; j < g.filters * positions; ++j) {
          out[j] += bias[static_cast<size_t>(i % g.groups * g.filters + j / positions)];
        }
      }
      const tbb::global_control allow(tbb::global_control::max_allowed_parallelism, 7);
      for (const int threads : {1, 2, 7}) {
        for (const bool is_packed : {false, true}) {
          if (is_packed && packed.empty()) continue;
          std::vector<float> actual = old;
          Workspace workspace;
          tbb::task_arena(threads).execute([&] {
            loops.Run(&workspace, [&] {
              loops.Correlate(image.data(), weight.data(), bias.data(), add ? kAddTo : kWriteTo,
                              actual.data(), is_packed ? packed.data() : nullptr);
            });
          });
          EXPECT_EQ(actual, expected)
              << add << ", " << threads << " threads, " << (is_packed ? "packed" : "stored");
          EXPECT_LE(workspace.size_bytes(), c.shares_products ? 512 * 1024 : 0);
        }
      }
    }
  }
}

// Rows of two planes are several tasks of every product.
TEST(ConvolutionLoopsTest, BitsOfSmallGroupsDoNotDependOnTheNumberOfThreads) {
  std::mt19937 random(2);
  const tbb::global_control allow(tbb::global_control::max_allowed_parallelism, 7);
  for (const index_t channels : {1, 3}) {
    for (const index_t stride : {1, 2}) {
      SCOPED_TRACE(testing::Message() << channels << " channels, stride " << stride);
      const ConvolutionGeometry g = Geometry(2, 2, channels, 2, 150, 141, 5, stride, 1, 2);
      const std::vector<float> image =
          Random(g.batch * g.groups * channels * Volume(g.image), &random);
      const std::vector<float> result =
          Random(g.batch * g.groups * g.filters * Volume(g.positions), &random);
      const std::vector<float> weight =
          Random(g.groups * g.filters * channels * Volume(g.kernel), &random);
      ConvolutionLoops loops(g, DType::kFloat32);
      const auto run = [&](int threads) {
        std::vector<std::vector<float>> outs = {result, image, weight};
        Workspace workspace;
        tbb::task_arena(threads).execute([&] {
          loops.Run(&workspace, [&] {
            loops.Correlate(image.data(), weight.data(), nullptr, kAddTo, outs[0].data());
            loops.Spread(result.data(), weight.data(), nullptr, kAddTo, outs[1].data());
            loops.WeightGradient(image.data(), result.data(), kAddTo, outs[2].data());
          });
        });
        return outs;
      };
      const auto expected = run(1);
      EXPECT_NE(expected[0], result);
      EXPECT_EQ(run(2), expected);
      EXPECT_EQ(run(7), expected);
    }
  }
}

}  // namespace
}  // namespace tessera::ops_internal
