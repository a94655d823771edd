#include "tessera/tests/random_graphs/random_graph.h"

#include <random>
#include <sstream>

namespace tessera {
namespace {

/// Returns numbers that follow from a graph's seed, their purpose and their position.
std::vector<double> Numbers(uint64_t seed, uint64_t purpose, size_t position, index_t count,
                            double low, double high, bool integers = false) {
  std::seed_seq sequence{seed, seed >> 32, purpose, static_cast<uint64_t>(position)};
  std::mt19937 random(sequence);
  std::vector<double> numbers(static_cast<size_t>(count));
  for (double& number : numbers) {
    const double unit = static_cast<double>(random()) / 4294967296.0;
    number = low + (high - low) * unit;
    if (integers) number = static_cast<double>(static_cast<int64_t>(number));
    // A float holds it too, so that arrays of both types start from the same numbers.
    number = static_cast<double>(static_cast<float>(number));
  }
  return numbers;
}

}  // namespace

std::vector<double> RandomGraph::Contents(size_t i) const {
  const Input& input = inputs[i];
  return Numbers(seed, 1, i, input.shape.Size(), input.low, input.high, input.role == Role::kIndex);
}

std::vector<double> RandomGraph::HeadGradient(size_t i) const {
  return Numbers(seed, 2, i, shapes[static_cast<size_t>(heads[i])].Size(), -1, 1);
}

std::vector<double> RandomGraph::OldGradient(size_t i) const {
  return Numbers(seed, 3, i, inputs[i].shape.Size(), -1, 1);
}

Symbol RandomGraph::ToSymbol() const {
  std::vector<Symbol> values;
  for (const Input& input : inputs) values.push_back(Symbol::Variable(input.name));
  for (const Node& node : nodes) {
    std::vector<Symbol> read;
    for (const int value : node.inputs) read.push_back(values[static_cast<size_t>(value)]);
    const Symbol call = Symbol::Apply(node.op, read, node.parameters, node.name);
    for (int i = 0; i < node.num_outputs; ++i) {
      values.push_back(i < node.num_visible ? call[i] : Symbol());
    }
  }
  std::vector<Symbol> outputs;
  for (const int head : heads) outputs.push_back(values[static_cast<size_t>(head)]);
  return Symbol::CreateGroup(outputs);
}

std::string RandomGraph::ToString() const {
  static constexpr const char* kRoles[] = {"argument", "index", "state"};
  static constexpr const char* kRequests[] = {"null", "write", "write in place", "add"};
  std::ostringstream text;
  text << "graph " << seed << " of " << dtype << "\n";
  for (size_t i = 0; i < inputs.size(); ++i) {
    text << "  %" << i << " = " << kRoles[static_cast<int>(inputs[i].role)] << " " << inputs[i].name
         << inputs[i].shape << ", gradient: " << kRequests[static_cast<int>(inputs[i].request)]
         << "\n";
  }
  for (const Node& node : nodes) {
    text << "  ";
    for (int i = 0; i < node.num_outputs; ++i) {
      const int value = node.first_output + i;
      text << (i > 0 ? ", %" : "%") << value << shapes[static_cast<size_t>(value)];
    }
    text << " = " << node.op << "(";
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      text << (i > 0 ? ", %" : "%") << node.inputs[i];
    }
    for (const auto& [name, value] : node.parameters) text << ", " << name << "=" << value;
    text << ")  # " << node.name << "\n";
  }
  text << "  heads:";
  for (const int head : heads) text << " %" << head;
  text << "\n";
  return text.str();
}

}  // namespace tessera
