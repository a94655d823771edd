#include "tessera/graph/compile.h"

#include <cstddef>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "tessera/base/at.h"
#include "tessera/base/error.h"
#include "tessera/base/quote.h"
#include "tessera/graph/graph.h"
#include "tessera/graph/infer.h"
#include "tessera/graph/passes.h"
#include "tessera/graph/passes/fuse_maps.h"
#include "tessera/graph/passes/placement.h"
#include "tessera/graph/passes/recompute.h"

namespace tessera::graph {
namespace {

using base_internal::At;

bool HasUniqueNames(const IndexedGraph& graph) {
  std::unordered_set<std::string_view> names;
  for (const int id : graph.variables()) {
    if (!names.insert(graph.node(id).name).second) return false;
  }
  return true;
}

/// One compilation of a graph whose shapes and types have been inferred.
class Compiler {
 public:
  Compiler(const std::vector<NodeEntry>& heads, const IndexedGraph& graph, GraphShapes shapes,
           GraphTypes types, const std::vector<OpReqType>& requests, const CompileOptions& options)
      : heads_(heads),
        graph_(graph),
        shapes_(std::move(shapes)),
        types_(std::move(types)),
        requests_(requests),
        options_(options) {}

  CompiledGraph Run() const {
    if (!shapes_.complete || !types_.complete) {
      if (options_.may_be_incomplete) return {};
      ThrowUnknown();
    }
    // Every result stays as it is if it is to be looked at; passes only place it.
    const bool has_passes =
        HasUniqueNames(graph_) && (!options_.keeps_unread || !options_.groups.empty());
    PreparedGraph prepared;
    if (has_passes) prepared = Prepare();
    CompiledGraph compiled{.complete = true,
                           .program = BuildProgram(heads_, shapes_, types_, requests_,
                                                   {.device = options_.device,
                                                    .prepared = has_passes ? &prepared : nullptr,
                                                    .keeps_unread = options_.keeps_unread})};
    compiled.program.repeats_mutating = options_.repeats_mutating;
    if (!options_.keeps_unread) Recompute(&compiled.program);
    if (has_passes && Fuses()) {
      const std::vector<FusedSteps> groups = FuseMaps(&compiled.program);
      if (!groups.empty() && prepared.dump->enabled()) DumpGroups(groups, &prepared);
    }
    compiled.constants = std::move(prepared.constants);
    compiled.parameters = std::move(prepared.parameters);
    return compiled;
  }

 private:
  bool Fuses() const { return options_.fuses && !options_.keeps_unread && FusionIsOn(); }

  /// Lets the gradient, if there is one, recompute results.
  void Recompute(Program* program) const {
    if (program->num_steps() == program->num_forward_steps) return;
    const bool is_cheap_too = options_.recomputes || RecomputationIsOn();
    RecomputeMarked(program, is_cheap_too ? MarkedSteps::kCheapToo : MarkedSteps::kByAttribute);
  }

  /// Runs the passes.
  PreparedGraph Prepare() const {
    PassOptions passes{
        .training = options_.training,
        .splits = options_.splits,
        .fuses = Fuses(),
        .placement = {
            .groups = options_.groups, .device = options_.device, .variables = options_.variables}};
    std::unordered_map<const Node*, Device> placed;
    if (!options_.groups.empty()) placed = PlaceDevices(heads_, passes.placement).devices;
    for (const int id : graph_.variables()) {
      const Node& variable = graph_.node(id);
      const size_t entry = At(graph_.EntryId(id, 0));
      passes.shapes[variable.name] = shapes_.entries[entry];
      passes.types[variable.name] = types_.entries[entry];
      if (!placed.empty()) passes.placement.variables[variable.name] = placed.at(&variable);
    }
    for (size_t i = 0; i < requests_.size(); ++i) {
      if (requests_[i] != kNullOp)
        passes.wanted.push_back({graph_.Owner(graph_.arguments()[i]), 0});
    }
    PreparedGraph prepared = RunPasses(heads_, passes);
    if (placed.empty()) return prepared;
    // Some variables may not be needed any more.
    for (const int id : graph_.variables()) {
      prepared.devices.emplace(&graph_.node(id), placed.at(&graph_.node(id)));
    }
    return prepared;
  }

