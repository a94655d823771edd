// Softmax and its kin, along one axis.
//
//   softmax      y = exp(x / t) / sum exp(x / t)      d x = y (g - sum g y) / t
//   softmin      softmax of -x                        the negative of that
//   log_softmax  y = x / t - log sum exp(x / t)       d x = (g - exp(y) sum g) / t
//
// t is `temperature`. The largest element is subtracted before exp. softmax can take the number of
// elements of each row that count (use_length): the others, and their gradients, are 0. A length
// below 0 or above that of the row is an error. SoftmaxActivation is softmax over the last axis, or
// over axis 1 with mode=channel.
//
// A row whose largest x / t is infinite, among the elements that count, has no limit: all of its
// results and gradients that count are NaN, as in PyTorch. So is a row with NaN. (MXNet gives 0
// beside an infinite element in some calls and NaN in others.) Elements with x / t = -infinity
// beside finite ones have softmax 0 with gradient 0, and log_softmax -infinity with gradient g.
//
// Shapes: any of rank 1 or higher; out like data; length like data without the axis. Types:
// float32, float64, float16, bfloat16, computed in float32 or float64; out has the type `dtype` if
// that is given; length int32 or int64. Runs on the CPU.
#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

#include "tessera/ops/gradient_formula.h"
#include "tessera/ops/loops/axes.h"
#include "tessera/ops/loops/row_call.h"
#include "tessera/ops/loops/row_loop.h"
#include "tessera/ops/loops/typed_row.h"
#include "tessera/ops/row_operator.h"
#include "tessera/ops/typed_operator.h"
#include "tessera/tensor/expr/cost.h"
#include "tessera/tensor/functors.h"

namespace tessera {
namespace {

using namespace ops_internal;  // NOLINT: the row driver

enum class Kind { kSoftmax, kSoftmin, kLogSoftmax };

struct SoftmaxParameters {
  int64_t axis = -1;
  std::optional<double> temperature;
  DType dtype = DType::kUnknown;
  bool use_length = false;

  static void Declare(ParameterSchema<SoftmaxParameters>& schema) {
    using P = SoftmaxParameters;
    schema.Optional("axis", &P::axis, "the axis along which elements add up to 1");
    schema.Optional("temperature", &P::temperature, "divides the data; None is 1");
    schema.Choice("dtype", &P::dtype,
                  {{"None", DType::kUnknown},
                   {"float16", DType::kFloat16},
                   {"float32", DType::kFloat32},
                   {"float64", DType::kFloat64},
                   {"bfloat16", DType::kBFloat16}},
                  "element type of the output; None is that of data");
    schema.Optional("use_length", &P::use_length,
                    "take the number of elements that count from the input `length`");
  }
};

enum class ActivationMode { kInstance, kChannel };

struct SoftmaxActivationParameters {
  ActivationMode mode = ActivationMode::kInstance;

  static void Declare(ParameterSchema<SoftmaxActivationParameters>& schema) {
    schema.Choice("mode", &SoftmaxActivationParameters::mode,
                  {{"instance", ActivationMode::kInstance}, {"channel", ActivationMode::kChannel}},
                  "instance: along the last axis; channel: along axis 1");
  }
};

/// The parameters as the rows need them.
struct SoftmaxCall {
  Kind kind = Kind::kSoftmax;
  double scale = 1;  ///< of the data
  bool use_length = false;
  int64_t axis = -1;

