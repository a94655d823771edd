// _contrib_MultiBoxTarget: the offsets and classes that a network should predict at each anchor
// (Liu et al. 2016, section 2.2).
//
//   loc_target[b][4 i…] = the offsets of the anchor's object (anchors.h) / variances, or 0
//   loc_mask[b][4 i…]   = 1 in all four places of an anchor with an object, else 0
//   cls_target[b][i]    = class + 1 of the anchor's object; 0: background; or ignore_label
//
// A row of label is an object: (class, left, top, right, bottom, …). The first row of class -1
// ends a sample's objects. Anchors get objects in two steps (anchor_matcher.h):
//
//   1. Each object gets one anchor: the pair of the largest overlap comes first, then the best
//      pair of the other objects and anchors, and so on.
//   2. If overlap_threshold > 0, each other anchor gets the object that it overlaps most, if
//      their overlap is above overlap_threshold.
//
// With negative_mining_ratio <= 0, all anchors without an object are background. Otherwise there
// are negative_mining_ratio background anchors for each anchor with an object, rounded down. They
// are chosen among the anchors without an object whose largest overlap is below
// negative_mining_thresh. The lowest probability of class 0 comes first, by the softmax of cls_pred
// over the classes. If too few can be chosen, all of them are background; MXNet refuses that call.
// The other anchors are ignored, as are all anchors of a sample without objects.
// minimum_negative_samples has no effect, as in MXNet.
//
// Gradients are 0. Shapes: anchor (1, n, 4), label (batch, objects, 5 or more), cls_pred (batch,
// classes with the background, n), loc_target and loc_mask (batch, 4 n), cls_target (batch, n).
// Types: float32, float64, float16, bfloat16; the last two are computed in float32. Runs on the
// CPU.
#include <algorithm>
#include <array>
#include <cmath>
#include <string>
#include <vector>

#include "tessera/ops/loops/elements.h"
#include "tessera/ops/loops/row_call.h"
#include "tessera/ops/typed_operator.h"
#include "tessera/ops/vision/boxes/anchor_matcher.h"
#include "tessera/ops/vision/boxes/anchor_shapes.h"
#include "tessera/ops/vision/boxes/anchors.h"
#include "tessera/ops/vision/regions/boxes.h"
#include "tessera/ops/zero_gradient.h"
#include "tessera/tensor/device/parallel.h"

namespace tessera {
namespace {

using namespace ops_internal;  // NOLINT: anchors and registration

struct MultiBoxTargetParameters {
  float overlap_threshold = 0.5f;
  float ignore_label = -1;
  float negative_mining_ratio = -1;
  float negative_mining_thresh = 0.5f;
  int64_t minimum_negative_samples = 0;
  std::vector<float> variances = {0.1f, 0.1f, 0.2f, 0.2f};

  static void Declare(ParameterSchema<MultiBoxTargetParameters>& schema) {
    using P = MultiBoxTargetParameters;
    schema.Optional("overlap_threshold", &P::overlap_threshold,
                    "the overlap above which an anchor gets an object that has another anchor");
    schema.Optional("ignore_label", &P::ignore_label, "the target of anchors that are ignored");
    schema.Optional("negative_mining_ratio", &P::negative_mining_ratio,
                    "background anchors for each anchor with an object; all if not positive");
    schema.Optional("negative_mining_thresh", &P::negative_mining_thresh,
                    "the overlap that a background anchor must not reach");
    schema.Optional("minimum_negative_samples", &P::minimum_negative_samples,
                    "without effect, as in MXNet");
    schema.Optional("variances", &P::variances, "the divisors of the four offsets");
  }
};

class MultiBoxTargetProperty final : public ZeroGradientProperty<MultiBoxTargetParameters> {
 public:
  std::vector<std::string> ListArguments() const override {
    return {"anchor", "label", "cls_pred"};
  }
  std::vector<std::string> ListOutputs() const override {
    return {"loc_target", "loc_mask", "cls_target"};
  }
  bool InferShape(std::vector<TShape>* in_shape, std::vector<TShape>* out_shape) const override {
    using A = AnchorArray;
    std::vector<TShape>&in = *in_shape, &out = *out_shape;
    const bool known =
        InferAnchorShapes(*this, {{"anchor", &in[0], {1, A::kAnchors, 4}},
                                  {"label", &in[1], {A::kSamples, A::kAny, A::kAny}},
                                  {"cls_pred", &in[2], {A::kSamples, A::kAny, A::kAnchors}},
                                  {"loc_target", &out[0], {A::kSamples, A::kCoordinates}},
                                  {"loc_mask", &out[1], {A::kSamples, A::kCoordinates}},
                                  {"cls_target", &out[2], {A::kSamples, A::kAnchors}}});
    CheckAtLeast("label", in[1], 2, 5, "numbers: class, left, top, right, bottom");
    CheckAtLeast("cls_pred", in[2], 1, 1, "class: the background");
    return known;
  }

 private:
  void CheckParameters() override { CheckVariances(*this, param_.variances); }

  void CheckAtLeast(const char* name, const TShape& shape, int axis, index_t least,
                    const char* what) const {
    if (shape[axis] == TShape::kUnknown || shape[axis] >= least) return;
    throw InvalidArgument(TypeString(), ": ", name, " has shape ", shape, ", expected at least ",
                          least, " ", what);
  }
};

class MultiBoxTargetOperator final : public Operator {
 public:
  explicit MultiBoxTargetOperator(const MultiBoxTargetParameters& param) : param_(param) {}

