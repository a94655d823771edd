#ifndef TESSERA_TENSOR_RANDOM_TREE_H_
#define TESSERA_TENSOR_RANDOM_TREE_H_

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <iterator>
#include <random>
#include <sstream>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "tessera/tensor/broadcast.h"
#include "tessera/tensor/dense.h"
#include "tessera/tensor/elementwise.h"
#include "tessera/tensor/reductions.h"
#include "tessera/tensor/test_values.h"
#include "tessera/tensor/view.h"

/// Random expressions against an interpreter. The kind of a tree (which nodes, in which places) is
/// drawn at compile time, from the number that a template is given; the extent and what the leaves
/// are (which part of a common memory, and hence which overlaps there are, which numbers) are drawn
/// at run time.
/// All values are small whole numbers and every operation on them is exact, so that results must be
/// equal.
namespace tessera {

/// The memory that operands and destination lie in: kSide by kSide elements.
inline constexpr index_t kTreeSide = 72;
/// Every expression is a matrix of as many rows as columns, so that a transpose fits anywhere: of
/// one of these numbers, which lie around the packets' widths.
inline constexpr index_t kTreeExtents[] = {1, 2, 3, 5, 7, 8, 9, 15, 16, 17, 33};

/// What a tree should give: a function of row and column that looks at a copy of the memory as it
/// was before the assignment.
using TreeOracle = std::function<double(index_t y, index_t x)>;

template <typename T>
struct TreeContext {
  std::vector<T> memory = std::vector<T>(kTreeSide * kTreeSide);
  std::vector<double> before;
  std::mt19937_64 generator;
  index_t extent;

