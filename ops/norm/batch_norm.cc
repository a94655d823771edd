// BatchNorm and its variants: each channel with mean 0 and variance 1, then scaled and shifted.
//
//   out = (x - mean) * invstd * gamma + beta,  invstd = 1 / sqrt(var + eps)
//
// In training, mean and var are the batch's, var divided by the number of elements, and Forward
// changes moving_mean and moving_var: m * momentum + statistic * (1 - momentum). Outside of
// training and with use_global_stats they are moving_mean and moving_var. With fix_gamma, the
// default, gamma counts as 1 and has gradient 0.
//
//   d gamma = sum g xhat    d beta = sum g    xhat = (x - mean) invstd, n elements a channel
//   d x = gamma invstd (g - d beta / n - xhat d gamma / n); with moving statistics gamma invstd g
//
// _contrib_BatchNormWithReLU computes max(out, 0), whose gradient g reaches only elements above 0.
// _contrib_SyncBatchNorm is BatchNorm on one device; the batch's statistics over several devices
// are an error.
//
// The outputs mean and var, shown with output_mean_var, are the mean and, as in MXNet, invstd;
// BatchNorm_v1 and _contrib_SyncBatchNorm give the variance. Shapes: data of rank 2 or higher (1
// with axis=0), all others (channels). Types: float32, float64, float16, bfloat16; gamma, beta,
// statistics and sums are float32 for 16-bit data. Runs on the CPU.
#include <algorithm>
#include <cmath>
#include <memory>
#include <optional>
#include <utility>

#include "tessera/base/error.h"
#include "tessera/ops/epilogue.h"
#include "tessera/ops/gradient_formula.h"
#include "tessera/ops/loops/axes.h"
#include "tessera/ops/loops/convert_row.h"
#include "tessera/ops/loops/row_call.h"
#include "tessera/ops/loops/row_loop.h"
#include "tessera/ops/loops/row_segments.h"
#include "tessera/ops/loops/row_statistics.h"
#include "tessera/ops/norm/batch_norm_parameters.h"
#include "tessera/ops/norm/norm_gradient.h"
#include "tessera/ops/sparse.h"
#include "tessera/ops/typed_operator.h"

namespace tessera {
namespace {

using namespace ops_internal;  // NOLINT: the row driver

enum Input { kData, kGamma, kBeta, kMovingMean, kMovingVar };
enum OutputValue { kOut, kMean, kVar };

template <typename Parameters>
class BatchNormProperty final : public ParameterizedProperty<Parameters> {
 public:
  std::vector<std::string> ListArguments() const override {
    return {"data", "gamma", "beta", "moving_mean", "moving_var"};
  }
  std::vector<std::string> ListOutputs() const override { return {"output", "mean", "var"}; }
  int NumVisibleOutputs() const override { return this->param_.output_mean_var ? 3 : 1; }
  std::vector<int> MutatedInputs() const override { return {kMovingMean, kMovingVar}; }
  // In training, the moving statistics have no influence unless use_global_stats is set.
  bool IsRepeatable() const override { return !this->param_.use_global_stats; }
  bool ArgumentHasGradient(int argument) const override { return argument <= kBeta; }

  bool InferShape(std::vector<TShape>* in_shape, std::vector<TShape>* out_shape) const override {
    auto& in = *in_shape;
    auto& out = *out_shape;
    MergeEqualShapes(*this, {{"data", &in[kData]}, {"output", &out[kOut]}});
    TShape channels = TShape::OfRank(1);
    int axis = 0;
    if (in[kData].rank_known()) {
      axis = AxisPosition(*this, "axis", this->param_.axis, in[kData]);
      channels[0] = in[kData][axis];
    }
    MergeEqualShapes(*this, {{"data's channels", &channels},
                             {"gamma", &in[kGamma]},
                             {"beta", &in[kBeta]},
                             {"moving_mean", &in[kMovingMean]},
                             {"moving_var", &in[kMovingVar]},
                             {"mean", &out[kMean]},
                             {"var", &out[kVar]}});
    if (!in[kData].rank_known()) return false;
    in[kData][axis] = channels[0];
    out[kOut][axis] = channels[0];
    return in[kData].known();
  }

