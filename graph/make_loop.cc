#include "tessera/graph/make_loop.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <numeric>
#include <set>
#include <string>
#include <utility>

#include "tessera/base/at.h"
#include "tessera/base/error.h"
#include "tessera/graph/graph.h"
#include "tessera/graph/passes/gradient.h"
#include "tessera/ops/property.h"
#include "tessera/ops/registry.h"

namespace tessera::graph {
namespace {

using base_internal::At;

using Locations = std::vector<int64_t>;

constexpr std::string_view kForeach = "_foreach", kWhileLoop = "_while_loop", kCond = "_cond",
                           kCachedOp = "_CachedOp";
constexpr int kUnset = -1;

/// The parameters that both loops have.
struct LoopParameters {
  int num_args = 0, num_outputs = 0, num_out_data = 0;

  /// Declares the fields above for the schema of a struct derived from this one.
  template <typename Schema>
  static void DeclareShared(Schema& schema) {
    using P = LoopParameters;
    schema.template Required<int>("num_args", &P::num_args, "the number of graphs and inputs");
    schema.template Required<int>("num_outputs", &P::num_outputs,
                                  "the number of results and states");
    schema.template Required<int>("num_out_data", &P::num_out_data,
                                  "the number of results of a step");
  }
};

struct ForeachParameters : LoopParameters {
  Locations in_data_locs, in_state_locs, remain_locs;
  static void Declare(ParameterSchema<ForeachParameters>& schema) {
    using P = ForeachParameters;
    DeclareShared(schema);
    schema.Required("in_data_locs", &P::in_data_locs, "the step's variables for the data");
    schema.Required("in_state_locs", &P::in_state_locs, "the step's variables for the states");
    schema.Required("remain_locs", &P::remain_locs, "the step's other variables");
  }
};

struct WhileParameters : LoopParameters {
  int64_t max_iterations = 0;
  Locations cond_input_locs, func_input_locs, func_var_locs;
  static void Declare(ParameterSchema<WhileParameters>& schema) {
    using P = WhileParameters;
    DeclareShared(schema);
    schema.Required("max_iterations", &P::max_iterations, "the largest number of steps");
    schema.Required("cond_input_locs", &P::cond_input_locs, "the inputs of the condition");
    schema.Required("func_input_locs", &P::func_input_locs, "the inputs of the step");
    schema.Required("func_var_locs", &P::func_var_locs, "the step's variables for the states");
  }
};

struct CondParameters {
  int num_args = 0, num_outputs = 0;
  Locations cond_input_locs, then_input_locs, else_input_locs;
  static void Declare(ParameterSchema<CondParameters>& schema) {
    using P = CondParameters;
    schema.Required("num_args", &P::num_args, "the number of graphs and inputs");
    schema.Required("num_outputs", &P::num_outputs, "the number of outputs of a branch");
    schema.Required("cond_input_locs", &P::cond_input_locs, "the inputs of the condition");
    schema.Required("then_input_locs", &P::then_input_locs, "the inputs of the branch for true");
    schema.Required("else_input_locs", &P::else_input_locs, "the inputs of the branch for false");
  }
};

/// Makes one property.
class LoopMaker {
 public:
  LoopMaker(std::string_view op, const ParameterMap& parameters,
            const std::vector<std::vector<NodeEntry>>& graphs)
      : op_(op), graphs_(graphs) {
    loop_.op = op_;
    loop_.parameters = parameters;
    if (graphs.size() != At(NumLoopGraphs(op))) {
      throw InvalidArgument(op_, ": ", graphs.size(), " graphs were given, expected ",
                            NumLoopGraphs(op));
    }
    for (size_t i = 0; i < graphs.size(); ++i) {
      if (graphs[i].empty()) throw InvalidArgument(op_, ": graph ", i, " has no outputs");
    }
  }

  std::shared_ptr<const LoopProperty> Make() {
    if (op_ == kForeach) {
      MakeForeach();
    } else if (op_ == kWhileLoop) {
      MakeWhile();
    } else if (op_ == kCachedOp) {
      MakePart();
    } else {
      MakeBranch();
    }
    FindMutated();
    FindPurity();
    loop_.gradient_reads.assign(loop_.inputs.size(), false);
    loop_.num_outputs = loop_.first_saved();
    try {
      for (LoopGraph& body : loop_.bodies) AddGradient(&body);
    } catch (const Error& error) {
      loop_.gradient_error = error.what();
      for (LoopGraph& body : loop_.bodies) body = Indexed(body.heads, body.inputs);
      loop_.num_outputs = loop_.first_saved();
    }
    return std::make_shared<const LoopProperty>(std::move(loop_));
  }

