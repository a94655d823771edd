#include "tessera/ops/benchmark/layer.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>

#include "tessera/base/error.h"
#include "tessera/ops/registry.h"
#include "tessera/ops/testing/operator_row.h"
#include "tessera/tensor/philox.h"
#include "tessera/tensor/tensor.h"

namespace tessera::ops_benchmark {
namespace {

using ops_testing::OperatorRow;
using ops_testing::Values;

/// Inputs are numbered from 0, head gradients from here.
constexpr uint32_t kFirstHeadGradient = 100;

/// Returns element i of array `number`, in [0, 1): Chris Wellons' hash lowbias32 (2018).
double UniformElement(uint32_t number, uint32_t i) {
  uint32_t x = i + number * 0x9e3779b9u;
  x = (x ^ (x >> 16)) * 0x7feb352du;
  x = (x ^ (x >> 15)) * 0x846ca68bu;
  x ^= x >> 16;
  return (x >> 8) / 16777216.0;
}

struct Shapes {
  std::vector<TShape> in, out;
};

Shapes InferShapes(const OperatorProperty& property, const OperatorCall& call) {
  Shapes shapes{.in = call.inputs, .out = std::vector<TShape>(property.ListOutputs().size())};
  if (!property.InferShape(&shapes.in, &shapes.out)) {
    throw InvalidArgument(call.op, ": the case's inputs do not determine all shapes");
  }
  return shapes;
}

Values ToValues(const TBlob& blob) {
  Values values(blob.shape_);
  for (index_t i = 0; i < values.size(); ++i) values[i] = blob.dptr<float>()[i];
  return values;
}

bool Near(const TBlob& actual, const Values& expected) {
  double largest = 0, error = 0;
  for (index_t i = 0; i < expected.size(); ++i) {
    largest = std::max(largest, std::abs(expected[i]));
    error = std::max(error, std::abs(actual.dptr<float>()[i] - expected[i]));
  }
  return error <= 1e-5 * largest;
}

double Checksum(const TBlob& blob) {
  double sum = 0;
  for (index_t i = 0; i < blob.shape_.Size(); ++i) {
    sum += std::abs(double{blob.dptr<float>()[i]}) * (1 + static_cast<double>(i % 7) / 7);
  }
  return sum;
}

/// "8x64x56x56"
std::string ExtentsText(const TShape& shape) {
  std::string text;
  for (const index_t extent : shape) text += (text.empty() ? "" : "x") + std::to_string(extent);
  return text;
}

std::string NumberText(double number) {
  char text[32];
  std::snprintf(text, sizeof(text), "%.17g", number);
  return text;
}

/// Appends a part to a list, whose empty form is "-".
void Append(std::string* list, char separator, const std::string& part) {
  if (*list == "-") {
    *list = part;
  } else {
    *list += separator + part;
  }
}

}  // namespace

/// Workspace that grows once and is then reused, as the engine's is, and random numbers.
class Layer::Workspace final : public Resource {
 public:
  explicit Workspace(ResourceRequest request) : request_(request) {}

  ResourceRequest request() const override { return request_; }
  Device device() const override { return Device::Cpu(); }
  void* GetSpaceBytes(int64_t size_bytes) override {
    const Shape<1> floats = Shape1((size_bytes + 3) / 4);
    if (space_.shape_[0] < floats[0]) space_.Resize(floats);
    return space_.dptr_;
  }
  PhiloxState* GetRandomState() override { return &random_; }

