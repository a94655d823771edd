#ifndef TESSERA_OPS_LOOPS_MAP_GPU_H_
#define TESSERA_OPS_LOOPS_MAP_GPU_H_

#include <cstdint>
#include <type_traits>

#include "tessera/base/dtype.h"
#include "tessera/base/error.h"
#include "tessera/base/host_device.h"
#include "tessera/ops/loops/map.h"
#include "tessera/tensor/device/cuda_check.h"
#include "tessera/tensor/device/cuda_launch.h"
#include "tessera/tensor/stream.h"

// A map on a GPU: one kernel for each functor and type of computation. Included where nvcc
// compiles.
namespace tessera::ops_internal {
inline namespace TESSERA_ISA_NAMESPACE {

/// Reads one element and converts it.
template <typename T>
__device__ T LoadElement(const void* data, DType dtype, index_t i) {
  switch (dtype) {
    case DType::kFloat32:
      return static_cast<T>(static_cast<const float*>(data)[i]);
    case DType::kFloat64:
      return static_cast<T>(static_cast<const double*>(data)[i]);
    case DType::kFloat16:
      return static_cast<T>(static_cast<float>(static_cast<const half_t*>(data)[i]));
    case DType::kBFloat16:
      return static_cast<T>(static_cast<float>(static_cast<const bfloat16_t*>(data)[i]));
    case DType::kUint8:
      return static_cast<T>(static_cast<const uint8_t*>(data)[i]);
    case DType::kInt8:
      return static_cast<T>(static_cast<const int8_t*>(data)[i]);
    case DType::kInt32:
      return static_cast<T>(static_cast<const int32_t*>(data)[i]);
    case DType::kInt64:
      return static_cast<T>(static_cast<const int64_t*>(data)[i]);
    case DType::kBool:
      return static_cast<T>(static_cast<const bool*>(data)[i]);
    case DType::kInt16:
      return static_cast<T>(static_cast<const int16_t*>(data)[i]);
    case DType::kUint16:
      return static_cast<T>(static_cast<const uint16_t*>(data)[i]);
    case DType::kUint32:
      return static_cast<T>(static_cast<const uint32_t*>(data)[i]);
    case DType::kUint64:
      return static_cast<T>(static_cast<const uint64_t*>(data)[i]);
    case DType::kUnknown:
      break;
  }
  return T(0);
}

template <typename To, typename T>
__device__ void StoreAs(T value, bool add, To* out) {
  if constexpr (std::is_same_v<To, bool>) {
    *out = (add && *out) || value != T(0);
  } else if constexpr (std::is_same_v<To, half_t> || std::is_same_v<To, bfloat16_t>) {
    const float real = static_cast<float>(value);
    *out = static_cast<To>(add ? static_cast<float>(*out) + real : real);
  } else {
    *out = static_cast<To>(add ? *out + static_cast<To>(value) : static_cast<To>(value));
  }
}

/// Converts one element and writes it, or adds it to what is there.
template <typename T>
__device__ void StoreElement(T value, bool add, DType dtype, void* out, index_t i) {
  switch (dtype) {
    case DType::kFloat32:
      return StoreAs(value, add, static_cast<float*>(out) + i);
    case DType::kFloat64:
      return StoreAs(value, add, static_cast<double*>(out) + i);
    case DType::kFloat16:
      return StoreAs(value, add, static_cast<half_t*>(out) + i);
    case DType::kBFloat16:
      return StoreAs(value, add, static_cast<bfloat16_t*>(out) + i);
    case DType::kUint8:
      return StoreAs(value, add, static_cast<uint8_t*>(out) + i);
    case DType::kInt8:
      return StoreAs(value, add, static_cast<int8_t*>(out) + i);
    case DType::kInt32:
      return StoreAs(value, add, static_cast<int32_t*>(out) + i);
    case DType::kInt64:
      return StoreAs(value, add, static_cast<int64_t*>(out) + i);
    case DType::kBool:
      return StoreAs(value, add, static_cast<bool*>(out) + i);
    case DType::kInt16:
      return StoreAs(value, add, static_cast<int16_t*>(out) + i);
    case DType::kUint16:
      return StoreAs(value, add, static_cast<uint16_t*>(out) + i);
    case DType::kUint32:
      return StoreAs(value, add, static_cast<uint32_t*>(out) + i);
    case DType::kUint64:
      return StoreAs(value, add, static_cast<uint64_t*>(out) + i);
    case DType::kUnknown:
      break;
  }
}

template <typename Op, typename T, size_t... kIn>
__device__ T MapLoaded(const T* in, std::index_sequence<kIn...>) {
  return static_cast<T>(Op::Map(in[kIn]...));
}

template <typename Op, int kOperands, typename T>
__global__ void MapKernel(const MapArguments arguments, index_t size) {
  const index_t step = static_cast<index_t>(gridDim.x) * blockDim.x;
  for (index_t i = static_cast<index_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < size;
       i += step) {
    index_t offsets[kOperands] = {};
    index_t rest = i;
    for (int d = arguments.num_dims - 1; d >= 0; --d) {
      const index_t position = d == 0 ? rest : rest % arguments.extents[d];
      rest /= arguments.extents[d];
      for (int k = 0; k < kOperands; ++k) {
        offsets[k] += position * arguments.operands[k].strides[d];
      }
    }
    T in[kOperands];
    for (int k = 0; k < kOperands; ++k) {
      const MapOperand& operand = arguments.operands[k];
      in[k] = operand.data == nullptr ? operand.number.As<T>()
                                      : LoadElement<T>(operand.data, operand.dtype, offsets[k]);
    }
    StoreElement(MapLoaded<Op, T>(in, std::make_index_sequence<kOperands>()),
                 arguments.req == kAddTo, arguments.out_type, arguments.out, i);
  }
}

template <typename Op, int kOperands, typename T>
void LaunchMapIn(const MapArguments& arguments, Stream<gpu>* stream) {
  const index_t size = arguments.Size();
  const auto [blocks, threads] = tensor_internal::LaunchShapeFor(size);
  MapKernel<Op, kOperands, T>
      <<<blocks, threads, 0, Stream<gpu>::GetStream(stream)>>>(arguments, size);
  tensor_internal::CheckCuda(cudaGetLastError(), "element-wise operator");
}

/// MapFunction::launch of Op.
template <typename Op, int kOperands, bool kIntegers>
void LaunchMap(const MapArguments& arguments, DType computed_in, Stream<gpu>* stream) {
  if (computed_in == DType::kFloat64) {
    LaunchMapIn<Op, kOperands, double>(arguments, stream);
    return;
  }
  if constexpr (kIntegers) {
    if (computed_in == DType::kInt32) {
      LaunchMapIn<Op, kOperands, int32_t>(arguments, stream);
      return;
    }
    if (computed_in == DType::kInt64) {
      LaunchMapIn<Op, kOperands, int64_t>(arguments, stream);
      return;
    }
  }
  LaunchMapIn<Op, kOperands, float>(arguments, stream);
}

}  // namespace TESSERA_ISA_NAMESPACE
}  // namespace tessera::ops_internal

#endif  // TESSERA_OPS_LOOPS_MAP_GPU_H_
