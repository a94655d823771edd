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
#include "tessera/tensor/concat.h"
#include "tessera/tensor/dense.h"
#include "tessera/tensor/dot.h"
#include "tessera/tensor/elementwise.h"
#include "tessera/tensor/reductions.h"
#include "tessera/tensor/reshape.h"
#include "tessera/tensor/slice.h"
#include "tessera/tensor/spread.h"
#include "tessera/tensor/test_values.h"
#include "tessera/tensor/transpose.h"
#include "tessera/tensor/view.h"

/// Random expressions against an interpreter. The kind of a tree (which nodes, in which places) is
/// drawn at compile time, from the number that a template is given; the extent and what the leaves
/// are (which part of a common memory, and hence which overlaps there are, which numbers) are drawn
/// at run time.
/// All values are small whole numbers and every operation on them is exact, so that results must be
/// equal.
namespace tessera {

/// Every expression is a matrix of as many rows as columns, so that a transpose fits anywhere: of
/// one of these numbers, which lie around the packets' widths. The last one's elements are work for
/// more than one thread.
inline constexpr index_t kTreeExtents[] = {1, 2, 3, 5, 7, 8, 9, 15, 16, 17, 33, 190};

/// What a tree should give: a function of row and column that looks at a copy of the memory as it
/// was before the assignment.
using TreeOracle = std::function<double(index_t y, index_t x)>;

template <typename T>
class TreeContext {
 public:
  std::mt19937_64 generator;
  index_t extent;
  index_t side;   // operands and destination lie in memory of side by side elements
  index_t pitch;  // from one row of a block to the next: side, or none are left out
  std::vector<T> memory;
  std::vector<double> before;

  explicit TreeContext(uint64_t seed)
      : generator(seed),
        extent(kTreeExtents[Draw(0, std::ssize(kTreeExtents) - 1)]),
        side(std::max<index_t>(72, 2 * extent + 24)),
        pitch(Draw(0, 3) == 0 ? extent : side),
        memory(static_cast<size_t>(side * side)) {
    for (T& value : memory) value = static_cast<T>(Draw(-4, 4));
    before.assign(memory.begin(), memory.end());
  }
  index_t Draw(index_t low, index_t high) {
    return std::uniform_int_distribution<index_t>(low, high)(generator);
  }
  Tensor<cpu, 2, T> Block() {
    // Few places, so that the same ones come again, and two regions, so that not all overlap.
    const index_t y = Draw(0, 2) * Draw(0, 5) + Draw(0, 1) * (extent + 10);
    const index_t x = Draw(0, 2) * Draw(0, 5);
    return {memory.data() + y * pitch + x, Shape2(extent, extent), pitch, nullptr};
  }
  TreeOracle Reads(const T* first, index_t row_step, index_t column_step) {
    const index_t offset = first - memory.data();
    return [this, offset, row_step, column_step](index_t y, index_t x) {
      return before[static_cast<size_t>(offset + y * row_step + x * column_step)];
    };
  }
  /// A view of `extent` rows and columns with steps of 1, 2, -1 or -2. At times it is the one
  /// before again, or that one turned around.
  TensorView<cpu, 2, T> Stepped() {
    if (rows_.count() == 0 || Draw(0, 1) == 0) {
      rows_ = Forwards();
      columns_ = Forwards();
    }
    const auto turned = [this](const Range& range) {
      if (Draw(0, 1) == 0) return range;
      return Range(range.end - 1, range.begin - 1, -range.step);
    };
    const Tensor<cpu, 2, T> all(memory.data(), Shape2(side, side));
    const Range y = turned(rows_), x = turned(columns_);
    return View(all, y, x);
  }

 private:
  Range Forwards() {
    const index_t step = Draw(1, 2);
    // Near the blocks, so that the two often overlap.
    const index_t begin = Draw(0, std::min<index_t>(15, side - (extent - 1) * step - 1));
    return {begin, begin + (extent - 1) * step + 1, step};
  }