  explicit TreeContext(uint64_t seed) : generator(seed) {
    for (T& value : memory) value = static_cast<T>(Draw(-4, 4));
    before.assign(memory.begin(), memory.end());
    extent = kTreeExtents[Draw(0, std::ssize(kTreeExtents) - 1)];
  }
  index_t Draw(index_t low, index_t high) {
    return std::uniform_int_distribution<index_t>(low, high)(generator);
  }
  Tensor<cpu, 2, T> Block() {
    // Few places, so that the same ones come again.
    const index_t y = Draw(0, 2) * Draw(0, 5), x = Draw(0, 2) * Draw(0, 5);
    return {memory.data() + y * kTreeSide + x, Shape2(extent, extent), kTreeSide, nullptr};
  }
  TreeOracle Reads(const T* first, index_t row_step, index_t column_step) {
    const index_t offset = first - memory.data();
    return [this, offset, row_step, column_step](index_t y, index_t x) {
      return before[static_cast<size_t>(offset + y * row_step + x * column_step)];
    };
  }
  /// A view of `extent` rows and columns with steps of 1, 2, -1 or -2.
  TensorView<cpu, 2, T> Stepped() {
    const auto range = [this] {
      const index_t step = Draw(1, 2);
      // Near the blocks, so that the two often overlap.
      const index_t begin = Draw(0, std::min<index_t>(15, kTreeSide - (extent - 1) * step - 1));
      const index_t last = begin + (extent - 1) * step;
      return Draw(0, 1) == 0 ? Range(begin, last + 1, step) : Range(last, begin - 1, -step);
    };
    const Tensor<cpu, 2, T> all(memory.data(), Shape2(kTreeSide, kTreeSide));
    return View(all, range(), range());
  }
};

/// One well-mixed number after another, at compile time (the finalizer of splitmix64; Steele, Lea
/// and Flood, Fast Splittable Pseudorandom Number Generators, 2014).
constexpr uint64_t MixTree(uint64_t z) {
  z += 0x9e3779b97f4a7c15u;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

/// An expression with its oracle.
template <typename E>
struct Tree {
  E e;
  TreeOracle oracle;
};
template <typename E>
Tree(E, TreeOracle) -> Tree<E>;

/// Keeps products small enough to be exact in float however deep the tree.
template <typename E>
auto Held(const Tree<E>& a) {
  const auto f = a.oracle;
  return Tree{clamp(a.e, -16, 16),
              TreeOracle([f](index_t y, index_t x) { return std::clamp(f(y, x), -16.0, 16.0); })};
}

template <typename Reduce>
double OverBlock(const TreeOracle& f, index_t extent, double start, const Reduce& reduce) {
  for (index_t y = 0; y < extent; ++y) {
    for (index_t x = 0; x < extent; ++x) start = reduce(start, f(y, x));
  }
  return start;
}

template <typename E, typename Function>
auto Unary(const Tree<E>& a, const auto& apply, const Function& function) {
  const auto f = a.oracle;
  return Tree{apply(a.e), TreeOracle([f, function](index_t y, index_t x) {
                return static_cast<double>(function(f(y, x)));
              })};
}
template <typename A, typename B, typename Function>
auto Binary(const Tree<A>& a, const Tree<B>& b, const auto& apply, const Function& function) {
  const auto f = a.oracle, g = b.oracle;
  return Tree{apply(a.e, b.e), TreeOracle([f, g, function](index_t y, index_t x) {
                return static_cast<double>(function(f(y, x), g(y, x)));
              })};
}

/// Builds the tree that kSeed stands for, of depth at most kDepth, and at least 3 less.
template <uint64_t kSeed, int kDepth, typename T, int kLeaf = kDepth - 3>
auto BuildTree(TreeContext<T>* context) {
  constexpr uint64_t kDraw = MixTree(kSeed);
  constexpr uint64_t kLeft = MixTree(kDraw + 1), kRight = MixTree(kDraw + 2);
  constexpr int kNode = kDepth == 0 ? static_cast<int>(kDraw % 3)
                        : kLeaf > 0 ? 3 + static_cast<int>(kDraw % 23)
                                    : static_cast<int>(kDraw % 26);
  if constexpr (kNode == 0) {
    const auto block = context->Block();
    return Tree{block, context->Reads(block.dptr_, kTreeSide, 1)};
  } else if constexpr (kNode == 1) {
    const auto block = context->Block();
    return Tree{block.T(), context->Reads(block.dptr_, 1, kTreeSide)};
  } else if constexpr (kNode == 2) {
    const auto view = context->Stepped();
    return Tree{static_cast<const expr::ViewExp<cpu, 2, T>&>(view),
                context->Reads(view.dptr_, view.row_step_, view.column_step_)};
  } else if constexpr (kNode < 14) {  // two operands, of which one is a step less deep at times
    const auto a = BuildTree<kLeft, kDepth - 1, T, kLeaf - 1>(context);
    const auto b = BuildTree<kRight, std::max(kDepth - 2, 0), T, 0>(context);
    if constexpr (kNode < 5) {
      return Binary(
          a, b, [](auto p, auto q) { return p + q; }, [](double p, double q) { return p + q; });
    } else if constexpr (kNode == 5) {
      return Binary(
          a, b, [](auto p, auto q) { return p - q; }, [](double p, double q) { return p - q; });
    } else if constexpr (kNode == 6) {
      return Binary(
          Held(a), Held(b), [](auto p, auto q) { return p * q; },
          [](double p, double q) { return p * q; });
    } else if constexpr (kNode == 7) {
      return Binary(
          a, b, [](auto p, auto q) { return max(p, q); },
          [](double p, double q) { return std::max(p, q); });
    } else if constexpr (kNode == 8) {
      return Binary(
          a, b, [](auto p, auto q) { return min(p, q); },
          [](double p, double q) { return std::min(p, q); });
    } else if constexpr (kNode == 9) {
      return Binary(
          a, b, [](auto p, auto q) { return p < q; }, [](double p, double q) { return p < q; });
    } else if constexpr (kNode == 10) {
      return Binary(
          a, b, [](auto p, auto q) { return p == q; }, [](double p, double q) { return p == q; });
    } else if constexpr (kNode == 11) {
      return Binary(
          a, b, [](auto p, auto q) { return blend(p, q, 2); },
          [](double p, double q) { return p != 0 ? q : 2; });
    } else if constexpr (kNode == 12) {
      return Binary(
          a, b, [](auto p, auto q) { return blend(p >= q, p, q); },
          [](double p, double q) { return p >= q ? p : q; });
    } else {
      return Binary(
          a, b, [](auto p, auto q) { return p != q; }, [](double p, double q) { return p != q; });
    }
  } else {
    const auto a = BuildTree<kLeft, kDepth - 1, T, kLeaf - 1>(context);
    const auto f = a.oracle;
    const index_t extent = context->extent;
    if constexpr (kNode == 14) {
      return Unary(
          a, [](auto p) { return abs(p); }, [](double p) { return std::fabs(p); });
    } else if constexpr (kNode == 15) {
      return Unary(
          a, [](auto p) { return -p; }, [](double p) { return -p; });
    } else if constexpr (kNode == 16) {
      return Unary(
          a, [](auto p) { return relu(p) + 1; }, [](double p) { return std::max(p, 0.0) + 1; });
    } else if constexpr (kNode == 17) {
      return Unary(
          a, [](auto p) { return sign(p); }, [](double p) { return (p > 0) - (p < 0); });
    } else if constexpr (kNode == 18) {
      const index_t number = context->Draw(-3, 3);
      return Unary(
          a, [number](auto p) { return clamp(p, -2, 5) * number; },
          [number](double p) { return std::clamp(p, -2.0, 5.0) * static_cast<double>(number); });
    } else if constexpr (kNode == 19) {
      return Unary(
          a, [](auto p) { return floor(p * 0.5) + 3; },
          [](double p) { return std::floor(p * 0.5) + 3; });
    } else if constexpr (kNode == 20) {
      return Unary(
          a, [](auto p) { return tcast<T>(tcast<int32_t>(p)); }, [](double p) { return p; });
    } else if constexpr (kNode == 21) {  // a number in the place of a matrix
      const auto held = Held(a);
      const auto g = held.oracle;
      const double total = OverBlock(g, extent, 0, [](double p, double q) { return p + q; });
      const double held_total = std::clamp(total, -20.0, 20.0);
      return Tree{
          a.e - clamp(sum(held.e), -20, 20),
          TreeOracle([f, held_total](index_t y, index_t x) { return f(y, x) - held_total; })};
    } else if constexpr (kNode == 22) {
      const double largest =
          OverBlock(f, extent, -1e300, [](double p, double q) { return std::max(p, q); });
      return Tree{maximum(a.e) - a.e,
                  TreeOracle([f, largest](index_t y, index_t x) { return largest - f(y, x); })};
    } else if constexpr (kNode == 23) {
      std::vector<double> least(static_cast<size_t>(extent), 1e300);
      for (index_t y = 0; y < extent; ++y) {
        for (index_t x = 0; x < extent; ++x) {
          double& row = least[static_cast<size_t>(y)];
          row = std::min(row, f(y, x));
        }
      }
      return Tree{a.e - minimum<1>(a.e).spread(), TreeOracle([f, least](index_t y, index_t x) {
                    return f(y, x) - least[static_cast<size_t>(y)];
                  })};
    } else if constexpr (kNode == 24) {
      const auto held = Held(a);
      std::vector<double> totals(static_cast<size_t>(extent), 0.0);
      for (index_t y = 0; y < extent; ++y) {
        for (index_t x = 0; x < extent; ++x) {
          totals[static_cast<size_t>(x)] += held.oracle(y, x);
        }
      }
      return Tree{clamp(sum<0>(held.e).spread(), -30, 30), TreeOracle([totals](index_t, index_t x) {
                    return std::clamp(totals[static_cast<size_t>(x)], -30.0, 30.0);
                  })};
    } else {
      const auto block = context->Block();
      const index_t row = context->Draw(0, extent - 1);
      const auto g = context->Reads(block.dptr_ + row * kTreeSide, kTreeSide, 1);
      return Tree{a.e + repmat(block[row], extent),
                  TreeOracle([f, g](index_t y, index_t x) { return f(y, x) + g(0, x); })};
    }
  }
}

/// Assigns the tree of kSeed to a part of the memory that its leaves lie in too, with one of =, +=
/// and -=, and expects the oracle's values there and the old ones everywhere else.
template <uint64_t kSeed, int kDepth, typename T>
void ExpectTree(uint64_t run_seed) {
  TreeContext<T> context(run_seed);
  const auto tree = BuildTree<kSeed, kDepth, T>(&context);
  std::vector<double> expected = context.before;
  constexpr int kSave = static_cast<int>(MixTree(kSeed + 3) % 3);
  const auto expect = [&](index_t offset, index_t row_step, index_t column_step) {
    for (index_t y = 0; y < context.extent; ++y) {
      for (index_t x = 0; x < context.extent; ++x) {
        double& value = expected[static_cast<size_t>(offset + y * row_step + x * column_step)];
        const double result = tree.oracle(y, x);
        value = kSave == 0 ? result : kSave == 1 ? value + result : value - result;
      }
    }
  };
  const auto assign = [&](auto& dst) {
    if constexpr (kSave == 0) dst = F<op::identity>(tree.e);  // of two tensors, = copies the handle
    if constexpr (kSave == 1) dst += tree.e;
    if constexpr (kSave == 2) dst -= tree.e;
  };
  if (context.Draw(0, 1) == 0) {
    auto dst = context.Block();
    expect(dst.dptr_ - context.memory.data(), kTreeSide, 1);
    assign(dst);
  } else {
    const auto dst = context.Stepped();
    expect(dst.dptr_ - context.memory.data(), dst.row_step_, dst.column_step_);
    assign(dst);
  }
  for (size_t i = 0; i < expected.size(); ++i) {
    ASSERT_EQ(static_cast<double>(context.memory[i]), expected[i])
        << "tree " << kSeed << ", run seed " << run_seed << ", extent " << context.extent
        << ", element " << i;
  }
}

/// How many trees two tests try between them: TESSERA_TEST_TREES, or 1,000.
inline uint64_t TreeCount() {
  const char* text = std::getenv("TESSERA_TEST_TREES");
  return text != nullptr ? std::strtoull(text, nullptr, 10) : 1000;
}

/// Runs the kinds of trees kFirst + i in turn until there were `count`.
template <typename T, int kDepth, uint64_t kFirst, uint64_t... i>
void ExpectTrees(uint64_t count, std::integer_sequence<uint64_t, i...>) {
  for (uint64_t run = 0; run * sizeof...(i) < count; ++run) {
    (ExpectTree<kFirst + i, kDepth, T>(TestSeed() + run * 1000003 + i), ...);
    if (testing::Test::HasFatalFailure()) return;
  }
}

}  // namespace tessera

#endif  // TESSERA_TENSOR_RANDOM_TREE_H_
