// The products of multi-head attention, between projections that lie interleaved in one array.
//
//   _contrib_interleaved_matmul_selfatt_qk      out[n, h] = Q[n, h] K[n, h]^T / sqrt(d)
//   _contrib_interleaved_matmul_selfatt_valatt  out[n, h] = A[n, h] V[n, h]
//   _contrib_interleaved_matmul_encdec_qk       the first with queries in an array of their own
//   _contrib_interleaved_matmul_encdec_valatt   the second with keys and values in an array
//
// n counts the batch, h the heads, and d is the width of a head. Shapes: queries_keys_values (l, n,
// h * 3 * d): for each head its queries, keys and values; queries (l, n, h * d); keys_values (m, n,
// h * 2 * d); the attention A, the output of the first product and an input of the second, (n * h,
// l, m), where self-attention has m = l; the output of the second (l, n, h * d). Gradients: those
// of the products; a part of an array that takes no part has gradient 0. Types: float32, float64,
// float16, bfloat16; the last two accumulate in float32.
#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "tessera/base/error.h"
#include "tessera/ops/gradient_formula.h"
#include "tessera/ops/loops/matrix_product.h"
#include "tessera/ops/loops/move.h"
#include "tessera/ops/typed_operator.h"

namespace tessera {
namespace {

using namespace ops_internal;  // NOLINT: products and registration

struct AttentionParameters {
  int heads = 1;

  static void Declare(ParameterSchema<AttentionParameters>& schema) {
    schema.Required("heads", &AttentionParameters::heads, "the number of heads");
    schema.Range(1);
  }
};

/// Projections in an array that has `parts` of them for each head.
struct Part {
  size_t input;  ///< of the operator
  int parts;
  int part;
};

/// The projections' places in the inputs of self-attention, or of attention from a decoder to an
/// encoder.
template <bool kSelf>
struct Projections {
  static constexpr Part kQueries = {0, kSelf ? 3 : 1, 0};
  static constexpr Part kKeys = {kSelf ? 0 : 1, kSelf ? 3 : 2, kSelf ? 1 : 0};
  static constexpr Part kValues = {0, kSelf ? 3 : 2, kSelf ? 2 : 1};
};

/// The extents of one call, as far as they are known.
struct AttentionExtents {
  index_t queries = TShape::kUnknown;
  index_t keys = TShape::kUnknown;
  index_t batch = TShape::kUnknown;
  index_t width = TShape::kUnknown;  ///< of all heads together
};

/// Infers the shapes of projections and attention.
class AttentionShapes {
 public:
  AttentionShapes(const OperatorProperty& property, int heads, bool is_self)
      : property_(property), heads_(heads), is_self_(is_self) {}

  /// Adds projections: (queries or keys, batch, parts * width).
  void AddProjections(std::string name, TShape* shape, int parts, bool of_queries) {
    values_.push_back({std::move(name), shape, parts, of_queries || is_self_});
  }
  /// Adds the attention: (batch * heads, queries, keys).
  void AddAttention(std::string name, TShape* shape) {
    values_.push_back({std::move(name), shape, 0, true});
  }
  /// Completes the shapes; returns whether all are known.
  bool Infer() {
    for (const Value& value : values_) {
      MergeShape(property_, value.name, value.shape, TShape::OfRank(3));
      Read(value);
    }
    if (is_self_ && extents_.queries == TShape::kUnknown) extents_.queries = extents_.keys;
    if (is_self_) extents_.keys = extents_.queries;
    bool known = true;
    for (const Value& value : values_) {
      MergeShape(property_, value.name, value.shape, Expected(value));
      known = known && value.shape->known();
    }
    return known;
  }

 private:
  struct Value {
    std::string name;
    TShape* shape;
    int parts;  ///< 0 for the attention
    bool of_queries;
  };

