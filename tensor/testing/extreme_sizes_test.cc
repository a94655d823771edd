// Sizes and distances as large as their type: each call either gives a result of a sound shape,
// whose elements can be computed, or throws Error(kInvalidArgument). Under
// -fsanitize=signed-integer-overflow nothing overflows on the way.
#include <array>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "tessera/tensor/dense/allocate.h"
#include "tessera/tensor/dense/view.h"
#include "tessera/tensor/index/take.h"
#include "tessera/tensor/nn/channel_pool.h"
#include "tessera/tensor/nn/patch.h"
#include "tessera/tensor/nn/patch_batch.h"
#include "tessera/tensor/nn/pool.h"
#include "tessera/tensor/nn/window_pool.h"
#include "tessera/tensor/shape/broadcast.h"
#include "tessera/tensor/shape/concat.h"
#include "tessera/tensor/shape/pad.h"
#include "tessera/tensor/shape/range.h"
#include "tessera/tensor/shape/reshape.h"
#include "tessera/tensor/shape/slice.h"
#include "tessera/tensor/testing/test_values.h"

namespace tessera {
namespace {

constexpr auto kInvalidArgument = Error::kInvalidArgument;
constexpr index_t kMost = std::numeric_limits<index_t>::max();
constexpr index_t kLeast = std::numeric_limits<index_t>::min();
constexpr std::array<index_t, 12> kSizes = {
    kLeast,           kLeast + 1,       -1,        0,         1,    2, 3,
    index_t{1} << 31, index_t{1} << 32, kMost / 2, kMost - 1, kMost};

// Makes an expression, and where that is not refused looks at its shape and evaluates a small one.
template <typename Make>
void Try(const Make& make) {
  try {
    const auto e = make();
    const auto shape = e.shape();
    constexpr int kRank = decltype(shape)::kDimension;
    for (int i = 0; i < kRank; ++i) ASSERT_GE(shape[i], 0);
    for (int i = 0; i < kRank; ++i) {
      if (shape[i] > 100) return;
    }
    TensorContainer<cpu, kRank, float> result;
    result = e;
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), kInvalidArgument) << error.what();
  }
}

class ExtremeSizesTest : public testing::Test {
 protected:
  TensorContainer<cpu, 1, float> v{Shape1(3), 1.0f};
  TensorContainer<cpu, 2, float> m{Shape2(3, 4), 1.0f};
  TensorContainer<cpu, 2, float> none{Shape2(0, 4)};
  TensorContainer<cpu, 3, float> image{Shape3(2, 3, 4), 1.0f};
  TensorContainer<cpu, 4, float> images{Shape4(1, 2, 3, 4), 1.0f};
};

TEST_F(ExtremeSizesTest, PaddingAndUpsampling) {
  for (const index_t a : kSizes) {
    Try([&] { return upsampling_nearest(m, a); });
    for (const index_t b : kSizes) Try([&] { return pad(m, a, b); });
  }
  ExpectError([&] { pad(m, kMost); }, kInvalidArgument, {"pad", "(3,4)", "9223372036854775807x"});
  ExpectError([&] { upsampling_nearest(m, kMost / 2); }, kInvalidArgument,
              {"upsampling_nearest", "(3,4)", "4611686018427387903"});
}

TEST_F(ExtremeSizesTest, Patches) {
  for (const index_t kernel : kSizes) {
    for (const index_t stride : kSizes) {
      for (const index_t dilate : kSizes) {
        Try([&] { return unpack_patch2col(image + 1.0f, kernel, 1, stride, 1, dilate, 1); });
        Try([&] { return pack_col2patch(m, Shape3(1, 3, 4), 1, kernel, 1, stride, 1, dilate); });
        for (const index_t border : kSizes) {
          const PatchGeometry g{.kernel_y = kernel,
                                .stride_y = stride,
                                .stride_x = stride,
                                .dilate_y = dilate,
                                .pad_y = border,
                                .pad_x = border};
          Try([&] { return unpack_patch2col(image, g); });
          Try([&] { return pack_col2patch(m, Shape3(3, 1, 4), g); });
        }
      }
    }
  }
  for (const index_t a : kSizes) {
    for (const index_t b : kSizes) {
      Try([&] { return pack_col2patch(m, Shape4(a, b, 1, 1), 1, 1, 1, 1); });
      Try([&] { return pack_col2patch(m, Shape3(3, a, b), PatchGeometry{}); });
    }
  }
  ExpectError([&] { unpack_patch2col(image, {.pad_y = kMost}); }, kInvalidArgument,
              {"3 elements padded by 9223372036854775807"});
  ExpectError([&] { unpack_patch2col(image, {.pad_y = kMost / 4, .pad_x = kMost / 4}); },
              kInvalidArgument, {"unpack_patch2col", "4611686018427387905x4611686018427387906"});
}

