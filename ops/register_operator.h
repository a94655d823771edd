#ifndef TESSERA_OPS_REGISTER_OPERATOR_H_
#define TESSERA_OPS_REGISTER_OPERATOR_H_

#include <memory>
#include <span>
#include <string_view>
#include <utility>

#include "tessera/base/device.h"
#include "tessera/base/dtype.h"
#include "tessera/ops/operator.h"
#include "tessera/ops/property.h"
#include "tessera/ops/registry.h"
#include "tessera/ops/xpu.h"

// The registration of operators that are one class template for all devices and element types.
namespace tessera::ops_internal {

/// The object that a registration statement continues with.
class Registration {
 public:
  /// `entry` is null if the name is another operator's, whose entry stays as it is.
  explicit Registration(OperatorEntry* entry) : entry_(entry) {}
  Registration& Describe(std::string_view text) {
    if (entry_ != nullptr && entry_->description.empty()) entry_->description = text;
    return *this;
  }
  Registration& Alias(std::string_view alias) {
    if (entry_ != nullptr) OperatorRegistry::Get().AddAlias(*entry_, alias);
    return *this;
  }

 private:
  OperatorEntry* entry_;
};

/// Registers Property under `name`, with Op<device, T> as its implementation on the device that
/// this file is compiled for. The host's compilation adds property and CPU code, and nvcc's adds
/// GPU code to the same entry. Op is constructed from Property's parameters, unless
/// Op::Make(property, in_shape, in_type) returns the operator.
template <typename Property, template <typename, typename> class Op>
Registration RegisterOperator(std::string_view name, const char* file, int line) {
  OperatorRegistration registration{.name = name, .file = file, .line = line};
  if constexpr (xpu::kDevCPU) {
    registration.create_property = [] { return std::make_unique<Property>(); };
    registration.describe_parameters = [] { return Property::DescribeParameters(); };
  }
  registration.implementation = {
      .device = xpu::kDevCPU ? DeviceType::kCpu : DeviceType::kGpu,
      .name = "native",
      .create = [](const OperatorProperty& property, std::span<const TShape> in_shape,
                   std::span<const DType> in_type) -> std::unique_ptr<Operator> {
        const auto& typed = static_cast<const Property&>(property);
        const DType dtype = in_type.empty() ? DType::kFloat32 : in_type[0];
        return VisitRealDType(
            dtype, property.TypeString(), [&](auto tag) -> std::unique_ptr<Operator> {
              using T = typename decltype(tag)::type;
              if constexpr (requires { Op<xpu, T>::Make(typed, in_shape, in_type); }) {
                return Op<xpu, T>::Make(typed, in_shape, in_type);
              } else {
                return std::make_unique<Op<xpu, T>>(typed.param());
              }
            });
      }};
  return Registration(OperatorRegistry::Get().Register(std::move(registration)));
}

}  // namespace tessera::ops_internal

/// Registers an operator at namespace scope, inside an unnamed namespace:
///     TESSERA_REGISTER_OPERATOR(Flatten, FlattenProperty, FlattenOp).Describe("…");
/// Property derives from ParameterizedProperty. Op<Device, T> is constructed from its parameters.
#define TESSERA_REGISTER_OPERATOR(name, Property, Op)                                        \
  [[maybe_unused]] const ::tessera::ops_internal::Registration tessera_registration_##name = \
      ::tessera::ops_internal::RegisterOperator<Property, Op>(#name, __FILE__, __LINE__)

#endif  // TESSERA_OPS_REGISTER_OPERATOR_H_
