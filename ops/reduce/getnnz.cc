// _contrib_getnnz: the number of elements of a matrix that are stored.
//
//   out = the number of elements, or out[i] = that of row i (axis 1), or of column i (axis 0)
//
// Of a csr matrix, all stored elements count, also 0; of a dense one, those other than 0. Shapes:
// data (m, n), out (1), (m) or (n). Types: data of any type, out int64. There is no gradient. Runs
// on the CPU.
#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "tessera/base/at.h"
#include "tessera/base/error.h"
#include "tessera/ops/loops/convert_row.h"
#include "tessera/ops/loops/movement.h"
#include "tessera/ops/sparse.h"
#include "tessera/ops/typed_operator.h"

namespace tessera {
namespace {

using namespace ops_internal;  // NOLINT: rows and registration
using base_internal::At;

/// Elements that are converted at a time.
constexpr index_t kBlock = 256;

struct CountParameters {
  std::optional<int64_t> axis;

  static void Declare(ParameterSchema<CountParameters>& schema) {
    schema.Optional("axis", &CountParameters::axis,
                    "None for the whole matrix, 0 for each column, 1 for each row");
  }
};

class CountProperty final : public ParameterizedProperty<CountParameters> {
 public:
  bool HasGradient() const override { return false; }

  bool InferShape(std::vector<TShape>* in_shape, std::vector<TShape>* out_shape) const override {
    if (param_.axis && *param_.axis != 0 && *param_.axis != 1) {
      throw InvalidArgument(TypeString(), ": axis is ", *param_.axis, ", expected None, 0 or 1");
    }
    TShape& data = (*in_shape)[0];
    MergeShape(*this, "data", &data, TShape::OfRank(2));
    const index_t extent = !param_.axis ? 1 : *param_.axis == 1 ? data[0] : data[1];
    MergeShape(*this, "output", &(*out_shape)[0], {extent});
    return data.known();
  }

  bool InferType(std::vector<DType>* in_type, std::vector<DType>* out_type) const override {
    MergeType(*this, "output", &(*out_type)[0], DType::kInt64);
    return (*in_type)[0] != DType::kUnknown;
  }
};

/// Writes or adds the counts of all elements, given by row and by column.
void WriteCounts(std::optional<int64_t> axis, std::span<const int64_t> of_rows,
                 std::span<const int64_t> of_columns, OpReqType req, const TBlob& to) {
  if (req == kNullOp) return;
  int64_t total = 0;
  for (const int64_t count : of_rows) total += count;
  const std::span<const int64_t> counts = !axis        ? std::span<const int64_t>(&total, 1)
                                          : *axis == 1 ? of_rows
                                                       : of_columns;
  int64_t* const out = to.dptr<int64_t>();
  for (size_t i = 0; i < counts.size(); ++i) out[i] = counts[i] + (req == kAddTo ? out[i] : 0);
}

class CountOperator final : public Operator {
 public:
  CountOperator(const CountParameters& param, std::span<const TShape> in_shape)
      : axis_(param.axis), rows_(in_shape[0][0]), columns_(in_shape[0][1]) {}

  void Forward(const OpContext&, std::span<const TBlob> in_data, std::span<const OpReqType> req,
               std::span<const TBlob> out_data) override {
    const TBlob& data = in_data[0];
    const char* const elements = static_cast<const char*>(data.dptr_);
    const index_t element_bytes = DTypeSizeBytes(data.type_flag_);
    std::vector<int64_t> of_rows(At(rows_), 0), of_columns(At(columns_), 0);
    double block[kBlock];
    for (index_t i = 0; i < rows_; ++i) {
      for (index_t begin = 0; begin < columns_; begin += kBlock) {
        const index_t count = std::min(kBlock, columns_ - begin);
        LoadRow(elements + (i * columns_ + begin) * element_bytes, data.type_flag_, 1, count,
                block);
        for (index_t j = 0; j < count; ++j) {
          const int64_t counts = block[j] != 0 ? 1 : 0;
          of_rows[At(i)] += counts;
          of_columns[At(begin + j)] += counts;
        }
      }
    }
    WriteCounts(axis_, of_rows, of_columns, req[0], out_data[0]);
  }

 private:
  const std::optional<int64_t> axis_;
  const index_t rows_, columns_;
};

class CountForm final : public SparseForm {
 public:
  std::optional<StorageTypes> Infer(const OperatorProperty&, std::span<const StorageType> in,
                                    std::span<const StorageType>) const override {
    if (in[0] != StorageType::kCsr) return std::nullopt;
    return StorageTypes{StorageType::kDefault};
  }

  void Forward(const OperatorProperty& property, std::span<SparseBlob> in,
               std::span<const OpReqType> req, std::span<SparseBlob> out) const override {
    const SparseBlob& data = in[0];
    const std::optional<int64_t> axis = static_cast<const CountProperty&>(property).param().axis;
    std::vector<int64_t> of_rows, of_columns;
    for (index_t i = 0; i < data.shape[0]; ++i) {
      of_rows.push_back(data.indptr[At(i + 1)] - data.indptr[At(i)]);
    }
    if (axis && *axis == 0) {
      of_columns.resize(At(data.shape[1]), 0);
      for (const int64_t column : data.indices) ++of_columns[At(column)];
    }
    WriteCounts(axis, of_rows, of_columns, req[0], out[0].values);
  }
};

[[maybe_unused]] const bool kRegistered = RegisterTypedOperator<CountProperty, CountOperator>(
    TESSERA_TABLE_PLACE, "_contrib_getnnz", "The number of stored elements of a matrix.",
    TakenTypes::kAny);
[[maybe_unused]] const bool kHasForm =
    RegisterSparseForm("_contrib_getnnz", std::make_unique<CountForm>());

}  // namespace
}  // namespace tessera
