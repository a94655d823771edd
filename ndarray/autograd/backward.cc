#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "tessera/base/at.h"
#include "tessera/base/error.h"
#include "tessera/graph/backward_property.h"
#include "tessera/graph/graph.h"
#include "tessera/graph/passes/gradient.h"
#include "tessera/graph/passes/sums.h"
#include "tessera/ndarray/array_memory.h"
#include "tessera/ndarray/autograd.h"
#include "tessera/ndarray/autograd/tape.h"
#include "tessera/ndarray/call/push_call.h"
#include "tessera/ndarray/call/sparse_call.h"
#include "tessera/ndarray/imperative.h"
#include "tessera/ndarray/sparse.h"
#include "tessera/ops/sparse.h"

namespace tessera::autograd {
namespace {

using base_internal::At;
using graph::BackwardProperty;
using graph::IndexedGraph;
using graph::Node;
using graph::NodeEntry;
using ndarray_internal::ArrayAccess;
using ndarray_internal::AsDense;
using ndarray_internal::CallOperator;
using ndarray_internal::CallPlan;
using ndarray_internal::CallSignature;
using ndarray_internal::CallSparseBackward;
using ndarray_internal::CopySparse;
using ndarray_internal::MakeVariable;
using ndarray_internal::NodeOf;
using ndarray_internal::PushCall;
using ndarray_internal::RecordBackward;
using ndarray_internal::RecordedNode;
using ndarray_internal::SavedArray;

NDArray Filled(const TShape& shape, Device device, DType dtype, float value) {
  NDArray array(shape, device, dtype, /*delay_alloc=*/true, "gradient");
  array = value;
  return array;
}

/// The part of the tape that some arrays depend on.
class TapeGraph {
 public:
  /// Throws Error(kFailedPrecondition) if a head is not on the tape or a call was freed.
  TapeGraph(const char* caller, std::span<const NDArray> heads)
      : heads_(Entries(caller, heads)), graph_(heads_), saved_(At(graph_.num_entries())) {
    for (const NodeEntry& head : heads_) owners_[head.node.get()] = head.node;
    for (const Node* node : graph_.nodes()) {
      for (const NodeEntry& input : node->inputs) owners_[input.node.get()] = input.node;
      if (Recorded(*node).is_freed) {
        throw FailedPrecondition(
            caller, ": the values of a call of ", node->property->TypeString(),
            " were freed by an earlier Backward; expected retain_graph = true there");
      }
    }
    for (int i = 0; i < graph_.num_nodes(); ++i) {
      const RecordedNode& node = Recorded(graph_.node(i));
      // A variable may have been written before the calls that saved it, as by an optimizer.
      for (size_t k = 0; k < node.outputs_saved.size() && !node.is_variable(); ++k) {
        Save(graph_.EntryId(i, static_cast<int>(k)), node.outputs_saved[k]);
      }
      for (size_t k = 0; k < node.inputs_saved.size(); ++k) {
        Save(graph_.InputIds(i)[k], node.inputs_saved[k]);
      }
    }
  }

  static const RecordedNode& Recorded(const Node& node) {
    return static_cast<const RecordedNode&>(node);
  }

  const std::vector<NodeEntry>& heads() const { return heads_; }
  const IndexedGraph& graph() const { return graph_; }
  bool Contains(const Node* node) const { return graph_.Contains(node); }

  /// Returns the variables whose gradient is wanted.
  std::vector<NodeEntry> Variables() const {
    std::vector<NodeEntry> variables;
    for (const Node* node : graph_.nodes()) {
      if (node->is_variable() && Recorded(*node).req != kNullOp) {
        variables.push_back({owners_.at(node), 0});
      }
    }
    return variables;
  }

  /// Returns the saved value of an entry; none if no call has saved it.
  const SavedArray& Saved(const NodeEntry& entry) const {
    return saved_[At(graph_.EntryId(entry))];
  }
  /// Lets the value go.
  void Drop(const NodeEntry& entry) { saved_[At(graph_.EntryId(entry))] = {}; }

