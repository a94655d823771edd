// Statements in one kernel, and reductions in one: the GPU against the CPU.
#include <cmath>

#include "gtest/gtest.h"
#include "tessera/tensor/testing/device_agreement.h"

namespace tessera {
namespace {

constexpr double kTolerance = 1e-5;

TEST(FuseGpuTest, AssignmentsRunInOrderForEachElement) {
  for (const bool pad : {false, true}) {
    for (const index_t columns : {1, 3, 4, 127, 1024}) {
      ExpectDevicesAgree(kTolerance, [&](auto* side) {
        const Shape<2> shape = Shape2(5, columns);
        auto w = side->template Numbers<float>(shape, 1, -1, 1, pad);
        auto m = side->template Numbers<float>(shape, 2, -1, 1, pad);
        auto g = side->template Numbers<float>(shape, 3, -1, 1, pad);
        Fuse(Lazy(m) = 0.9f * m + g, Lazy(w) -= 0.1f * m);
        return w;
      });
    }
  }
}

TEST(FuseGpuTest, ReductionsShareThePassWithAssignments) {
  for (const index_t size : {1, 3, 1000, 300001}) {
    ExpectDevicesAgree(kTolerance * std::sqrt(static_cast<double>(size)), [&](auto* side) {
      auto a = side->template Numbers<float>(Shape1(size), 1, -1, 1, false);
      auto b = side->template Numbers<float>(Shape1(size), 2, -1, 1, false);
      float total = 1, largest = 0;
      Fuse(Lazy(b) = a * a + b, Lazy(total) += sum(b), Lazy(largest) = maximum(a));
      auto results = side->template Empty<float>(Shape1(2), false);
      results = total;
      results += largest;
      return results;
    });
  }
}

TEST(FuseGpuTest, StatementsThatWouldDisturbEachOtherRunOneByOne) {
  ExpectDevicesAgree(kTolerance, [&](auto* side) {
    auto a = side->template Numbers<float>(Shape2(33, 33), 1, -1, 1, false);
    auto b = side->template Numbers<float>(Shape2(33, 33), 2, -1, 1, false);
    Fuse(Lazy(a) = a * 2.0f, Lazy(b) = a.T());
    return b;
  });
}

TEST(FuseGpuTest, ViewsAreDestinations) {
  for (const index_t columns : {2, 33, 1024}) {
    ExpectDevicesAgree(kTolerance * columns, [&](auto* side) {
      auto a = side->template Numbers<float>(Shape2(9, columns), 1, -1, 1, true);
      auto b = side->template Numbers<float>(Shape2(9, columns), 2, -1, 1, false);
      auto c = side->template Numbers<float>(Shape2(5, columns), 3, -1, 1, false);
      const auto apart = View(a, Range(8, -1, -2), Range(columns - 1, -1, -1));
      float total = 0;
      Fuse(Lazy(apart) = View(b, Range(0, 9, 2), kAll) + c, Lazy(c) -= apart,
           Lazy(total) += sum(apart));
      a += total;
      a.Slice(0, 5) += c;
      return a;
    });
  }
}

TEST(FuseGpuTest, ReductionsAlongAnAxisTakeTheirTurn) {
  for (const index_t columns : {1, 33, 1024}) {
    ExpectDevicesAgree(kTolerance * 100, [&](auto* side) {
      auto a = side->template Numbers<float>(Shape2(9, columns), 1, -1, 1, true);
      auto b = side->template Empty<float>(Shape2(9, columns), false);
      auto rows = side->template Empty<float>(Shape1(9), false);
      auto across = side->template Empty<float>(Shape1(columns), false);
      Fuse(Lazy(b) = a * 2.0f, Lazy(rows) = maximum<1>(b), Lazy(across) += sum<0>(b));
      b += spread<1>(rows, columns) + repmat(across, 9);
      return b;
    });
  }
}

TEST(FuseGpuTest, NumbersComeBackFromTheDevice) {
  for (const index_t size : {1, 5, 4096, 1000003}) {
    ExpectDevicesAgree(kTolerance * std::sqrt(static_cast<double>(size)), [&](auto* side) {
      auto a = side->template Numbers<float>(Shape1(size), 1, -1, 1, false);
      const float length = norm(a);
      const float both = sum(a) + 2.0f * maximum(a);
      auto results = side->template Empty<float>(Shape1(1), false);
      results = length + both;
      return results;
    });
  }
}

TEST(FuseGpuTest, MisalignedTensorsAreReadElementByElement) {
  ExpectDevicesAgree(kTolerance, [&](auto* side) {
    auto a = side->template Numbers<float>(Shape1(1001), 1, -1, 1, false);
    auto b = side->template Numbers<float>(Shape1(1001), 2, -1, 1, false);
    auto tail = b.Slice(1, 1001);
    tail = a.Slice(0, 1000) * 3.0f;
    return b;
  });
}

}  // namespace
}  // namespace tessera
