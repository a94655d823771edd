// What operators that choose rows do with sparse arrays: Embedding, _contrib_SparseEmbedding and
// take along the first axis.
//
// The gradient of the matrix is row_sparse, with the rows that were chosen, if an Embedding has
// sparse_grad or if the array that waits for the gradient is row_sparse. A row_sparse matrix gives
// the rows that it stores; the others are 0. take gives rows of a csr matrix as another one.
#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tessera/base/at.h"
#include "tessera/ops/loops/indexed_rows.h"
#include "tessera/ops/loops/sparse/sparse_parts.h"
#include "tessera/ops/sparse.h"

namespace tessera {
namespace {

using base_internal::At;
using ops_internal::IndexMode;
using ops_internal::Positions;
using ops_internal::RowTables;

/// Rows of a matrix chosen by an array of indices.
class RowsForm : public SparseForm {
 public:
  /// The positions of matrix and indices among the inputs, and whether the matrix may be csr.
  RowsForm(int matrix, int indices, bool takes_csr)
      : matrix_(At(matrix)), indices_(At(indices)), takes_csr_(takes_csr) {}

  std::optional<StorageTypes> Infer(const OperatorProperty& property,
                                    std::span<const StorageType> in,
                                    std::span<const StorageType>) const override {
    if (!ModeOf(property) || in[indices_] != StorageType::kDefault) return std::nullopt;
    const bool is_csr = in[matrix_] == StorageType::kCsr;
    if (is_csr && !takes_csr_) return std::nullopt;
    return StorageTypes{is_csr ? StorageType::kCsr : StorageType::kDefault};
  }

  void Forward(const OperatorProperty& property, std::span<SparseBlob> in,
               std::span<const OpReqType> req, std::span<SparseBlob> out) const override {
    const SparseBlob& matrix = in[matrix_];
    const Positions positions(in[indices_].values, matrix.shape[0], *ModeOf(property));
    const RowTables rows{.rows = matrix.shape[0], .width = matrix.width()};
    if (matrix.storage == StorageType::kCsr) {
      if (req[0] != kNullOp) ops_internal::TakeCsrRows(positions, matrix, &out[0]);
      return;
    }
    if (matrix.storage == StorageType::kDefault) {
      return GatherRows(positions, rows, matrix.values, out[0].values, req[0]);
    }
    ops_internal::GatherStoredRows(positions, matrix, out[0].values, req[0]);
  }

  std::optional<StorageTypes> InferBackward(const OperatorProperty& property,
                                            const BackwardStorage& types) const override {
    if (!ModeOf(property)) return std::nullopt;
    if (!HasSparseGradient(property) && types.in_grad[matrix_] != StorageType::kRowSparse) {
      return std::nullopt;
    }
    if (types.out_grad[0] != StorageType::kDefault ||
        types.in_data[indices_] != StorageType::kDefault) {
      return std::nullopt;
    }
    StorageTypes gradients(2, StorageType::kDefault);
    gradients[matrix_] = StorageType::kRowSparse;
    return gradients;
  }

  void Backward(const OperatorProperty& property, const BackwardBlobs& values,
                std::span<const OpReqType> req, std::span<SparseBlob> in_grad) const override {
    // Indices have no gradient.
    if (req[indices_] != kNullOp) {
      const TBlob& zeros = in_grad[indices_].values;
      std::fill_n(static_cast<char*>(zeros.dptr_), zeros.Size() * DTypeSizeBytes(zeros.type_flag_),
                  0);
    }
    if (req[matrix_] == kNullOp) return;
    SparseBlob& gradient = in_grad[matrix_];
    const Positions positions(values.in_data[indices_].values, gradient.shape[0],
                              *ModeOf(property));
    ops_internal::SumRowSparse(positions, values.out_grad[0].values, &gradient);
  }

 protected:
  /// Returns what an index outside of the matrix means; nothing if no rows are chosen.
  virtual std::optional<IndexMode> ModeOf(const OperatorProperty& property) const = 0;
  /// Returns whether a parameter asks for a row_sparse gradient.
  virtual bool HasSparseGradient(const OperatorProperty& property) const = 0;

 private:
  const size_t matrix_, indices_;
  const bool takes_csr_;
};

class EmbeddingForm final : public RowsForm {
 public:
  explicit EmbeddingForm(bool is_sparse) : RowsForm(1, 0, false), is_sparse_(is_sparse) {}

 private:
  std::optional<IndexMode> ModeOf(const OperatorProperty&) const override {
    return IndexMode::kClip;
  }
  bool HasSparseGradient(const OperatorProperty& property) const override {
    return is_sparse_ || property.GetParams().at("sparse_grad") == "True";
  }

  const bool is_sparse_;
};

class TakeForm final : public RowsForm {
 public:
  TakeForm() : RowsForm(0, 1, true) {}

 private:
  std::optional<IndexMode> ModeOf(const OperatorProperty& property) const override {
    const ParameterMap parameters = property.GetParams();
    if (parameters.at("axis") != "0") return std::nullopt;
    const std::string& mode = parameters.at("mode");
    return mode == "clip"   ? IndexMode::kClip
           : mode == "wrap" ? IndexMode::kWrap
                            : IndexMode::kRaise;
  }
  bool HasSparseGradient(const OperatorProperty&) const override { return false; }
};

[[maybe_unused]] const bool kRegistered[] = {
    RegisterSparseForm("Embedding", std::make_unique<EmbeddingForm>(false)),
    RegisterSparseForm("_contrib_SparseEmbedding", std::make_unique<EmbeddingForm>(true)),
    RegisterSparseForm("take", std::make_unique<TakeForm>()),
};

}  // namespace
}  // namespace tessera
