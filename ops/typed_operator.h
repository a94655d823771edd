#ifndef TESSERA_OPS_TYPED_OPERATOR_H_
#define TESSERA_OPS_TYPED_OPERATOR_H_

#include <initializer_list>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include "tessera/base/dtype.h"
#include "tessera/ops/property.h"
#include "tessera/ops/table.h"

namespace tessera::ops_internal {

/// The element types of an operator's first argument.
enum class TakenTypes {
  kReal,  ///< float32, float64, float16, bfloat16
  kAny,
};

/// Registers Property under `name` for the table at `place`, with Op as its implementation for all
/// element types, and returns true. Op is constructed from Property's parameters and, if it takes
/// them, the inputs' shapes, unless Op::Make(property, in_shape, in_type) returns the operator.
template <typename Property, typename Op>
bool RegisterTypedOperator(const TablePlace& place, std::string_view name,
                           std::string_view description, TakenTypes types = TakenTypes::kReal) {
  RegisterRow<Property>(
      place, name, std::string(description), [] { return std::make_unique<Property>(); },
      [types](const OperatorProperty& property, std::span<const TShape> in_shape,
              std::span<const DType> in_type) -> std::unique_ptr<Operator> {
        if (types == TakenTypes::kReal && !in_type.empty()) {
          VisitRealDType(in_type[0], property.TypeString(), [](auto) {});
        }
        const auto& typed = static_cast<const Property&>(property);
        if constexpr (requires { Op::Make(typed, in_shape, in_type); }) {
          return Op::Make(typed, in_shape, in_type);
        } else if constexpr (std::is_constructible_v<Op, decltype(typed.param()),
                                                     std::span<const TShape>>) {
          return std::make_unique<Op>(typed.param(), in_shape);
        } else {
          return std::make_unique<Op>(typed.param());
        }
      });
  return true;
}

/// Returns an array in the workspace that `context.requested[index]` is. An operator requests at
/// most one, because two requests may be given the same memory.
template <typename Dev>
TBlob WorkspaceArray(const OpContext& context, size_t index, const TShape& shape, DType dtype,
                     Device device) {
  void* const data = context.requested[index]->get_space_bytes(shape.Size() * DTypeSizeBytes(dtype),
                                                               context.get_stream<Dev>());
  return TBlob(data, shape, dtype, device);
}

/// Returns such an array on `device`, for operators whose code is the same for every device.
inline TBlob WorkspaceArray(const OpContext& context, size_t index, const TShape& shape,
                            DType dtype, Device device) {
  return device.type == DeviceType::kGpu
             ? WorkspaceArray<gpu>(context, index, shape, dtype, device)
             : WorkspaceArray<cpu>(context, index, shape, dtype, device);
}

/// Merges shapes that must be equal, each given with the name of its value. Throws what MergeShape
/// throws.
inline void MergeEqualShapes(const OperatorProperty& property,
                             std::initializer_list<std::pair<std::string_view, TShape*>> shapes) {
  TShape common;
  for (const auto& [what, shape] : shapes) {
    MergeShape(property, what, shape, common);
    common = *shape;
  }
  for (const auto& [what, shape] : shapes) MergeShape(property, what, shape, common);
}

}  // namespace tessera::ops_internal

#endif  // TESSERA_OPS_TYPED_OPERATOR_H_
