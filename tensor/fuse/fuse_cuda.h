#ifndef TESSERA_TENSOR_FUSE_FUSE_CUDA_H_
#define TESSERA_TENSOR_FUSE_FUSE_CUDA_H_

#include "tessera/tensor/fuse/lazy.h"

#if defined(__CUDACC__)

#include <algorithm>
#include <tuple>
#include <type_traits>

#include "tessera/tensor/device/cuda_check.h"
#include "tessera/tensor/device/cuda_launch.h"
#include "tessera/tensor/expr/element_group.h"

/// Fuse on a GPU: one kernel in which each thread runs every statement for one element before the
/// next element. fuse.h explains statements.
namespace tessera::expr {
inline namespace TESSERA_ISA_NAMESPACE {

/// Values of several types, as a kernel's argument and in a GPU's memory. std::tuple guarantees no
/// layout for them.
template <typename... T>
struct Pack {};
template <typename First, typename... Rest>
struct Pack<First, Rest...> {
  First first;
  Pack<Rest...> rest;
};
inline Pack<> MakePack() { return {}; }
template <typename First, typename... Rest>
Pack<First, Rest...> MakePack(const First& first, const Rest&... rest) {
  return {first, MakePack(rest...)};
}

/// Calls body(a.first, b.first, c.first) for each position in the packs.
template <typename Body>
__device__ void ForEachOf(const Body&, const Pack<>&, Pack<>&, Pack<>&) {}
template <typename Body, typename A, typename... As, typename B, typename... Bs, typename C,
          typename... Cs>
__device__ void ForEachOf(const Body& body, const Pack<A, As...>& a, Pack<B, Bs...>& b,
                          Pack<C, Cs...>& c) {
  body(a.first, b.first, c.first);
  ForEachOf(body, a.rest, b.rest, c.rest);
}

/// An assignment that is materialized for the kernel. It has no partial result.
template <typename Saver, typename T, typename E>
struct KernelAssignment {
  struct Partial {};
  using Result = Partial;
  static constexpr bool kReduces = false;
  static constexpr bool kMovesGroups = HasGroups<E>();

  T* dst;
  index_t stride;
  E e;

  __device__ void Start(Partial*) const {}
  __device__ void Run(index_t y, index_t x, Partial*) const {
    SaveOne<Saver>(dst + y * stride + x, e, y, x);
  }
  template <typename Group>
  __device__ void RunGroup(index_t x, Partial*) const {
    const Group value = e.template EvalPacket<Group>(0, x);
    if constexpr (std::is_same_v<Saver, sv::saveto>) {
      StorePacket(dst + x, value);
    } else {
      StorePacket(dst + x, MapPackets<typename Saver::OPType>(LoadPacket<Group>(dst + x), value));
    }
  }
  __device__ void Combine(Partial*, const volatile Partial*) const {}
  __device__ void CombineThreads(Partial*) const {}
  __device__ void Finish(const Partial&, index_t, Result*) const {}
};

/// An assignment to a view that is materialized for the kernel. The view's elements need not be
/// contiguous.
template <typename Saver, typename T, typename E>
struct KernelViewAssignment {
  struct Partial {};
  using Result = Partial;
  static constexpr bool kReduces = false;
  static constexpr bool kMovesGroups = false;

  T* dst;
  index_t row_step;
  index_t column_step;
  E e;

  __device__ void Start(Partial*) const {}
  __device__ void Run(index_t y, index_t x, Partial*) const {
    SaveOne<Saver>(dst + y * row_step + x * column_step, e, y, x);
  }
  __device__ void Combine(Partial*, const volatile Partial*) const {}
  __device__ void CombineThreads(Partial*) const {}
  __device__ void Finish(const Partial&, index_t, Result*) const {}
};

/// A reduction that is materialized for the kernel.
template <typename Red, typename End, typename T, typename E>
struct KernelReduction {
  using Partial = AccumulatorOf<Red, typename E::value_type>;
  using Result = T;
  static constexpr bool kReduces = true;
  static constexpr bool kMovesGroups = HasGroups<E>();

  E e;

  __device__ void Start(Partial* partial) const {
    *partial = Red::template InitialValue<Partial>();
  }
  __device__ void Run(index_t y, index_t x, Partial* partial) const {
    *partial = Red::OPType::Map(*partial, static_cast<Partial>(e.Eval(y, x)));
  }
  template <typename Group>
  __device__ void RunGroup(index_t x, Partial* partial) const {
    const Group values = e.template EvalPacket<Group>(0, x);
    for (index_t k = 0; k < Group::kSize; ++k) {
      *partial = Red::OPType::Map(*partial, static_cast<Partial>(values[k]));
    }
  }
  __device__ void Combine(Partial* partial, const volatile Partial* other) const {
    *partial = Red::OPType::Map(*partial, static_cast<Partial>(*other));
  }
  __device__ void CombineThreads(Partial* partial) const {
    *partial = CombineBlock<typename Red::OPType>(*partial);
  }
  __device__ void Finish(const Partial& total, index_t count, Result* result) const {
    *result = End::template Map<T>(total, count);
  }
};

/// Runs all statements over (rows, columns) elements, in groups of 16 bytes if kGroups; all
/// elements must then be one row. Each block stores its partial results in `partials` if there are
/// reductions. The last block to do so combines them in the order of the blocks.
template <bool kGroups, typename T, typename... Statement>
__global__ void FuseKernel(index_t rows, index_t columns, Pack<Statement...> statements,
                           Pack<typename Statement::Partial...>* partials, unsigned* arrivals,
                           Pack<typename Statement::Result...>* results) {
  Pack<typename Statement::Partial...> own;
  const auto start = [](const auto& statement, auto& partial, auto&) { statement.Start(&partial); };
  ForEachOf(start, statements, own, own);
  const index_t first = blockIdx.x * index_t{blockDim.x} + threadIdx.x;
  const index_t threads = index_t{gridDim.x} * blockDim.x;
  index_t done = 0;
  if constexpr (kGroups) {
    using Group = ElementGroup<T>;
    const index_t groups = columns / Group::kSize;
    for (index_t i = first; i < groups; i += threads) {
      const auto run = [&](const auto& statement, auto& partial, auto&) {
        statement.template RunGroup<Group>(i * Group::kSize, &partial);
      };
      ForEachOf(run, statements, own, own);
    }
    done = groups * Group::kSize;
  }
  for (index_t i = done + first; i < rows * columns; i += threads) {
    const index_t y = rows == 1 ? 0 : i / columns;
    const auto run = [&](const auto& statement, auto& partial, auto&) {
      statement.Run(y, i - y * columns, &partial);
    };
    ForEachOf(run, statements, own, own);
  }
  if constexpr ((Statement::kReduces || ...)) {
    const auto combine_threads = [](const auto& statement, auto& partial, auto&) {
      statement.CombineThreads(&partial);
    };
    ForEachOf(combine_threads, statements, own, own);
    if (threadIdx.x == 0) partials[blockIdx.x] = own;
    if (!IsLastBlock(arrivals)) return;
    ForEachOf(start, statements, own, own);
    for (unsigned i = threadIdx.x; i < gridDim.x; i += blockDim.x) {
      const auto combine = [](const auto& statement, auto& partial, auto& other) {
        statement.Combine(&partial, &other);
      };
      ForEachOf(combine, statements, own, partials[i]);
    }
    ForEachOf(combine_threads, statements, own, own);
    if (threadIdx.x == 0) {
      const auto finish = [&](const auto& statement, auto& partial, auto& result) {
        statement.Finish(partial, rows * columns, &result);
      };
      ForEachOf(finish, statements, own, *results);
    }
  }
}

/// Enqueues the statements on a stream. If one of them reduces, waits for the kernel and returns
/// the results.
template <typename T, typename... Statement>
Pack<typename Statement::Result...> RunFusedCuda(const Shape<2>& shape, bool in_groups,
                                                 Scratch<gpu>* scratch,
                                                 const Pack<Statement...>& statements) {
  using Partials = Pack<typename Statement::Partial...>;
  using Results = Pack<typename Statement::Result...>;
  constexpr bool kReduces = (Statement::kReduces || ...);
  constexpr bool kHasGroups =
      ((Statement::kMovesGroups &&
        std::is_same_v<typename decltype(Statement::e)::value_type, T>)&&...) &&
      ElementGroup<T>::kSize > 1;
  const cudaStream_t stream = tensor_internal::CudaStream(scratch->stream());
  auto launch = tensor_internal::LaunchShapeFor(shape.Size());
  Partials* partials = nullptr;
  unsigned* arrivals = nullptr;
  Results* device_results = nullptr;
  if (kReduces) {
    launch.blocks = std::min(launch.blocks, 1024u);  // fewer partial results to combine
    partials = static_cast<Partials*>(
        scratch->Allocate(launch.blocks * static_cast<index_t>(sizeof(Partials))));
    arrivals = static_cast<unsigned*>(scratch->Allocate(sizeof(unsigned)));
    device_results = static_cast<Results*>(scratch->Allocate(sizeof(Results)));
    tensor_internal::CheckCuda(cudaMemsetAsync(arrivals, 0, sizeof(unsigned), stream),
                               "Fuse: counter of blocks");
  }
  if (kHasGroups && in_groups) {
    if constexpr (kHasGroups) {
      FuseKernel<true, T><<<launch.blocks, launch.threads, 0, stream>>>(
          shape[0], shape[1], statements, partials, arrivals, device_results);
    }
  } else {
    FuseKernel<false, T><<<launch.blocks, launch.threads, 0, stream>>>(
        shape[0], shape[1], statements, partials, arrivals, device_results);
  }
  tensor_internal::CheckCuda(cudaGetLastError(), "Fuse kernel");
  Results results{};
  if (kReduces) {
    tensor_internal::CheckCuda(
        cudaMemcpyAsync(&results, device_results, sizeof(Results), cudaMemcpyDeviceToHost, stream),
        "Fuse: copy of the sums");
    tensor_internal::CheckCuda(cudaStreamSynchronize(stream), "Fuse: the sums");
  }
  return results;
}

/// Returns a statement in the kernel's form, with its expression materialized.
template <typename Saver, typename Dst, typename E>
auto ForKernel(const DeferredAssignment<Saver, Dst, E>& statement, Scratch<gpu>* scratch) {
  using Ready = std::remove_cv_t<decltype(Materialize(statement.e, scratch))>;
  return KernelAssignment<Saver, typename Dst::value_type, Ready>{
      statement.dst.dptr_, statement.dst.stride_, Materialize(statement.e, scratch)};
}
template <typename Saver, int N, typename T, typename E>
auto ForKernel(const DeferredAssignment<Saver, ViewExp<gpu, N, T>, E>& statement,
               Scratch<gpu>* scratch) {
  using Ready = std::remove_cv_t<decltype(Materialize(statement.e, scratch))>;
  return KernelViewAssignment<Saver, T, Ready>{statement.dst.dptr_, statement.dst.row_step_,
                                               statement.dst.column_step_,
                                               Materialize(statement.e, scratch)};
}
template <typename Saver, typename Red, typename End, typename T, typename E>
auto ForKernel(const DeferredReduction<Saver, Red, End, T, E>& statement, Scratch<gpu>* scratch) {
  using Ready = std::remove_cv_t<decltype(Materialize(statement.e, scratch))>;
  return KernelReduction<Red, End, T, Ready>{Materialize(statement.e, scratch)};
}

/// Return whether a statement's rows can run as one row, and in groups.
template <typename Saver, typename Dst, typename E, typename K>
bool RunsFlat(const DeferredAssignment<Saver, Dst, E>& statement, const K& kernel_form) {
  return statement.dst.IsFlat() && kernel_form.e.IsFlat();
}
template <typename Saver, typename Red, typename End, typename T, typename E, typename K>
bool RunsFlat(const DeferredReduction<Saver, Red, End, T, E>&, const K& kernel_form) {
  return kernel_form.e.IsFlat();
}
template <typename Statement, typename K>
bool RunsInGroups(const Statement& statement, const K& kernel_form) {
  if constexpr (K::kMovesGroups) {
    if constexpr (requires { statement.dst; }) {
      if (!statement.dst.GroupsAreAligned(1)) return false;
    }
    return kernel_form.e.GroupsAreAligned(1);
  } else {
    return false;
  }
}

template <typename Saver, typename Dst, typename E, typename R>
void SaveResult(const DeferredAssignment<Saver, Dst, E>&, const R&) {}
template <typename Saver, typename Red, typename End, typename T, typename E>
void SaveResult(const DeferredReduction<Saver, Red, End, T, E>& statement, const T& value) {
  statement.Save(value);
}
inline void SaveResults(const Pack<>&) {}
template <typename First, typename... Rest, typename R, typename... Rs>
void SaveResults(const Pack<R, Rs...>& results, const First& first, const Rest&... rest) {
  SaveResult(first, results.first);
  SaveResults(results.rest, rest...);
}

/// Runs statements over one shape on `stream`. Requires: one pass may run them.
template <typename First, typename... Statement>
void FuseOnStream(Stream<gpu>* stream, const First& first, const Statement&... statement) {
  const auto shape = first.shape();
  if (shape.Size() == 0) {
    first.RunAlone();
    (statement.RunAlone(), ...);
    return;
  }
  using T = typename decltype(First::e)::value_type;
  Scratch<gpu> scratch(stream);
  // Braces evaluate in the order of the statements; a call's arguments have no order.
  const std::tuple forms{ForKernel(first, &scratch), ForKernel(statement, &scratch)...};
  std::apply(
      [&](const auto& first_form, const auto&... form) {
        const bool one_row = RunsFlat(first, first_form) && (RunsFlat(statement, form) && ...);
        const bool groups =
            one_row && RunsInGroups(first, first_form) && (RunsInGroups(statement, form) && ...);
        const Shape<2> extent = one_row ? Shape2(1, shape.Size()) : shape.FlatTo2D();
        SaveResults(RunFusedCuda<T>(extent, groups, &scratch, MakePack(first_form, form...)), first,
                    statement...);
      },
      forms);
}

}  // namespace TESSERA_ISA_NAMESPACE
}  // namespace tessera::expr

#endif  // defined(__CUDACC__)

#endif  // TESSERA_TENSOR_FUSE_FUSE_CUDA_H_
