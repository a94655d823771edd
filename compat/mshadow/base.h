#ifndef MSHADOW_BASE_H_
#define MSHADOW_BASE_H_

// The contents of mshadow's base.h: macros, type flags, layouts, operators, savers and reducers.
//
// `mshadow` is a namespace of its own with exactly mshadow's names, not another name for tessera.
// Programs say `using namespace mshadow` and then define a `relu`, a `sum` or a `Device` of their
// own, which must not conflict with Tessera's. Some programs also add to the namespace.

#include "mshadow/half.h"  // must be first; half.h tells why

// Programs rely on these includes.
#include <algorithm>
#include <cfloat>
#include <climits>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <functional>
#include <iostream>
#include <limits>
#include <sstream>
#include <string>
#include <type_traits>

#include "mshadow/half2.h"
#include "mshadow/logging.h"
#include "mshadow/utils.h"
#include "tessera/base/device.h"
#include "tessera/base/dtype.h"
#include "tessera/base/error.h"
#include "tessera/base/host_device.h"
#include "tessera/base/shape.h"
#include "tessera/tensor/tensor.h"

/// Switches of mshadow's build, which programs test. A value given on the command line is kept.
/// Products always use Tessera's own kernels or cuBLAS.
#ifndef MSHADOW_STAND_ALONE
#define MSHADOW_STAND_ALONE 0
#endif
#ifndef MSHADOW_USE_CBLAS
#define MSHADOW_USE_CBLAS 0
#endif
#ifndef MSHADOW_USE_MKL
#define MSHADOW_USE_MKL 0
#endif
#ifndef MSHADOW_USE_CUDA
#if defined(__CUDACC__)
#define MSHADOW_USE_CUDA 1
#else
#define MSHADOW_USE_CUDA 0
#endif
#endif
#ifndef MSHADOW_USE_CUDNN
#define MSHADOW_USE_CUDNN 0
#endif
#ifndef MSHADOW_USE_CUSOLVER
#define MSHADOW_USE_CUSOLVER 0
#endif
#ifndef MSHADOW_USE_SSE
#define MSHADOW_USE_SSE 0
#endif
#ifndef MSHADOW_USE_F16C
#define MSHADOW_USE_F16C 0
#endif
#ifndef MSHADOW_USE_NVML
#define MSHADOW_USE_NVML 0
#endif
#ifndef MSHADOW_USE_GLOG
#define MSHADOW_USE_GLOG 0
#endif
#ifndef MSHADOW_FORCE_STREAM
#define MSHADOW_FORCE_STREAM 1
#endif
#ifndef MSHADOW_ALLOC_PAD
#define MSHADOW_ALLOC_PAD true
#endif
#ifndef MSHADOW_MIN_PAD_RATIO
#define MSHADOW_MIN_PAD_RATIO 2
#endif
#ifndef MSHADOW_OLD_CUDA
#define MSHADOW_OLD_CUDA 0
#endif
#ifndef MSHADOW_INT64_TENSOR_SIZE
#define MSHADOW_INT64_TENSOR_SIZE 1
#endif
#ifndef MSHADOW_DIST_PS
#define MSHADOW_DIST_PS 0
#endif
#ifndef MSHADOW_RABIT_PS
#define MSHADOW_RABIT_PS 0
#endif
#ifndef MSHADOW_IN_CXX11
#define MSHADOW_IN_CXX11 1
#endif
#ifndef MSHADOW_DEFAULT_DTYPE
#define MSHADOW_DEFAULT_DTYPE = ::mshadow::default_real_t
#endif

/// Attributes of functions: for host and device (functors), for the host only, and so on.
#define MSHADOW_FORCE_INLINE inline __attribute__((always_inline))
#define MSHADOW_XINLINE TESSERA_HD
#define MSHADOW_CINLINE MSHADOW_FORCE_INLINE
#define MSHADOW_CONSTEXPR constexpr
#define MSHADOW_THROW_EXCEPTION noexcept(false)
#define MSHADOW_NO_EXCEPTION noexcept(true)
#define MSHADOW_ALIGNED(bytes) alignas(bytes)

/// Runs a call of CUDA's, or any function. A failure throws, or is printed and ignored.
#define MSHADOW_CUDA_CALL(func)                                                 \
  {                                                                             \
    const cudaError_t mshadow_status = (func);                                  \
    CHECK(mshadow_status == cudaSuccess) << cudaGetErrorString(mshadow_status); \
  }
#define MSHADOW_CATCH_ERROR(func)                     \
  {                                                   \
    try {                                             \
      (func);                                         \
    } catch (const ::std::exception& mshadow_error) { \
      LOG(ERROR) << mshadow_error.what();             \
    }                                                 \
  }

