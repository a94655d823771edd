#include "tessera/ops/property.h"

#include <algorithm>
#include <map>

#include "tessera/base/checked_size.h"
#include "tessera/base/environment.h"
#include "tessera/base/error.h"
#include "tessera/base/quote.h"
#include "tessera/ops/operator_entry.h"

namespace tessera {
namespace {

// An entry's implementations live as long as the process.
using Implementations = std::vector<const OperatorImplementation*>;

/// Reads the implementations that the setting names, by operator.
std::map<std::string, std::string, std::less<>> ReadSetting() {
  const std::string text = EnvironmentString("TESSERA_IMPLEMENTATIONS", "");
  std::map<std::string, std::string, std::less<>> named;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find(',', begin), text.size());
    const std::string pair = text.substr(begin, end - begin);
    const size_t equals = pair.find('=');
    const bool is_pair = equals != std::string::npos && equals > 0 && equals + 1 < pair.size();
    if (!is_pair || !named.emplace(pair.substr(0, equals), pair.substr(equals + 1)).second) {
      throw InvalidArgument("environment variable TESSERA_IMPLEMENTATIONS=\"", Excerpt(text),
                            "\": expected OPERATOR=IMPLEMENTATION, each operator once, separated "
                            "by commas");
    }
    begin = end + 1;
  }
  return named;
}

/// Returns the implementation that the setting names for an operator, or an empty text.
std::string_view NamedBySetting(std::string_view op) {
  static const auto named = ReadSetting();
  const auto found = named.find(op);
  return found == named.end() ? std::string_view() : found->second;
}

Implementations ImplementationsOn(DeviceType device, const OperatorEntry& entry) {
  Implementations found;
  entry.implementations.With([&](const auto& all) {
    for (const auto& each : all) {
      if (each->device == device) found.push_back(each.get());
    }
  });
  return found;
}

/// The call that an implementation is chosen for.
struct ChoiceCall {
  const OperatorProperty& property;
  Device device;
  std::span<const TShape> in_shape;
  std::span<const DType> in_type;
};

/// Returns "float32(2,3), float32(3,)".
std::string DescribeInputs(const ChoiceCall& call) {
  std::string text;
  for (size_t i = 0; i < call.in_shape.size(); ++i) {
    if (i > 0) text += ", ";
    text += DTypeName(call.in_type[i]);
    text += call.in_shape[i].ToString();
  }
  return text;
}

/// Returns the implementation that OperatorProperty::CreateImplementation uses. `candidates` are
/// those for the device, in the order of the choice.
const OperatorImplementation& Choose(const Implementations& candidates, std::string_view name,
                                     const ChoiceCall& call) {
  const std::string& op = call.property.TypeString();
  std::string_view source = "the attribute __implementation__ names";
  if (name.empty()) {
    name = NamedBySetting(op);
    source = "the setting TESSERA_IMPLEMENTATIONS names";
  }
  std::string refusals;
  for (const OperatorImplementation* const candidate : candidates) {
    if (!name.empty() && candidate->name != name) continue;
    std::string refusal;
    if (candidate->refusal != nullptr) {
      refusal = candidate->refusal(call.property, call.in_shape, call.in_type);
    }
    if (!refusal.empty()) {
      refusals += name.empty() ? "; " + candidate->name + ": " + refusal : ": " + refusal;
      continue;
    }
    for (const OperatorImplementation* const other : candidates) {
      if (other == candidate || other->name != candidate->name) continue;
      throw FailedPrecondition(op, ": implementation \"", candidate->name,
                               "\" is registered twice: at ", candidate->place, " and at ",
                               other->place, "; expected one of that name for ", call.device);
    }
    return *candidate;
  }
  if (name.empty()) {
    throw Unimplemented(
        op, ": no implementation for ", call.device, " with element type ",
        call.in_type.empty() ? DType::kFloat32 : call.in_type[0], " in this build",
        call.device.type == DeviceType::kGpu ? "; GPU code is built by --config=cuda" : "",
        refusals);
  }
  if (!refusals.empty()) {
    throw InvalidArgument(op, ": implementation \"", name, "\", which ", source,
                          ", does not support ", DescribeInputs(call), refusals);
  }
  std::vector<std::string> names;
  for (const OperatorImplementation* const candidate : candidates) names.push_back(candidate->name);
  throw InvalidArgument(op, ": no implementation \"", Excerpt(name), "\", which ", source, ", for ",
                        call.device, "; expected one of ", ListNames(names));
}

}  // namespace

