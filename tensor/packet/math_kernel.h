// The array kernels of packet_math.h: its functions over arrays. One .cc for each instruction set
// includes this header. The .cc is compiled for that set, with Eigen's namespace renamed (see
// gemm_kernel.h) and with a TESSERA_ISA_NAMESPACE of its own, so that no other code shares the
// templates that it instantiates.
#ifndef TESSERA_TENSOR_PACKET_MATH_KERNEL_H_
#define TESSERA_TENSOR_PACKET_MATH_KERNEL_H_

#include <cstdint>

#include "tessera/tensor/packet/array_operand.h"
#include "tessera/tensor/packet/gamma_packet_math.h"
#include "tessera/tensor/packet/internal/math_array_kernel_names.h"
#include "tessera/tensor/packet/packet_math.h"
#include "tessera/tensor/packet/partial_packet.h"
#include "tessera/tensor/packet/power_packet_math.h"
#include "tessera/tensor/packet/prefetch.h"
#include "tessera/tensor/packet/scale_or_offset.h"
#include "tessera/tensor/packet/special_functions.h"
#include "tessera/tensor/packet/trigonometric_packet_math.h"

#ifndef TESSERA_MATH_NAMESPACE
#error "define TESSERA_MATH_NAMESPACE to the kernel's instruction set"
#endif

