#ifndef TESSERA_TENSOR_TESTING_RANDOM_TREE_H_
#define TESSERA_TENSOR_TESTING_RANDOM_TREE_H_

#include <algorithm>
#include <bit>
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
#include "tessera/tensor/dense/dense.h"
#include "tessera/tensor/dense/view.h"
#include "tessera/tensor/expr/elementwise.h"
#include "tessera/tensor/functors/functor_packets.h"
#include "tessera/tensor/functors/functors.h"
#include "tessera/tensor/linalg/dot.h"
#include "tessera/tensor/packet/packet_math.h"
#include "tessera/tensor/reduce/reductions.h"
#include "tessera/tensor/shape/broadcast.h"
#include "tessera/tensor/shape/concat.h"
#include "tessera/tensor/shape/reshape.h"
#include "tessera/tensor/shape/slice.h"
#include "tessera/tensor/shape/transpose.h"
#include "tessera/tensor/testing/test_values.h"

/// Random expressions, tested against an interpreter. The kind of a tree (its nodes and their
/// positions) is drawn at compile time from a template argument. The extent and the leaves are
/// drawn at run time: their parts of a common memory, which decide the overlaps, and their numbers.
/// All values are small integers and every operation on them is exact, so results must be equal.
/// The loss of a part by a reduction must be visible. Sums are therefore taken as residues, which
/// no bound hides, and the largest and the smallest element are rare.
namespace tessera {

/// The extents of expressions, which are square matrices so that a transpose fits anywhere. They
/// are close to the sizes of packets. The last one is large enough for more than one thread.
inline constexpr index_t kTreeExtents[] = {1, 2, 3, 5, 7, 8, 9, 15, 16, 17, 33, 190};

/// The expected values of a tree, as a function of row and column. It reads a copy of the memory
/// from before the assignment.
using TreeOracle = std::function<double(index_t y, index_t x)>;

template <typename T>
class TreeContext {
 public:
  std::mt19937_64 generator;
  index_t extent;
  index_t side;   // operands and destination are in memory of side by side elements
  index_t pitch;  // elements between rows of a block: side, or extent for blocks without padding
  std::vector<T> memory;
  std::vector<double> before;

  /// Constructs a context with `given_extent`, or with a random extent if that is 0.
  explicit TreeContext(uint64_t seed, index_t given_extent = 0)
      : generator(seed),
        extent(given_extent > 0 ? given_extent
                                : kTreeExtents[Draw(0, std::ssize(kTreeExtents) - 1)]),
        side(std::max<index_t>(72, 2 * extent + 24)),
        pitch(Draw(0, 3) == 0 ? extent : side),
        memory(static_cast<size_t>(side * side)) {
    for (T& value : memory) value = static_cast<T>(DrawValue());
    before.assign(memory.begin(), memory.end());
  }
  index_t Draw(index_t low, index_t high) {
    return std::uniform_int_distribution<index_t>(low, high)(generator);
  }
  /// Returns a divisor of extent * extent, other than extent if there is one.
  index_t DrawDivisor() {
    std::vector<index_t> divisors;
    for (index_t d = 1; d <= extent * extent; ++d) {
      if (extent * extent % d == 0 && d != extent) divisors.push_back(d);
    }
    return divisors.empty() ? extent
                            : divisors[static_cast<size_t>(Draw(0, std::ssize(divisors) - 1))];
  }
  Tensor<cpu, 2, T> Block() {
    // There are few positions, so that they repeat, and two regions, so that some blocks do not
    // overlap.
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
  /// Returns a view of `extent` rows and columns with steps of 1, 2, -1 or -2. Sometimes it is the
  /// previous view, or its reverse.
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
  /// Returns one of -4, …, 4 plus a tail, whose values are each half as frequent as the one before.
  /// Few elements of a row, a column or a matrix are then the largest or the smallest.
  index_t DrawValue() {
    const uint64_t bits = generator();
    const index_t tail = std::countr_zero(bits | uint64_t{1} << 20);
    return static_cast<index_t>((bits >> 21) % 9) - 4 + (bits >> 63 == 0 ? tail : -tail);
  }
  Range Forwards() {
    const index_t step = Draw(1, 2);
    // Views begin close to the blocks, so that the two often overlap.
    const index_t begin = Draw(0, std::min<index_t>(15, side - (extent - 1) * step - 1));
    return {begin, begin + (extent - 1) * step + 1, step};
  }

  Range rows_ = {0, 0}, columns_ = {0, 0};  // of the previous view with steps
};

/// Returns a well-mixed number at compile time (the finalizer of splitmix64; Steele, Lea and Flood,
/// Fast Splittable Pseudorandom Number Generators, 2014).
constexpr uint64_t MixTree(uint64_t z) {
  z += 0x9e3779b97f4a7c15u;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

/// An expression with its expected values.
template <typename E>
struct Tree {
  E e;
  TreeOracle oracle;
};
template <typename E>
Tree(E, TreeOracle) -> Tree<E>;

/// Computes the residue modulo 31 in -15, …, 15. Nearly every change of a number shows in the
/// residue, where a bound would hide it. The modulus is odd, so that the loss of 2^k equal elements
/// shows too; a packet or a tile has that many. The result is exact for integers below 2^22, which
/// no tree's sum exceeds: a + 15.5 is a float, and its quotient is at least 0.5 / 31 away from any
/// integer and is rounded by less than that.
struct Residue {
  static constexpr double kModulus = 31;

  template <typename T>
  TESSERA_HD static T Map(T a) {
    constexpr T kDivisor = static_cast<T>(kModulus);
    return a - kDivisor * op::floor::Map((a + kDivisor / 2) / kDivisor);
  }
  template <RealPacket P>
  TESSERA_HD static P PacketMap(const P& a) {
    const P divisor = tensor_internal::packet_math::Set<P>(kModulus);
    const P quotient =
        pk::pdiv(pk::padd(a, tensor_internal::packet_math::Set<P>(kModulus / 2)), divisor);
    return pk::psub(a, pk::pmul(divisor, op::floor::PacketMap(quotient)));
  }
};

/// Computes the residue by division of integers, whose remainders have the dividend's sign.
inline double ResidueOracle(double a) {
  const int64_t rest = static_cast<int64_t>(a) % 31;
  return static_cast<double>(rest > 15 ? rest - 31 : rest < -15 ? rest + 31 : rest);
}

/// Returns the tree's residues, which keep products exact in float at any depth.
template <typename E>
auto Held(const Tree<E>& a) {
  const auto f = a.oracle;
  return Tree{F<Residue>(a.e),
              TreeOracle([f](index_t y, index_t x) { return ResidueOracle(f(y, x)); })};
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

/// Returns the residues of a matrix product's elements.
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
    return ResidueOracle(product[static_cast<size_t>(y * extent + x)]);
  };
}

/// The number that determines a tree: a seed, with the tree's maximum depth and minimum depth.
struct TreeDraw {
  uint64_t seed;
  int depth;
  int leaf;

