#include "tessera/tensor/device/copy_bytes.h"

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

#include <atomic>
#include <cstdint>
#include <cstring>

#include "tessera/tensor/device/runs_avx2.h"

namespace tessera::tensor_internal {
namespace {

constexpr int64_t kLineBytes = 64;
constexpr int64_t kVectorBytes = 32;

/// 32 bytes at any address: one register with AVX2, else two.
using Vector [[gnu::vector_size(kVectorBytes), gnu::aligned(1), gnu::may_alias]] = char;

__attribute__((always_inline)) inline void CopyVector(const char* from, char* to) {
  *reinterpret_cast<Vector*>(to) = *reinterpret_cast<const Vector*>(from);
}

/// Copies a row of at least kVectorBytes. It is no call of memcpy, which glibc does by `rep movsb`
/// from 2 KiB on where the processor claims that this is fast; its speed then depends on how both
/// addresses lie in their pages.
__attribute__((always_inline)) inline void CopyLongRow(const char* from, char* to, int64_t n) {
  if (n >= 16 * kVectorBytes) {
    // The following stores are aligned.
    CopyVector(from, to);
    const int64_t head =
        -static_cast<int64_t>(reinterpret_cast<uintptr_t>(to)) & (kVectorBytes - 1);
    from += head;
    to += head;
    n -= head;
  }
  int64_t i = 0;
  // A loop over single vectors would become a call of memcpy.
  for (; i + 4 * kVectorBytes <= n; i += 4 * kVectorBytes) {
    CopyVector(from + i, to + i);
    CopyVector(from + i + kVectorBytes, to + i + kVectorBytes);
    CopyVector(from + i + 2 * kVectorBytes, to + i + 2 * kVectorBytes);
    CopyVector(from + i + 3 * kVectorBytes, to + i + 3 * kVectorBytes);
  }
  if (n - i >= 2 * kVectorBytes) {
    CopyVector(from + i, to + i);
    CopyVector(from + i + kVectorBytes, to + i + kVectorBytes);
    i += 2 * kVectorBytes;
  }
  if (n - i >= kVectorBytes) {
    CopyVector(from + i, to + i);
    i += kVectorBytes;
  }
  if (i < n) CopyVector(from + n - kVectorBytes, to + n - kVectorBytes);
}

__attribute__((always_inline)) inline void CopyLongRows(const char* from, int64_t from_stride,
                                                        char* to, int64_t to_stride, int64_t rows,
                                                        int64_t n) {
  for (int64_t r = 0; r < rows; ++r) CopyLongRow(from + r * from_stride, to + r * to_stride, n);
}

TESSERA_AVX2_LOOP void CopyLongRowsAvx2(const char* from, int64_t from_stride, char* to,
                                        int64_t to_stride, int64_t rows, int64_t n) {
  CopyLongRows(from, from_stride, to, to_stride, rows, n);
}

void CopyCached(const char* from, int64_t from_stride, char* to, int64_t to_stride, int64_t rows,
                int64_t n) {
  if (n < kVectorBytes) {
    for (int64_t r = 0; r < rows; ++r) {
      std::memcpy(to + r * to_stride, from + r * from_stride, static_cast<size_t>(n));
    }
  } else if (RunsAvx2()) {
    CopyLongRowsAvx2(from, from_stride, to, to_stride, rows, n);
  } else {
    CopyLongRows(from, from_stride, to, to_stride, rows, n);
  }
}

#if defined(__SSE2__)
/// Writes the lines that lie in the output completely past the caches, and its ends into them.
void StreamRow(const char* from, char* to, int64_t n) {
  const int64_t to_line = -static_cast<int64_t>(reinterpret_cast<uintptr_t>(to)) & (kLineBytes - 1);
  std::memcpy(to, from, static_cast<size_t>(to_line));
  int64_t i = to_line;
  for (; i + kLineBytes <= n; i += kLineBytes) {
    const __m128i* const in = reinterpret_cast<const __m128i*>(from + i);
    __m128i* const line = reinterpret_cast<__m128i*>(to + i);
    const __m128i a = _mm_loadu_si128(in), b = _mm_loadu_si128(in + 1);
    const __m128i c = _mm_loadu_si128(in + 2), d = _mm_loadu_si128(in + 3);
    _mm_stream_si128(line, a);
    _mm_stream_si128(line + 1, b);
    _mm_stream_si128(line + 2, c);
    _mm_stream_si128(line + 3, d);
  }
  std::memcpy(to + i, from + i, static_cast<size_t>(n - i));
}
#endif

}  // namespace

std::atomic<int64_t> least_streamed_bytes{kStreamedBytes};

Stores StoresFor(int64_t result_bytes, int64_t read_bytes) {
  const bool exceeds_caches =
      result_bytes + read_bytes >= least_streamed_bytes.load(std::memory_order_relaxed) ||
      result_bytes >= kStreamedResultBytes;
  return exceeds_caches ? Stores::kStreamed : Stores::kCached;
}

void CopyBytes(const void* from, void* to, int64_t size_bytes, Stores stores) {
  CopyRows(static_cast<const char*>(from), 0, static_cast<char*>(to), 0, 1, size_bytes, stores);
}

void CopyRows(const char* from, int64_t from_stride, char* to, int64_t to_stride, int64_t rows,
              int64_t size_bytes, Stores stores) {
#if defined(__SSE2__)
  const auto address = reinterpret_cast<uintptr_t>(to) | static_cast<uintptr_t>(to_stride) |
                       static_cast<uintptr_t>(size_bytes);
  const bool has_whole_lines = address % kLineBytes == 0;
  if (stores == Stores::kStreamed && (has_whole_lines || size_bytes >= kStreamedRowBytes)) {
    for (int64_t r = 0; r < rows; ++r) {
      StreamRow(from + r * from_stride, to + r * to_stride, size_bytes);
    }
    return;
  }
#else
  static_cast<void>(stores);
#endif
  CopyCached(from, from_stride, to, to_stride, rows, size_bytes);
}

void FinishStores(Stores stores) {
#if defined(__SSE2__)
  if (stores == Stores::kStreamed) _mm_sfence();
#else
  static_cast<void>(stores);
#endif
}

}  // namespace tessera::tensor_internal