  SoftmaxCall(Kind what, const SoftmaxParameters& param)
      : kind(what),
        scale((what == Kind::kSoftmin ? -1 : 1) / param.temperature.value_or(1)),
        use_length(param.use_length),
        axis(param.axis) {}
  explicit SoftmaxCall(const SoftmaxActivationParameters& param)
      : axis(param.mode == ActivationMode::kInstance ? -1 : 1) {}
};

constexpr index_t kBlock = 512;

/// Returns the sum of exp((x - largest) * scale), whose terms `keep(first, n)` returns memory for.
template <typename T, typename Keep>
double ExpSum(const T* x, T largest, T scale, index_t n, const Keep& keep) {
  double total = 0;
  for (index_t first = 0; first < n; first += kBlock) {
    const index_t count = std::min(kBlock, n - first);
    const T* const from = x + first;
    T* const terms = keep(first);
    if (scale == T(1)) {
      op::exp::ArrayKernel(from, terms, count, {T(1), -largest});
    } else {
      ForEach(count, [=](index_t i) TESSERA_LOOP_BODY { terms[i] = (from[i] - largest) * scale; });
      op::exp::ArrayKernel(terms, terms, count);
    }
    total += SumOf<T>(count, [=](index_t i) TESSERA_LOOP_BODY { return terms[i]; });
  }
  return total;
}

/// Returns the element of which (x - it) * scale is at most 0.
template <typename T>
T Reference(const T* x, T scale, index_t n, T* negated) {
  if (scale >= T(0)) return LargestOf(x, n);
  T largest = -std::numeric_limits<T>::infinity();
  for (index_t first = 0; first < n; first += kBlock) {
    const index_t count = std::min(kBlock, n - first);
    const T* const from = x + first;
    ForEach(count, [=](index_t i) TESSERA_LOOP_BODY { negated[i] = -from[i]; });
    largest = std::max(largest, LargestOf(negated, count));
  }
  return -largest;
}

template <typename T>
void ForwardRow(const SoftmaxCall& call, const T* x, T* y, index_t n) {
  alignas(64) T block[kBlock];
  const T scale = static_cast<T>(call.scale);
  const T largest = Reference(x, scale, n, block);
  if (call.kind == Kind::kLogSoftmax) {
    const T log_sum =
        static_cast<T>(std::log(ExpSum(x, largest, scale, n, [&](index_t) { return block; })));
    ForEach(n, [=](index_t i) TESSERA_LOOP_BODY { y[i] = (x[i] - largest) * scale - log_sum; });
    return;
  }
  const T sum =
      static_cast<T>(ExpSum(x, largest, scale, n, [&](index_t first) { return y + first; }));
  const T factor = T(1) / sum;
  ForEach(n, [=](index_t i) TESSERA_LOOP_BODY { y[i] *= factor; });
}

template <typename T>
void BackwardRow(const SoftmaxCall& call, const T* g, const T* y, T* dx, index_t n) {
  const T scale = static_cast<T>(call.scale);
  if (call.kind == Kind::kLogSoftmax) {
    alignas(64) T block[kBlock];
    const T sum = static_cast<T>(SumOf<T>(n, [=](index_t i) TESSERA_LOOP_BODY { return g[i]; }));
    for (index_t first = 0; first < n; first += kBlock) {
      const index_t count = std::min(kBlock, n - first);
      op::exp::ArrayKernel(y + first, block, count);
      const T* const exps = block;
      const T* const head = g + first;
      T* const to = dx + first;
      ForEach(count,
              [=](index_t i) TESSERA_LOOP_BODY { to[i] = (head[i] - exps[i] * sum) * scale; });
    }
    return;
  }
  const T dot =
      static_cast<T>(SumOf<T>(n, [=](index_t i) TESSERA_LOOP_BODY { return g[i] * y[i]; }));
  ForEach(n, [=](index_t i) TESSERA_LOOP_BODY { dx[i] = y[i] * (g[i] - dot) * scale; });
}

/// Sums of the rows of a tile, element by element; now and then moved to sums in double, so that
/// their error grows slowly.
template <typename T>
class TileSums {
 public:
  /// Adds value(k) to the sum of each row k.
  template <typename Value>
  void Add(index_t width, Value value) {
    T* const recent = recent_;
    if (count_ == 0) {
      ForEach(width, [=](index_t k) TESSERA_LOOP_BODY { recent[k] = value(k); });
    } else {
      ForEach(width, [=](index_t k) TESSERA_LOOP_BODY { recent[k] += value(k); });
    }
    if (++count_ == kMaxRecent) Move(width);
  }
  /// Returns the sums.
  const T* Totals(index_t width) {
    if (moved_ || count_ == 0) {
      Move(width);
      const double* const total = total_;
      T* const recent = recent_;
      ForEach(width, [=](index_t k) TESSERA_LOOP_BODY { recent[k] = static_cast<T>(total[k]); });
    }
    return recent_;
  }

 private:
  static constexpr index_t kMaxRecent = 64;
  void Move(index_t width) {
    double* const total = total_;
    T* const recent = recent_;
    const bool moved = moved_, any = count_ > 0;
    for (index_t k = 0; k < width; ++k) {
      total[k] = (moved ? total[k] : 0.0) + (any ? static_cast<double>(recent[k]) : 0.0);
    }
    count_ = 0;
    moved_ = true;
  }

