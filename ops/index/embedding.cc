// Embedding: rows of a matrix, chosen by integers.
//
//   out[i…][j] = weight[data[i…]][j]    d weight[k] = the sum of g[i…] over data[i…] == k
//
// Numbers are truncated, and those outside [0, input_dim) count as the nearest row. Shapes: data
// any; weight (input_dim, output_dim); out that of data, then output_dim. Types: data of any type;
// weight and out of one type, `dtype` if neither is known. The gradient exists for float32,
// float64, float16 and bfloat16, of which the last two are summed in float32. Runs on the CPU.
#include <algorithm>
#include <cstring>

#include "tessera/ops/elemwise/convert_row.h"
#include "tessera/ops/typed_operator.h"
#include "tessera/tensor/device/parallel.h"

#if !defined(TESSERA_XPU_GPU)

namespace tessera {
namespace {

using namespace ops_internal;  // NOLINT: rows and registration

struct EmbeddingParameters {
  int64_t input_dim = 1;
  int64_t output_dim = 1;
  DType dtype = DType::kFloat32;
  bool sparse_grad = false;

  static void Declare(ParameterSchema<EmbeddingParameters>& schema) {
    using P = EmbeddingParameters;
    schema.Required("input_dim", &P::input_dim, "the number of rows");
    schema.Range(1);
    schema.Required("output_dim", &P::output_dim, "the length of a row");
    schema.Range(1);
    schema.Choice("dtype", &P::dtype,
                  {{"bfloat16", DType::kBFloat16},
                   {"float16", DType::kFloat16},
                   {"float32", DType::kFloat32},
                   {"float64", DType::kFloat64},
                   {"int32", DType::kInt32},
                   {"int64", DType::kInt64},
                   {"int8", DType::kInt8},
                   {"uint8", DType::kUint8}},
                  "element type of the weight, unless it is known");
    schema.Optional("sparse_grad", &P::sparse_grad, "accepted; gradients are dense");
  }
};

class EmbeddingProperty final : public ParameterizedProperty<EmbeddingParameters> {
 public:
  std::vector<std::string> ListArguments() const override { return {"data", "weight"}; }
  bool ArgumentHasGradient(int argument) const override { return argument == 1; }

  bool InferShape(std::vector<TShape>* in_shape, std::vector<TShape>* out_shape) const override {
    TShape& data = (*in_shape)[0];
    TShape& out = (*out_shape)[0];
    MergeShape(*this, "weight", &(*in_shape)[1], {param_.input_dim, param_.output_dim});
    if (out.rank_known()) {
      if (out.ndim() == 0) {
        throw InvalidArgument(TypeString(), ": output has shape ", out, ", expected (…,",
                              param_.output_dim, ")");
      }
      MergeShape(*this, "data", &data,
                 TShape(std::span<const index_t>(out.begin(), out.end() - 1)));
    }
    if (!data.rank_known()) return false;
    if (data.ndim() == TShape::kMaxRank) {
      throw InvalidArgument(TypeString(), ": data has shape ", data, ", expected at most ",
                            TShape::kMaxRank - 1, " dimensions");
    }
    std::vector<index_t> extents(data.begin(), data.end());
    extents.push_back(param_.output_dim);
    MergeShape(*this, "output", &out, TShape(std::span<const index_t>(extents)));
    return data.known();
  }

  bool InferType(std::vector<DType>* in_type, std::vector<DType>* out_type) const override {
    DType& weight = (*in_type)[1];
    DType& out = (*out_type)[0];
    if (weight == DType::kUnknown) weight = out != DType::kUnknown ? out : param_.dtype;
    if (out != DType::kUnknown && out != weight) {
      throw InvalidArgument(TypeString(), ": output has element type ", out,
                            ", expected that of weight, ", weight);
    }
    out = weight;
    return (*in_type)[0] != DType::kUnknown;
  }

  std::vector<int> DeclareBackwardDependency(std::span<const int> out_grad,
                                             std::span<const int> in_data,
                                             std::span<const int>) const override {
    return {out_grad[0], in_data[0]};
  }
};

class EmbeddingOperator final : public Operator {
 public:
  explicit EmbeddingOperator(const EmbeddingParameters& param) : param_(param) {}

