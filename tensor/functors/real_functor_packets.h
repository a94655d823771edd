#ifndef TESSERA_TENSOR_FUNCTORS_REAL_FUNCTOR_PACKETS_H_
#define TESSERA_TENSOR_FUNCTORS_REAL_FUNCTOR_PACKETS_H_

#include "tessera/tensor/functors/real_functors.h"
#include "tessera/tensor/packet/gamma_packet_math.h"
#include "tessera/tensor/packet/packet.h"
#include "tessera/tensor/packet/packet_math.h"
#include "tessera/tensor/packet/power_packet_math.h"
#include "tessera/tensor/packet/trigonometric_packet_math.h"

/// The packet forms of real_functors.h.
namespace tessera {
inline namespace TESSERA_ISA_NAMESPACE {
namespace op {

namespace packet_math = tensor_internal::packet_math;

static_assert(kInWideLanes<float> ==
              (ArrayKernelElement<float> || (kInLanes<float> && packet_math::kManyWideLanes)));

template <typename Op, typename T>
inline T LaneOfPacket(T a) {
  using P = typename PacketTraits<T>::type;
  return pk::pfirst(P(Op::PacketMap(pk::pset1<P>(a))));
}
template <typename Op, typename T>
inline T LaneOfPacket(T a, T b) {
  using P = typename PacketTraits<T>::type;
  return pk::pfirst(P(Op::PacketMap(pk::pset1<P>(a), pk::pset1<P>(b))));
}

/// Applies Op to a packet by its array kernel.
template <typename Op, typename P>
inline P PacketThroughArrayKernel(const P& a) {
  using T = PacketElement<P>;
  constexpr index_t kSize = PacketTraits<T>::kSize;
  alignas(64) T lanes[static_cast<size_t>(kSize)];
  pk::pstore(lanes, a);
  Op::ArrayKernel(lanes, lanes, kSize);
  return pk::pload<P>(lanes);
}
/// Applies Op to a pair of packets by its array kernel.
template <typename Op, typename P>
inline P PacketThroughArrayKernel(const P& a, const P& b) {
  using T = PacketElement<P>;
  constexpr index_t kSize = PacketTraits<T>::kSize;
  alignas(64) T first[static_cast<size_t>(kSize)], second[static_cast<size_t>(kSize)];
  pk::pstore(first, a);
  pk::pstore(second, b);
  Op::ArrayKernel(ArrayOperand<T>{first}, ArrayOperand<T>{second}, first, kSize);
  return pk::pload<P>(first);
}

template <typename Function, index_t kCost>
template <RealPacket P>
TESSERA_HD P CostlyFunctor<Function, kCost>::PacketMap(const P& a) {
  if constexpr (ArrayKernelElement<PacketElement<P>>) {
    return PacketThroughArrayKernel<Function>(a);
  } else {
    return Function::OfPacket(a);
  }
}

template <typename Function>
template <RealPacket P>
requires kInWideLanes<PacketElement<P>> TESSERA_HD P
CostlyFloatFunctor<Function>::PacketMap(const P& a) {
  return CostlyFunctor<Function>::PacketMap(a);
}

template <RealPacket P>
requires kInWideLanes<PacketElement<P>> TESSERA_HD P power::PacketMap(const P& a, const P& b) {
  if constexpr (ArrayKernelElement<PacketElement<P>>) {
    return PacketThroughArrayKernel<power>(a, b);
  } else {
    return packet_math::Power(a, b);
  }
}

/// Defines a functor's OfPacket: the function of packet_math.h called Name.
#define TESSERA_DEFINE_OF_PACKET(functor, Name) \
  template <typename P>                         \
  TESSERA_HD P functor::OfPacket(const P& a) {  \
    return packet_math::Name(a);                \
  }
TESSERA_DEFINE_OF_PACKET(exp, Exp)
TESSERA_DEFINE_OF_PACKET(exp2, Exp2)
TESSERA_DEFINE_OF_PACKET(expm1, Expm1)
TESSERA_DEFINE_OF_PACKET(log, Log)
TESSERA_DEFINE_OF_PACKET(log10, Log10)
TESSERA_DEFINE_OF_PACKET(log2, Log2)
TESSERA_DEFINE_OF_PACKET(log1p, Log1p)
TESSERA_DEFINE_OF_PACKET(sin, Sin)
TESSERA_DEFINE_OF_PACKET(cos, Cos)
TESSERA_DEFINE_OF_PACKET(tan, Tan)
TESSERA_DEFINE_OF_PACKET(asin, Asin)
TESSERA_DEFINE_OF_PACKET(acos, Acos)
TESSERA_DEFINE_OF_PACKET(atan, Atan)
TESSERA_DEFINE_OF_PACKET(sinh, Sinh)
TESSERA_DEFINE_OF_PACKET(cosh, Cosh)
TESSERA_DEFINE_OF_PACKET(tanh, Tanh)
TESSERA_DEFINE_OF_PACKET(asinh, Asinh)
TESSERA_DEFINE_OF_PACKET(acosh, Acosh)
TESSERA_DEFINE_OF_PACKET(atanh, Atanh)
TESSERA_DEFINE_OF_PACKET(cbrt, Cbrt)
TESSERA_DEFINE_OF_PACKET(erf, Erf)
TESSERA_DEFINE_OF_PACKET(erfc, Erfc)
TESSERA_DEFINE_OF_PACKET(gamma, Gamma)
TESSERA_DEFINE_OF_PACKET(lgamma, LogGamma)
TESSERA_DEFINE_OF_PACKET(digamma, Digamma)
TESSERA_DEFINE_OF_PACKET(sigmoid, Sigmoid)
TESSERA_DEFINE_OF_PACKET(softrelu, Softplus)
TESSERA_DEFINE_OF_PACKET(gelu, Gelu)
TESSERA_DEFINE_OF_PACKET(gelu_grad, GeluSlope)
#undef TESSERA_DEFINE_OF_PACKET

template <RealPacket P>
TESSERA_HD P softsign::PacketMap(const P& a) {
  return pk::pdiv(a, pk::padd(packet_math::Set<P>(1), pk::pabs(a)));
}

}  // namespace op
}  // namespace TESSERA_ISA_NAMESPACE
}  // namespace tessera

#endif  // TESSERA_TENSOR_FUNCTORS_REAL_FUNCTOR_PACKETS_H_
