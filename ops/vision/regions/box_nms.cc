// _contrib_box_nms: boxes without those that overlap a better one (non-maximum suppression).
//
//   output0 = the kept rows of data, those of the highest score first, then rows of -1
//   d data = each kept row's gradient; 0 for the others
//
// A row of data is a box with a score, perhaps a class, and other numbers. Rows with a score above
// valid_thresh and, if they have a class, one other than background_id take part; of them, if topk
// > 0, the topk with the highest scores. valid_thresh has data's type, so that the float16 next to
// 0.3 is not above 0.3. A row is kept unless it overlaps a kept row before it by more than
// overlap_thresh (boxes.h: OverlapOf); without force_suppress, rows of different classes do not
// count, which are integers: 0.5 and 0 are one class, but 0.5 is not background_id = 0. Equal
// scores keep their order. The coordinates of kept rows are written in out_format, which the
// gradient does not regard, as in MXNet. With topk = 0, the output is data. Shapes: data and
// output0 (…, boxes, numbers); the hidden output (…, boxes, 1) holds the kept rows' numbers, or -1.
// Types: float32, float64, float16, bfloat16; the last two are compared in float32; the hidden
// output int64. Runs on the CPU.
#include <algorithm>
#include <string>
#include <vector>

#include "tessera/ops/loops/convert_row.h"
#include "tessera/ops/loops/elements.h"
#include "tessera/ops/loops/movement.h"
#include "tessera/ops/loops/row_call.h"
#include "tessera/ops/loops/typed_row.h"
#include "tessera/ops/typed_operator.h"
#include "tessera/ops/vision/regions/boxes.h"
#include "tessera/tensor/device/parallel.h"

namespace tessera {
namespace {

using namespace ops_internal;  // NOLINT: boxes and registration

struct BoxNmsParameters {
  float overlap_thresh = 0.5f;
  float valid_thresh = 0;
  int64_t topk = -1;
  int64_t coord_start = 2;
  int64_t score_index = 1;
  int64_t id_index = -1;
  int64_t background_id = -1;
  bool force_suppress = false;
  BoxFormat in_format = BoxFormat::kCorner;
  BoxFormat out_format = BoxFormat::kCorner;

  static void Declare(ParameterSchema<BoxNmsParameters>& schema) {
    using P = BoxNmsParameters;
    schema.Optional("overlap_thresh", &P::overlap_thresh,
                    "the overlap above which the box of the lower score is left out");
    schema.Optional("valid_thresh", &P::valid_thresh, "the score that a box must exceed");
    schema.Optional("topk", &P::topk, "how many boxes take part; -1: all");
    schema.Optional("coord_start", &P::coord_start, "the place of a box's four coordinates");
    schema.Range(0, 1 << 30);
    schema.Optional("score_index", &P::score_index, "the place of its score");
    schema.Range(0, 1 << 30);
    schema.Optional("id_index", &P::id_index, "the place of its class; -1 if it has none");
    schema.Optional("background_id", &P::background_id, "the class of rows that are left out");
    schema.Optional("force_suppress", &P::force_suppress,
                    "whether boxes of different classes leave each other out");
    DeclareBoxFormat(schema, "in_format", &P::in_format, "the meaning of data's coordinates");
    DeclareBoxFormat(schema, "out_format", &P::out_format, "that of the output's");
  }
  bool HasClasses() const { return id_index >= 0; }
};

class BoxNmsProperty final : public ParameterizedProperty<BoxNmsParameters> {
 public:
  std::vector<std::string> ListOutputs() const override { return {"output0", "output1"}; }
  int NumVisibleOutputs() const override { return 1; }

  bool InferShape(std::vector<TShape>* in_shape, std::vector<TShape>* out_shape) const override {
    TShape &data = (*in_shape)[0], &out = (*out_shape)[0], &rows = (*out_shape)[1];
    if (!data.rank_known() && rows.rank_known()) data = TShape::OfRank(rows.ndim());
    MergeEqualShapes(*this, {{"data", &data}, {"output0", &out}});
    if (!data.rank_known()) return false;
    const int last = data.ndim() - 1;
    if (last < 1) {
      throw InvalidArgument(TypeString(), ": data has shape ", data,
                            ", expected (..., boxes, numbers)");
    }
    CheckWidth(data);
    TShape known = data;
    known[last] = 1;
    MergeShape(*this, "output1", &rows, known);
    for (int i = 0; i < last; ++i) data[i] = out[i] = rows[i];
    return data.known();
  }
  bool InferType(std::vector<DType>* in_type, std::vector<DType>* out_type) const override {
    MergeType(*this, "data", &(*in_type)[0], (*out_type)[0]);
    MergeType(*this, "output0", &(*out_type)[0], (*in_type)[0]);
    MergeType(*this, "output1", &(*out_type)[1], DType::kInt64);
    return (*in_type)[0] != DType::kUnknown;
  }
  std::vector<int> DeclareBackwardDependency(std::span<const int> out_grad, std::span<const int>,
                                             std::span<const int> out_data) const override {
    return {out_grad[0], out_data[1]};
  }

