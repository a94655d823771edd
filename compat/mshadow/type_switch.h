#ifndef MSHADOW_TYPE_SWITCH_H_
#define MSHADOW_TYPE_SWITCH_H_

#include "mshadow/base.h"

// MSHADOW_TYPE_SWITCH(blob.type_flag_, DType, { body over DType }) runs the body with DType as the
// type of that flag. A flag that the switch does not cover throws Error(kInvalidArgument).
//
// A body is compiled for every type of its switch. The types are therefore those of mshadow's own
// switches in 2019, so that programs that support no others compile. bfloat16 came later, in
// MXNet's copy, together with _WITH_BOOL, _EXT and _EXT_WITH_BOOL, which cover it.

namespace mshadow::compat_internal {

[[noreturn]] inline void UnknownFlag(const char* macro, int flag, const char* expected) {
  throw tessera::InvalidArgument(macro, ": flag ", flag, " is none of ", expected);
}

}  // namespace mshadow::compat_internal

#define MSHADOW_INTERNAL_CASE(flag, Type, DType, ...) \
  case flag: {                                        \
    typedef Type DType;                               \
    { __VA_ARGS__ }                                   \
  } break;

#define MSHADOW_INTERNAL_DEFAULT(macro, type, expected) \
  default:                                              \
    ::mshadow::compat_internal::UnknownFlag(macro, static_cast<int>(type), expected);

#define MSHADOW_INTERNAL_REAL_CASES(DType, ...)                          \
  MSHADOW_INTERNAL_CASE(::mshadow::kFloat32, float, DType, __VA_ARGS__)  \
  MSHADOW_INTERNAL_CASE(::mshadow::kFloat64, double, DType, __VA_ARGS__) \
  MSHADOW_INTERNAL_CASE(::mshadow::kFloat16, ::mshadow::half::half_t, DType, __VA_ARGS__)

#define MSHADOW_INTERNAL_INTEGER_CASES(DType, ...)                      \
  MSHADOW_INTERNAL_CASE(::mshadow::kUint8, uint8_t, DType, __VA_ARGS__) \
  MSHADOW_INTERNAL_CASE(::mshadow::kInt8, int8_t, DType, __VA_ARGS__)   \
  MSHADOW_INTERNAL_CASE(::mshadow::kInt32, int32_t, DType, __VA_ARGS__) \
  MSHADOW_INTERNAL_CASE(::mshadow::kInt64, int64_t, DType, __VA_ARGS__)

#define MSHADOW_INTERNAL_BFLOAT16_CASE(DType, ...) \
  MSHADOW_INTERNAL_CASE(::mshadow::kBfloat16, ::mshadow::bfloat::bf16_t, DType, __VA_ARGS__)

#define MSHADOW_INTERNAL_BOOL_CASE(DType, ...) \
  MSHADOW_INTERNAL_CASE(::mshadow::kBool, bool, DType, __VA_ARGS__)

#define MSHADOW_INTERNAL_EXTENDED_CASES(DType, ...)                       \
  MSHADOW_INTERNAL_REAL_CASES(DType, __VA_ARGS__)                         \
  MSHADOW_INTERNAL_BFLOAT16_CASE(DType, __VA_ARGS__)                      \
  MSHADOW_INTERNAL_INTEGER_CASES(DType, __VA_ARGS__)                      \
  MSHADOW_INTERNAL_CASE(::mshadow::kInt16, int16_t, DType, __VA_ARGS__)   \
  MSHADOW_INTERNAL_CASE(::mshadow::kUint16, uint16_t, DType, __VA_ARGS__) \
  MSHADOW_INTERNAL_CASE(::mshadow::kUint32, uint32_t, DType, __VA_ARGS__) \
  MSHADOW_INTERNAL_CASE(::mshadow::kUint64, uint64_t, DType, __VA_ARGS__)

/// Runs the body with DType as the type of a flag: float32, float64, float16, uint8, int8, int32 or
/// int64. Throws Error(kInvalidArgument) for any other flag.
#define MSHADOW_TYPE_SWITCH(type, DType, ...)                                           \
  switch (static_cast<int>(type)) {                                                     \
    MSHADOW_INTERNAL_REAL_CASES(DType, __VA_ARGS__)                                     \
    MSHADOW_INTERNAL_INTEGER_CASES(DType, __VA_ARGS__)                                  \
    MSHADOW_INTERNAL_DEFAULT("MSHADOW_TYPE_SWITCH", type,                               \
                             "float32, float64, float16, uint8, int8, int32 and int64") \
  }
/// Runs the body as MSHADOW_TYPE_SWITCH does, also with half_t for float16. mshadow's variant named
/// half::half2_t, whose loop over pairs overruns an odd number of elements.
#define MSHADOW_TYPE_SWITCH_WITH_HALF2(type, DType, ...) \
  MSHADOW_TYPE_SWITCH(type, DType, __VA_ARGS__)

/// Runs the body as MSHADOW_TYPE_SWITCH does, also for bfloat16 and bool.
#define MSHADOW_TYPE_SWITCH_WITH_BOOL(type, DType, ...)                                            \
  switch (static_cast<int>(type)) {                                                                \
    MSHADOW_INTERNAL_REAL_CASES(DType, __VA_ARGS__)                                                \
    MSHADOW_INTERNAL_BFLOAT16_CASE(DType, __VA_ARGS__)                                             \
    MSHADOW_INTERNAL_INTEGER_CASES(DType, __VA_ARGS__)                                             \
    MSHADOW_INTERNAL_BOOL_CASE(DType, __VA_ARGS__)                                                 \
    MSHADOW_INTERNAL_DEFAULT("MSHADOW_TYPE_SWITCH_WITH_BOOL", type,                                \
                             "float32, float64, float16, bfloat16, uint8, int8, int32, int64 and " \
                             "bool")                                                               \
  }

