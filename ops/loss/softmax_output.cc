// SoftmaxOutput: softmax, with the gradient of the cross-entropy loss in place of softmax's own.
//
//   out = softmax(data) over the classes
//   d data = s * (out - t), t the one-hot label, or with smooth_alpha = a: 1 - a at the label and
//            a / (classes - 1) elsewhere, except that multi_output does not smooth, as in MXNet;
//            0 for a label equal to ignore_label if use_ignore.
//   s = grad_scale, divided by the number of labels (normalization=batch) or of labels that are not
//       ignore_label (valid); with multi_output and another normalization than valid also by the
//       number of positions. If out_grad, the result is multiplied by the output's gradient.
//
// Shapes: data (n, k), out alike, label (n). Other ranks: by default all but the first dimension
// are classes, label (n), or as MXNet 1.9.1 infers it (leading dimensions), of whose labels the
// first n in row order are used and all are counted; with preserve_shape the last dimension is,
// label (leading dimensions); with multi_output dimension 1 is, data (n, k, rest…), label (n,
// product of rest), (n, rest…) or (n, 1, rest…). A label of data's shape holds probabilities:
// d data = grad_scale * (out - label). Types: float32, float64, float16, bfloat16; the label has
// data's type.
#include <cstdint>
#include <optional>

#include "tessera/ops/kernel.h"

namespace tessera {
namespace {

enum class Normalization { kNull, kBatch, kValid };

struct SoftmaxOutputParameters {
  double grad_scale = 1;
  double ignore_label = -1;
  bool multi_output = false;
  bool use_ignore = false;
  bool preserve_shape = false;
  Normalization normalization = Normalization::kNull;
  bool out_grad = false;
  double smooth_alpha = 0;

  static void Declare(ParameterSchema<SoftmaxOutputParameters>& schema) {
    using P = SoftmaxOutputParameters;
    schema.Optional("grad_scale", &P::grad_scale, "factor of the gradient");
    schema.Optional("ignore_label", &P::ignore_label, "the label that use_ignore leaves out");
    schema.Optional("multi_output", &P::multi_output, "classes along dimension 1");
    schema.Optional("use_ignore", &P::use_ignore, "no gradient where the label is ignore_label");
    schema.Optional("preserve_shape", &P::preserve_shape, "classes along the last dimension");
    schema.Choice("normalization", &P::normalization,
                  {{"null", Normalization::kNull},
                   {"batch", Normalization::kBatch},
                   {"valid", Normalization::kValid}},
                  "what the gradient is divided by");
    schema.Optional("out_grad", &P::out_grad, "multiply by the output's gradient");
    schema.Optional("smooth_alpha", &P::smooth_alpha, "label smoothing; not with multi_output");
    schema.Range(0, 1);
  }

  /// Returns the shape as (n, classes, positions).
  Shape<3> Classes(const TShape& data) const {
    if (multi_output) {
      return Shape3(data[0], data[1], data.ProdShape(2, data.ndim()));
    }
    if (preserve_shape) {
      return Shape3(data.ProdShape(0, data.ndim() - 1), data[data.ndim() - 1], 1);
    }
    return Shape3(data[0], data.ProdShape(1, data.ndim()), 1);
  }
};

class SoftmaxOutputProperty final : public ParameterizedProperty<SoftmaxOutputParameters> {
 public:
  std::vector<std::string> ListArguments() const override { return {"data", "label"}; }
  bool IsLoss() const override { return !param_.out_grad; }
  bool ArgumentHasGradient(int argument) const override { return argument == 0; }

  bool InferShape(std::vector<TShape>* in_shape, std::vector<TShape>* out_shape) const override {
    TShape& data = (*in_shape)[0];
    MergeShape(*this, "data", &data, (*out_shape)[0]);
    if (!data.rank_known()) return false;
    if (data.ndim() < 2) {
      throw InvalidArgument(TypeString(), ": data has shape ", data,
                            ", expected at least (batch, classes)");
    }
    MergeShape(*this, "output", &(*out_shape)[0], data);
    TShape& label = (*in_shape)[1];
    if (label == data) return data.known();  // probabilities
    if (param_.multi_output) {
      if (!data.known()) return false;
      MergeMultiLabel(data, &label);
    } else if (label.ndim() == data.ndim()) {
      MergeShape(*this, "label", &label, data);
      data = label;
      (*out_shape)[0] = label;
    } else if (!param_.preserve_shape && label.ndim() == 1) {
      MergeShape(*this, "label", &label, {data[0]});
    } else {
      MergeShape(*this, "label", &label,
                 TShape(std::span<const index_t>(data.begin(), data.end() - 1)));
    }
    return data.known();
  }

