// The transforms of Winograd's convolutions against products of their matrices in double, over
// sizes around packets and groups. BUILD runs it for each instruction set.
#include "tessera/tensor/nn/winograd.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <utility>
#include <vector>

#include "gtest/gtest.h"

namespace tessera::tensor_internal {
namespace {

constexpr float kNotANumber = std::numeric_limits<float>::quiet_NaN();
// An element of a guard zone, which no result is.
constexpr float kGuard = -12345;
constexpr int64_t kImages = 3;
// The elements between the planes of two images.
constexpr int64_t kGap = 5;

using Matrix = std::vector<std::vector<double>>;

// G, B' and A'.
struct Matrices {
  Matrix g, b, a;
};

// Returns those of Lavin and Gray for tiles of 2 x 2, and those of the points for 4 x 4.
Matrices MatricesOf(int64_t size) {
  if (size == 2) {
    return {.g = {{1, 0, 0}, {0.5, 0.5, 0.5}, {0.5, -0.5, 0.5}, {0, 0, 1}},
            .b = {{1, 0, -1, 0}, {0, 1, 1, 0}, {0, -1, 1, 0}, {0, 1, 0, -1}},
            .a = {{1, 1, 1, 0}, {0, 1, -1, -1}}};
  }
  const std::vector<double> points = {0, 0.75, -0.75, 1.5, -1.5};
  Matrices m;
  m.a.resize(4);
  // Returns the coefficients of the product of (x - q) over the points other than p.
  const auto product_without = [&](double p) {
    std::vector<double> coefficients = {1};
    for (const double q : points) {
      if (q == p) continue;
      coefficients.insert(coefficients.begin(), 0);
      for (size_t i = 0; i + 1 < coefficients.size(); ++i) {
        coefficients[i] -= q * coefficients[i + 1];
      }
    }
    coefficients.resize(6);
    return coefficients;
  };
  for (const double p : points) {
    double n = 1;
    for (const double q : points) n *= q == p ? 1 : p - q;
    m.g.push_back({1 / n, p / n, p * p / n});
    m.b.push_back(product_without(p));
    for (size_t i = 0; i < 4; ++i) m.a[i].push_back(std::pow(p, static_cast<double>(i)));
  }
  m.g.push_back({0, 0, 1});
  m.b.push_back(product_without(std::numeric_limits<double>::quiet_NaN()));
  for (size_t i = 0; i < 4; ++i) m.a[i].push_back(i == 3 ? 1 : 0);
  return m;
}

// Returns left * x * left'.
Matrix Transformed(const Matrix& left, const Matrix& x) {
  Matrix result(left.size(), std::vector<double>(left.size()));
  for (size_t i = 0; i < left.size(); ++i) {
    for (size_t j = 0; j < left.size(); ++j) {
      for (size_t p = 0; p < x.size(); ++p) {
        for (size_t q = 0; q < x.size(); ++q) result[i][j] += left[i][p] * x[p][q] * left[j][q];
      }
    }
  }
  return result;
}

class Integers {
 public:
  // Returns integers from -8 to 8.
  std::vector<float> operator()(int64_t count) {
    std::vector<float> values(static_cast<size_t>(count));
    for (float& value : values) value = static_cast<float>(static_cast<int>(random_() % 17) - 8);
    return values;
  }

