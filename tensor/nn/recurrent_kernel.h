// The cells of recurrent layers, for recurrent.cc. One .cc for each instruction set includes this
// header, and is compiled for that set, with Eigen's namespace renamed (see gemm_kernel.h) and with
// a TESSERA_ISA_NAMESPACE of its own, so that no other code shares the templates that it
// instantiates.
//
// A packet holds the same gate of adjacent units. Its functions, the cell's update and the stores
// follow each other in registers; what the units share is in no memory between.
#ifndef TESSERA_TENSOR_NN_RECURRENT_KERNEL_H_
#define TESSERA_TENSOR_NN_RECURRENT_KERNEL_H_

#include <cstdint>

#include "tessera/tensor/nn/recurrent_step.h"
#include "tessera/tensor/packet/packet_math.h"
#include "tessera/tensor/packet/partial_packet.h"

#ifndef TESSERA_RECURRENT_NAMESPACE
#error "define TESSERA_RECURRENT_NAMESPACE to the kernel's instruction set"
#endif

namespace tessera::tensor_internal::TESSERA_RECURRENT_NAMESPACE {
namespace {

// Accesses to whole packets, and to the first `count` elements of packets. The other elements are
// zeros, whose functions raise no exception flags.
template <typename T>
struct Whole {
  Packet<T> Load(const T* from) const { return pk::ploadu<Packet<T>>(from); }
  void Store(T* to, const Packet<T>& value) const { pk::pstoreu(to, value); }
};
template <typename T>
struct Partial {
  int64_t count;
  Packet<T> Load(const T* from) const { return LoadFirst<T>(from, count); }
  void Store(T* to, const Packet<T>& value) const { StoreFirst<T>(to, value, count); }
};

template <typename P>
P Add(const P& a, const P& b) {
  return pk::padd(a, b);
}
template <typename P>
P Subtract(const P& a, const P& b) {
  return pk::psub(a, b);
}
template <typename P>
P Product(const P& a, const P& b) {
  return pk::pmul(a, b);
}
template <typename P, typename... More>
P Product(const P& a, const P& b, const P& c, const More&... more) {
  return Product(P(pk::pmul(a, b)), c, more...);
}
// Returns 1 - a.
template <typename P>
P OneMinus(const P& a) {
  return pk::psub(packet_math::Set<P>(1), a);
}

// A gate's sum of its parts and biases, for the units from j on.
template <typename T, typename Access>
Packet<T> Argument(const RecurrentStep<T>& s, int64_t r, int64_t j, int64_t gate, Access access) {
  const int64_t at = gate * s.block + j;
  const Packet<T> bias = Add(access.Load(s.bias_input + at), access.Load(s.bias_state + at));
  return Add(access.Load(s.kept + r * s.kept_stride + at), bias);
}

// A cell's Forward and Backward compute the units of row r from j on that a packet holds.

template <typename Function>
struct PlainCell {
  template <typename T, typename Access>
  static void Forward(const RecurrentStep<T>& s, int64_t r, int64_t j, Access access) {
    const Packet<T> h = Function::Of(Argument(s, r, j, 0, access));
    access.Store(s.kept + r * s.kept_stride + j, h);
    access.Store(s.h + r * s.state_stride + j, h);
    access.Store(s.out + r * s.out_stride + j, h);
  }
  template <typename T, typename Access>
  static void Backward(const RecurrentGradient<T>& s, int64_t r, int64_t j, Access access) {
    using P = Packet<T>;
    T* const dh = s.dh + r * s.state_stride + j;
    const P d = Add(access.Load(dh), access.Load(s.head + r * s.head_stride + j));
    const P h = access.Load(s.kept + r * s.kept_stride + j);
    access.Store(s.of_input + r * s.gates_stride + j, Function::Gradient(h, d));
    access.Store(dh, packet_math::Set<P>(0));
  }
};

struct Relu {
  template <typename P>
  static P Of(const P& a) {
    const P zero = packet_math::Set<P>(0);
    return packet_math::WhereLess(a, zero, zero, a);
  }
  template <typename P>
  static P Gradient(const P& h, const P& d) {
    const P zero = packet_math::Set<P>(0);
    return packet_math::WhereLess(zero, h, d, zero);
  }
};

struct Tanh {
  template <typename P>
  static P Of(const P& a) {
    return packet_math::Tanh(a);
  }
  template <typename P>
  static P Gradient(const P& h, const P& d) {
    return Product(d, OneMinus(Product(h, h)));
  }
};

// Limits a cell state. A comparison with NaN is false.
template <typename T>
Packet<T> Clip(const RecurrentClip<T>& clip, const Packet<T>& c) {
  using P = Packet<T>;
  const P min = packet_math::Set<P>(clip.min), max = packet_math::Set<P>(clip.max);
  const P least = clip.replaces_nan ? packet_math::WhereLess(min, c, c, min)
                                    : packet_math::WhereLess(c, min, min, c);
  return packet_math::WhereLess(max, least, max, least);
}
// Returns d where the limited cell state c is between its limits, else 0.
template <typename T>
Packet<T> ClipGradient(const RecurrentClip<T>& clip, const Packet<T>& c, const Packet<T>& d) {
  using P = Packet<T>;
  const P min = packet_math::Set<P>(clip.min), max = packet_math::Set<P>(clip.max);
  const P zero = packet_math::Set<P>(0);
  return packet_math::WhereLess(min, c, P(packet_math::WhereLess(c, max, d, zero)), zero);
}

struct LstmCell {
  template <typename T, typename Access>
  static void Forward(const RecurrentStep<T>& s, int64_t r, int64_t j, Access access) {
    using P = Packet<T>;
    const P in = packet_math::Sigmoid(Argument(s, r, j, 0, access));
    const P forget = packet_math::Sigmoid(Argument(s, r, j, 1, access));
    const P g = packet_math::Tanh(Argument(s, r, j, 2, access));
    const P out = packet_math::Sigmoid(Argument(s, r, j, 3, access));
    T* const state = s.c + r * s.state_stride + j;
    P c = packet_math::MultiplyAdd(forget, access.Load(state), Product(in, g));
    if (s.clip != nullptr) c = Clip<T>(*s.clip, c);
    const P h = Product(out, packet_math::Tanh(c));
    T* const kept = s.kept + r * s.kept_stride + j;
    access.Store(kept, in);
    access.Store(kept + s.block, forget);
    access.Store(kept + 2 * s.block, g);
    access.Store(kept + 3 * s.block, out);
    access.Store(kept + 4 * s.block, c);
    access.Store(state, c);
    access.Store(s.h + r * s.state_stride + j, h);
    access.Store(s.out + r * s.out_stride + j, h);
  }
  template <typename T, typename Access>
  static void Backward(const RecurrentGradient<T>& s, int64_t r, int64_t j, Access access) {
    using P = Packet<T>;
    const T* const kept = s.kept + r * s.kept_stride + j;
    const P in = access.Load(kept), forget = access.Load(kept + s.block);
    const P g = access.Load(kept + 2 * s.block), out = access.Load(kept + 3 * s.block);
    const P c = access.Load(kept + 4 * s.block), tanh_c = packet_math::Tanh(c);
    T* const dh = s.dh + r * s.state_stride + j;
    T* const dc = s.dc + r * s.state_stride + j;
    const P d = Add(access.Load(dh), access.Load(s.head + r * s.head_stride + j));
    const P through_h = Product(d, out, OneMinus(Product(tanh_c, tanh_c)));
    P d_cell = Add(access.Load(dc), through_h);
    if (s.clip != nullptr) d_cell = ClipGradient<T>(*s.clip, c, d_cell);
    T* const to = s.of_input + r * s.gates_stride + j;
    const P old_c = access.Load(s.old_c + r * s.old_c_stride + j);
    access.Store(to, Product(d_cell, g, in, OneMinus(in)));
    access.Store(to + s.block, Product(d_cell, old_c, forget, OneMinus(forget)));
    access.Store(to + 2 * s.block, Product(d_cell, in, OneMinus(Product(g, g))));
    access.Store(to + 3 * s.block, Product(d, tanh_c, out, OneMinus(out)));
    access.Store(dc, Product(d_cell, forget));
    access.Store(dh, packet_math::Set<P>(0));
  }
};

struct GruCell {
  template <typename T, typename Access>
  static void Forward(const RecurrentStep<T>& s, int64_t r, int64_t j, Access access) {
    using P = Packet<T>;
    T* const kept = s.kept + r * s.kept_stride + j;
    const P reset = packet_math::Sigmoid(Argument(s, r, j, 0, access));
    const P z = packet_math::Sigmoid(Argument(s, r, j, 1, access));
    const int64_t gate = 2 * s.block + j;
    const P m = Add(access.Load(kept + 3 * s.block), access.Load(s.bias_state + gate));
    const P of_input = Add(access.Load(kept + 2 * s.block), access.Load(s.bias_input + gate));
    const P fresh = packet_math::Tanh(packet_math::MultiplyAdd(reset, m, of_input));
    const P old = access.Load(s.old_h + r * s.state_stride + j);
    const P h = packet_math::MultiplyAdd(z, Subtract(old, fresh), fresh);
    access.Store(kept, reset);
    access.Store(kept + s.block, z);
    access.Store(kept + 2 * s.block, fresh);
    access.Store(kept + 3 * s.block, m);
    access.Store(s.h + r * s.state_stride + j, h);
    access.Store(s.out + r * s.out_stride + j, h);
  }
  template <typename T, typename Access>
  static void Backward(const RecurrentGradient<T>& s, int64_t r, int64_t j, Access access) {
    using P = Packet<T>;
    const T* const kept = s.kept + r * s.kept_stride + j;
    const P reset = access.Load(kept), z = access.Load(kept + s.block);
    const P fresh = access.Load(kept + 2 * s.block), m = access.Load(kept + 3 * s.block);
    const P old = access.Load(s.old_h + r * s.old_h_stride + j);
    T* const dh = s.dh + r * s.state_stride + j;
    const P d = Add(access.Load(dh), access.Load(s.head + r * s.head_stride + j));
    const P d_fresh = Product(d, OneMinus(z), OneMinus(Product(fresh, fresh)));
    const P d_reset = Product(d_fresh, m, reset, OneMinus(reset));
    const P d_z = Product(d, Subtract(old, fresh), z, OneMinus(z));
    T* const to = s.of_input + r * s.gates_stride + j;
    T* const to_state = s.of_state + r * s.gates_stride + j;
    access.Store(to, d_reset);
    access.Store(to + s.block, d_z);
    access.Store(to + 2 * s.block, d_fresh);
    access.Store(to_state, d_reset);
    access.Store(to_state + s.block, d_z);
    access.Store(to_state + 2 * s.block, Product(d_fresh, reset));
    access.Store(dh, Product(d, z));
  }
};

// Calls run(r, j, access) for all units. It is inlined with all that it calls, as ForEachPacket of
// math_kernel.h is.
template <typename T, typename Step, typename Run>
[[gnu::always_inline]] inline void ForEachUnit(const Step& s, Run run) {
  constexpr int64_t kSize = kLanes<T>;
  const int64_t whole = s.units / kSize * kSize;
  for (int64_t r = 0; r < s.rows; ++r) {
    for (int64_t j = 0; j < whole; j += kSize) run(r, j, Whole<T>());
    if (whole < s.units) run(r, whole, Partial<T>{s.units - whole});
  }
}

template <typename Cell, typename T>
[[gnu::flatten, gnu::noinline]] void ForwardOf(const RecurrentStep<T>& s) {
  ForEachUnit<T>(s, [&s](int64_t r, int64_t j, auto access) { Cell::Forward(s, r, j, access); });
}
template <typename Cell, typename T>
[[gnu::flatten, gnu::noinline]] void BackwardOf(const RecurrentGradient<T>& s) {
  ForEachUnit<T>(s, [&s](int64_t r, int64_t j, auto access) { Cell::Backward(s, r, j, access); });
}

template <typename T>
void Forward(RecurrentCell cell, const RecurrentStep<T>& s) {
  switch (cell) {
    case RecurrentCell::kRelu:
      return ForwardOf<PlainCell<Relu>>(s);
    case RecurrentCell::kTanh:
      return ForwardOf<PlainCell<Tanh>>(s);
    case RecurrentCell::kLstm:
      return ForwardOf<LstmCell>(s);
    case RecurrentCell::kGru:
      return ForwardOf<GruCell>(s);
  }
}
template <typename T>
void Backward(RecurrentCell cell, const RecurrentGradient<T>& s) {
  switch (cell) {
    case RecurrentCell::kRelu:
      return BackwardOf<PlainCell<Relu>>(s);
    case RecurrentCell::kTanh:
      return BackwardOf<PlainCell<Tanh>>(s);
    case RecurrentCell::kLstm:
      return BackwardOf<LstmCell>(s);
    case RecurrentCell::kGru:
      return BackwardOf<GruCell>(s);
  }
}

}  // namespace

void ForwardFloat(RecurrentCell cell, const RecurrentStep<float>& s) { Forward(cell, s); }
void ForwardDouble(RecurrentCell cell, const RecurrentStep<double>& s) { Forward(cell, s); }
void BackwardFloat(RecurrentCell cell, const RecurrentGradient<float>& s) { Backward(cell, s); }
void BackwardDouble(RecurrentCell cell, const RecurrentGradient<double>& s) { Backward(cell, s); }

}  // namespace tessera::tensor_internal::TESSERA_RECURRENT_NAMESPACE

#endif  // TESSERA_TENSOR_NN_RECURRENT_KERNEL_H_
