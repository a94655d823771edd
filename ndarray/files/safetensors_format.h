#ifndef TESSERA_NDARRAY_FILES_SAFETENSORS_FORMAT_H_
#define TESSERA_NDARRAY_FILES_SAFETENSORS_FORMAT_H_

// The format of safetensors files, little-endian:
//
//   file    u64 length, header, elements
//   header  a JSON object of that length, which spaces may end:
//           {"NAME": {"dtype": "F32", "shape": [2, 3], "data_offsets": [BEGIN, END]}, …,
//            "__metadata__": {"KEY": "TEXT", …}}
//
// Offsets count bytes from the first element. The arrays cover all bytes, and each byte once.
// Source: the documentation of the format at https://huggingface.co/docs/safetensors.

#include <cstdint>
#include <iterator>
#include <string_view>

#include "tessera/base/dtype.h"

namespace tessera::ndarray_internal {

inline constexpr int64_t kMaxHeaderBytes = 100'000'000;
inline constexpr std::string_view kMetadataKey = "__metadata__";

/// The format's name of an element type.
struct SafetensorsType {
  std::string_view name;
  DType dtype;
};
/// All types, in the order in which arrays are written.
inline constexpr SafetensorsType kSafetensorsTypes[] = {
    {"U64", DType::kUint64},    {"I64", DType::kInt64},   {"F64", DType::kFloat64},
    {"F32", DType::kFloat32},   {"U32", DType::kUint32},  {"I32", DType::kInt32},
    {"BF16", DType::kBFloat16}, {"F16", DType::kFloat16}, {"U16", DType::kUint16},
    {"I16", DType::kInt16},     {"I8", DType::kInt8},     {"U8", DType::kUint8},
    {"BOOL", DType::kBool},
};

}  // namespace tessera::ndarray_internal

#endif  // TESSERA_NDARRAY_FILES_SAFETENSORS_FORMAT_H_
