#include <cuda_runtime.h>

#include <algorithm>
#include <cstdint>
#include <cub/device/device_radix_sort.cuh>

#include "tessera/base/checked_size.h"
#include "tessera/tensor/device/cuda_check.h"
#include "tessera/tensor/device/cuda_launch.h"
#include "tessera/tensor/index/sort_key.h"

namespace tessera::tensor_internal {
namespace {

/// One block of the device's pooled memory, allocated and freed in the order of a stream.
class TemporaryMemory {
 public:
  explicit TemporaryMemory(cudaStream_t stream) : stream_(stream) {}
  TemporaryMemory(const TemporaryMemory&) = delete;
  TemporaryMemory& operator=(const TemporaryMemory&) = delete;
  ~TemporaryMemory() {
    // A failure here belongs to earlier work, and the next checked call reports it.
    if (memory_ != nullptr) static_cast<void>(cudaFreeAsync(memory_, stream_));
  }

  /// Adds `count` elements of `element_bytes` to the block, and returns their offset in bytes.
  int64_t Reserve(int64_t count, int64_t element_bytes) {
    constexpr int64_t kAlignment = 256;
    const int64_t begin = size_bytes_;
    const int64_t end = (CheckedSize(count) * element_bytes + (begin + kAlignment - 1))
                            .ValueOrThrow("SortByKey: size of temporary memory in bytes");
    size_bytes_ = end / kAlignment * kAlignment;
    return begin;
  }
  void Allocate() {
    CheckCuda(cudaMallocAsync(&memory_, static_cast<size_t>(size_bytes_), stream_),
              "SortByKey: cudaMallocAsync");
  }
  template <typename T>
  T* At(int64_t begin) const {
    return static_cast<T*>(static_cast<void*>(static_cast<char*>(memory_) + begin));
  }

