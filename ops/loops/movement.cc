#include "tessera/ops/loops/movement.h"

#include <algorithm>

#include "tessera/ops/loops/convert_row.h"

namespace tessera::ops_internal {

std::vector<std::pair<std::string, DType>> DTypeChoices() {
  std::vector<std::pair<std::string, DType>> choices;
  for (const DType dtype :
       {DType::kBFloat16, DType::kBool, DType::kFloat16, DType::kFloat32, DType::kFloat64,
        DType::kInt32, DType::kInt64, DType::kInt8, DType::kUint8}) {
    choices.emplace_back(DTypeName(dtype), dtype);
  }
  return choices;
}

std::vector<std::string> NumberedNames(std::string_view prefix, int64_t count) {
  std::vector<std::string> names;
  for (int64_t i = 0; i < count; ++i) names.push_back(std::string(prefix) + std::to_string(i));
  return names;
}

void MergeType(const OperatorProperty& property, std::string_view value, DType* dtype,
               DType known) {
  if (known == DType::kUnknown) return;
  if (*dtype != DType::kUnknown && *dtype != known) {
    throw InvalidArgument(property.TypeString(), ": ", value, " has element type ", *dtype,
                          ", expected ", known);
  }
  *dtype = known;
}

bool InferSameShape(const OperatorProperty& property, std::string_view input, TShape* in,
                    TShape* out) {
  MergeShape(property, "output", out, *in);
  MergeShape(property, input, in, *out);
  return in->known();
}

void StoreConverted(const double* values, index_t n, bool add, DType dtype, void* out) {
  if (IsReal(dtype) || dtype == DType::kBool) {
    StoreRow(values, n, add, dtype, out);
    return;
  }
  constexpr index_t kBlock = 256;
  int64_t block[kBlock];
  for (index_t i = 0; i < n; i += kBlock) {
    const index_t count = std::min(kBlock, n - i);
    LoadRow(values + i, DType::kFloat64, 1, count, block);
    StoreRow(block, count, add, dtype, static_cast<char*>(out) + i * DTypeSizeBytes(dtype));
  }
}

void StoreNumber(const Number& number, DType dtype, void* out) {
  if (IsReal(dtype) || dtype == DType::kBool) {
    const double value = number.value();
    StoreRow(&value, 1, /*add=*/false, dtype, out);
  } else {
    const int64_t bits = number.BitsIn(dtype);
    StoreRow(&bits, 1, /*add=*/false, dtype, out);
  }
}

double RoundedTo(DType dtype, const Number& number) {
  alignas(16) char element[16];
  StoreNumber(number, dtype, element);
  double rounded = 0;
  LoadRow(element, dtype, /*stride=*/1, 1, &rounded);
  return rounded;
}

void FillOnCpu(const StridedView& to, const Number& number, OpReqType req,
               const OpContext& context) {
  alignas(16) char element[16];
  StoreNumber(number, to.dtype, element);
  StridedView from = to;
  from.data = element;
  from.strides = {};
  Move(from, to, req, context);
}

}  // namespace tessera::ops_internal