  /// Frees the calls: their values are left to this object.
  void Free() {
    for (const auto& [pointer, owner] : owners_) {
      if (owner->is_variable()) continue;
      auto& node = static_cast<RecordedNode&>(*owner);
      node.is_freed = true;
      node.inputs_saved.clear();
      node.outputs_saved.clear();
      node.inputs.clear();
    }
  }
  /// Frees the functions, after their last use.
  void FreeFunctions() {
    for (const auto& [pointer, owner] : owners_) {
      // Other threads may use the same variables.
      if (!owner->is_variable()) static_cast<RecordedNode&>(*owner).function = nullptr;
    }
  }

 private:
  static std::vector<NodeEntry> Entries(const char* caller, std::span<const NDArray> heads) {
    if (heads.empty()) throw InvalidArgument(caller, ": no heads were given");
    std::vector<NodeEntry> entries;
    for (size_t i = 0; i < heads.size(); ++i) {
      if (heads[i].is_none()) {
        throw InvalidArgument(caller, ": head ", i, " is no array (is_none())");
      }
      if (NodeOf(heads[i]) == nullptr) {
        throw FailedPrecondition(caller, ": head ", i, " of shape ", heads[i].shape(),
                                 " is not on the tape: it was not computed inside "
                                 "autograd::Record from an array with AttachGrad, or an earlier "
                                 "Backward without retain_graph has freed it");
      }
      entries.push_back(ArrayAccess::Entry(heads[i]));
    }
    return entries;
  }

  /// Keeps what the first of several calls has saved.
  void Save(int entry, const SavedArray& value) {
    SavedArray& kept = saved_[At(entry)];
    if (value.array.is_none()) return;
    if (kept.array.is_none() || value.version < kept.version) kept = value;
  }

  const std::vector<NodeEntry> heads_;
  const IndexedGraph graph_;
  std::unordered_map<const Node*, std::shared_ptr<Node>> owners_;
  std::vector<SavedArray> saved_;  // by entry
};

/// The array of a wanted gradient, if the caller has one.
struct GradientTarget {
  NDArray array;  ///< none: a new array
  OpReqType req = kWriteTo;
};

/// One computation of gradients: the graph of gradients, run node by node.
class BackwardRun {
 public:
  BackwardRun(const char* caller, TapeGraph* tape, std::span<const NDArray> heads,
              std::span<const NDArray> head_grads, const std::vector<NodeEntry>& wanted,
              std::vector<GradientTarget> targets, bool create_graph)
      : caller_(caller),
        tape_(*tape),
        create_graph_(create_graph),
        wanted_(wanted),
        targets_(std::move(targets)),
        gradients_(graph::BuildGradients(
            tape->heads(), wanted,
            create_graph ? graph::GradientForm::kDifferentiable : graph::GradientForm::kBackward)),
        graph_(GradientHeads(gradients_)),
        values_(At(graph_.num_entries())),
        readers_(At(graph_.num_entries()), 0),
        finals_(At(graph_.num_entries()), 0),
        sums_(Sums()),
        target_of_(At(graph_.num_entries()), kNone),
        target_storage_(At(graph_.num_entries()), StorageType::kUndefined) {
    CountReaders();
    CheckVersions();
    TakeHeadGradients(heads, head_grads);
    PlaceTargets();
  }

  /// Pushes the calls. Frees the tape first, unless it is retained.
  std::vector<NDArray> Run(bool retain_graph) {
    retain_graph_ = retain_graph;
    if (!retain_graph) tape_.Free();
    {
      const Scope scope(create_graph_, IsTraining());
      for (int i = 0; i < graph_.num_nodes(); ++i) {
        const Node& node = graph_.node(i);
        if (tape_.Contains(&node) || node.is_variable()) continue;
        RunNode(i, node);
        for (const int input : graph_.InputIds(i)) Release(input);
      }
    }
    if (!retain_graph) tape_.FreeFunctions();
    return Results();
  }

 private:
  static constexpr int kNone = graph::PlacedSums::kNone;

  static std::vector<NodeEntry> GradientHeads(const graph::Gradients& gradients) {
    std::vector<NodeEntry> heads;
    for (const NodeEntry& gradient : gradients.gradients) {
      if (gradient.node != nullptr) heads.push_back(gradient);
    }
    return heads;
  }

  bool IsNew(const Node& node) const { return !tape_.Contains(&node) && !node.is_variable(); }

