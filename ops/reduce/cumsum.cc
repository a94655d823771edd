// _np_cumsum: the sums of the first elements along an axis.
//
//   out[k] = x[0] + … + x[k]    d x[k] = g[k] + g[k + 1] + …
//
// Without an axis, data counts as one row, and out has one dimension. Shapes: any; out like data.
// Types: data of any type; out of type `dtype`, else of data's, and int64 for bool. An element is
// converted before it is added. Floating-point sums are made in float64, integers wrap around. Runs
// on the CPU.
#include <algorithm>
#include <optional>

#include "tessera/ops/gradient_formula.h"
#include "tessera/ops/loops/axes.h"
#include "tessera/ops/loops/typed_row.h"
#include "tessera/ops/typed_operator.h"
#include "tessera/tensor/device/parallel.h"

namespace tessera {
namespace {

using namespace ops_internal;  // NOLINT: rows and registration

struct CumsumParameters {
  std::optional<int64_t> axis;
  std::optional<DType> dtype;

  static void Declare(ParameterSchema<CumsumParameters>& schema) {
    using P = CumsumParameters;
    schema.Optional("axis", &P::axis, "the axis; None sums all elements as one row");
    schema.Choice("dtype", &P::dtype,
                  {{"None", std::nullopt},
                   {"bfloat16", DType::kBFloat16},
                   {"float16", DType::kFloat16},
                   {"float32", DType::kFloat32},
                   {"float64", DType::kFloat64},
                   {"int32", DType::kInt32},
                   {"int64", DType::kInt64},
                   {"int8", DType::kInt8}},
                  "element type of the output; data's if None, or int64 for bool");
  }
};

class CumsumProperty final : public ParameterizedProperty<CumsumParameters> {
 public:
  std::vector<std::string> ListArguments() const override { return {"a"}; }

  bool InferShape(std::vector<TShape>* in_shape, std::vector<TShape>* out_shape) const override {
    TShape& data = (*in_shape)[0];
    TShape& out = (*out_shape)[0];
    if (param_.axis) {
      MergeEqualShapes(*this, {{"a", &data}, {"output", &out}});
      if (data.rank_known()) AxisPosition(*this, "axis", *param_.axis, data);
    } else {
      const index_t size =
          data.rank_known() ? ProductOfExtents(*this, "a", data, 0, data.ndim()) : TShape::kUnknown;
      MergeShape(*this, "output", &out, {size});
    }
    return data.known();
  }
  bool InferType(std::vector<DType>* in_type, std::vector<DType>* out_type) const override {
    DType& data = (*in_type)[0];
    DType& out = (*out_type)[0];
    DType result = param_.dtype.value_or(data == DType::kBool ? DType::kInt64 : data);
    if (result == DType::kUnknown) result = data = out;
    if (out != DType::kUnknown && out != result) {
      throw InvalidArgument(TypeString(), ": output has element type ", out, ", expected ", result);
    }
    out = result;
    return data != DType::kUnknown;
  }
  std::vector<int> DeclareBackwardDependency(std::span<const int> out_grad, std::span<const int>,
                                             std::span<const int>) const override {
    return {out_grad[0]};
  }
  std::vector<InplacePair> ForwardInplaceOption(std::span<const int> in_data,
                                                std::span<const int> out_data) const override {
    if (param_.dtype) return {};
    return {{in_data[0], out_data[0]}};
  }
  std::vector<InplacePair> BackwardInplaceOption(std::span<const int> out_grad,
                                                 std::span<const int>, std::span<const int>,
                                                 std::span<const int> in_grad) const override {
    if (param_.dtype) return {};
    return {{out_grad[0], in_grad[0]}};
  }
  bool BuildGradient(GradientBuilder* builder) const override {
    return BuildLinearGradient(*this, builder);
  }
};

/// The elements that are converted and added at once.
constexpr index_t kPiece = 512;

/// Sums along the middle axis of arrays of shape (outer, n, inner), from the start or the end on,
/// in T.
template <typename T>
class RunningSums {
 public:
  RunningSums(const TBlob& in, const TBlob& out, OpReqType req, index_t n, index_t inner,
              bool from_end)
      : in_(in), out_(out), req_(req), n_(n), inner_(inner), from_end_(from_end) {}