 private:
  const ResourceRequest request_;
  TensorContainer<cpu, 1, float> space_;
  PhiloxState random_{.seed = 20240229};
};

double BytesOf(const OperatorCall& call) {
  const auto property = OperatorRegistry::Get().Create(call.op, call.parameters);
  const Shapes shapes = InferShapes(*property, call);
  index_t elements = 0;
  for (int i = 0; i < property->NumVisibleOutputs(); ++i) {
    elements += shapes.out[static_cast<size_t>(i)].Size();
  }
  if (call.index_input >= 0) {
    // Elements that are written have been read from the table, unless there is none.
    const index_t indexes = shapes.in[static_cast<size_t>(call.index_input)].Size();
    elements = (shapes.in.size() > 1 ? 2 : 1) * elements + indexes;
  } else {
    for (const TShape& shape : shapes.in) elements += shape.Size();
  }
  return static_cast<double>(sizeof(float)) * static_cast<double>(elements);
}

Layer::Layer(const OperatorCall& call)
    : call_(call), property_(OperatorRegistry::Get().Create(call.op, call.parameters)) {
  const Shapes shapes = InferShapes(*property_, call);
  const std::vector<DType> types(shapes.in.size(), DType::kFloat32);
  operator_ = property_->CreateOperator(Device::Cpu(), shapes.in, types);
  for (size_t i = 0; i < shapes.in.size(); ++i) {
    const bool is_index = static_cast<int>(i) == call.index_input;
    const double low = is_index ? 0 : call.low;
    const double high = is_index ? static_cast<double>(call.index_below) : call.high;
    in_.push_back(Array(shapes.in[i], static_cast<uint32_t>(i), low, high, is_index));
  }
  // Outside of training, values for the gradient alone are not wanted.
  const bool is_train = call.work != Work::kForward;
  const size_t visible = static_cast<size_t>(property_->NumVisibleOutputs());
  for (size_t i = 0; i < shapes.out.size(); ++i) {
    const bool is_wanted = is_train || i < visible;
    out_.push_back(is_wanted ? Array(shapes.out[i], 0, 0, 0, false) : TBlob());
    forward_req_.push_back(is_wanted ? kWriteTo : kNullOp);
  }
  forward_req_.resize(out_.size() + property_->MutatedInputs().size(), kNullOp);

  std::vector<ResourceRequest> requests = property_->ForwardResource(shapes.in);
  if (ComputesGradients()) {
    for (size_t i = 0; i < shapes.out.size(); ++i) {
      out_grad_.push_back(Array(shapes.out[i], kFirstHeadGradient + static_cast<uint32_t>(i),
                                call.low, call.high, false));
    }
    for (size_t i = 0; i < shapes.in.size(); ++i) {
      const int argument = static_cast<int>(i);
      const bool is_wanted =
          call.work == Work::kForwardAndBackward
              ? property_->ArgumentHasGradient(argument) && !property_->IsSequenceState(argument)
              : i == (call.work == Work::kDataGradient ? 0u : 1u);
      in_grad_.push_back(is_wanted ? Array(shapes.in[i], 0, 0, 0, false) : TBlob());
      backward_req_.push_back(is_wanted ? kWriteTo : kNullOp);
    }
    // A workspace serves requests of both kinds, so that one list is right for either call.
    const std::vector<ResourceRequest> backward = property_->BackwardResource(shapes.in);
    for (size_t i = requests.size(); i < backward.size(); ++i) requests.push_back(backward[i]);
  }
  for (const ResourceRequest request : requests) {
    requested_.push_back(workspaces_.emplace_back(std::make_unique<Workspace>(request)).get());
  }
  context_ = {.is_train = is_train, .needs_gradient = is_train, .requested = requested_};
  if (!ComputesOutputs()) Forward();
}

Layer::~Layer() = default;

bool Layer::ComputesOutputs() const {
  return call_.work == Work::kForward || call_.work == Work::kForwardAndBackward;
}

bool Layer::ComputesGradients() const { return call_.work != Work::kForward; }

void Layer::Forward() { operator_->Forward(context_, in_, forward_req_, out_); }

void Layer::Backward() {
  operator_->Backward(context_, out_grad_, in_, out_, backward_req_, in_grad_);
}

void Layer::Run() {
  if (ComputesOutputs()) Forward();
  if (ComputesGradients()) Backward();
}

bool Layer::MatchesReference() {
  Run();
  for (const OperatorRow& row : ops_testing::OperatorRows()) {
    if (row.name != call_.op) continue;
    std::vector<Values> in, mutated;
    for (const TBlob& blob : in_) in.push_back(ToValues(blob));
    for (const int i : property_->MutatedInputs()) mutated.push_back(in[static_cast<size_t>(i)]);
    const std::vector<Values> out = row.forward(call_.parameters, in, &mutated);
    bool matches = true;
    for (size_t i = 0; i < out_.size(); ++i) {
      matches = matches && (forward_req_[i] == kNullOp || Near(out_[i], out[i]));
    }
    if (!ComputesGradients()) return matches;
    const auto grad = row.backward(call_.parameters, {ToValues(out_grad_[0])}, in, out);
    for (size_t i = 0; i < in_.size(); ++i) {
      matches = matches && (backward_req_[i] == kNullOp || Near(in_grad_[i], grad[i]));
    }
    return matches;
  }
  return false;
}

double Layer::Checksum() const {
  double sum = ComputesOutputs() ? ops_benchmark::Checksum(out_[0]) : 0;
  for (size_t i = 0; i < in_grad_.size(); ++i) {
    if (backward_req_[i] != kNullOp) return sum + ops_benchmark::Checksum(in_grad_[i]);
  }
  return sum;
}

std::string Layer::PeerRequest() const {
  std::string parameters = "-", inputs = "-", gradients = "-";
  for (const auto& [name, value] : call_.parameters) Append(&parameters, ';', name + "=" + value);
  for (size_t i = 0; i < in_.size(); ++i) {
    const bool is_index = static_cast<int>(i) == call_.index_input;
    Append(&inputs, ',',
           ExtentsText(in_[i].shape_) +
               (is_index ? ":" + std::to_string(call_.index_below) : std::string()));
  }
  for (size_t i = 0; i < backward_req_.size(); ++i) {
    if (backward_req_[i] != kNullOp) Append(&gradients, ',', std::to_string(i));
  }
  return call_.op + (ComputesOutputs() ? " forward " : " gradients ") + gradients + " " +
         NumberText(call_.low) + " " + NumberText(call_.high) + " " + parameters + " " + inputs;
}

TBlob Layer::Array(const TShape& shape, uint32_t number, double low, double high, bool is_index) {
  const auto memory = std::make_shared<TensorContainer<cpu, 1, float>>(Shape1(shape.Size()));
  memory_.push_back(memory);
  for (index_t i = 0; i < shape.Size(); ++i) {
    const double x = low + (high - low) * UniformElement(number, static_cast<uint32_t>(i));
    memory->dptr_[i] = static_cast<float>(is_index ? std::floor(x) : x);
  }
  return TBlob(memory->dptr_, shape, DType::kFloat32, Device::Cpu());
}

}  // namespace tessera::ops_benchmark