bool OperatorProperty::InferType(std::vector<DType>* in_type, std::vector<DType>* out_type) const {
  DType dtype = DType::kUnknown;
  const std::vector<std::string> arguments = ListArguments();
  const auto meet = [&](DType known, std::string_view what) {
    if (known == DType::kUnknown) return;
    if (dtype == DType::kUnknown) dtype = known;
    if (dtype != known) {
      throw InvalidArgument(TypeString(), ": ", what, " has element type ", known,
                            ", expected that of the other arguments, ", dtype);
    }
  };
  for (size_t i = 0; i < in_type->size(); ++i) {
    meet((*in_type)[i], i < arguments.size() ? arguments[i] : "an argument");
  }
  for (const DType known : *out_type) meet(known, "an output");
  if (dtype == DType::kUnknown) return in_type->empty() && out_type->empty();
  std::fill(in_type->begin(), in_type->end(), dtype);
  std::fill(out_type->begin(), out_type->end(), dtype);
  return true;
}

std::vector<ResourceRequest> OperatorProperty::ForwardResource(std::span<const TShape>) const {
  return {};
}

std::vector<ResourceRequest> OperatorProperty::BackwardResource(std::span<const TShape>) const {
  return {};
}

std::vector<int> OperatorProperty::DeclareBackwardDependency(std::span<const int> out_grad,
                                                             std::span<const int> in_data,
                                                             std::span<const int> out_data) const {
  std::vector<int> all(out_grad.begin(), out_grad.end());
  all.insert(all.end(), in_data.begin(), in_data.end());
  all.insert(all.end(), out_data.begin(), out_data.end());
  return all;
}

std::vector<InplacePair> OperatorProperty::ForwardInplaceOption(std::span<const int>,
                                                                std::span<const int>) const {
  return {};
}

std::vector<InplacePair> OperatorProperty::BackwardInplaceOption(std::span<const int>,
                                                                 std::span<const int>,
                                                                 std::span<const int>,
                                                                 std::span<const int>) const {
  return {};
}

std::unique_ptr<Operator> OperatorProperty::CreateOperator(Device device,
                                                           std::span<const TShape> in_shape,
                                                           std::span<const DType> in_type) const {
  return CreateImplementation("", device, in_shape, in_type);
}

std::unique_ptr<Operator> OperatorProperty::CreateImplementation(
    std::string_view name, Device device, std::span<const TShape> in_shape,
    std::span<const DType> in_type) const {
  TESSERA_DCHECK(entry_ != nullptr);
  const Implementations candidates = ImplementationsOn(device.type, *entry_);
  const OperatorImplementation& chosen =
      Choose(candidates, name, {*this, device, in_shape, in_type});
  std::unique_ptr<Operator> op = chosen.create(*this, in_shape, in_type);
  if (candidates.size() > 1) op->implementation_ = chosen.name;
  return op;
}

std::string OperatorProperty::ChosenImplementation(std::string_view name, Device device,
                                                   std::span<const TShape> in_shape,
                                                   std::span<const DType> in_type) const {
  if (entry_ == nullptr) return "";
  const Implementations candidates = ImplementationsOn(device.type, *entry_);
  if (candidates.size() < 2) return "";
  return Choose(candidates, name, {*this, device, in_shape, in_type}).name;
}

const std::string& OperatorProperty::TypeString() const {
  TESSERA_DCHECK(entry_ != nullptr);
  return entry_->name;
}

std::string_view OperatorProperty::RegisteredName() const {
  return entry_ == nullptr ? std::string_view() : entry_->name;
}

void MergeShape(const OperatorProperty& property, std::string_view what, TShape* shape,
                const TShape& known) {
  const TShape before = *shape;
  if (!shape->Merge(known)) {
    throw InvalidArgument(property.TypeString(), ": ", what, " has shape ", before, ", expected ",
                          known);
  }
}

index_t ProductOfExtents(const OperatorProperty& property, std::string_view what,
                         const TShape& shape, int begin, int end) {
  CheckedSize product = 1;
  for (int i = begin; i < end; ++i) {
    if (shape[i] == TShape::kUnknown) return TShape::kUnknown;
    product = product * shape[i];
  }
  if (!product.valid()) {
    throw InvalidArgument(property.TypeString(), ": ", what, " has shape ", shape,
                          ", whose number of elements does not fit in 63 bits");
  }
  return *product.value();
}

}  // namespace tessera
