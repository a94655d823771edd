#include "tessera/graph/testing/evaluate.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <memory>
#include <random>

#include "tessera/base/at.h"
#include "tessera/base/error.h"
#include "tessera/graph/backward_property.h"
#include "tessera/graph/graph.h"
#include "tessera/graph/infer.h"
#include "tessera/ops/operator.h"
#include "tessera/ops/registry.h"

namespace tessera::graph_testing {
namespace {

using base_internal::At;
using graph::BackwardProperty;
using graph::IndexedGraph;
using graph::Node;
using graph::NodeEntry;

/// Workspace. There are no random numbers.
class Workspace final : public Resource {
 public:
  explicit Workspace(ResourceRequest request) : request_(request) {}

  ResourceRequest request() const override { return request_; }
  Device device() const override { return Device::Cpu(); }
  void* GetSpaceBytes(int64_t size_bytes) override {
    constexpr size_t kAlignment = 64;
    space_.resize(static_cast<size_t>(size_bytes) + kAlignment);
    void* aligned = space_.data();
    size_t available = space_.size();
    return std::align(kAlignment, static_cast<size_t>(size_bytes), aligned, available);
  }
  PhiloxState* GetRandomState() override {
    throw Unimplemented("Evaluate: it has no random numbers");
  }

 private:
  const ResourceRequest request_;
  std::vector<std::byte> space_;
};

/// The evaluation of one graph.
class Evaluation {
 public:
  Evaluation(const std::vector<NodeEntry>& heads, const Arrays& variables, bool is_train)
      : graph_(heads), is_train_(is_train) {
    std::map<std::string, TShape> shapes;
    std::map<std::string, DType> types;
    for (const auto* list : {&graph_.arguments(), &graph_.aux_states()}) {
      for (const int id : *list) {
        const std::string& name = graph_.node(id).name;
        shapes[name] = variables.at(name).shape;
        types[name] = variables.at(name).dtype;
      }
    }
    const graph::GraphShapes inferred = InferShapes(graph_, shapes);
    const graph::GraphTypes inferred_types = InferTypes(graph_, types);
    for (int i = 0; i < graph_.num_entries(); ++i) {
      const TShape& shape = inferred.entries[At(i)];
      const DType dtype = inferred_types.entries[At(i)];
      values_.push_back(
          {shape, dtype,
           std::vector<std::byte>(static_cast<size_t>(shape.Size() * DTypeSizeBytes(dtype)))});
    }
  }

  std::vector<Array> Run(Arrays* variables) {
    for (int i = 0; i < graph_.num_nodes(); ++i) {
      const Node& node = graph_.node(i);
      if (node.is_variable()) {
        values_[At(graph_.EntryId(i, 0))] = variables->at(node.name);
      } else if (node.forward != nullptr) {
        Backward(i);
      } else {
        Forward(i);
      }
    }
    for (const int id : graph_.aux_states()) {
      variables->at(graph_.node(id).name) = values_[At(graph_.EntryId(id, 0))];
    }
    std::vector<Array> outputs;
    for (const int head : graph_.heads()) outputs.push_back(values_[At(head)]);
    return outputs;
  }

 private:
  TBlob Blob(int entry) {
    Array& array = values_[At(entry)];
    return {array.bytes.data(), array.shape, array.dtype, Device::Cpu()};
  }
  TBlob Blob(const NodeEntry& entry) { return Blob(graph_.EntryId(entry)); }

  std::vector<TBlob> Outputs(int id) {
    std::vector<TBlob> blobs;
    for (int k = 0; k < graph_.NumOutputs(id); ++k) blobs.push_back(Blob(graph_.EntryId(id, k)));
    return blobs;
  }

  /// Returns the operator for the inputs' shapes and types.
  static std::unique_ptr<Operator> Create(const OperatorProperty& property,
                                          const std::vector<TBlob>& inputs,
                                          std::vector<TShape>* shapes) {
    std::vector<DType> types;
    for (const TBlob& input : inputs) {
      shapes->push_back(input.shape_);
      types.push_back(input.type_flag_);
    }
    return property.CreateOperator(Device::Cpu(), *shapes, types);
  }

  OpContext Context(const std::vector<ResourceRequest>& requests) {
    workspaces_.clear();
    resources_.clear();
    for (const ResourceRequest request : requests) {
      workspaces_.push_back(std::make_unique<Workspace>(request));
      resources_.push_back(workspaces_.back().get());
    }
    return {.is_train = is_train_, .needs_gradient = true, .requested = resources_};
  }

