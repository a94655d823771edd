#include "tessera/base/dtype.h"

namespace tessera {
namespace {

struct NamedDType {
  DType dtype;
  std::string_view name;
};

constexpr NamedDType kNames[] = {
    {DType::kFloat32, "float32"},  {DType::kFloat64, "float64"}, {DType::kFloat16, "float16"},
    {DType::kUint8, "uint8"},      {DType::kInt32, "int32"},     {DType::kInt8, "int8"},
    {DType::kInt64, "int64"},      {DType::kBool, "bool"},       {DType::kInt16, "int16"},
    {DType::kUint16, "uint16"},    {DType::kUint32, "uint32"},   {DType::kUint64, "uint64"},
    {DType::kBFloat16, "bfloat16"}};

}  // namespace

int64_t DTypeSizeBytes(DType dtype) {
  return VisitDType(dtype, [](auto tag) -> int64_t {
    return static_cast<int64_t>(sizeof(typename decltype(tag)::type));
  });
}

std::string_view DTypeName(DType dtype) {
  for (const NamedDType& named : kNames) {
    if (named.dtype == dtype) return named.name;
  }
  return "unknown";
}

std::optional<DType> DTypeFromName(std::string_view name) {
  for (const NamedDType& named : kNames) {
    if (named.name == name) return named.dtype;
  }
  return std::nullopt;
}

bool IsReal(DType dtype) {
  return dtype == DType::kFloat32 || dtype == DType::kFloat64 || dtype == DType::kFloat16 ||
         dtype == DType::kBFloat16;
}

std::ostream& operator<<(std::ostream& os, DType dtype) { return os << DTypeName(dtype); }

}  // namespace tessera
