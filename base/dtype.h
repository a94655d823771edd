#ifndef TESSERA_BASE_DTYPE_H_
#define TESSERA_BASE_DTYPE_H_

#include <cstdint>
#include <optional>
#include <ostream>
#include <string_view>
#include <utility>

#include "tessera/base/error.h"
#include "tessera/base/float16.h"

namespace tessera {

/// The type of an array's elements. The numbers are those of MXNet's type flags, which its files
/// hold; -1 means "not known yet" during type inference.
enum class DType : int {
  kUnknown = -1,
  kFloat32 = 0,
  kFloat64 = 1,
  kFloat16 = 2,
  kUint8 = 3,
  kInt32 = 4,
  kInt8 = 5,
  kInt64 = 6,
  kBool = 7,
  kInt16 = 8,
  kUint16 = 9,
  kUint32 = 10,
  kUint64 = 11,
  kBFloat16 = 12,
};

/// DTypeOf<float>::value is DType::kFloat32, and so on for every element type.
template <typename T>
struct DTypeOf;
template <>
struct DTypeOf<float> : std::integral_constant<DType, DType::kFloat32> {};
template <>
struct DTypeOf<double> : std::integral_constant<DType, DType::kFloat64> {};
template <>
struct DTypeOf<half_t> : std::integral_constant<DType, DType::kFloat16> {};
template <>
struct DTypeOf<uint8_t> : std::integral_constant<DType, DType::kUint8> {};
template <>
struct DTypeOf<int32_t> : std::integral_constant<DType, DType::kInt32> {};
template <>
struct DTypeOf<int8_t> : std::integral_constant<DType, DType::kInt8> {};
template <>
struct DTypeOf<int64_t> : std::integral_constant<DType, DType::kInt64> {};
template <>
struct DTypeOf<bool> : std::integral_constant<DType, DType::kBool> {};
template <>
struct DTypeOf<int16_t> : std::integral_constant<DType, DType::kInt16> {};
template <>
struct DTypeOf<uint16_t> : std::integral_constant<DType, DType::kUint16> {};
template <>
struct DTypeOf<uint32_t> : std::integral_constant<DType, DType::kUint32> {};
template <>
struct DTypeOf<uint64_t> : std::integral_constant<DType, DType::kUint64> {};
template <>
struct DTypeOf<bfloat16_t> : std::integral_constant<DType, DType::kBFloat16> {};

/// DTypeOf<T>::value.
template <typename T>
inline constexpr DType kDTypeOf = DTypeOf<T>::value;

/// Wraps an element type so that a generic lambda can receive it: `using T = decltype(tag)::type`.
template <typename T>
struct TypeTag {
  using type = T;  ///< the element type
};

/// Calls `visitor(TypeTag<T>())` with the element type that `dtype` stands for.
/// Throws Error(kInvalidArgument) for kUnknown and for numbers that name no type.
template <typename Visitor>
decltype(auto) VisitDType(DType dtype, Visitor&& visitor) {
  switch (dtype) {
    case DType::kFloat32:
      return visitor(TypeTag<float>());
    case DType::kFloat64:
      return visitor(TypeTag<double>());
    case DType::kFloat16:
      return visitor(TypeTag<half_t>());
    case DType::kUint8:
      return visitor(TypeTag<uint8_t>());
    case DType::kInt32:
      return visitor(TypeTag<int32_t>());
    case DType::kInt8:
      return visitor(TypeTag<int8_t>());
    case DType::kInt64:
      return visitor(TypeTag<int64_t>());
    case DType::kBool:
      return visitor(TypeTag<bool>());
    case DType::kInt16:
      return visitor(TypeTag<int16_t>());
    case DType::kUint16:
      return visitor(TypeTag<uint16_t>());
    case DType::kUint32:
      return visitor(TypeTag<uint32_t>());
    case DType::kUint64:
      return visitor(TypeTag<uint64_t>());
    case DType::kBFloat16:
      return visitor(TypeTag<bfloat16_t>());
    case DType::kUnknown:
      break;
  }
  throw InvalidArgument("dtype ", static_cast<int>(dtype), " names no element type");
}

/// VisitDType for the floating-point types alone. `operation` begins the error for any other type.
template <typename Visitor>
decltype(auto) VisitRealDType(DType dtype, std::string_view operation, Visitor&& visitor);

/// Bytes per element. Throws Error(kInvalidArgument) for kUnknown.
int64_t DTypeSizeBytes(DType dtype);

/// "float32", "bfloat16", "unknown", …
std::string_view DTypeName(DType dtype);

/// The type of that name, or nothing.
std::optional<DType> DTypeFromName(std::string_view name);

/// True for float16, bfloat16, float32 and float64.
bool IsReal(DType dtype);

/// Prints DTypeName(dtype).
std::ostream& operator<<(std::ostream& os, DType dtype);

template <typename Visitor>
decltype(auto) VisitRealDType(DType dtype, std::string_view operation, Visitor&& visitor) {
  switch (dtype) {
    case DType::kFloat32:
      return visitor(TypeTag<float>());
    case DType::kFloat64:
      return visitor(TypeTag<double>());
    case DType::kFloat16:
      return visitor(TypeTag<half_t>());
    case DType::kBFloat16:
      return visitor(TypeTag<bfloat16_t>());
    default:
      break;
  }
  throw InvalidArgument(operation, ": element type ", dtype,
                        " is not supported; expected float32, float64, float16 or bfloat16");
}

}  // namespace tessera

#endif  // TESSERA_BASE_DTYPE_H_