  void CountReaders() {
    entries_.resize(At(graph_.num_entries()));
    for (int i = 0; i < graph_.num_nodes(); ++i) {
      const Node& node = graph_.node(i);
      if (!IsNew(node)) continue;
      for (size_t k = 0; k < node.inputs.size(); ++k) {
        const int id = graph_.InputIds(i)[k];
        ++readers_[At(id)];
        entries_[At(id)] = &node.inputs[k];
      }
    }
    for (const int head : graph_.heads()) ++finals_[At(head)];
  }

  /// Throws if an array that a gradient reads was written after it was recorded.
  void CheckVersions() const {
    for (int i = 0; i < graph_.num_nodes(); ++i) {
      const Node& node = graph_.node(i);
      if (!IsNew(node)) continue;
      for (const NodeEntry& input : node.inputs) {
        if (!tape_.Contains(input.node.get())) continue;
        const SavedArray& saved = tape_.Saved(input);
        if (saved.array.is_none()) continue;
        if (ArrayAccess::Var(saved.array)->version() == saved.version) continue;
        throw FailedPrecondition(
            caller_, ": an array of shape ", saved.array.shape(), " that ",
            node.property->TypeString(),
            " needs was written after it was recorded; expected writes after Backward, or to a "
            "copy");
      }
    }
  }

  void TakeHeadGradients(std::span<const NDArray> heads, std::span<const NDArray> given) {
    if (!given.empty() && given.size() != heads.size()) {
      throw InvalidArgument(caller_, ": ", given.size(), " head gradients were given for ",
                            heads.size(), " heads");
    }
    for (size_t i = 0; i < heads.size(); ++i) {
      const NDArray& head = heads[i];
      if (!given.empty() && !given[i].is_none()) {
        if (given[i].shape() != head.shape() || given[i].dtype() != head.dtype() ||
            given[i].device() != head.device()) {
          throw InvalidArgument(caller_, ": head gradient ", i, " is ", given[i].shape(), " of ",
                                given[i].dtype(), " on ", given[i].device(), ", expected ",
                                head.shape(), " of ", head.dtype(), " on ", head.device());
        }
      }
      const NodeEntry& gradient = gradients_.head_gradients[i];
      if (!graph_.Contains(gradient.node.get())) continue;
      const bool has_given = !given.empty() && !given[i].is_none();
      values_[At(graph_.EntryId(gradient))] =
          has_given ? given[i] : Filled(head.shape(), head.device(), head.dtype(), 1.0f);
    }
  }

  /// Places the sums of the gradient, unless they are to be recorded.
  graph::PlacedSums Sums() const {
    std::vector<bool> is_new(At(graph_.num_nodes()), false);
    for (int i = 0; i < graph_.num_nodes() && !create_graph_; ++i) {
      is_new[At(i)] = IsNew(graph_.node(i));
    }
    return graph::PlaceSums(graph_, is_new);
  }

  /// Lets gradients be written to the caller's arrays where nothing else reads them.
  void PlaceTargets() {
    std::unordered_set<const Variable*> read;
    for (int i = 0; i < graph_.num_entries(); ++i) {
      const NodeEntry* const entry = entries_[At(i)];
      if (entry == nullptr || !tape_.Contains(entry->node.get())) continue;
      const NDArray& array = tape_.Saved(*entry).array;
      if (!array.is_none()) read.insert(ArrayAccess::Var(array));
    }
    size_t head = 0;
    for (size_t i = 0; i < wanted_.size(); ++i) {
      const NodeEntry& gradient = gradients_.gradients[i];
      if (gradient.node == nullptr) continue;
      const int entry = graph_.heads()[head++];
      const StorageType storage = StorageTypeOf(targets_[i].array);
      target_storage_[At(entry)] = storage;
      // A sparse array takes its gradient when that is complete.
      if (storage == StorageType::kRowSparse || storage == StorageType::kCsr) continue;
      if (create_graph_ || targets_[i].array.is_none() || !IsNew(*gradient.node)) continue;
      if (finals_[At(entry)] != 1 || readers_[At(entry)] != 0) continue;
      if (!read.insert(ArrayAccess::Var(targets_[i].array)).second) continue;
      target_of_[At(entry)] = static_cast<int>(i);
    }
  }

