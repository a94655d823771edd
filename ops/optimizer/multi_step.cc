#include "tessera/ops/optimizer/multi_step.h"

#include <algorithm>
#include <cstddef>

#include "tessera/base/at.h"
#include "tessera/base/error.h"

namespace tessera::ops_internal {

using base_internal::At;

std::vector<std::string> MultiStepLayout::ListArguments() const {
  std::vector<std::string> kinds = {"weight", "grad"};
  kinds.insert(kinds.end(), states.begin(), states.end());
  if (master) kinds.push_back("weight32");
  std::vector<std::string> names;
  for (int i = 0; i < num_weights; ++i) {
    const std::string number = numbered ? "_" + std::to_string(i) : "";
    for (const std::string& kind : kinds) names.push_back(kind + number);
  }
  names.insert(names.end(), shared.begin(), shared.end());
  return names;
}

std::vector<std::string> MultiStepLayout::ListOutputs() const {
  if (!numbered) return {"output"};
  std::vector<std::string> names;
  for (int i = 0; i < num_weights; ++i) names.push_back("output" + std::to_string(i));
  return names;
}

std::vector<int> MultiStepLayout::MutatedInputs() const {
  std::vector<int> mutated;
  for (int i = 0; i < num_weights; ++i) {
    for (int k = 2; k < arrays_of_weight(); ++k) mutated.push_back(i * arrays_of_weight() + k);
  }
  return mutated;
}

std::vector<InplacePair> MultiStepLayout::ForwardInplaceOption(
    std::span<const int> in_data, std::span<const int> out_data) const {
  std::vector<InplacePair> pairs;
  for (size_t i = 0; i < out_data.size(); ++i) {
    pairs.push_back({in_data[i * At(arrays_of_weight())], out_data[i]});
  }
  return pairs;
}

bool MultiStepLayout::InferShape(const OperatorProperty& property, std::vector<TShape>* in_shape,
                                 std::vector<TShape>* out_shape) const {
  const std::vector<std::string> names = ListArguments();
  bool known = true;
  for (int i = 0; i < num_weights; ++i) {
    known &= InferStepShape(property, names, i * arrays_of_weight(), arrays_of_weight(), in_shape,
                            &(*out_shape)[At(i)]);
  }
  for (size_t k = At(num_weights * arrays_of_weight()); k < in_shape->size(); ++k) {
    MergeShape(property, names[k], &(*in_shape)[k], shared_shape);
  }
  return known;
}

bool MultiStepLayout::InferType(const OperatorProperty& property, std::vector<DType>* in_type,
                                std::vector<DType>* out_type) const {
  const std::vector<std::string> names = ListArguments();
  const size_t first_shared = At(num_weights * arrays_of_weight());
  for (size_t k = first_shared; k < in_type->size(); ++k) {
    MeetType(property, names[k], &(*in_type)[k], DType::kFloat32);
  }
  if (!master) {
    const auto shared_types = in_type->begin() + static_cast<std::ptrdiff_t>(first_shared);
    std::vector<DType> own(in_type->begin(), shared_types);
    const bool known = property.OperatorProperty::InferType(&own, out_type);
    std::copy(own.begin(), own.end(), in_type->begin());
    return known;
  }
  bool known = true;
  for (int i = 0; i < num_weights; ++i) {
    known &= InferMasterStepTypes(property, names, i * arrays_of_weight(), arrays_of_weight(),
                                  in_type, &(*out_type)[At(i)]);
  }
  return known;
}

std::vector<StepArguments> MultiStepLayout::Arguments(std::span<const TBlob> in_data,
                                                      std::span<const OpReqType> req,
                                                      std::span<const TBlob> out_data) const {
  std::vector<StepArguments> arguments;
  for (size_t i = 0; i < out_data.size(); ++i) {
    const auto arrays = in_data.subspan(i * At(arrays_of_weight()), At(arrays_of_weight()));
    const auto state_req = req.subspan(out_data.size() + i * At(num_states()));
    StepArguments& step = arguments.emplace_back(
        MakeStepArguments(arrays, req[i], out_data[i], state_req, num_states()));
    if (!master || !numbered || step.weight.dtype != DType::kFloat32) continue;
    step.states[At(num_states() - 1)] = step.weight;
    step.keeps[At(num_states() - 1)] = false;
  }
  return arguments;
}

void CheckNumberOf(const OperatorProperty& property, std::string_view parameter, size_t given,
                   std::string_view count_name, int count) {
  if (given == At(count)) return;
  throw InvalidArgument(property.TypeString(), ": parameter ", parameter, " has ", given,
                        " numbers, expected ", count_name, ", ", count);
}

}  // namespace tessera::ops_internal
