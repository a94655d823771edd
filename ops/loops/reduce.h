#ifndef TESSERA_OPS_LOOPS_REDUCE_H_
#define TESSERA_OPS_LOOPS_REDUCE_H_

#include <array>
#include <cmath>
#include <cstdint>
#include <type_traits>

#include "tessera/base/dtype.h"
#include "tessera/base/host_device.h"
#include "tessera/base/shape.h"
#include "tessera/base/tshape.h"
#include "tessera/ops/loops/axes.h"
#include "tessera/ops/operator.h"
#include "tessera/tensor/tblob.h"

/// Reductions over any axes under one driver: the driver knows element types, axes, requests and
/// threads, so that a reducer is compiled for rows of elements in three types, and no more.
/// reduce_function.h compiles reducers to ReduceFunctions.
namespace tessera::ops_internal {

/// A reducer over rows of T.
template <typename T>
struct ReduceRows {
  /// Returns the reduction of n >= 1 elements.
  T (*fold)(const T* row, index_t n) = nullptr;
  /// Computes totals[i] = combine(totals[i], map(row[i])).
  void (*accumulate)(T* totals, const T* row, index_t n) = nullptr;
  /// Computes totals[i] = combine(totals[i], parts[i]).
  void (*merge)(T* totals, const T* parts, index_t n) = nullptr;
  T identity{};  ///< the reduction of no elements
};

/// A function of each total before it is converted and written.
enum class ReduceFinish {
  kNone,
  kDivide,      ///< by the number of elements; integers cut off towards 0
  kSquareRoot,  ///< of floating-point totals
};

struct ReduceArguments;

/// A reducer in the types in which it is computed: 16-bit types in float, all integers and bool in
/// int64.
struct ReduceFunction {
  ReduceRows<float> of_float;
  ReduceRows<double> of_double;
  ReduceRows<int64_t> of_int64;
  /// Runs the whole reduction on a GPU; set where nvcc compiled the reducer.
  void (*launch)(const ReduceArguments& arguments, Stream<gpu>* stream) = nullptr;
};

/// One call of a reducer: the input's dimensions, merged and split into kept and reduced ones, each
/// in the order of the input.
struct ReduceArguments {
  struct Dimensions {
    int count = 0;
    std::array<index_t, TShape::kMaxRank> extents{};
    std::array<index_t, TShape::kMaxRank> strides{};  ///< in elements of the input

    index_t Size() const;  ///< the number of positions
  };
  Dimensions kept;     ///< those of the output
  Dimensions reduced;  ///< those of the elements of each output
  const void* in = nullptr;
  DType in_type = DType::kFloat32;
  void* out = nullptr;
  DType out_type = DType::kFloat32;
  OpReqType req = kWriteTo;
  ReduceFinish finish = ReduceFinish::kNone;
  DType computed_in = DType::kFloat32;  ///< float32, float64 or int64
};

/// Reduces `in` over some axes into `out`, whose elements are in the order of the other axes. Sums
/// of floating-point numbers are made of sums of blocks, so that their error grows slowly; results
/// do not depend on the number of threads. Does nothing for kNullOp. Totals are of type
/// `computed_in`, one of float32, float64 and int64; kUnknown is the type that ReduceFunction has
/// for elements like those of `in`.
void Reduce(const ReduceFunction& function, const TBlob& in, const ReducedAxes& axes,
            const TBlob& out, OpReqType req, const OpContext& context,
            ReduceFinish finish = ReduceFinish::kNone, DType computed_in = DType::kUnknown);

/// Returns a total of `count` elements after `finish`. The mean of no integers is 0.
template <typename T>
TESSERA_HD T FinishTotal(T total, ReduceFinish finish, index_t count) {
  switch (finish) {
    case ReduceFinish::kNone:
      break;
    case ReduceFinish::kDivide:
      if (std::is_integral_v<T> && count == 0) break;
      return static_cast<T>(total / static_cast<T>(count));
    case ReduceFinish::kSquareRoot:
      return static_cast<T>(std::sqrt(static_cast<double>(total)));
  }
  return total;
}

/// Returns the axes of `shape` along which an array of shape `small` is repeated when it is
/// broadcast to `shape`, aligned at the last dimensions.
ReducedAxes BroadcastAxes(const TShape& shape, const TShape& small);

}  // namespace tessera::ops_internal

#endif  // TESSERA_OPS_LOOPS_REDUCE_H_
