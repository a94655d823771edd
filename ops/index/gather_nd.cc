// gather_nd, scatter_nd, _scatter_set_nd: slices at positions of several dimensions.
//
//   gather_nd:        out[k…][j…] = data[indices[0][k…], …, indices[m-1][k…]][j…]
//                     d data[p…][j…] = the sum of d out[k…][j…] over indices[…][k…] == p…
//   scatter_nd:       out = 0, but out[indices[0][k…], …, indices[m-1][k…]][j…] = data[k…][j…]
//                     d data[k…][j…] = d out[indices[…][k…]][j…]
//   _scatter_set_nd:  out = lhs, but out[indices[…][k…]][j…] = rhs[k…][j…]
//
// Numbers are truncated, and negative indices count from the end; an index beyond its dimension
// throws Error(kOutOfRange) in Forward. Where several k… name one position, the last of them stays.
// Shapes: the array that is indexed (p…, j…), of m dimensions and others; indices (m, k…), of at
// least two dimensions; the slices (k…, j…). `shape` of scatter_nd and _scatter_set_nd is that of
// the output. Types: any one type, and any type for the indices; sums of 16-bit types in float32.
// Runs on the CPU.
#include <algorithm>

#include "tessera/base/error.h"
#include "tessera/ops/index/indexed_property.h"
#include "tessera/ops/loops/indexed_rows.h"
#include "tessera/ops/loops/movement.h"
#include "tessera/ops/typed_operator.h"

namespace tessera {
namespace {

using namespace ops_internal;  // NOLINT: rows and registration

/// A value of the property and its shape.
struct NamedShape {
  const char* name;
  TShape* shape;
};

/// Infers the shapes of an array, of indices into it and of the slices there; returns whether they
/// are known.
bool InferSlices(const OperatorProperty& property, const NamedShape& array, TShape* indices,
                 const NamedShape& slices) {
  if (!indices->rank_known()) return false;
  if (indices->ndim() < 2) {
    throw InvalidArgument(property.TypeString(), ": indices has shape ", *indices,
                          ", expected at least two dimensions");
  }
  const int of_indices = indices->ndim() - 1;
  if ((*indices)[0] == TShape::kUnknown && array.shape->rank_known() &&
      slices.shape->rank_known()) {
    (*indices)[0] = of_indices + array.shape->ndim() - slices.shape->ndim();
  }
  const index_t indexed = (*indices)[0];
  if (indexed == TShape::kUnknown) return false;
  const index_t most = array.shape->rank_known() ? array.shape->ndim() : TShape::kMaxRank;
  if (indexed < 1 || indexed > most) {
    throw InvalidArgument(property.TypeString(), ": indices has shape ", *indices, ", with ",
                          indexed, " indices, but ", array.name, " has shape ", *array.shape,
                          ", which takes 1 to ", most);
  }
  const int m = static_cast<int>(indexed);
  if (!array.shape->rank_known()) {
    if (!slices.shape->rank_known()) return false;
    const int rank = slices.shape->ndim() - of_indices + m;
    if (rank < m || rank > TShape::kMaxRank) {
      throw InvalidArgument(property.TypeString(), ": ", slices.name, " has shape ", *slices.shape,
                            ", which indices of shape ", *indices, " do not give");
    }
    *array.shape = TShape::OfRank(rank);
  }
  const int rank = of_indices + array.shape->ndim() - m;
  if (rank > TShape::kMaxRank) {
    throw InvalidArgument(property.TypeString(), ": ", array.name, " has shape ", *array.shape,
                          " and indices has shape ", *indices, ", which give ", rank,
                          " dimensions, expected at most ", TShape::kMaxRank);
  }
  MergeShape(property, slices.name, slices.shape, TShape::OfRank(rank));
  for (int i = 0; i < rank; ++i) {
    index_t& source = i < of_indices ? (*indices)[i + 1] : (*array.shape)[i - of_indices + m];
    TShape known = TShape::OfRank(rank);
    known[i] = source;
    MergeShape(property, slices.name, slices.shape, known);
    source = (*slices.shape)[i];
  }
  return array.shape->known() && indices->known();
}

/// The positions and the rows of a call.
struct IndexedArray {
  int num_axes;
  RowTables rows;
  Positions positions;

