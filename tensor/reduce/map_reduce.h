#ifndef TESSERA_TENSOR_REDUCE_MAP_REDUCE_H_
#define TESSERA_TENSOR_REDUCE_MAP_REDUCE_H_

#include "tessera/tensor/functors/adapted_reducer.h"
#include "tessera/tensor/reduce/reduce.h"

/// Assignments and reductions as functions, for code that chooses at compile time how to save.
/// Saver is sv::saveto, sv::plusto, sv::minusto, sv::multo, sv::divto, or a struct with `static
/// void Save(T& a, T b)`.
namespace tessera {
inline namespace TESSERA_ISA_NAMESPACE {

/// Evaluates *dst = e, *dst += e and so on, as Saver says.
template <typename Saver, typename Device, int N, typename T, expr::Operand E>
void MapExp(Tensor<Device, N, T>* dst, const E& e) {
  expr::Assign<expr::SaverOf<Saver>>(*dst, e);
}

/// Reduces e over every dimension except kDimKeep, multiplies the results by `scale`, and combines
/// them with *dst as Saver says. Throws Error(kInvalidArgument) unless dst has shape()[kDimKeep]
/// elements, or if these are integers that cannot hold `scale`.
template <typename Saver, typename Red, int kDimKeep, typename Device, typename T, expr::Operand E,
          expr::NumberFor<T> S = T>
void MapReduceKeepHighDim(Tensor<Device, 1, T>* dst, const E& e, S scale = S(1)) {
  auto reduction = expr::reduce_except_dim<kDimKeep, expr::ReducerOf<Red>>(e);
  reduction.scale = expr::NumberAs<op::mul, T>(scale);
  expr::Assign<expr::SaverOf<Saver>>(*dst, reduction);
}

/// Reduces e over every dimension except the last, multiplies the results by `scale`, and combines
/// them with *dst as Saver says. A matrix is reduced by columns. Throws Error(kInvalidArgument)
/// unless dst has as many elements as the last dimension.
template <typename Saver, typename Red, typename Device, typename T, expr::Operand E,
          expr::NumberFor<T> S = T>
void MapReduceKeepLowest(Tensor<Device, 1, T>* dst, const E& e, S scale = S(1)) {
  MapReduceKeepHighDim<Saver, Red, E::kRank - 1>(dst, e, scale);
}

}  // namespace TESSERA_ISA_NAMESPACE
}  // namespace tessera

#endif  // TESSERA_TENSOR_REDUCE_MAP_REDUCE_H_