  void Read(const Value& value) {
    const TShape& shape = *value.shape;
    if (value.parts == 0) {
      Set(Quotient(value, 0, heads_), &extents_.batch);
      Set(shape[1], &extents_.queries);
      Set(shape[2], &extents_.keys);
      return;
    }
    Set(shape[0], value.of_queries ? &extents_.queries : &extents_.keys);
    Set(shape[1], &extents_.batch);
    const index_t per_head = Quotient(value, 2, index_t{value.parts} * heads_);
    if (per_head != TShape::kUnknown) Set(per_head * heads_, &extents_.width);
  }
  TShape Expected(const Value& value) const {
    const auto product = [&](index_t extent, index_t factor) {
      return ProductOfExtents(property_, value.name, {extent, factor}, 0, 2);
    };
    if (value.parts == 0) {
      return {product(extents_.batch, heads_), extents_.queries, extents_.keys};
    }
    return {value.of_queries ? extents_.queries : extents_.keys, extents_.batch,
            product(extents_.width, value.parts)};
  }
  /// Returns an extent divided by `factor`.
  index_t Quotient(const Value& value, int axis, index_t factor) const {
    const index_t extent = (*value.shape)[axis];
    if (extent == TShape::kUnknown) return extent;
    if (extent % factor != 0) {
      throw InvalidArgument(property_.TypeString(), ": ", value.name, " has shape ", *value.shape,
                            ", expected a multiple of ", factor, " in dimension ", axis,
                            " with heads=", heads_);
    }
    return extent / factor;
  }
  static void Set(index_t known, index_t* extent) {
    if (*extent == TShape::kUnknown) *extent = known;
  }

  const OperatorProperty& property_;
  const int heads_;
  const bool is_self_;
  AttentionExtents extents_;
  std::vector<Value> values_;
};

template <bool kSelf>
class AttentionProperty : public ParameterizedProperty<AttentionParameters> {
 public:
  std::vector<int> DeclareBackwardDependency(std::span<const int> out_grad,
                                             std::span<const int> in_data,
                                             std::span<const int>) const override {
    std::vector<int> needed = {out_grad[0]};
    needed.insert(needed.end(), in_data.begin(), in_data.end());
    return needed;
  }

 protected:
  AttentionShapes Shapes() const { return AttentionShapes(*this, param_.heads, kSelf); }
};

/// Builds the gradient of self-attention's first product, whose operands lie in one array, by the
/// operator with queries in an array of their own.
bool BuildScoresOfSelfGradient(int heads, GradientBuilder* builder) {
  const Term data(builder, builder->Input(0));
  const auto split = [&](const Term& projections, int parts) {
    return Apply(
        "Reshape", {projections},
        {{"shape", "(0,0," + std::to_string(heads) + "," + std::to_string(parts) + ",-1)"}});
  };
  const auto parts = [&](int begin, int end) {
    const ParameterMap range = {
        {"axis", "3"}, {"begin", std::to_string(begin)}, {"end", std::to_string(end)}};
    return Apply("Reshape", {Apply("slice_axis", {split(data, 3)}, range)},
                 {{"shape", "(0,0,-1)"}});
  };
  AdjointCall call{.op = "_contrib_interleaved_matmul_encdec_qk",
                   .parameters = {{"heads", std::to_string(heads)}},
                   .out_grads = {Term(builder, builder->OutGrad(0))},
                   .inputs = {parts(0, 1), parts(1, 3)}};
  call.argument = 0;
  const Term of_queries = split(ApplyAdjoint(call).front(), 1);
  call.argument = 1;
  const Term of_others = split(ApplyAdjoint(call).front(), 2);
  const Term gradient = Apply("Concat", {of_queries, of_others}, {{"num_args", "2"}, {"dim", "3"}});
  SetInGrad(builder, 0, Apply("reshape_like", {gradient, data}));
  return true;
}

template <bool kSelf>
class ScoresProperty final : public AttentionProperty<kSelf> {
 public:
  std::vector<std::string> ListArguments() const override {
    if (kSelf) return {"queries_keys_values"};
    return {"queries", "keys_values"};
  }
  bool InferShape(std::vector<TShape>* in_shape, std::vector<TShape>* out_shape) const override {
    const auto names = ListArguments();
    AttentionShapes shapes = this->Shapes();
    using P = Projections<kSelf>;
    shapes.AddProjections(names[0], &(*in_shape)[0], P::kQueries.parts, true);
    if (!kSelf) shapes.AddProjections(names[1], &(*in_shape)[1], P::kKeys.parts, false);
    shapes.AddAttention("output", &(*out_shape)[0]);
    return shapes.Infer();
  }
  bool BuildGradient(GradientBuilder* builder) const override {
    if (kSelf) return BuildScoresOfSelfGradient(this->param_.heads, builder);
    return BuildBilinearGradient(*this, this->GetParams(), builder);
  }
};

template <bool kSelf>
class ValuesProperty final : public AttentionProperty<kSelf> {
 public:
  std::vector<std::string> ListArguments() const override {
    return {kSelf ? "queries_keys_values" : "keys_values", "attention"};
  }
  bool InferShape(std::vector<TShape>* in_shape, std::vector<TShape>* out_shape) const override {
    AttentionShapes shapes = this->Shapes();
    shapes.AddProjections(ListArguments()[0], &(*in_shape)[0], Projections<kSelf>::kValues.parts,
                          false);
    shapes.AddAttention("attention", &(*in_shape)[1]);
    shapes.AddProjections("output", &(*out_shape)[0], 1, true);
    return shapes.Infer();
  }
  bool BuildGradient(GradientBuilder* builder) const override {
    return BuildBilinearGradient(*this, this->GetParams(), builder);
  }
};

/// The arrays of a call as matrices, one for each element of the batch and each head.
class AttentionOperator : public Operator {
 public:
  explicit AttentionOperator(const AttentionParameters& param) : heads_(param.heads) {}