/// Runs the body for every number type, including integers of 16 bits and unsigned ones of all
/// sizes.
#define MSHADOW_TYPE_SWITCH_EXT(type, DType, ...)                                         \
  switch (static_cast<int>(type)) {                                                       \
    MSHADOW_INTERNAL_EXTENDED_CASES(DType, __VA_ARGS__)                                   \
    MSHADOW_INTERNAL_DEFAULT("MSHADOW_TYPE_SWITCH_EXT", type,                             \
                             "float32, float64, float16, bfloat16 and the integer types") \
  }

/// Runs the body for every element type.
#define MSHADOW_TYPE_SWITCH_EXT_WITH_BOOL(type, DType, ...)                                     \
  switch (static_cast<int>(type)) {                                                             \
    MSHADOW_INTERNAL_EXTENDED_CASES(DType, __VA_ARGS__)                                         \
    MSHADOW_INTERNAL_BOOL_CASE(DType, __VA_ARGS__)                                              \
    MSHADOW_INTERNAL_DEFAULT("MSHADOW_TYPE_SWITCH_EXT_WITH_BOOL", type,                         \
                             "float32, float64, float16, bfloat16, bool and the integer types") \
  }

/// Runs the body only for float32 and float64.
#define MSHADOW_SGL_DBL_TYPE_SWITCH(type, DType, ...)                                    \
  switch (static_cast<int>(type)) {                                                      \
    MSHADOW_INTERNAL_CASE(::mshadow::kFloat32, float, DType, __VA_ARGS__)                \
    MSHADOW_INTERNAL_CASE(::mshadow::kFloat64, double, DType, __VA_ARGS__)               \
    MSHADOW_INTERNAL_DEFAULT("MSHADOW_SGL_DBL_TYPE_SWITCH", type, "float32 and float64") \
  }

/// Runs the body only for float32, float64 and float16.
#define MSHADOW_REAL_TYPE_SWITCH(type, DType, ...)                                             \
  switch (static_cast<int>(type)) {                                                            \
    MSHADOW_INTERNAL_REAL_CASES(DType, __VA_ARGS__)                                            \
    MSHADOW_INTERNAL_DEFAULT("MSHADOW_REAL_TYPE_SWITCH", type, "float32, float64 and float16") \
  }

/// Runs the body with DType and DLargeType, the type in which sums of DType accumulate: float for
/// float16.
#define MSHADOW_REAL_TYPE_SWITCH_EX(type, DType, DLargeType, ...)                                 \
  switch (static_cast<int>(type)) {                                                               \
    MSHADOW_INTERNAL_CASE(::mshadow::kFloat32, float, DType, typedef float DLargeType;            \
                          __VA_ARGS__)                                                            \
    MSHADOW_INTERNAL_CASE(::mshadow::kFloat64, double, DType, typedef double DLargeType;          \
                          __VA_ARGS__)                                                            \
    MSHADOW_INTERNAL_CASE(::mshadow::kFloat16, ::mshadow::half::half_t, DType,                    \
                          typedef float DLargeType;                                               \
                          __VA_ARGS__)                                                            \
    MSHADOW_INTERNAL_DEFAULT("MSHADOW_REAL_TYPE_SWITCH_EX", type, "float32, float64 and float16") \
  }

#define MSHADOW_INTERNAL_INDEX_SWITCH(macro, type, DType, ...)            \
  switch (static_cast<int>(type)) {                                       \
    MSHADOW_INTERNAL_INTEGER_CASES(DType, __VA_ARGS__)                    \
    MSHADOW_INTERNAL_DEFAULT(macro, type, "uint8, int8, int32 and int64") \
  }

/// Runs the body only for uint8, int8, int32 and int64.
#define MSHADOW_IDX_TYPE_SWITCH(type, DType, ...) \
  MSHADOW_INTERNAL_INDEX_SWITCH("MSHADOW_IDX_TYPE_SWITCH", type, DType, __VA_ARGS__)

/// Runs the body as MSHADOW_IDX_TYPE_SWITCH does; its name in 2017.
#define MSHADOW_INT_TYPE_SWITCH(type, DType, ...) \
  MSHADOW_INTERNAL_INDEX_SWITCH("MSHADOW_INT_TYPE_SWITCH", type, DType, __VA_ARGS__)

#define MSHADOW_INTERNAL_LAYOUT_CASE(layout, Layout, ...) \
  case ::mshadow::layout: {                               \
    const int Layout = ::mshadow::layout;                 \
    { __VA_ARGS__ }                                       \
  } break;

/// Runs the body with Layout as a constant: NCHW, NHWC, NCDHW or NDHWC. Throws
/// Error(kInvalidArgument) for any other layout.
#define MSHADOW_LAYOUT_SWITCH(layout, Layout, ...)                                           \
  switch (static_cast<int>(layout)) {                                                        \
    MSHADOW_INTERNAL_LAYOUT_CASE(kNCHW, Layout, __VA_ARGS__)                                 \
    MSHADOW_INTERNAL_LAYOUT_CASE(kNHWC, Layout, __VA_ARGS__)                                 \
    MSHADOW_INTERNAL_LAYOUT_CASE(kNCDHW, Layout, __VA_ARGS__)                                \
    MSHADOW_INTERNAL_LAYOUT_CASE(kNDHWC, Layout, __VA_ARGS__)                                \
    MSHADOW_INTERNAL_DEFAULT("MSHADOW_LAYOUT_SWITCH", layout, "NCHW, NHWC, NCDHW and NDHWC") \
  }

#endif  // MSHADOW_TYPE_SWITCH_H_
