#include "tessera/graph/infer_storage.h"

#include <algorithm>
#include <cstddef>
#include <optional>
#include <span>
#include <vector>

#include "tessera/base/at.h"
#include "tessera/graph/backward_property.h"

namespace tessera::graph {
namespace {

using base_internal::At;

/// Returns the types at these positions.
StorageTypes Select(const StorageTypes& types, const std::vector<int>& ids) {
  StorageTypes selected;
  for (const int id : ids) selected.push_back(types[At(id)]);
  return selected;
}

/// Returns the storage types of a node's outputs.
StorageTypes OutputsOf(const Node& node, const StorageTypes& in, int num_outputs) {
  const SparseForm* const form = FindSparseForm(node.property->RegisteredName());
  const StorageTypes unknown(At(num_outputs), StorageType::kUndefined);
  std::optional<StorageTypes> types;
  if (form != nullptr) types = form->Infer(*node.property, in, unknown);
  return types ? *types : StorageTypes(At(num_outputs), StorageType::kDefault);
}

/// Returns the storage types of the gradients of a node's inputs.
StorageTypes GradientsOf(const Node& node, const StorageTypes& out_grad, const StorageTypes& in,
                         const StorageTypes& out) {
  StorageTypes dense(in.size(), StorageType::kDefault);
  const SparseForm* const form = FindSparseForm(node.property->RegisteredName());
  if (form == nullptr) return dense;
  StorageTypes read_grad(out.size(), StorageType::kUndefined), read_out = read_grad;
  StorageTypes read_in(in.size(), StorageType::kUndefined);
  const BackwardProperty backward(node.property);
  for (const BackwardProperty::Source& source : backward.sources()) {
    const size_t i = At(source.index);
    switch (source.role) {
      case BackwardProperty::Role::kOutGrad:
        // An output that nothing reads has a dense gradient of 0.
        read_grad[i] = out_grad[i] == StorageType::kUndefined ? StorageType::kDefault : out_grad[i];
        break;
      case BackwardProperty::Role::kInData:
        read_in[i] = in[i];
        break;
      case BackwardProperty::Role::kOutData:
        read_out[i] = out[i];
        break;
    }
  }
  const StorageTypes unknown(in.size(), StorageType::kUndefined);
  const auto types = form->InferBackward(
      *node.property,
      {.out_grad = read_grad, .in_data = read_in, .out_data = read_out, .in_grad = unknown});
  return types ? *types : dense;
}

/// Adds a summand to a gradient.
void AddGradient(StorageType summand, StorageType* sum) {
  *sum = *sum == StorageType::kUndefined || *sum == summand ? summand : StorageType::kDefault;
}

}  // namespace

bool GraphStorage::HasSparseEntry() const {
  return std::any_of(entries.begin(), entries.end(), [](StorageType type) {
    return type == StorageType::kRowSparse || type == StorageType::kCsr;
  });
}

GraphStorage InferStorage(const IndexedGraph& graph,
                          const std::map<std::string, StorageType>& known) {
  GraphStorage storage;
  storage.gradients.resize(At(graph.num_entries()), StorageType::kUndefined);
  for (int i = 0; i < graph.num_nodes(); ++i) {
    const Node& node = graph.node(i);
    if (node.is_variable()) {
      const auto found = known.find(node.name);
      storage.entries.push_back(found == known.end() ? StorageType::kDefault : found->second);
      continue;
    }
    const StorageTypes out =
        OutputsOf(node, Select(storage.entries, graph.InputIds(i)), graph.NumOutputs(i));
    storage.entries.insert(storage.entries.end(), out.begin(), out.end());
  }
  for (const int head : graph.heads()) {
    AddGradient(storage.entries[At(head)], &storage.gradients[At(head)]);
  }
  for (int i = graph.num_nodes() - 1; i >= 0; --i) {
    const Node& node = graph.node(i);
    if (node.is_variable()) continue;
    std::vector<int> outputs;
    for (int k = 0; k < graph.NumOutputs(i); ++k) outputs.push_back(graph.EntryId(i, k));
    const StorageTypes out_grad = Select(storage.gradients, outputs);
    const auto is_known = [](StorageType type) { return type != StorageType::kUndefined; };
    if (std::none_of(out_grad.begin(), out_grad.end(), is_known)) continue;
    const std::vector<int>& inputs = graph.InputIds(i);
    const StorageTypes gradients = GradientsOf(node, out_grad, Select(storage.entries, inputs),
                                               Select(storage.entries, outputs));
    for (size_t k = 0; k < inputs.size(); ++k) {
      AddGradient(gradients[k], &storage.gradients[At(inputs[k])]);
    }
  }
  return storage;
}

}  // namespace tessera::graph
