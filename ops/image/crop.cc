// _image_crop: a rectangle of images.
//
//   out[i][j][c] = data[y + i][x + j][c]     d data = g in this place, among zeros
//
// Shapes: data (height, width, channels) or (images, height, width, channels); out like data with
// the rectangle's height and width. Types: all.
#include <limits>

#include "tessera/ops/gradient_formula.h"
#include "tessera/ops/image/image_shape.h"
#include "tessera/ops/loops/movement.h"

namespace tessera {
namespace {

using namespace ops_internal;  // NOLINT: moves and registration

struct CropParameters {
  int64_t x = 0;
  int64_t y = 0;
  int64_t width = 1;
  int64_t height = 1;

  static void Declare(ParameterSchema<CropParameters>& schema) {
    using P = CropParameters;
    constexpr double kMost = std::numeric_limits<int32_t>::max();
    schema.Required("x", &P::x, "the rectangle's first column");
    schema.Range(0, kMost);
    schema.Required("y", &P::y, "the rectangle's first row");
    schema.Range(0, kMost);
    schema.Required("width", &P::width, "the rectangle's number of columns");
    schema.Range(1, kMost);
    schema.Required("height", &P::height, "the rectangle's number of rows");
    schema.Range(1, kMost);
  }
};

class ImageCropProperty final : public MoveProperty<CropParameters> {
 public:
  bool InferShape(std::vector<TShape>* in_shape, std::vector<TShape>* out_shape) const override {
    TShape &data = (*in_shape)[0], &out = (*out_shape)[0];
    if (!MergeImageRanks(*this, kImageLayout, &data, &out)) return false;
    const int rank = data.ndim();
    if (rank == 4) MergeExtents(*this, &data, 0, &out, 0);
    MergeExtents(*this, &data, rank - 1, &out, rank - 1);
    CheckFits("y", param_.y, "height", param_.height, data[rank - 3], data);
    CheckFits("x", param_.x, "width", param_.width, data[rank - 2], data);
    TShape known = out;
    known[rank - 3] = param_.height;
    known[rank - 2] = param_.width;
    MergeShape(*this, "output", &out, known);
    return data.known();
  }
  bool BuildGradient(GradientBuilder* builder) const override {
    return BuildLinearGradient(*this, builder);
  }

 private:
  void CheckFits(std::string_view begin_name, int64_t begin, std::string_view count_name,
                 int64_t count, index_t extent, const TShape& data) const {
    if (extent == TShape::kUnknown || begin + count <= extent) return;
    throw InvalidArgument(TypeString(), ": ", begin_name, "=", begin, " and ", count_name, "=",
                          count, " reach beyond data of shape ", data, ", whose ", count_name,
                          " is ", extent);
  }
};

StridedView Rectangle(const TBlob& images, const CropParameters& param) {
  StridedView view(images);
  view.Slice(view.num_dims - 3, param.y, 1, param.height);
  view.Slice(view.num_dims - 2, param.x, 1, param.width);
  return view;
}

void Crop(const MoveCall<CropParameters>& call, std::span<const TBlob> from,
          std::span<const OpReqType> req, std::span<const TBlob> to) {
  if (req[0] == kNullOp) return;
  Move(Rectangle(from[0], call.param), StridedView(to[0]), req[0], call.context);
}

void PutBack(const MoveCall<CropParameters>& call, std::span<const TBlob> from,
             std::span<const OpReqType> req, std::span<const TBlob> to) {
  if (req[0] == kNullOp) return;
  MoveZeros(to[0], req[0], call.context);
  Move(StridedView(from[0]), Rectangle(to[0], call.param), req[0], call.context);
}

[[maybe_unused]] const bool kRegistered = RegisterMove<ImageCropProperty>(
    TESSERA_TABLE_PLACE, "_image_crop", "A rectangle of images.", Crop, PutBack);

}  // namespace
}  // namespace tessera