  /// Returns the value of an entry that a gradient reads.
  NDArray ValueOf(int id, const NodeEntry& entry) {
    if (!tape_.Contains(entry.node.get())) return values_[At(id)];
    const SavedArray& saved = tape_.Saved(entry);
    if (saved.array.is_none()) {
      throw FailedPrecondition(caller_, ": a value that the gradient needs is not on the tape");
    }
    return create_graph_ ? ArrayAccess::WithEntry(saved.array, entry) : saved.array;
  }

  void Release(int id) {
    if (--readers_[At(id)] != 0) return;
    const NodeEntry& entry = *entries_[At(id)];
    if (!tape_.Contains(entry.node.get())) {
      if (finals_[At(id)] == 0) values_[At(id)] = NDArray();
    } else if (!retain_graph_) {
      tape_.Drop(entry);
    }
  }

  /// Returns the entry of the sum that an entry is added to, or the entry itself.
  int RootOf(int id) const { return sums_.sum_of[At(id)] == kNone ? id : sums_.sum_of[At(id)]; }

  /// Adds a part to a value, which becomes dense if one of them is.
  static void AddPart(const NDArray& part, NDArray* value) {
    if (StorageTypeOf(part) == StorageType::kDefault) *value = AsDense(*value);
    CopySparse(part, *value, kAddTo);
  }

  /// Gives an entry the gradient that a sparse form has computed in an array of its own.
  void Place(int id, const NDArray& gradient) {
    NDArray& value = values_[At(RootOf(id))];
    const int target = target_of_[At(RootOf(id))];
    if (!value.is_none()) {
      AddPart(gradient, &value);
    } else if (target != kNone) {
      value = targets_[At(target)].array;
      CopySparse(gradient, value, targets_[At(target)].req);
    } else {
      value = gradient;
    }
  }

  /// The array and the request of an output. Empty if nothing reads it.
  struct Output {
    NDArray array;
    OpReqType req = kNullOp;
  };

  Output OutputFor(int id, const TShape& shape, Device device, DType dtype) {
    if (readers_[At(id)] == 0 && finals_[At(id)] == 0) return {};
    const int root = RootOf(id);
    NDArray& value = values_[At(root)];
    if (!value.is_none()) {
      value = AsDense(value);
      return {value, kAddTo};
    }
    OpReqType req = kWriteTo;
    if (target_of_[At(root)] != kNone) {
      const GradientTarget& target = targets_[At(target_of_[At(root)])];
      value = target.array;
      req = target.req;
    } else {
      value = NDArray(shape, device, dtype, /*delay_alloc=*/true, "gradient");
    }
    return {value, req};
  }

  void RunNode(int i, const Node& node) {
    if (sums_.is_placed[At(i)]) {
      AddOtherParts(i, node);
    } else if (node.forward != nullptr) {
      RunBackward(i, node);
    } else {
      RunOperator(i, node);
    }
  }

  /// Adds the parts of a sum that have arrays of their own.
  void AddOtherParts(int i, const Node& node) {
    NDArray& sum = values_[At(graph_.EntryId(i, 0))];
    for (size_t k = 0; k < node.inputs.size(); ++k) {
      const int id = graph_.InputIds(i)[k];
      if (sums_.sum_of[At(id)] != kNone) continue;
      AddPart(ValueOf(id, node.inputs[k]), &sum);
    }
  }

  /// Runs the gradient of a recorded call.
  void RunBackward(int i, const Node& node) {
    const RecordedNode& call = TapeGraph::Recorded(*node.forward);
    const CallSignature& signature = *call.signature;
    std::vector<NDArray> inputs, outputs;
    for (size_t k = 0; k < node.inputs.size(); ++k) {
      inputs.push_back(ValueOf(graph_.InputIds(i)[k], node.inputs[k]));
    }
    if (call.function == nullptr) {
      if (const auto gradients = RunSparseBackward(i, *call.plan, inputs)) {
        if (create_graph_ && ShouldRecord(inputs)) RecordBackward(node, inputs, *gradients);
        return;
      }
    }
    for (NDArray& input : inputs) input = AsDense(input);
    std::vector<OpReqType> requests;
    for (size_t k = 0; k < signature.in_shape.size(); ++k) {
      const Output output = OutputFor(graph_.EntryId(i, static_cast<int>(k)), signature.in_shape[k],
                                      signature.device, signature.in_type[k]);
      outputs.push_back(output.array);
      requests.push_back(output.req);
    }
    if (call.function != nullptr) {
      const Pause pause(IsTraining());
      call.function->Backward(inputs, requests, outputs, /*is_last=*/!retain_graph_);
    } else {
      PushCall({.plan = call.plan,
                .call = &call.plan->BackwardCall(requests),
                .device = signature.device,
                .mode = {.is_train = call.mode.is_train},
                .inputs = {inputs.begin(), inputs.end()},
                .outputs = {outputs.begin(), outputs.end()}},
               requests, {});
    }
    if (create_graph_ && ShouldRecord(inputs)) RecordBackward(node, inputs, outputs);
  }

