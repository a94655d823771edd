#ifndef TESSERA_TESTS_RANDOM_GRAPHS_GROWING_GRAPH_H_
#define TESSERA_TESTS_RANDOM_GRAPHS_GROWING_GRAPH_H_

#include <initializer_list>
#include <map>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "tessera/tests/random_graphs/random_graph.h"

namespace tessera {

/// A random graph that grows: random choices, values to read, and nodes that are added.
class GrowingGraph {
 public:
  explicit GrowingGraph(uint64_t seed) : random_(seed) { graph_.seed = seed; }

 protected:
  /// Return a random integer in [low, high], a number in [low, high), one of a list, and true with
  /// a probability.
  index_t Between(index_t low, index_t high);
  double Number(double low, double high);
  template <typename T>
  T OneOf(std::initializer_list<T> all) {
    return all.begin()[Between(0, static_cast<index_t>(all.size()) - 1)];
  }
  bool Chance(double probability);
  TShape AnyShape();

  const TShape& ShapeOf(int value) const { return graph_.shapes[static_cast<size_t>(value)]; }
  /// Returns a bound of the value's elements.
  double BoundOf(int value) const { return bounds_[static_cast<size_t>(value)]; }

  /// Returns a value to read: mostly one of the latest, so that graphs become deep.
  int AnyValue();
  /// Returns a value of a rank in [low, high], or -1.
  int ValueOfRank(int low, int high);
  /// Returns a value of a shape: another one, the same one again, or a new input.
  int ValueLike(const TShape& shape);

  /// Adds an input with values in [low, high).
  int NewInput(const TShape& shape, double low = -1, double high = 1,
               RandomGraph::Role role = RandomGraph::Role::kArgument);
  /// Adds a parameter, which other operators seldom read.
  int NewParameter(const TShape& shape, double low, double high);
  /// Adds a node with results within `bound` and returns its outputs' first value, or returns -1 if
  /// an output would be too large.
  int AddNode(const std::string& op, std::vector<int> inputs, double bound,
              ParameterMap parameters = {});
  /// Adds a node whose function has a kink.
  int AddKinked(const std::string& op, std::vector<int> inputs, double bound,
                ParameterMap parameters = {});

  /// Makes heads of the values that nobody reads, and of few others.
  void ChooseHeads();
  /// Returns the part of the graph that the heads need, numbered anew.
  RandomGraph Compact() const;

  std::mt19937_64 random_;
  RandomGraph graph_;
  std::vector<int> values_;                ///< those that nodes may read
  std::set<int> blocked_, no_derivative_;  ///< nodes by first output: no gradient, an unusual one

 private:
  int NewValue(const TShape& shape, double bound);
  std::vector<bool> Differentiable() const;
  std::vector<const RandomGraph::Node*> NodesOfHeads(std::vector<int>* inputs) const;

  std::vector<double> bounds_;      // of the absolute values, by value
  std::map<int, size_t> input_of_;  // by value
  std::set<int> kinked_;            // nodes by first output
};

}  // namespace tessera

#endif  // TESSERA_TESTS_RANDOM_GRAPHS_GROWING_GRAPH_H_
