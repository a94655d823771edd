// _contrib_box_encode, _contrib_box_decode: boxes relative to anchors, and back.
//
//   encode  output0[b][i] = (offsets of refs[b][matches[b][i]] from anchors[b][i] - means) / stds
//           output1[b][i] = 1; both are 0 unless samples[b][i] > 0.5
//   decode  output[b][i] = the box with the offsets data[b][i] * (std0, std1, std2, std3) from
//           anchors[0][i]
//
// anchors.h defines the offsets. The fraction of a match is cut off. The match of a sample above
// 0.5 must be the position of a ref. Boxes are (left, top, right, bottom); decode's anchors may
// have another format. A clip > 0 is the upper bound of the scaled logarithms of width and height.
// Gradients are 0. Shapes: samples, matches (batch, n), anchors (batch, n, 4), refs (batch, m, 4),
// means and stds (4), output0 and output1 (batch, n, 4); data and output (batch, n, 4) with anchors
// (1, n, 4). Types: float32, float64, float16, bfloat16; the last two are computed in float32. Runs
// on the CPU.
#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include "tessera/ops/loops/elements.h"
#include "tessera/ops/loops/row_call.h"
#include "tessera/ops/typed_operator.h"
#include "tessera/ops/vision/boxes/anchor_shapes.h"
#include "tessera/ops/vision/boxes/anchors.h"
#include "tessera/ops/zero_gradient.h"
#include "tessera/tensor/device/parallel.h"

namespace tessera {
namespace {

using namespace ops_internal;  // NOLINT: anchors and registration

// The cost of a logarithm or an exponential for each number, see tensor/expr/cost.h.
constexpr index_t kCost = 16;

class BoxEncodeProperty final : public ZeroGradientProperty<NoParameters> {
 public:
  std::vector<std::string> ListArguments() const override {
    return {"samples", "matches", "anchors", "refs", "means", "stds"};
  }
  std::vector<std::string> ListOutputs() const override { return {"output0", "output1"}; }

  bool InferShape(std::vector<TShape>* in_shape, std::vector<TShape>* out_shape) const override {
    using A = AnchorArray;
    std::vector<TShape>&in = *in_shape, &out = *out_shape;
    return InferAnchorShapes(*this, {{"samples", &in[0], {A::kSamples, A::kAnchors}},
                                     {"matches", &in[1], {A::kSamples, A::kAnchors}},
                                     {"anchors", &in[2], {A::kSamples, A::kAnchors, 4}},
                                     {"refs", &in[3], {A::kSamples, A::kAny, 4}},
                                     {"means", &in[4], {4}},
                                     {"stds", &in[5], {4}},
                                     {"output0", &out[0], {A::kSamples, A::kAnchors, 4}},
                                     {"output1", &out[1], {A::kSamples, A::kAnchors, 4}}});
  }
};

class BoxEncodeOperator final : public Operator {
 public:
  explicit BoxEncodeOperator(const NoParameters&) {}

  void Forward(const OpContext&, std::span<const TBlob> in_data, std::span<const OpReqType> req,
               std::span<const TBlob> out_data) override {
    if (in_data[0].shape_.Size() == 0) return;
    VisitComputedIn(ComputedInReal(in_data[0].type_flag_), [&](auto one) {
      using T = decltype(one);
      const Inputs<T> in(in_data);
      in.CheckMatches();
      ParallelFor(in.batch, StepsPerTask(in.count * 4, kCost), [&](index_t begin, index_t end) {
        std::vector<T> targets(static_cast<size_t>(in.count) * 4), masks(targets.size());
        for (index_t b = begin; b < end; ++b) {
          in.Encode(b, &targets, &masks);
          StoreLine(targets, b, req[0], out_data[0]);
          StoreLine(masks, b, req[1], out_data[1]);
        }
      });
    });
  }

 private:
  template <typename T>
  struct Inputs {
    explicit Inputs(std::span<const TBlob> in)
        : batch(in[0].shape_[0]),
          count(in[0].shape_[1]),
          num_refs(in[3].shape_[1]),
          samples(in[0]),
          matches(in[1]),
          anchors(in[2]),
          refs(in[3]),
          means(in[4]),
          stds(in[5]) {}

    bool TakesPart(index_t i) const { return samples.data()[i] > T(0.5); }

    /// Throws Error(kInvalidArgument) for a match that is wanted and is not the position of a ref.
    void CheckMatches() const {
      for (index_t i = 0; i < batch * count; ++i) {
        const T match = matches.data()[i];
        if (!TakesPart(i) || (match > T(-1) && match < static_cast<T>(num_refs))) continue;
        throw InvalidArgument("matches: element (", i / count, ",", i % count, ") is ", match,
                              ", expected a position among ", num_refs, " refs");
      }
    }

