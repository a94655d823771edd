#include "tessera/symbol/testing/loops.h"

#include <algorithm>
#include <cstddef>

namespace tessera::symbol_testing {
namespace {

/// Returns "[1, 2]".
std::string ListText(const std::vector<size_t>& numbers) {
  std::string text = "[";
  for (const size_t number : numbers) {
    text += (text.size() > 1 ? ", " : "") + std::to_string(number);
  }
  return text + "]";
}

std::vector<std::string> NamesOf(const NamedSymbols& named) {
  std::vector<std::string> names;
  for (const auto& [name, symbol] : named) names.push_back(name);
  return names;
}

bool Contains(const std::vector<std::string>& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

/// Returns the positions of variables of these names in a graph.
std::string Locations(const Symbol& graph, const std::vector<std::string>& names) {
  const std::vector<std::string> all = graph.ListInputs();
  std::vector<size_t> found;
  for (const std::string& name : names) {
    found.push_back(static_cast<size_t>(std::find(all.begin(), all.end(), name) - all.begin()));
  }
  return ListText(found);
}

/// The graphs and inputs of a node.
class NodeInputs {
 public:
  NodeInputs(std::vector<Symbol> graphs, const NamedSymbols& given)
      : symbols_(std::move(graphs)), given_(given) {}

  /// Adds an input for each of a graph's variables that has none yet. Returns the inputs'
  /// positions.
  std::string Add(const Symbol& graph, const std::vector<std::string>& variables) {
    std::vector<size_t> positions;
    for (const std::string& name : variables) {
      const auto known = std::find(names_.begin(), names_.end(), name);
      positions.push_back(static_cast<size_t>(known - names_.begin()));
      if (known != names_.end()) continue;
      names_.push_back(name);
      const auto given = std::find_if(given_.begin(), given_.end(),
                                      [&](const auto& other) { return other.first == name; });
      symbols_.push_back(given == given_.end() ? graph.GetInputs()[name] : given->second);
    }
    return ListText(positions);
  }
  std::string Add(const Symbol& graph) { return Add(graph, graph.ListInputs()); }

  const std::vector<Symbol>& symbols() const { return symbols_; }

 private:
  std::vector<Symbol> symbols_;
  const NamedSymbols& given_;
  std::vector<std::string> names_;
};

NamedSymbols Joined(const NamedSymbols& a, const NamedSymbols& b) {
  NamedSymbols all = a;
  all.insert(all.end(), b.begin(), b.end());
  return all;
}

std::string NumResults(const Symbol& step, const NamedSymbols& states) {
  return std::to_string(step.num_outputs() - static_cast<int>(states.size()));
}

}  // namespace

Symbol Foreach(const Symbol& step, const NamedSymbols& data, const NamedSymbols& states,
               const std::string& name, const NamedSymbols& captured) {
  std::vector<std::string> others;
  const std::vector<std::string> data_names = NamesOf(data), state_names = NamesOf(states);
  for (const std::string& input : step.ListInputs()) {
    if (!Contains(data_names, input) && !Contains(state_names, input)) others.push_back(input);
  }
  const NamedSymbols given = Joined(Joined(data, states), captured);
  NodeInputs inputs({step}, given);
  inputs.Add(step, data_names);
  inputs.Add(step, state_names);
  inputs.Add(step, others);
  return Symbol::Apply("_foreach", inputs.symbols(),
                       {{"num_outputs", std::to_string(step.num_outputs())},
                        {"num_out_data", NumResults(step, states)},
                        {"in_data_locs", Locations(step, data_names)},
                        {"in_state_locs", Locations(step, state_names)},
                        {"remain_locs", Locations(step, others)}},
                       name);
}

Symbol While(const Symbol& condition, const Symbol& step, const NamedSymbols& states,
             int max_iterations, const NamedSymbols& captured) {
  const NamedSymbols given = Joined(states, captured);
  NodeInputs inputs({condition, step}, given);
  const std::string of_condition = inputs.Add(condition);
  const std::string of_step = inputs.Add(step);
  return Symbol::Apply("_while_loop", inputs.symbols(),
                       {{"num_outputs", std::to_string(step.num_outputs())},
                        {"num_out_data", NumResults(step, states)},
                        {"max_iterations", std::to_string(max_iterations)},
                        {"cond_input_locs", of_condition},
                        {"func_input_locs", of_step},
                        {"func_var_locs", Locations(step, NamesOf(states))}},
                       "loop");
}

Symbol Cond(const Symbol& condition, const Symbol& yes, const Symbol& no,
            const NamedSymbols& captured) {
  NodeInputs inputs({condition, yes, no}, captured);
  const std::string of_condition = inputs.Add(condition);
  const std::string of_yes = inputs.Add(yes);
  const std::string of_no = inputs.Add(no);
  return Symbol::Apply("_cond", inputs.symbols(),
                       {{"num_outputs", std::to_string(yes.num_outputs())},
                        {"cond_input_locs", of_condition},
                        {"then_input_locs", of_yes},
                        {"else_input_locs", of_no}},
                       "branch");
}

}  // namespace tessera::symbol_testing