 private:
  void CheckParameters() override {
    const auto in_box = [this](int64_t i) {
      return i >= param_.coord_start && i < param_.coord_start + 4;
    };
    if (in_box(param_.score_index)) {
      throw InvalidArgument(TypeString(), ": score_index=", param_.score_index,
                            " is one of the coordinates, from coord_start=", param_.coord_start);
    }
    if (param_.HasClasses() && (in_box(param_.id_index) || param_.id_index == param_.score_index)) {
      throw InvalidArgument(TypeString(), ": id_index=", param_.id_index,
                            " is the score's or a coordinate's place, with score_index=",
                            param_.score_index, " and coord_start=", param_.coord_start);
    }
  }

  void CheckWidth(const TShape& data) const {
    const index_t width = data[data.ndim() - 1];
    const auto check = [&](std::string_view name, int64_t value, int64_t count) {
      if (width == TShape::kUnknown || value + count <= width) return;
      throw InvalidArgument(TypeString(), ": ", name, "=", value,
                            " is beyond a row of data of shape ", data, ", which has ", width,
                            " numbers");
    };
    check("coord_start", param_.coord_start, 4);
    check("score_index", param_.score_index, 1);
    if (param_.HasClasses()) check("id_index", std::min<int64_t>(param_.id_index, 1 << 30), 1);
  }
};

class BoxNmsOperator final : public Operator {
 public:
  explicit BoxNmsOperator(const BoxNmsParameters& param) : param_(param) {}

  void Forward(const OpContext&, std::span<const TBlob> in_data, std::span<const OpReqType> req,
               std::span<const TBlob> out_data) override {
    if (in_data[0].shape_.Size() == 0) return;
    VisitComputedIn(ComputedInReal(in_data[0].type_flag_), [&](auto one) {
      using T = decltype(one);
      const Rows rows(in_data[0].shape_);
      const Elements<T> data(in_data[0]);
      const auto threshold = static_cast<T>(RoundedTo(in_data[0].type_flag_, param_.valid_thresh));
      ParallelFor(rows.batch, StepsPerTask(rows.count * rows.count),
                  [&](index_t begin, index_t end) {
                    for (index_t n = begin; n < end; ++n) {
                      const T* const boxes = data.data() + n * rows.count * rows.width;
                      std::vector<int64_t> kept = Keep(boxes, rows, threshold);
                      if (req[0] != kNullOp) WriteRows(boxes, rows, kept, n, req[0], out_data[0]);
                      if (req[1] == kNullOp) continue;
                      kept.resize(static_cast<size_t>(rows.count), -1);
                      RowWriter<int64_t>(out_data[1], req[1])
                          .Write(n * rows.count, rows.count, kept.data());
                    }
                  });
    });
  }

  void Backward(const OpContext&, std::span<const TBlob> out_grad, std::span<const TBlob>,
                std::span<const TBlob> out_data, std::span<const OpReqType> req,
                std::span<const TBlob> in_grad) override {
    if (req[0] == kNullOp || in_grad[0].shape_.Size() == 0) return;
    const TBlob& grad = in_grad[0];
    VisitComputedIn(ComputedInReal(grad.type_flag_), [&](auto one) {
      using T = decltype(one);
      const Rows rows(grad.shape_);
      const Elements<T> g(out_grad[0]);
      const auto* const kept = static_cast<const int64_t*>(out_data[1].dptr_);
      const index_t size = rows.count * rows.width;
      ParallelFor(rows.batch, StepsPerTask(size), [&](index_t begin, index_t end) {
        std::vector<T> sums(static_cast<size_t>(size));
        for (index_t n = begin; n < end; ++n) {
          std::fill(sums.begin(), sums.end(), T(0));
          for (index_t i = 0; i < rows.count; ++i) {
            const int64_t row = kept[n * rows.count + i];
            if (row < 0) continue;
            std::copy_n(g.data() + (n * rows.count + i) * rows.width, rows.width,
                        sums.data() + row * rows.width);
          }
          RowWriter<T>(grad, req[0]).Write(n * size, size, sums.data());
        }
      });
    });
  }

