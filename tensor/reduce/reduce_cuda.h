#ifndef TESSERA_TENSOR_REDUCE_REDUCE_CUDA_H_
#define TESSERA_TENSOR_REDUCE_REDUCE_CUDA_H_

#include <algorithm>

#include "tessera/tensor/dense/dense.h"
#include "tessera/tensor/functors/accumulate.h"
#include "tessera/tensor/reduce/reduce_columns.h"

namespace tessera::expr {
inline namespace TESSERA_ISA_NAMESPACE {

/// ThreadsPerRow returns the number of threads with which ReduceAlongRowsCuda reduces a row of
/// `columns` elements, so that each thread has a few groups. `group` is the number of elements in
/// 16 bytes.
inline constexpr index_t kReductionThreads = 256;
inline index_t ThreadsPerRow(index_t columns, index_t group) {
  index_t threads = kReductionThreads;
  while (threads > 4 && threads * 2 * group > columns) threads /= 2;
  return threads;
}

/// Divides the elements of each result of a reduction into pieces, so that the GPU has enough
/// threads. A second reduction then combines the results of pieces. The pieces, and so the order of
/// operations, depend only on the shape.
struct ReductionPieces {
  index_t size;   ///< elements of a row, or rows, in each piece except the last
  index_t count;  ///< the number of pieces for each result

  /// Returns the pieces of `rows` rows of `columns` elements, in whole groups.
  static ReductionPieces AlongRows(index_t rows, index_t columns, index_t group) {
    return {rows * ThreadsPerRow(columns, group), columns, 4 * kReductionThreads * group, group};
  }
  /// Returns the pieces for a reduction of `lines` times `extent` rows of `columns` elements to
  /// `lines` rows.
  static ReductionPieces AcrossRows(index_t lines, index_t extent, index_t columns, index_t group) {
    return {lines * columns / (columns % group == 0 ? group : 1), extent, 64, 1};
  }

 private:
  /// Plans for `threads` threads if nothing is cut. A piece is a multiple of `unit` and not much
  /// smaller than `smallest`.
  ReductionPieces(index_t threads, index_t extent, index_t smallest, index_t unit) {
    constexpr index_t kThreadsInAll = index_t{1} << 18;
    const index_t wanted = (kThreadsInAll - 1) / std::max<index_t>(1, threads) + 1;
    count = std::clamp<index_t>(wanted, 1, std::max<index_t>(1, extent / smallest));
    size = ((extent + count - 1) / count + unit - 1) / unit * unit;
    count = size == 0 ? 1 : (extent + size - 1) / size;
  }
};

}  // namespace TESSERA_ISA_NAMESPACE
}  // namespace tessera::expr

#if defined(__CUDACC__)

#include <type_traits>

#include "tessera/tensor/device/cuda_check.h"
#include "tessera/tensor/device/cuda_launch.h"
#include "tessera/tensor/expr/element_group.h"

