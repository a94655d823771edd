// _contrib_edge_id: elements of a matrix, such as the numbers of a graph's edges.
//
//   out[i] = data[u[i]][v[i]] if the matrix stores that element, else -1
//
// A csr matrix may store elements that are 0; a dense one stores those that are not. Numbers are
// truncated; those outside of the matrix are an error. Shapes: data (m, n), u, v and out (k).
// Types: data and out of one type, u and v of any. There is no gradient. Runs on the CPU.
#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "tessera/base/at.h"
#include "tessera/base/error.h"
#include "tessera/ops/loops/convert_row.h"
#include "tessera/ops/loops/indexed_rows.h"
#include "tessera/ops/loops/movement.h"
#include "tessera/ops/sparse.h"
#include "tessera/ops/typed_operator.h"

namespace tessera {
namespace {

using namespace ops_internal;  // NOLINT: indices and registration
using base_internal::At;

class EdgeIdProperty final : public ParameterizedProperty<NoParameters> {
 public:
  std::vector<std::string> ListArguments() const override { return {"data", "u", "v"}; }
  bool HasGradient() const override { return false; }

  bool InferShape(std::vector<TShape>* in_shape, std::vector<TShape>* out_shape) const override {
    TShape& data = (*in_shape)[0];
    TShape& u = (*in_shape)[1];
    MergeShape(*this, "data", &data, TShape::OfRank(2));
    MergeShape(*this, "u", &u, TShape::OfRank(1));
    MergeEqualShapes(*this, {{"u", &u}, {"v", &(*in_shape)[2]}, {"output", &(*out_shape)[0]}});
    return data.known() && u.known();
  }

  bool InferType(std::vector<DType>* in_type, std::vector<DType>* out_type) const override {
    DType& data = (*in_type)[0];
    MergeType(*this, "output", &(*out_type)[0], data);
    MergeType(*this, "data", &data, (*out_type)[0]);
    return data != DType::kUnknown && (*in_type)[1] != DType::kUnknown &&
           (*in_type)[2] != DType::kUnknown;
  }
};

/// Writes or adds the elements of `from` at positions (u[i], v[i]) of a matrix of that shape.
/// find(row, column) returns an element's number, or -1 if it is not stored.
template <typename Find>
void WriteEdges(const TShape& shape, const TBlob& u, const TBlob& v, const TBlob& from,
                OpReqType req, const TBlob& to, const Find& find) {
  if (req == kNullOp) return;
  const index_t count = to.Size();
  std::vector<int64_t> rows(At(count)), columns(At(count));
  Positions(u, shape[0], IndexMode::kRaise).Read(0, count, rows.data());
  Positions(v, shape[1], IndexMode::kRaise).Read(0, count, columns.data());
  const auto write = [&](auto missing) {
    using T = decltype(missing);
    std::vector<T> found(At(count), missing);
    const index_t element_bytes = DTypeSizeBytes(from.type_flag_);
    for (size_t i = 0; i < found.size(); ++i) {
      const index_t k = find(rows[i], columns[i]);
      if (k < 0) continue;
      LoadRow(static_cast<const char*>(from.dptr_) + k * element_bytes, from.type_flag_, 1, 1,
              &found[i]);
    }
    StoreRow(found.data(), count, req == kAddTo, to.type_flag_, to.dptr_);
  };
  IsReal(to.type_flag_) ? write(-1.0) : write(int64_t{-1});
}

class EdgeIdOperator final : public Operator {
 public:
  explicit EdgeIdOperator(const NoParameters&) {}

  void Forward(const OpContext&, std::span<const TBlob> in_data, std::span<const OpReqType> req,
               std::span<const TBlob> out_data) override {
    const TBlob& data = in_data[0];
    const index_t columns = data.size(1), element_bytes = DTypeSizeBytes(data.type_flag_);
    WriteEdges(data.shape_, in_data[1], in_data[2], data, req[0], out_data[0],
               [&](int64_t row, int64_t column) {
                 const index_t k = row * columns + column;
                 double element = 0;
                 LoadRow(static_cast<const char*>(data.dptr_) + k * element_bytes, data.type_flag_,
                         1, 1, &element);
                 return element != 0 ? k : -1;
               });
  }
};

class EdgeIdForm final : public SparseForm {
 public:
  std::optional<StorageTypes> Infer(const OperatorProperty&, std::span<const StorageType> in,
                                    std::span<const StorageType>) const override {
    if (in[0] != StorageType::kCsr || in[1] != StorageType::kDefault ||
        in[2] != StorageType::kDefault) {
      return std::nullopt;
    }
    return StorageTypes{StorageType::kDefault};
  }

  void Forward(const OperatorProperty&, std::span<SparseBlob> in, std::span<const OpReqType> req,
               std::span<SparseBlob> out) const override {
    const SparseBlob& data = in[0];
    WriteEdges(data.shape, in[1].values, in[2].values, data.values, req[0], out[0].values,
               [&data](int64_t row, int64_t column) -> index_t {
                 const auto begin = data.indices.begin() + data.indptr[At(row)];
                 const auto end = data.indices.begin() + data.indptr[At(row + 1)];
                 const auto found = std::lower_bound(begin, end, column);
                 if (found == end || *found != column) return -1;
                 return found - data.indices.begin();
               });
  }
};

[[maybe_unused]] const bool kRegistered = RegisterTypedOperator<EdgeIdProperty, EdgeIdOperator>(
    TESSERA_TABLE_PLACE, "_contrib_edge_id", "Elements of a matrix, or -1 where it stores none.",
    TakenTypes::kAny);
[[maybe_unused]] const bool kHasForm =
    RegisterSparseForm("_contrib_edge_id", std::make_unique<EdgeIdForm>());

}  // namespace
}  // namespace tessera
