#ifndef TESSERA_OPS_REGISTRY_H_
#define TESSERA_OPS_REGISTRY_H_

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/base/error.h"
#include "tessera/ops/operator.h"
#include "tessera/ops/operator_entry.h"
#include "tessera/ops/xpu.h"

namespace tessera {

/// All operators of the process, by name. They register themselves before main; afterwards the
/// registry is only read, from any thread.
class OperatorRegistry {
 public:
  /// The process's registry.
  static OperatorRegistry& Get();

  /// The property of the operator with that name or alias, with its parameters set.
  /// Throws UnknownOperator's error, and what Init throws.
  std::unique_ptr<OperatorProperty> Create(std::string_view name,
                                           const ParameterMap& parameters) const;

  /// The entry with that name or alias, or null.
  const OperatorEntry* Find(std::string_view name) const;

  /// What to throw for a name that Find does not know: Error(kNotFound) with the nearest known
  /// name, unless it is an operator of MXNet, which is then said not to be implemented.
  Error UnknownOperator(std::string_view name) const;

  /// Every name, without aliases, in alphabetical order.
  std::vector<std::string> ListNames() const;

  /// For registrations: the entry with that name, made if it is not there.
  OperatorEntry& FindOrAdd(std::string_view name);
  void AddAlias(OperatorEntry& entry, std::string_view alias);

 private:
  OperatorRegistry();
  ~OperatorRegistry();
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

namespace ops_internal {

/// What a registration statement goes on with.
class Registration {
 public:
  explicit Registration(OperatorEntry& entry) : entry_(entry) {}
  Registration& Describe(std::string_view text) {
    entry_.description = text;
    return *this;
  }
  Registration& Alias(std::string_view alias) {
    OperatorRegistry::Get().AddAlias(entry_, alias);
    return *this;
  }

 private:
  OperatorEntry& entry_;
};

/// Registers Property under `name` with Op<device, T> as its implementation on the device that this
/// file is being compiled for: the host's compilation adds property and CPU code, the one by nvcc
/// adds GPU code to the same entry.
template <typename Property, template <typename, typename> class Op>
Registration RegisterOperator(std::string_view name) {
  OperatorEntry& entry = OperatorRegistry::Get().FindOrAdd(name);
  if constexpr (xpu::kDevCPU) {
    entry.create_property = [] { return std::make_unique<Property>(); };
    entry.describe_parameters = [] { return Property::DescribeParameters(); };
  }
  entry.implementations.push_back(
      {.device = xpu::kDevCPU ? DeviceType::kCpu : DeviceType::kGpu,
       .name = "native",
       .supports = nullptr,
       .create = [](const OperatorProperty& property, DType dtype) -> std::unique_ptr<Operator> {
         const auto& typed = static_cast<const Property&>(property);
         return VisitRealDType(dtype, property.TypeString(),
                               [&](auto tag) -> std::unique_ptr<Operator> {
                                 using T = typename decltype(tag)::type;
                                 return std::make_unique<Op<xpu, T>>(typed.param());
                               });
       }});
  return Registration(entry);
}

}  // namespace ops_internal

}  // namespace tessera

/// Registers an operator at namespace scope, inside an unnamed namespace:
///     TESSERA_REGISTER_OPERATOR(Flatten, FlattenProperty, FlattenOp).Describe("…");
/// Property derives from ParameterizedProperty; Op<Device, T> is constructed from its parameters.
#define TESSERA_REGISTER_OPERATOR(name, Property, Op)                                        \
  [[maybe_unused]] const ::tessera::ops_internal::Registration tessera_registration_##name = \
      ::tessera::ops_internal::RegisterOperator<Property, Op>(#name)

#endif  // TESSERA_OPS_REGISTRY_H_
