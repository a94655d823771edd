#ifndef TESSERA_STORAGE_DEVICE_POISON_H_
#define TESSERA_STORAGE_DEVICE_POISON_H_

#include <cstddef>
#include <cstdint>

// The only place that asks whether AddressSanitizer is on: __SANITIZE_ADDRESS__ is GCC's way to say
// so, __has_feature Clang's.
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

/// Makes AddressSanitizer report any access to memory that lies free in a pool, as it would for
/// memory freed to the system. Nothing happens in builds without it.
inline void PoisonMemory([[maybe_unused]] void* ptr, [[maybe_unused]] int64_t size_bytes) {
#if defined(TESSERA_STORAGE_POISON)
  __asan_poison_memory_region(ptr, static_cast<size_t>(size_bytes));
#endif
}

inline void UnpoisonMemory([[maybe_unused]] void* ptr, [[maybe_unused]] int64_t size_bytes) {
#if defined(TESSERA_STORAGE_POISON)
  __asan_unpoison_memory_region(ptr, static_cast<size_t>(size_bytes));
#endif
}

/// True if AddressSanitizer would report an access; always false in builds without it.
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