  /// Writes the graph with the number of each node's group.
  void DumpGroups(const std::vector<FusedSteps>& groups, PreparedGraph* prepared) const {
    std::unordered_map<const Node*, int> numbers;
    for (size_t i = 0; i < groups.size(); ++i) {
      for (const auto& member : groups[i].members) {
        numbers.emplace(member.get(), static_cast<int>(i));
      }
    }
    std::vector<NodeEntry> heads = prepared->heads;
    for (const NodeEntry& gradient : prepared->gradients) {
      if (gradient.node != nullptr) heads.push_back(gradient);
    }
    prepared->dump->Write("fuse_maps", heads, {.devices = &prepared->devices, .groups = &numbers});
  }

  /// Throws an error that names the first value whose shape or type is not known.
  [[noreturn]] void ThrowUnknown() const {
    for (int i = 0; i < graph_.num_nodes(); ++i) {
      for (int k = 0; k < graph_.NumOutputs(i); ++k) {
        const size_t entry = At(graph_.EntryId(i, k));
        const auto name = [&] { return Excerpt(graph_.node(i).OutputName(k)); };
        if (!shapes_.entries[entry].known()) {
          throw InvalidArgument(options_.caller, ": the shape of \"", name(), "\" is ",
                                shapes_.entries[entry],
                                ", expected a known one; give the shapes of more inputs");
        }
        if (types_.entries[entry] == DType::kUnknown) {
          throw InvalidArgument(
              options_.caller, ": the element type of \"", name(),
              "\" is unknown, expected a known one; give the types of more inputs");
        }
      }
    }
    throw Internal(options_.caller, ": inference is not complete, but nothing is unknown");
  }

  const std::vector<NodeEntry>& heads_;
  const IndexedGraph& graph_;
  const GraphShapes shapes_;
  const GraphTypes types_;
  const std::vector<OpReqType>& requests_;
  const CompileOptions& options_;
};

/// Throws unless there is a request for each argument, and groups are used with unique names.
void Check(const IndexedGraph& graph, const std::vector<OpReqType>& requests,
           const CompileOptions& options) {
  if (requests.size() != graph.arguments().size()) {
    throw InvalidArgument(options.caller, ": ", requests.size(),
                          " gradient requests were given, expected ", graph.arguments().size(),
                          ", one for each argument");
  }
  if (!options.groups.empty()) graph.RequireUniqueNames(options.caller);
}

}  // namespace

CompiledGraph Compile(const std::vector<NodeEntry>& heads,
                      const std::map<std::string, TShape>& shapes,
                      const std::map<std::string, DType>& types,
                      const std::vector<OpReqType>& grad_requests, const CompileOptions& options) {
  const IndexedGraph graph(heads);
  Check(graph, grad_requests, options);
  return Compiler(heads, graph, InferShapes(graph, shapes), InferTypes(graph, types), grad_requests,
                  options)
      .Run();
}

CompiledGraph Compile(const std::vector<NodeEntry>& heads, const KnownVariables& known,
                      const std::vector<OpReqType>& grad_requests, const CompileOptions& options) {
  const IndexedGraph graph(heads);
  Check(graph, grad_requests, options);
  const std::vector<int>& variables = graph.variables();
  if (known.shapes.size() != variables.size() || known.types.size() != variables.size()) {
    throw InvalidArgument(options.caller, ": ", known.shapes.size(), " shapes and ",
                          known.types.size(), " types were given, expected ", variables.size(),
                          " of each, one for each variable");
  }
  GraphShapes shapes{.entries = std::vector<TShape>(At(graph.num_entries()))};
  GraphTypes types{.entries = std::vector<DType>(At(graph.num_entries()), DType::kUnknown)};
  for (size_t i = 0; i < variables.size(); ++i) {
    const size_t entry = At(graph.EntryId(variables[i], 0));
    shapes.entries[entry] = known.shapes[i];
    types.entries[entry] = known.types[i];
  }
  CompleteShapes(graph, &shapes);
  CompleteTypes(graph, &types);
  return Compiler(heads, graph, std::move(shapes), std::move(types), grad_requests, options).Run();
}

}  // namespace tessera::graph