  bool InferType(std::vector<DType>* in_type, std::vector<DType>* out_type) const override {
    auto& in = *in_type;
    auto& out = *out_type;
    if (in[kData] == DType::kUnknown) in[kData] = out[kOut];
    DType statistics = DType::kUnknown;
    const auto meet = [&](std::string_view what, DType known) {
      if (known == DType::kUnknown) return;
      if (statistics == DType::kUnknown) statistics = known;
      if (known != statistics) {
        throw InvalidArgument(this->TypeString(), ": ", what, " has element type ", known,
                              ", expected ", statistics, ", as data has type ", in[kData]);
      }
    };
    if (in[kData] != DType::kUnknown) {
      const bool narrow = in[kData] == DType::kFloat16 || in[kData] == DType::kBFloat16;
      statistics = narrow ? DType::kFloat32 : in[kData];
    }
    const std::vector<std::string> names = ListArguments();
    for (size_t i = kGamma; i <= kMovingVar; ++i) meet(names[i], in[i]);
    meet("mean", out[kMean]);
    meet("var", out[kVar]);
    // 16-bit data have statistics of type float32 too.
    if (in[kData] == DType::kUnknown && statistics == DType::kFloat64) in[kData] = statistics;
    if (out[kOut] != DType::kUnknown && out[kOut] != in[kData]) {
      throw InvalidArgument(this->TypeString(), ": output has element type ", out[kOut],
                            ", expected that of data, ", in[kData]);
    }
    out[kOut] = in[kData];
    for (size_t i = kGamma; i <= kMovingVar; ++i) in[i] = statistics;
    out[kMean] = statistics;
    out[kVar] = statistics;
    return in[kData] != DType::kUnknown;
  }

  std::vector<int> DeclareBackwardDependency(std::span<const int> out_grad,
                                             std::span<const int> in_data,
                                             std::span<const int> out_data) const override {
    std::vector<int> needed = {out_grad[kOut], in_data[kData], in_data[kGamma], out_data[kMean],
                               out_data[kVar]};
    if (Parameters::kRectifies) needed.push_back(out_data[kOut]);
    return needed;
  }
  std::vector<InplacePair> ForwardInplaceOption(std::span<const int> in_data,
                                                std::span<const int> out_data) const override {
    return {{in_data[kData], out_data[kOut]}};
  }
  std::vector<InplacePair> BackwardInplaceOption(std::span<const int> out_grad,
                                                 std::span<const int>, std::span<const int>,
                                                 std::span<const int> in_grad) const override {
    return {{out_grad[kOut], in_grad[kData]}};
  }
  bool BuildGradient(GradientBuilder* builder) const override {
    // Channels are the last axis, along which vectors broadcast.
    const auto turned = [this](const Term& term) {
      const int64_t axis = this->param_.axis;
      if (axis == -1) return term;
      return Apply("SwapAxis", {term}, {{"dim1", std::to_string(axis)}, {"dim2", "-1"}});
    };
    const auto of_channels = [](const char* op, const Term& term) {
      return Apply(op, {term}, {{"axis", "-1"}, {"exclude", "True"}}).Broadcast();
    };
    Term g = turned({builder, builder->OutGrad(kOut)});
    if (Parameters::kRectifies) g = g * IsGreater(turned({builder, builder->Output(kOut)}), 0);
    const Term x = turned({builder, builder->Input(kData)});
    const Term gamma(builder, builder->Input(kGamma));
    // The gradient of a conversion is the conversion back: statistics may have another type.
    const auto converted = [](const Term& vector, const Term& like) {
      return ApplyAdjoint({.op = "_copyto", .out_grads = {vector}, .inputs = {like}}).front();
    };
    const Term batch_mean = of_channels("mean", x);
    const auto of_data = [&](const Term& vector) {
      return converted(vector, batch_mean).Broadcast();
    };

    // In training, the statistics are functions of the data; the saved ones count as constants.
    Term training = 0;
    if (!this->param_.use_global_stats) training = of_data(Apply("_training_mode", {gamma}));
    const Term otherwise = 1 - training;
    const auto inverse_of = [this](const Term& variance) {
      return Apply("rsqrt", {variance + static_cast<double>(this->param_.eps)});
    };
    const Term centred = (x - batch_mean).Whole();
    const Term saved = of_data({builder, builder->Output(kVar)});
    const Term mean =
        training * batch_mean + otherwise * of_data({builder, builder->Output(kMean)});
    const Term of_batch =
        InverseLength("mean", centred, static_cast<double>(this->param_.eps), of_channels);
    const Term inverse =
        training * of_batch + otherwise * (Parameters::kShowsInverse ? saved : inverse_of(saved));
    const Term normal = ((x - mean) * inverse).Whole();

    const Term correction =
        training * (of_channels("mean", g) + normal * of_channels("mean", g * normal));
    const Term factor = this->param_.fix_gamma ? inverse : of_data(gamma) * inverse;
    SetInGrad(builder, kData, turned(((g - correction) * factor).Whole()));
    if (!this->param_.fix_gamma) {
      SetInGrad(builder, kGamma, converted(of_channels("sum", g * normal), gamma));
    }
    SetInGrad(builder, kBeta, converted(of_channels("sum", g), gamma));
    return true;
  }
};

/// One number for each channel, of type T.
template <typename T>
class PerChannel {
 public:
  explicit PerChannel(const TBlob& array, OpReqType req = kWriteTo)
      : data_(static_cast<T*>(array.dptr_)), req_(req) {}
  T operator[](index_t channel) const { return data_[channel]; }
  void Set(index_t channel, double value) const {
    if (req_ == kNullOp) return;
    data_[channel] = static_cast<T>(req_ == kAddTo ? data_[channel] + value : value);
  }

