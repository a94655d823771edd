#ifndef TESSERA_OPS_LINALG_FACTORS_MATRIX_CALL_H_
#define TESSERA_OPS_LINALG_FACTORS_MATRIX_CALL_H_

#include <functional>
#include <span>
#include <string_view>
#include <vector>

#include "tessera/base/tshape.h"
#include "tessera/ops/linalg/factors/dense_matrix.h"
#include "tessera/ops/operator.h"
#include "tessera/ops/property.h"
#include "tessera/tensor/tblob.h"

/// Operators on the matrices of a batch, each of which is computed by itself. Arrays hold a matrix,
/// a vector or a number for each element of the batch.
namespace tessera::ops_internal {

/// A value of such an operator with the letters of its extents after those of the batch: "mn" is a
/// matrix, "n" a vector, and "" a number. Equal letters are equal extents.
struct MatrixValue {
  std::string_view name;
  TShape* shape;
  std::string_view extents;
};

/// Infers the shapes of values that have one batch; returns whether all are known. A number without
/// a batch has shape (1,). Throws Error(kInvalidArgument) that names operator, value and shape if
/// they contradict each other.
bool InferMatrices(const OperatorProperty& property, std::span<const MatrixValue> values);

/// The arrays of a call with the matrices that they hold.
class MatrixArrays {
 public:
  /// `ranks` are the numbers of dimensions after the batch: 2, 1 or 0.
  MatrixArrays(std::span<const TBlob> blobs, std::span<const int> ranks)
      : blobs_(blobs), ranks_(ranks) {}

  /// Returns element b of the batch of each array; vectors are rows. Arrays that are left out give
  /// empty matrices.
  std::vector<Matrix> Load(index_t b) const;
  /// Returns whether a request is for elements. The batch of arrays that have none may be huge.
  bool HasRequested(std::span<const OpReqType> req) const;
  /// Writes or adds element b of the batch, as the requests say.
  void Store(index_t b, std::span<const Matrix> matrices, std::span<const OpReqType> req) const;

 private:
  struct Place;
  Place PlaceOf(size_t i, index_t b) const;

  const std::span<const TBlob> blobs_;
  const std::span<const int> ranks_;
};

/// Returns the number of elements of a batch whose arrays have `rank` further dimensions.
index_t BatchSize(const TShape& shape, int rank);

/// Calls function(b) for the elements of a batch of n x n matrices, in parallel.
void ForEachMatrix(index_t batch, index_t n, const std::function<void(index_t)>& function);

/// The functions of an operator on matrices. Backward gets the head gradients, the inputs and the
/// outputs, as far as the property declares that it reads them.
template <typename Parameters>
struct MatrixFunctions {
  std::vector<int> in_ranks, out_ranks;  ///< of the values after the batch
  std::vector<Matrix> (*forward)(const Parameters& param, std::span<const Matrix> in);
  std::vector<Matrix> (*backward)(const Parameters& param, std::span<const Matrix> out_grad,
                                  std::span<const Matrix> in, std::span<const Matrix> out);
};

/// An operator of such functions: Functions::Get() returns them.
template <typename Parameters, typename Functions>
class MatrixOperator final : public Operator {
 public:
  MatrixOperator(const Parameters& param, std::span<const TShape> in_shape)
      : param_(param),
        functions_(Functions::Get()),
        batch_(BatchSize(in_shape[0], functions_.in_ranks[0])),
        largest_(in_shape[0].ndim() > 0 ? in_shape[0][in_shape[0].ndim() - 1] : 1) {}

  void Forward(const OpContext&, std::span<const TBlob> in_data, std::span<const OpReqType> req,
               std::span<const TBlob> out_data) override {
    const MatrixArrays in(in_data, functions_.in_ranks);
    const MatrixArrays out(out_data, functions_.out_ranks);
    if (!out.HasRequested(req)) return;
    ForEachMatrix(batch_, largest_,
                  [&](index_t b) { out.Store(b, functions_.forward(param_, in.Load(b)), req); });
  }
  void Backward(const OpContext&, std::span<const TBlob> out_grad, std::span<const TBlob> in_data,
                std::span<const TBlob> out_data, std::span<const OpReqType> req,
                std::span<const TBlob> in_grad) override {
    const MatrixArrays heads(out_grad, functions_.out_ranks);
    const MatrixArrays in(in_data, functions_.in_ranks);
    const MatrixArrays out(out_data, functions_.out_ranks);
    const MatrixArrays gradients(in_grad, functions_.in_ranks);
    if (!gradients.HasRequested(req)) return;
    ForEachMatrix(batch_, largest_, [&](index_t b) {
      gradients.Store(b, functions_.backward(param_, heads.Load(b), in.Load(b), out.Load(b)), req);
    });
  }

 private:
  const Parameters param_;
  const MatrixFunctions<Parameters> functions_;
  const index_t batch_, largest_;
};

}  // namespace tessera::ops_internal

#endif  // TESSERA_OPS_LINALG_FACTORS_MATRIX_CALL_H_
