#ifndef TESSERA_OPS_KERNEL_H_
#define TESSERA_OPS_KERNEL_H_

#include <memory>
#include <span>
#include <string_view>
#include <utility>

#include "tessera/base/device.h"
#include "tessera/base/dtype.h"
#include "tessera/ops/operator.h"
#include "tessera/ops/property.h"
#include "tessera/ops/registry.h"
#include "tessera/tensor/tensor.h"

// The header for files that implement operators: tensor expressions and registration.

namespace tessera {

/// The device that the including operator file is compiled for. The build compiles each such file
/// for the host. Under --config=cuda, nvcc compiles it again with TESSERA_XPU_GPU.
#if defined(TESSERA_XPU_GPU)
using xpu = gpu;
#else
using xpu = cpu;
#endif

/// Evaluates dst = e, dst += e or nothing, as `req` says. dst is a handle to the memory.
template <typename Dst, typename E>
void AssignTo(Dst dst, OpReqType req, const E& e) {
  switch (req) {
    case kNullOp:
      break;
    case kWriteTo:
    case kWriteInplace:
      dst = e;
      break;
    case kAddTo:
      dst += e;
      break;
  }
}

namespace ops_internal {

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
/// GPU code to the same entry.
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
      .supports = nullptr,
      .create = [](const OperatorProperty& property, std::span<const TShape>,
                   std::span<const DType> in_type) -> std::unique_ptr<Operator> {
        const auto& typed = static_cast<const Property&>(property);
        const DType dtype = in_type.empty() ? DType::kFloat32 : in_type[0];
        return VisitRealDType(dtype, property.TypeString(),
                              [&](auto tag) -> std::unique_ptr<Operator> {
                                using T = typename decltype(tag)::type;
                                return std::make_unique<Op<xpu, T>>(typed.param());
                              });
      }};
  return Registration(OperatorRegistry::Get().Register(std::move(registration)));
}

}  // namespace ops_internal

}  // namespace tessera

/// Registers an operator at namespace scope, inside an unnamed namespace:
///     TESSERA_REGISTER_OPERATOR(Flatten, FlattenProperty, FlattenOp).Describe("…");
/// Property derives from ParameterizedProperty. Op<Device, T> is constructed from its parameters.
#define TESSERA_REGISTER_OPERATOR(name, Property, Op)                                        \
  [[maybe_unused]] const ::tessera::ops_internal::Registration tessera_registration_##name = \
      ::tessera::ops_internal::RegisterOperator<Property, Op>(#name, __FILE__, __LINE__)

#endif  // TESSERA_OPS_KERNEL_H_