  index_t count_ = 0;
  bool moved_ = false;
  alignas(64) T recent_[RowCall::kMaxTileWidth];
  alignas(64) double total_[RowCall::kMaxTileWidth];
};

/// The rows of a tile; element i of row k is x[i * distance + k]. What is done to an element in
/// turn follows at once, since rows that lie far apart push each other out of the first-level
/// cache.
template <typename T>
void ForwardTile(const SoftmaxCall& call, index_t n, index_t width, index_t distance, const T* x,
                 T* y) {
  constexpr T kInfinity = std::numeric_limits<T>::infinity();
  const T scale = static_cast<T>(call.scale);
  const bool is_log = call.kind == Kind::kLogSoftmax;
  alignas(64) T references[RowCall::kMaxTileWidth], block[RowCall::kMaxTileWidth];
  T *const r = references, *const terms = block;
  std::fill_n(r, width, scale >= T(0) ? -kInfinity : kInfinity);
  for (index_t i = 0; i < n; ++i) {
    const T* const from = x + i * distance;
    if (scale >= T(0)) {
      ForEach(width, [=](index_t k) TESSERA_LOOP_BODY { r[k] = from[k] > r[k] ? from[k] : r[k]; });
    } else {
      ForEach(width, [=](index_t k) TESSERA_LOOP_BODY { r[k] = from[k] < r[k] ? from[k] : r[k]; });
    }
  }
  TileSums<T> sums;
  for (index_t i = 0; i < n; ++i) {
    const T* const from = x + i * distance;
    T* const exps = is_log ? terms : y + i * distance;
    ForEach(width, [=](index_t k) TESSERA_LOOP_BODY { exps[k] = (from[k] - r[k]) * scale; });
    op::exp::ArrayKernel(exps, exps, width);
    sums.Add(width, [=](index_t k) TESSERA_LOOP_BODY { return exps[k]; });
  }
  const T* const sum = sums.Totals(width);
  if (is_log) {
    op::log::ArrayKernel(sum, terms, width);
  } else {
    ForEach(width, [=](index_t k) TESSERA_LOOP_BODY { terms[k] = T(1) / sum[k]; });
  }
  for (index_t i = 0; i < n; ++i) {
    const T* const from = x + i * distance;
    T* const to = y + i * distance;
    if (is_log) {
      ForEach(width,
              [=](index_t k) TESSERA_LOOP_BODY { to[k] = (from[k] - r[k]) * scale - terms[k]; });
    } else {
      ForEach(width, [=](index_t k) TESSERA_LOOP_BODY { to[k] *= terms[k]; });
    }
  }
}

template <typename T>
void BackwardTile(const SoftmaxCall& call, index_t n, index_t width, index_t distance, const T* g,
                  const T* y, T* dx) {
  const T scale = static_cast<T>(call.scale);
  const bool is_log = call.kind == Kind::kLogSoftmax;
  alignas(64) T block[RowCall::kMaxTileWidth];
  T* const exps = block;
  TileSums<T> sums;
  for (index_t i = 0; i < n; ++i) {
    const T *const head = g + i * distance, *const out = y + i * distance;
    if (is_log) {
      sums.Add(width, [=](index_t k) TESSERA_LOOP_BODY { return head[k]; });
    } else {
      sums.Add(width, [=](index_t k) TESSERA_LOOP_BODY { return head[k] * out[k]; });
    }
  }
  const T* const sum = sums.Totals(width);
  for (index_t i = 0; i < n; ++i) {
    const T *const head = g + i * distance, *const out = y + i * distance;
    T* const to = dx + i * distance;
    if (is_log) {
      op::exp::ArrayKernel(out, exps, width);
      ForEach(width,
              [=](index_t k) TESSERA_LOOP_BODY { to[k] = (head[k] - exps[k] * sum[k]) * scale; });
    } else {
      ForEach(width,
              [=](index_t k) TESSERA_LOOP_BODY { to[k] = out[k] * (head[k] - sum[k]) * scale; });
    }
  }
}

/// The number of elements of each row that count.
class Lengths {
 public:
  /// Throws Error(kOutOfRange) if a row has not as many elements as the input `length` says.
  Lengths(const SoftmaxCall& call, std::span<const TBlob> in_data, index_t n)
      : array_(call.use_length ? in_data[1] : TBlob()), n_(n) {
    if (array_.dptr_ == nullptr) return;
    const index_t rows = array_.shape_.Size();
    int64_t buffer[kBlock];
    for (index_t first = 0; first < rows; first += kBlock) {
      const index_t count = std::min(kBlock, rows - first);
      const int64_t* const lengths = RowReader<int64_t>(array_).Read(first, count, buffer);
      const int64_t* const wrong = std::find_if(
          lengths, lengths + count, [n](int64_t length) { return length < 0 || length > n; });
      if (wrong == lengths + count) continue;
      throw OutOfRange("softmax: length ", *wrong, " at element ", first + (wrong - lengths),
                       ", expected 0 to ", n, ", the extent of the axis");
    }
  }
  index_t Of(index_t row) const {
    if (array_.dptr_ == nullptr) return n_;
    return RowReader<int64_t>(array_)[row];
  }