 protected:
  // Distances in an array without elements do not matter, and may not fit in 63 bits.
  MatrixBatch Heads(const TBlob& blob, const Part& part) const {
    const TShape& shape = blob.shape_;
    const index_t width = shape[2] / (index_t{heads_} * part.parts);
    MatrixBatch heads = {.rows = shape[0], .inner = shape[1] * heads_, .columns = width};
    if (blob.Size() == 0) return heads;
    const index_t offset_bytes = part.part * width * DTypeSizeBytes(blob.type_flag_);
    heads.data = static_cast<char*>(blob.dptr_) + offset_bytes;
    heads.row_stride = shape[1] * shape[2];
    heads.inner_stride = part.parts * width;
    return heads;
  }
  static MatrixBatch Attention(const TBlob& blob) {
    const TShape& shape = blob.shape_;
    MatrixBatch attention = {.rows = shape[1], .inner = shape[0], .columns = shape[2]};
    if (blob.Size() == 0) return attention;
    attention.data = blob.dptr_;
    attention.row_stride = shape[2];
    attention.inner_stride = shape[1] * shape[2];
    return attention;
  }
  /// Computes c = scale * a * b for arrays like `blob`.
  static void Multiply(const MatrixBatch& a, const MatrixBatch& b, const MatrixBatch& c,
                       double scale, OpReqType req, const TBlob& blob, const OpContext& context) {
    MultiplyMatrices(a, b, c, scale, blob.type_flag_, req, blob.device_, context);
  }
  /// Writes zeros where products leave a part of a gradient out.
  static void Clear(std::span<const TBlob> gradients, std::span<const OpReqType> req,
                    const OpContext& context) {
    for (size_t i = 0; i < gradients.size(); ++i) MoveZeros(gradients[i], req[i], context);
  }

 private:
  const int heads_;
};

template <bool kSelf>
class ScoresOperator final : public AttentionOperator {
 public:
  using AttentionOperator::AttentionOperator;

