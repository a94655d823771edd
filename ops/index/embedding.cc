// Embedding and _contrib_SparseEmbedding: rows of a matrix, chosen by integers.
//
//   out[i…][j] = weight[data[i…]][j]    d weight[k] = the sum of g[i…] over data[i…] == k
//
// Numbers are truncated, and those outside [0, input_dim) count as the nearest row. Shapes: data
// any; weight (input_dim, output_dim); out that of data, then output_dim. Types: data of any type;
// weight and out of one type, `dtype` if neither is known; sums of 16-bit types in float32. Runs on
// the CPU.
#include "tessera/base/error.h"
#include "tessera/ops/gradient_formula.h"
#include "tessera/ops/loops/indexed_rows.h"
#include "tessera/ops/typed_operator.h"

namespace tessera {
namespace {

using namespace ops_internal;  // NOLINT: rows and registration

/// The parameters of Embedding, or of _contrib_SparseEmbedding, which has one more.
template <bool kIsContrib>
struct RowParameters {
  int64_t input_dim = 1;
  int64_t output_dim = 1;
  DType dtype = DType::kFloat32;
  bool sparse_grad = false;
  bool deterministic = false;

  static void Declare(ParameterSchema<RowParameters>& schema) {
    using P = RowParameters;
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
    schema.Optional("sparse_grad", &P::sparse_grad,
                    "give the weight a row_sparse gradient, in arrays");
    if (!kIsContrib) return;
    schema.Optional("deterministic", &P::deterministic, "accepted; gradients always are");
  }
};
using EmbeddingParameters = RowParameters</*kIsContrib=*/false>;
using SparseEmbeddingParameters = RowParameters</*kIsContrib=*/true>;

template <typename Parameters>
class EmbeddingProperty final : public ParameterizedProperty<Parameters> {
 public:
  std::vector<std::string> ListArguments() const override { return {"data", "weight"}; }
  bool ArgumentHasGradient(int argument) const override { return argument == 1; }

  bool InferShape(std::vector<TShape>* in_shape, std::vector<TShape>* out_shape) const override {
    TShape& data = (*in_shape)[0];
    TShape& out = (*out_shape)[0];
    MergeShape(*this, "weight", &(*in_shape)[1], {this->param_.input_dim, this->param_.output_dim});
    if (out.rank_known()) {
      if (out.ndim() == 0) {
        throw InvalidArgument(this->TypeString(), ": output has shape ", out, ", expected (…,",
                              this->param_.output_dim, ")");
      }
      MergeShape(*this, "data", &data,
                 TShape(std::span<const index_t>(out.begin(), out.end() - 1)));
    }
    if (!data.rank_known()) return false;
    if (data.ndim() == TShape::kMaxRank) {
      throw InvalidArgument(this->TypeString(), ": data has shape ", data, ", expected at most ",
                            TShape::kMaxRank - 1, " dimensions");
    }
    std::vector<index_t> extents(data.begin(), data.end());
    extents.push_back(this->param_.output_dim);
    MergeShape(*this, "output", &out, TShape(std::span<const index_t>(extents)));
    return data.known();
  }

  bool InferType(std::vector<DType>* in_type, std::vector<DType>* out_type) const override {
    DType& weight = (*in_type)[1];
    DType& out = (*out_type)[0];
    if (weight == DType::kUnknown) weight = out != DType::kUnknown ? out : this->param_.dtype;
    if (out != DType::kUnknown && out != weight) {
      throw InvalidArgument(this->TypeString(), ": output has element type ", out,
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
  bool BuildGradient(GradientBuilder* builder) const override {
    return BuildLinearGradient(*this, builder);
  }
};

template <typename Parameters>
class EmbeddingOperator final : public Operator {
 public:
  explicit EmbeddingOperator(const Parameters& param)
      : rows_{.rows = param.input_dim, .width = param.output_dim} {}

  void Forward(const OpContext&, std::span<const TBlob> in_data, std::span<const OpReqType> req,
               std::span<const TBlob> out_data) override {
    GatherRows(PositionsOf(in_data[0]), rows_, in_data[1], out_data[0], req[0]);
  }
  void Backward(const OpContext& context, std::span<const TBlob> out_grad,
                std::span<const TBlob> in_data, std::span<const TBlob>,
                std::span<const OpReqType> req, std::span<const TBlob> in_grad) override {
    SumRows(PositionsOf(in_data[0]), rows_, out_grad[0], in_grad[1], req[1], context);
  }

 private:
  Positions PositionsOf(const TBlob& data) const {
    return Positions(data, rows_.rows, IndexMode::kClip);
  }

  const RowTables rows_;
};

[[maybe_unused]] const bool kRegistered[] = {
    RegisterTypedOperator<EmbeddingProperty<EmbeddingParameters>,
                          EmbeddingOperator<EmbeddingParameters>>(
        TESSERA_TABLE_PLACE, "Embedding", "Rows of a matrix, chosen by integers.",
        TakenTypes::kAny),
    RegisterTypedOperator<EmbeddingProperty<SparseEmbeddingParameters>,
                          EmbeddingOperator<SparseEmbeddingParameters>>(
        TESSERA_TABLE_PLACE, "_contrib_SparseEmbedding", "Embedding, for old graphs.",
        TakenTypes::kAny),
};

}  // namespace
}  // namespace tessera
