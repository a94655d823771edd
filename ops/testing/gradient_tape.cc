#include "tessera/ops/testing/gradient_tape.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "tessera/base/at.h"
#include "tessera/base/error.h"
#include "tessera/ops/registry.h"
#include "tessera/ops/testing/encoding.h"

namespace tessera::ops_testing {
namespace {

using base_internal::At;

/// No gradient of a small call needs more elements in an array, or more calls.
constexpr double kMostElements = 1e6;
constexpr size_t kMostCalls = 20000;

TestDevice* Cpu() {
  static auto* const device = MakeCpuTestDevice().release();
  return device;
}

/// The resources of one call.
class Resources {
 public:
  explicit Resources(const std::vector<ResourceRequest>& requests) {
    for (const ResourceRequest request : requests) {
      owners_.push_back(std::make_unique<TestResource>(Cpu(), request));
      requested_.push_back(owners_.back().get());
    }
  }

  std::span<Resource* const> requested() const { return requested_; }
  void CheckGuards(const OperatorProperty& property) const {
    for (const auto& resource : owners_) {
      if (!resource->GuardsIntact()) {
        throw Internal(property.TypeString(), ": it has written outside of its workspace");
      }
    }
  }

 private:
  std::vector<std::unique_ptr<TestResource>> owners_;
  std::vector<Resource*> requested_;
};

}  // namespace

/// The gradient of one call, whose values are entries of the tape.
class GradientTape::Builder final : public GradientBuilder {
 public:
  Builder(GradientTape* tape, const Record& call, std::vector<Entry> out_grads)
      : tape_(tape),
        call_(call),
        out_grads_(std::move(out_grads)),
        in_grads_(call.inputs.size(), kZero) {}

  Value OutGrad(int output) override {
    Entry& gradient = out_grads_[At(output)];
    if (gradient == kZero) gradient = tape_->Call1("zeros_like", {&call_.outputs[At(output)], 1});
    return gradient;
  }
  Value Input(int input) override { return call_.inputs[At(input)]; }
  Value Output(int output) override { return call_.outputs[At(output)]; }
  std::vector<Value> Apply(std::string_view op, std::span<const Value> inputs,
                           const ParameterMap& parameters) override {
    return tape_->Call(OperatorRegistry::Get().FindOrCreate(op, parameters), inputs);
  }
  void SetInGrad(int input, Value gradient) override { in_grads_[At(input)] = gradient; }

  const std::vector<Entry>& in_grads() const { return in_grads_; }