  IndexedArray(const TShape& array, const TBlob& indices)
      : num_axes(static_cast<int>(indices.shape_[0])),
        rows(RowTables::Of(array, num_axes)),
        positions(indices, {array.begin(), static_cast<size_t>(num_axes)}, IndexMode::kFromEnd) {}
};

// gather_nd.

class GatherNdProperty final : public IndexedProperty<NoParameters> {
 public:
  std::vector<std::string> ListArguments() const override { return {"data", "indices"}; }

  bool InferShape(std::vector<TShape>* in_shape, std::vector<TShape>* out_shape) const override {
    return InferSlices(*this, {"data", &(*in_shape)[0]}, &(*in_shape)[1],
                       {"output", &(*out_shape)[0]});
  }
};

class GatherNdOperator final : public Operator {
 public:
  GatherNdOperator(const NoParameters&, std::span<const TShape> in_shape) : data_(in_shape[0]) {}

  void Forward(const OpContext&, std::span<const TBlob> in_data, std::span<const OpReqType> req,
               std::span<const TBlob> out_data) override {
    const IndexedArray indexed(data_, in_data[1]);
    GatherRows(indexed.positions, indexed.rows, in_data[0], out_data[0], req[0]);
  }
  void Backward(const OpContext& context, std::span<const TBlob> out_grad,
                std::span<const TBlob> in_data, std::span<const TBlob>,
                std::span<const OpReqType> req, std::span<const TBlob> in_grad) override {
    const IndexedArray indexed(data_, in_data[1]);
    SumRows(indexed.positions, indexed.rows, out_grad[0], in_grad[0], req[0], context);
  }

 private:
  const TShape data_;
};

[[maybe_unused]] const bool kGatherNd = RegisterTypedOperator<GatherNdProperty, GatherNdOperator>(
    TESSERA_TABLE_PLACE, "gather_nd", "Slices at positions of several dimensions.",
    TakenTypes::kAny);

// scatter_nd.

struct ScatterNdParameters {
  TShape shape;

  static void Declare(ParameterSchema<ScatterNdParameters>& schema) {
    schema.Required("shape", &ScatterNdParameters::shape, "the shape of the output");
  }

  void Check(const OperatorProperty& property) const {
    if (!shape.known()) {
      throw InvalidArgument(property.TypeString(), ": shape is ", shape,
                            ", expected all extents to be known");
    }
    ProductOfExtents(property, "output", shape, 0, shape.ndim());
  }
};

class ScatterNdProperty final : public ParameterizedProperty<ScatterNdParameters> {
 public:
  std::vector<std::string> ListArguments() const override { return {"data", "indices"}; }
  bool ArgumentHasGradient(int argument) const override { return argument == 0; }

  bool InferShape(std::vector<TShape>* in_shape, std::vector<TShape>* out_shape) const override {
    MergeShape(*this, "output", &(*out_shape)[0], param_.shape);
    InferSlices(*this, {"output", &(*out_shape)[0]}, &(*in_shape)[1], {"data", &(*in_shape)[0]});
    return (*in_shape)[0].known() && (*in_shape)[1].known();
  }
  bool InferType(std::vector<DType>* in_type, std::vector<DType>* out_type) const override {
    MergeType(*this, "output", &(*out_type)[0], (*in_type)[0]);
    MergeType(*this, "data", &(*in_type)[0], (*out_type)[0]);
    return (*in_type)[0] != DType::kUnknown && (*in_type)[1] != DType::kUnknown;
  }
  std::vector<int> DeclareBackwardDependency(std::span<const int> out_grad,
                                             std::span<const int> in_data,
                                             std::span<const int>) const override {
    return {out_grad[0], in_data[1]};
  }
  bool BuildGradient(GradientBuilder* builder) const override {
    builder->SetInGrad(0, builder->Apply1("gather_nd", {builder->OutGrad(0), builder->Input(1)}));
    return true;
  }

