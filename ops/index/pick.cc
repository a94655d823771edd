// pick, batch_take, fill_element_0index: one element of each row.
//
//   pick:                 out[i…][j…] = data[i…][index[i…][j…]][j…], the index along `axis`
//                         d data[i…][p][j…] = d out[i…][j…] where index[i…][j…] == p, else 0
//   batch_take:           out[i…] = a[i…][indices[i…]]
//   fill_element_0index:  out = lhs, but out[i][rhs[i]] = mhs[i]
//
// Numbers are truncated. The position of an index outside of the axis is the nearest one, or with
// pick's mode wrap the remainder; fill_element_0index passes over it. NaN is below 0, and an error
// with wrap. Shapes: pick's data (i…, n, j…), index and out (i…, j…) or with 1 in the place of n,
// which out has if keepdims; a vector counts as a row whose n is kept as 1. a (i…, n), indices and
// out any shape with as many elements as a has rows; lhs and out (rows, n), mhs and rhs (rows).
// Types: any one type, and any type for the indices. Only pick has a gradient. Runs on the CPU.
#include <algorithm>
#include <optional>

#include "tessera/base/error.h"
#include "tessera/ops/index/indexed_property.h"
#include "tessera/ops/loops/axes.h"
#include "tessera/ops/loops/indexed_rows.h"
#include "tessera/ops/loops/movement.h"
#include "tessera/ops/typed_operator.h"

namespace tessera {
namespace {

using namespace ops_internal;  // NOLINT: elements and registration

struct PickParameters {
  std::optional<int64_t> axis = -1;
  bool keepdims = false;
  IndexMode mode = IndexMode::kClip;

  static void Declare(ParameterSchema<PickParameters>& schema) {
    using P = PickParameters;
    schema.Optional("axis", &P::axis, "the axis that is indexed, from the end if negative");
    schema.Optional("keepdims", &P::keepdims, "keep the axis with extent 1");
    schema.Choice("mode", &P::mode, {{"clip", IndexMode::kClip}, {"wrap", IndexMode::kWrap}},
                  "the meaning of indices outside of the axis");
  }
};

class PickProperty final : public IndexedProperty<PickParameters> {
 public:
  std::vector<std::string> ListArguments() const override { return {"data", "index"}; }

  bool InferShape(std::vector<TShape>* in_shape, std::vector<TShape>* out_shape) const override {
    TShape& data = (*in_shape)[0];
    TShape& index = (*in_shape)[1];
    TShape& out = (*out_shape)[0];
    if (!data.rank_known() && out.rank_known()) {
      // (1) is the output of a vector, and of a matrix.
      if (param_.keepdims) {
        data = TShape::OfRank(out.ndim());
      } else if (out.ndim() != 1 && out.ndim() < TShape::kMaxRank) {
        data = TShape::OfRank(out.ndim() + 1);
      }
    }
    if (!data.rank_known()) return false;
    const int axis = AxisPosition(*this, "axis", *param_.axis, data.ndim());
    MergeReduced("output", axis, param_.keepdims || data.ndim() == 1, &data, &out);
    // An index with 1 in the axis's place must be given, as in MXNet.
    if (!index.rank_known()) index = TShape::OfRank(std::max(data.ndim() - 1, 1));
    MergeReduced("index", axis, index.ndim() == data.ndim() || data.ndim() == 1, &data, &index);
    MergeReduced("output", axis, param_.keepdims || data.ndim() == 1, &data, &out);
    return data.known() && index.known();
  }

 protected:
  void CheckParameters() override {
    if (!param_.axis) throw InvalidArgument(TypeString(), ": axis is None, expected an integer");
  }

 private:
  /// Gives data and `shape` the same extents along all axes but one, which `shape` has as 1 or not
  /// at all.
  void MergeReduced(std::string_view name, int axis, bool keeps, TShape* data,
                    TShape* shape) const {
    TShape reduced = TShape::OfRank(data->ndim() - (keeps ? 0 : 1));
    const auto place = [=](int i) { return i > axis && !keeps ? i - 1 : i; };
    for (int i = 0; i < data->ndim(); ++i) {
      if (i != axis) reduced[place(i)] = (*data)[i];
    }
    if (keeps) reduced[axis] = 1;
    MergeShape(*this, name, shape, reduced);
    for (int i = 0; i < data->ndim(); ++i) {
      if (i != axis) (*data)[i] = (*shape)[place(i)];
    }
  }
};

class PickOperator final : public Operator {
 public:
  PickOperator(const PickParameters& param, std::span<const TShape> in_shape)
      : mode_(param.mode),
        tables_(RowTables::Along(in_shape[0], AxisPosition(*param.axis, in_shape[0].ndim()))) {}

  void Forward(const OpContext&, std::span<const TBlob> in_data, std::span<const OpReqType> req,
               std::span<const TBlob> out_data) override {
    PickElements(Positions(in_data[1], tables_.rows, mode_), tables_, in_data[0], out_data[0],
                 req[0]);
  }
  void Backward(const OpContext& context, std::span<const TBlob> out_grad,
                std::span<const TBlob> in_data, std::span<const TBlob>,
                std::span<const OpReqType> req, std::span<const TBlob> in_grad) override {
    if (req[0] == kNullOp) return;
    MoveZeros(in_grad[0], req[0], context);
    PutElements(Positions(in_data[1], tables_.rows, mode_), tables_, out_grad[0], in_grad[0],
                req[0] == kAddTo);
  }