  void Forward(const OpContext&, std::span<const TBlob> in_data, std::span<const OpReqType> req,
               std::span<const TBlob> out_data) override {
    if (out_data[2].shape_.Size() == 0) return;
    const TShape &labels_shape = in_data[1].shape_, &scores_shape = in_data[2].shape_;
    const index_t batch = scores_shape[0], classes = scores_shape[1], count = scores_shape[2];
    const index_t objects = labels_shape[1], width = labels_shape[2];
    VisitComputedIn(ComputedInReal(out_data[2].type_flag_), [&](auto one) {
      using T = decltype(one);
      const Elements<T> anchors(in_data[0]), labels(in_data[1]), scores(in_data[2]);
      std::vector<Box<T>> boxes;
      for (index_t i = 0; i < count; ++i) {
        boxes.emplace_back(anchors.data() + 4 * i, BoxFormat::kCorner);
      }
      ParallelFor(batch, StepsPerTask(count), [&](index_t begin, index_t end) {
        for (index_t b = begin; b < end; ++b) {
          const T* const label = labels.data() + b * objects * width;
          const Targets<T> targets =
              MakeTargets(boxes, anchors.data(), label, CountObjects(label, objects, width), width,
                          scores.data() + b * classes * count, classes);
          StoreLine(targets.offsets, b, req[0], out_data[0]);
          StoreLine(targets.mask, b, req[1], out_data[1]);
          StoreLine(targets.classes, b, req[2], out_data[2]);
        }
      });
    });
  }

 private:
  /// The outputs' rows of a sample.
  template <typename T>
  struct Targets {
    std::vector<T> offsets, mask, classes;
  };

  template <typename T>
  static index_t CountObjects(const T* label, index_t objects, index_t width) {
    index_t count = 0;
    while (count < objects && label[count * width] != T(-1)) ++count;
    return count;
  }

  template <typename T>
  Targets<T> MakeTargets(const std::vector<Box<T>>& boxes, const T* anchors, const T* label,
                         index_t objects, index_t width, const T* scores, index_t classes) const {
    const size_t count = boxes.size();
    Targets<T> targets{std::vector<T>(4 * count), std::vector<T>(4 * count),
                       std::vector<T>(count, T(param_.ignore_label))};
    if (objects == 0) return targets;
    std::vector<Box<T>> object_boxes;
    for (index_t k = 0; k < objects; ++k) {
      object_boxes.emplace_back(label + k * width + 1, BoxFormat::kCorner);
    }
    AnchorMatcher<T> matcher(boxes, object_boxes);
    matcher.MatchBestPairs();
    if (param_.overlap_threshold > 0) matcher.MatchAbove(T(param_.overlap_threshold));
    for (const size_t i : Background(matcher, scores, classes)) targets.classes[i] = 0;
    for (size_t i = 0; i < count; ++i) {
      const index_t object = matcher.object_of(i);
      if (object < 0) continue;
      const T* const row = label + object * width;
      const std::array<T, 4> offsets =
          OffsetsOf(CenteredBox<T>(row + 1, BoxFormat::kCorner),
                    CenteredBox<T>(anchors + 4 * i, BoxFormat::kCorner));
      for (size_t k = 0; k < 4; ++k) {
        targets.offsets[4 * i + k] = offsets[k] / T(param_.variances[k]);
        targets.mask[4 * i + k] = T(1);
      }
      targets.classes[i] = row[0] + 1;
    }
    return targets;
  }

  /// Returns the anchors that should be background.
  template <typename T>
  std::vector<size_t> Background(const AnchorMatcher<T>& matcher, const T* scores,
                                 index_t classes) const {
    const bool mines = param_.negative_mining_ratio > 0;
    std::vector<size_t> chosen;
    size_t positive = 0;
    for (size_t i = 0; i < matcher.num_anchors(); ++i) {
      if (matcher.object_of(i) >= 0) {
        ++positive;
      } else if (!mines || matcher.largest_overlap(i) < T(param_.negative_mining_thresh)) {
        chosen.push_back(i);
      }
    }
    if (!mines) return chosen;
    std::vector<T> probability(matcher.num_anchors());
    for (const size_t i : chosen) {
      probability[i] = BackgroundProbability(scores + i, classes, matcher.num_anchors());
    }
    std::stable_sort(chosen.begin(), chosen.end(),
                     [&](size_t a, size_t b) { return probability[a] < probability[b]; });
    const float wanted = static_cast<float>(positive) * param_.negative_mining_ratio;
    if (wanted < static_cast<float>(chosen.size())) chosen.resize(static_cast<size_t>(wanted));
    return chosen;
  }

  /// Returns the softmax's first element, or 1 if it is NaN. The scores are `stride` elements
  /// apart.
  template <typename T>
  static T BackgroundProbability(const T* scores, index_t classes, size_t stride) {
    T largest = scores[0], sum = 0;
    for (size_t c = 1; c < static_cast<size_t>(classes); ++c) {
      largest = std::max(largest, scores[c * stride]);
    }
    for (size_t c = 0; c < static_cast<size_t>(classes); ++c) {
      sum += std::exp(scores[c * stride] - largest);
    }
    const T probability = std::exp(scores[0] - largest) / sum;
    return std::isnan(probability) ? T(1) : probability;
  }

  const MultiBoxTargetParameters param_;
};

[[maybe_unused]] const bool kRegistered =
    RegisterTypedOperator<MultiBoxTargetProperty, MultiBoxTargetOperator>(
        TESSERA_TABLE_PLACE, "_contrib_MultiBoxTarget",
        "The offsets and classes that a network should predict at each anchor.");

}  // namespace
}  // namespace tessera