 private:
  cudaStream_t stream_;
  void* memory_ = nullptr;
  int64_t size_bytes_ = 0;
};

__device__ uint64_t LoadKey(const void* keys, index_t i, int size_bytes) {
  switch (size_bytes) {
    case 1:
      return static_cast<const uint8_t*>(keys)[i];
    case 2:
      return static_cast<const uint16_t*>(keys)[i];
    case 4:
      return static_cast<const uint32_t*>(keys)[i];
    default:
      return static_cast<const uint64_t*>(keys)[i];
  }
}

template <typename Bits>
__global__ void NumberKeysKernel(const void* keys, SortKeyFormat format, bool ascending,
                                 index_t count, Bits* bits, index_t* order) {
  const index_t step = static_cast<index_t>(gridDim.x) * blockDim.x;
  for (index_t i = static_cast<index_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < count;
       i += step) {
    bits[i] =
        static_cast<Bits>(OrderedBits(LoadKey(keys, i, format.size_bytes), format, ascending));
    order[i] = i;
  }
}

/// Sets to[i] = from[order[i]] for elements of `words` words each.
template <typename Word>
__global__ void GatherKernel(const Word* from, const index_t* order, index_t count, int64_t words,
                             Word* to) {
  const index_t step = static_cast<index_t>(gridDim.x) * blockDim.x;
  for (index_t i = static_cast<index_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < count * words;
       i += step) {
    const index_t element = words == 1 ? i : i / words;
    to[i] = from[order[element] * words + (i - element * words)];
  }
}

template <typename Word>
void Gather(const void* from, const index_t* order, index_t count, int64_t words, void* to,
            cudaStream_t stream) {
  const LaunchShape launch = LaunchShapeFor(count * words);
  GatherKernel<Word><<<launch.blocks, launch.threads, 0, stream>>>(
      static_cast<const Word*>(from), order, count, words, static_cast<Word*>(to));
  CheckCuda(cudaGetLastError(), "SortByKey: kernel that gathers");
}

/// Permutes elements by `order`, by way of `scratch`. Elements are copied in the largest words that
/// their size and alignment allow: an element of eight bytes may be aligned to four.
void Permute(void* elements, int64_t element_bytes, const index_t* order, index_t count,
             void* scratch, cudaStream_t stream) {
  const uint64_t granularity =
      reinterpret_cast<uintptr_t>(elements) | static_cast<uint64_t>(element_bytes);
  if (granularity % 8 == 0) {
    Gather<uint64_t>(elements, order, count, element_bytes / 8, scratch, stream);
  } else if (granularity % 4 == 0) {
    Gather<uint32_t>(elements, order, count, element_bytes / 4, scratch, stream);
  } else if (granularity % 2 == 0) {
    Gather<uint16_t>(elements, order, count, element_bytes / 2, scratch, stream);
  } else {
    Gather<uint8_t>(elements, order, count, element_bytes, scratch, stream);
  }
  CheckCuda(cudaMemcpyAsync(elements, scratch, static_cast<size_t>(count * element_bytes),
                            cudaMemcpyDeviceToDevice, stream),
            "SortByKey: cudaMemcpyAsync");
}

/// Sorts unsigned numbers that have the order of the keys, together with the keys' positions, and
/// then permutes keys and values. There is one radix sort for each size of number, instead of one
/// for each pair of types.
template <typename Bits>
void SortAs(void* keys, SortKeyFormat format, void* values, int64_t value_bytes, index_t count,
            bool ascending, cudaStream_t stream) {
  const auto sort = [&](void* memory, size_t* memory_bytes, cub::DoubleBuffer<Bits>& bits,
                        cub::DoubleBuffer<index_t>& order) {
    CheckCuda(cub::DeviceRadixSort::SortPairs(memory, *memory_bytes, bits, order, count, 0,
                                              8 * format.size_bytes, stream),
              "SortByKey: cub::DeviceRadixSort");
  };
  size_t sort_bytes = 0;
  cub::DoubleBuffer<Bits> bits;
  cub::DoubleBuffer<index_t> order;
  sort(nullptr, &sort_bytes, bits, order);

  TemporaryMemory memory(stream);
  const int64_t bits_at[] = {memory.Reserve(count, sizeof(Bits)),
                             memory.Reserve(count, sizeof(Bits))};
  const int64_t order_at[] = {memory.Reserve(count, sizeof(index_t)),
                              memory.Reserve(count, sizeof(index_t))};
  const int64_t scratch_at =
      memory.Reserve(count, std::max<int64_t>(format.size_bytes, value_bytes));
  const int64_t sort_at = memory.Reserve(static_cast<int64_t>(sort_bytes), 1);
  memory.Allocate();
  bits = cub::DoubleBuffer<Bits>(memory.At<Bits>(bits_at[0]), memory.At<Bits>(bits_at[1]));
  order =
      cub::DoubleBuffer<index_t>(memory.At<index_t>(order_at[0]), memory.At<index_t>(order_at[1]));

  const LaunchShape launch = LaunchShapeFor(count);
  NumberKeysKernel<<<launch.blocks, launch.threads, 0, stream>>>(
      static_cast<const void*>(keys), format, ascending, count, bits.Current(), order.Current());
  CheckCuda(cudaGetLastError(), "SortByKey: kernel that numbers keys");
  sort(memory.At<void>(sort_at), &sort_bytes, bits, order);
  void* const scratch = memory.At<void>(scratch_at);
  Permute(keys, format.size_bytes, order.Current(), count, scratch, stream);
  Permute(values, value_bytes, order.Current(), count, scratch, stream);
}

}  // namespace

void SortByKeyCuda(void* keys, SortKeyFormat format, void* values, int64_t value_bytes,
                   index_t count, bool ascending, Stream<gpu>* stream) {
  if (count == 0) return;
  const auto sort = format.size_bytes <= 4 ? SortAs<uint32_t> : SortAs<uint64_t>;
  sort(keys, format, values, value_bytes, count, ascending, CudaStream(stream));
}

}  // namespace tessera::tensor_internal