 private:
  const TBlob array_;
  const index_t n_;
};

class SoftmaxOperator : public Operator, public RowOperator {
 public:
  SoftmaxOperator(const SoftmaxCall& call, std::span<const TShape> in_shape)
      : call_(call), axis_(AxisPosition(call.axis, in_shape[0].ndim())) {
    const TShape& shape = in_shape[0];
    runs_rows_ = !call.use_length && axis_ == shape.ndim() - 1 && shape[axis_] <= kLongestRow &&
                 !RowCall(RowLayout::Contiguous(1, shape[axis_])).PrefersTiles();
  }

  bool RunsRows() const override { return runs_rows_; }

  void RunRow(index_t row, const TBlob& in, OpReqType req, const TBlob& out) const override {
    const index_t n = in.shape_[axis_], first = row * n;
    VisitComputedIn(ComputedInReal(in.type_flag_, out.type_flag_), [&](auto one) {
      using T = decltype(one);
      alignas(64) T buffer[kLongestRow];
      const RowWriter<T> writer(out, req);
      T* const y = writer.Out(first, buffer);
      ForwardRow(call_, RowReader<T>(in).Read(first, n, buffer), y, n);
      writer.Write(first, n, y);
    });
  }

  void Forward(const OpContext&, std::span<const TBlob> in_data, std::span<const OpReqType> req,
               std::span<const TBlob> out_data) override {
    if (req[0] == kNullOp || in_data[0].Size() == 0) return;
    const RowLayout rows = RowLayout::Along(in_data[0].shape_, axis_);
    const index_t n = rows.Length();
    const Lengths lengths(call_, in_data, n);
    RowCall call(rows);
    call.Read(in_data[0]).Write(out_data[0], req[0]);
    VisitComputedIn(ComputedInReal(in_data[0].type_flag_, out_data[0].type_flag_), [&](auto one) {
      using T = decltype(one);
      constexpr index_t kCost = expr::FunctorCost<op::exp, T>();
      if (call.PrefersTiles() && !call_.use_length) {
        return call.RunTiles<T>(
            kCost, [&](index_t width, index_t distance, const T* const* in, T* const* out) {
              ForwardTile(call_, n, width, distance, in[0], out[0]);
            });
      }
      call.Run<T>(kCost, [&](index_t row, const T* const* in, T* const* out) {
        const index_t length = lengths.Of(row);
        ForwardRow(call_, in[0], out[0], length);
        std::fill(out[0] + length, out[0] + n, T(0));
      });
    });
  }

  void Backward(const OpContext&, std::span<const TBlob> out_grad, std::span<const TBlob> in_data,
                std::span<const TBlob> out_data, std::span<const OpReqType> req,
                std::span<const TBlob> in_grad) override {
    if (req[0] == kNullOp || in_grad[0].Size() == 0) return;
    const RowLayout rows = RowLayout::Along(out_data[0].shape_, axis_);
    const index_t n = rows.Length();
    const Lengths lengths(call_, in_data, n);
    RowCall call(rows);
    call.Read(out_grad[0]).Read(out_data[0]).Write(in_grad[0], req[0]);
    VisitComputedIn(ComputedInReal(in_grad[0].type_flag_, out_data[0].type_flag_), [&](auto one) {
      using T = decltype(one);
      if (call.PrefersTiles() && !call_.use_length) {
        return call.RunTiles<T>(
            0, [&](index_t width, index_t distance, const T* const* in, T* const* out) {
              BackwardTile(call_, n, width, distance, in[0], in[1], out[0]);
            });
      }
      call.Run<T>(0, [&](index_t row, const T* const* in, T* const* out) {
        const index_t length = lengths.Of(row);
        BackwardRow(call_, in[0], in[1], out[0], length);
        std::fill(out[0] + length, out[0] + n, T(0));
      });
    });
  }

