// _contrib_Proposal and _contrib_MultiProposal: the boxes of an image, or of each of several, that
// are likely to hold an object (region proposal).
//
//   output = rows (image, left, top, right, bottom), score = their scores
//
// Each position of the feature map has an anchor for each ratio and, within it, each scale, around
// the centre of its feature_stride x feature_stride pixels: round(s) wide and round(round(s) ratio)
// high with s = sqrt(floor(feature_stride^2 / ratio)), both times the scale. With bbox_pred (dx,
// dy, dw, dh) of the anchor, its box has the centre (x + dx w, y + dy h) and the size (w e^dw,
// h e^dh), or with iou_loss the sums of its corners and (dx, dy, dw, dh). Both corners belong to a
// box, and boxes are clipped to the image. im_info of an image is (height, width, scale). The score
// is the second half of cls_prob. It is -1 for positions behind the image, for NaN and for boxes
// lower or narrower than rpn_min_size * scale, which grow by that size. Of the rpn_pre_nms_top_n
// boxes with the highest scores, where equal scores keep their order, those are the result that do
// not overlap a better one by more than threshold (boxes.h: OverlapOf), at most rpn_post_nms_top_n;
// fewer are repeated in turn. An image without positions gives zeros with the score -1. An image
// larger than its map throws Error(kOutOfRange). The gradient is 0: the network below learns by
// losses of its own. Shapes: cls_prob (n, 2 anchors, height, width), bbox_pred (n, 4 anchors,
// height, width), im_info (n, 3), output (n rpn_post_nms_top_n, 5), score (n rpn_post_nms_top_n,
// 1), which output_score shows; n is 1 for _contrib_Proposal. Types: float32, float64, float16,
// bfloat16; the last two are computed in float32. Run on the CPU. Ren et al., Faster R-CNN, 2015,
// section 3.
#include <algorithm>
#include <array>
#include <cmath>
#include <string>
#include <vector>

#include "tessera/ops/loops/elements.h"
#include "tessera/ops/loops/row_call.h"
#include "tessera/ops/loops/typed_row.h"
#include "tessera/ops/typed_operator.h"
#include "tessera/ops/vision/regions/boxes.h"
#include "tessera/ops/zero_gradient.h"
#include "tessera/tensor/device/parallel.h"

namespace tessera {
namespace {

using namespace ops_internal;  // NOLINT: boxes and registration

struct ProposalParameters {
  int64_t rpn_pre_nms_top_n = 6000;
  int64_t rpn_post_nms_top_n = 300;
  float threshold = 0.7f;
  int64_t rpn_min_size = 16;
  std::vector<float> scales = {4, 8, 16, 32};
  std::vector<float> ratios = {0.5f, 1, 2};
  int64_t feature_stride = 16;
  bool output_score = false;
  bool iou_loss = false;

  static void Declare(ParameterSchema<ProposalParameters>& schema) {
    using P = ProposalParameters;
    schema.Optional("rpn_pre_nms_top_n", &P::rpn_pre_nms_top_n,
                    "how many boxes of an image take part; 0 or less: all");
    schema.Optional("rpn_post_nms_top_n", &P::rpn_post_nms_top_n,
                    "how many boxes an image has in the output");
    schema.Range(0, 1 << 24);
    schema.Optional("threshold", &P::threshold,
                    "the overlap above which the box of the lower score is left out");
    schema.Optional("rpn_min_size", &P::rpn_min_size,
                    "the least height and width of a box, times the image's scale");
    schema.Optional("scales", &P::scales, "the anchors' sizes, in strides");
    schema.Optional("ratios", &P::ratios, "the anchors' heights, divided by their widths");
    schema.Optional("feature_stride", &P::feature_stride,
                    "pixels of the image for each position of the map, along an axis");
    schema.Range(1, 1 << 20);
    schema.Optional("output_score", &P::output_score, "whether the scores are an output");
    schema.Optional("iou_loss", &P::iou_loss, "whether bbox_pred moves corners");
  }
  index_t NumAnchors() const { return static_cast<index_t>(scales.size() * ratios.size()); }
};

enum class Images { kOne, kMany };

template <Images kImages>
class ProposalProperty final : public ZeroGradientProperty<ProposalParameters> {
 public:
  std::vector<std::string> ListArguments() const override {
    return {"cls_prob", "bbox_pred", "im_info"};
  }
  std::vector<std::string> ListOutputs() const override { return {"output", "score"}; }
  int NumVisibleOutputs() const override { return param_.output_score ? 2 : 1; }

