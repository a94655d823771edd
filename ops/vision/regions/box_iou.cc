// _contrib_box_iou: the overlap of boxes, each of lhs with each of rhs.
//
//   out[i][j] = |lhs[i] and rhs[j]| / |lhs[i] or rhs[j]|, areas; 0 if they do not overlap
//
// A box is (left, top, right, bottom) in the format corner, (x, y, width, height) with the centre's
// place in the format center. The gradient is 0, as in MXNet. Shapes: lhs (m…, 4), rhs (n…, 4), out
// (m…, n…), each with one axis or more before the 4, and out with at most eight, which arrays here
// have. Types: float32, float64, float16, bfloat16; the last two are computed in float32. Runs on
// the CPU.
#include <string>
#include <vector>

#include "tessera/ops/loops/elements.h"
#include "tessera/ops/loops/row_call.h"
#include "tessera/ops/loops/row_loop.h"
#include "tessera/ops/loops/typed_row.h"
#include "tessera/ops/typed_operator.h"
#include "tessera/ops/vision/regions/boxes.h"
#include "tessera/ops/zero_gradient.h"
#include "tessera/tensor/device/parallel.h"

namespace tessera {
namespace {

using namespace ops_internal;  // NOLINT: rows and registration

struct BoxIouParameters {
  BoxFormat format = BoxFormat::kCorner;

  static void Declare(ParameterSchema<BoxIouParameters>& schema) {
    DeclareBoxFormat(schema, "format", &BoxIouParameters::format,
                     "a box's four numbers: two corners, or its centre and size");
  }
};

class BoxIouProperty final : public ZeroGradientProperty<BoxIouParameters> {
 public:
  std::vector<std::string> ListArguments() const override { return {"lhs", "rhs"}; }
  bool InferShape(std::vector<TShape>* in_shape, std::vector<TShape>* out_shape) const override {
    std::vector<index_t> extents;
    bool ranks_known = true;
    for (size_t i = 0; i < 2; ++i) {
      TShape& boxes = (*in_shape)[i];
      const std::string name = ListArguments()[i];
      if (!boxes.rank_known()) {
        ranks_known = false;
        continue;
      }
      if (boxes.ndim() < 2) {
        throw InvalidArgument(TypeString(), ": ", name, " has shape ", boxes,
                              ", expected two axes or more, of which the last has 4 elements");
      }
      TShape known = TShape::OfRank(boxes.ndim());
      known[boxes.ndim() - 1] = 4;
      MergeShape(*this, name, &boxes, known);
      extents.insert(extents.end(), boxes.begin(), boxes.end() - 1);
    }
    if (!ranks_known) return false;
    if (extents.size() > TShape::kMaxRank) {
      throw InvalidArgument(TypeString(), ": lhs of shape ", (*in_shape)[0], " and rhs of shape ",
                            (*in_shape)[1], " give ", extents.size(), " axes, expected at most ",
                            TShape::kMaxRank);
    }
    TShape& out = (*out_shape)[0];
    MergeShape(*this, "output", &out, TShape(std::span<const index_t>(extents)));
    int axis = 0;
    for (TShape& boxes : *in_shape) {
      for (int i = 0; i + 1 < boxes.ndim(); ++i) boxes[i] = out[axis++];
    }
    return out.known();
  }
};

template <typename T>
std::vector<Box<T>> ReadBoxes(const TBlob& array, BoxFormat format) {
  const Elements<T> numbers(array);
  std::vector<Box<T>> boxes;
  const index_t size = array.shape_.Size();
  boxes.reserve(static_cast<size_t>(size / 4));
  for (index_t i = 0; i < size; i += 4) boxes.emplace_back(numbers.data() + i, format);
  return boxes;
}

class BoxIouOperator final : public Operator {
 public:
  explicit BoxIouOperator(const BoxIouParameters& param) : format_(param.format) {}

  void Forward(const OpContext&, std::span<const TBlob> in_data, std::span<const OpReqType> req,
               std::span<const TBlob> out_data) override {
    if (req[0] == kNullOp) return;
    const TBlob& out = out_data[0];
    VisitComputedIn(ComputedInReal(out.type_flag_), [&](auto one) {
      using T = decltype(one);
      const std::vector<Box<T>> lhs = ReadBoxes<T>(in_data[0], format_);
      const std::vector<Box<T>> rhs = ReadBoxes<T>(in_data[1], format_);
      const auto n = static_cast<index_t>(rhs.size());
      constexpr index_t kCost = 8;
      ParallelFor(
          static_cast<index_t>(lhs.size()), StepsPerTask(n, kCost),
          [&](index_t begin, index_t end) {
            std::vector<T> line(rhs.size());
            T* const to = line.data();
            const Box<T>* const others = rhs.data();
            for (index_t i = begin; i < end; ++i) {
              const Box<T> box = lhs[static_cast<size_t>(i)];
              ForEach(n, [=](index_t j) TESSERA_LOOP_BODY { to[j] = OverlapOf(box, others[j]); });
              RowWriter<T>(out, req[0]).Write(i * n, n, to);
            }
          });
    });
  }

 private:
  const BoxFormat format_;
};

[[maybe_unused]] const bool kRegistered = RegisterTypedOperator<BoxIouProperty, BoxIouOperator>(
    TESSERA_TABLE_PLACE, "_contrib_box_iou", "The overlap of boxes: intersection over union.");

}  // namespace
}  // namespace tessera