 protected:
  void CheckParameters() override { param_.Check(*this); }
};

class ScatterNdOperator final : public Operator {
 public:
  explicit ScatterNdOperator(const ScatterNdParameters& param) : shape_(param.shape) {}
  bool AcceptsAddTo() const override { return false; }

  void Forward(const OpContext& context, std::span<const TBlob> in_data,
               std::span<const OpReqType> req, std::span<const TBlob> out_data) override {
    if (req[0] == kNullOp) return;
    MoveZeros(out_data[0], req[0], context);
    const IndexedArray indexed(shape_, in_data[1]);
    ScatterRows(indexed.positions, indexed.rows, in_data[0], out_data[0]);
  }
  void Backward(const OpContext&, std::span<const TBlob> out_grad, std::span<const TBlob> in_data,
                std::span<const TBlob>, std::span<const OpReqType> req,
                std::span<const TBlob> in_grad) override {
    const IndexedArray indexed(shape_, in_data[1]);
    GatherRows(indexed.positions, indexed.rows, out_grad[0], in_grad[0], req[0]);
  }

 private:
  const TShape shape_;
};

[[maybe_unused]] const bool kScatterNd =
    RegisterTypedOperator<ScatterNdProperty, ScatterNdOperator>(
        TESSERA_TABLE_PLACE, "scatter_nd", "Zeros with slices at positions of several dimensions.",
        TakenTypes::kAny);

// _scatter_set_nd.

class ScatterSetNdProperty final : public ParameterizedProperty<ScatterNdParameters> {
 public:
  std::vector<std::string> ListArguments() const override { return {"lhs", "rhs", "indices"}; }
  bool HasGradient() const override { return false; }

  bool InferShape(std::vector<TShape>* in_shape, std::vector<TShape>* out_shape) const override {
    MergeShape(*this, "output", &(*out_shape)[0], param_.shape);
    MergeShape(*this, "lhs", &(*in_shape)[0], param_.shape);
    InferSlices(*this, {"lhs", &(*in_shape)[0]}, &(*in_shape)[2], {"rhs", &(*in_shape)[1]});
    return (*in_shape)[1].known() && (*in_shape)[2].known();
  }
  bool InferType(std::vector<DType>* in_type, std::vector<DType>* out_type) const override {
    DType& lhs = (*in_type)[0];
    MergeType(*this, "rhs", &(*in_type)[1], lhs);
    MergeType(*this, "output", &(*out_type)[0], (*in_type)[1]);
    MergeType(*this, "lhs", &lhs, (*out_type)[0]);
    MergeType(*this, "rhs", &(*in_type)[1], lhs);
    return lhs != DType::kUnknown && (*in_type)[2] != DType::kUnknown;
  }
  std::vector<InplacePair> ForwardInplaceOption(std::span<const int> in_data,
                                                std::span<const int> out_data) const override {
    return {{in_data[0], out_data[0]}};
  }

 protected:
  void CheckParameters() override { param_.Check(*this); }
};

class ScatterSetNdOperator final : public Operator {
 public:
  explicit ScatterSetNdOperator(const ScatterNdParameters& param) : shape_(param.shape) {}
  bool AcceptsAddTo() const override { return false; }

  void Forward(const OpContext& context, std::span<const TBlob> in_data,
               std::span<const OpReqType> req, std::span<const TBlob> out_data) override {
    if (req[0] == kNullOp) return;
    MoveFlat(in_data[0], out_data[0], req[0], context);
    const IndexedArray indexed(shape_, in_data[2]);
    ScatterRows(indexed.positions, indexed.rows, in_data[1], out_data[0]);
  }

 private:
  const TShape shape_;
};

[[maybe_unused]] const bool kScatterSetNd =
    RegisterTypedOperator<ScatterSetNdProperty, ScatterSetNdOperator>(
        TESSERA_TABLE_PLACE, "_scatter_set_nd",
        "An array with the slices at positions of several dimensions replaced.", TakenTypes::kAny);

}  // namespace
}  // namespace tessera