  bool InferShape(std::vector<TShape>* in_shape, std::vector<TShape>* out_shape) const override {
    TShape &prob = (*in_shape)[0], &pred = (*in_shape)[1], &info = (*in_shape)[2];
    TShape &out = (*out_shape)[0], &score = (*out_shape)[1];
    constexpr index_t kUnknown = TShape::kUnknown;
    const index_t anchors = param_.NumAnchors();
    TShape map = {kImages == Images::kOne ? 1 : kUnknown, 2 * anchors, kUnknown, kUnknown};
    for (int pass = 0; pass < 2; ++pass) {
      map[1] = 2 * anchors;
      MergeShape(*this, "cls_prob", &prob, map);
      map = prob;
      map[1] = 4 * anchors;
      MergeShape(*this, "bbox_pred", &pred, map);
      map = pred;
      MergeShape(*this, "im_info", &info, {map[0], 3});
      map[0] = info[0];
    }
    const index_t rows =
        ProductOfExtents(*this, "output", {map[0], param_.rpn_post_nms_top_n}, 0, 2);
    MergeShape(*this, "output", &out, {rows, 5});
    MergeShape(*this, "score", &score, {out[0], 1});
    MergeShape(*this, "output", &out, {score[0], 5});
    return prob.known();
  }

 private:
  void CheckParameters() override {
    const auto check = [this](std::string_view name, const std::vector<float>& values) {
      const bool valid = !values.empty() && std::all_of(values.begin(), values.end(), [](float x) {
        return x > 0 && std::isfinite(x);
      });
      if (valid) return;
      throw InvalidArgument(TypeString(), ": parameter ", name, "=", GetParams()[std::string(name)],
                            " must be one or more positive numbers");
    };
    check("scales", param_.scales);
    check("ratios", param_.ratios);
  }
};

/// A box by its first and last pixels: left, top, right, bottom.
template <typename T>
using Corners = std::array<T, 4>;

template <typename T>
struct Candidate {
  Corners<T> box{};
  T score = -1;

  T Width() const { return box[2] - box[0] + 1; }
  T Height() const { return box[3] - box[1] + 1; }
};

/// Returns the anchors of the position (0, 0). They are computed in float, as MXNet does, so that
/// sizes are rounded alike.
std::vector<Corners<float>> Anchors(const ProposalParameters& p) {
  const auto stride = static_cast<float>(p.feature_stride);
  const float centre = (stride - 1) / 2;
  std::vector<Corners<float>> anchors;
  for (const float ratio : p.ratios) {
    const float width = std::floor(std::sqrt(std::floor(stride * stride / ratio)) + 0.5f);
    const float height = std::floor(width * ratio + 0.5f);
    for (const float scale : p.scales) {
      const float x = (width * scale - 1) / 2, y = (height * scale - 1) / 2;
      anchors.push_back({centre - x, centre - y, centre + x, centre + y});
    }
  }
  return anchors;
}

/// The boxes of one image.
template <typename T>
class ImageBoxes {
 public:
  /// `prob`, `pred` and `info` are the image's, the map has this height and width.
  ImageBoxes(const ProposalParameters& p, const T* prob, const T* pred, const T* info,
             index_t height, index_t width)
      : p_(p), height_(info[0]), width_(info[1]), scale_(info[2]) {
    const std::vector<Corners<float>> anchors = Anchors(p);
    const index_t plane = height * width, num_anchors = p.NumAnchors();
    const T stride = static_cast<T>(p.feature_stride);
    for (index_t i = 0; i < plane; ++i) {
      const T x = static_cast<T>(i % width), y = static_cast<T>(i / width);
      const bool inside = y < std::floor(height_ / stride) && x < std::floor(width_ / stride);
      for (index_t a = 0; a < num_anchors; ++a) {
        const T score = prob[(num_anchors + a) * plane + i];
        const bool valid = inside && !std::isnan(score);
        candidates_.push_back({MovedAnchor(anchors[static_cast<size_t>(a)], x * stride, y * stride,
                                           pred + 4 * a * plane + i, plane),
                               valid ? score : T(-1)});
        GrowIfSmall(&candidates_.back());
      }
    }
  }

  /// Returns the boxes that no better one overlaps, those of the highest scores first.
  std::vector<Candidate<T>> Best() {
    std::stable_sort(candidates_.begin(), candidates_.end(),
                     [](const auto& a, const auto& b) { return a.score > b.score; });
    if (p_.rpn_pre_nms_top_n > 0 &&
        p_.rpn_pre_nms_top_n < static_cast<int64_t>(candidates_.size())) {
      candidates_.resize(static_cast<size_t>(p_.rpn_pre_nms_top_n));
    }
    std::vector<Candidate<T>> kept;
    std::vector<Box<T>> boxes;
    for (const Candidate<T>& candidate : candidates_) {
      if (static_cast<int64_t>(kept.size()) >= p_.rpn_post_nms_top_n) break;
      const Corners<T>& c = candidate.box;
      const Corners<T> bounds = {c[0], c[1], c[2] + 1, c[3] + 1};
      const Box<T> box(bounds.data(), BoxFormat::kCorner);
      const bool left_out = std::any_of(boxes.begin(), boxes.end(), [&](const Box<T>& better) {
        return OverlapOf(better, box) > static_cast<T>(p_.threshold);
      });
      if (left_out) continue;
      kept.push_back(candidate);
      boxes.push_back(box);
    }
    return kept;
  }

