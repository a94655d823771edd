// _contrib_index_copy: an array with some of its rows replaced.
//
//   out = old_tensor, but out[index_vector[k]] = new_tensor[k]
//   d old_tensor = d out, but 0 in the rows that are replaced
//   d new_tensor[k] = d out[index_vector[k]]
//
// Numbers are truncated; an index outside of the rows throws Error(kOutOfRange) in Forward. Where
// several k name one row, the last of them stays. Shapes: old_tensor (n, j…), index_vector (k),
// new_tensor (k, j…), out like old_tensor. Types: any one type, and any type for the indices. Runs
// on the CPU.
#include <algorithm>
#include <cstring>

#include "tessera/base/error.h"
#include "tessera/ops/gradient_formula.h"
#include "tessera/ops/loops/indexed_rows.h"
#include "tessera/ops/loops/movement.h"
#include "tessera/ops/typed_operator.h"

namespace tessera {
namespace {

using namespace ops_internal;  // NOLINT: rows and registration

class IndexCopyProperty final : public ParameterizedProperty<NoParameters> {
 public:
  std::vector<std::string> ListArguments() const override {
    return {"old_tensor", "index_vector", "new_tensor"};
  }
  bool ArgumentHasGradient(int argument) const override { return argument != 1; }

  bool InferShape(std::vector<TShape>* in_shape, std::vector<TShape>* out_shape) const override {
    TShape &old = (*in_shape)[0], &indices = (*in_shape)[1], &rows = (*in_shape)[2];
    TShape& out = (*out_shape)[0];
    MergeEqualShapes(*this, {{"old_tensor", &old}, {"output", &out}});
    MergeShape(*this, "index_vector", &indices, TShape::OfRank(1));
    const bool has_rank = old.rank_known() || rows.rank_known();
    if (has_rank) {
      MergeShape(*this, "new_tensor", &rows, Rows(old, indices[0]));
      MergeShape(*this, "old_tensor", &old, Rows(rows, TShape::kUnknown));
      MergeShape(*this, "index_vector", &indices, {rows[0]});
      MergeShape(*this, "output", &out, old);
    }
    return old.known() && indices.known() && rows.known();
  }

  bool InferType(std::vector<DType>* in_type, std::vector<DType>* out_type) const override {
    DType &old = (*in_type)[0], &rows = (*in_type)[2], &out = (*out_type)[0];
    MergeType(*this, "new_tensor", &rows, old);
    MergeType(*this, "output", &out, rows);
    MergeType(*this, "old_tensor", &old, out);
    MergeType(*this, "new_tensor", &rows, old);
    return old != DType::kUnknown && (*in_type)[1] != DType::kUnknown;
  }

  std::vector<int> DeclareBackwardDependency(std::span<const int> out_grad,
                                             std::span<const int> in_data,
                                             std::span<const int>) const override {
    return {out_grad[0], in_data[1]};
  }
  std::vector<InplacePair> ForwardInplaceOption(std::span<const int> in_data,
                                                std::span<const int> out_data) const override {
    return {{in_data[0], out_data[0]}};
  }
  bool BuildGradient(GradientBuilder* builder) const override {
    const Term g(builder, builder->OutGrad(0)), indices(builder, builder->Input(1));
    const Term zeros = Apply("zeros_like", {Term(builder, builder->Input(2))});
    SetInGrad(builder, 0, Apply(TypeString(), {g, indices, zeros}));
    SetInGrad(builder, 2, Apply("take", {g, indices}));
    return true;
  }

 private:
  /// Returns a shape with another number of rows. Throws Error(kInvalidArgument) if it is a
  /// scalar's.
  TShape Rows(const TShape& shape, index_t count) const {
    if (!shape.rank_known()) return TShape();
    if (shape.ndim() == 0) {
      throw InvalidArgument(TypeString(), ": an argument is a scalar, expected rows");
    }
    TShape rows = shape;
    rows[0] = count;
    return rows;
  }
};

class IndexCopyOperator final : public Operator {
 public:
  IndexCopyOperator(const NoParameters&, std::span<const TShape> in_shape)
      : rows_(RowTables::Of(in_shape[0], 1)) {}
  bool AcceptsAddTo() const override { return false; }

  void Forward(const OpContext& context, std::span<const TBlob> in_data,
               std::span<const OpReqType> req, std::span<const TBlob> out_data) override {
    if (req[0] == kNullOp) return;
    MoveFlat(in_data[0], out_data[0], req[0], context);
    ScatterRows(PositionsOf(in_data[1]), rows_, in_data[2], out_data[0]);
  }
  void Backward(const OpContext& context, std::span<const TBlob> out_grad,
                std::span<const TBlob> in_data, std::span<const TBlob>,
                std::span<const OpReqType> req, std::span<const TBlob> in_grad) override {
    const Positions positions = PositionsOf(in_data[1]);
    MoveZeros(in_grad[1], req[1], context);
    GatherRows(positions, rows_, out_grad[0], in_grad[2], req[2]);
    if (req[0] == kNullOp) return;
    MoveFlat(out_grad[0], in_grad[0], req[0], context);
    ClearRows(positions, in_grad[0]);
  }

 private:
  Positions PositionsOf(const TBlob& indices) const {
    return Positions(indices, rows_.rows, IndexMode::kRaise);
  }
  /// Writes zeros to the rows at the positions.
  void ClearRows(const Positions& positions, const TBlob& to) const {
    constexpr index_t kBlock = 256;
    const index_t row_bytes = rows_.width * DTypeSizeBytes(to.type_flag_);
    if (row_bytes == 0) return;
    int64_t block[kBlock];
    for (index_t first = 0; first < positions.count(); first += kBlock) {
      const index_t n = std::min(kBlock, positions.count() - first);
      positions.Read(first, n, block);
      for (index_t i = 0; i < n; ++i) {
        std::memset(static_cast<char*>(to.dptr_) + block[i] * row_bytes, 0,
                    static_cast<size_t>(row_bytes));
      }
    }
  }

  const RowTables rows_;
};

[[maybe_unused]] const bool kRegistered =
    RegisterTypedOperator<IndexCopyProperty, IndexCopyOperator>(
        TESSERA_TABLE_PLACE, "_contrib_index_copy",
        "An array with some of its rows replaced by those of another one.", TakenTypes::kAny);

}  // namespace
}  // namespace tessera