 private:
  std::mt19937 random_{1};
};

float& At(std::vector<float>& values, int64_t i) { return values[static_cast<size_t>(i)]; }

int64_t RoundUp(int64_t value, int64_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

struct Plane {
  int64_t height, width, pad_y, pad_x;
};

// Rows of one, several and many tiles, beyond a packet and a group.
const std::vector<Plane>& Planes() {
  static const auto* const planes = new std::vector<Plane>{
      {1, 1, 1, 1},   {2, 3, 1, 1},  {5, 7, 0, 2},   {3, 3, 0, 0},  {7, 7, 1, 1},
      {13, 13, 1, 1}, {9, 31, 2, 0}, {14, 14, 1, 1}, {6, 57, 1, 1}, {5, 150, 0, 1},
  };
  return *planes;
}

// The tiles of the planes of several images, which have a gap between them.
struct Tiles : WinogradTiles {
  Tiles(int64_t tile, const Plane& plane)
      : WinogradTiles{.size = tile,
                      .height = plane.height,
                      .width = plane.width,
                      .out_height = plane.height + 2 * plane.pad_y - 2,
                      .out_width = plane.width + 2 * plane.pad_x - 2,
                      .pad_y = plane.pad_y,
                      .pad_x = plane.pad_x} {
    plane_stride = height * width + kGap;
    out_stride = out_height * out_width + kGap;
  }
  int64_t rows() const { return RoundUp(out_height, size) / size; }
  int64_t columns() const { return RoundUp(out_width, size) / size; }
  int64_t count() const { return kImages * rows() * columns(); }
  // Ranges from [begin, end) on: all, and parts that begin and end inside of rows.
  std::vector<std::pair<int64_t, int64_t>> Ranges() const {
    return {{0, count()}, {count() / 3, count() - count() / 4}, {count() - 1, count()}};
  }
  // Calls visit(image, y, x) with the first result of tile t.
  template <typename Visit>
  void VisitPlace(int64_t t, const Visit& visit) const {
    visit(t / (rows() * columns()), t / columns() % rows() * size, t % columns() * size);
  }
};

TEST(WinogradTest, TermsOfKernelsAreThoseOfTheMatrices) {
  Integers integers;
  for (const int64_t size : {2, 4}) {
    const Matrix g = MatricesOf(size).g;
    for (const int64_t count : {1, 3, 4, 5, 7, 8, 9, 15, 16, 17, 50}) {
      const int64_t begin = count / 3, stride = count + 7;
      const std::vector<float> weights = integers(count * 9);
      std::vector<float> terms(static_cast<size_t>(WinogradTerms(size) * stride), kGuard);
      WinogradWeights(size, weights.data(), begin, count, terms.data(), stride);
      for (int64_t k = 0; k < stride; ++k) {
        Matrix kernel(3, std::vector<double>(3));
        for (size_t i = 0; i < 9 && k < count; ++i) {
          kernel[i / 3][i % 3] = static_cast<double>(weights[static_cast<size_t>(k) * 9 + i]);
        }
        const Matrix expected = Transformed(g, kernel);
        for (int64_t i = 0; i < WinogradTerms(size); ++i) {
          const float actual = At(terms, i * stride + k);
          if (k < begin || k >= count) {
            ASSERT_EQ(actual, kGuard) << size << ": term " << i << " of " << k;
            continue;
          }
          // Quarters are exact. The terms of 4 x 4 are at most 12, of which this is about six ulp.
          const auto row = static_cast<size_t>(i / (size + 2));
          const auto column = static_cast<size_t>(i % (size + 2));
          ASSERT_NEAR(static_cast<double>(actual), expected[row][column], size == 2 ? 0 : 6e-6)
              << size << ": term " << i << " of " << k;
        }
      }
    }
  }
}

TEST(WinogradTest, TermsOfIntegersAreExact) {
  Integers integers;
  for (const int64_t size : {2, 4}) {
    const Matrix b = MatricesOf(size).b;
    for (const Plane& plane : Planes()) {
      const Tiles tiles(size, plane);
      std::vector<float> elements = integers(kImages * tiles.plane_stride);
      for (int64_t i = 0; i < kImages * tiles.plane_stride; ++i) {
        if (i % tiles.plane_stride >= tiles.height * tiles.width) At(elements, i) = kNotANumber;
      }
      for (const auto& [begin, end] : tiles.Ranges()) {
        SCOPED_TRACE(::testing::Message() << size << ", plane " << plane.height << " x "
                                          << plane.width << ", tiles " << begin << " to " << end);
        const int64_t columns = RoundUp(end - begin, kWinogradColumns), stride = columns + 9;
        std::vector<float> terms(static_cast<size_t>(WinogradTerms(size) * stride), kGuard);
        WinogradInput(tiles, elements.data(), begin, end, terms.data(), stride);
        for (int64_t k = 0; k < stride; ++k) {
          const auto side = static_cast<size_t>(size + 2);
          Matrix expected(side, std::vector<double>(side, k < columns ? 0 : double{kGuard}));
          if (k < end - begin) {
            tiles.VisitPlace(begin + k, [&](int64_t image, int64_t top, int64_t left) {
              Matrix tile(side, std::vector<double>(side));
              for (int64_t i = 0; i < (size + 2) * (size + 2); ++i) {
                const int64_t y = top - tiles.pad_y + i / (size + 2);
                const int64_t x = left - tiles.pad_x + i % (size + 2);
                if (y < 0 || y >= tiles.height || x < 0 || x >= tiles.width) continue;
                tile[static_cast<size_t>(i) / side][static_cast<size_t>(i) % side] =
                    static_cast<double>(
                        At(elements, image * tiles.plane_stride + y * tiles.width + x));
              }
              expected = Transformed(b, tile);
            });
          }
          for (int64_t i = 0; i < WinogradTerms(size); ++i) {
            ASSERT_EQ(static_cast<double>(At(terms, i * stride + k)),
                      expected[static_cast<size_t>(i) / side][static_cast<size_t>(i) % side])
                << "term " << i << " of " << k;
          }
        }
      }
    }
  }
}

TEST(WinogradTest, ResultsOfIntegerTermsAreExact) {
  Integers integers;
  constexpr float kBias = 0.25f;
  for (const int64_t size : {2, 4}) {
    const Matrix a = MatricesOf(size).a;
    for (const Plane& plane : Planes()) {
      const Tiles tiles(size, plane);
      for (const auto& [begin, end] : tiles.Ranges()) {
        for (const bool add : {false, true}) {
          SCOPED_TRACE(::testing::Message()
                       << size << ", plane " << plane.height << " x " << plane.width << ", tiles "
                       << begin << " to " << end << ", add " << add);
          const int64_t stride = end - begin + 3;
          std::vector<float> terms = integers(WinogradTerms(size) * stride);
          for (int64_t i = 0; i < WinogradTerms(size) * stride; ++i) {
            if (i % stride >= end - begin) At(terms, i) = kNotANumber;
          }
          std::vector<float> actual = integers(kImages * tiles.out_stride), expected = actual;
          for (int64_t k = 0; k < end - begin; ++k) {
            const auto side = static_cast<size_t>(size + 2);
            Matrix sums(side, std::vector<double>(side));
            for (int64_t i = 0; i < WinogradTerms(size); ++i) {
              sums[static_cast<size_t>(i) / side][static_cast<size_t>(i) % side] =
                  static_cast<double>(At(terms, i * stride + k));
            }
            const Matrix results = Transformed(a, sums);
            tiles.VisitPlace(begin + k, [&](int64_t image, int64_t top, int64_t left) {
              for (int64_t i = 0; i < size * size; ++i) {
                const int64_t y = top + i / size, x = left + i % size;
                if (y >= tiles.out_height || x >= tiles.out_width) continue;
                float& result = At(expected, image * tiles.out_stride + y * tiles.out_width + x);
                const double sum =
                    results[static_cast<size_t>(i / size)][static_cast<size_t>(i % size)] +
                    static_cast<double>(kBias);
                result = static_cast<float>(add ? static_cast<double>(result) + sum : sum);
              }
            });
          }
          WinogradOutput(tiles, terms.data(), stride, kBias, add, begin, end, actual.data());
          ASSERT_EQ(actual, expected);
        }
      }
    }
  }
}

// A term's bits must not depend on the lanes beside it.
TEST(WinogradTest, BitsDoNotDependOnTheRange) {
  std::mt19937 random(2);
  std::uniform_real_distribution<float> uniform(-1, 1);
  for (const int64_t size : {2, 4}) {
    const Tiles tiles(size, {9, 45, 1, 1});
    std::vector<float> elements(static_cast<size_t>(kImages * tiles.plane_stride));
    for (float& element : elements) element = uniform(random);
    const int64_t stride = RoundUp(tiles.count(), kWinogradColumns);
    const auto terms = static_cast<size_t>(WinogradTerms(size) * stride);
    const auto results = static_cast<size_t>(kImages * tiles.out_stride);
    std::vector<float> all(terms), parts(terms), whole_out(results), out(results);
    WinogradInput(tiles, elements.data(), 0, tiles.count(), all.data(), stride);
    WinogradOutput(tiles, all.data(), stride, 0.5f, false, 0, tiles.count(), whole_out.data());
    for (int64_t begin = 0; begin < tiles.count(); begin += 19) {
      const int64_t end = std::min(begin + 19, tiles.count());
      std::vector<float> part(static_cast<size_t>(WinogradTerms(size)) * 32);
      WinogradInput(tiles, elements.data(), begin, end, part.data(), 32);
      for (int64_t i = 0; i < WinogradTerms(size); ++i) {
        std::copy_n(part.data() + i * 32, end - begin, parts.data() + i * stride + begin);
      }
      WinogradOutput(tiles, part.data(), 32, 0.5f, false, begin, end, out.data());
    }
    for (int64_t i = 0; i < WinogradTerms(size); ++i) {
      ASSERT_TRUE(std::equal(all.data() + i * stride, all.data() + i * stride + tiles.count(),
                             parts.data() + i * stride))
          << size << ": term " << i;
    }
    EXPECT_EQ(out, whole_out) << size;
  }
}

}  // namespace
}  // namespace tessera::tensor_internal
