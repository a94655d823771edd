// _sparse_retain: some rows of an array, in their places.
//
//   out[i] = data[i] if i is in indices, else 0    d data[i] = d out[i] if i is in indices, else 0
//
// Numbers are truncated; those outside of the rows are errors. The result of a row_sparse array
// stores the rows that are listed, also those that `data` does not store, and so does its gradient.
// Shapes: data (n, j…), indices (k), any order and repeats, out like data. Types: data of any type,
// indices of any type. Runs on the CPU.
#include <cstring>
#include <memory>
#include <optional>
#include <vector>

#include "tessera/base/error.h"
#include "tessera/ops/gradient_formula.h"
#include "tessera/ops/index/indexed_property.h"
#include "tessera/ops/loops/indexed_rows.h"
#include "tessera/ops/loops/movement.h"
#include "tessera/ops/loops/sparse/sparse_parts.h"
#include "tessera/ops/sparse.h"
#include "tessera/ops/typed_operator.h"

namespace tessera {
namespace {

using namespace ops_internal;  // NOLINT: rows and registration

class SparseRetainProperty final : public IndexedProperty<NoParameters> {
 public:
  std::vector<std::string> ListArguments() const override { return {"data", "indices"}; }

  bool InferShape(std::vector<TShape>* in_shape, std::vector<TShape>* out_shape) const override {
    TShape& data = (*in_shape)[0];
    MergeEqualShapes(*this, {{"data", &data}, {"output", &(*out_shape)[0]}});
    MergeShape(*this, "indices", &(*in_shape)[1], TShape::OfRank(1));
    if (data.rank_known() && data.ndim() == 0) {
      throw InvalidArgument(TypeString(), ": data is a scalar, expected rows");
    }
    return data.known() && (*in_shape)[1].known();
  }
  bool BuildGradient(GradientBuilder* builder) const override {
    const Term g(builder, builder->OutGrad(0)), indices(builder, builder->Input(1));
    SetInGrad(builder, 0, Apply(TypeString(), {g, indices}));
    return true;
  }
};

std::vector<int64_t> RowsOf(const TBlob& indices, index_t rows) {
  return SortedRows(Positions(indices, rows, IndexMode::kRaise));
}

class SparseRetainOperator final : public Operator {
 public:
  SparseRetainOperator(const NoParameters&, std::span<const TShape> in_shape)
      : rows_(RowTables::Of(in_shape[0], 1)) {}

  void Forward(const OpContext& context, std::span<const TBlob> in_data,
               std::span<const OpReqType> req, std::span<const TBlob> out_data) override {
    Retain(context, in_data[0], in_data[1], req[0], out_data[0]);
  }
  void Backward(const OpContext& context, std::span<const TBlob> out_grad,
                std::span<const TBlob> in_data, std::span<const TBlob>,
                std::span<const OpReqType> req, std::span<const TBlob> in_grad) override {
    if (req[1] != kNullOp) MoveZeros(in_grad[1], req[1], context);
    Retain(context, out_grad[0], in_data[1], req[0], in_grad[0]);
  }

 private:
  void Retain(const OpContext& context, const TBlob& from, const TBlob& indices, OpReqType req,
              const TBlob& to) const {
    if (req == kNullOp) return;
    MoveZeros(to, req, context);
    const index_t row_bytes = rows_.width * DTypeSizeBytes(to.type_flag_);
    if (row_bytes == 0) return;
    for (const int64_t row : RowsOf(indices, rows_.rows)) {
      const char* const source = static_cast<const char*>(from.dptr_) + row * row_bytes;
      char* const target = static_cast<char*>(to.dptr_) + row * row_bytes;
      if (req == kAddTo) {
        AddElements(source, to.type_flag_, rows_.width, target);
      } else {
        std::memcpy(target, source, static_cast<size_t>(row_bytes));
      }
    }
  }

  const RowTables rows_;
};

class SparseRetainForm final : public SparseForm {
 public:
  std::optional<StorageTypes> Infer(const OperatorProperty&, std::span<const StorageType> in,
                                    std::span<const StorageType> out) const override {
    const bool makes_sparse = in[0] == StorageType::kDefault && in[1] == StorageType::kDefault &&
                              out[0] == StorageType::kRowSparse;
    if (!makes_sparse && !Fits(in[0], in[1])) return std::nullopt;
    return StorageTypes{StorageType::kRowSparse};
  }
  void Forward(const OperatorProperty&, std::span<SparseBlob> in, std::span<const OpReqType> req,
               std::span<SparseBlob> out) const override {
    Retain(in[0], in[1].values, req[0], &out[0]);
  }
  std::optional<StorageTypes> InferBackward(const OperatorProperty&,
                                            const BackwardStorage& types) const override {
    const bool makes_sparse =
        types.out_grad[0] == StorageType::kDefault && types.in_grad[0] == StorageType::kRowSparse;
    if (!makes_sparse && !Fits(types.out_grad[0], types.in_data[1])) return std::nullopt;
    return StorageTypes{StorageType::kRowSparse, StorageType::kDefault};
  }
  void Backward(const OperatorProperty&, const BackwardBlobs& values,
                std::span<const OpReqType> req, std::span<SparseBlob> in_grad) const override {
    if (req[1] != kNullOp) MoveZeros(in_grad[1].values, req[1], OpContext());
    Retain(values.out_grad[0], values.in_data[1].values, req[0], &in_grad[0]);
  }

 private:
  static bool Fits(StorageType data, StorageType indices) {
    return data == StorageType::kRowSparse && indices == StorageType::kDefault;
  }
  /// Computes the rows of a dense or row_sparse array as a row_sparse one.
  static void Retain(const SparseBlob& from, const TBlob& indices, OpReqType req, SparseBlob* to) {
    if (req == kNullOp) return;
    const std::vector<int64_t> rows = RowsOf(indices, to->shape[0]);
    if (from.storage == StorageType::kRowSparse) {
      RetainRows(from, rows, to);
    } else {
      GatherRowSparse(from.values, rows, to);
    }
  }
};

[[maybe_unused]] const bool kRegistered =
    RegisterTypedOperator<SparseRetainProperty, SparseRetainOperator>(
        TESSERA_TABLE_PLACE, "_sparse_retain", "Some rows of an array, in their places.",
        TakenTypes::kAny);
[[maybe_unused]] const bool kHasForm =
    RegisterSparseForm("_sparse_retain", std::make_unique<SparseRetainForm>());

}  // namespace
}  // namespace tessera
