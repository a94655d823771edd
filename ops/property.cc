#include "tessera/ops/property.h"

#include <algorithm>

#include "tessera/base/checked_size.h"
#include "tessera/base/error.h"
#include "tessera/ops/operator_entry.h"

namespace tessera {

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
  TESSERA_DCHECK(entry_ != nullptr);
  for (const OperatorImplementation& implementation : entry_->implementations) {
    if (implementation.device != device.type) continue;
    if (implementation.supports != nullptr && !implementation.supports(*this, in_shape, in_type)) {
      continue;
    }
    return implementation.create(*this, in_shape, in_type);
  }
  throw Unimplemented(
      TypeString(), ": no implementation for ", device, " with element type ",
      in_type.empty() ? DType::kFloat32 : in_type[0], " in this build",
      device.type == DeviceType::kGpu ? "; GPU code is built by --config=cuda" : "");
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