 private:
  GradientTape* const tape_;
  const Record& call_;
  std::vector<Entry> out_grads_;
  std::vector<Entry> in_grads_;
};

GradientTape::Entry GradientTape::Add(const TShape& shape, DType dtype) {
  double elements = 1;
  for (const index_t extent : shape) elements *= static_cast<double>(extent);
  if (elements > kMostElements) {
    throw Error(Error::kResourceExhausted, "too many elements on the tape");
  }
  const auto bytes = static_cast<size_t>(shape.Size() * DTypeSizeBytes(dtype));
  // Of the exact size, so that AddressSanitizer sees each access outside of it.
  values_.push_back({bytes == 0 ? nullptr : std::make_unique<std::byte[]>(bytes), shape, dtype});
  return static_cast<Entry>(values_.size()) - 1;
}

GradientTape::Entry GradientTape::AddVariable(const Bytes& contents, const TShape& shape,
                                              DType dtype) {
  const Entry entry = Add(shape, dtype);
  if (!contents.empty()) std::memcpy(value(entry).data.get(), contents.data(), contents.size());
  return entry;
}

TBlob GradientTape::Blob(Entry entry) const {
  const Value& of = value(entry);
  return TBlob(of.data.get(), of.shape, of.dtype, Device::Cpu());
}

Values GradientTape::Read(Entry entry) const {
  const Value& of = value(entry);
  Bytes bytes(static_cast<size_t>(of.shape.Size() * DTypeSizeBytes(of.dtype)));
  if (!bytes.empty()) std::memcpy(bytes.data(), of.data.get(), bytes.size());
  return Decode(bytes, of.shape, of.dtype);
}

std::unique_ptr<Operator> GradientTape::MakeOperator(const Record& call) const {
  std::vector<TShape> in_shape;
  std::vector<DType> in_type;
  for (const Entry input : call.inputs) {
    in_shape.push_back(shape(input));
    in_type.push_back(dtype(input));
  }
  return call.property->CreateOperator(Device::Cpu(), in_shape, in_type);
}

std::vector<GradientTape::Entry> GradientTape::Call(
    std::shared_ptr<const OperatorProperty> property, std::span<const Entry> inputs,
    std::vector<TShape> out_shape) {
  const std::string& name = property->TypeString();
  const size_t num_inputs = property->ListArguments().size();
  if (inputs.size() != num_inputs) {
    throw Internal(name, ": a gradient gives it ", inputs.size(), " inputs, expected ", num_inputs);
  }
  if (calls_.size() >= kMostCalls) {
    throw Error(Error::kResourceExhausted, "too many calls on the tape");
  }
  std::vector<TShape> in_shape;
  std::vector<DType> in_type;
  for (const Entry input : inputs) {
    in_shape.push_back(shape(input));
    in_type.push_back(dtype(input));
  }
  out_shape.resize(property->ListOutputs().size());
  std::vector<DType> out_type(out_shape.size(), DType::kUnknown);
  if (!property->InferShape(&in_shape, &out_shape) || !property->InferType(&in_type, &out_type)) {
    throw Internal(name, ": the outputs' shapes and types do not follow from the inputs'");
  }
  Record call{property, {inputs.begin(), inputs.end()}, {}};
  const std::unique_ptr<Operator> made = MakeOperator(call);
  for (size_t i = 0; i < out_shape.size(); ++i) {
    call.outputs.push_back(Add(out_shape[i], out_type[i]));
  }
  std::vector<TBlob> in_data, out_data;
  for (const Entry input : call.inputs) in_data.push_back(Blob(input));
  for (const Entry output : call.outputs) out_data.push_back(Blob(output));
  std::vector<OpReqType> req(out_data.size(), kWriteTo);
  req.insert(req.end(), property->MutatedInputs().size(), kNullOp);
  const Resources resources(property->ForwardResource(in_shape));
  made->Forward({.is_train = is_train_, .needs_gradient = true, .requested = resources.requested()},
                in_data, req, out_data);
  resources.CheckGuards(*property);
  std::vector<Entry> visible(call.outputs.begin(),
                             call.outputs.begin() + property->NumVisibleOutputs());
  calls_.push_back(std::move(call));
  return visible;
}

GradientTape::Entry GradientTape::Call1(const std::string& op, std::span<const Entry> inputs,
                                        const ParameterMap& parameters) {
  return Call(OperatorRegistry::Get().FindOrCreate(op, parameters), inputs).front();
}

std::vector<GradientTape::Entry> GradientTape::Backward(const Record& call,
                                                        std::vector<Entry> out_grads) {
  const OperatorProperty& property = *call.property;
  const int num_inputs = static_cast<int>(call.inputs.size());
  const int num_outputs = static_cast<int>(call.outputs.size());
  const auto ids = [](int first, int count) {
    std::vector<int> list;
    for (int i = 0; i < count; ++i) list.push_back(first + i);
    return list;
  };
  const std::vector<int> needed =
      property.DeclareBackwardDependency(ids(0, num_outputs), ids(num_outputs, num_inputs),
                                         ids(num_outputs + num_inputs, num_outputs));
  const auto is_needed = [&](int id) {
    return std::find(needed.begin(), needed.end(), id) != needed.end();
  };
  std::vector<TBlob> out_grad, in_data, out_data, in_grad;
  for (int i = 0; i < num_outputs; ++i) {
    Entry& gradient = out_grads[At(i)];
    if (is_needed(i) && gradient == kZero) {
      gradient = Call1("zeros_like", {&call.outputs[At(i)], 1});
    }
    out_grad.push_back(is_needed(i) ? Blob(gradient) : TBlob());
  }
  std::vector<TShape> in_shape;
  for (int i = 0; i < num_inputs; ++i) {
    in_shape.push_back(shape(call.inputs[At(i)]));
    in_data.push_back(is_needed(num_outputs + i) ? Blob(call.inputs[At(i)]) : TBlob());
  }
  for (int i = 0; i < num_outputs; ++i) {
    const bool given = is_needed(num_outputs + num_inputs + i);
    out_data.push_back(given ? Blob(call.outputs[At(i)]) : TBlob());
  }
  std::vector<Entry> in_grads;
  std::vector<OpReqType> req;
  for (int i = 0; i < num_inputs; ++i) {
    const bool has = property.ArgumentHasGradient(i);
    in_grads.push_back(has ? Add(in_shape[At(i)], dtype(call.inputs[At(i)])) : kZero);
    in_grad.push_back(has ? Blob(in_grads.back()) : TBlob());
    req.push_back(has ? kWriteTo : kNullOp);
  }
  const std::unique_ptr<Operator> made = MakeOperator(call);
  const Resources resources(property.BackwardResource(in_shape));
  made->Backward({.is_train = is_train_, .requested = resources.requested()}, out_grad, in_data,
                 out_data, req, in_grad);
  resources.CheckGuards(property);
  return in_grads;
}

std::optional<std::vector<GradientTape::Entry>> GradientTape::Differentiate(
    std::span<const Entry> heads, std::span<const Entry> head_gradients,
    std::span<const Entry> wanted, Form form) {
  std::vector<std::vector<Entry>> contributions(values_.size());
  std::vector<bool> depends(values_.size(), false), is_head(values_.size(), false);
  for (const Entry entry : wanted) depends[At(entry)] = true;
  const auto any = [](const std::vector<Entry>& entries, const std::vector<bool>& of) {
    return std::any_of(entries.begin(), entries.end(), [&](Entry e) { return of[At(e)]; });
  };
  for (const Record& call : calls_) {
    if (!any(call.inputs, depends)) continue;
    for (const Entry output : call.outputs) depends[At(output)] = true;
  }
  for (size_t i = 0; i < heads.size(); ++i) {
    is_head[At(heads[i])] = true;
    contributions[At(heads[i])].push_back(head_gradients[i]);
  }
  const auto sum = [&](Entry entry) {
    std::vector<Entry>& parts = contributions[At(entry)];
    if (parts.size() > 1) {
      parts = {Call1("add_n", parts, {{"num_args", std::to_string(parts.size())}})};
    }
    return parts.empty() ? kZero : parts.front();
  };
  for (size_t i = calls_.size(); i-- > 0;) {
    const Record call = calls_[i];  // new calls move the list
    const OperatorProperty& property = *call.property;
    if (!any(call.inputs, depends)) continue;
    std::vector<Entry> out_grads;
    bool reached = property.IsLoss() && any(call.outputs, is_head);
    for (const Entry output : call.outputs) {
      out_grads.push_back(sum(output));
      reached |= out_grads.back() != kZero;
    }
    if (!reached) continue;
    if (!property.HasGradient()) {
      throw InvalidArgument("a gradient is wanted through ", property.TypeString(),
                            ", which has none");
    }
    bool can_reach = false;
    for (size_t k = 0; k < call.inputs.size(); ++k) {
      can_reach |= depends[At(call.inputs[k])] && property.ArgumentHasGradient(static_cast<int>(k));
    }
    if (!can_reach) continue;
    std::vector<Entry> in_grads;
    if (form == Form::kBackward && property.HasBackward()) {
      in_grads = Backward(call, std::move(out_grads));
    } else {
      Builder builder(this, call, std::move(out_grads));
      if (!property.BuildGradient(&builder)) return std::nullopt;
      in_grads = builder.in_grads();
    }
    for (size_t k = 0; k < call.inputs.size(); ++k) {
      const Entry input = call.inputs[k], gradient = in_grads[k];
      if (gradient == kZero || !property.ArgumentHasGradient(static_cast<int>(k))) continue;
      if (shape(gradient) != shape(input) || dtype(gradient) != dtype(input)) {
        throw Internal(property.TypeString(), ": the gradient of input ", k, " is ",
                       dtype(gradient), " of shape ", shape(gradient), ", expected ", dtype(input),
                       " of shape ", shape(input));
      }
      if (depends[At(input)]) contributions[At(input)].push_back(gradient);
    }
  }
  std::vector<Entry> gradients;
  for (const Entry entry : wanted) gradients.push_back(sum(entry));
  return gradients;
}

}  // namespace tessera::ops_testing