 private:
  template <typename Parameters>
  Parameters Parse() const {
    return ParameterSchema<Parameters>::Get().Parse(op_, loop_.parameters);
  }

  /// Throws unless `found`, of what is called `what`, is `expected`.
  void Require(std::string_view what, int64_t found, int64_t expected) const {
    if (found == expected) return;
    throw InvalidArgument(op_, ": ", what, " is ", found, ", expected ", expected);
  }
  /// Throws unless `value` lies in [0, limit).
  void RequireBelow(std::string_view parameter, int64_t value, int64_t limit) const {
    if (value >= 0 && value < limit) return;
    throw InvalidArgument(op_, ": parameter ", parameter, " has ", value,
                          ", expected integers in [0, ", limit, ")");
  }

  /// Returns the number of inputs by `num_args`, which also counts the graphs. Each input is some
  /// variable of a graph.
  int NumInputs(int num_args) const {
    const int num_graphs = NumLoopGraphs(op_);
    size_t num_variables = 0;
    for (const auto& graph : graphs_) num_variables += IndexedGraph(graph).variables().size();
    const int64_t most = num_graphs + static_cast<int64_t>(num_variables);
    if (num_args < num_graphs || num_args > most) {
      throw InvalidArgument(op_, ": parameter num_args is ", num_args, ", expected ", num_graphs,
                            " to ", most, ", the number of graphs and of their variables");
    }
    return num_args - num_graphs;
  }

  /// Takes the outputs of the steps of a loop: some results, then the states.
  void TakeOutputs(const LoopParameters& given, size_t num_states,
                   const std::vector<NodeEntry>& step) {
    Require("the number of the step's outputs", static_cast<int64_t>(step.size()),
            given.num_outputs);
    RequireBelow("num_out_data", given.num_out_data, int64_t{given.num_outputs} + 1);
    Require("the number of states", static_cast<int64_t>(num_states),
            given.num_outputs - given.num_out_data);
    loop_.num_results = given.num_out_data;
  }

  void MakeForeach() {
    const auto given = Parse<ForeachParameters>();
    const int num_inputs = NumInputs(given.num_args);
    TakeOutputs(given, given.in_state_locs.size(), graphs_[0]);
    if (given.in_data_locs.empty()) {
      throw InvalidArgument(op_,
                            ": parameter in_data_locs is empty, expected the variables of at "
                            "least one input whose rows are the steps");
    }
    loop_.kind = LoopKind::kForeach;
    const int num_variables = static_cast<int>(IndexedGraph(graphs_[0]).variables().size());
    Require("the number of inputs", num_inputs, num_variables);
    std::vector<int> inputs(At(num_variables), kUnset);
    const auto take = [&](std::string_view parameter, const Locations& locations, LoopInput kind) {
      for (const int64_t variable : locations) {
        RequireBelow(parameter, variable, num_variables);
        int& input = inputs[At(variable)];
        if (input != kUnset) {
          throw InvalidArgument(op_, ": parameter ", parameter, " has variable ", variable,
                                " a second time");
        }
        input = static_cast<int>(loop_.inputs.size());
        if (kind == LoopInput::kState) loop_.states.push_back(input);
        loop_.inputs.push_back(kind);
      }
    };
    take("in_data_locs", given.in_data_locs, LoopInput::kData);
    take("in_state_locs", given.in_state_locs, LoopInput::kState);
    take("remain_locs", given.remain_locs, LoopInput::kCaptured);
    Require("the number of variables in all locations", static_cast<int64_t>(loop_.inputs.size()),
            num_variables);
    AddBody(graphs_[0], std::move(inputs));
  }

  void MakeWhile() {
    const auto given = Parse<WhileParameters>();
    const int num_inputs = NumInputs(given.num_args);
    TakeOutputs(given, given.func_var_locs.size(), graphs_[1]);
    if (given.max_iterations < 0) {
      throw InvalidArgument(op_, ": parameter max_iterations is ", given.max_iterations,
                            ", expected at least 0");
    }
    loop_.kind = LoopKind::kWhile;
    loop_.max_steps = given.max_iterations;
    loop_.inputs.assign(At(num_inputs), LoopInput::kCaptured);
    AddCondition("cond_input_locs", given.cond_input_locs);
    std::vector<int> inputs = TakeLocations("func_input_locs", given.func_input_locs, graphs_[1]);
    for (const int64_t variable : given.func_var_locs) {
      RequireBelow("func_var_locs", variable, static_cast<int64_t>(inputs.size()));
      const int input = inputs[At(variable)];
      if (loop_.inputs[At(input)] == LoopInput::kState) {
        throw InvalidArgument(op_, ": parameter func_var_locs has variable ", variable,
                              " a second time");
      }
      loop_.inputs[At(input)] = LoopInput::kState;
      loop_.states.push_back(input);
    }
    AddBody(graphs_[1], std::move(inputs));
  }

