#include "tessera/ndarray/trace.h"

#include <functional>
#include <unordered_map>

#include "tessera/base/error.h"
#include "tessera/base/quote.h"
#include "tessera/ndarray/array_memory.h"
#include "tessera/ndarray/autograd/tape.h"
#include "tessera/ndarray/imperative.h"

namespace tessera {

using graph::Node;
using graph::NodeEntry;
using ndarray_internal::ArrayAccess;
using ndarray_internal::Modes;
using ndarray_internal::NodeOf;
using ndarray_internal::RecordedNode;
using ndarray_internal::TraceLog;

namespace {

/// Copies a part of the tape.
class GraphCopy {
 public:
  using FindInput = std::function<const NodeEntry*(const NodeEntry& entry)>;

  /// `find_input` returns the variable of an input's entry, or null. `names` are the inputs'.
  GraphCopy(const TraceLog& log, FindInput find_input, const std::set<std::string>& names)
      : log_(log), find_input_(std::move(find_input)), names_(names) {}

  /// Returns the copy of an entry. A call is copied after its inputs, without recursion, because a
  /// tape may be deeper than a stack.
  NodeEntry Copy(const NodeEntry& head) {
    std::vector<NodeEntry> pending = {head};
    while (!pending.empty()) {
      const NodeEntry entry = pending.back();
      if (IsKnown(entry)) {
        pending.pop_back();
        continue;
      }
      const auto& node = static_cast<const RecordedNode&>(*entry.node);
      RequireTraced(node);
      const size_t size = pending.size();
      for (const NodeEntry& input : node.inputs) {
        if (!IsKnown(input)) pending.push_back(input);
      }
      if (pending.size() > size) continue;
      pending.pop_back();
      AddCopy(node);
    }
    return Known(head);
  }

  std::vector<NamedArray> TakeConstants() { return std::move(constants_); }

 private:
  bool IsKnown(const NodeEntry& entry) const {
    return find_input_(entry) != nullptr || copies_.contains(entry.node.get());
  }
  NodeEntry Known(const NodeEntry& entry) const {
    const NodeEntry* const input = find_input_(entry);
    return input != nullptr ? *input : NodeEntry{copies_.at(entry.node.get()), entry.index};
  }

  void RequireTraced(const RecordedNode& node) const {
    if (node.is_variable()) {
      if (node.req == kNullOp && !node.outputs_saved.empty()) return;
      throw FailedPrecondition(
          "Trace::Finish: the outputs depend on a variable of autograd that is no input; expected "
          "Trace::Input for each of them");
    }
    if (!log_.calls.contains(&node)) {
      throw FailedPrecondition("Trace::Finish: the outputs depend on a result of ",
                               node.property->TypeString(),
                               " from before the trace; expected Trace::Input for it");
    }
    if (node.plan == nullptr) {
      throw Unimplemented("Trace::Finish: ", node.property->TypeString(),
                          " is no operator of the registry; expected operators alone");
    }
  }

  void AddCopy(const RecordedNode& node) {
    if (node.is_variable()) {
      std::string name;
      do {
        name = "constant" + std::to_string(num_names_++);
      } while (names_.contains(name));
      copies_.emplace(&node, graph::MakeVariable(name).node);
      constants_.push_back({std::move(name), node.outputs_saved[0].array});
      return;
    }
    // Only what a graph's node has.
    auto copy = std::make_shared<Node>(static_cast<const Node&>(node));
    copy->name = node.property->TypeString() + std::to_string(num_calls_++);
    for (NodeEntry& input : copy->inputs) input = Known(input);
    copies_.emplace(&node, std::move(copy));
  }

  const TraceLog& log_;
  const FindInput find_input_;
  const std::set<std::string>& names_;
  std::unordered_map<const Node*, std::shared_ptr<Node>> copies_;
  std::vector<NamedArray> constants_;
  int num_calls_ = 0;
  int num_names_ = 0;
};

}  // namespace

Trace::Trace() : was_recording_(Modes().recording), log_(std::make_unique<TraceLog>()) {
  if (Modes().trace != nullptr) {
    throw FailedPrecondition("Trace: the thread has a trace; expected one at a time");
  }
  Modes().recording = true;
  Modes().trace = log_.get();
  is_active_ = true;
}

Trace::~Trace() { End(); }

void Trace::End() {
  if (!is_active_) return;
  is_active_ = false;
  Modes().recording = was_recording_;
  Modes().trace = nullptr;
}

void Trace::RequireActive(const char* operation) const {
  if (is_active_) return;
  throw FailedPrecondition("Trace::", operation, ": the trace has ended; expected one Finish");
}

NDArray Trace::Input(const NDArray& array, std::string name) {
  RequireActive("Input");
  if (array.is_none()) {
    throw InvalidArgument("Trace::Input: ", Excerpt(name), " is no array (is_none())");
  }
  if (!names_.insert(name).second) {
    throw InvalidArgument("Trace::Input: there are two inputs ", Excerpt(name),
                          "; expected names that differ");
  }
  const auto key = [](const NodeEntry& entry) { return EntryKey(entry.node.get(), entry.index); };
  NDArray input = array;
  if (!was_recording_ || NodeOf(array) == nullptr) {
    input = ArrayAccess::WithEntry(array, {std::make_shared<RecordedNode>(), 0});
  } else if (inputs_.contains(key(ArrayAccess::Entry(array)))) {
    // Two inputs that are one array here may be two in another call.
    input = Invoke("_copy", {&array, 1})[0];
  }
  const NodeEntry& recorded = ArrayAccess::Entry(input);
  inputs_.emplace(key(recorded), TracedInput{recorded, graph::MakeVariable(std::move(name))});
  return input;
}

TracedGraph Trace::Finish(std::span<const NDArray> outputs) {
  RequireActive("Finish");
  End();
  const auto find_input = [this](const NodeEntry& entry) -> const NodeEntry* {
    const auto found = inputs_.find({entry.node.get(), entry.index});
    return found == inputs_.end() ? nullptr : &found->second.variable;
  };
  GraphCopy copy(*log_, find_input, names_);
  TracedGraph traced;
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (outputs[i].is_none()) {
      throw InvalidArgument("Trace::Finish: output ", i, " is no array (is_none())");
    }
    NodeEntry entry = ArrayAccess::Entry(outputs[i]);
    if (entry.node == nullptr) entry = {ndarray_internal::NewVariableNode(outputs[i]), 0};
    traced.outputs.push_back(copy.Copy(entry));
  }
  traced.constants = copy.TakeConstants();
  return traced;
}

}  // namespace tessera
