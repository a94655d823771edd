#ifndef TESSERA_OPS_LOOPS_MATRIX_PRODUCT_H_
#define TESSERA_OPS_LOOPS_MATRIX_PRODUCT_H_

#include <span>
#include <string_view>
#include <vector>

#include "tessera/base/device.h"
#include "tessera/base/dtype.h"
#include "tessera/base/shape.h"
#include "tessera/base/tshape.h"
#include "tessera/ops/operator.h"
#include "tessera/ops/property.h"
#include "tessera/tensor/tblob.h"

/// Products of matrices, for every operator that multiplies: the element type and the device are
/// known at run time, and the code is compiled once.
namespace tessera::ops_internal {

/// An array (outer, rows, inner, columns) as a batch of row-major matrices (rows, columns), one for
/// each pair of an outer and an inner index.
struct MatrixBatch {
  void* data = nullptr;
  index_t outer = 1;
  index_t rows = 1;
  index_t inner = 1;
  index_t columns = 1;
  bool transposed = false;  ///< whether a product reads or writes each matrix transposed
  /// Distances of elements, where the array has gaps or another order of its axes: from row to row,
  /// and from each inner matrix to the next. 0 is the distance in a dense array.
  index_t row_stride = 0;
  index_t inner_stride = 0;

  /// Returns the batch of the elements at `blob`.
  MatrixBatch At(const TBlob& blob) const;
  /// Returns the batch of the transposed matrices.
  MatrixBatch T() const;
};

/// Returns the batch of an array whose last axis is the columns, and whose axis `row_axis` the
/// rows.
MatrixBatch MatricesOf(const TShape& shape, int row_axis, bool transposed);

/// Returns an array as one matrix: its axes [0, split) are the rows, the others the columns.
MatrixBatch MatrixOf(const TShape& shape, int split, bool transposed);

/// Computes c = alpha * a * b for each matrix of a batch, or adds it to c (kAddTo). Does nothing
/// for kNullOp.
///
/// Extents: the matrices, transposed where their batch says so, are a (m, k), b (k, n), c (m, n);
/// the three batches have the same outer and inner extents. Any extent may be 0. Types: float32,
/// float64, float16, bfloat16; the last two accumulate in float32. c overlaps neither a nor b.
/// Results do not depend on the number of threads. The context's epilogue takes the elements of c,
/// which must be the call's first output then. Throws Error(kUnimplemented) for a GPU in a
/// build without GPU code.
void MultiplyMatrices(const MatrixBatch& a, const MatrixBatch& b, const MatrixBatch& c,
                      double alpha, DType dtype, OpReqType req, Device device,
                      const OpContext& context);

/// The operator out = alpha * a * b, with its gradients:
///
///   d a = alpha * d out * b^T    d b = alpha * a^T * d out
class MatrixProductOperator : public Operator {
 public:
  /// Constructs it for batches without data, whose elements are those of the first two inputs.
  MatrixProductOperator(const MatrixBatch& a, const MatrixBatch& b, double alpha = 1);

  void Forward(const OpContext& context, std::span<const TBlob> in_data,
               std::span<const OpReqType> req, std::span<const TBlob> out_data) override;
  void Backward(const OpContext& context, std::span<const TBlob> out_grad,
                std::span<const TBlob> in_data, std::span<const TBlob> out_data,
                std::span<const OpReqType> req, std::span<const TBlob> in_grad) override;

  bool RunsEpilogue() const override { return true; }

  /// Returns the packed form of the second input, if it is one matrix of float32 that each call on
  /// the CPU would pack.
  PreparedForm InputForm(int input, Device device, std::span<const TShape> in_shape,
                         std::span<const DType> in_type) const override;

 protected:
  /// Returns the output's batch.
  const MatrixBatch& out() const { return out_; }

 private:
  MatrixBatch a_, b_, out_;
  double alpha_;
};

/// A property whose gradient reads the head gradient and the first two inputs.
template <typename Parameters>
class MatrixProductProperty : public ParameterizedProperty<Parameters> {
 public:
  std::vector<std::string> ListArguments() const override { return {"lhs", "rhs"}; }
  std::vector<int> DeclareBackwardDependency(std::span<const int> out_grad,
                                             std::span<const int> in_data,
                                             std::span<const int>) const override {
    return {out_grad[0], in_data[0], in_data[1]};
  }
};

/// A value of a property and an axis of its shape.
struct NamedAxis {
  std::string_view name;
  TShape* shape;
  int axis;
};

/// Gives two axes one extent, if one of them is known. Throws Error(kInvalidArgument) that names
/// operator, value and shape if they differ.
void MeetExtents(const OperatorProperty& property, const NamedAxis& a, const NamedAxis& b);

/// The products on a GPU, which nvcc's compilation sets. The arguments are those of
/// MultiplyMatrices, of a c that is not transposed.
using MultiplyOnGpu = void (*)(const MatrixBatch& a, const MatrixBatch& b, const MatrixBatch& c,
                               double alpha, DType dtype, bool add, Stream<gpu>* stream);
MultiplyOnGpu& GetMultiplyOnGpu();

}  // namespace tessera::ops_internal

#endif  // TESSERA_OPS_LOOPS_MATRIX_PRODUCT_H_