  void Forward(int id) {
    const OperatorProperty& property = *graph_.node(id).property;
    std::vector<TBlob> inputs;
    for (const int input : graph_.InputIds(id)) inputs.push_back(Blob(input));
    std::vector<TShape> shapes;
    const auto op = Create(property, inputs, &shapes);
    const std::vector<TBlob> outputs = Outputs(id);
    std::vector<OpReqType> req(outputs.size(), kWriteTo);
    req.insert(req.end(), property.MutatedInputs().size(), kWriteInplace);
    op->Forward(Context(property.ForwardResource(shapes)), inputs, req, outputs);
  }

  void Backward(int id) {
    const Node& node = graph_.node(id);
    const auto& property = dynamic_cast<const BackwardProperty&>(*node.property);
    std::vector<TBlob> forward_inputs;
    for (const NodeEntry& input : node.forward->inputs) forward_inputs.push_back(Blob(input));
    std::vector<TShape> shapes;
    const auto op = Create(*property.forward(), forward_inputs, &shapes);
    const size_t num_outputs = property.forward()->ListOutputs().size();
    std::vector<TBlob> out_grad(num_outputs), in_data(forward_inputs.size()), out_data(num_outputs);
    for (size_t i = 0; i < property.sources().size(); ++i) {
      const auto& [role, index] = property.sources()[i];
      std::vector<TBlob>& list = role == BackwardProperty::Role::kOutGrad  ? out_grad
                                 : role == BackwardProperty::Role::kInData ? in_data
                                                                           : out_data;
      list[At(index)] = Blob(node.inputs[i]);
    }
    const std::vector<TBlob> in_grad = Outputs(id);
    const std::vector<OpReqType> req(in_grad.size(), kWriteTo);
    op->Backward(Context(property.forward()->BackwardResource(shapes)), out_grad, in_data, out_data,
                 req, in_grad);
  }

  const IndexedGraph graph_;
  const bool is_train_;
  std::vector<Array> values_;  // of each entry
  std::vector<std::unique_ptr<Workspace>> workspaces_;
  std::vector<Resource*> resources_;
};

}  // namespace

Array RandomArray(const TShape& shape, unsigned seed) {
  std::mt19937 random(seed);
  std::uniform_real_distribution<float> uniform(-2, 2);
  std::vector<float> values(static_cast<size_t>(shape.Size()));
  std::generate(values.begin(), values.end(), [&] { return uniform(random); });
  return Array::Of(shape, values);
}

NodeEntry Apply(std::string_view op, const std::string& name, const std::vector<NodeEntry>& inputs,
                const ParameterMap& parameters) {
  return graph::MakeNode(OperatorRegistry::Get().Create(op, parameters), name, inputs);
}

std::vector<std::string> Operators(const std::vector<NodeEntry>& heads) {
  std::vector<std::string> operators;
  const IndexedGraph graph(heads);
  for (const Node* node : graph.nodes()) {
    if (node->is_variable()) continue;
    operators.push_back(node->property->TypeString() + " " + node->name);
  }
  return operators;
}

std::vector<std::string> Variables(const std::vector<NodeEntry>& heads) {
  std::vector<std::string> names;
  const IndexedGraph graph(heads);
  for (const Node* node : graph.nodes()) {
    if (node->is_variable()) names.push_back(node->name);
  }
  return names;
}

std::vector<Array> Evaluate(const std::vector<NodeEntry>& heads, Arrays* variables, bool is_train) {
  return Evaluation(heads, *variables, is_train).Run(variables);
}

std::vector<Array> Evaluate(const std::vector<NodeEntry>& heads, Arrays variables, bool is_train) {
  return Evaluate(heads, &variables, is_train);
}

void ExpectNear(const std::vector<Array>& actual, const std::vector<Array>& expected,
                double tolerance) {
  ASSERT_EQ(actual.size(), expected.size());
  for (size_t i = 0; i < actual.size(); ++i) {
    ASSERT_EQ(actual[i].shape, expected[i].shape) << "output " << i;
    const std::vector<float> a = actual[i].Values(), e = expected[i].Values();
    for (size_t k = 0; k < a.size(); ++k) {
      const double x = static_cast<double>(a[k]), y = static_cast<double>(e[k]);
      const double bound = tolerance * std::max({1.0, std::abs(x), std::abs(y)});
      ASSERT_LE(std::abs(x - y), bound) << "output " << i << ", element " << k;
    }
  }
}

}  // namespace tessera::graph_testing
