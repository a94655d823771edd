#ifndef TESSERA_TENSOR_NN_SOFTMAX_GRAD_H_
#define TESSERA_TENSOR_NN_SOFTMAX_GRAD_H_

#include <algorithm>
#include <limits>
#include <tuple>
#include <type_traits>

#include "tessera/tensor/dense/dense.h"
#include "tessera/tensor/index/row_number.h"

/// Gradients of the cross entropy of a softmax, from its output and the labels.
namespace tessera {

namespace expr {
inline namespace TESSERA_ISA_NAMESPACE {

/// The expression src - on_label for the label's class, src - elsewhere for other classes, and 0
/// for samples whose label is ignored. A matrix has a label for each row; a tensor of rank 3, (n,
/// classes, positions), has labels (n, positions).
template <int N, typename Device, typename T, typename L>
struct LabelGradExp : Exp<LabelGradExp<N, Device, T, L>, T> {
  using value_type = T;
  using device_type = Device;
  using Wide = std::conditional_t<sizeof(T) == 2, float, T>;
  static constexpr int kRank = N;
  static constexpr bool kHasPacket = false;
  static constexpr bool kMovesElements = true;
  /// The value of `ignored` that ignores no label.
  static constexpr index_t kNone = std::numeric_limits<index_t>::min();

  Tensor<Device, N, T> src;
  Tensor<Device, N - 1, L> label;
  index_t ignored;
  Wide on_label;
  Wide elsewhere;

  LabelGradExp(const Tensor<Device, N, T>& probabilities, const Tensor<Device, N - 1, L>& labels,
               index_t ignored_label, Wide at_label, Wide at_others, const char* operation)
      : src(probabilities),
        label(labels),
        ignored(ignored_label),
        on_label(at_label),
        elsewhere(at_others) {
    bool fits = labels.shape_[0] == src.shape_[0];
    if constexpr (N == 3) fits = fits && labels.shape_[1] == src.shape_[2];
    if (!fits) {
      throw InvalidArgument(operation, ": labels of shape ", labels.shape_,
                            " do not fit an output of shape ", src.shape_);
    }
  }

  auto operands() const { return std::make_tuple(src, label); }

  const Shape<N>& shape() const { return src.shape_; }
  TESSERA_HD T Eval(index_t y, index_t x) const {
    if constexpr (N == 2) {
      return Element(y, x, x, label.dptr_[y]);
    } else {
      const index_t sample = y / src.shape_[1];
      return Element(y, x, y - sample * src.shape_[1], label.dptr_[sample * label.stride_ + x]);
    }
  }
  bool IsFlat() const { return false; }

  /// Writes a matrix's row as if no class had the label, and then corrects the label's element.
  void EvalRow(index_t y, index_t begin, index_t end, T* out) const {
    if constexpr (N == 2) {
      const L at = label.dptr_[y];
      const index_t wanted = SignedNumber(at);
      if (ignored != kNone && wanted == ignored) {
        std::fill(out, out + (end - begin), T(0));
        return;
      }
      const bool holds_label = begin <= wanted && wanted < end;
      // The label's element is computed before the row is written, because the row may be src's.
      const T at_label = holds_label ? Element(y, wanted, wanted, at) : T(0);
      if constexpr (std::is_same_v<T, Wide>) {
        EvaluateRow<sv::saveto>(out - begin, F<op::minus>(src, ScalarExp<T>(elsewhere)), y, begin,
                                end);
      } else {
        const T* const row = src.dptr_ + y * src.stride_;
        const Wide by = elsewhere;
        for (index_t x = begin; x < end; ++x) out[x - begin] = Less(row[x], by);
      }
      if (holds_label) out[wanted - begin] = at_label;
    } else {
      const LabelGradExp local = *this;
      const index_t sample = y / local.src.shape_[1];
      const index_t of_class = y - sample * local.src.shape_[1];
      const L* const labels = local.label.dptr_ + sample * local.label.stride_;
      for (index_t x = begin; x < end; ++x) {
        out[x - begin] = local.Element(y, x, of_class, labels[x]);
      }
    }
  }

 private:
  /// Returns the gradient at element (y, x), which belongs to class `of_class`, for label `at`.
  TESSERA_HD T Element(index_t y, index_t x, index_t of_class, L at) const {
    const index_t wanted = SignedNumber(at);
    if (ignored != kNone && wanted == ignored) return T(0);
    return Less(src.Eval(y, x), of_class == wanted ? on_label : elsewhere);
  }
  TESSERA_HD static T Less(T value, Wide by) {
    return static_cast<T>(static_cast<Wide>(value) - by);
  }
  /// Returns a label as an integer, truncated. It may be negative, because ignored labels often
  /// are.
  TESSERA_HD static index_t SignedNumber(L at) {
    if constexpr (std::is_integral_v<L> && std::is_signed_v<L>) {
      return static_cast<index_t>(at);
    } else if constexpr (!std::is_integral_v<L>) {
      if (at < L(0)) return -tensor_internal::RowNumber(static_cast<L>(-at));
    }
    return tensor_internal::RowNumber(at);
  }
};

}  // namespace TESSERA_ISA_NAMESPACE
}  // namespace expr

namespace tensor_internal {
inline namespace TESSERA_ISA_NAMESPACE {

/// Sets dst = src - on_label for the label's class, src - elsewhere for other classes, and 0 for
/// samples with the label `ignored`. `operation` begins the messages of errors.
template <typename Device, int N, typename T, typename L>
void AssignLabelGrad(const Tensor<Device, N, T>& dst, const Tensor<Device, N, T>& src,
                     const Tensor<Device, N - 1, L>& label, index_t ignored, double on_label,
                     double elsewhere, const char* operation) {
  if (dst.shape_ != src.shape_) {
    throw InvalidArgument(operation, ": destination ", dst.shape_, " and source ", src.shape_,
                          " differ in shape");
  }
  using Grad = expr::LabelGradExp<N, Device, T, L>;
  using Wide = typename Grad::Wide;
  tensor_internal::RequireCompilerFor<Device>();
  // Each element is read only at its own position, so dst may be src.
  expr::Evaluate<sv::saveto>(dst, Grad(src, label, ignored, static_cast<Wide>(on_label),
                                       static_cast<Wide>(elsewhere), operation));
}

/// Returns the probability that smoothing gives each class other than the label's.
inline double ShareOfOthers(double alpha, index_t classes) {
  return classes > 1 ? alpha / static_cast<double>(classes - 1) : 0;
}

}  // namespace TESSERA_ISA_NAMESPACE
}  // namespace tensor_internal

inline namespace TESSERA_ISA_NAMESPACE {

/// Computes the gradient of the cross entropy: dst = src - 1 for the label's class, src for other
/// classes.
///
/// Shapes: dst and src (n, classes) with labels (n), or (n, classes, positions) with labels (n,
/// positions); rows may be padded. Labels may have any numeric type and are truncated; a label that
/// is no class changes no element. Samples whose label is `ignore_label` have gradient 0. dst may
/// be src itself; another overlap of dst, with the labels too, is not detected, and makes its
/// elements undefined. half and bfloat16 compute in float. Throws Error(kInvalidArgument) if the
/// shapes do not fit; dst is then unchanged.
template <typename Device, typename T, typename L>
void SoftmaxGrad(Tensor<Device, 2, T> dst, const Tensor<Device, 2, T>& src,
                 const Tensor<Device, 1, L>& label) {
  tensor_internal::AssignLabelGrad(dst, src, label, expr::LabelGradExp<2, Device, T, L>::kNone, 1,
                                   0, "SoftmaxGrad");
}
template <typename Device, typename T, typename L, expr::Scalar S>
void SoftmaxGrad(Tensor<Device, 2, T> dst, const Tensor<Device, 2, T>& src,
                 const Tensor<Device, 1, L>& label, S ignore_label) {
  tensor_internal::AssignLabelGrad(dst, src, label, static_cast<index_t>(ignore_label), 1, 0,
                                   "SoftmaxGrad");
}
template <typename Device, typename T, typename L>
void SoftmaxGrad(Tensor<Device, 3, T> dst, const Tensor<Device, 3, T>& src,
                 const Tensor<Device, 2, L>& label) {
  tensor_internal::AssignLabelGrad(dst, src, label, expr::LabelGradExp<3, Device, T, L>::kNone, 1,
                                   0, "SoftmaxGrad");
}
template <typename Device, typename T, typename L, expr::Scalar S>
void SoftmaxGrad(Tensor<Device, 3, T> dst, const Tensor<Device, 3, T>& src,
                 const Tensor<Device, 2, L>& label, S ignore_label) {
  tensor_internal::AssignLabelGrad(dst, src, label, static_cast<index_t>(ignore_label), 1, 0,
                                   "SoftmaxGrad");
}

/// Computes the gradient of the cross entropy with labels smoothed by alpha: dst = src - (1 -
/// alpha) for the label's class, src - alpha / (classes - 1) for other classes. SoftmaxGrad
/// explains shapes, labels and errors.
template <typename Device, typename T, typename L>
void SmoothSoftmaxGrad(Tensor<Device, 2, T> dst, const Tensor<Device, 2, T>& src,
                       const Tensor<Device, 1, L>& label, double alpha) {
  tensor_internal::AssignLabelGrad(dst, src, label, expr::LabelGradExp<2, Device, T, L>::kNone,
                                   1 - alpha, tensor_internal::ShareOfOthers(alpha, src.shape_[1]),
                                   "SmoothSoftmaxGrad");
}
template <typename Device, typename T, typename L, expr::Scalar S>
void SmoothSoftmaxGrad(Tensor<Device, 2, T> dst, const Tensor<Device, 2, T>& src,
                       const Tensor<Device, 1, L>& label, S ignore_label, double alpha) {
  tensor_internal::AssignLabelGrad(dst, src, label, static_cast<index_t>(ignore_label), 1 - alpha,
                                   tensor_internal::ShareOfOthers(alpha, src.shape_[1]),
                                   "SmoothSoftmaxGrad");
}

/// Computes the gradient of the cross entropy with smoothed labels for several positions.
template <typename Device, typename T, typename L>
void SmoothSoftmaxGrad(Tensor<Device, 3, T> dst, const Tensor<Device, 3, T>& src,
                       const Tensor<Device, 2, L>& label, double alpha) {
  tensor_internal::AssignLabelGrad(dst, src, label, expr::LabelGradExp<3, Device, T, L>::kNone,
                                   1 - alpha, tensor_internal::ShareOfOthers(alpha, src.shape_[1]),
                                   "SmoothSoftmaxGrad");
}
template <typename Device, typename T, typename L, expr::Scalar S>
void SmoothSoftmaxGrad(Tensor<Device, 3, T> dst, const Tensor<Device, 3, T>& src,
                       const Tensor<Device, 2, L>& label, S ignore_label, double alpha) {
  tensor_internal::AssignLabelGrad(dst, src, label, static_cast<index_t>(ignore_label), 1 - alpha,
                                   tensor_internal::ShareOfOthers(alpha, src.shape_[1]),
                                   "SmoothSoftmaxGrad");
}

}  // namespace TESSERA_ISA_NAMESPACE
}  // namespace tessera

#endif  // TESSERA_TENSOR_NN_SOFTMAX_GRAD_H_
