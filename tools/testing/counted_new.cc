#include "tessera/tools/testing/counted_new.h"

#include <atomic>
#include <cstddef>
#include <cstdlib>
#include <new>

namespace {

// Constant-initialized: operator new runs before any constructor.
constinit thread_local int64_t calls_until_failure = -1;  // below 0: so many failures were due
constinit thread_local int64_t failures = 1;
constinit thread_local bool counting = false;
constinit thread_local int64_t calls_of_this_thread = 0;
constinit std::atomic<int64_t> calls{0};
constinit std::atomic<int64_t> deletions{0};

/// Null where the call is to fail or there is no memory.
void* Allocate(size_t size, size_t alignment) {
  if (counting && calls_until_failure-- <= 0 && -calls_until_failure <= failures) return nullptr;
  if (size == 0) size = 1;
  // aligned_alloc wants a multiple of the alignment.
  void* const ptr =
      alignment <= alignof(std::max_align_t)
          ? std::malloc(size)
          : std::aligned_alloc(alignment, (size + alignment - 1) / alignment * alignment);
  if (ptr == nullptr) return nullptr;
  ++calls_of_this_thread;
  calls.fetch_add(1, std::memory_order_relaxed);
  return ptr;
}

void* AllocateOrThrow(size_t size, size_t alignment) {
  void* const ptr = Allocate(size, alignment);
  if (ptr == nullptr) throw std::bad_alloc();
  return ptr;
}

void Release(void* ptr) {
  if (ptr == nullptr) return;
  deletions.fetch_add(1, std::memory_order_relaxed);
  std::free(ptr);
}

}  // namespace

void* operator new(size_t size) { return AllocateOrThrow(size, 1); }
void* operator new[](size_t size) { return AllocateOrThrow(size, 1); }
void* operator new(size_t size, const std::nothrow_t&) noexcept { return Allocate(size, 1); }
void* operator new[](size_t size, const std::nothrow_t&) noexcept { return Allocate(size, 1); }
void* operator new(size_t size, std::align_val_t alignment) {
  return AllocateOrThrow(size, static_cast<size_t>(alignment));
}
void* operator new[](size_t size, std::align_val_t alignment) {
  return AllocateOrThrow(size, static_cast<size_t>(alignment));
}
void* operator new(size_t size, std::align_val_t alignment, const std::nothrow_t&) noexcept {
  return Allocate(size, static_cast<size_t>(alignment));
}
void* operator new[](size_t size, std::align_val_t alignment, const std::nothrow_t&) noexcept {
  return Allocate(size, static_cast<size_t>(alignment));
}
void operator delete(void* ptr) noexcept { Release(ptr); }
void operator delete[](void* ptr) noexcept { Release(ptr); }
void operator delete(void* ptr, size_t) noexcept { Release(ptr); }
void operator delete[](void* ptr, size_t) noexcept { Release(ptr); }
void operator delete(void* ptr, const std::nothrow_t&) noexcept { Release(ptr); }
void operator delete[](void* ptr, const std::nothrow_t&) noexcept { Release(ptr); }
void operator delete(void* ptr, std::align_val_t) noexcept { Release(ptr); }
void operator delete[](void* ptr, std::align_val_t) noexcept { Release(ptr); }
void operator delete(void* ptr, size_t, std::align_val_t) noexcept { Release(ptr); }
void operator delete[](void* ptr, size_t, std::align_val_t) noexcept { Release(ptr); }
void operator delete(void* ptr, std::align_val_t, const std::nothrow_t&) noexcept { Release(ptr); }
void operator delete[](void* ptr, std::align_val_t, const std::nothrow_t&) noexcept {
  Release(ptr);
}

namespace tessera {

int64_t NewCalls() { return calls.load(std::memory_order_relaxed); }

int64_t NewCallsOfThisThread() { return calls_of_this_thread; }

int64_t OutstandingNews() { return NewCalls() - deletions.load(std::memory_order_relaxed); }

FailingNew::FailingNew(int64_t until_failure, int64_t failures_in_a_row) {
  calls_until_failure = until_failure;
  failures = failures_in_a_row;
  counting = true;
}
FailingNew::~FailingNew() { counting = false; }

bool FailingNew::has_failed() const { return calls_until_failure < 0; }

int64_t NewsLeftBehind(const std::function<bool(int64_t)>& run) {
  constexpr int64_t kNever = 1000000000;
  // Twice: what a thread keeps of the first run may go at the second.
  for (int i = 0; i < 2; ++i) run(kNever);
  const int64_t before = OutstandingNews();
  for (int64_t n = 0; run(n); ++n) {
  }
  run(kNever);
  return OutstandingNews() - before;
}

}  // namespace tessera
