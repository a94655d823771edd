// _contrib_MultiBoxDetection: the objects that a network's scores and offsets describe (Liu et al.
// 2016).
//
//   output[b][i] = (class, score, left, top, right, bottom), or -1 in all six
//
// Row 0 of cls_prob[b] is the background; background_id has no effect, as in MXNet. An anchor's
// class is the number of the highest score among the other rows, counted from 0. Anchors whose
// score is below threshold, or at most -1, are left out. An anchor's box has the offsets
// loc_pred * variances from the anchor (anchors.h). With clip, corners are limited to [0, 1].
//
// Rows are in the anchors' order unless 0 < nms_threshold <= 1. Then they are sorted by descending
// score; equal scores keep their order. A row gets the class -1 if it overlaps an earlier row of
// its class, with force_suppress of any class, by nms_threshold or more (boxes.h: OverlapOf). Rows
// of class -1 suppress no others. With nms_topk > 0, only the first nms_topk rows take part. The
// rows behind them stay as they were before sorting, except for the class -1, as in MXNet.
//
// Gradients are 0. Shapes: cls_prob (batch, classes, n), loc_pred (batch, 4 n), anchor (1, n, 4),
// output (batch, n, 6). Types: float32, float64, float16, bfloat16; the last two are computed in
// float32. Runs on the CPU.
#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include "tessera/ops/loops/elements.h"
#include "tessera/ops/loops/row_call.h"
#include "tessera/ops/typed_operator.h"
#include "tessera/ops/vision/boxes/anchor_shapes.h"
#include "tessera/ops/vision/boxes/anchors.h"
#include "tessera/ops/vision/regions/boxes.h"
#include "tessera/ops/zero_gradient.h"
#include "tessera/tensor/device/parallel.h"

namespace tessera {
namespace {

using namespace ops_internal;  // NOLINT: anchors and registration

struct MultiBoxDetectionParameters {
  bool clip = true;
  float threshold = 0.01f;
  int64_t background_id = 0;
  float nms_threshold = 0.5f;
  bool force_suppress = false;
  std::vector<float> variances = {0.1f, 0.1f, 0.2f, 0.2f};
  int64_t nms_topk = -1;

  static void Declare(ParameterSchema<MultiBoxDetectionParameters>& schema) {
    using P = MultiBoxDetectionParameters;
    schema.Optional("clip", &P::clip, "whether corners are limited to [0, 1]");
    schema.Optional("threshold", &P::threshold, "the least score of an object");
    schema.Optional("background_id", &P::background_id,
                    "without effect, as in MXNet: class 0 is the background");
    schema.Optional("nms_threshold", &P::nms_threshold,
                    "the overlap from which the box of the lower score is left out; no box is if "
                    "it is not in (0, 1]");
    schema.Optional("force_suppress", &P::force_suppress,
                    "whether boxes of different classes leave each other out");
    schema.Optional("variances", &P::variances, "the factors of the four offsets");
    schema.Optional("nms_topk", &P::nms_topk, "how many boxes take part; all if not positive");
  }
};

class MultiBoxDetectionProperty final : public ZeroGradientProperty<MultiBoxDetectionParameters> {
 public:
  std::vector<std::string> ListArguments() const override {
    return {"cls_prob", "loc_pred", "anchor"};
  }
  bool InferShape(std::vector<TShape>* in_shape, std::vector<TShape>* out_shape) const override {
    using A = AnchorArray;
    return InferAnchorShapes(*this,
                             {{"cls_prob", &(*in_shape)[0], {A::kSamples, A::kAny, A::kAnchors}},
                              {"loc_pred", &(*in_shape)[1], {A::kSamples, A::kCoordinates}},
                              {"anchor", &(*in_shape)[2], {1, A::kAnchors, 4}},
                              {"output", &(*out_shape)[0], {A::kSamples, A::kAnchors, 6}}});
  }

 private:
  void CheckParameters() override { CheckVariances(*this, param_.variances); }
};

/// A row of the output.
template <typename T>
struct Detection {
  T class_id = -1;
  T score = -1;
  std::array<T, 4> corners = {-1, -1, -1, -1};
};

/// The class of an anchor that is most probable besides the background.
template <typename T>
struct BestClass {
  index_t class_id = -1;
  T score = -1;
};

class MultiBoxDetectionOperator final : public Operator {
 public:
  explicit MultiBoxDetectionOperator(const MultiBoxDetectionParameters& param) : param_(param) {}