  void Forward(const OpContext&, std::span<const TBlob> in_data, std::span<const OpReqType> req,
               std::span<const TBlob> out_data) override {
    if (req[0] == kNullOp) return;
    const TBlob& out = out_data[0];
    const DType dtype = out.type_flag_;
    const index_t width = param_.output_dim, row_bytes = width * DTypeSizeBytes(dtype);
    const index_t count = in_data[0].shape_.Size();
    ParallelFor(count, StepsPerTask(width), [&](index_t begin, index_t end) {
      std::vector<double> reals;
      std::vector<int64_t> integers;
      ForEachIndex(in_data[0], begin, end, [&](index_t i, index_t row) {
        const char* const from = static_cast<const char*>(in_data[1].dptr_) + row * row_bytes;
        char* const to = static_cast<char*>(out.dptr_) + i * row_bytes;
        if (req[0] != kAddTo) {
          std::memcpy(to, from, static_cast<size_t>(row_bytes));
        } else if (IsReal(dtype)) {
          AddRow(from, dtype, width, &reals, to);
        } else {
          AddRow(from, dtype, width, &integers, to);
        }
      });
    });
  }

  void Backward(const OpContext&, std::span<const TBlob> out_grad, std::span<const TBlob> in_data,
                std::span<const TBlob>, std::span<const OpReqType> req,
                std::span<const TBlob> in_grad) override {
    if (req[1] == kNullOp) return;
    switch (in_grad[1].type_flag_) {
      case DType::kFloat64:
        return SumRows<double>(out_grad[0], in_data[0], req[1], in_grad[1]);
      case DType::kFloat32:
      case DType::kFloat16:
      case DType::kBFloat16:
        return SumRows<float>(out_grad[0], in_data[0], req[1], in_grad[1]);
      default:
        throw InvalidArgument("Embedding: a weight of element type ", in_grad[1].type_flag_,
                              " has no gradient");
    }
  }

 private:
  /// Calls function(i, row) for i in [begin, end) with the row that number i means.
  template <typename Function>
  void ForEachIndex(const TBlob& data, index_t begin, index_t end, const Function& function) const {
    constexpr index_t kBlock = 256;
    int64_t rows[kBlock];
    const index_t size = DTypeSizeBytes(data.type_flag_);
    for (index_t first = begin; first < end; first += kBlock) {
      const index_t n = std::min(kBlock, end - first);
      LoadRow(static_cast<const char*>(data.dptr_) + first * size, data.type_flag_, 1, n, rows);
      for (index_t i = 0; i < n; ++i) {
        function(first + i, std::clamp<int64_t>(rows[i], 0, param_.input_dim - 1));
      }
    }
  }

  template <typename T>
  static void AddRow(const void* from, DType dtype, index_t n, std::vector<T>* row, void* to) {
    row->resize(static_cast<size_t>(n));
    LoadRow(from, dtype, 1, n, row->data());
    StoreRow(row->data(), n, /*add=*/true, dtype, to);
  }

  /// Sums the head gradient's rows, in their order, so that results do not depend on threads, which
  /// share the columns.
  template <typename T>
  void SumRows(const TBlob& g, const TBlob& data, OpReqType req, const TBlob& grad) const {
    const index_t width = param_.output_dim, count = data.shape_.Size();
    const bool direct = grad.type_flag_ == kDTypeOf<T>;
    const index_t total = param_.input_dim * width;
    std::vector<T> copy(direct ? 0 : static_cast<size_t>(total), T(0));
    T* const sums = direct ? static_cast<T*>(grad.dptr_) : copy.data();
    if (direct && req != kAddTo) std::fill_n(sums, total, T(0));
    const index_t size = DTypeSizeBytes(g.type_flag_);
    constexpr index_t kColumns = 64;
    const index_t blocks = (width + kColumns - 1) / kColumns;
    ParallelFor(blocks, StepsPerTask(count * kColumns), [&](index_t begin, index_t end) {
      const index_t column = begin * kColumns;
      const index_t n = std::min(width, end * kColumns) - column;
      std::vector<T> head(static_cast<size_t>(n));
      ForEachIndex(data, 0, count, [&](index_t i, index_t row) {
        LoadRow(static_cast<const char*>(g.dptr_) + (i * width + column) * size, g.type_flag_, 1, n,
                head.data());
        T* const sum = sums + row * width + column;
        for (index_t j = 0; j < n; ++j) sum[j] += head[static_cast<size_t>(j)];
      });
    });
    if (!direct) StoreRow(copy.data(), total, req == kAddTo, grad.type_flag_, grad.dptr_);
  }

  const EmbeddingParameters param_;
};

[[maybe_unused]] const bool kRegistered =
    RegisterTypedOperator<EmbeddingProperty, EmbeddingOperator>(
        TESSERA_TABLE_PLACE, "Embedding", "Rows of a matrix, chosen by integers.",
        TakenTypes::kAny);

}  // namespace
}  // namespace tessera

#endif  // !TESSERA_XPU_GPU
