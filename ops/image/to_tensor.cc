// _image_to_tensor: images of integers in [0, 255] as tensors of numbers in [0, 1].
//
//   out[c][y][x] = data[y][x][c] / 255
//
// Shapes: data (height, width, channels) and out (channels, height, width), or both with a leading
// dimension of images. Types: data any, out float32. There is no gradient. Runs on the CPU.
#include <algorithm>

#include "tessera/ops/image/image_shape.h"
#include "tessera/ops/loops/convert_row.h"
#include "tessera/ops/loops/movement.h"
#include "tessera/ops/loops/typed_row.h"
#include "tessera/ops/typed_operator.h"
#include "tessera/tensor/device/parallel.h"

namespace tessera {
namespace {

using namespace ops_internal;  // NOLINT: rows and registration

class ToTensorProperty final : public ParameterizedProperty<NoParameters> {
 public:
  bool HasGradient() const override { return false; }

  bool InferShape(std::vector<TShape>* in_shape, std::vector<TShape>* out_shape) const override {
    TShape &data = (*in_shape)[0], &out = (*out_shape)[0];
    if (!MergeImageRanks(*this, kImageLayout, &data, &out)) return false;
    const int first = data.ndim() - 3;
    if (first == 1) MergeExtents(*this, &data, 0, &out, 0);
    for (const int d : {0, 1, 2}) {
      MergeExtents(*this, &data, first + d, &out, first + (d + 1) % 3);
    }
    return data.known();
  }
  bool InferType(std::vector<DType>* in_type, std::vector<DType>* out_type) const override {
    MergeType(*this, "output", &(*out_type)[0], DType::kFloat32);
    return (*in_type)[0] != DType::kUnknown;
  }
};

class ToTensorOperator final : public Operator {
 public:
  explicit ToTensorOperator(const NoParameters&) {}

  void Forward(const OpContext&, std::span<const TBlob> in_data, std::span<const OpReqType> req,
               std::span<const TBlob> out_data) override {
    const TBlob &data = in_data[0], &out = out_data[0];
    if (req[0] == kNullOp || out.shape_.Size() == 0) return;
    const ImageExtents extents(data.shape_);
    const index_t channels = extents.channels, pixels = extents.height * extents.width;
    const index_t blocks = (pixels + kBlock - 1) / kBlock;
    const bool add = req[0] == kAddTo;
    ParallelFor(extents.images * channels * blocks, StepsPerTask(std::min(pixels, kBlock), kCost),
                [&](index_t begin, index_t end) {
                  for (index_t step = begin; step < end; ++step) {
                    const index_t plane = step / blocks, pixel = step % blocks * kBlock;
                    const index_t from = (plane / channels * pixels + pixel) * channels;
                    Convert(data, from + plane % channels, channels,
                            std::min(kBlock, pixels - pixel), add, out, plane * pixels + pixel);
                  }
                });
  }

 private:
  static constexpr index_t kBlock = 1024;
  static constexpr index_t kCost = 2;

  /// Converts n elements of data, `stride` elements apart, to elements of out in a row.
  static void Convert(const TBlob& data, index_t from, index_t stride, index_t n, bool add,
                      const TBlob& out, index_t to) {
    float block[kBlock];
    RowReader<float>(data).Copy(from, n, block, stride);
    for (index_t i = 0; i < n; ++i) block[i] /= 255;
    StoreRow(block, n, add, DType::kFloat32, ElementAt(out, to));
  }
};

[[maybe_unused]] const bool kRegistered = RegisterTypedOperator<ToTensorProperty, ToTensorOperator>(
    TESSERA_TABLE_PLACE, "_image_to_tensor",
    "Images as tensors: channels first, and 255 becomes 1.", TakenTypes::kAny);

}  // namespace
}  // namespace tessera
