// Sorts of keys with values and inside segments: the GPU against the CPU.
#include <cstdint>

#include "gtest/gtest.h"
#include "tessera/tensor/device_agreement.h"

namespace tessera {
namespace {

TEST(SortGpuTest, KeysInOrderAndValuesAlong) {
  for (const bool ascending : {true, false}) {
    for (const bool of_keys : {true, false}) {
      ExpectDevicesAgree(0, [&](auto* side) {
        // Few different keys, so that there are equal ones; 0 becomes NaN.
        const auto whole = side->template Numbers<int32_t>(Shape1(1000), 1, 0, 30);
        auto keys = ValueOf(side, tcast<float>(whole));
        keys = keys / keys * keys;
        auto values = ValueOf(side, range(0.0f, 1000.0f));
        SortByKey(keys, values, ascending);
        return of_keys ? keys : values;
      });
    }
  }
}

TEST(SortGpuTest, ValuesInsideTheirSegments) {
  ExpectDevicesAgree(0, [](auto* side) {
    auto values = side->template Numbers<float>(Shape1(500), 1);
    auto segments = side->template Numbers<int32_t>(Shape1(500), 2, 0, 8);
    VectorizedSort(values, segments);
    return values;
  });
}

}  // namespace
}  // namespace tessera