  void MakeBranch() {
    const auto given = Parse<CondParameters>();
    const int num_inputs = NumInputs(given.num_args);
    loop_.kind = LoopKind::kBranch;
    loop_.num_results = given.num_outputs;
    loop_.inputs.assign(At(num_inputs), LoopInput::kCaptured);
    AddCondition("cond_input_locs", given.cond_input_locs);
    for (const size_t branch : {size_t{1}, size_t{2}}) {
      Require("the number of a branch's outputs", static_cast<int64_t>(graphs_[branch].size()),
              given.num_outputs);
      AddBody(graphs_[branch],
              branch == 1 ? TakeLocations("then_input_locs", given.then_input_locs, graphs_[1])
                          : TakeLocations("else_input_locs", given.else_input_locs, graphs_[2]));
    }
  }

  /// Makes a branch without a condition.
  void MakePart() {
    loop_.kind = LoopKind::kBranch;
    loop_.num_results = static_cast<int>(graphs_[0].size());
    std::vector<int> inputs(IndexedGraph(graphs_[0]).variables().size());
    std::iota(inputs.begin(), inputs.end(), 0);
    loop_.inputs.assign(inputs.size(), LoopInput::kCaptured);
    AddBody(graphs_[0], std::move(inputs));
  }

  /// Returns the inputs that the variables of a graph stand for.
  std::vector<int> TakeLocations(std::string_view parameter, const Locations& locations,
                                 const std::vector<NodeEntry>& graph) const {
    const size_t num_variables = IndexedGraph(graph).variables().size();
    Require(std::string("the number of ") + std::string(parameter),
            static_cast<int64_t>(locations.size()), static_cast<int64_t>(num_variables));
    std::vector<int> inputs;
    std::set<int64_t> seen;
    for (const int64_t input : locations) {
      RequireBelow(parameter, input, static_cast<int64_t>(loop_.inputs.size()));
      if (!seen.insert(input).second) {
        throw InvalidArgument(op_, ": parameter ", parameter, " has input ", input,
                              " a second time");
      }
      inputs.push_back(static_cast<int>(input));
    }
    return inputs;
  }

  static NodeEntry Copied(const NodeEntry& entry) {
    return MakeNode(OperatorRegistry::Get().FindOrCreate("_copy", {}), entry.node->name + "_copy",
                    {entry});
  }

  static LoopGraph Indexed(std::vector<NodeEntry> heads, std::vector<int> inputs) {
    auto index = std::make_shared<const IndexedGraph>(heads);
    return {.heads = std::move(heads), .index = std::move(index), .inputs = std::move(inputs)};
  }

  /// Returns a graph whose heads are different outputs of operators, each with memory of its own.
  static LoopGraph Separated(std::vector<NodeEntry> heads, std::vector<int> inputs) {
    for (size_t i = 0; i < heads.size(); ++i) {
      const auto end = heads.begin() + static_cast<std::ptrdiff_t>(i);
      if (!heads[i].node->is_variable() && std::find(heads.begin(), end, heads[i]) == end) continue;
      heads[i] = Copied(heads[i]);
    }
    return Indexed(std::move(heads), std::move(inputs));
  }

  void AddCondition(std::string_view parameter, const Locations& locations) {
    Require("the number of the condition's outputs", static_cast<int64_t>(graphs_[0].size()), 1);
    loop_.condition = Separated(graphs_[0], TakeLocations(parameter, locations, graphs_[0]));
  }
  void AddBody(const std::vector<NodeEntry>& graph, std::vector<int> inputs) {
    loop_.bodies.push_back(Separated(graph, std::move(inputs)));
  }

  template <typename Visit>
  void VisitGraphs(const Visit& visit) const {
    if (loop_.condition.index != nullptr) visit(loop_.condition);
    for (const LoopGraph& body : loop_.bodies) visit(body);
  }

  static int InputOf(const LoopGraph& graph, int variable) {
    const std::vector<int>& variables = graph.index->variables();
    const auto found = std::lower_bound(variables.begin(), variables.end(), variable);
    return graph.inputs[static_cast<size_t>(found - variables.begin())];
  }

  void FindMutated() {
    std::set<int> mutated;
    VisitGraphs([&](const LoopGraph& graph) {
      for (const int variable : graph.index->aux_states()) {
        const int input = InputOf(graph, variable);
        if (loop_.inputs[At(input)] != LoopInput::kCaptured) {
          throw InvalidArgument(op_, ": input ", input, " is data or a state, but the graph's ",
                                "variable \"", graph.index->node(variable).name,
                                "\" for it is changed by an operator");
        }
        mutated.insert(input);
      }
    });
    loop_.mutated.assign(mutated.begin(), mutated.end());
  }