namespace tessera::tensor_internal::TESSERA_MATH_NAMESPACE {
namespace {

// The locality argument of __builtin_prefetch: the second-level cache. An array and its results
// leave too little of the first-level cache.
constexpr int kIntoSecondCache = 2;

// Prefetches `size` bytes from byte `begin` on of each place. It is always inlined, since GCC 12
// drops calls of a function that does nothing else.
[[gnu::always_inline]] inline void Prefetch(PrefetchList ahead, int64_t begin, int64_t size) {
  constexpr int64_t kLineBytes = 64;
  for (int64_t k = 0; k < ahead.count; ++k) {
    for (int64_t at = begin; at < begin + size; at += kLineBytes) {
      __builtin_prefetch(ahead.places[k] + at, 0, kIntoSecondCache);
    }
  }
}

// Returns whether the results lie a little after the inputs, apart from a multiple of the page
// size. In an upward loop a load then follows the store of an earlier result to an address that
// ends in the same 12 bits. Zen 4 mistakes the load of a 64-byte packet for one of that result and
// lets it wait (not on all pages). Each packet then waits for the function's whole latency: log
// took 1.3 to 2.4 us for 4096 elements instead of 1.16. A distance of 8 packets is enough for the
// result to be stored.
template <typename T>
bool StoresLieAhead(const T* in, const T* out) {
  constexpr uintptr_t kPageBytes = 4096;
  const uintptr_t bytes =
      (reinterpret_cast<uintptr_t>(out) - reinterpret_cast<uintptr_t>(in)) % kPageBytes;
  return 0 < bytes && bytes < 8 * sizeof(Packet<T>);
}

// Runs ForEachPacket for a count of complete packets. It is a function by itself, so that the loop
// shares its registers with no other code. `function` must not contain packets: GCC 12 would pass
// them in registers, and such a loop function returns without vzeroupper, after which the C
// library's pow took four times as long.
template <typename T, typename Function, typename... In>
[[gnu::flatten, gnu::noinline]] void ForEachWholePacket(T* out, int64_t count, PrefetchList ahead,
                                                        Function function, const In*... in) {
  using P = Packet<T>;
  static_assert(kLanes<T> == 1 || alignof(Function) < alignof(P), "the function holds packets");
  constexpr int64_t kSize = kLanes<T>, kTurn = 8 * kSize;
  const bool downwards = (StoresLieAhead(in, out) || ...);
  const int64_t step = downwards ? -kSize : kSize;
  int64_t i = downwards ? count - kSize : 0;
  for (int64_t left = count; left > 0;) {
    // The loop runs in turns, since a prefetch inside the loop over packets would cost the function
    // its registers.
    const int64_t turn = ahead.count != 0 && left > kTurn ? kTurn : left;
    Prefetch(ahead, (count - left) * int64_t{sizeof(T)}, turn * int64_t{sizeof(T)});
    for (const int64_t end = left - turn; left > end; left -= kSize, i += step) {
      pk::pstoreu(out + i, function(pk::ploadu<P>(in + i)...));
    }
  }
}

// Calls function(packet of each `in`) on all packets, downwards if StoresLieAhead returns true. The
// last packet is filled up with its first element, so that the function computes no other values
// and raises no exception flag for them.
//
// All functions that `function` calls are inlined here. Otherwise GCC 12 decides by the growth of
// the file, and adding one function to the file made others slower. A call in the loop, whose
// packets and constants go through memory, made it take up to 75 % longer.
template <typename T, typename Function, typename... In>
[[gnu::flatten]] void ForEachPacket(T* out, int64_t count, PrefetchList ahead, Function function,
                                    const In*... in) {
  constexpr int64_t kSize = kLanes<T>;
  const int64_t whole = count / kSize * kSize;
  if (whole < count) {
    const int64_t rest = count - whole;
    StoreFirst<T>(out + whole, function(LoadFirst<T>(in + whole, rest, in[whole])...), rest);
  }
  if (whole > 0) ForEachWholePacket(out, whole, ahead, function, in...);
}

// Computes out[i] = function(input.scale * in[i] + input.offset).
template <typename T, typename Function>
void Map(const T* in, T* out, int64_t count, ScaleOrOffset<T> input, PrefetchList ahead,
         Function function) {
  if (input.scale == T(1) && input.offset == T(0) && __builtin_signbit(input.offset)) {
    return ForEachPacket(out, count, ahead, function, in);
  }
  const auto of_changed = [=](const Packet<T>& x) {
    using P = Packet<T>;
    return function(
        packet_math::MultiplyAdd(x, pk::pset1<P>(input.scale), pk::pset1<P>(input.offset)));
  };
  ForEachPacket(out, count, ahead, of_changed, in);
}

// Computes out[i] = function(input.scale * in[i] + input.offset) for floats in packets of double.
// It calls `scalar`, a function of one number, instead of `function` if packets of double have no
// more than two lanes, since the C library is faster than those.
template <typename Function, typename Scalar>
void MapInDouble(const float* in, float* out, int64_t count, ScaleOrOffset<float> input,
                 PrefetchList ahead, Function function, Scalar scalar) {
  if constexpr (packet_math::kManyWideLanes) {
    Map(in, out, count, input, ahead, function);
  } else {
    for (int64_t i = 0; i < count; ++i) out[i] = scalar(input.scale * in[i] + input.offset);
  }
}

// Computes out[i] = a[i] to the power b[i] in packets of double, or by the C library if these have
// no more than two lanes.
template <typename T>
void MapPower(ArrayOperand<T> a, ArrayOperand<T> b, T* out, int64_t count) {
  if constexpr (packet_math::kManyWideLanes) {
    using P = Packet<T>;
    if (b.repeats) {
      const T y = *b.data;
      const auto power = [=](const P& x) { return packet_math::Power(x, pk::pset1<P>(y)); };
      ForEachPacket(out, count, PrefetchList(), power, a.data);
    } else if (a.repeats) {
      const T x = *a.data;
      const auto power = [=](const P& y) { return packet_math::Power(pk::pset1<P>(x), y); };
      ForEachPacket(out, count, PrefetchList(), power, b.data);
    } else {
      const auto power = [](const P& x, const P& y) { return packet_math::Power(x, y); };
      ForEachPacket(out, count, PrefetchList(), power, a.data, b.data);
    }
  } else {
    // The builtin is called for the reason given at InTurns in trigonometric_packet_math.h.
    for (int64_t i = 0; i < count; ++i) {
      out[i] = __builtin_powf(a.data[a.repeats ? 0 : i], b.data[b.repeats ? 0 : i]);
    }
  }
}

}  // namespace

#define TESSERA_DEFINE_MATH_ARRAY_KERNEL(name)                                                 \
  void name##Float(const float* in, float* out, int64_t count, ScaleOrOffset<float> input,     \
                   PrefetchList ahead) {                                                       \
    Map(in, out, count, input, ahead, [](const auto& x) { return packet_math::name(x); });     \
  }                                                                                            \
  void name##Double(const double* in, double* out, int64_t count, ScaleOrOffset<double> input, \
                    PrefetchList ahead) {                                                      \
    Map(in, out, count, input, ahead, [](const auto& x) { return packet_math::name(x); });     \
  }
TESSERA_FOR_EACH_MATH_ARRAY_KERNEL(TESSERA_DEFINE_MATH_ARRAY_KERNEL)
#undef TESSERA_DEFINE_MATH_ARRAY_KERNEL

#define TESSERA_DEFINE_FLOAT_MATH_ARRAY_KERNEL(name)                                       \
  void name##Float(const float* in, float* out, int64_t count, ScaleOrOffset<float> input, \
                   PrefetchList ahead) {                                                   \
    MapInDouble(                                                                           \
        in, out, count, input, ahead, [](const auto& x) { return packet_math::name(x); },  \
        [](float x) { return name(x); });                                                  \
  }
TESSERA_FOR_EACH_FLOAT_MATH_ARRAY_KERNEL(TESSERA_DEFINE_FLOAT_MATH_ARRAY_KERNEL)
#undef TESSERA_DEFINE_FLOAT_MATH_ARRAY_KERNEL

void PowerFloat(ArrayOperand<float> a, ArrayOperand<float> b, float* out, int64_t count) {
  MapPower(a, b, out, count);
}

}  // namespace tessera::tensor_internal::TESSERA_MATH_NAMESPACE

#endif  // TESSERA_TENSOR_PACKET_MATH_KERNEL_H_