    void Encode(index_t b, std::vector<T>* targets, std::vector<T>* masks) const {
      std::fill(targets->begin(), targets->end(), T(0));
      std::fill(masks->begin(), masks->end(), T(0));
      for (index_t i = 0; i < count; ++i) {
        const index_t n = b * count + i;
        if (!TakesPart(n)) continue;
        const index_t ref = b * num_refs + static_cast<index_t>(matches.data()[n]);
        const std::array<T, 4> offsets =
            OffsetsOf(CenteredBox<T>(refs.data() + 4 * ref, BoxFormat::kCorner),
                      CenteredBox<T>(anchors.data() + 4 * n, BoxFormat::kCorner));
        for (size_t k = 0; k < 4; ++k) {
          const size_t to = 4 * static_cast<size_t>(i) + k;
          (*targets)[to] = (offsets[k] - means.data()[k]) / stds.data()[k];
          (*masks)[to] = T(1);
        }
      }
    }

    const index_t batch, count, num_refs;
    const Elements<T> samples, matches, anchors, refs, means, stds;
  };
};

struct BoxDecodeParameters {
  float std0 = 1;
  float std1 = 1;
  float std2 = 1;
  float std3 = 1;
  float clip = -1;
  BoxFormat format = BoxFormat::kCenter;

  static void Declare(ParameterSchema<BoxDecodeParameters>& schema) {
    using P = BoxDecodeParameters;
    schema.Optional("std0", &P::std0, "the factor of the offset along x");
    schema.Optional("std1", &P::std1, "the factor of the offset along y");
    schema.Optional("std2", &P::std2, "the factor of the width's logarithm");
    schema.Optional("std3", &P::std3, "the factor of the height's logarithm");
    schema.Optional("clip", &P::clip, "the upper bound of the logarithms; none if not positive");
    DeclareBoxFormat(schema, "format", &P::format, "the meaning of an anchor's four numbers");
  }
};

class BoxDecodeProperty final : public ZeroGradientProperty<BoxDecodeParameters> {
 public:
  std::vector<std::string> ListArguments() const override { return {"data", "anchors"}; }

  bool InferShape(std::vector<TShape>* in_shape, std::vector<TShape>* out_shape) const override {
    using A = AnchorArray;
    return InferAnchorShapes(*this, {{"data", &(*in_shape)[0], {A::kSamples, A::kAnchors, 4}},
                                     {"anchors", &(*in_shape)[1], {1, A::kAnchors, 4}},
                                     {"output", &(*out_shape)[0], {A::kSamples, A::kAnchors, 4}}});
  }
};

class BoxDecodeOperator final : public Operator {
 public:
  explicit BoxDecodeOperator(const BoxDecodeParameters& param) : param_(param) {}

  void Forward(const OpContext&, std::span<const TBlob> in_data, std::span<const OpReqType> req,
               std::span<const TBlob> out_data) override {
    const TBlob& out = out_data[0];
    if (req[0] == kNullOp || out.shape_.Size() == 0) return;
    const index_t count = out.shape_[1];
    VisitComputedIn(ComputedInReal(out.type_flag_), [&](auto one) {
      using T = decltype(one);
      const Elements<T> data(in_data[0]), anchors(in_data[1]);
      ParallelFor(out.shape_[0], StepsPerTask(count * 4, kCost), [&](index_t begin, index_t end) {
        std::vector<T> boxes(static_cast<size_t>(count) * 4);
        for (index_t b = begin; b < end; ++b) {
          for (index_t i = 0; i < count; ++i) {
            Decode(data.data() + 4 * (b * count + i), anchors.data() + 4 * i, boxes.data() + 4 * i);
          }
          StoreLine(boxes, b, req[0], out);
        }
      });
    });
  }

 private:
  template <typename T>
  void Decode(const T* data, const T* anchor, T* corners) const {
    std::array<T, 4> offsets = {data[0] * T(param_.std0), data[1] * T(param_.std1),
                                data[2] * T(param_.std2), data[3] * T(param_.std3)};
    if (param_.clip > 0) {
      for (const size_t k : {2, 3}) offsets[k] = std::min(offsets[k], T(param_.clip));
    }
    WriteCorners(offsets, CenteredBox<T>(anchor, param_.format), corners);
  }

  const BoxDecodeParameters param_;
};

[[maybe_unused]] const bool kRegistered[] = {
    RegisterTypedOperator<BoxEncodeProperty, BoxEncodeOperator>(
        TESSERA_TABLE_PLACE, "_contrib_box_encode", "Matched boxes relative to anchors."),
    RegisterTypedOperator<BoxDecodeProperty, BoxDecodeOperator>(
        TESSERA_TABLE_PLACE, "_contrib_box_decode", "Boxes that are given relative to anchors."),
};

}  // namespace
}  // namespace tessera