 private:
  T* const data_;
  const OpReqType req_;
};

template <typename Parameters>
class BatchNormOperator final : public Operator {
 public:
  BatchNormOperator(const Parameters& param, std::span<const TShape> in_shape)
      : param_(param),
        axis_(AxisPosition(param.axis, in_shape[kData].ndim())),
        has_long_segments_(in_shape[kData].FlatTo3D(axis_)[2] >= kLongSegment) {}

  void Forward(const OpContext& context, std::span<const TBlob> in_data,
               std::span<const OpReqType> req, std::span<const TBlob> out_data) override {
    VisitComputedIn(in_data[kGamma].type_flag_, [&](auto one) {
      using T = decltype(one);
      if (context.is_train && !param_.use_global_stats) {
        ForwardOfBatch<T>(in_data, req, out_data, context.epilogue);
      } else {
        ForwardOfMoving<T>(in_data, req, out_data, context.epilogue);
      }
    });
  }
  bool RunsEpilogue() const override { return has_long_segments_; }

  void Backward(const OpContext& context, std::span<const TBlob> out_grad,
                std::span<const TBlob> in_data, std::span<const TBlob> out_data,
                std::span<const OpReqType> req, std::span<const TBlob> in_grad) override {
    const bool of_batch = context.is_train && !param_.use_global_stats;
    VisitComputedIn(in_data[kGamma].type_flag_, [&](auto one) {
      using T = decltype(one);
      const RowLayout rows = RowLayout::Channels(in_data[kData].shape_, axis_);
      const index_t n = rows.Length();
      const PerChannel<T> gamma(in_data[kGamma]), mean(out_data[kMean]), var(out_data[kVar]);
      const PerChannel<T> gamma_grad(in_grad[kGamma], req[kGamma]);
      const PerChannel<T> beta_grad(in_grad[kBeta], req[kBeta]);
      RowCall call(rows);
      call.Read(out_grad[kOut]).Read(in_data[kData]);
      if (Parameters::kRectifies) call.Read(out_data[kOut]);
      call.Write(in_grad[kData], req[kData])
          .template RunSegments<T>(
              1, [&](index_t c, const RowSegments& row, const T* const* in, T* const* out) {
                const T* const head = in[0];
                const T* const x = in[1];
                [[maybe_unused]] const T* const y = Parameters::kRectifies ? in[2] : nullptr;
                T* const dx = out[0];
                const auto g = [=](index_t i) TESSERA_LOOP_BODY {
                  if constexpr (Parameters::kRectifies) return y[i] > T(0) ? head[i] : T(0);
                  return head[i];
                };
                const T center = mean[c];
                const T invstd = Parameters::kShowsInverse ? var[c] : Inverse<T>(var[c]);
                const auto [sum, dot] = SumsOf<T>(row, g, [=](index_t i) TESSERA_LOOP_BODY {
                  return g(i) * ((x[i] - center) * invstd);
                });
                const T factor = (param_.fix_gamma ? T(1) : gamma[c]) * invstd;
                if (of_batch && n > 0) {
                  const double count = static_cast<double>(n);
                  const T shift = static_cast<T>(sum / count);
                  const T slope = static_cast<T>(dot / count) * invstd;
                  ForEach(row, [=](index_t i) TESSERA_LOOP_BODY {
                    dx[i] = factor * (g(i) - shift - (x[i] - center) * slope);
                  });
                } else {
                  ForEach(row, [=](index_t i) TESSERA_LOOP_BODY { dx[i] = factor * g(i); });
                }
                gamma_grad.Set(c, param_.fix_gamma ? 0 : dot);
                beta_grad.Set(c, sum);
              });
    });
  }

