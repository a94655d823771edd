// dot: the product of two arrays along the last axis of the first and the first axis of the second.
//
//   out[i…, j…] = sum_k lhs[i…, k] * rhs[k, j…]
//   d lhs[i…, k] = sum_j… d out[i…, j…] * rhs[k, j…]
//   d rhs[k, j…] = sum_i… lhs[i…, k] * d out[i…, j…]
//
// transpose_a sums over the first axis of lhs, lhs[k, i…], and transpose_b over the last axis of
// rhs, rhs[j…, k]. Shapes: lhs (i…, k), rhs (k, j…), out (i…, j…); two vectors give out (1), and
// are not transposed. Types: float32, float64, float16, bfloat16; the last two accumulate in
// float32.
#include "tessera/base/error.h"
#include "tessera/ops/gradient_formula.h"
#include "tessera/ops/loops/matrix_product.h"
#include "tessera/ops/typed_operator.h"

namespace tessera {
namespace {

using namespace ops_internal;  // NOLINT: products and registration

struct DotParameters {
  bool transpose_a = false;
  bool transpose_b = false;
  std::string forward_stype = "None";

  static void Declare(ParameterSchema<DotParameters>& schema) {
    using P = DotParameters;
    schema.Optional("transpose_a", &P::transpose_a, "sum over the first axis of lhs");
    schema.Optional("transpose_b", &P::transpose_b, "sum over the last axis of rhs");
    schema.Choice<std::string>(
        "forward_stype", &P::forward_stype,
        {{"None", "None"}, {"csr", "csr"}, {"default", "default"}, {"row_sparse", "row_sparse"}},
        "the storage type of the output, in place of the one that dot chooses");
  }
};

class DotProperty final : public MatrixProductProperty<DotParameters> {
 public:
  bool InferShape(std::vector<TShape>* in_shape, std::vector<TShape>* out_shape) const override {
    TShape& lhs = (*in_shape)[0];
    TShape& rhs = (*in_shape)[1];
    TShape& out = (*out_shape)[0];
    InferRank("lhs", lhs, out, &rhs);
    InferRank("rhs", rhs, out, &lhs);
    if (!lhs.rank_known() || !rhs.rank_known()) return false;
    if (lhs.ndim() == 0 || rhs.ndim() == 0) {
      throw InvalidArgument(TypeString(), ": lhs has shape ", lhs, " and rhs has shape ", rhs,
                            ", expected at least one dimension");
    }
    const int lhs_sum = param_.transpose_a ? 0 : lhs.ndim() - 1;
    const int rhs_sum = param_.transpose_b ? rhs.ndim() - 1 : 0;
    MeetExtents(*this, {"lhs", &lhs, lhs_sum}, {"rhs", &rhs, rhs_sum});
    if (lhs.ndim() == 1 && rhs.ndim() == 1) {
      if (param_.transpose_a || param_.transpose_b) {
        throw InvalidArgument(TypeString(), ": lhs and rhs are vectors, of shapes ", lhs, " and ",
                              rhs, ", which cannot be transposed");
      }
      MergeShape(*this, "output", &out, {1});
      return lhs.known();
    }
    const int rank = lhs.ndim() + rhs.ndim() - 2;
    if (rank > TShape::kMaxRank) {
      throw InvalidArgument(TypeString(), ": lhs has shape ", lhs, " and rhs has shape ", rhs,
                            ", whose product has ", rank, " dimensions, expected at most ",
                            TShape::kMaxRank);
    }
    MergeShape(*this, "output", &out, TShape::OfRank(rank));
    int axis = 0;
    for (int i = 0; i < lhs.ndim(); ++i) {
      if (i != lhs_sum) MeetExtents(*this, {"lhs", &lhs, i}, {"output", &out, axis++});
    }
    for (int i = 0; i < rhs.ndim(); ++i) {
      if (i != rhs_sum) MeetExtents(*this, {"rhs", &rhs, i}, {"output", &out, axis++});
    }
    return lhs.known() && rhs.known();
  }
  bool BuildGradient(GradientBuilder* builder) const override {
    return BuildBilinearGradient(*this, GetParams(), builder);
  }

 private:
  /// Gives `other`, the other operand, the rank that one operand and the output determine.
  void InferRank(std::string_view name, const TShape& operand, const TShape& out,
                 TShape* other) const {
    if (!operand.rank_known() || !out.rank_known() || other->rank_known()) return;
    // A vector and the output (n): the other operand is a vector or a matrix.
    if (operand.ndim() == 1 && out.ndim() == 1) return;
    const int rank = out.ndim() + 2 - operand.ndim();
    if (rank < 1 || rank > TShape::kMaxRank) {
      throw InvalidArgument(TypeString(), ": output has shape ", out, ", which no product with ",
                            name, " of shape ", operand, " has");
    }
    *other = TShape::OfRank(rank);
  }
};

class DotOperator final : public MatrixProductOperator {
 public:
  DotOperator(const DotParameters& param, std::span<const TShape> in_shape)
      : MatrixProductOperator(Lhs(in_shape[0], param.transpose_a),
                              Rhs(in_shape[1], param.transpose_b)) {}

 private:
  // A vector is a row on the left and a column on the right.
  static MatrixBatch Lhs(const TShape& shape, bool transposed) {
    if (shape.ndim() == 1) return MatrixOf(shape, 0, false);
    return MatrixOf(shape, transposed ? 1 : shape.ndim() - 1, transposed);
  }
  static MatrixBatch Rhs(const TShape& shape, bool transposed) {
    if (shape.ndim() == 1) return MatrixOf(shape, 1, false);
    return MatrixOf(shape, transposed ? shape.ndim() - 1 : 1, transposed);
  }
};

[[maybe_unused]] const bool kRegistered = RegisterTypedOperator<DotProperty, DotOperator>(
    TESSERA_TABLE_PLACE, "dot",
    "The product of two arrays along the last axis of the first and the first of the second.");

}  // namespace
}  // namespace tessera