  Range rows_ = {0, 0}, columns_ = {0, 0};  // of the last view with steps
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

/// The elements of a matrix product, held between -30 and 30.
inline TreeOracle ProductOracle(const TreeOracle& f, const TreeOracle& g, index_t extent) {
  std::vector<double> left, product(static_cast<size_t>(extent * extent), 0.0);
  OverBlock(f, extent, 0, [&left](double, double p) { return left.emplace_back(p); });
  for (index_t k = 0; k < extent; ++k) {
    for (index_t x = 0; x < extent; ++x) {
      const double element = g(k, x);
      for (index_t y = 0; y < extent; ++y) {
        product[static_cast<size_t>(y * extent + x)] +=
            left[static_cast<size_t>(y * extent + k)] * element;
      }
    }
  }
  return [product, extent](index_t y, index_t x) {
    return std::clamp(product[static_cast<size_t>(y * extent + x)], -30.0, 30.0);
  };
}

/// Builds the tree that kSeed stands for, of depth at most kDepth, and at least 3 less.
template <uint64_t kSeed, int kDepth, typename T, int kLeaf = kDepth - 3>
auto BuildTree(TreeContext<T>* context) {
  constexpr uint64_t kDraw = MixTree(kSeed);
  constexpr uint64_t kLeft = MixTree(kDraw + 1), kRight = MixTree(kDraw + 2);
  constexpr int kNode = kDepth == 0 ? static_cast<int>(kDraw % 3)
                        : kLeaf > 0 ? 3 + static_cast<int>(kDraw % 29)
                                    : static_cast<int>(kDraw % 32);
  if constexpr (kNode == 0) {
    const auto block = context->Block();
    return Tree{block, context->Reads(block.dptr_, block.stride_, 1)};
  } else if constexpr (kNode == 1) {
    const auto block = context->Block();
    return Tree{block.T(), context->Reads(block.dptr_, 1, block.stride_)};
  } else if constexpr (kNode == 2) {
    const auto view = context->Stepped();
    return Tree{static_cast<const expr::ViewExp<cpu, 2, T>&>(view),
                context->Reads(view.dptr_, view.row_step_, view.column_step_)};
  } else if constexpr (kNode < 16) {  // two operands, of which one is a step less deep at times
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
    } else if constexpr (kNode == 13) {
      return Binary(
          a, b, [](auto p, auto q) { return p != q; }, [](double p, double q) { return p != q; });
    } else if constexpr (kNode == 14) {
      const auto left = Held(a);
      const auto right = Held(b);
      return Tree{clamp(dot(left.e, right.e), -30, 30),
                  ProductOracle(left.oracle, right.oracle, context->extent)};
    } else {  // the rows of one above those of the other
      const index_t rows = context->Draw(0, context->extent);
      const auto f = a.oracle, g = b.oracle;
      return Tree{
          concat<0>(slice<0>(a.e, 0, rows), slice<0>(b.e, rows, context->extent)),
          TreeOracle([f, g, rows](index_t y, index_t x) { return y < rows ? f(y, x) : g(y, x); })};
    }
  } else {
    const auto a = BuildTree<kLeft, kDepth - 1, T, kLeaf - 1>(context);
    const auto f = a.oracle;
    const index_t extent = context->extent;
    if constexpr (kNode == 16) {
      return Unary(
          a, [](auto p) { return abs(p); }, [](double p) { return std::fabs(p); });
    } else if constexpr (kNode == 17) {
      return Unary(
          a, [](auto p) { return -p; }, [](double p) { return -p; });
    } else if constexpr (kNode == 18) {
      return Unary(
          a, [](auto p) { return relu(p) + 1; }, [](double p) { return std::max(p, 0.0) + 1; });
    } else if constexpr (kNode == 19) {
      return Unary(
          a, [](auto p) { return sign(p); }, [](double p) { return (p > 0) - (p < 0); });
    } else if constexpr (kNode == 20) {
      const index_t number = context->Draw(-3, 3);
      return Unary(
          a, [number](auto p) { return clamp(p, -2, 5) * number; },
          [number](double p) { return std::clamp(p, -2.0, 5.0) * static_cast<double>(number); });
    } else if constexpr (kNode == 21) {
      return Unary(
          a, [](auto p) { return floor(p * 0.5) + 3; },
          [](double p) { return std::floor(p * 0.5) + 3; });
    } else if constexpr (kNode == 22) {
      return Unary(
          a, [](auto p) { return tcast<T>(tcast<int32_t>(p)); }, [](double p) { return p; });
    } else if constexpr (kNode == 23) {  // a number in the place of a matrix
      const auto held = Held(a);
      const auto g = held.oracle;
      const double total = OverBlock(g, extent, 0, [](double p, double q) { return p + q; });
      const double held_total = std::clamp(total, -20.0, 20.0);
      return Tree{
          a.e - clamp(sum(held.e), -20, 20),
          TreeOracle([f, held_total](index_t y, index_t x) { return f(y, x) - held_total; })};
    } else if constexpr (kNode == 24) {
      const double largest =
          OverBlock(f, extent, -1e300, [](double p, double q) { return std::max(p, q); });
      return Tree{maximum(a.e) - a.e,
                  TreeOracle([f, largest](index_t y, index_t x) { return largest - f(y, x); })};
    } else if constexpr (kNode == 25) {
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
    } else if constexpr (kNode == 26) {
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
    } else if constexpr (kNode == 27) {
      const auto block = context->Block();
      const index_t row = context->Draw(0, extent - 1);
      const auto g = context->Reads(block[row].dptr_, 0, 1);
      return Tree{a.e + repmat(block[row], extent),
                  TreeOracle([f, g](index_t y, index_t x) { return f(y, x) + g(0, x); })};
    } else if constexpr (kNode == 28) {
      const auto view = context->Stepped();
      const index_t column = context->Draw(0, extent - 1);
      const auto g = context->Reads(view.dptr_ + column * view.column_step_, view.row_step_, 0);
      const auto vector = expr::ViewExp<cpu, 1, T>(view.dptr_ + column * view.column_step_,
                                                   Shape1(extent), 0, view.row_step_, nullptr);
      return Tree{a.e - spread<1>(vector, extent),
                  TreeOracle([f, g](index_t y, index_t x) { return f(y, x) - g(y, 0); })};
    } else if constexpr (kNode == 29) {
      const int axis = static_cast<int>(context->Draw(0, 1));
      return Tree{flip(a.e, axis), TreeOracle([f, axis, extent](index_t y, index_t x) {
                    return axis == 0 ? f(extent - 1 - y, x) : f(y, extent - 1 - x);
                  })};
    } else if constexpr (kNode == 30) {
      return Tree{swapaxis<1, 0>(a.e), TreeOracle([f](index_t y, index_t x) { return f(x, y); })};
    } else {  // the same elements, counted through as one row
      return Tree{reshape(reshape(a.e, Shape1(extent * extent)), Shape2(extent, extent)),
                  TreeOracle(f)};
    }
  }
}

/// Assigns the tree of kSeed to a part of the memory that its leaves lie in too, with one of =, +=,
/// -= and *=, and expects the oracle's values there and the old ones everywhere else.
template <uint64_t kSeed, int kDepth, typename T>
void ExpectTree(uint64_t run_seed) {
  TreeContext<T> context(run_seed);
  const auto tree = BuildTree<kSeed, kDepth, T>(&context);
  std::vector<double> expected = context.before;
  constexpr int kSave = static_cast<int>(MixTree(kSeed + 3) % 4);
  const auto expect = [&](index_t offset, index_t row_step, index_t column_step) {
    for (index_t y = 0; y < context.extent; ++y) {
      for (index_t x = 0; x < context.extent; ++x) {
        double& value = expected[static_cast<size_t>(offset + y * row_step + x * column_step)];
        const double result = tree.oracle(y, x);
        value = kSave == 0   ? result
                : kSave == 1 ? value + result
                : kSave == 2 ? value - result
                             : value * result;
      }
    }
  };
  const auto assign = [&](auto& dst) {
    if constexpr (kSave == 0) dst = F<op::identity>(tree.e);  // of two tensors, = copies the handle
    if constexpr (kSave == 1) dst += tree.e;
    if constexpr (kSave == 2) dst -= tree.e;
    if constexpr (kSave == 3) dst *= tree.e;
  };
  if (context.Draw(0, 1) == 0) {
    auto dst = context.Block();
    expect(dst.dptr_ - context.memory.data(), context.pitch, 1);
    assign(dst);
  } else {
    const auto dst = context.Stepped();
    expect(dst.dptr_ - context.memory.data(), dst.row_step_, dst.column_step_);
    assign(dst);
  }
  for (size_t i = 0; i < expected.size(); ++i) {
    if (static_cast<double>(context.memory[i]) == expected[i]) continue;
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

/// The depth of the kind of number i. Of a deep tree some leaf nearly always asks for a temporary,
/// and hides that another has failed to: one kind in six is but a leaf, and another one node.
template <uint64_t i, int kDepth>
inline constexpr int kDepthOfKind = i % 6 == 4   ? 0
                                    : i % 6 == 1 ? 1
                                                 : kDepth;

/// Runs the kinds of trees kFirst + i in turn until there were `count`.
template <typename T, int kDepth, uint64_t kFirst, uint64_t... i>
void ExpectTrees(uint64_t count, std::integer_sequence<uint64_t, i...>) {
  for (uint64_t run = 0; run * sizeof...(i) < count; ++run) {
    (ExpectTree<kFirst + i, kDepthOfKind<i, kDepth>, T>(TestSeed() + run * 1000003 + i), ...);
    if (testing::Test::HasFatalFailure()) return;
  }
}

}  // namespace tessera

#endif  // TESSERA_TENSOR_RANDOM_TREE_H_