 private:
  template <typename T>
  __attribute__((always_inline)) static T Activated(T y) {
    if constexpr (Parameters::kRectifies) return y < T(0) ? T(0) : y;
    return y;
  }
  template <typename T>
  T Inverse(SquaresOf<T> var) const {
    return static_cast<T>(1 / std::sqrt(var + static_cast<double>(param_.eps)));
  }

  template <typename T>
  void ForwardOfBatch(std::span<const TBlob> in_data, std::span<const OpReqType> req,
                      std::span<const TBlob> out_data, const Epilogue* epilogue) const {
    if (param_.ndev > 1) {
      throw Unimplemented("ndev is ", param_.ndev,
                          ", but a batch's statistics are those of one device");
    }
    const RowLayout rows = RowLayout::Channels(in_data[kData].shape_, axis_);
    const index_t n = rows.Length();
    const double momentum = static_cast<double>(param_.momentum);
    const PerChannel<T> gamma(in_data[kGamma]), beta(in_data[kBeta]);
    const PerChannel<T> moving_mean(in_data[kMovingMean], req[3]);
    const PerChannel<T> moving_var(in_data[kMovingVar], req[4]);
    const PerChannel<T> out_mean(out_data[kMean], req[kMean]), out_var(out_data[kVar], req[kVar]);
    RowCall(rows)
        .Read(in_data[kData])
        .Write(out_data[kOut], req[kOut])
        .Then(epilogue)
        .template RunSegments<T>(1, [&](index_t c, const RowSegments& row, const T* const* in,
                                        T* const* out) {
          const T* const x = in[0];
          T* const y = out[0];
          const double mean = MeanOf(x, row), count = static_cast<double>(n > 0 ? n : 1);
          const T center = static_cast<T>(mean);
          const SquaresOf<T> wide_var =
              SquaredDistances(x, center, row, count * static_cast<double>(param_.eps)) / count;
          const double var = static_cast<double>(wide_var);
          if (n > 0) {
            moving_mean.Set(c, MovedAverage(static_cast<double>(moving_mean[c]), momentum, mean));
            moving_var.Set(c, MovedAverage(static_cast<double>(moving_var[c]), momentum, var));
          }
          const T invstd = Inverse<T>(wide_var);
          const T scale = param_.fix_gamma ? invstd : invstd * gamma[c];
          const T shift = beta[c];
          ForEach(row, [=](index_t i) TESSERA_LOOP_BODY {
            y[i] = Activated((x[i] - center) * scale + shift);
          });
          out_mean.Set(c, mean);
          out_var.Set(c, Parameters::kShowsInverse ? static_cast<double>(invstd) : var);
        });
  }