 private:
  // RunRow has memory for as many elements on its stack: 32 KiB of float64.
  static constexpr index_t kLongestRow = 4096;

  const SoftmaxCall call_;
  const int axis_;
  bool runs_rows_ = false;
};

template <Kind kKind>
class SoftmaxOf final : public SoftmaxOperator {
 public:
  SoftmaxOf(const SoftmaxParameters& param, std::span<const TShape> in_shape)
      : SoftmaxOperator(SoftmaxCall(kKind, param), in_shape) {}
};
class SoftmaxActivationOperator final : public SoftmaxOperator {
 public:
  SoftmaxActivationOperator(const SoftmaxActivationParameters& param,
                            std::span<const TShape> in_shape)
      : SoftmaxOperator(SoftmaxCall(param), in_shape) {}
};

/// Builds the gradient in the output y.
void BuildSoftmaxGradient(const SoftmaxCall& call, GradientBuilder* builder) {
  const Term g(builder, builder->OutGrad(0)), y(builder, builder->Output(0));
  const auto sum = [&](const Term& term) {
    return Apply("sum", {term}, {{"axis", std::to_string(call.axis)}, {"keepdims", "True"}})
        .Broadcast();
  };
  if (call.kind == Kind::kLogSoftmax) {
    SetInGrad(builder, 0, (g - (Apply("exp", {y}) * sum(g)).Whole()) * call.scale);
  } else {
    SetInGrad(builder, 0, y * (g - sum(g * y)).Whole() * call.scale);
  }
}

class SoftmaxProperty : public ParameterizedProperty<SoftmaxParameters> {
 public:
  std::vector<std::string> ListArguments() const override {
    if (param_.use_length) return {"data", "length"};
    return {"data"};
  }
  bool ArgumentHasGradient(int argument) const override { return argument == 0; }

  bool InferShape(std::vector<TShape>* in_shape, std::vector<TShape>* out_shape) const override {
    TShape& data = (*in_shape)[0];
    TShape& out = (*out_shape)[0];
    MergeEqualShapes(*this, {{"data", &data}, {"output", &out}});
    if (!data.rank_known()) {
      if (!param_.use_length || !(*in_shape)[1].rank_known()) return false;
      data = TShape::OfRank((*in_shape)[1].ndim() + 1);
    }
    const int axis = AxisPosition(*this, "axis", param_.axis, data);
    if (param_.use_length) {
      std::vector<index_t> extents(data.begin(), data.end());
      extents.erase(extents.begin() + axis);
      MergeShape(*this, "length", &(*in_shape)[1], TShape(std::span<const index_t>(extents)));
      const TShape& length = (*in_shape)[1];
      for (int i = 0; i < length.ndim(); ++i) data[i < axis ? i : i + 1] = length[i];
    }
    out = data;
    return data.known();
  }

  bool InferType(std::vector<DType>* in_type, std::vector<DType>* out_type) const override {
    if (param_.use_length) {
      DType& length = (*in_type)[1];
      if (length == DType::kUnknown) length = DType::kInt32;
      if (length != DType::kInt32 && length != DType::kInt64) {
        throw InvalidArgument(TypeString(), ": length has element type ", length,
                              ", expected int32 or int64");
      }
    }
    std::vector<DType> data = {(*in_type)[0]};
    std::vector<DType> out = {(*out_type)[0]};
    if (param_.dtype == DType::kUnknown) {
      const bool known = OperatorProperty::InferType(&data, &out);
      (*in_type)[0] = data[0];
      (*out_type)[0] = out[0];
      return known;
    }
    if (out[0] != DType::kUnknown && out[0] != param_.dtype) {
      throw InvalidArgument(TypeString(), ": output has element type ", out[0],
                            ", expected that of the parameter dtype, ", param_.dtype);
    }
    (*out_type)[0] = param_.dtype;
    return data[0] != DType::kUnknown;
  }

