// _contrib_quantized_flatten, _contrib_quantized_act, _contrib_quantized_embedding and
// _contrib_quantized_concat: codes (codes.h) that move, or change to another range.
//
//   _flatten    data as a matrix, of any type
//   _act        max(data, 0), of int8 or uint8
//   _embedding  rows of weight, of int8, which numbers choose as in Embedding
//   _concat     arrays side by side, of int8 and uint8
//
// The first three keep range and type. MXNet's _act declares uint8 outputs as int8. The range of
// _concat begins at the least of the inputs' ends and 0, and ends at the greatest. Its output is
// int8 if an input is, else uint8. Codes of an input whose range has another magnitude, or another
// type, are converted: round(code * s / si), halves to the even integer, limited to the type's
// range, where s and si are the codes of 1 of output and input.
//
// Shapes: those of Flatten, _copy, Embedding and Concat; ranges (1,) of float32. Gradient 0. Runs
// on the CPU.
#include <algorithm>
#include <string>
#include <vector>

#include "tessera/ops/loops/axes.h"
#include "tessera/ops/loops/indexed_rows.h"
#include "tessera/ops/quantization/codes.h"
#include "tessera/ops/quantization/quantized_property.h"
#include "tessera/ops/typed_operator.h"
#include "tessera/tensor/device/parallel.h"

namespace tessera {
namespace {

using namespace ops_internal;  // NOLINT: codes, movement and registration

// _contrib_quantized_flatten.

class QuantizedFlattenProperty final : public QuantizedLikeDataProperty<NoParameters> {
  std::unique_ptr<OperatorProperty> CreateBase() const override {
    return OperatorRegistry::Get().Create("Flatten", {});
  }
  bool TakesAllTypes() const override { return true; }
};

class QuantizedFlattenOperator final : public Operator {
 public:
  explicit QuantizedFlattenOperator(const NoParameters&) {}
  bool AcceptsAddTo() const override { return false; }

  void Forward(const OpContext& context, std::span<const TBlob> in_data,
               std::span<const OpReqType> req, std::span<const TBlob> out_data) override {
    MoveFlat(in_data[0], out_data[0], req[0], context);
    StoreRange(NumberIn(in_data[1]), NumberIn(in_data[2]), req, out_data);
  }
};

// _contrib_quantized_act.

enum class Activation { kRelu };

struct QuantizedActParameters {
  Activation act_type = Activation::kRelu;

  static void Declare(ParameterSchema<QuantizedActParameters>& schema) {
    schema.Choice("act_type", &QuantizedActParameters::act_type, {{"relu", Activation::kRelu}},
                  "the function", /*required=*/true);
  }
};

class QuantizedActProperty final : public QuantizedLikeDataProperty<QuantizedActParameters> {
  std::unique_ptr<OperatorProperty> CreateBase() const override {
    return OperatorRegistry::Get().Create("_copy", {});
  }
};

class QuantizedActOperator final : public Operator {
 public:
  explicit QuantizedActOperator(const QuantizedActParameters&) {}
  bool AcceptsAddTo() const override { return false; }

  void Forward(const OpContext&, std::span<const TBlob> in_data, std::span<const OpReqType> req,
               std::span<const TBlob> out_data) override {
    if (req[0] != kNullOp) {
      VisitCodes(in_data[0].type_flag_, [&](auto code) {
        using T = decltype(code);
        const auto* const data = static_cast<const T*>(in_data[0].dptr_);
        auto* const out = static_cast<T*>(out_data[0].dptr_);
        ParallelFor(in_data[0].shape_.Size(), StepsPerTask(1), [&](index_t begin, index_t end) {
          for (index_t i = begin; i < end; ++i) out[i] = std::max<T>(data[i], 0);
        });
      });
    }
    StoreRange(NumberIn(in_data[1]), NumberIn(in_data[2]), req, out_data);
  }
};

// _contrib_quantized_embedding.

struct QuantizedEmbeddingParameters {
  int64_t input_dim = 1;
  int64_t output_dim = 1;
  DType dtype = DType::kFloat32;
  bool sparse_grad = false;

  static void Declare(ParameterSchema<QuantizedEmbeddingParameters>& schema) {
    using P = QuantizedEmbeddingParameters;
    schema.Required("input_dim", &P::input_dim, "the number of rows");
    schema.Range(1);
    schema.Required("output_dim", &P::output_dim, "the length of a row");
    schema.Range(1);
    schema.Choice("dtype", &P::dtype, DTypeChoices(), "accepted; rows are int8");
    schema.Optional("sparse_grad", &P::sparse_grad, "accepted; the gradient is 0");
  }
};

class QuantizedEmbeddingProperty final : public QuantizedProperty<QuantizedEmbeddingParameters> {
 public:
  bool InferType(std::vector<DType>* in_type, std::vector<DType>* out_type) const override {
    MergeRangeTypes(in_type, out_type);
    MergeType(*this, "weight", &(*in_type)[1], DType::kInt8);
    MergeType(*this, "output", &(*out_type)[0], DType::kInt8);
    return (*in_type)[0] != DType::kUnknown;
  }

 private:
  std::unique_ptr<OperatorProperty> CreateBase() const override {
    return OperatorRegistry::Get().Create("Embedding",
                                          {{"input_dim", std::to_string(param_.input_dim)},
                                           {"output_dim", std::to_string(param_.output_dim)}});
  }
  std::vector<std::string> RangeNames() const override { return {"min_weight", "max_weight"}; }
};

class QuantizedEmbeddingOperator final : public Operator {
 public:
  explicit QuantizedEmbeddingOperator(const QuantizedEmbeddingParameters& param)
      : rows_{.rows = param.input_dim, .width = param.output_dim} {}
  bool AcceptsAddTo() const override { return false; }