  template <typename T>
  void ForwardOfMoving(std::span<const TBlob> in_data, std::span<const OpReqType> req,
                       std::span<const TBlob> out_data, const Epilogue* epilogue) const {
    const Shape<3> shape = in_data[kData].shape_.FlatTo3D(axis_);
    const index_t channels = shape[1];
    const PerChannel<T> gamma(in_data[kGamma]);
    const PerChannel<T> moving_mean(in_data[kMovingMean]), moving_var(in_data[kMovingVar]);
    const PerChannel<T> out_mean(out_data[kMean], req[kMean]), out_var(out_data[kVar], req[kVar]);
    std::vector<T> scales(static_cast<size_t>(channels));
    for (index_t c = 0; c < channels; ++c) {
      const T invstd = Inverse<T>(static_cast<double>(moving_var[c]));
      const T scale = param_.fix_gamma ? invstd : invstd * gamma[c];
      scales[static_cast<size_t>(c)] = scale;
      out_mean.Set(c, static_cast<double>(moving_mean[c]));
      out_var.Set(c, static_cast<double>(Parameters::kShowsInverse ? invstd : moving_var[c]));
    }
    if (req[kOut] == kNullOp || out_data[kOut].Size() == 0) return;
    // A row has the elements of several channels if those of one are few.
    const bool channels_last = shape[2] == 1;
    const index_t n = channels_last ? channels : shape[2];
    index_t together = 1;
    for (index_t i = 2; i <= channels && i * n <= kShortRow && !channels_last; ++i) {
      if (channels % i == 0) together = i;
    }
    const T* const scale = scales.data();
    const T* const shift = static_cast<const T*>(in_data[kBeta].dptr_);
    // Subtracted first, as in training: a mean that is large beside the deviation costs no digits.
    const T* const center = static_cast<const T*>(in_data[kMovingMean].dptr_);
    const index_t rows = channels_last ? shape[0] : shape[0] * (channels / together);
    RowCall(RowLayout::Contiguous(rows, n * together))
        .Read(in_data[kData])
        .Write(out_data[kOut], req[kOut])
        .Then(epilogue)
        .template Run<T>(0, [&](index_t row, const T* const* in, T* const* out) {
          const T* const x = in[0];
          T* const y = out[0];
          if (channels_last) {
            ForEach(n, [=](index_t i) TESSERA_LOOP_BODY {
              y[i] = Activated((x[i] - center[i]) * scale[i] + shift[i]);
            });
            return;
          }
          const index_t first = row * together % channels;
          RunLoop([=]() TESSERA_LOOP_BODY {
            for (index_t c = 0; c < together; ++c) {
              const T a = scale[first + c], b = shift[first + c], m = center[first + c];
              const T* const from = x + c * n;
              T* const to = y + c * n;
#pragma GCC ivdep
              for (index_t i = 0; i < n; ++i) to[i] = Activated((from[i] - m) * a + b);
            }
          });
        });
  }

  static constexpr index_t kShortRow = 4096;
  static constexpr index_t kLongSegment = 128;  // is worth a call of the epilogue

  const Parameters param_;
  const int axis_;                ///< the axis of channels
  const bool has_long_segments_;  ///< whether a channel of a sample has many adjacent elements
};

/// BatchNorm computes on dense copies of sparse arrays. As in MXNet, none may be sparse with
/// fix_gamma.
class BatchNormForm final : public SparseForm {
 public:
  std::optional<StorageTypes> Infer(const OperatorProperty& property,
                                    std::span<const StorageType> in,
                                    std::span<const StorageType>) const override {
    const auto sparse = std::find_if(in.begin(), in.end(), [](StorageType type) {
      return type == StorageType::kRowSparse || type == StorageType::kCsr;
    });
    if (sparse != in.end() && property.GetParams().at("fix_gamma") == "True") {
      throw InvalidArgument(property.TypeString(), ": ",
                            property.ListArguments()[static_cast<size_t>(sparse - in.begin())],
                            " is a ", *sparse,
                            " array, expected dense arrays or fix_gamma = False");
    }
    return std::nullopt;
  }
  void Forward(const OperatorProperty&, std::span<SparseBlob>, std::span<const OpReqType>,
               std::span<SparseBlob>) const override {}
};

/// Registers one of the operators under `name` and returns true.
template <BatchNormKind kKind>
bool Register(const TablePlace& place, std::string_view name, std::string_view description) {
  using Parameters = BatchNormParameters<kKind>;
  return RegisterTypedOperator<BatchNormProperty<Parameters>, BatchNormOperator<Parameters>>(
      place, name, description);
}

[[maybe_unused]] const bool kRegistered[] = {
    Register<BatchNormKind::kBatchNorm>(
        TESSERA_TABLE_PLACE, "BatchNorm",
        "Each channel with mean 0 and variance 1, then scaled and shifted."),
    Register<BatchNormKind::kV1>(TESSERA_TABLE_PLACE, "BatchNorm_v1",
                                 "BatchNorm of axis 1, for old graphs."),
    Register<BatchNormKind::kSync>(TESSERA_TABLE_PLACE, "_contrib_SyncBatchNorm",
                                   "BatchNorm of axis 1, on one device."),
    Register<BatchNormKind::kWithRelu>(TESSERA_TABLE_PLACE, "_contrib_BatchNormWithReLU",
                                       "BatchNorm, then max(., 0)."),
    RegisterSparseForm("BatchNorm", std::make_unique<BatchNormForm>()),
};

}  // namespace
}  // namespace tessera
