// Expressions other than arithmetic of floats, on one thread, compared with hand-written loops:
// integers and conversions, broadcasts over images, elements that move, and reductions of short
// rows. Each case compares the results before it is timed.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "tbb/task_arena.h"
#include "tessera/tensor/tensor.h"
#include "tessera/tools/benchmark/ratio_benchmark.h"

namespace tessera {
namespace {

using benchmarking::AddCase;
using benchmarking::Variants;

/// Returns `count` small integers, which every type represents.
template <typename T>
std::vector<T> Numbers(index_t count, int below) {
  std::mt19937_64 random(1);
  std::uniform_int_distribution<int> uniform(0, below - 1);
  std::vector<T> numbers(static_cast<size_t>(count));
  for (T& number : numbers) number = static_cast<T>(uniform(random));
  return numbers;
}

/// Two operands of type A with their own sizes, and a result of type R for each of ours and the
/// loop.
template <typename A, typename R>
struct Data {
  std::vector<A> a, b;
  std::vector<R> ours, loop;

  Data(index_t size_a, index_t size_b, index_t size_r, int below = 100)
      : a(Numbers<A>(size_a, below)),
        b(Numbers<A>(size_b, below)),
        ours(static_cast<size_t>(size_r)),
        loop(ours) {}

  template <typename T, int N>
  static Tensor<cpu, N, T> View(std::vector<T>& values, const Shape<N>& shape) {
    return Tensor<cpu, N, T>(values.data(), shape);
  }
};

/// Adds a case of ours(data), which stores its result in data->ours, and loop(data), which stores
/// it in data->loop.
template <typename A, typename R, typename Ours, typename Loop>
void Add(const std::string& name, double bytes, const std::function<Data<A, R>()>& make,
         const Ours& ours, const Loop& loop) {
  AddCase(
      {.name = name, .bounds = {{.peer = "loop", .at_least = 0.98}}, .bytes = bytes, .make = [=] {
         auto data = std::make_shared<Data<A, R>>(make());
         return Variants{
             .all = {{"ours", [=] { ours(data.get()); }}, {"loop", [=] { loop(data.get()); }}},
             .results_agree = [data] {
               for (size_t i = 0; i < data->ours.size(); ++i) {
                 const auto x = static_cast<double>(data->ours[i]);
                 const auto y = static_cast<double>(data->loop[i]);
                 if (!(std::abs(x - y) <= 1e-5 * std::abs(y) + 1e-6)) return false;
               }
               return true;
             }};
       }});
}

/// Adds the case r[i] = loop(a[i], b[i]).
template <typename A, typename R, typename Make, typename Element>
void AddElementwise(const std::string& name, const Make& make, const Element& element) {
  constexpr index_t kSize = 4096;
  Add<A, R>(
      name, kSize * double{2 * sizeof(A) + sizeof(R)},
      [] { return Data<A, R>(kSize, kSize, kSize); },
      [=](Data<A, R>* d) {
        d->View(d->ours, Shape1(kSize)) =
            make(d->View(d->a, Shape1(kSize)), d->View(d->b, Shape1(kSize)));
      },
      [=](Data<A, R>* d) {
        const A* __restrict a = d->a.data(), * __restrict b = d->b.data();
        R* __restrict r = d->loop.data();
        for (index_t i = 0; i < kSize; ++i) r[i] = element(a[i], b[i]);
      });
}

void AddNumbersAndConversions() {
  AddElementwise<uint8_t, uint8_t>(
      "add/uint8", [](const auto& a, const auto& b) { return a + b; },
      [](uint8_t a, uint8_t b) { return static_cast<uint8_t>(a + b); });
  AddElementwise<int32_t, int32_t>(
      "max/int32", [](const auto& a, const auto& b) { return max(a, b); },
      [](int32_t a, int32_t b) { return a > b ? a : b; });
  AddElementwise<bfloat16_t, bfloat16_t>(
      "add/bfloat16", [](const auto& a, const auto& b) { return a + b; },
      [](bfloat16_t a, bfloat16_t b) { return a + b; });
  AddElementwise<uint8_t, float>(
      "normalize/uint8",
      [](const auto& a, const auto& b) {
        return (tcast<float>(a) - 50.0f) * 0.25f + tcast<float>(b);
      },
      [](uint8_t a, uint8_t b) {
        return (static_cast<float>(a) - 50.0f) * 0.25f + static_cast<float>(b);
      });
  AddElementwise<float, int32_t>(
      "cast/float_to_int32", [](const auto& a, const auto&) { return tcast<int32_t>(a); },
      [](float a, float) { return static_cast<int32_t>(a); });
  AddElementwise<half_t, float>(
      "cast/half_to_float", [](const auto& a, const auto&) { return tcast<float>(a); },
      [](half_t a, half_t) { return static_cast<float>(a); });
}

/// Adds the case of `a` with shape (n, c, h, w), multiplied by and added to a number of `b` for
/// each channel.
void AddBroadcast(index_t n, index_t c, index_t h, index_t w) {
  const Shape<4> shape = Shape4(n, c, h, w);
  using D = Data<float, float>;
  const auto make = [=] { return D(shape.Size(), c, shape.Size()); };
  const double bytes = 8.0 * static_cast<double>(shape.Size());
  const std::string size = std::to_string(h) + "x" + std::to_string(w);
  const auto loop = [=](D* d) {
    const float* __restrict a = d->a.data(), * __restrict b = d->b.data();
    float* __restrict r = d->loop.data();
    for (index_t p = 0; p < n * c; ++p) {
      const float number = b[p % c];
      for (index_t i = 0; i < h * w; ++i) r[p * h * w + i] = a[p * h * w + i] * number + number;
    }
  };
  Add<float, float>(
      "channel_affine/" + size, bytes, make,
      [=](D* d) {
        const auto b = broadcast<1>(d->View(d->b, Shape1(c)), shape);
        d->View(d->ours, shape) = d->View(d->a, shape) * b + b;
      },
      loop);
  Add<float, float>(
      "broadcast_to/" + size, bytes, make,
      [=](D* d) {
        const auto b = broadcast_to(d->View(d->b, Shape4(1, c, 1, 1)), shape);
        d->View(d->ours, shape) = d->View(d->a, shape) * b + b;
      },
      loop);
}

/// Sets r[x * rows + y] = a[y * columns + x], in tiles.
void TransposeLoop(const float* __restrict a, float* __restrict r, index_t rows, index_t columns) {
  constexpr index_t kTile = 16;
  for (index_t y0 = 0; y0 < rows; y0 += kTile) {
    for (index_t x0 = 0; x0 < columns; x0 += kTile) {
      for (index_t x = x0; x < std::min(columns, x0 + kTile); ++x) {
        for (index_t y = y0; y < std::min(rows, y0 + kTile); ++y)
          r[x * rows + y] = a[y * columns + x];
      }
    }
  }
}

void AddMoves() {
  using D = Data<float, float>;
  constexpr index_t kSide = 1024;
  const double bytes = 8.0 * kSide * kSide;
  const Shape<2> square = Shape2(kSide, kSide);
  const auto of_square = [] { return D(kSide * kSide, 0, kSide * kSide); };
  Add<float, float>(
      "transpose/1024x1024", bytes, of_square,
      [=](D* d) { d->View(d->ours, square) = d->View(d->a, square).T(); },
      [](D* d) { TransposeLoop(d->a.data(), d->loop.data(), kSide, kSide); });
  Add<float, float>(
      "mirror/1024x1024", bytes, of_square,
      [=](D* d) { d->View(d->ours, square) = mirror(d->View(d->a, square)); },
      [](D* d) {
        const float* __restrict a = d->a.data();
        float* __restrict r = d->loop.data();
        for (index_t y = 0; y < kSide; ++y) {
          for (index_t x = 0; x < kSide; ++x) r[y * kSide + x] = a[y * kSide + kSide - 1 - x];
        }
      });
  constexpr index_t kImages = 4, kChannels = 3, kPixels = 224 * 224;
  Add<float, float>(
      "nchw_to_nhwc/3x224x224", 8.0 * kImages * kChannels * kPixels,
      [] { return D(kImages * kChannels * kPixels, 0, kImages * kChannels * kPixels); },
      [](D* d) {
        d->View(d->ours, Shape3(kImages, kPixels, kChannels)) =
            swapaxis<2, 1>(d->View(d->a, Shape3(kImages, kChannels, kPixels)));
      },
      [](D* d) {
        const float* __restrict a = d->a.data();
        float* __restrict r = d->loop.data();
        for (index_t n = 0; n < kImages; ++n, a += kChannels * kPixels, r += kChannels * kPixels) {
          for (index_t i = 0; i < kPixels; ++i) {
            for (index_t c = 0; c < kChannels; ++c) r[i * kChannels + c] = a[c * kPixels + i];
          }
        }
      });
  constexpr index_t kNumbers = 4096, kRows = 10000, kColumns = 64;
  Add<float, float>(
      "take_grad/4096x64_to_10000", 4.0 * (2 * kNumbers + kRows) * kColumns,
      [] {
        D data(kNumbers * kColumns, kNumbers, kRows * kColumns);
        data.b = Numbers<float>(kNumbers, kRows);
        return data;
      },
      [](D* d) {
        d->View(d->ours, Shape2(kRows, kColumns)) = take_grad(
            d->View(d->b, Shape1(kNumbers)), d->View(d->a, Shape2(kNumbers, kColumns)), kRows);
      },
      [](D* d) {
        const float* __restrict a = d->a.data(), * __restrict b = d->b.data();
        float* __restrict r = d->loop.data();
        std::fill_n(r, kRows * kColumns, 0.0f);
        for (index_t i = 0; i < kNumbers; ++i) {
          float* __restrict row = r + static_cast<index_t>(b[i]) * kColumns;
          for (index_t x = 0; x < kColumns; ++x) row[x] += a[i * kColumns + x];
        }
      });
}

/// Adds the case r[y] = the sum of row y.
template <typename T, typename R>
void AddRowSums(const std::string& name, index_t rows, index_t columns) {
  using D = Data<T, R>;
  Add<T, R>(
      name, double{sizeof(T)} * static_cast<double>(rows * columns),
      [=] { return D(rows * columns, 0, rows, 10); },
      [=](D* d) { d->View(d->ours, Shape1(rows)) = sum<1>(d->View(d->a, Shape2(rows, columns))); },
      [=](D* d) {
        const T* __restrict a = d->a.data();
        R* __restrict r = d->loop.data();
        for (index_t y = 0; y < rows; ++y) {
          R total = 0;
          for (index_t x = 0; x < columns; ++x) total = static_cast<R>(total + a[y * columns + x]);
          r[y] = total;
        }
      });
}

void AddReductions() {
  AddRowSums<float, float>("sum_short_rows/100000x4", 100000, 4);
  AddRowSums<float, float>("sum_short_rows/100000x10", 100000, 10);
  AddRowSums<int32_t, int32_t>("sum_rows/int32_1000x1000", 1000, 1000);
  constexpr index_t kSize = 1 << 20;
  using D = Data<uint8_t, uint8_t>;
  Add<uint8_t, uint8_t>(
      "maximum/uint8_1M", kSize, [] { return D(kSize, 0, 1); },
      [](D* d) { d->ours[0] = maximum(d->View(d->a, Shape1(kSize))); },
      [](D* d) {
        uint8_t largest = 0;
        for (const uint8_t number : d->a) largest = std::max(largest, number);
        d->loop[0] = largest;
      });
}

}  // namespace
}  // namespace tessera

int main(int argc, char** argv) {
  using namespace tessera;
  AddNumbersAndConversions();
  AddBroadcast(64, 256, 7, 7);
  AddBroadcast(8, 16, 64, 64);
  AddMoves();
  AddReductions();
  tbb::task_arena one(1);
  return one.execute([&] { return benchmarking::RunAll(argc, argv); });
}
