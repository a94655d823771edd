#include "tessera/tests/gradients/graph_values.h"

#include <algorithm>
#include <memory>

#include "tessera/base/at.h"
#include "tessera/base/error.h"
#include "tessera/graph/backward_property.h"
#include "tessera/graph/graph.h"
#include "tessera/graph/infer.h"
#include "tessera/ops/testing/encoding.h"
#include "tessera/ops/testing/test_device.h"

namespace tessera::gradient_testing {
namespace {

using base_internal::At;
using graph::BackwardProperty;
using graph::IndexedGraph;
using graph::Node;
using graph::NodeEntry;
using ops_testing::Bytes;
using ops_testing::GuardedBuffer;
using ops_testing::TestResource;
using ops_testing::Values;

ops_testing::TestDevice* Device() {
  static auto* const device = ops_testing::MakeCpuTestDevice().release();
  return device;
}

/// A graph with the shapes and types of its entries.
struct TypedGraph {
  IndexedGraph graph;
  std::vector<TShape> shapes;
  std::vector<DType> types;

  TypedGraph(const std::vector<NodeEntry>& heads, const Feed& feed) : graph(heads) {
    std::map<std::string, TShape> known_shapes;
    std::map<std::string, DType> known_types;
    for (const auto* list : {&graph.arguments(), &graph.aux_states()}) {
      for (const int id : *list) {
        const auto found = feed.find(graph.node(id).name);
        if (found == feed.end()) continue;
        known_shapes[found->first] = found->second.values.shape;
        known_types[found->first] = found->second.dtype;
      }
    }
    shapes = InferShapes(graph, known_shapes).entries;
    types = InferTypes(graph, known_types).entries;
  }
};

class Evaluation {
 public:
  Evaluation(const TypedGraph& typed, const Feed& feed, bool is_train)
      : typed_(typed), is_train_(is_train), buffers_(At(typed.graph.num_entries())) {
    for (int i = 0; i < typed.graph.num_nodes(); ++i) {
      const Node& node = typed.graph.node(i);
      if (node.is_variable()) {
        const FedValue& value = feed.at(node.name);
        buffers_[At(typed.graph.EntryId(i, 0))] =
            std::make_unique<GuardedBuffer>(Device(), Encode(value.values, value.dtype));
      } else {
        Run(i);
      }
    }
  }

  Values ValueOf(int entry) const {
    return ops_testing::Decode(buffers_[At(entry)]->Read(), typed_.shapes[At(entry)],
                               typed_.types[At(entry)]);
  }

 private:
  TBlob Blob(int entry) const {
    return TBlob(buffers_[At(entry)]->data(), typed_.shapes[At(entry)], typed_.types[At(entry)],
                 Device()->device());
  }

  void Run(int id) {
    const IndexedGraph& graph = typed_.graph;
    const Node& node = graph.node(id);
    const auto* const backward = dynamic_cast<const BackwardProperty*>(node.property.get());
    const OperatorProperty& property = backward == nullptr ? *node.property : *backward->forward();
    std::vector<TShape> in_shape;
    std::vector<DType> in_type;
    for (const NodeEntry& input : (backward == nullptr ? node : *node.forward).inputs) {
      in_shape.push_back(typed_.shapes[At(graph.EntryId(input))]);
      in_type.push_back(typed_.types[At(graph.EntryId(input))]);
    }
    std::vector<TBlob> inputs, outputs;
    for (const int input : graph.InputIds(id)) inputs.push_back(Blob(input));
    for (int k = 0; k < graph.NumOutputs(id); ++k) {
      const int entry = graph.EntryId(id, k);
      const int64_t bytes =
          typed_.shapes[At(entry)].Size() * DTypeSizeBytes(typed_.types[At(entry)]);
      buffers_[At(entry)] =
          std::make_unique<GuardedBuffer>(Device(), Bytes(static_cast<size_t>(bytes)));
      outputs.push_back(Blob(entry));
    }
    const auto op = property.CreateOperator(Device()->device(), in_shape, in_type);
    std::vector<std::unique_ptr<TestResource>> resources;
    std::vector<Resource*> requested;
    for (const ResourceRequest request : backward == nullptr
                                             ? property.ForwardResource(in_shape)
                                             : property.BackwardResource(in_shape)) {
      resources.push_back(std::make_unique<TestResource>(Device(), request));
      requested.push_back(resources.back().get());
    }
    const OpContext context{.is_train = is_train_, .needs_gradient = true, .requested = requested};
    std::vector<OpReqType> req(outputs.size(), kWriteTo);
    if (backward == nullptr) {
      req.insert(req.end(), property.MutatedInputs().size(), kNullOp);
      return op->Forward(context, inputs, req, outputs);
    }
    std::vector<TBlob> out_grad(property.ListOutputs().size()), in_data(in_shape.size()),
        out_data(out_grad.size());
    for (size_t i = 0; i < inputs.size(); ++i) {
      const auto& [role, index] = backward->sources()[i];
      auto& list = role == BackwardProperty::Role::kOutGrad  ? out_grad
                   : role == BackwardProperty::Role::kInData ? in_data
                                                             : out_data;
      list[At(index)] = inputs[i];
    }
    for (size_t i = 0; i < req.size(); ++i) {
      if (!property.ArgumentHasGradient(static_cast<int>(i))) req[i] = kNullOp;
    }
    op->Backward(context, out_grad, in_data, out_data, req, outputs);
  }

  const TypedGraph& typed_;
  const bool is_train_;
  std::vector<std::unique_ptr<GuardedBuffer>> buffers_;
};

}  // namespace

std::vector<Values> Evaluate(const std::vector<NodeEntry>& heads, const Feed& feed, bool is_train) {
  const TypedGraph typed(heads, feed);
  const Evaluation evaluation(typed, feed, is_train);
  std::vector<Values> values;
  for (const int head : typed.graph.heads()) values.push_back(evaluation.ValueOf(head));
  return values;
}

bool IsInDouble(const std::vector<NodeEntry>& heads, const Feed& feed) {
  const TypedGraph typed(heads, feed);
  for (const int head : typed.graph.heads()) {
    if (typed.types[At(head)] != DType::kFloat64) return false;
  }
  return std::all_of(typed.types.begin(), typed.types.end(),
                     [](DType dtype) { return !IsReal(dtype) || dtype == DType::kFloat64; });
}

bool HasBackwardNode(const std::vector<NodeEntry>& heads) {
  const IndexedGraph graph(heads);
  return std::any_of(graph.nodes().begin(), graph.nodes().end(),
                     [](const Node* node) { return node->forward != nullptr; });
}

}  // namespace tessera::gradient_testing
