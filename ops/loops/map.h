#ifndef TESSERA_OPS_LOOPS_MAP_H_
#define TESSERA_OPS_LOOPS_MAP_H_

#include <array>
#include <cstdint>
#include <span>

#include "tessera/base/dtype.h"
#include "tessera/base/number.h"
#include "tessera/base/shape.h"
#include "tessera/base/tshape.h"
#include "tessera/ops/operator.h"
#include "tessera/tensor/tblob.h"

/// Functions of elements under one driver: the driver knows element types, broadcasting, requests
/// and threads, so that a function is compiled for one row of elements in each of the types in
/// which it is computed, and no more. map_function.h compiles functors to MapFunctions.
namespace tessera::ops_internal {

/// The largest number of operands of a MapFunction.
inline constexpr int kMaxMapOperands = 5;

/// Computes out[i] = f(in[0][i], in[1][i], …) for i in [0, n). `out` may be one of the inputs;
/// apart from that, arrays do not overlap.
template <typename T>
using RowFunction = void (*)(const T* const* in, T* out, index_t n);

struct MapArguments;

/// How a function that is computed in integers takes a number beside arrays of integers. A number
/// outside of int32 is computed in int64.
enum class NumberBesideIntegers {
  kTruncate,  ///< cut off towards 0, as elements are converted: for arithmetic, which wraps around
  kSaturate,  ///< cut off towards 0 and limited to the elements' type: for a choice among operands
  /// Exactly: beside a number that is no integer or outside of int64, elements are computed in
  /// float64. Comparisons stay exact: elements that float64 rounds exceed every fraction.
  kExact,
};

/// The functions that FindMapPair knows.
enum class MapKind : uint8_t { kOther, kPlus, kMinus, kTimes, kMaximum, kRelu };

/// A function of up to kMaxMapOperands elements in the types in which it is computed. 16-bit types
/// are computed in float. bool and integers are computed in int32, except uint32, int64 and uint64
/// in int64. If the function has no such row, integers are computed in a floating-point type that
/// holds them: up to 16 bits in float, others in double.
struct MapFunction {
  int num_operands = 0;
  index_t cost = 0;  ///< of an element, beyond plain arithmetic; see tensor/expr/cost.h
  RowFunction<float> of_float = nullptr;
  RowFunction<double> of_double = nullptr;
  RowFunction<int32_t> of_int32 = nullptr;
  RowFunction<int64_t> of_int64 = nullptr;
  NumberBesideIntegers numbers = NumberBesideIntegers::kTruncate;
  MapKind kind = MapKind::kOther;
  /// Runs the whole map on a GPU; set where nvcc compiled the function.
  void (*launch)(const MapArguments& arguments, DType computed_in, Stream<gpu>* stream) = nullptr;
};

/// An operand of a map: elements in memory, or one number.
struct MapOperand {
  const void* data = nullptr;  ///< null for a number
  DType dtype = DType::kFloat32;
  Number number;
  /// The distance of neighbours along each dimension of MapArguments, in elements; 0 where the
  /// operand is broadcast.
  std::array<index_t, TShape::kMaxRank> strides{};
};

/// One call of a MapFunction: operands that are broadcast to the output's shape, whose dimensions
/// are merged as far as all operands allow.
struct MapArguments {
  int num_dims = 0;
  std::array<index_t, TShape::kMaxRank> extents{};
  int num_operands = 0;
  std::array<MapOperand, kMaxMapOperands> operands{};
  void* out = nullptr;
  DType out_type = DType::kFloat32;
  OpReqType req = kWriteTo;

  index_t Size() const;
};

/// Collects the arguments of a call. The operands' shapes must be broadcastable to the output's,
/// aligned at their last dimensions, as NumPy does it.
class MapCall {
 public:
  MapCall(const TBlob& out, OpReqType req);

  MapCall& Add(const TBlob& operand);
  MapCall& Add(const Number& number);

  /// Computes the function for every element of the output, in type `computed_in`, one of float32,
  /// float64, int32 and int64. Does nothing for kNullOp.
  void Run(const MapFunction& function, DType computed_in, const OpContext& context);
  /// Computes it in ComputedIn(function, type of the first operand in memory, else of the output),
  /// or in a type that also holds the numbers, as function.numbers says.
  void Run(const MapFunction& function, const OpContext& context);

 private:
  void MergeDimensions();

  MapArguments arguments_;
  Device device_;
};

/// Returns the type in which a function of arrays of `dtype` is computed.
DType ComputedIn(const MapFunction& function, DType dtype);
/// Returns the type in which a function of arrays, the first of which is of `dtype`, and of numbers
/// is computed. Makes each number what the function takes beside these arrays.
DType ComputedIn(const MapFunction& function, DType dtype, std::span<Number* const> numbers);

/// Runs a map on the CPU, in parallel. Requires: the function has a row for `computed_in`.
void RunMapOnCpu(const MapFunction& function, const MapArguments& arguments, DType computed_in);

}  // namespace tessera::ops_internal

#endif  // TESSERA_OPS_LOOPS_MAP_H_