  std::vector<int> DeclareBackwardDependency(std::span<const int> out_grad,
                                             std::span<const int> in_data,
                                             std::span<const int> out_data) const override {
    if (param_.out_grad) return {out_grad[0], in_data[1], out_data[0]};
    return {in_data[1], out_data[0]};
  }
  std::vector<InplacePair> ForwardInplaceOption(std::span<const int> in_data,
                                                std::span<const int> out_data) const override {
    return {{in_data[0], out_data[0]}};
  }
  std::vector<InplacePair> BackwardInplaceOption(std::span<const int>, std::span<const int>,
                                                 std::span<const int> out_data,
                                                 std::span<const int> in_grad) const override {
    return {{out_data[0], in_grad[0]}};
  }
  std::vector<ResourceRequest> ForwardResource(std::span<const TShape>) const override {
    return {{ResourceRequest::Type::kTempSpace}};
  }
  std::vector<ResourceRequest> BackwardResource(std::span<const TShape>) const override {
    return {{ResourceRequest::Type::kTempSpace}};
  }

 private:
  /// Merges the label's shape: one label for each sample and position, in one of three layouts, by
  /// default flat.
  void MergeMultiLabel(const TShape& data, TShape* label) const {
    const TShape flat = {data[0], ProductOfExtents(*this, "data", data, 2, data.ndim())};
    std::vector<index_t> extents(data.begin(), data.end());
    extents[1] = 1;
    const TShape one_channel{std::span<const index_t>(extents)};
    extents.erase(extents.begin() + 1);
    const TShape image{std::span<const index_t>(extents)};
    if (label->Merge(flat) || label->Merge(image) || label->Merge(one_channel)) return;
    throw InvalidArgument(TypeString(), ": label has shape ", *label, ", expected ", flat, ", ",
                          image, " or ", one_channel);
  }
};

/// Returns 1 if a label is not the ignored one, else 0.
struct NotEqual {
  template <typename T>
  TESSERA_HD static T Map(T label, T ignored) {
    return label == ignored ? T(0) : T(1);
  }
};

/// The loss gradient as an expression over (rows, columns): by default row n and column k, and with
/// positions row (n, k) and column position.
template <typename Device, typename T>
struct LossGradient : expr::Exp<LossGradient<Device, T>, T> {
  using value_type = T;
  using Accumulator = typename expr::AccumulateIn<T>::type;
  static constexpr int kRank = 2;
  static constexpr bool kHasPacket = false;

  const T* out;
  const T* label;
  const Accumulator* valid;  // the number of labels to divide by, or null
  index_t classes;
  index_t positions;
  bool class_is_row;
  Shape<2> extents;
  bool use_ignore;
  T ignored;
  Accumulator at_label;
  Accumulator elsewhere;
  Accumulator scale;

  const Shape<2>& shape() const { return extents; }
  TESSERA_HD T Eval(index_t y, index_t x) const {
    const index_t sample = class_is_row ? y / classes : y;
    const index_t k = class_is_row ? y - sample * classes : x;
    const T target = label[class_is_row ? sample * positions + x : sample];
    if (use_ignore && target == ignored) return T(0);
    // Labels are truncated. They are compared as numbers of their type, because not every label
    // fits an integer.
    const Accumulator t = static_cast<Accumulator>(target);
    const Accumulator class_k = static_cast<Accumulator>(k);
    const bool is_label =
        t < class_k + Accumulator(1) && (t >= class_k || (k == 0 && t > Accumulator(-1)));
    const Accumulator expected = is_label ? at_label : elsewhere;
    Accumulator factor = scale;
    if (valid != nullptr && *valid > Accumulator(0)) factor /= *valid;
    return static_cast<T>((static_cast<Accumulator>(out[y * extents[1] + x]) - expected) * factor);
  }
  bool IsFlat() const { return false; }
};

template <typename Device, typename T>
class SoftmaxOutputOp final : public Operator {
 public:
  explicit SoftmaxOutputOp(const SoftmaxOutputParameters& param) : param_(param) {}

  void Forward(const OpContext& context, std::span<const TBlob> in_data,
               std::span<const OpReqType> req, std::span<const TBlob> out_data) override {
    if (req[0] == kNullOp || in_data[0].Size() == 0) return;
    auto* stream = context.get_stream<Device>();
    const Shape<3> shape = param_.Classes(in_data[0].shape_);
    const auto data = in_data[0].get_with_shape<Device, 3, T>(shape, stream);
    const auto out = out_data[0].get_with_shape<Device, 3, T>(shape, stream);
    if (req[0] == kAddTo) {
      const auto sum = context.requested[0]->template get_space_typed<Device, 3, T>(shape, stream);
      Softmax(sum, data);
      AssignTo(out, req[0], F<op::identity>(sum));
    } else {
      Softmax(out, data);
    }
  }
  std::optional<int64_t> ForwardWorkspaceBytes(int, std::span<const TBlob> in_data,
                                               std::span<const OpReqType> req,
                                               std::span<const TBlob>) const override {
    return req[0] == kAddTo ? in_data[0].Size() * static_cast<int64_t>(sizeof(T)) : 0;
  }