  void Forward(const OpContext&, std::span<const TBlob> in_data, std::span<const OpReqType> req,
               std::span<const TBlob> out_data) override {
    const TBlob& out = out_data[0];
    if (req[0] == kNullOp || out.shape_.Size() == 0) return;
    const index_t count = out.shape_[1], classes = in_data[0].shape_[1];
    VisitComputedIn(ComputedInReal(out.type_flag_), [&](auto one) {
      using T = decltype(one);
      const Elements<T> scores(in_data[0]), offsets(in_data[1]), anchors(in_data[2]);
      constexpr index_t kCost = 16;
      ParallelFor(out.shape_[0], StepsPerTask(count * (classes + 6), kCost),
                  [&](index_t begin, index_t end) {
                    for (index_t b = begin; b < end; ++b) {
                      const auto best =
                          BestClasses(scores.data() + b * classes * count, classes, count);
                      std::vector<Detection<T>> rows =
                          Detect(best, offsets.data() + b * 4 * count, anchors.data());
                      if (param_.nms_threshold > 0 && param_.nms_threshold <= 1) Suppress(&rows);
                      rows.resize(static_cast<size_t>(count));
                      StoreLine(LineOf(rows), b, req[0], out);
                    }
                  });
    });
  }

 private:
  template <typename T>
  static std::vector<BestClass<T>> BestClasses(const T* scores, index_t classes, index_t count) {
    std::vector<BestClass<T>> best(static_cast<size_t>(count));
    for (index_t c = 1; c < classes; ++c) {
      const T* const line = scores + c * count;
      for (size_t i = 0; i < best.size(); ++i) {
        if (line[i] > best[i].score) best[i] = {c - 1, line[i]};
      }
    }
    return best;
  }

  /// Returns the detections in the anchors' order.
  template <typename T>
  std::vector<Detection<T>> Detect(const std::vector<BestClass<T>>& best, const T* offsets,
                                   const T* anchors) const {
    std::vector<Detection<T>> rows;
    for (size_t i = 0; i < best.size(); ++i) {
      if (best[i].class_id < 0 || !(best[i].score >= T(param_.threshold))) continue;
      std::array<T, 4> scaled;
      for (size_t k = 0; k < 4; ++k) scaled[k] = offsets[4 * i + k] * T(param_.variances[k]);
      Detection<T>& row = rows.emplace_back();
      row.class_id = static_cast<T>(best[i].class_id);
      row.score = best[i].score;
      WriteCorners(scaled, CenteredBox<T>(anchors + 4 * i, BoxFormat::kCorner), row.corners.data());
      if (!param_.clip) continue;
      for (T& corner : row.corners) corner = std::min(std::max(corner, T(0)), T(1));
    }
    return rows;
  }

  /// Sorts the rows and gives those that are left out the class -1.
  template <typename T>
  void Suppress(std::vector<Detection<T>>* rows) const {
    std::vector<Detection<T>> sorted = *rows;
    std::stable_sort(sorted.begin(), sorted.end(),
                     [](const auto& a, const auto& b) { return a.score > b.score; });
    if (param_.nms_topk > 0 && param_.nms_topk < static_cast<int64_t>(sorted.size())) {
      sorted.resize(static_cast<size_t>(param_.nms_topk));
    }
    struct Kept {
      Box<T> box;
      T class_id;
    };
    std::vector<Kept> kept;
    for (Detection<T>& row : sorted) {
      const Kept candidate = {Box<T>(row.corners.data(), BoxFormat::kCorner), row.class_id};
      const bool left_out = std::any_of(kept.begin(), kept.end(), [&](const Kept& other) {
        return (param_.force_suppress || other.class_id == candidate.class_id) &&
               OverlapOf(other.box, candidate.box) >= T(param_.nms_threshold);
      });
      if (left_out) {
        row.class_id = -1;
      } else {
        kept.push_back(candidate);
      }
    }
    const auto behind = std::copy(sorted.begin(), sorted.end(), rows->begin());
    std::for_each(behind, rows->end(), [](Detection<T>& row) { row.class_id = -1; });
  }

  template <typename T>
  static std::vector<T> LineOf(const std::vector<Detection<T>>& rows) {
    std::vector<T> line;
    line.reserve(rows.size() * 6);
    for (const Detection<T>& row : rows) {
      line.insert(line.end(), {row.class_id, row.score});
      line.insert(line.end(), row.corners.begin(), row.corners.end());
    }
    return line;
  }

  const MultiBoxDetectionParameters param_;
};

[[maybe_unused]] const bool kRegistered =
    RegisterTypedOperator<MultiBoxDetectionProperty, MultiBoxDetectionOperator>(
        TESSERA_TABLE_PLACE, "_contrib_MultiBoxDetection",
        "Objects of the best scores, without those that overlap a better one.");

}  // namespace
}  // namespace tessera