  void Forward(const OpContext&, std::span<const TBlob> in_data, std::span<const OpReqType> req,
               std::span<const TBlob> out_data) override {
    const Positions positions(in_data[0], rows_.rows, IndexMode::kClip);
    GatherRows(positions, rows_, in_data[1], out_data[0], req[0]);
    StoreRange(NumberIn(in_data[2]), NumberIn(in_data[3]), req, out_data);
  }

 private:
  const RowTables rows_;
};

// _contrib_quantized_concat.

struct QuantizedConcatParameters {
  int num_args = 1;
  int64_t dim = 1;

  static void Declare(ParameterSchema<QuantizedConcatParameters>& schema) {
    using P = QuantizedConcatParameters;
    schema.Required("num_args", &P::num_args, "number of arrays");
    schema.Range(1, 1 << 20);
    schema.Optional("dim", &P::dim, "dimension along which they lie side by side");
  }
};

class QuantizedConcatProperty final : public QuantizedProperty<QuantizedConcatParameters> {
 public:
  bool InferType(std::vector<DType>* in_type, std::vector<DType>* out_type) const override {
    MergeRangeTypes(in_type, out_type);
    const std::vector<std::string> names = BaseArguments();
    bool known = true;
    DType type = DType::kUint8;
    for (size_t i = 0; i < names.size(); ++i) {
      RequireCodes(names[i], (*in_type)[i]);
      known = known && (*in_type)[i] != DType::kUnknown;
      if ((*in_type)[i] == DType::kInt8) type = DType::kInt8;
    }
    if (known) MergeType(*this, "output", &(*out_type)[0], type);
    return known;
  }

 private:
  std::unique_ptr<OperatorProperty> CreateBase() const override {
    return OperatorRegistry::Get().Create("Concat", GetParams());
  }
  std::vector<std::string> RangeNames() const override {
    std::vector<std::string> names;
    for (const std::string& name : BaseArguments()) {
      names.push_back(name + "_min");
      names.push_back(name + "_max");
    }
    return names;
  }
};

class QuantizedConcatOperator final : public Operator {
 public:
  QuantizedConcatOperator(const QuantizedConcatParameters& param, std::span<const TShape> in_shape)
      : count_(static_cast<size_t>(param.num_args)),
        axis_(AxisPosition(param.dim, in_shape[0].ndim())) {}
  bool AcceptsAddTo() const override { return false; }

  void Forward(const OpContext&, std::span<const TBlob> in_data, std::span<const OpReqType> req,
               std::span<const TBlob> out_data) override {
    const auto ranges = in_data.subspan(count_);
    float low = 0, high = 0;
    for (size_t i = 0; i < count_; ++i) {
      low = std::min(low, NumberIn(ranges[2 * i]));
      high = std::max(high, NumberIn(ranges[2 * i + 1]));
    }
    index_t first = 0;
    for (size_t i = 0; i < count_ && req[0] != kNullOp; ++i) {
      const float range = Magnitude(ranges[2 * i], ranges[2 * i + 1]);
      first += Place(in_data[i], range, out_data[0], Magnitude(low, high), first);
    }
    StoreRange(low, high, req, out_data);
  }

 private:
  /// Writes an input's codes from element `first` of each of the output's rows on, a row being the
  /// dimensions from dim on. Returns the number of the input's elements in a row.
  index_t Place(const TBlob& in, float range, const TBlob& out, float out_range,
                index_t first) const {
    const index_t rows = out.shape_.ProdShape(0, axis_);
    const index_t width = in.shape_.ProdShape(axis_, in.shape_.ndim());
    const index_t out_width = out.shape_.ProdShape(axis_, out.shape_.ndim());
    const bool equal = in.type_flag_ == out.type_flag_ && range == out_range;
    const float factor =
        equal ? 1 : CodeOfOne(out.type_flag_, out_range) / CodeOfOne(in.type_flag_, range);
    const auto row = [](const TBlob& array, index_t begin, index_t n) {
      return TBlob(static_cast<char*>(array.dptr_) + begin, {n}, array.type_flag_, array.device_);
    };
    for (index_t i = 0; i < rows; ++i) {
      Scale(row(in, i * width, width), factor, row(out, i * out_width + first, width));
    }
    return width;
  }

  const size_t count_;
  const int axis_;
};

[[maybe_unused]] const bool kFlatten =
    RegisterTypedOperator<QuantizedFlattenProperty, QuantizedFlattenOperator>(
        TESSERA_TABLE_PLACE, "_contrib_quantized_flatten",
        "All dimensions after the first as one, with the range.", TakenTypes::kAny);
[[maybe_unused]] const bool kAct =
    RegisterTypedOperator<QuantizedActProperty, QuantizedActOperator>(
        TESSERA_TABLE_PLACE, "_contrib_quantized_act", "max(data, 0) of integers of 8 bits.",
        TakenTypes::kAny);
[[maybe_unused]] const bool kEmbedding =
    RegisterTypedOperator<QuantizedEmbeddingProperty, QuantizedEmbeddingOperator>(
        TESSERA_TABLE_PLACE, "_contrib_quantized_embedding",
        "Rows of a matrix of integers of 8 bits, chosen by integers.", TakenTypes::kAny);
[[maybe_unused]] const bool kConcat =
    RegisterTypedOperator<QuantizedConcatProperty, QuantizedConcatOperator>(
        TESSERA_TABLE_PLACE, "_contrib_quantized_concat",
        "Arrays of integers of 8 bits side by side, in one range.", TakenTypes::kAny);

}  // namespace
}  // namespace tessera