 private:
  const IndexMode mode_;
  const RowTables tables_;
};

[[maybe_unused]] const bool kPick = RegisterTypedOperator<PickProperty, PickOperator>(
    TESSERA_TABLE_PLACE, "pick", "One element of each row along an axis, chosen by integers.",
    TakenTypes::kAny);

// batch_take.

class BatchTakeProperty final : public ParameterizedProperty<NoParameters> {
 public:
  std::vector<std::string> ListArguments() const override { return {"a", "indices"}; }
  bool HasGradient() const override { return false; }

  bool InferShape(std::vector<TShape>* in_shape, std::vector<TShape>* out_shape) const override {
    TShape& a = (*in_shape)[0];
    TShape& indices = (*in_shape)[1];
    TShape& out = (*out_shape)[0];
    MergeEqualShapes(*this, {{"indices", &indices}, {"output", &out}});
    if (!a.rank_known() || !indices.rank_known()) return false;
    if (a.ndim() == 0) {
      throw InvalidArgument(TypeString(), ": a is a scalar, expected at least one dimension");
    }
    if (a.ndim() == 2 && indices.ndim() == 1) {
      MergeShape(*this, "indices", &indices, {a[0]});
      a[0] = indices[0];
      out = indices;
    }
    const index_t rows = ProductOfExtents(*this, "a", a, 0, a.ndim() - 1);
    const index_t count = ProductOfExtents(*this, "indices", indices, 0, indices.ndim());
    if (rows >= 0 && count >= 0 && rows != count) {
      throw InvalidArgument(TypeString(), ": indices has shape ", indices, ", expected ", rows,
                            " elements for a of shape ", a);
    }
    return a.known() && indices.known();
  }

  bool InferType(std::vector<DType>* in_type, std::vector<DType>* out_type) const override {
    if ((*in_type)[1] == DType::kUnknown) (*in_type)[1] = DType::kInt32;
    MergeType(*this, "output", &(*out_type)[0], (*in_type)[0]);
    MergeType(*this, "a", &(*in_type)[0], (*out_type)[0]);
    return (*in_type)[0] != DType::kUnknown;
  }
};

class BatchTakeOperator final : public Operator {
 public:
  explicit BatchTakeOperator(const NoParameters&) {}

  void Forward(const OpContext&, std::span<const TBlob> in_data, std::span<const OpReqType> req,
               std::span<const TBlob> out_data) override {
    const RowTables tables = RowTables::Along(in_data[0].shape_, in_data[0].ndim() - 1);
    PickElements(Positions(in_data[1], tables.rows, IndexMode::kClip), tables, in_data[0],
                 out_data[0], req[0]);
  }
};

[[maybe_unused]] const bool kBatchTake =
    RegisterTypedOperator<BatchTakeProperty, BatchTakeOperator>(
        TESSERA_TABLE_PLACE, "batch_take", "One element of each row, chosen by integers.",
        TakenTypes::kAny);

// fill_element_0index.

class FillElementProperty final : public ParameterizedProperty<NoParameters> {
 public:
  std::vector<std::string> ListArguments() const override { return {"lhs", "mhs", "rhs"}; }
  bool HasGradient() const override { return false; }

  bool InferShape(std::vector<TShape>* in_shape, std::vector<TShape>* out_shape) const override {
    TShape& lhs = (*in_shape)[0];
    TShape& values = (*in_shape)[1];
    TShape& indices = (*in_shape)[2];
    MergeShape(*this, "lhs", &lhs, TShape::OfRank(2));
    MergeEqualShapes(*this, {{"lhs", &lhs}, {"output", &(*out_shape)[0]}});
    MergeShape(*this, "mhs", &values, {lhs[0]});
    MergeEqualShapes(*this, {{"mhs", &values}, {"rhs", &indices}});
    lhs[0] = values[0];
    (*out_shape)[0] = lhs;
    return lhs.known();
  }

  bool InferType(std::vector<DType>* in_type, std::vector<DType>* out_type) const override {
    DType& lhs = (*in_type)[0];
    MergeType(*this, "mhs", &(*in_type)[1], lhs);
    MergeType(*this, "output", &(*out_type)[0], (*in_type)[1]);
    MergeType(*this, "lhs", &lhs, (*out_type)[0]);
    MergeType(*this, "mhs", &(*in_type)[1], lhs);
    return lhs != DType::kUnknown && (*in_type)[2] != DType::kUnknown;
  }

  std::vector<InplacePair> ForwardInplaceOption(std::span<const int> in_data,
                                                std::span<const int> out_data) const override {
    return {{in_data[0], out_data[0]}};
  }
};

class FillElementOperator final : public Operator {
 public:
  explicit FillElementOperator(const NoParameters&) {}
  bool AcceptsAddTo() const override { return false; }

  void Forward(const OpContext& context, std::span<const TBlob> in_data,
               std::span<const OpReqType> req, std::span<const TBlob> out_data) override {
    if (req[0] == kNullOp) return;
    MoveFlat(in_data[0], out_data[0], req[0], context);
    const RowTables tables = RowTables::Along(in_data[0].shape_, 1);
    PutElements(Positions(in_data[2], tables.rows, IndexMode::kSkip), tables, in_data[1],
                out_data[0], /*add=*/false);
  }
};

[[maybe_unused]] const bool kFillElement =
    RegisterTypedOperator<FillElementProperty, FillElementOperator>(
        TESSERA_TABLE_PLACE, "fill_element_0index",
        "A matrix with one element of each row replaced, at places chosen by integers.",
        TakenTypes::kAny);

}  // namespace
}  // namespace tessera
