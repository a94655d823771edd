#include "tessera/tensor/allocate.h"

#include <new>

namespace tessera::tensor_internal {
namespace {

constexpr std::align_val_t kAlignment{64};

}  // namespace

template <>
void* AllocateBytes<cpu>(int64_t size_bytes) {
  if (size_bytes == 0) return nullptr;
  void* memory = ::operator new(static_cast<size_t>(size_bytes), kAlignment, std::nothrow);
  if (memory == nullptr) {
    throw ResourceExhausted("AllocSpace: no memory for ", size_bytes, " bytes on the CPU");
  }
  return memory;
}

template <>
void FreeBytes<cpu>(void* memory) {
  ::operator delete(memory, kAlignment);
}

}  // namespace tessera::tensor_internal