namespace tessera::expr {
inline namespace TESSERA_ISA_NAMESPACE {

/// Combines the values of each `width` neighbouring threads of a block of 256 by a tree in shared
/// memory, and returns the result to the first of them. Requires: width is a power of two, and all
/// threads of the block call it.
template <typename Op, typename Accumulator>
__device__ Accumulator CombineNeighbours(Accumulator value, unsigned width) {
  __shared__ Accumulator partial[256];
  __syncthreads();
  partial[threadIdx.x] = value;
  __syncthreads();
  for (unsigned half = width / 2; half > 0; half /= 2) {
    if (threadIdx.x % width < half) {
      partial[threadIdx.x] = Op::Map(partial[threadIdx.x], partial[threadIdx.x + half]);
    }
    __syncthreads();
  }
  return partial[threadIdx.x / width * width];
}
template <typename Op, typename Accumulator>
__device__ Accumulator CombineBlock(Accumulator value) {
  return CombineNeighbours<Op>(value, blockDim.x);
}

/// Reduces part of elements [begin, end) of row y: those from `first` on in steps of `step`. Both
/// count elements, or groups of elements if kGroups. `begin` must then be a multiple of their size;
/// each element of a group has its own partial result, and they are combined at the end. Four loads
/// are in flight at a time, because with one a GPU of 4.8 TB/s waits for memory even when it is
/// full of threads.
template <typename Red, typename Accumulator, bool kGroups, typename E>
__device__ Accumulator ReduceStrided(const E& e, index_t y, index_t begin, index_t end,
                                     index_t first, index_t step) {
  using Op = typename Red::OPType;
  Accumulator value = Red::template InitialValue<Accumulator>();
  if constexpr (kGroups) {
    using Group = ElementGroup<typename E::value_type>;
    const index_t groups = (end - begin) / Group::kSize;
    Accumulator parts[static_cast<size_t>(Group::kSize)];
    for (Accumulator& part : parts) part = value;
#pragma unroll 4
    for (index_t i = first; i < groups; i += step) {
      const Group group = e.template EvalPacket<Group>(y, begin + i * Group::kSize);
      for (index_t k = 0; k < Group::kSize; ++k) {
        parts[k] = Op::Map(parts[k], static_cast<Accumulator>(group[k]));
      }
    }
    for (const Accumulator part : parts) value = Op::Map(value, part);
    for (index_t x = begin + groups * Group::kSize + first; x < end; x += step) {
      value = Op::Map(value, static_cast<Accumulator>(e.Eval(y, x)));
    }
  } else {
#pragma unroll 4
    for (index_t x = begin + first; x < end; x += step) {
      value = Op::Map(value, static_cast<Accumulator>(e.Eval(y, x)));
    }
  }
  return value;
}

/// Sets dst[y * pieces + p] to the reduction of piece p of row y, by `width` neighbouring threads.
/// `count` is passed to Finish.
template <typename Red, typename Finish, bool kGroups, typename Accumulator, typename T, typename E>
__global__ void ReduceAlongRowsKernel(T* dst, E e, index_t rows, index_t columns, index_t piece,
                                      index_t pieces, index_t count, unsigned width) {
  using Op = typename Red::OPType;
  const index_t results = rows * pieces;
  const unsigned per_block = blockDim.x / width;
  for (index_t block = blockIdx.x; block * per_block < results; block += gridDim.x) {
    const index_t i = block * per_block + threadIdx.x / width;
    Accumulator value = Red::template InitialValue<Accumulator>();
    if (i < results) {
      const index_t y = pieces == 1 ? i : i / pieces;
      const index_t begin = (i - y * pieces) * piece;
      value = ReduceStrided<Red, Accumulator, kGroups>(
          e, y, begin, std::min(columns, begin + piece), threadIdx.x % width, width);
    }
    value = CombineNeighbours<Op>(value, width);
    if (i < results && threadIdx.x % width == 0) dst[i] = Finish::template Map<T>(value, count);
  }
}

/// Sets dst[p * size + i] to the reduction of piece p of column i, where `size` is the number of
/// results. One thread computes one result, or with kGroups the results of a group of 16 bytes. A
/// piece is reduced in blocks of rows (see kRowsPerBlock). Neighbouring threads read neighbouring
/// columns. `count` is passed to Finish.
template <typename Red, typename Finish, bool kGroups, typename Accumulator, typename T, typename E>
__global__ void ReduceAcrossRowsKernel(T* dst, E e, index_t lines, index_t extent, index_t inner,
                                       index_t columns, index_t piece, index_t pieces,
                                       index_t count) {
  using Op = typename Red::OPType;
  using Group = ElementGroup<typename E::value_type>;
  constexpr index_t kSize = kGroups ? Group::kSize : 1;
  const index_t steps = lines * (columns / kSize);
  for (index_t i = blockIdx.x * index_t{blockDim.x} + threadIdx.x; i < steps * pieces;
       i += index_t{gridDim.x} * blockDim.x) {
    const index_t p = pieces == 1 ? 0 : i / steps;
    const index_t at = (i - p * steps) * kSize;
    const index_t line = lines == 1 ? 0 : at / columns;
    const index_t x = at - line * columns;
    const index_t first_row =
        inner == 1 ? line * extent : line / inner * extent * inner + line % inner;
    const index_t last = std::min(extent, (p + 1) * piece);
    Accumulator values[static_cast<size_t>(kSize)];
    for (Accumulator& value : values) value = Red::template InitialValue<Accumulator>();
    for (index_t k = p * piece; k < last;) {
      const index_t end = kRounds<Red, Accumulator> ? std::min(last, k + kRowsPerBlock) : last;
      Accumulator block[static_cast<size_t>(kSize)];
      for (Accumulator& value : block) value = Red::template InitialValue<Accumulator>();
#pragma unroll 4
      for (; k < end; ++k) {
        if constexpr (kGroups) {
          const Group group = e.template EvalPacket<Group>(first_row + k * inner, x);
          for (index_t j = 0; j < kSize; ++j) {
            block[j] = Op::Map(block[j], static_cast<Accumulator>(group[j]));
          }
        } else {
          block[0] = Op::Map(block[0], static_cast<Accumulator>(e.Eval(first_row + k * inner, x)));
        }
      }
      for (index_t j = 0; j < kSize; ++j) values[j] = Op::Map(values[j], block[j]);
    }
    for (index_t j = 0; j < kSize; ++j) {
      dst[p * lines * columns + at + j] = Finish::template Map<T>(values[j], count);
    }
  }
}

/// Calls launch with std::true_type if groups of elements can be used, else with std::false_type.
template <typename E, typename Launch>
void LaunchInGroups(const E& e, index_t rows, bool fits, const Launch& launch) {
  if constexpr (HasGroups<E>()) {
    if (fits && e.GroupsAreAligned(rows)) {
      launch(std::true_type());
      return;
    }
  }
  launch(std::false_type());
}

/// Enqueues dst[y] = the finished reduction of row y of (rows, columns) elements.
template <typename Red, typename Finish, typename Accumulator, typename T, typename E>
void ReduceAlongRowsCuda(T* dst, const E& e, index_t rows, index_t columns, index_t count,
                         Scratch<gpu>* scratch) {
  constexpr unsigned kThreads = kReductionThreads;
  constexpr index_t kGroup = ElementGroup<typename E::value_type>::kSize;
  const cudaStream_t stream = tensor_internal::CudaStream(scratch->stream());
  const auto width = static_cast<unsigned>(ThreadsPerRow(columns, kGroup));
  const auto pieces = ReductionPieces::AlongRows(rows, columns, kGroup);
  const auto run = [&](auto finish, auto* to, index_t finish_count) {
    LaunchInGroups(e, rows, true, [&](auto in_groups) {
      const index_t per_block = kThreads / width;
      const index_t blocks = (rows * pieces.count + per_block - 1) / per_block;
      const auto grid = static_cast<unsigned>(std::clamp<index_t>(blocks, 1, index_t{1} << 20));
      ReduceAlongRowsKernel<Red, decltype(finish), decltype(in_groups)::value, Accumulator>
          <<<grid, kThreads, 0, stream>>>(to, e, rows, columns, pieces.size, pieces.count,
                                          finish_count, width);
    });
    tensor_internal::CheckCuda(cudaGetLastError(), "reduction kernel");
  };
  if (pieces.count == 1) {
    run(Finish(), dst, count);
    return;
  }
  const Tensor<gpu, 2, Accumulator> partial =
      TemporaryTensor<gpu, 2, Accumulator>(Shape2(rows, pieces.count), scratch->stream(), scratch);
  run(finish::None(), partial.dptr_, count);
  ReduceAlongRowsCuda<Red, Finish, Accumulator>(dst, partial, rows, pieces.count, count, scratch);
}

/// Enqueues the finished reduction of each line for all columns. There are outer * inner lines;
/// each is reduced from `extent` rows, which are `inner` apart.
template <typename Red, typename Finish, typename Accumulator, typename T, typename E>
void ReduceAcrossRowsCuda(T* dst, const E& e, index_t outer, index_t extent, index_t inner,
                          index_t columns, index_t count, Scratch<gpu>* scratch) {
  constexpr index_t kGroup = ElementGroup<typename E::value_type>::kSize;
  const cudaStream_t stream = tensor_internal::CudaStream(scratch->stream());
  const index_t lines = outer * inner;
  const bool fits = kGroup > 1 && columns % kGroup == 0;
  const auto pieces = ReductionPieces::AcrossRows(lines, extent, columns, kGroup);
  const auto run = [&](auto finish, auto* to, index_t finish_count) {
    LaunchInGroups(e, lines * extent, fits, [&](auto in_groups) {
      constexpr index_t kSize = decltype(in_groups)::value ? kGroup : 1;
      const auto launch = tensor_internal::LaunchShapeFor(lines * columns / kSize * pieces.count);
      ReduceAcrossRowsKernel<Red, decltype(finish), decltype(in_groups)::value, Accumulator>
          <<<launch.blocks, launch.threads, 0, stream>>>(to, e, lines, extent, inner, columns,
                                                         pieces.size, pieces.count, finish_count);
    });
    tensor_internal::CheckCuda(cudaGetLastError(), "reduction kernel");
  };
  if (pieces.count == 1) {
    run(Finish(), dst, count);
    return;
  }
  const Tensor<gpu, 2, Accumulator> partial = TemporaryTensor<gpu, 2, Accumulator>(
      Shape2(pieces.count, lines * columns), scratch->stream(), scratch);
  run(finish::None(), partial.dptr_, count);
  ReduceAcrossRowsCuda<Red, Finish, Accumulator>(dst, partial, 1, pieces.count, 1, lines * columns,
                                                 count, scratch);
}

/// A flat expression as rows of `columns` elements.
template <typename E>
struct FlatRows {
  using value_type = typename E::value_type;
  static constexpr bool kHasGroups = HasGroups<E>();

  E e;
  index_t columns;

  TESSERA_HD value_type Eval(index_t y, index_t x) const { return e.Eval(0, y * columns + x); }
  template <typename P>
  TESSERA_HD P EvalPacket(index_t y, index_t x) const {
    return e.template EvalPacket<P>(0, y * columns + x);
  }
  bool GroupsAreAligned(index_t) const {
    return columns % ElementGroup<value_type>::kSize == 0 && e.GroupsAreAligned(1);
  }
};

/// Enqueues to[i] = Red over all dimensions except kAxis. If kAxis is the last dimension, it
/// reduces over rows. Otherwise it first reduces along rows, which extend to the expression's end
/// if it is flat, and then over the rows' results.
template <typename Red, typename Accumulator, int kAxis, typename T, typename E>
void ReduceToAxisCuda(T* to, const E& e, Scratch<gpu>* scratch) {
  using finish::None;
  const auto shape = e.shape();
  const index_t outer = shape.ProdShape(0, kAxis), kept = shape[kAxis];
  if constexpr (kAxis == E::kRank - 1) {
    ReduceAcrossRowsCuda<Red, None, Accumulator>(to, e, 1, outer, 1, kept, outer, scratch);
  } else {
    const bool flat = e.IsFlat();
    const index_t columns = shape.ProdShape(flat ? kAxis + 1 : E::kRank - 1, E::kRank);
    const index_t inner_rows = flat ? 1 : shape.ProdShape(kAxis + 1, E::kRank - 1);
    if (flat && columns == 1) {  // nothing to reduce along
      ReduceAcrossRowsCuda<Red, None, Accumulator>(to, FlatRows<E>{e, kept}, 1, outer, 1, kept,
                                                   outer, scratch);
      return;
    }
    const auto along = [&](auto* results, const auto& rows, index_t count, index_t extent) {
      if (count == 0) return;
      ReduceAlongRowsCuda<Red, None, Accumulator>(results, rows, count, extent, extent, scratch);
    };
    const auto first = [&](auto* results) {
      const index_t count = outer * kept * inner_rows;
      if (flat) {
        along(results, FlatRows<E>{e, columns}, count, columns);
      } else {
        along(results, e, count, columns);
      }
    };
    const auto part = [&](index_t rows, index_t of_each) {
      return TemporaryTensor<gpu, 2, Accumulator>(Shape2(rows, of_each), scratch->stream(),
                                                  scratch);
    };
    const auto second = [&](auto* results) {
      if (inner_rows == 1) return first(results);
      const auto rows = part(outer * kept, inner_rows);
      first(rows.dptr_);
      along(results, rows, outer * kept, inner_rows);
    };
    if (outer == 1) return second(to);
    const auto places = part(outer, kept);
    second(places.dptr_);
    ReduceAcrossRowsCuda<Red, None, Accumulator>(to, places, 1, outer, 1, kept, outer, scratch);
  }
}

/// Enqueues the combination of dst[i] with scale * Red over all dimensions except kAxis.
template <typename Red, typename Saver, int kAxis, typename T, typename E>
void ReduceExceptCuda(const Tensor<gpu, 1, T>& dst, const E& e, T scale) {
  using Accumulator = AccumulatorOf<Red, T>;
  if (dst.shape_[0] == 0) return;
  Scratch<gpu> scratch(dst.stream_);
  if constexpr (std::is_same_v<Saver, sv::saveto>) {
    if (scale == T(1)) {
      ReduceToAxisCuda<Red, Accumulator, kAxis>(dst.dptr_, e, &scratch);
      return;
    }
  }
  const auto results = TemporaryTensor<gpu, 1, Accumulator>(dst.shape_, dst.stream_, &scratch);
  ReduceToAxisCuda<Red, Accumulator, kAxis>(results.dptr_, e, &scratch);
  Evaluate<Saver>(dst, tcast<T>(F<op::mul>(results, static_cast<Accumulator>(scale))));
}

}  // namespace TESSERA_ISA_NAMESPACE
}  // namespace tessera::expr

#endif  // defined(__CUDACC__)

#endif  // TESSERA_TENSOR_REDUCE_REDUCE_CUDA_H_
