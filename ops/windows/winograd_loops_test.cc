#include "tessera/ops/windows/winograd_loops.h"

#include <gtest/gtest.h>
#include <tbb/global_control.h>
#include <tbb/task_arena.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <memory>
#include <new>
#include <random>
#include <vector>

#include "tessera/base/shape.h"
#include "tessera/ops/windows/convolution_loops.h"
#include "tessera/ops/windows/window_parameters.h"

namespace tessera::ops_internal {
namespace {

/// Floats at a multiple of 64 bytes, as a resource's workspace.
class Floats {
 public:
  explicit Floats(index_t size)
      : data_(static_cast<float*>(
            ::operator new(std::max<size_t>(1, static_cast<size_t>(size) * sizeof(float)),
                           std::align_val_t(64)))) {}
  float* data() const { return data_.get(); }

 private:
  struct Free {
    void operator()(float* data) const { ::operator delete(data, std::align_val_t(64)); }
  };
  std::unique_ptr<float, Free> data_;
};

ConvolutionGeometry Geometry(index_t batch, index_t channels, index_t filters, index_t height,
                             index_t width, index_t pad) {
  return {.batch = batch,
          .groups = 1,
          .channels = channels,
          .filters = filters,
          .image = {1, height, width},
          .positions = {1, height + 2 * pad - 2, width + 2 * pad - 2},
          .kernel = {1, 3, 3},
          .stride = {1, 1, 1},
          .dilate = {1, 1, 1},
          .pad = {0, pad, pad}};
}

/// The arrays of a convolution.
struct Arrays {
  std::vector<float> image, weight, bias, old;
};

std::vector<float> Random(index_t size, std::mt19937* random) {
  std::uniform_real_distribution<float> uniform(-1, 1);
  std::vector<float> values(static_cast<size_t>(size));
  for (float& value : values) value = uniform(*random);
  return values;
}

Arrays RandomArrays(const ConvolutionGeometry& g, bool rectified) {
  std::mt19937 random(static_cast<uint32_t>(g.channels + 2 * g.image[1]));
  Arrays arrays = {.image = Random(g.batch * g.channels * Volume(g.image), &random),
                   .weight = Random(g.filters * g.channels * 9, &random),
                   .bias = Random(g.filters, &random),
                   .old = Random(g.batch * g.filters * Volume(g.positions), &random)};
  if (rectified) {
    for (float& value : arrays.image) value = std::max(value, 0.0f);
  }
  return arrays;
}

/// Returns the old result plus the bias plus the sum of all products.
std::vector<double> Expected(const ConvolutionGeometry& g, const Arrays& arrays, bool add) {
  const index_t height = g.image[1], width = g.image[2], out_width = g.positions[2];
  std::vector<double> out(arrays.old.size());
  double* plane = out.data();
  for (index_t n = 0; n < g.batch; ++n) {
    for (index_t f = 0; f < g.filters; ++f, plane += Volume(g.positions)) {
      for (index_t i = 0; i < Volume(g.positions); ++i) {
        plane[i] = static_cast<double>(arrays.bias[static_cast<size_t>(f)]);
        if (add)
          plane[i] += static_cast<double>(arrays.old[static_cast<size_t>(plane + i - out.data())]);
      }
      for (index_t c = 0; c < g.channels; ++c) {
        const float* const image = arrays.image.data() + (n * g.channels + c) * height * width;
        for (index_t tap = 0; tap < 9; ++tap) {
          const index_t dy = tap / 3 - g.pad[1], dx = tap % 3 - g.pad[2];
          const double w = static_cast<double>(
              arrays.weight[static_cast<size_t>((f * g.channels + c) * 9 + tap)]);
          const index_t begin = std::max<index_t>(0, -dx);
          const index_t end = std::min(out_width, width - dx);
          for (index_t y = 0; y < g.positions[1]; ++y) {
            if (y + dy < 0 || y + dy >= height) continue;
            const float* const row = image + (y + dy) * width + dx;
            for (index_t x = begin; x < end; ++x) {
              plane[y * out_width + x] += w * static_cast<double>(row[x]);
            }
          }
        }
      }
    }
  }
  return out;
}

std::vector<float> Correlate(const ConvolutionGeometry& g, index_t tile, const Arrays& arrays,
                             bool add) {
  const WinogradLoops loops(g, tile);
  const Floats transformed(loops.TransformedSize()), workspace(loops.WorkspaceSize());
  loops.TransformWeights(arrays.weight.data(), transformed.data());
  std::vector<float> result = arrays.old;
  loops.Correlate(arrays.image.data(), transformed.data(), arrays.bias.data(), add,
                  workspace.data(), result.data());
  return result;
}

/// The bounds that winograd.h states, of the largest result.
double BoundOf(index_t tile) { return tile == 2 ? 2e-6 : 1e-5; }

TEST(WinogradLoopsTest, ErrorsAreWithinTheBounds) {
  const ConvolutionGeometry cases[] = {
      Geometry(1, 32, 32, 1, 1, 1),    Geometry(3, 33, 64, 1, 1, 2),
      Geometry(1, 64, 33, 2, 3, 1),    Geometry(3, 512, 32, 2, 3, 2),
      Geometry(1, 33, 512, 5, 7, 0),   Geometry(3, 64, 64, 5, 7, 1),
      Geometry(1, 512, 64, 5, 7, 2),   Geometry(3, 32, 33, 13, 13, 0),
      Geometry(1, 64, 128, 13, 13, 1), Geometry(1, 512, 33, 13, 13, 2),
      Geometry(1, 33, 32, 29, 70, 1),  Geometry(2, 160, 50, 14, 15, 1),
  };
  bool add = false;
  for (const ConvolutionGeometry& g : cases) {
    for (const bool rectified : {false, true}) {
      const Arrays arrays = RandomArrays(g, rectified);
      const std::vector<double> expected = Expected(g, arrays, add);
      double largest = 0;
      for (const double x : expected) largest = std::max(largest, std::abs(x));
      for (const index_t tile : {2, 4}) {
        const std::vector<float> actual = Correlate(g, tile, arrays, add);
        double error = 0;
        index_t beyond = 0;
        for (size_t i = 0; i < expected.size(); ++i) {
          const double difference = std::abs(static_cast<double>(actual[i]) - expected[i]);
          error = std::max(error, difference);
          if (!(difference <= BoundOf(tile) * largest)) ++beyond;  // a NaN too
        }
        EXPECT_EQ(beyond, 0) << error / largest << " of the largest; " << tile << ": " << g.batch
                             << " images of " << g.channels << " x " << g.image[1] << " x "
                             << g.image[2] << ", " << g.filters << " filters, pad " << g.pad[1]
                             << ", rectified " << rectified << ", add " << add;
      }
    }
    add = !add;
  }
}

// Twelve groups or more, of which one thread takes one after the other, two threads two at once,
// and seven threads one together.
TEST(WinogradLoopsTest, BitsDoNotDependOnTheNumberOfThreads) {
  const tbb::global_control allow(tbb::global_control::max_allowed_parallelism, 7);
  for (const index_t tile : {2, 4}) {
    const ConvolutionGeometry g =
        tile == 2 ? Geometry(3, 40, 70, 27, 26, 1) : Geometry(3, 40, 70, 54, 53, 1);
    const Arrays arrays = RandomArrays(g, false);
    const auto run = [&](int threads) {
      std::vector<float> result;
      tbb::task_arena(threads).execute([&] { result = Correlate(g, tile, arrays, true); });
      return result;
    };
    const std::vector<float> expected = run(1);
    EXPECT_NE(expected, arrays.old);
    EXPECT_EQ(run(2), expected) << tile;
    EXPECT_EQ(run(7), expected) << tile;
  }
}

TEST(WinogradLoopsTest, WorkspaceIsAtMostOneMebibyteAThread) {
  const tbb::global_control allow(tbb::global_control::max_allowed_parallelism, 7);
  for (const int threads : {1, 2, 7}) {
    tbb::task_arena(threads).execute([&] {
      for (const index_t batch : {1, 8}) {
        for (const index_t channels : {32, 64, 128, 256, 400, 512, 960}) {
          const ConvolutionGeometry g = Geometry(batch, channels, channels, 56, 56, 1);
          for (const index_t tile : {2, 4}) {
            if (tile == 4 && channels > 400) continue;
            EXPECT_LE(WinogradLoops(g, tile).WorkspaceSize() * 4, index_t{threads} << 20)
                << tile << ": " << batch << " x " << channels << ", " << threads << " threads";
          }
        }
      }
    });
  }
}

TEST(WinogradLoopsTest, TilesAreLargeWhereThePlanesAre) {
  EXPECT_EQ(WinogradLoops::BestTile(Geometry(1, 64, 64, 56, 56, 1)), 4);
  EXPECT_EQ(WinogradLoops::BestTile(Geometry(8, 256, 256, 14, 14, 1)), 4);
  EXPECT_EQ(WinogradLoops::BestTile(Geometry(8, 512, 512, 14, 14, 1)), 2);
  EXPECT_EQ(WinogradLoops::BestTile(Geometry(64, 64, 64, 6, 6, 1)), 2);
  EXPECT_EQ(WinogradLoops::BestTile(Geometry(64, 64, 64, 2, 56, 1)), 2);
  EXPECT_EQ(WinogradLoops::BestTile(Geometry(1, 512, 512, 3, 3, 1)), 0);
  EXPECT_EQ(WinogradLoops::BestTile(Geometry(1, 1024, 64, 56, 56, 1)), 0);
  EXPECT_EQ(WinogradLoops::BestTile(Geometry(0, 64, 64, 56, 56, 1)), 0);
}

}  // namespace
}  // namespace tessera::ops_internal
