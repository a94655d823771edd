#ifndef TESSERA_TENSOR_REDUCE_H_
#define TESSERA_TENSOR_REDUCE_H_

#include <algorithm>
#include <array>
#include <tuple>

#include "tessera/tensor/accumulate.h"
#include "tessera/tensor/dense.h"
#include "tessera/tensor/internal/adapted_reducer.h"
#include "tessera/tensor/reduce_cuda.h"

namespace tessera {
namespace expr {
inline namespace TESSERA_ISA_NAMESPACE {

/// Packets that one partial result takes up before it is put aside. The error of a sum grows with
/// the additions one after another, here at most this many of elements and the number of such
/// blocks in a chunk of partial results, instead of all (blocked summation; N. J. Higham, Accuracy
/// and Stability of Numerical Algorithms, 2002, section 4.2).
inline constexpr index_t kReduceBlock = 128;

/// Reduces elements [begin, end) of row y of an expression, in an order that depends on nothing but
/// the extent: four packets of partial results, then their lanes, then the rest.
template <typename Red, typename E>
AccumulatorOf<Red, typename E::value_type> ReduceRow(const E& e, index_t y, index_t begin,
                                                     index_t end) {
  using T = typename E::value_type;
  using Accumulator = AccumulatorOf<Red, T>;
  using Op = typename Red::OPType;
  Accumulator result = Red::template InitialValue<Accumulator>();
  index_t x = begin;
  using P = typename PacketTraits<T>::type;
  if constexpr (E::kHasPacket && PacketTraits<T>::kVectorizable && HasBinaryPacket<Op, T> &&
                std::is_same_v<T, Accumulator>) {
    constexpr index_t kSize = PacketTraits<T>::kSize;
    if (end - x >= 4 * kSize) {
      // Four independent chains hide the latency of the addition.
      const P initial = pk::pset1<P>(Red::template InitialValue<T>());
      P all = initial;
      while (x + 4 * kSize <= end) {
        const index_t packets = std::min(kReduceBlock, (end - x) / (4 * kSize));
        const index_t block_end = x + packets * 4 * kSize;
        P p0 = initial, p1 = initial, p2 = initial, p3 = initial;
        for (; x < block_end; x += 4 * kSize) {
          p0 = MapPackets<Op>(p0, e.template EvalPacket<P>(y, x));
          p1 = MapPackets<Op>(p1, e.template EvalPacket<P>(y, x + kSize));
          p2 = MapPackets<Op>(p2, e.template EvalPacket<P>(y, x + 2 * kSize));
          p3 = MapPackets<Op>(p3, e.template EvalPacket<P>(y, x + 3 * kSize));
        }
        all = MapPackets<Op>(all, MapPackets<Op>(MapPackets<Op>(p0, p1), MapPackets<Op>(p2, p3)));
      }
      alignas(64) std::array<T, static_cast<size_t>(kSize)> lanes;
      pk::pstoreu(lanes.data(), all);
      for (const T lane : lanes) result = Op::Map(result, lane);
    }
  }
  for (; x < end; ++x) result = Op::Map(result, static_cast<Accumulator>(e.Eval(y, x)));
  return result;
}

/// Columns that one pass of a reduction over rows keeps in registers and L1.
inline constexpr index_t kColumnBlock = 256;

/// dst[x] = Red over all rows y of e(y, x).
template <typename Red, typename Saver, typename T, typename E>
void ReduceOverRows(const Tensor<cpu, 1, T>& dst, const E& e, index_t rows, T scale) {
  using Accumulator = AccumulatorOf<Red, T>;
  using Op = typename Red::OPType;
  const index_t columns = dst.shape_[0];
  const index_t blocks = (columns + kColumnBlock - 1) / kColumnBlock;
  const index_t work_per_block = std::max<index_t>(1, rows * kColumnBlock);
  ParallelFor(
      blocks, std::max<index_t>(1, kElementsPerTask / work_per_block),
      [&](index_t first, index_t last) {
        const E local = e;
        alignas(64) Accumulator sums[kColumnBlock];
        for (index_t block = first; block < last; ++block) {
          const index_t begin = block * kColumnBlock;
          const index_t count = std::min(kColumnBlock, columns - begin);
          std::fill_n(sums, count, Red::template InitialValue<Accumulator>());
          for (index_t y = 0; y < rows; ++y) {
            index_t i = 0;
            using P = typename PacketTraits<T>::type;
            if constexpr (E::kHasPacket && PacketTraits<T>::kVectorizable &&
                          HasBinaryPacket<Op, T> && std::is_same_v<T, Accumulator>) {
              constexpr index_t kSize = PacketTraits<T>::kSize;
              for (; i + kSize <= count; i += kSize) {
                pk::pstoreu(sums + i, MapPackets<Op>(pk::ploadu<P>(sums + i),
                                                     local.template EvalPacket<P>(y, begin + i)));
              }
            }
            for (; i < count; ++i) {
              sums[i] = Op::Map(sums[i], static_cast<Accumulator>(local.Eval(y, begin + i)));
            }
          }
          for (index_t i = 0; i < count; ++i) {
            SaveElement<Saver>(dst.dptr_ + begin + i, static_cast<T>(sums[i] * scale));
          }
        }
      });
}

/// sumall_except_dim<kAxis>(e), reduce_except_dim<kAxis, Red>(e): a reduction to a vector.
template <typename Red, int kAxis, typename E>
struct ReduceExceptExp : ComplexExp<ReduceExceptExp<Red, kAxis, E>, typename E::value_type> {
  using T = typename E::value_type;
  using value_type = T;
  using device_type = DeviceOf<E>;
  static constexpr int kRank = 1;
  static_assert(0 <= kAxis && kAxis < E::kRank, "the axis to keep must lie in the expression");

  E e;
  T scale = T(1);

  explicit ReduceExceptExp(const E& operand) : e(operand) {}
  Shape<1> shape() const { return Shape1(e.shape()[kAxis]); }
  std::tuple<E> operands() const { return {e}; }

  template <typename Saver, typename Device>
  requires SameDevice<E, Tensor<Device, 1, T>>
  void AssignTo(const Tensor<Device, 1, T>& dst) const {
    if (dst.shape_ != shape()) {
      throw InvalidArgument("reduction: dimension ", kAxis, " of shape ", e.shape(),
                            " does not fit a destination of ", dst.shape_[0], " elements");
    }
    if constexpr (IsComputedFirst<E>()) {
      Scratch<Device> scratch(dst.stream_);
      ReduceSafely<Saver>(dst, Prepare(e, &scratch));
    } else {
      ReduceSafely<Saver>(dst, e);
    }
  }

 private:
  /// Results are written while later ones are still to be read for.
  template <typename Saver, typename Device, typename Ready>
  void ReduceSafely(const Tensor<Device, 1, T>& dst, const Ready& ready) const {
    if (ReadsElsewhere<true>(ready, PlaceOf(dst))) {
      Scratch<Device> scratch(dst.stream_);
      const auto temporary = TemporaryTensor<Device, 1, T>(dst.shape_, dst.stream_, &scratch);
      ReduceTo<sv::saveto>(temporary, ready);
      Evaluate<Saver>(dst, temporary);
    } else {
      ReduceTo<Saver>(dst, ready);
    }
  }

  template <typename Saver, typename Device, typename Ready>
  void ReduceTo(const Tensor<Device, 1, T>& dst, const Ready& ready) const {
    const auto shape = ready.shape();
    const index_t outer = shape.ProdShape(0, kAxis);
    const index_t kept = shape[kAxis];
    if constexpr (!Device::kDevCPU) {
      ReduceExceptCuda<Red, Saver>(dst, ready, outer, kept, shape.ProdShape(kAxis + 1, E::kRank),
                                   shape[E::kRank - 1], scale);
    } else if constexpr (kAxis == E::kRank - 1) {
      ReduceOverRows<Red, Saver>(dst, ready, outer, scale);
    } else {
      using Op = typename Red::OPType;
      const index_t inner_rows = shape.ProdShape(kAxis + 1, E::kRank - 1);
      const index_t columns = shape[E::kRank - 1];
      const index_t work = std::max<index_t>(1, outer * inner_rows * columns);
      ParallelFor(kept, std::max<index_t>(1, kElementsPerTask / work),
                  [&](index_t first, index_t last) {
                    const Ready local = ready;
                    for (index_t i = first; i < last; ++i) {
                      auto result = Red::template InitialValue<AccumulatorOf<Red, T>>();
                      for (index_t o = 0; o < outer; ++o) {
                        for (index_t r = 0; r < inner_rows; ++r) {
                          const index_t y = (o * kept + i) * inner_rows + r;
                          result = Op::Map(result, ReduceRow<Red>(local, y, 0, columns));
                        }
                      }
                      SaveElement<Saver>(dst.dptr_ + i, static_cast<T>(result * scale));
                    }
                  });
    }
  }
};

/// The sum over every dimension but kAxis, for `dst = scale * sumall_except_dim<1>(a * b)` with a
/// vector dst of shape()[kAxis] elements: 0 keeps a matrix's rows, 1 its columns.
///
/// No temporary of the operand's size. half and bfloat16 add up in float,
/// integers in 64 bits. The order of additions
/// depends on the shape alone. An empty sum is 0.
template <int kAxis, Operand E>
ReduceExceptExp<red::sum, kAxis, OperandNode<E>> sumall_except_dim(const E& e) {
  return ReduceExceptExp<red::sum, kAxis, OperandNode<E>>(AsNode(e));
}

/// The same for any reducer: red::sum, red::maximum, red::minimum, or a struct with Reduce and
/// SetInitValue as in mshadow. NaN wins every comparison.
template <int kAxis, typename Red, Operand E>
ReduceExceptExp<ReducerOf<Red>, kAxis, OperandNode<E>> reduce_except_dim(const E& e) {
  return ReduceExceptExp<ReducerOf<Red>, kAxis, OperandNode<E>>(AsNode(e));
}

/// The sum of a matrix's rows: one value a column.
template <Operand E>
ReduceExceptExp<red::sum, 1, OperandNode<E>> sum_rows(const E& e) {
  static_assert(E::kRank == 2, "sum_rows is defined for matrices");
  return ReduceExceptExp<red::sum, 1, OperandNode<E>>(AsNode(e));
}

/// Elements that a full reduction handles as one partial result; fixed, so that the order of
/// additions does not depend on the number of threads.
inline constexpr index_t kReduceChunk = index_t{1} << 14;

/// Reduces a CPU expression that is ready for a loop to one number.
template <typename Red, typename E>
AccumulatorOf<Red, typename E::value_type> ReduceToNumber(const E& e) {
  using T = typename E::value_type;
  using Accumulator = AccumulatorOf<Red, T>;
  using Op = typename Red::OPType;
  const auto shape = e.shape();
  Shape<2> flat = shape.FlatTo2D();
  if (e.IsFlat()) flat = Shape2(1, shape.Size());
  if (flat.Size() == 0) return Red::template InitialValue<Accumulator>();
  // Cut into (row range or column range) chunks of about kReduceChunk elements.
  const bool one_row = flat[0] == 1;
  const index_t extent = one_row ? flat[1] : flat[0];
  const index_t chunk = one_row ? kReduceChunk : std::max<index_t>(1, kReduceChunk / flat[1]);
  const index_t chunks = (extent + chunk - 1) / chunk;
  constexpr index_t kPartials = 64;  // combined in order, a bounded number at a time
  TotalOf<Red, Accumulator> total = Red::template InitialValue<TotalOf<Red, Accumulator>>();
  for (index_t base = 0; base < chunks; base += kPartials) {
    std::array<Accumulator, static_cast<size_t>(kPartials)> partial;
    const index_t count = std::min(kPartials, chunks - base);
    ParallelFor(count, 2, [&](index_t first, index_t last) {
      const E local = e;
      for (index_t c = first; c < last; ++c) {
        const index_t begin = (base + c) * chunk;
        const index_t end = std::min(extent, begin + chunk);
        if (one_row) {
          partial[static_cast<size_t>(c)] = ReduceRow<Red>(local, 0, begin, end);
        } else {
          Accumulator sum = Red::template InitialValue<Accumulator>();
          for (index_t y = begin; y < end; ++y) {
            sum = Op::Map(sum, ReduceRow<Red>(local, y, 0, flat[1]));
          }
          partial[static_cast<size_t>(c)] = sum;
        }
      }
    });
    for (index_t c = 0; c < count; ++c) {
      total = Op::Map(total, TotalOf<Red, Accumulator>(partial[static_cast<size_t>(c)]));
    }
  }
  return static_cast<Accumulator>(total);
}

/// Reduces a whole CPU expression to one number and returns it. An empty sum is 0, an empty maximum
/// the type's lowest value, an empty minimum its highest.
template <typename Red, Operand E>
typename E::value_type ReduceAll(const E& expression) {
  Scratch<cpu> scratch;
  return static_cast<typename E::value_type>(
      ReduceToNumber<Red>(Prepare(AsNode(expression), &scratch)));
}

}  // namespace TESSERA_ISA_NAMESPACE
}  // namespace expr

using expr::reduce_except_dim;
using expr::ReduceAll;
using expr::sum_rows;
using expr::sumall_except_dim;

}  // namespace tessera

#endif  // TESSERA_TENSOR_REDUCE_H_