  void Run() const {
    const index_t outer = n_ * inner_ == 0 ? 0 : in_.shape_.Size() / (n_ * inner_);
    if (inner_ == 1) {
      ParallelFor(outer, StepsPerTask(n_, 1), [this](index_t begin, index_t end) {
        for (index_t row = begin; row < end; ++row) SumRow(row * n_);
      });
      return;
    }
    const index_t blocks = (inner_ + kPiece - 1) / kPiece;
    ParallelFor(outer * blocks, StepsPerTask(n_ * std::min(inner_, kPiece), 1),
                [&](index_t begin, index_t end) {
                  for (index_t i = begin; i < end; ++i) {
                    const index_t column = i % blocks * kPiece;
                    SumColumns(i / blocks * n_ * inner_ + column,
                               std::min(kPiece, inner_ - column));
                  }
                });
  }

 private:
  static T Plus(T a, T b) {
    if constexpr (std::is_integral_v<T>) {
      return static_cast<T>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
    } else {
      return a + b;
    }
  }

  /// Sums n neighbours from `offset` on.
  void SumRow(index_t offset) const {
    T values[kPiece];
    T total = 0;
    for (index_t done = 0; done < n_; done += kPiece) {
      const index_t n = std::min(kPiece, n_ - done);
      const index_t first = offset + (from_end_ ? n_ - done - n : done);
      RowReader<T>(in_).Copy(first, n, values);
      for (index_t i = 0; i < n; ++i) {
        T& value = values[from_end_ ? n - 1 - i : i];
        value = total = Plus(total, value);
      }
      RowWriter<T>(out_, req_).Write(first, n, values);
    }
  }

  /// Sums `width` neighbouring rows, whose first elements are at `offset` and after it.
  void SumColumns(index_t offset, index_t width) const {
    T values[kPiece], totals[kPiece];
    std::fill_n(totals, width, T(0));
    for (index_t k = 0; k < n_; ++k) {
      const index_t first = offset + (from_end_ ? n_ - 1 - k : k) * inner_;
      RowReader<T>(in_).Copy(first, width, values);
      for (index_t i = 0; i < width; ++i) totals[i] = Plus(totals[i], values[i]);
      RowWriter<T>(out_, req_).Write(first, width, totals);
    }
  }

  const TBlob& in_;
  const TBlob& out_;
  const OpReqType req_;
  const index_t n_, inner_;
  const bool from_end_;
};

class CumsumOperator final : public Operator {
 public:
  CumsumOperator(const CumsumParameters& param, std::span<const TShape> in_shape)
      : axis_(AxisPosition(param.axis, in_shape[0].ndim())) {}

  void Forward(const OpContext&, std::span<const TBlob> in_data, std::span<const OpReqType> req,
               std::span<const TBlob> out_data) override {
    Sum(in_data[0].shape_, in_data[0], out_data[0], req[0], /*from_end=*/false);
  }
  void Backward(const OpContext&, std::span<const TBlob> out_grad, std::span<const TBlob>,
                std::span<const TBlob>, std::span<const OpReqType> req,
                std::span<const TBlob> in_grad) override {
    Sum(in_grad[0].shape_, out_grad[0], in_grad[0], req[0], /*from_end=*/true);
  }

 private:
  void Sum(const TShape& data, const TBlob& in, const TBlob& out, OpReqType req,
           bool from_end) const {
    if (req == kNullOp) return;
    index_t n = data.Size(), inner = 1;
    if (axis_) {
      n = data[*axis_];
      inner = data.ProdShape(*axis_ + 1, data.ndim());
    }
    if (IsReal(out.type_flag_)) {
      RunningSums<double>(in, out, req, n, inner, from_end).Run();
    } else {
      RunningSums<int64_t>(in, out, req, n, inner, from_end).Run();
    }
  }

  const std::optional<int> axis_;
};

[[maybe_unused]] const bool kRegistered = RegisterTypedOperator<CumsumProperty, CumsumOperator>(
    TESSERA_TABLE_PLACE, "_np_cumsum", "The sums of the first elements along an axis.",
    TakenTypes::kAny);

}  // namespace
}  // namespace tessera
