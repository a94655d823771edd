#include "tessera/graph/unknown_operator.h"

#include <algorithm>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "tessera/base/error.h"
#include "tessera/base/quote.h"
#include "tessera/graph/loop_property.h"
#include "tessera/ops/mxnet/operators.h"
#include "tessera/ops/registry.h"

namespace tessera::graph {

UnknownOperatorProperty::UnknownOperatorProperty(std::string name, int num_inputs)
    : name_(std::move(name)) {
  const MxnetOperator* const known = FindMxnetOperator(name_);
  if (known != nullptr && known->key_var_num_args.empty()) {
    for (const MxnetOperator::Argument& argument : known->arguments) {
      if (argument.type == "NDArray-or-Symbol") arguments_.emplace_back(argument.name);
    }
  }
  // Inputs that MXNet counts, or that the operator does not have in its last release.
  const auto given = static_cast<size_t>(num_inputs);
  if (given > arguments_.size()) arguments_.clear();
  for (size_t i = arguments_.size(); i < given; ++i) arguments_.push_back(absl::StrCat("arg", i));
  arguments_.resize(given);  // the others are optional
}

void UnknownOperatorProperty::AddOutputsUpTo(int output) {
  num_outputs_ = std::max(num_outputs_, output + 1);
}

std::vector<std::string> UnknownOperatorProperty::ListOutputs() const {
  if (num_outputs_ == 1) return {"output"};
  std::vector<std::string> names;
  for (int i = 0; i < num_outputs_; ++i) names.push_back(absl::StrCat("output", i));
  return names;
}

bool UnknownOperatorProperty::InferShape(std::vector<TShape>*, std::vector<TShape>*) const {
  throw OperatorRegistry::Get().UnknownOperator(name_);
}

bool UnknownOperatorProperty::InferType(std::vector<DType>*, std::vector<DType>*) const {
  throw OperatorRegistry::Get().UnknownOperator(name_);
}

namespace {

/// Returns the node's property if it is that of a loop, or null.
const LoopProperty* LoopOf(const Node& node) {
  return dynamic_cast<const LoopProperty*>(node.property.get());
}

/// Throws what RequireImplemented throws for the graphs of a loop.
void RequireImplementedIn(const Node& node, const LoopProperty& property) {
  try {
    const LoopDescription& loop = property.loop();
    if (loop.condition.index != nullptr) RequireImplemented(*loop.condition.index);
    for (const LoopGraph& body : loop.bodies) RequireImplemented(*body.index);
  } catch (const Error& error) {
    throw error.WithMessage("node \"" + Excerpt(node.name) + "\": " + error.what());
  }
}

}  // namespace

bool IsImplemented(const Node& node) {
  return (node.subgraphs.empty() || LoopOf(node) != nullptr) &&
         dynamic_cast<const UnknownOperatorProperty*>(node.property.get()) == nullptr;
}

void RequireImplemented(const IndexedGraph& graph) {
  constexpr size_t kMaxListed = 10;
  std::set<std::string> listed;
  std::string errors;
  int others = 0;
  const Node* with_subgraphs = nullptr;
  for (const Node* node : graph.nodes()) {
    if (const LoopProperty* const loop = LoopOf(*node)) {
      RequireImplementedIn(*node, *loop);
    } else if (!node->subgraphs.empty() && with_subgraphs == nullptr) {
      with_subgraphs = node;
    }
    if (dynamic_cast<const UnknownOperatorProperty*>(node->property.get()) == nullptr) continue;
    const std::string& op = node->property->TypeString();
    if (listed.contains(op)) continue;
    if (listed.size() == kMaxListed) {
      ++others;
      continue;
    }
    listed.insert(op);
    absl::StrAppend(&errors, errors.empty() ? "" : "; ", "node \"", Excerpt(node->name),
                    "\": ", OperatorRegistry::Get().UnknownOperator(op).what());
  }
  if (others > 0) {
    absl::StrAppend(&errors, "; and ", others, " more nodes with other unknown operators");
  }
  if (!errors.empty()) throw NotFound(errors);
  if (with_subgraphs != nullptr) {
    throw Unimplemented("node \"", Excerpt(with_subgraphs->name), "\": operator ",
                        with_subgraphs->property->TypeString(),
                        " holds subgraphs, which are not implemented");
  }
}

}  // namespace tessera::graph
