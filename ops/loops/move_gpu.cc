// The copies of move.h on a GPU. The host's compilation of this file is empty.
#if defined(TESSERA_XPU_GPU)

#include "tessera/base/error.h"
#include "tessera/ops/loops/map_gpu.h"
#include "tessera/ops/loops/move.h"

namespace tessera::ops_internal {
namespace {

/// Calls body(in offset, out offset), in bytes, for every element.
template <typename Body>
__device__ void ForEachElement(const MoveArguments& a, index_t size, const Body& body) {
  const index_t step = static_cast<index_t>(gridDim.x) * blockDim.x;
  for (index_t i = static_cast<index_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < size;
       i += step) {
    index_t in = 0, out = 0, rest = i;
    for (int d = a.num_dims - 1; d >= 0; --d) {
      const index_t position = d == 0 ? rest : rest % a.extents[d];
      rest /= a.extents[d];
      in += position * a.in_strides[d];
      out += position * a.out_strides[d];
    }
    body(in, out);
  }
}

template <typename T>
__global__ void CopyKernel(const MoveArguments a, index_t size) {
  ForEachElement(a, size, [&a](index_t in, index_t out) {
    *reinterpret_cast<T*>(a.out + out) = *reinterpret_cast<const T*>(a.in + in);
  });
}

template <typename T>
__global__ void AddKernel(const MoveArguments a, index_t size) {
  ForEachElement(a, size, [&a](index_t in, index_t out) {
    StoreElement(LoadElement<T>(a.in + in, a.dtype, 0), true, a.dtype, a.out + out, 0);
  });
}

template <typename Kernel>
void Launch(Kernel kernel, const MoveArguments& a, index_t size, Stream<gpu>* stream) {
  const auto [blocks, threads] = tensor_internal::LaunchShapeFor(size);
  kernel<<<blocks, threads, 0, Stream<gpu>::GetStream(stream)>>>(a, size);
  tensor_internal::CheckCuda(cudaGetLastError(), "copy of elements");
}

void MoveElements(const MoveArguments& a, index_t size, Stream<gpu>* stream) {
  if (a.add) {
    switch (a.dtype) {
      case DType::kFloat64:
        return Launch(AddKernel<double>, a, size, stream);
      case DType::kFloat32:
      case DType::kFloat16:
      case DType::kBFloat16:
        return Launch(AddKernel<float>, a, size, stream);
      default:
        return Launch(AddKernel<int64_t>, a, size, stream);
    }
  }
  switch (a.element_size) {
    case 1:
      return Launch(CopyKernel<uint8_t>, a, size, stream);
    case 2:
      return Launch(CopyKernel<uint16_t>, a, size, stream);
    case 4:
      return Launch(CopyKernel<uint32_t>, a, size, stream);
    case 8:
      return Launch(CopyKernel<uint64_t>, a, size, stream);
    default:
      throw Internal("Move: no elements have ", a.element_size, " bytes");
  }
}

void Zero(void* data, index_t size_bytes, Stream<gpu>* stream) {
  tensor_internal::CheckCuda(
      cudaMemsetAsync(data, 0, static_cast<size_t>(size_bytes), Stream<gpu>::GetStream(stream)),
      "zeros");
}

[[maybe_unused]] const bool kRegistered = [] {
  GetMoveOnGpu() = {.move = &MoveElements, .zero = &Zero};
  return true;
}();

}  // namespace
}  // namespace tessera::ops_internal

#endif  // TESSERA_XPU_GPU
