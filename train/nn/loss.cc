#include "tessera/train/nn/loss.h"

#include "tessera/base/error.h"
#include "tessera/train/nn/operator_call.h"

namespace tessera::nn {

using nn_internal::CallOne;
using nn_internal::Text;

namespace {

// Gluon's bound of logarithms' and quotients' arguments.
constexpr double kTiny = 1e-12;

/// Returns an array of the same size with the shape of another one.
NDArray ShapedLike(const NDArray& x, const NDArray& like) {
  return x.shape() == like.shape() ? x : CallOne("reshape_like", {x, like});
}

/// Returns the label minus the prediction.
NDArray Difference(std::span<const NDArray> inputs) {
  return ShapedLike(inputs[1], inputs[0]) - inputs[0];
}

NDArray LogSoftmax(const NDArray& x, int axis) {
  return CallOne("log_softmax", {x}, {{"axis", Text(axis)}});
}

}  // namespace

NDArray Loss::SumOfExample(const NDArray& x) const {
  if (x.shape().ndim() <= 1) return x;
  return CallOne("sum", {x}, {{"axis", Text(options_.batch_axis)}, {"exclude", "True"}});
}

NDArray Loss::OfExample(const NDArray& losses) const {
  if (losses.shape().ndim() <= 1) return losses;
  return CallOne("mean", {losses}, {{"axis", Text(options_.batch_axis)}, {"exclude", "True"}});
}

std::vector<NDArray> Loss::ForwardAll(std::span<const NDArray> inputs) const {
  if (inputs.size() != num_inputs_ && inputs.size() != num_inputs_ + 1) {
    throw InvalidArgument("Loss: ", inputs.size(), " inputs were given, expected ", num_inputs_,
                          ", and possibly weights");
  }
  NDArray loss = Elements(inputs.first(num_inputs_));
  if (inputs.size() > num_inputs_) loss = CallOne("broadcast_mul", {loss, inputs.back()});
  if (options_.weight != 1) loss = loss * options_.weight;
  return {OfExample(loss)};
}

NDArray L1Loss::Elements(std::span<const NDArray> inputs) const {
  return CallOne("abs", {Difference(inputs)});
}

NDArray L2Loss::Elements(std::span<const NDArray> inputs) const {
  return CallOne("square", {Difference(inputs)}) * 0.5;
}

HuberLoss::HuberLoss(double rho, const LossOptions& options) : Loss(options), rho_(rho) {
  if (!(rho > 0)) throw InvalidArgument("HuberLoss: rho is ", rho, ", expected > 0");
}

NDArray HuberLoss::Elements(std::span<const NDArray> inputs) const {
  const NDArray distance = CallOne("abs", {Difference(inputs)});
  return CallOne("where", {distance > rho_, distance - 0.5 * rho_,
                           CallOne("square", {distance}) * (0.5 / rho_)});
}

NDArray HingeLoss::Elements(std::span<const NDArray> inputs) const {
  return CallOne("relu", {margin_ - inputs[0] * ShapedLike(inputs[1], inputs[0])});
}

NDArray SoftmaxCrossEntropyLoss::Elements(std::span<const NDArray> inputs) const {
  const NDArray log_p = classes_.from_logits ? inputs[0] : LogSoftmax(inputs[0], classes_.axis);
  const ParameterMap along_classes = {{"axis", Text(classes_.axis)}, {"keepdims", "True"}};
  if (classes_.sparse_label) return -CallOne("pick", {log_p, inputs[1]}, along_classes);
  return -CallOne("sum", {log_p * ShapedLike(inputs[1], log_p)}, along_classes);
}

NDArray SigmoidCrossEntropyLoss::Elements(std::span<const NDArray> inputs) const {
  const NDArray &x = inputs[0], label = ShapedLike(inputs[1], x);
  if (from_sigmoid_) {
    return -(CallOne("log", {x + kTiny}) * label +
             CallOne("log", {1.0 - x + kTiny}) * (1.0 - label));
  }
  // log(1 + e^x) - x label, without an exponential of a large number.
  const NDArray rest = CallOne("Activation", {-CallOne("abs", {x})}, {{"act_type", "softrelu"}});
  return CallOne("relu", {x}) - x * label + rest;
}

NDArray KLDivLoss::Elements(std::span<const NDArray> inputs) const {
  const NDArray log_p = from_logits_ ? inputs[0] : LogSoftmax(inputs[0], axis_);
  return inputs[1] * (CallOne("log", {inputs[1] + kTiny}) - log_p);
}

NDArray TripletLoss::Elements(std::span<const NDArray> inputs) const {
  const auto square = [&](size_t i) {
    return CallOne("square", {ShapedLike(inputs[i], inputs[0]) - inputs[0]});
  };
  return CallOne("relu", {SumOfExample(square(1) - square(2)) + margin_});
}

NDArray CosineEmbeddingLoss::Elements(std::span<const NDArray> inputs) const {
  const NDArray a = ShapedLike(inputs[0], inputs[1]), &b = inputs[1];
  const auto length = [](const NDArray& x) { return CallOne("norm", {x}, {{"axis", "-1"}}); };
  const NDArray cosine =
      CallOne("sum", {a * b}, {{"axis", "-1"}}) /
      CallOne("_maximum_scalar", {length(a) * length(b)}, {{"scalar", Text(kTiny)}});
  const NDArray label = ShapedLike(inputs[2], cosine);
  return (1.0 - cosine) * (label == 1.0) + CallOne("relu", {(label == -1.0) * (cosine - margin_)});
}

std::vector<NDArray> CTCLoss::ForwardAll(std::span<const NDArray> inputs) const {
  if (inputs.size() != 2 && inputs.size() != 4) {
    throw InvalidArgument("CTCLoss: ", inputs.size(),
                          " inputs were given, expected predictions and labels, and possibly both "
                          "lengths");
  }
  std::vector<NDArray> arguments(inputs.begin(), inputs.end());
  arguments[0] = CallOne("SwapAxis", {arguments[0]}, {{"dim1", "0"}, {"dim2", "1"}});
  const bool has_lengths = inputs.size() == 4;
  const NDArray loss = Invoke("CTCLoss", arguments,
                              {{"use_data_lengths", Text(has_lengths)},
                               {"use_label_lengths", Text(has_lengths)},
                               {"blank_label", "last"}})[0];
  return {weight_ == 1 ? loss : loss * weight_};
}

}  // namespace tessera::nn
