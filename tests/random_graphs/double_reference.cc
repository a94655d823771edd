#include "tessera/tests/random_graphs/double_reference.h"

#include <algorithm>
#include <cmath>
#include <span>

#include "tessera/base/at.h"
#include "tessera/base/error.h"
#include "tessera/ops/registry.h"
#include "tessera/resource/resource.h"
#include "tessera/tensor/philox.h"

namespace tessera {
namespace {

using base_internal::At;

TBlob Blob(std::vector<double>* values, const TShape& shape) {
  return TBlob(values->data(), shape, DType::kFloat64, Device::Cpu());
}

/// A workspace, or the generator that all nodes share.
class ReferenceResource final : public Resource {
 public:
  ReferenceResource(ResourceRequest request, PhiloxState* random)
      : request_(request), random_(random) {}

  ResourceRequest request() const override { return request_; }
  Device device() const override { return Device::Cpu(); }
  void* GetSpaceBytes(int64_t size_bytes) override {
    // Doubles of cache lines, so that the space is aligned.
    space_.resize(static_cast<size_t>(size_bytes) / sizeof(Line) + 1);
    return space_.data();
  }
  PhiloxState* GetRandomState() override { return random_; }

 private:
  struct alignas(64) Line {
    char bytes[64];
  };
  const ResourceRequest request_;
  PhiloxState* const random_;
  std::vector<Line> space_;
};

}  // namespace

/// A node's operator with its resources.
struct DoubleReference::Call {
  Call(const RandomGraph& graph, const RandomGraph::Node& node, PhiloxState* random) {
    property = OperatorRegistry::Get().Create(node.op, node.parameters);
    std::vector<TShape> in_shapes;
    for (const int value : node.inputs) in_shapes.push_back(graph.shapes[At(value)]);
    const std::vector<DType> in_types(in_shapes.size(), DType::kFloat64);
    run = property->CreateOperator(Device::Cpu(), in_shapes, in_types);
    for (const ResourceRequest request : property->ForwardResource(in_shapes)) {
      forward_resources.push_back(std::make_unique<ReferenceResource>(request, random));
    }
    for (const ResourceRequest request : property->BackwardResource(in_shapes)) {
      backward_resources.push_back(std::make_unique<ReferenceResource>(request, random));
    }
  }

  using Resources = std::vector<std::unique_ptr<ReferenceResource>>;
  static std::vector<Resource*> Requested(const Resources& resources) {
    std::vector<Resource*> all;
    for (const auto& resource : resources) all.push_back(resource.get());
    return all;
  }

  std::unique_ptr<OperatorProperty> property;
  std::unique_ptr<Operator> run;
  Resources forward_resources, backward_resources;
};

DoubleReference::DoubleReference(const RandomGraph& graph, uint64_t random_seed)
    : graph_(graph), random_seed_(random_seed), random_(std::make_unique<PhiloxState>()) {
  for (const RandomGraph::Node& node : graph.nodes) {
    calls_.push_back(std::make_unique<Call>(graph, node, random_.get()));
  }
}

DoubleReference::~DoubleReference() = default;

DoubleArrays DoubleReference::Forward(const DoubleArrays& inputs, bool is_train) {
  *random_ = PhiloxState{.seed = random_seed_};
  values_.assign(graph_.shapes.size(), {});
  std::copy(inputs.begin(), inputs.end(), values_.begin());
  for (size_t n = 0; n < graph_.nodes.size(); ++n) {
    const RandomGraph::Node& node = graph_.nodes[n];
    Call& call = *calls_[n];
    std::vector<TBlob> in, out;
    for (const int value : node.inputs)
      in.push_back(Blob(&values_[At(value)], graph_.shapes[At(value)]));
    for (int i = 0; i < node.num_outputs; ++i) {
      const size_t value = At(node.first_output + i);
      values_[value].assign(static_cast<size_t>(graph_.shapes[value].Size()), std::nan(""));
      out.push_back(Blob(&values_[value], graph_.shapes[value]));
    }
    std::vector<OpReqType> requests(out.size(), kWriteTo);
    requests.resize(out.size() + call.property->MutatedInputs().size(), kWriteInplace);
    const std::vector<Resource*> requested = Call::Requested(call.forward_resources);
    call.run->Forward({.is_train = is_train, .needs_gradient = is_train, .requested = requested},
                      in, requests, out);
  }
  DoubleArrays heads;
  for (const int head : graph_.heads) heads.push_back(values_[At(head)]);
  return heads;
}

DoubleArrays DoubleReference::Inputs() const {
  return {values_.begin(), values_.begin() + static_cast<std::ptrdiff_t>(graph_.inputs.size())};
}

DoubleArrays DoubleReference::Backward(const DoubleArrays& head_gradients) {
  DoubleArrays gradients(values_.size());
  for (size_t i = 0; i < values_.size(); ++i) gradients[i].assign(values_[i].size(), 0);
  const auto add = [&gradients](int to, const std::vector<double>& part) {
    std::vector<double>& sum = gradients[At(to)];
    for (size_t i = 0; i < sum.size(); ++i) sum[i] += part[i];
  };
  for (size_t h = 0; h < graph_.heads.size(); ++h) add(graph_.heads[h], head_gradients[h]);
  for (size_t n = graph_.nodes.size(); n-- > 0;) {
    const RandomGraph::Node& node = graph_.nodes[n];
    Call& call = *calls_[n];
    if (!call.property->HasGradient()) continue;
    DoubleArrays parts;
    std::vector<TBlob> out_grad, in, out, in_grad;
    std::vector<OpReqType> requests;
    for (int i = 0; i < node.num_outputs; ++i) {
      const size_t value = At(node.first_output + i);
      out_grad.push_back(Blob(&gradients[value], graph_.shapes[value]));
      out.push_back(Blob(&values_[value], graph_.shapes[value]));
    }
    parts.resize(node.inputs.size());
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      const size_t value = At(node.inputs[i]);
      in.push_back(Blob(&values_[value], graph_.shapes[value]));
      parts[i].assign(values_[value].size(), 0);
      in_grad.push_back(Blob(&parts[i], graph_.shapes[value]));
      requests.push_back(call.property->ArgumentHasGradient(static_cast<int>(i)) ? kWriteTo
                                                                                 : kNullOp);
    }
    if (std::count(requests.begin(), requests.end(), kNullOp) == std::ssize(requests)) continue;
    const std::vector<Resource*> requested = Call::Requested(call.backward_resources);
    call.run->Backward({.is_train = true, .needs_gradient = true, .requested = requested}, out_grad,
                       in, out, requests, in_grad);
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      if (requests[i] != kNullOp) add(node.inputs[i], parts[i]);
    }
  }
  gradients.resize(graph_.inputs.size());
  for (size_t i = 0; i < gradients.size(); ++i) {
    if (graph_.inputs[i].request == kNullOp) gradients[i].clear();
  }
  return gradients;
}

}  // namespace tessera