  /// Returns the kind of the root node. Kinds below 3 have no operand, and kinds from 3 to 15 have
  /// two.
  constexpr int Node() const {
    const uint64_t draw = MixTree(seed);
    if (depth == 0) return static_cast<int>(draw % 3);
    return static_cast<int>(leaf > 0 ? 3 + draw % 29 : draw % 32);
  }
  constexpr TreeDraw Left() const { return {MixTree(MixTree(seed) + 1), depth - 1, leaf - 1}; }
  /// Returns the draw of the right operand, which is sometimes one level less deep.
  constexpr TreeDraw Right() const {
    return {MixTree(MixTree(seed) + 2), std::max(depth - 2, 0), 0};
  }
  /// Returns the kinds of nodes in the tree; bit i represents kind i.
  constexpr uint32_t Nodes() const {
    const int node = Node();
    return uint32_t{1} << node | (node < 3 ? 0 : Left().Nodes()) |
           (node < 3 || node >= 16 ? 0 : Right().Nodes());
  }
};

/// The value of TreeDraw's Nodes() with every kind.
inline constexpr uint32_t kEveryNode = 0xffffffff;

/// Adds a leaf to the tree unless kDepth is 0. The extremes of residues or comparisons are
/// frequent, and those of a leaf are rare.
template <int kDepth, typename T, typename E>
auto WithRareExtremes(const Tree<E>& a, TreeContext<T>* context) {
  if constexpr (kDepth == 0) {
    return a;
  } else {
    const auto block = context->Block();
    return Binary(
        a, Tree{block, context->Reads(block.dptr_, block.stride_, 1)},
        [](auto p, auto q) { return p + q; }, [](double p, double q) { return p + q; });
  }
}

/// Returns the tree that kDraw determines; `context` draws the leaves.
template <TreeDraw kDraw, typename T>
auto BuildTree(TreeContext<T>* context) {
  constexpr TreeDraw kLeft = kDraw.Left(), kRight = kDraw.Right();
  constexpr int kNode = kDraw.Node();
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
  } else if constexpr (kNode < 16) {
    const auto a = BuildTree<kLeft>(context);
    const auto b = BuildTree<kRight>(context);
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
      return Tree{F<Residue>(dot(left.e, right.e)),
                  ProductOracle(left.oracle, right.oracle, context->extent)};
    } else {  // the rows of one operand above those of the other
      const index_t rows = context->Draw(0, context->extent);
      const auto f = a.oracle, g = b.oracle;
      return Tree{
          concat<0>(slice<0>(a.e, 0, rows), slice<0>(b.e, rows, context->extent)),
          TreeOracle([f, g, rows](index_t y, index_t x) { return y < rows ? f(y, x) : g(y, x); })};
    }
  } else {
    const auto a = BuildTree<kLeft>(context);
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
    } else if constexpr (kNode == 23) {  // a number in place of a matrix
      const auto held = Held(a);
      const auto g = held.oracle;
      const double total = OverBlock(g, extent, 0, [](double p, double q) { return p + q; });
      const double residue = ResidueOracle(total);
      return Tree{a.e - F<Residue>(sum(held.e)),
                  TreeOracle([f, residue](index_t y, index_t x) { return f(y, x) - residue; })};
    } else if constexpr (kNode == 24) {
      const auto rare = WithRareExtremes<kLeft.depth>(a, context);
      const double largest =
          OverBlock(rare.oracle, extent, -1e300, [](double p, double q) { return std::max(p, q); });
      return Tree{maximum(rare.e) - a.e,
                  TreeOracle([f, largest](index_t y, index_t x) { return largest - f(y, x); })};
    } else if constexpr (kNode == 25) {
      const auto rare = WithRareExtremes<kLeft.depth>(a, context);
      std::vector<double> least(static_cast<size_t>(extent), 1e300);
      for (index_t y = 0; y < extent; ++y) {
        for (index_t x = 0; x < extent; ++x) {
          double& row = least[static_cast<size_t>(y)];
          row = std::min(row, rare.oracle(y, x));
        }
      }
      return Tree{a.e - minimum<1>(rare.e).spread(), TreeOracle([f, least](index_t y, index_t x) {
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
      return Tree{F<Residue>(sum<0>(held.e).spread()), TreeOracle([totals](index_t, index_t x) {
                    return ResidueOracle(totals[static_cast<size_t>(x)]);
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
    } else {  // the same elements in rows of another length, each reversed
      const index_t columns = context->DrawDivisor();
      const index_t rows = extent * extent / columns;
      return Tree{reshape(flip(reshape(a.e, Shape2(rows, columns)), 1), Shape2(extent, extent)),
                  TreeOracle([f, columns, extent](index_t y, index_t x) {
                    const index_t place = y * extent + x;
                    const index_t other = place - place % columns + columns - 1 - place % columns;
                    return f(other / extent, other % extent);
                  })};
    }
  }
}

/// Assigns the tree of kDraw, with one of =, +=, -= and *=, to a part of the memory that also
/// contains its leaves. Expects the expected values there and the old values elsewhere.
template <TreeDraw kDraw, typename T>
void ExpectTree(uint64_t run_seed) {
  TreeContext<T> context(run_seed);
  const auto tree = BuildTree<kDraw>(&context);
  std::vector<double> expected = context.before;
  constexpr int kSave = static_cast<int>(MixTree(kDraw.seed + 3) % 4);
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
        << "tree " << kDraw.seed << ", run seed " << run_seed << ", extent " << context.extent
        << ", element " << i;
  }
}

/// Returns the number of trees that two tests try together: TESSERA_TEST_TREES, or else 400.
inline uint64_t TreeCount() {
  const char* text = std::getenv("TESSERA_TEST_TREES");
  return text != nullptr ? std::strtoull(text, nullptr, 10) : 400;
}

/// Returns the draw of tree i. A deep tree nearly always has a leaf that needs a temporary, which
/// hides that another leaf has failed to ask for one. One tree in six is therefore only a leaf, and
/// another has one node.
constexpr TreeDraw KindOfTree(uint64_t first, uint64_t i, int depth) {
  const int given = i % 6 == 4 ? 0 : i % 6 == 1 ? 1 : depth;
  return {first + i, given, given - 3};
}

/// Runs the trees kFirst + i in turn until `count` trees have run.
template <typename T, int kDepth, uint64_t kFirst, uint64_t... i>
void ExpectTrees(uint64_t count, std::integer_sequence<uint64_t, i...>) {
  for (uint64_t run = 0; run * sizeof...(i) < count; ++run) {
    (ExpectTree<KindOfTree(kFirst, i, kDepth), T>(TestSeed() + run * 1000003 + i), ...);
    if (testing::Test::HasFatalFailure()) return;
  }
}

}  // namespace tessera

#endif  // TESSERA_TENSOR_TESTING_RANDOM_TREE_H_