  void FindPurity() {
    VisitGraphs([&](const LoopGraph& graph) {
      for (const Node* const node : graph.index->nodes()) {
        if (!node->is_variable()) loop_.purity = std::max(loop_.purity, node->property->purity());
      }
    });
  }

  /// Adds the gradient of a body, and outputs for the values that it reads.
  void AddGradient(LoopGraph* body) {
    std::vector<int> read = ReadByGradient(body);
    // A state that the step makes is the next step's, so it can lie in no other output.
    bool has_copies = false;
    for (size_t i = At(loop_.num_results); i < body->heads.size(); ++i) {
      if (!std::binary_search(read.begin(), read.end(), body->index->heads()[i])) continue;
      body->heads[i] = Copied(body->heads[i]);
      has_copies = true;
    }
    if (has_copies) {
      *body = Indexed(body->heads, body->inputs);
      read = ReadByGradient(body);
    }
    std::map<int, int> results;  // by entry
    for (size_t i = 0; i < At(loop_.num_results); ++i) {
      results.emplace(body->index->heads()[i], static_cast<int>(i));
    }
    for (int id = 0; id < body->index->num_nodes(); ++id) {
      for (int k = 0; k < body->index->NumOutputs(id); ++k) {
        const int entry = body->index->EntryId(id, k);
        if (!std::binary_search(read.begin(), read.end(), entry)) continue;
        if (body->index->node(id).is_variable()) {
          const int input = InputOf(*body, id);
          if (loop_.inputs[At(input)] != LoopInput::kState) {
            loop_.gradient_reads[At(input)] = true;
            continue;
          }
        }
        const auto result = results.find(entry);
        const int output = result == results.end() ? loop_.num_outputs++ : result->second;
        body->saved.push_back({{body->index->Owner(id), k}, output});
      }
    }
  }

  /// Copies gradients that other nodes, or other gradients, read: a gradient may be added to what
  /// earlier steps have left.
  static void SeparateRead(const IndexedGraph& graph, std::vector<NodeEntry>* gradients) {
    std::vector<int> readers(At(graph.num_entries()), 0);
    for (int id = 0; id < graph.num_nodes(); ++id) {
      for (const int entry : graph.InputIds(id)) ++readers[At(entry)];
    }
    for (const int entry : graph.heads()) ++readers[At(entry)];
    for (size_t i = 0; i < gradients->size(); ++i) {
      if (readers[At(graph.heads()[i])] > 1) (*gradients)[i] = Copied((*gradients)[i]);
    }
  }

  /// Makes the gradient of a body. Returns the body's entries that it reads, in ascending order.
  static std::vector<int> ReadByGradient(LoopGraph* body) {
    const IndexedGraph& graph = *body->index;
    std::vector<NodeEntry> wanted;
    for (const int argument : graph.arguments()) wanted.push_back({graph.Owner(argument), 0});
    Gradients gradients = BuildGradients(body->heads, wanted);
    body->head_gradients = std::move(gradients.head_gradients);
    body->gradients.clear();
    body->has_gradient.clear();
    std::set<int> read;
    for (NodeEntry& gradient : gradients.gradients) {
      body->has_gradient.push_back(gradient.node != nullptr);
      if (gradient.node == nullptr) continue;
      if (graph.Contains(gradient.node.get())) read.insert(graph.EntryId(gradient));
      body->gradients.push_back(std::move(gradient));
    }
    const IndexedGraph gradient_graph(body->gradients);
    SeparateRead(gradient_graph, &body->gradients);
    for (const Node* const node : gradient_graph.nodes()) {
      if (node->is_variable() || graph.Contains(node)) continue;
      if (node->forward == nullptr && node->property->TypeString() == "zeros_like") continue;
      for (const NodeEntry& input : node->inputs) {
        if (graph.Contains(input.node.get())) read.insert(graph.EntryId(input));
      }
    }
    return {read.begin(), read.end()};
  }

  const std::string op_;
  const std::vector<std::vector<NodeEntry>>& graphs_;
  LoopDescription loop_;
};

}  // namespace

int NumLoopGraphs(std::string_view op) {
  return op == kForeach || op == kCachedOp ? 1 : op == kWhileLoop ? 2 : op == kCond ? 3 : 0;
}

std::shared_ptr<const LoopProperty> MakeLoop(std::string_view op, const ParameterMap& parameters,
                                             const std::vector<std::vector<NodeEntry>>& graphs) {
  return LoopMaker(op, parameters, graphs).Make();
}

}  // namespace tessera::graph
