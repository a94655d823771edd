// take: slices of an array along one axis, chosen by integers.
//
//   out[i…][k…][j…] = a[i…][indices[k…]][j…]
//   d a[i…][p][j…] = the sum of d out[i…][k…][j…] over indices[k…] == p
//
// Numbers are truncated. The position of an index outside of the axis is the nearest one (mode
// clip) or the remainder (wrap), or Forward throws Error(kOutOfRange) (raise). NaN is below 0, and
// an error with wrap, too. Shapes: a (i…, n, j…) with n along `axis`; indices (k…), any shape; out
// (i…, k…, j…). Types: a and out of any one type, indices of any type; sums of 16-bit types in
// float32. Runs on the CPU.
#include "tessera/base/error.h"
#include "tessera/ops/index/indexed_property.h"
#include "tessera/ops/loops/axes.h"
#include "tessera/ops/loops/indexed_rows.h"
#include "tessera/ops/loops/movement.h"
#include "tessera/ops/typed_operator.h"

namespace tessera {
namespace {

using namespace ops_internal;  // NOLINT: rows and registration

struct TakeParameters {
  int64_t axis = 0;
  IndexMode mode = IndexMode::kClip;

  static void Declare(ParameterSchema<TakeParameters>& schema) {
    using P = TakeParameters;
    schema.Optional("axis", &P::axis, "the axis that is indexed, from the end if negative");
    schema.Choice(
        "mode", &P::mode,
        {{"clip", IndexMode::kClip}, {"raise", IndexMode::kRaise}, {"wrap", IndexMode::kWrap}},
        "the meaning of indices outside of the axis");
  }
};

class TakeProperty final : public IndexedProperty<TakeParameters> {
 public:
  std::vector<std::string> ListArguments() const override { return {"a", "indices"}; }

  bool InferShape(std::vector<TShape>* in_shape, std::vector<TShape>* out_shape) const override {
    TShape& a = (*in_shape)[0];
    TShape& indices = (*in_shape)[1];
    TShape& out = (*out_shape)[0];
    if (out.rank_known()) {
      if (a.rank_known() && !indices.rank_known()) {
        indices = OfRank(out.ndim() + 1 - a.ndim(), 0, a, out);
      } else if (!a.rank_known() && indices.rank_known()) {
        a = OfRank(out.ndim() + 1 - indices.ndim(), 1, indices, out);
      }
    }
    if (!a.rank_known() || !indices.rank_known()) return false;
    const int axis = AxisPosition(*this, "axis", param_.axis, a.ndim());
    const int rank = a.ndim() + indices.ndim() - 1;
    if (rank > TShape::kMaxRank) {
      throw InvalidArgument(TypeString(), ": a has shape ", a, " and indices has shape ", indices,
                            ", which give ", rank, " dimensions, expected at most ",
                            TShape::kMaxRank);
    }
    MergeShape(*this, "output", &out, TShape::OfRank(rank));
    for (int i = 0; i < rank; ++i) {
      const int of_indices = i - axis;
      const bool indexed = of_indices >= 0 && of_indices < indices.ndim();
      index_t& source = indexed          ? indices[of_indices]
                        : of_indices < 0 ? a[i]
                                         : a[i + 1 - indices.ndim()];
      TShape known = TShape::OfRank(rank);
      known[i] = source;
      MergeShape(*this, "output", &out, known);
      source = out[i];
    }
    return a.known() && indices.known();
  }

 private:
  /// Returns a shape of the rank that the output and the other argument determine.
  TShape OfRank(int rank, int least, const TShape& other, const TShape& out) const {
    if (rank < least || rank > TShape::kMaxRank) {
      throw InvalidArgument(TypeString(), ": output has shape ", out, " and an argument has shape ",
                            other, ", which do not fit");
    }
    return TShape::OfRank(rank);
  }
};

class TakeOperator final : public Operator {
 public:
  TakeOperator(const TakeParameters& param, std::span<const TShape> in_shape)
      : mode_(param.mode),
        tables_(RowTables::Along(in_shape[0], AxisPosition(param.axis, in_shape[0].ndim()))) {}

  void Forward(const OpContext&, std::span<const TBlob> in_data, std::span<const OpReqType> req,
               std::span<const TBlob> out_data) override {
    GatherRows(Positions(in_data[1], tables_.rows, mode_), tables_, in_data[0], out_data[0],
               req[0]);
  }
  void Backward(const OpContext& context, std::span<const TBlob> out_grad,
                std::span<const TBlob> in_data, std::span<const TBlob>,
                std::span<const OpReqType> req, std::span<const TBlob> in_grad) override {
    SumRows(Positions(in_data[1], tables_.rows, mode_), tables_, out_grad[0], in_grad[0], req[0],
            context);
  }

 private:
  const IndexMode mode_;
  const RowTables tables_;
};

[[maybe_unused]] const bool kRegistered = RegisterTypedOperator<TakeProperty, TakeOperator>(
    TESSERA_TABLE_PLACE, "take", "Slices of an array along one axis, chosen by integers.",
    TakenTypes::kAny);

}  // namespace
}  // namespace tessera
