// Mirrored images:
//
//   _image_flip_left_right         out[y][x][c] = data[y][width - 1 - x][c]
//   _image_flip_top_bottom         out[y][x][c] = data[height - 1 - y][x][c]
//   _image_random_flip_left_right  the former or data, each with probability 1/2
//   _image_random_flip_top_bottom  the latter or data, each with probability 1/2
//
// The gradient of a flip is the flipped head gradient; random flips have none. The decision comes
// from the device's sequence and holds for all images of a batch. Shapes: data and out (height,
// width, channels) or (images, height, width, channels). Types: all. Random flips run on the CPU.
#include "tessera/ops/gradient_formula.h"
#include "tessera/ops/image/image_shape.h"
#include "tessera/ops/loops/movement.h"
#include "tessera/tensor/random.h"

namespace tessera {
namespace {

using namespace ops_internal;  // NOLINT: moves and registration

class FlipProperty final : public MoveProperty<NoParameters> {
 public:
  bool InferShape(std::vector<TShape>* in_shape, std::vector<TShape>* out_shape) const override {
    return InferImageShape(*this, in_shape, out_shape);
  }
  bool BuildGradient(GradientBuilder* builder) const override {
    return BuildLinearGradient(*this, builder);
  }
};

/// Reverses the dimension that is `kFromLast` before the last.
template <int kFromLast>
void Flip(const MoveCall<NoParameters>& call, std::span<const TBlob> from,
          std::span<const OpReqType> req, std::span<const TBlob> to) {
  if (req[0] == kNullOp || to[0].shape_.Size() == 0) return;
  StridedView view(from[0]);
  const int axis = view.num_dims - 1 - kFromLast;
  const index_t extent = view.extents[static_cast<size_t>(axis)];
  view.Slice(axis, extent - 1, -1, extent);
  Move(view, StridedView(to[0]), req[0], call.context);
}

[[maybe_unused]] const bool kFlips[] = {
    RegisterMove<FlipProperty>(TESSERA_TABLE_PLACE, "_image_flip_left_right",
                               "Images whose columns are in the reverse order.", Flip<1>, Flip<1>),
    RegisterMove<FlipProperty>(TESSERA_TABLE_PLACE, "_image_flip_top_bottom",
                               "Images whose rows are in the reverse order.", Flip<2>, Flip<2>),
};

#if !defined(TESSERA_XPU_GPU)

class RandomFlipProperty final : public MoveProperty<NoParameters> {
 public:
  Purity purity() const override { return Purity::kRandom; }
  bool HasGradient() const override { return false; }
  bool InferShape(std::vector<TShape>* in_shape, std::vector<TShape>* out_shape) const override {
    return InferImageShape(*this, in_shape, out_shape);
  }
  std::vector<ResourceRequest> ForwardResource(std::span<const TShape>) const override {
    return {{ResourceRequest::Type::kRandom}};
  }
};

template <int kFromLast>
void FlipOrCopy(const MoveCall<NoParameters>& call, std::span<const TBlob> from,
                std::span<const OpReqType> req, std::span<const TBlob> to) {
  const uint32_t number = call.context.requested[0]->get_random<cpu>(nullptr).GetRandInt();
  if (number % 2 == 1) {
    Flip<kFromLast>(call, from, req, to);
  } else {
    MoveFlat(from[0], to[0], req[0], call.context);
  }
}

[[maybe_unused]] const bool kRandomFlips[] = {
    RegisterMove<RandomFlipProperty>(TESSERA_TABLE_PLACE, "_image_random_flip_left_right",
                                     "Images, or all of them with their columns reversed.",
                                     FlipOrCopy<1>, nullptr),
    RegisterMove<RandomFlipProperty>(TESSERA_TABLE_PLACE, "_image_random_flip_top_bottom",
                                     "Images, or all of them with their rows reversed.",
                                     FlipOrCopy<2>, nullptr),
};

#endif  // !TESSERA_XPU_GPU

}  // namespace
}  // namespace tessera