  bool RunsEpilogue() const override { return true; }
  void Forward(const OpContext& context, std::span<const TBlob> in_data,
               std::span<const OpReqType> req, std::span<const TBlob> out_data) override {
    if (req[0] == kNullOp) return;
    const MatrixBatch q = Heads(in_data[kQueries.input], kQueries);
    const MatrixBatch k = Heads(in_data[kKeys.input], kKeys);
    Multiply(q, k.T(), Attention(out_data[0]), Scale(q), req[0], out_data[0], context);
  }
  void Backward(const OpContext& context, std::span<const TBlob> out_grad,
                std::span<const TBlob> in_data, std::span<const TBlob>,
                std::span<const OpReqType> req, std::span<const TBlob> in_grad) override {
    Clear(in_grad, req, context);
    const MatrixBatch g = Attention(out_grad[0]);
    const MatrixBatch q = Heads(in_data[kQueries.input], kQueries);
    const MatrixBatch k = Heads(in_data[kKeys.input], kKeys);
    if (req[kQueries.input] != kNullOp) {
      Multiply(g, k, Heads(in_grad[kQueries.input], kQueries), Scale(q), req[kQueries.input],
               out_grad[0], context);
    }
    if (req[kKeys.input] != kNullOp) {
      Multiply(g.T(), q, Heads(in_grad[kKeys.input], kKeys), Scale(q), req[kKeys.input],
               out_grad[0], context);
    }
  }

 private:
  static constexpr Part kQueries = Projections<kSelf>::kQueries, kKeys = Projections<kSelf>::kKeys;

  static double Scale(const MatrixBatch& queries) {
    return 1 / std::sqrt(static_cast<double>(std::max<index_t>(queries.columns, 1)));
  }
};

template <bool kSelf>
class ValuesOperator final : public AttentionOperator {
 public:
  using AttentionOperator::AttentionOperator;

  void Forward(const OpContext& context, std::span<const TBlob> in_data,
               std::span<const OpReqType> req, std::span<const TBlob> out_data) override {
    if (req[0] == kNullOp) return;
    Multiply(Attention(in_data[1]), Heads(in_data[0], kValues), Heads(out_data[0], kOutput), 1,
             req[0], out_data[0], context);
  }
  void Backward(const OpContext& context, std::span<const TBlob> out_grad,
                std::span<const TBlob> in_data, std::span<const TBlob>,
                std::span<const OpReqType> req, std::span<const TBlob> in_grad) override {
    const MatrixBatch g = Heads(out_grad[0], kOutput);
    if (req[0] != kNullOp) {
      Clear(in_grad.first(1), req, context);
      Multiply(Attention(in_data[1]).T(), g, Heads(in_grad[0], kValues), 1, req[0], out_grad[0],
               context);
    }
    if (req[1] != kNullOp) {
      Multiply(g, Heads(in_data[0], kValues).T(), Attention(in_grad[1]), 1, req[1], out_grad[0],
               context);
    }
  }

 private:
  static constexpr Part kValues = Projections<kSelf>::kValues, kOutput = {0, 1, 0};
};

[[maybe_unused]] const bool kRegistered[] = {
    RegisterTypedOperator<ScoresProperty<true>, ScoresOperator<true>>(
        TESSERA_TABLE_PLACE, "_contrib_interleaved_matmul_selfatt_qk",
        "The products of queries and keys of self-attention, divided by the root of their width."),
    RegisterTypedOperator<ValuesProperty<true>, ValuesOperator<true>>(
        TESSERA_TABLE_PLACE, "_contrib_interleaved_matmul_selfatt_valatt",
        "The values of self-attention, weighted by the attention."),
    RegisterTypedOperator<ScoresProperty<false>, ScoresOperator<false>>(
        TESSERA_TABLE_PLACE, "_contrib_interleaved_matmul_encdec_qk",
        "The products of a decoder's queries and an encoder's keys, divided by the root of their "
        "width."),
    RegisterTypedOperator<ValuesProperty<false>, ValuesOperator<false>>(
        TESSERA_TABLE_PLACE, "_contrib_interleaved_matmul_encdec_valatt",
        "The values of an encoder, weighted by a decoder's attention."),
};

}  // namespace
}  // namespace tessera