 private:
  /// Returns the box of an anchor at a position, with its four numbers `stride` elements apart.
  Corners<T> MovedAnchor(const Corners<float>& anchor, T x, T y, const T* moves,
                         index_t stride) const {
    const T d[4] = {moves[0], moves[stride], moves[2 * stride], moves[3 * stride]};
    Corners<T> box = {anchor[0] + x, anchor[1] + y, anchor[2] + x, anchor[3] + y};
    for (const size_t axis : {0, 1}) {
      T &first = box[axis], &last = box[axis + 2];
      if (p_.iou_loss) {
        first += d[axis];
        last += d[axis + 2];
      } else {
        const T size = last - first + 1;
        const T centre = first + (size - 1) / 2 + d[axis] * size;
        const T half = (std::exp(d[axis + 2]) * size - 1) / 2;
        first = centre - half;
        last = centre + half;
      }
      const T end = (axis == 0 ? width_ : height_) - 1;
      first = std::max(std::min(first, end), T(0));
      last = std::max(std::min(last, end), T(0));
    }
    return box;
  }

  void GrowIfSmall(Candidate<T>* candidate) const {
    const T least = static_cast<T>(p_.rpn_min_size) * scale_;
    if (!(candidate->Width() < least || candidate->Height() < least)) return;
    Corners<T>& box = candidate->box;
    for (const size_t axis : {0, 1}) {
      box[axis] -= least / 2;
      box[axis + 2] += least / 2;
    }
    candidate->score = -1;
  }

  const ProposalParameters& p_;
  const T height_, width_, scale_;
  std::vector<Candidate<T>> candidates_;
};

class ProposalOperator final : public Operator {
 public:
  explicit ProposalOperator(const ProposalParameters& param) : p_(param) {}

  void Forward(const OpContext&, std::span<const TBlob> in_data, std::span<const OpReqType> req,
               std::span<const TBlob> out_data) override {
    if (out_data[0].shape_.Size() == 0) return;
    VisitComputedIn(ComputedInReal(in_data[0].type_flag_), [&](auto one) {
      using T = decltype(one);
      const TShape& map = in_data[0].shape_;
      const Elements<T> prob(in_data[0]), pred(in_data[1]), info(in_data[2]);
      for (index_t n = 0; n < map[0]; ++n) CheckSize(n, info.data() + 3 * n, map);
      const index_t size = map[1] * map[2] * map[3];
      ParallelFor(map[0], StepsPerTask(size, kCost), [&](index_t begin, index_t end) {
        for (index_t n = begin; n < end; ++n) {
          std::vector<Candidate<T>> best =
              ImageBoxes<T>(p_, prob.data() + n * size, pred.data() + 2 * n * size,
                            info.data() + 3 * n, map[2], map[3])
                  .Best();
          if (best.empty()) best.emplace_back();
          Write(n, best, req, out_data);
        }
      });
    });
  }

 private:
  static constexpr index_t kCost = 64;

  template <typename T>
  void CheckSize(index_t n, const T* info, const TShape& map) const {
    for (const int axis : {0, 1}) {
      // NaN is refused.
      if (std::floor(info[axis] / static_cast<T>(p_.feature_stride)) <=
          static_cast<T>(map[axis + 2])) {
        continue;
      }
      throw OutOfRange("im_info[", n, "] has ", axis == 0 ? "height " : "width ", info[axis],
                       ", which the ", map[axis + 2], axis == 0 ? " rows" : " columns",
                       " of cls_prob of shape ", map, " with feature_stride=", p_.feature_stride,
                       " do not cover");
    }
  }

  /// Writes the rows of image n.
  template <typename T>
  void Write(index_t n, const std::vector<Candidate<T>>& best, std::span<const OpReqType> req,
             std::span<const TBlob> out_data) const {
    for (index_t i = 0; i < p_.rpn_post_nms_top_n; ++i) {
      const Candidate<T>& c = best[static_cast<size_t>(i) % best.size()];
      const T row[] = {static_cast<T>(n), c.box[0], c.box[1], c.box[2], c.box[3]};
      const index_t at = n * p_.rpn_post_nms_top_n + i;
      Store(row, 5, req[0], out_data[0], 5 * at);
      Store(&c.score, 1, req[1], out_data[1], at);
    }
  }
  template <typename T>
  static void Store(const T* values, index_t count, OpReqType req, const TBlob& out, index_t at) {
    if (req == kNullOp) return;
    RowWriter<T>(out, req).Write(at, count, values);
  }

  const ProposalParameters p_;
};

[[maybe_unused]] const bool kRegistered =
    RegisterTypedOperator<ProposalProperty<Images::kOne>, ProposalOperator>(
        TESSERA_TABLE_PLACE, "_contrib_Proposal", "The boxes of an image that may hold objects.") &&
    RegisterTypedOperator<ProposalProperty<Images::kMany>, ProposalOperator>(
        TESSERA_TABLE_PLACE, "_contrib_MultiProposal",
        "The boxes of each of several images that may hold objects.");

}  // namespace
}  // namespace tessera