  /// Runs the gradient of a recorded call by the operator's sparse form. Returns nothing, having
  /// done nothing, if there is none for these arrays.
  std::optional<std::vector<NDArray>> RunSparseBackward(int i, const CallPlan& plan,
                                                        std::span<const NDArray> inputs) {
    if (plan.sparse_form() == nullptr) return std::nullopt;
    StorageTypes targets;
    std::vector<OpReqType> requests;
    for (size_t k = 0; k < plan.num_inputs(); ++k) {
      const int id = graph_.EntryId(i, static_cast<int>(k));
      const bool is_wanted = readers_[At(id)] != 0 || finals_[At(id)] != 0;
      requests.push_back(is_wanted ? kWriteTo : kNullOp);
      targets.push_back(target_storage_[At(RootOf(id))]);
    }
    const auto gradients = CallSparseBackward(plan, inputs, targets, requests);
    for (size_t k = 0; gradients && k < requests.size(); ++k) {
      if (requests[k] != kNullOp) Place(graph_.EntryId(i, static_cast<int>(k)), (*gradients)[k]);
    }
    return gradients;
  }

  /// Runs a registered operator of the gradient's graph.
  void RunOperator(int i, const Node& node) {
    const int first = graph_.EntryId(i, 0);
    if (node.property->TypeString() == "zeros_like" && tape_.Contains(node.inputs[0].node.get())) {
      // The tape need not have saved the value.
      values_[At(first)] = ZerosLike(node.inputs[0]);
      return;
    }
    std::vector<NDArray> inputs;
    for (size_t k = 0; k < node.inputs.size(); ++k) {
      inputs.push_back(ValueOf(graph_.InputIds(i)[k], node.inputs[k]));
    }
    const auto plan = CallPlan::Find(node.property, /*implementation=*/{}, inputs, {});
    const CallSignature& signature = plan->signature();
    const bool has_place = sums_.sum_of[At(first)] != kNone || target_of_[At(first)] != kNone;
    if (plan->num_outputs() == 1 && has_place) {
      const Output output =
          OutputFor(first, signature.out_shape[0], signature.device, signature.out_type[0]);
      const std::span<const NDArray> outputs(&output.array, 1);
      CallOperator(CallPlan::Find(node.property, /*implementation=*/{}, inputs, outputs), inputs,
                   outputs, output.req);
      return;
    }
    const std::vector<NDArray> outputs = CallOperator(plan, inputs, {}, kWriteTo);
    for (size_t k = 0; k < outputs.size(); ++k) {
      const int id = graph_.EntryId(i, static_cast<int>(k));
      if (readers_[At(id)] == 0 && finals_[At(id)] == 0) continue;
      if (sums_.sum_of[At(id)] == kNone && target_of_[At(id)] == kNone) {
        values_[At(id)] = outputs[k];
        continue;
      }
      const Output output =
          OutputFor(id, signature.out_shape[k], signature.device, signature.out_type[k]);
      Invoke("_copy", {&outputs[k], 1}, {&output.array, 1}, {}, output.req);
    }
  }

  static NDArray ZerosLike(const NodeEntry& entry) {
    const RecordedNode& node = TapeGraph::Recorded(*entry.node);
    if (node.signature == nullptr) {
      const NDArray& value = node.outputs_saved[0].array;
      return Filled(value.shape(), value.device(), value.dtype(), 0.0f);
    }
    return Filled(node.signature->out_shape[At(entry.index)], node.signature->device,
                  node.signature->out_type[At(entry.index)], 0.0f);
  }