TEST_F(ExtremeSizesTest, Pooling) {
  for (const index_t kernel : kSizes) {
    for (const index_t stride : kSizes) {
      for (const index_t border : kSizes) {
        const PoolGeometry g{.kernel_y = kernel,
                             .kernel_x = kernel,
                             .stride_y = stride,
                             .stride_x = stride,
                             .pad_y = border,
                             .pad_x = border};
        for (const index_t positions : {kLeast, index_t{1}, index_t{2}, kMost}) {
          Try([&] { return pool<PoolKind::kMax>(images, positions, 1, g); });
          Try([&] { return pool<PoolKind::kAverage>(images, positions, 1, g); });
        }
        const Tensor<cpu, 4, float> pooled(images.dptr_, Shape4(1, 2, 3, 3), 4, nullptr);
        Try([&] { return unpool<PoolKind::kMax>(images, pooled, pooled, g); });
        Try([&] { return unpool<PoolKind::kAverage>(images, pooled, pooled, g); });
        const auto e = images + 1.0f;
        Try([&] { return pool<red::maximum>(e, kernel, kernel, stride, stride, border, border); });
        Try([&] {
          return unpool<red::maximum>(e, pooled, pooled, kernel, kernel, stride, stride, border,
                                      border);
        });
        Try([&] { return chpool<red::sum>(image, kernel, stride, border); });
        Try([&] { return ch_unpool<red::sum>(image, image, image, kernel, stride, border); });
      }
    }
    Try([&] { return chpool<red::sum>(image, kernel); });
  }
  ExpectError([&] { pool<PoolKind::kMax>(images, 3, 3, {.stride_y = kMost}); }, kInvalidArgument,
              {"pool", "9223372036854775807x1", "3x3 positions", "3x4"});
  ExpectError([&] { chpool<red::sum>(image, 1, 1, kMost); }, kInvalidArgument,
              {"chpool", "padding 9223372036854775807"});
}

TEST_F(ExtremeSizesTest, PartsAndShapes) {
  for (const index_t a : kSizes) {
    for (const index_t b : kSizes) {
      Try([&] { return slice<0>(m, a, b); });
      Try([&] { return crop(m, Shape2(a, b)); });
      Try([&] { return crop(m, Shape2(1, 1), a, b); });
      Try([&] { return reshape(m, Shape2(a, b)); });
      Try([&] { return reshape(none, Shape2(a, b)); });
      Try([&] { return reshape(m, Shape3(a, b, 3)); });
      for (const index_t c : kSizes) {
        Try([&] { return slice(m, Shape2(0, 0), Shape2(a, b), Shape2(c, c)); });
        Try([&] { return View(v, Range(a, b, c)); });
      }
    }
  }
  // Of as many elements as 2^64, which would wrap to none.
  ExpectError([&] { reshape(none, Shape2(index_t{1} << 32, index_t{1} << 32)); }, kInvalidArgument,
              {"reshape", "(4294967296,4294967296)", "2^63"});
}

TEST_F(ExtremeSizesTest, Repetitions) {
  for (const index_t a : kSizes) {
    Try([&] { return repmat(v, a); });
    Try([&] { return spread<0>(v, a); });
    Try([&] { return spread<1>(m, a); });
    Try([&] { return broadcast_with_axis(m, 0, a); });
    Try([&] { return broadcast_keepdim(reshape(v, Shape2(1, 3)), 0, a); });
    Try([&] { return take_grad(v, image[0], a); });
    for (const index_t b : kSizes) {
      Try([&] { return broadcast<1>(v, Shape3(a, 3, b)); });
      Try([&] { return broadcast<0>(v, Shape4(3, a, b, 2)); });
      Try([&] { return broadcast_scalar(reshape(slice<0>(v, 0, 1), Shape1(1)), Shape2(a, b)); });
      for (const index_t c : kSizes) {
        Try([&] { return tcast<float>(range(a, b, c)); });
        Try([&] { return range(0.0f, 1.0f, static_cast<float>(b), c); });
      }
    }
  }
  const auto many = repmat(v, kMost / 3);
  ExpectError([&] { concat<0>(many, many); }, kInvalidArgument, {"concat"});
  ExpectError([&] { repmat(v, kMost); }, kInvalidArgument, {"(9223372036854775807,3)", "2^63"});
}

}  // namespace
}  // namespace tessera