 private:
  /// Arrays of `count` rows of `width` numbers.
  struct Rows {
    explicit Rows(const TShape& shape)
        : batch(shape.ProdShape(0, shape.ndim() - 2)),
          count(shape[shape.ndim() - 2]),
          width(shape[shape.ndim() - 1]) {}
    index_t batch, count, width;
  };

  /// Returns the numbers of the kept rows, in the output's order. `threshold` is the score that a
  /// row must exceed.
  template <typename T>
  std::vector<int64_t> Keep(const T* boxes, const Rows& rows, T threshold) const {
    std::vector<int64_t> order;
    for (index_t i = 0; i < rows.count; ++i) {
      if (param_.topk == 0 || TakesPart(boxes + i * rows.width, threshold)) order.push_back(i);
    }
    if (param_.topk == 0) return order;
    std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
      return boxes[a * rows.width + param_.score_index] >
             boxes[b * rows.width + param_.score_index];
    });
    if (param_.topk > 0 && param_.topk < static_cast<int64_t>(order.size())) {
      order.resize(static_cast<size_t>(param_.topk));
    }
    std::vector<int64_t> kept;
    std::vector<Candidate<T>> before;
    for (const int64_t i : order) {
      const T* const row = boxes + i * rows.width;
      const Candidate<T> candidate = {Box<T>(row + param_.coord_start, param_.in_format),
                                      ClassOf(row)};
      const bool left_out =
          std::any_of(before.begin(), before.end(), [&](const Candidate<T>& other) {
            return (param_.force_suppress || other.class_id == candidate.class_id) &&
                   OverlapOf(other.box, candidate.box) > static_cast<T>(param_.overlap_thresh);
          });
      if (left_out) continue;
      before.push_back(candidate);
      kept.push_back(i);
    }
    return kept;
  }

  template <typename T>
  struct Candidate {
    Box<T> box;
    int64_t class_id;
  };

  template <typename T>
  bool TakesPart(const T* row, T threshold) const {
    const bool background =
        param_.HasClasses() && row[param_.id_index] == static_cast<T>(param_.background_id);
    return row[param_.score_index] > threshold && !background;
  }
  template <typename T>
  int64_t ClassOf(const T* row) const {
    if (!param_.HasClasses()) return 0;
    int64_t id;
    LoadIndices(row + param_.id_index, kDTypeOf<T>, 1, &id);
    return id;
  }

  /// Writes the output's rows of sample n.
  template <typename T>
  void WriteRows(const T* boxes, const Rows& rows, const std::vector<int64_t>& kept, index_t n,
                 OpReqType req, const TBlob& out) const {
    std::vector<T> line(static_cast<size_t>(rows.width));
    for (index_t i = 0; i < rows.count; ++i) {
      if (static_cast<size_t>(i) < kept.size()) {
        std::copy_n(boxes + kept[static_cast<size_t>(i)] * rows.width, rows.width, line.data());
        if (param_.topk != 0) Convert(line.data() + param_.coord_start);
      } else {
        std::fill(line.begin(), line.end(), T(-1));
      }
      StoreLine(line, n * rows.count + i, req, out);
    }
  }

  /// Converts a box's coordinates to the output's format.
  template <typename T>
  void Convert(T* box) const {
    if (param_.in_format == param_.out_format) return;
    for (const int axis : {0, 1}) {
      const T a = box[axis], b = box[axis + 2];
      const bool to_center = param_.out_format == BoxFormat::kCenter;
      box[axis] = to_center ? (a + b) / 2 : a - b / 2;
      box[axis + 2] = to_center ? b - a : a + b / 2;
    }
  }

  const BoxNmsParameters param_;
};

[[maybe_unused]] const bool kRegistered = RegisterTypedOperator<BoxNmsProperty, BoxNmsOperator>(
    TESSERA_TABLE_PLACE, "_contrib_box_nms", "Boxes without those that overlap a better one.");

}  // namespace
}  // namespace tessera