  void Backward(const OpContext& context, std::span<const TBlob> out_grad,
                std::span<const TBlob> in_data, std::span<const TBlob> out_data,
                std::span<const OpReqType> req, std::span<const TBlob> in_grad) override {
    if (req[0] == kNullOp || out_data[0].Size() == 0) return;
    auto* stream = context.get_stream<Device>();
    const Shape<3> shape = param_.Classes(out_data[0].shape_);
    const Shape<2> extents =
        shape[2] == 1 ? Shape2(shape[0], shape[1]) : Shape2(shape[0] * shape[1], shape[2]);
    const auto out = out_data[0].get_with_shape<Device, 2, T>(extents, stream);
    const auto data_grad = in_grad[0].get_with_shape<Device, 2, T>(extents, stream);
    if (in_data[1].shape_ == out_data[0].shape_) {
      const auto label = in_data[1].get_with_shape<Device, 2, T>(extents, stream);
      Write(data_grad, req[0], (out - label) * param_.grad_scale, out_grad, stream);
      return;
    }
    const auto label = in_data[1].FlatTo1D<Device, T>(stream);
    using Accumulator = typename LossGradient<Device, T>::Accumulator;
    LossGradient<Device, T> gradient;
    gradient.out = out.dptr_;
    gradient.label = label.dptr_;
    gradient.valid = nullptr;
    gradient.classes = shape[1];
    gradient.positions = shape[2];
    gradient.class_is_row = shape[2] != 1;
    gradient.extents = extents;
    gradient.use_ignore = param_.use_ignore;
    gradient.ignored = static_cast<T>(param_.ignore_label);
    const double alpha = param_.multi_output ? 0 : param_.smooth_alpha;
    gradient.at_label = static_cast<Accumulator>(1 - alpha);
    gradient.elsewhere =
        static_cast<Accumulator>(shape[1] > 1 ? alpha / static_cast<double>(shape[1] - 1) : 0.0);
    double scale = param_.grad_scale;
    if (param_.multi_output && param_.normalization != Normalization::kValid && shape[2] > 0) {
      scale /= static_cast<double>(shape[2]);
    }
    const index_t labels = param_.multi_output ? shape[0] : label.shape_[0];
    if (param_.normalization == Normalization::kBatch && labels > 0) {
      scale /= static_cast<double>(labels);
    }
    gradient.scale = static_cast<Accumulator>(scale);
    if (param_.normalization == Normalization::kValid) {
      // Labels are counted in the accumulator's type, because half and bfloat16 do not represent
      // all integers above 2048 and 256.
      Tensor<Device, 1, Accumulator> valid =
          context.requested[0]->template get_space_typed<Device, 1, Accumulator>(Shape1(1), stream);
      valid =
          sumall_except_dim<0>(tcast<Accumulator>(F<NotEqual>(label.FlatTo2D(), gradient.ignored)));
      gradient.valid = valid.dptr_;
    }
    Write(data_grad, req[0], gradient, out_grad, stream);
  }
  std::optional<int64_t> BackwardWorkspaceBytes(int, std::span<const TBlob>, std::span<const TBlob>,
                                                std::span<const TBlob>, std::span<const OpReqType>,
                                                std::span<const TBlob>) const override {
    const bool counts = param_.normalization == Normalization::kValid;
    using Accumulator = typename LossGradient<Device, T>::Accumulator;
    return counts ? static_cast<int64_t>(sizeof(Accumulator)) : 0;
  }

 private:
  template <typename E>
  void Write(const Tensor<Device, 2, T>& data_grad, OpReqType req, const E& gradient,
             std::span<const TBlob> out_grad, Stream<Device>* stream) const {
    if (param_.out_grad) {
      const auto head = out_grad[0].get_with_shape<Device, 2, T>(data_grad.shape_, stream);
      AssignTo(data_grad, req, gradient * head);
    } else {
      AssignTo(data_grad, req, gradient);
    }
  }

  const SoftmaxOutputParameters param_;
};

TESSERA_REGISTER_OPERATOR(SoftmaxOutput, SoftmaxOutputProperty, SoftmaxOutputOp)
    .Describe("Softmax whose gradient is that of the cross-entropy loss with a label.");

}  // namespace
}  // namespace tessera
