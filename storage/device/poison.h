#ifndef TESSERA_STORAGE_DEVICE_POISON_H_
#define TESSERA_STORAGE_DEVICE_POISON_H_

#include <cstddef>
#include <cstdint>

// This is the only file that tests whether AddressSanitizer is on. GCC defines
// __SANITIZE_ADDRESS__, and Clang has __has_feature.
#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define TESSERA_STORAGE_POISON 1
#endif
#endif
#if defined(__SANITIZE_ADDRESS__)
#define TESSERA_STORAGE_POISON 1
#endif

#if defined(TESSERA_STORAGE_POISON)
#include <sanitizer/asan_interface.h>
#endif

namespace tessera::storage_internal {

/// Makes AddressSanitizer report every access to the memory, which is free in a pool. Does nothing
/// in builds without AddressSanitizer.
inline void PoisonMemory([[maybe_unused]] void* ptr, [[maybe_unused]] int64_t size_bytes) {
#if defined(TESSERA_STORAGE_POISON)
  __asan_poison_memory_region(ptr, static_cast<size_t>(size_bytes));
#endif
}

/// Allows access to the memory again.
inline void UnpoisonMemory([[maybe_unused]] void* ptr, [[maybe_unused]] int64_t size_bytes) {
#if defined(TESSERA_STORAGE_POISON)
  __asan_unpoison_memory_region(ptr, static_cast<size_t>(size_bytes));
#endif
}

/// Returns true if AddressSanitizer would report an access. Returns false in other builds.
inline bool IsPoisoned([[maybe_unused]] const void* ptr) {
#if defined(TESSERA_STORAGE_POISON)
  return __asan_address_is_poisoned(ptr) != 0;
#else
  return false;
#endif
}

/// True in builds with AddressSanitizer.
#if defined(TESSERA_STORAGE_POISON)
inline constexpr bool kPoisons = true;
#else
inline constexpr bool kPoisons = false;
#endif

}  // namespace tessera::storage_internal

#endif  // TESSERA_STORAGE_DEVICE_POISON_H_