namespace mshadow {

using tessera::cpu;
using tessera::gpu;
using tessera::index_t;
/// mshadow's names for the types of counts and of elements by default.
using openmp_index_t = index_t;
using default_real_t = float;
using real_t = default_real_t;

/// mshadow's constants. No generator here has a buffer of random numbers.
constexpr unsigned kRandBufferSize = 1000000;
constexpr float kPi = 3.1415926f;

/// The number of an element type at run time, as in tessera::DType and in MXNet's files.
enum TypeFlag {
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
  kBfloat16 = 12,
};

/// Maps an element type to its flag: DataType<float>::kFlag is kFloat32.
template <typename DType>
struct DataType {
  static constexpr int kFlag = static_cast<int>(tessera::kDTypeOf<DType>);
  static constexpr int kLanes = 1;
  using ScaleType = std::conditional_t<sizeof(DType) == 2, float, DType>;
};
/// Maps a pair of halves to the flag of half, with two lanes.
template <>
struct DataType<half::half2_t> {
  static constexpr int kFlag = kFloat16;
  static constexpr int kLanes = 2;
  using ScaleType = float;
};
/// The flag of default_real_t.
constexpr int default_type_flag = DataType<default_real_t>::kFlag;

/// Returns the size in bytes of an element of the type with that flag. Throws for an unknown flag.
inline size_t mshadow_sizeof(int type) {
  return static_cast<size_t>(tessera::DTypeSizeBytes(static_cast<tessera::DType>(type)));
}

/// The order of an image tensor's dimensions: number, channel, (depth,) height, width.
enum LayoutFlag {
  kNCHW = 0,
  kNHWC,
  kCHWN,
  kNCW = 1 << 3,
  kNWC,
  kCWN,
  kNCDHW = 1 << 5,
  kNDHWC,
  kCDHWN,
};
/// The default orders of images and of volumes.
constexpr int default_layout = kNCHW;
constexpr int default_layout_5d = kNCDHW;

/// The rank of tensors in a layout. cuDNN's number of the layout is unused and is -1.
template <int layout>
struct LayoutType {
  static constexpr index_t kNdim = layout < kNCW ? 4 : layout < kNCDHW ? 3 : 5;
  static constexpr int kCudnnFlag = -1;
};

namespace op {
using tessera::op::div;
using tessera::op::identity;
using tessera::op::minus;
using tessera::op::mul;
using tessera::op::plus;
using tessera::op::right;
}  // namespace op

namespace sv {
using tessera::sv::divto;
using tessera::sv::minusto;
using tessera::sv::multo;
using tessera::sv::plusto;
using tessera::sv::saveto;
}  // namespace sv

namespace red {
using tessera::red::maximum;
using tessera::red::minimum;
using tessera::red::sum;

/// The lowest and the highest finite value of a type.
namespace limits {
/// Returns the lowest finite value.
template <typename DType>
MSHADOW_XINLINE DType MinValue() {
  return std::numeric_limits<DType>::lowest();
}
/// Returns the highest finite value.
template <typename DType>
MSHADOW_XINLINE DType MaxValue() {
  return std::numeric_limits<DType>::max();
}
/// Return the infinities, or the lowest and highest value of a type without infinities.
template <typename DType>
MSHADOW_XINLINE DType NegInfValue() {
  return maximum::InitialValue<DType>();
}
template <typename DType>
MSHADOW_XINLINE DType PosInfValue() {
  return minimum::InitialValue<DType>();
}
}  // namespace limits
}  // namespace red

// CUDA's own functions of these names are outside std and must not be ambiguous in device code.
#if !TESSERA_DEVICE_CODE
using std::isinf;
using std::isnan;
#endif

namespace compat_internal {

/// Returns a number in a type that can be compared. A 16-bit number becomes a float, because a
/// volatile object of its type cannot be copied.
template <typename DType>
MSHADOW_XINLINE auto Comparable(const volatile DType& number) {
  if constexpr (std::is_class_v<DType>) {
    return static_cast<float>(number);
  } else {
    return static_cast<DType>(number);
  }
}

}  // namespace compat_internal

/// Tests whether a number of any type, volatile or not, is NaN.
namespace isnan_typed {
/// Returns whether the number is NaN; false for integers.
template <typename DType>
MSHADOW_XINLINE bool IsNan(const volatile DType& number) {
  const auto value = compat_internal::Comparable(number);
  return !std::is_integral_v<DType> && value != value;
}
template <typename DType>
MSHADOW_XINLINE bool IsNan(const DType& number) {
  return IsNan(static_cast<const volatile DType&>(number));
}
}  // namespace isnan_typed

/// Tests whether a number of any type, volatile or not, is infinite.
namespace isinf_typed {
/// Returns whether the number is infinite; false for integers.
template <typename DType>
MSHADOW_XINLINE bool IsInf(const volatile DType& number) {
  const auto value = compat_internal::Comparable(number);
  using Value = std::remove_const_t<decltype(value)>;
  return std::numeric_limits<Value>::has_infinity &&
         (value == std::numeric_limits<Value>::infinity() ||
          value == red::limits::NegInfValue<Value>());
}
template <typename DType>
MSHADOW_XINLINE bool IsInf(const DType& number) {
  return IsInf(static_cast<const volatile DType&>(number));
}
}  // namespace isinf_typed

}  // namespace mshadow

#include "mshadow/type_switch.h"

#endif  // MSHADOW_BASE_H_
