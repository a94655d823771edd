#include "tessera/ops/loops/map_pairs.h"

#include <array>
#include <cstddef>

#include "tessera/ops/loops/map_function.h"
#include "tessera/tensor/functors.h"

namespace tessera::ops_internal {
namespace {

/// outer(inner(a, b), c), outer(c, inner(a, b)) and outer(inner(a, b)). This file is compiled
/// without contraction of a product and a sum, which would round once.
template <typename Inner, typename Outer>
struct InFront {
  template <typename T>
  static T Map(T a, T b, T c) {
    return Outer::Map(Inner::Map(a, b), c);
  }
};
template <typename Inner, typename Outer>
struct Behind {
  template <typename T>
  static T Map(T a, T b, T c) {
    return Outer::Map(c, Inner::Map(a, b));
  }
};
template <typename Inner, typename Outer>
struct Alone {
  template <typename T>
  static T Map(T a, T b) {
    return Outer::Map(Inner::Map(a, b));
  }
};

/// The pairs of an inner function, by the outer one in the order of MapKind from kPlus on, then by
/// position.
using PairsOfInner = std::array<std::array<MapFunction, 2>, 5>;

template <typename Inner, typename Outer>
std::array<MapFunction, 2> OfTwo() {
  return {MakeMapFunction<InFront<Inner, Outer>, 3>(), MakeMapFunction<Behind<Inner, Outer>, 3>()};
}

template <typename Inner>
PairsOfInner PairsOf() {
  return {OfTwo<Inner, op::plus>(), OfTwo<Inner, op::minus>(), OfTwo<Inner, op::mul>(),
          OfTwo<Inner, op::maximum>(),
          std::array<MapFunction, 2>{MakeMapFunction<Alone<Inner, op::relu>, 2>()}};
}

}  // namespace

const MapFunction* FindMapPair(MapKind inner, MapKind outer, int position) {
  static const std::array<PairsOfInner, 4> pairs = {PairsOf<op::plus>(), PairsOf<op::minus>(),
                                                    PairsOf<op::mul>(), PairsOf<op::maximum>()};
  if (inner == MapKind::kOther || inner == MapKind::kRelu || outer == MapKind::kOther) {
    return nullptr;
  }
  const auto index = [](MapKind kind) {
    return static_cast<size_t>(kind) - static_cast<size_t>(MapKind::kPlus);
  };
  return &pairs[index(inner)][index(outer)][static_cast<size_t>(position)];
}

}  // namespace tessera::ops_internal
