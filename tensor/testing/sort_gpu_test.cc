// Sorts of keys with values and inside segments: the GPU against the CPU.
#include <cstdint>

#include "gtest/gtest.h"
#include "tessera/tensor/testing/device_agreement.h"

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

// Keys of type K, negative ones and zeros of both signs among them, with values of type V.
template <typename K, typename V>
void ExpectSortsAgree() {
  for (const bool ascending : {true, false}) {
    for (const bool of_keys : {true, false}) {
      ExpectDevicesAgree(0, [&](auto* side) {
        const auto whole = side->template Numbers<int32_t>(Shape1(777), 3, -20, 20);
        auto keys = ValueOf(side, tcast<K>(whole) * tcast<K>(whole - 3));
        auto values = ValueOf(side, tcast<V>(range(0.0f, 777.0f)));
        SortByKey(keys, values, ascending);
        return of_keys ? ValueOf(side, tcast<double>(keys)) : ValueOf(side, tcast<double>(values));
      });
    }
  }
}

TEST(SortGpuTest, EveryTypeOfKeyAndSizeOfValue) {
  ExpectSortsAgree<int8_t, int8_t>();
  ExpectSortsAgree<half_t, float>();
  ExpectSortsAgree<int64_t, uint8_t>();
  ExpectSortsAgree<double, bfloat16_t>();
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
