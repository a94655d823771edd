#ifndef TESSERA_OPS_TABLE_H_
#define TESSERA_OPS_TABLE_H_

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "tessera/base/device.h"
#include "tessera/base/dtype.h"
#include "tessera/base/tshape.h"
#include "tessera/ops/operator.h"
#include "tessera/ops/property.h"
#include "tessera/ops/registry.h"

namespace tessera::ops_internal {

/// The table that registers operators: the kind of device that its functions were compiled for, and
/// where its statement stands.
struct TablePlace {
  DeviceType device;
  const char* file;  ///< __FILE__
  int line;          ///< __LINE__
};

/// Registers one operator of a table. make_property() and create(property, shapes, types) return
/// unique pointers. The table for the CPU also registers the operators' properties.
template <typename Property, typename MakeProperty, typename Create>
void RegisterRow(const TablePlace& place, std::string_view name, std::string description,
                 const MakeProperty& make_property, const Create& create) {
  OperatorRegistration registration{.name = name, .file = place.file, .line = place.line};
  if (place.device == DeviceType::kCpu) {
    registration.create_property = make_property;
    registration.describe_parameters = [] { return Property::DescribeParameters(); };
  }
  registration.implementation = {.device = place.device, .name = "native", .create = create};
  OperatorEntry* const entry = OperatorRegistry::Get().Register(std::move(registration));
  if (entry != nullptr && entry->description.empty()) entry->description = std::move(description);
}

}  // namespace tessera::ops_internal

/// The kind of device that the including file is compiled for (xpu.h).
#if defined(TESSERA_XPU_GPU)
#define TESSERA_TABLE_DEVICE ::tessera::DeviceType::kGpu
#else
#define TESSERA_TABLE_DEVICE ::tessera::DeviceType::kCpu
#endif

/// The place of a table, for its registration.
#define TESSERA_TABLE_PLACE \
  ::tessera::ops_internal::TablePlace { TESSERA_TABLE_DEVICE, __FILE__, __LINE__ }

#endif  // TESSERA_OPS_TABLE_H_