  std::vector<int> DeclareBackwardDependency(std::span<const int> out_grad,
                                             std::span<const int> in_data,
                                             std::span<const int> out_data) const override {
    std::vector<int> needed = {out_grad[0], out_data[0]};
    if (param_.use_length) needed.push_back(in_data[1]);
    // The gradient's type is known from the data alone.
    if (param_.dtype != DType::kUnknown) needed.push_back(in_data[0]);
    return needed;
  }
  std::vector<InplacePair> ForwardInplaceOption(std::span<const int> in_data,
                                                std::span<const int> out_data) const override {
    if (param_.dtype != DType::kUnknown) return {};
    return {{in_data[0], out_data[0]}};
  }
  std::vector<InplacePair> BackwardInplaceOption(std::span<const int> out_grad,
                                                 std::span<const int>,
                                                 std::span<const int> out_data,
                                                 std::span<const int> in_grad) const override {
    if (param_.dtype != DType::kUnknown) return {};
    return {{out_grad[0], in_grad[0]}, {out_data[0], in_grad[0]}};
  }
  bool BuildGradient(GradientBuilder* builder) const override {
    if (param_.dtype != DType::kUnknown) return false;
    BuildSoftmaxGradient(SoftmaxCall(kind(), param_), builder);
    return true;
  }

 protected:
  virtual Kind kind() const { return Kind::kSoftmax; }
};

/// softmin and log_softmax, which have no input `length`.
template <Kind kKind>
class WithoutLengthProperty final : public SoftmaxProperty {
 protected:
  Kind kind() const override { return kKind; }
  void CheckParameters() override {
    if (param_.use_length) {
      throw InvalidArgument(TypeString(), ": use_length is True, but only softmax has it");
    }
  }
};

class SoftmaxActivationProperty final : public ParameterizedProperty<SoftmaxActivationParameters> {
 public:
  bool InferShape(std::vector<TShape>* in_shape, std::vector<TShape>* out_shape) const override {
    TShape& data = (*in_shape)[0];
    MergeEqualShapes(*this, {{"data", &data}, {"output", &(*out_shape)[0]}});
    if (!data.rank_known()) return false;
    AxisPosition(*this, "axis", SoftmaxCall(param_).axis, data);
    return data.known();
  }
  std::vector<int> DeclareBackwardDependency(std::span<const int> out_grad, std::span<const int>,
                                             std::span<const int> out_data) const override {
    return {out_grad[0], out_data[0]};
  }
  std::vector<InplacePair> ForwardInplaceOption(std::span<const int> in_data,
                                                std::span<const int> out_data) const override {
    return {{in_data[0], out_data[0]}};
  }
  std::vector<InplacePair> BackwardInplaceOption(std::span<const int> out_grad,
                                                 std::span<const int>,
                                                 std::span<const int> out_data,
                                                 std::span<const int> in_grad) const override {
    return {{out_grad[0], in_grad[0]}, {out_data[0], in_grad[0]}};
  }
  bool BuildGradient(GradientBuilder* builder) const override {
    BuildSoftmaxGradient(SoftmaxCall(param_), builder);
    return true;
  }
};

[[maybe_unused]] const bool kRegistered[] = {
    RegisterTypedOperator<SoftmaxProperty, SoftmaxOf<Kind::kSoftmax>>(
        TESSERA_TABLE_PLACE, "softmax",
        "exp(data / temperature), divided by its sum along an axis."),
    RegisterTypedOperator<WithoutLengthProperty<Kind::kSoftmin>, SoftmaxOf<Kind::kSoftmin>>(
        TESSERA_TABLE_PLACE, "softmin", "softmax of the negative data."),
    RegisterTypedOperator<WithoutLengthProperty<Kind::kLogSoftmax>, SoftmaxOf<Kind::kLogSoftmax>>(
        TESSERA_TABLE_PLACE, "log_softmax", "The logarithm of softmax."),
    RegisterTypedOperator<SoftmaxActivationProperty, SoftmaxActivationOperator>(
        TESSERA_TABLE_PLACE, "SoftmaxActivation", "softmax along the last axis or along axis 1."),
};

}  // namespace
}  // namespace tessera