  /// Completes the caller's arrays, or returns new ones.
  std::vector<NDArray> Results() {
    std::vector<NDArray> results;
    size_t head = 0;
    const Scope scope(create_graph_, IsTraining());
    for (size_t i = 0; i < wanted_.size(); ++i) {
      const NodeEntry& gradient = gradients_.gradients[i];
      NDArray target = targets_[i].array;
      const bool is_new = target.is_none();
      if (gradient.node == nullptr) {
        if (is_new) {
          results.push_back(ZerosLike(wanted_[i]));
        } else if (targets_[i].req != kAddTo) {
          target = 0.0f;
        }
        continue;
      }
      const int entry = graph_.heads()[head++];
      if (target_of_[At(entry)] != kNone) continue;
      const NDArray value = ValueOf(entry, gradient);
      if (!is_new) {
        Invoke("_copy", {&value, 1}, {&target, 1}, {}, targets_[i].req);
      } else if (IsNew(*gradient.node) && finals_[At(entry)] == 1) {
        results.push_back(value);
      } else {
        // The value is another array's too: a head gradient, or another variable's gradient.
        results.push_back(Invoke("_copy", {&value, 1})[0]);
      }
    }
    return results;
  }

  const char* const caller_;
  TapeGraph& tape_;
  const bool create_graph_;
  bool retain_graph_ = true;
  const std::vector<NodeEntry>& wanted_;
  const std::vector<GradientTarget> targets_;
  const graph::Gradients gradients_;
  const IndexedGraph graph_;  // of the gradients, with the calls of the tape that they read
  std::vector<NDArray> values_;
  std::vector<int> readers_;               // nodes that still read the entry
  std::vector<int> finals_;                // how often the entry is a wanted gradient
  std::vector<const NodeEntry*> entries_;  // the entry as a reader names it
  const graph::PlacedSums sums_;
  std::vector<int> target_of_;   // the wanted gradient whose array the entry is written to
  StorageTypes target_storage_;  // of the array that waits for the entry, or kUndefined
};

}  // namespace

void Backward(std::span<const NDArray> heads, std::span<const NDArray> head_grads,
              BackwardOptions options) {
  TapeGraph tape("autograd::Backward", heads);
  const std::vector<NodeEntry> wanted = tape.Variables();
  std::vector<GradientTarget> targets;
  for (const NodeEntry& variable : wanted) {
    const RecordedNode& node = TapeGraph::Recorded(*variable.node);
    targets.push_back({node.gradient, node.req});
  }
  BackwardRun("autograd::Backward", &tape, heads, head_grads, wanted, std::move(targets),
              /*create_graph=*/false)
      .Run(options.retain_graph);
  for (const NodeEntry& variable : wanted) {
    static_cast<RecordedNode&>(*variable.node).gradient_is_fresh = true;
  }
}

std::vector<NDArray> Grad(std::span<const NDArray> heads, std::span<const NDArray> variables,
                          std::span<const NDArray> head_grads, GradOptions options) {
  TapeGraph tape("autograd::Grad", heads);
  std::vector<NodeEntry> wanted;
  for (size_t i = 0; i < variables.size(); ++i) {
    if (variables[i].is_none()) {
      throw InvalidArgument("autograd::Grad: variable ", i, " is no array (is_none())");
    }
    if (NodeOf(variables[i]) == nullptr) {
      throw FailedPrecondition("autograd::Grad: variable ", i, " of shape ", variables[i].shape(),
                               " is not on the tape; expected AttachGrad before it is used");
    }
    wanted.push_back(ArrayAccess::Entry(variables[i]));
  }
  const std::vector<NDArray> gradients =
      BackwardRun("autograd::Grad", &tape, heads, head_grads, wanted,
                  std::vector<GradientTarget>(wanted.size()), options.create_graph)
          .Run(options.retain_graph.value_or(options.create_graph));
  for (const NDArray& gradient : gradients) {
    // A gradient that depends on no variable, as a linear function's, is a constant on the tape.
    if (options.create_graph && NodeOf(gradient) == nullptr) MakeVariable(gradient, {}, kNullOp);
  }
  return gradients;
}

}  // namespace tessera::autograd
