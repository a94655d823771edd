#include "tessera/graph/backward_property.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "tessera/base/at.h"
#include "tessera/base/error.h"

namespace tessera::graph {
namespace {

using base_internal::At;

constexpr int kNone = -1;

std::vector<int> Count(int first, int count) {
  std::vector<int> ids(At(count));
  std::iota(ids.begin(), ids.end(), first);
  return ids;
}

}  // namespace

BackwardProperty::BackwardProperty(std::shared_ptr<const OperatorProperty> forward,
                                   bool reads_output)
    : forward_(std::move(forward)),
      name_("_backward_" + forward_->TypeString()),
      num_inputs_(static_cast<int>(forward_->ListArguments().size())),
      num_outputs_(static_cast<int>(forward_->ListOutputs().size())) {
  // Ids: the outputs' gradients, then the inputs, then the outputs.
  const std::vector<int> out_grad = Count(0, num_outputs_);
  const std::vector<int> in_data = Count(num_outputs_, num_inputs_);
  const std::vector<int> out_data = Count(num_outputs_ + num_inputs_, num_outputs_);
  std::vector<int> needed = forward_->DeclareBackwardDependency(out_grad, in_data, out_data);
  if (reads_output) needed.push_back(out_data[0]);
  std::sort(needed.begin(), needed.end());
  needed.erase(std::unique(needed.begin(), needed.end()), needed.end());
  const int num_visible = forward_->NumVisibleOutputs();
  for (const int id : needed) {
    if (id < num_outputs_) {
      // No graph reads a hidden output, so its gradient is an empty blob.
      if (id < num_visible) sources_.push_back({Role::kOutGrad, id});
    } else if (id < num_outputs_ + num_inputs_) {
      sources_.push_back({Role::kInData, id - num_outputs_});
    } else {
      sources_.push_back({Role::kOutData, id - num_outputs_ - num_inputs_});
    }
  }
}

std::vector<std::string> BackwardProperty::ListArguments() const {
  const std::vector<std::string> arguments = forward_->ListArguments();
  const std::vector<std::string> outputs = forward_->ListOutputs();
  std::vector<std::string> names;
  for (const auto& [role, index] : sources_) {
    names.push_back(role == Role::kInData ? arguments[At(index)] : outputs[At(index)]);
    if (role == Role::kOutGrad) names.back() += "_grad";
  }
  return names;
}

std::vector<std::string> BackwardProperty::ListOutputs() const {
  std::vector<std::string> names = forward_->ListArguments();
  for (std::string& name : names) name += "_grad";
  return names;
}

template <typename T, typename Infer>
bool BackwardProperty::InferBy(std::vector<T>* in, std::vector<T>* out, const T& unknown,
                               const Infer& infer) const {
  // An input's gradient is like the input, an output's gradient like the output.
  std::vector<T> inputs = *out, outputs(At(num_outputs_), unknown);
  const auto like = [&](const Source& source) -> T& {
    return source.role == Role::kInData ? inputs[At(source.index)] : outputs[At(source.index)];
  };
  for (size_t i = 0; i < sources_.size(); ++i) {
    if ((*in)[i] != unknown) like(sources_[i]) = (*in)[i];
  }
  infer(&inputs, &outputs);
  *out = inputs;
  for (size_t i = 0; i < sources_.size(); ++i) (*in)[i] = like(sources_[i]);
  const auto known = [](const T& value) {
    if constexpr (std::is_same_v<T, TShape>) {
      return value.known();
    } else {
      return value != DType::kUnknown;
    }
  };
  return std::all_of(in->begin(), in->end(), known) && std::all_of(out->begin(), out->end(), known);
}

bool BackwardProperty::InferShape(std::vector<TShape>* in_shape,
                                  std::vector<TShape>* out_shape) const {
  return InferBy(in_shape, out_shape, TShape(),
                 [this](auto* in, auto* out) { forward_->InferShape(in, out); });
}

bool BackwardProperty::InferType(std::vector<DType>* in_type, std::vector<DType>* out_type) const {
  return InferBy(in_type, out_type, DType::kUnknown,
                 [this](auto* in, auto* out) { forward_->InferType(in, out); });
}

std::vector<InplacePair> BackwardProperty::ForwardInplaceOption(
    std::span<const int> in_data, std::span<const int> out_data) const {
  std::vector<int> out_grad(At(num_outputs_), kNone), inputs(At(num_inputs_), kNone),
      outputs(At(num_outputs_), kNone);
  for (size_t i = 0; i < sources_.size(); ++i) {
    const auto& [role, index] = sources_[i];
    auto& list = role == Role::kOutGrad ? out_grad : role == Role::kInData ? inputs : outputs;
    list[At(index)] = in_data[i];
  }
  std::vector<InplacePair> pairs =
      forward_->BackwardInplaceOption(out_grad, inputs, outputs, out_data);
  std::erase_if(pairs, [](const InplacePair& pair) { return pair.source == kNone; });
  return pairs;
}

std::unique_ptr<Operator> BackwardProperty::CreateOperator(Device, std::span<const TShape>,
                                                           std::span<const DType>) const {
  throw Internal(name_, ": it is called through ", forward_->TypeString());
}

}  // namespace tessera::graph
