// im2col and col2im: the windows over images as columns of a matrix, and back.
//
//   im2col   out[n][(c, t)][o] = data[n][c][o * stride + t * dilate - pad], 0 outside of the image
//   col2im   out[n][c][i] = the sum of data[n][(c, t)][o] over all (t, o) with
//            i = o * stride + t * dilate - pad
//
// Each is the other's gradient. t counts the kernel's taps, o the window's positions, rows first.
// Shapes: images (samples, channels, …) with one to three more dimensions, those of the kernel;
// columns (samples, channels * taps, positions). Types: float32, float64, float16, bfloat16; sums
// of the last two are computed in float32. Runs on the CPU.
#include <string>
#include <vector>

#include "tessera/ops/gradient_formula.h"
#include "tessera/ops/typed_operator.h"
#include "tessera/ops/windows/convolution_loops.h"
#include "tessera/ops/windows/convolution_parameters.h"
#include "tessera/ops/windows/window_parameters.h"

namespace tessera {
namespace {

using namespace ops_internal;  // NOLINT: windows and registration

struct Im2ColParameters {
  TShape kernel;
  TShape stride;
  TShape dilate;
  TShape pad;

  template <typename Schema>
  static void DeclareWindow(Schema& schema) {
    using P = Im2ColParameters;
    schema.template Required<TShape>("kernel", &P::kernel, "the window: (x), (y, x) or (z, y, x)");
    schema.template Optional<TShape>("stride", &P::stride,
                                     "distance between windows; 1 if left out");
    schema.template Optional<TShape>("dilate", &P::dilate,
                                     "distance between a window's taps; 1 if left out");
    schema.template Optional<TShape>("pad", &P::pad, "zeros added on every side; 0 if left out");
  }
  static void Declare(ParameterSchema<Im2ColParameters>& schema) { DeclareWindow(schema); }
};

struct Col2ImParameters : Im2ColParameters {
  TShape output_size;

  static void Declare(ParameterSchema<Col2ImParameters>& schema) {
    schema.Required("output_size", &Col2ImParameters::output_size, "the image's extents");
    DeclareWindow(schema);
  }
};

/// Throws Error(kInvalidArgument) that names operator and parameter unless the window is valid.
void CheckWindow(const OperatorProperty& property, const Im2ColParameters& param) {
  RequireKernelRank(property.TypeString(), param.kernel);
  static_cast<void>(ConvolutionWindow(property.TypeString(), param));
  static_cast<void>(ProductOfExtents(property, "kernel", param.kernel, 0, param.kernel.ndim()));
}

/// Returns the number of taps of a kernel that CheckWindow accepts.
index_t Taps(const Im2ColParameters& param) {
  return param.kernel.ProdShape(0, param.kernel.ndim());
}

/// Returns the window's positions on an image of (samples, channels, …), or kUnknown. Throws
/// Error(kInvalidArgument) that names the operator and the image if there is none.
index_t Positions(const OperatorProperty& property, const Im2ColParameters& param,
                  const TShape& image) {
  const ConvolutionWindow window(property.TypeString(), param);
  const int rank = param.kernel.ndim();
  TShape positions = TShape::OfRank(rank);
  for (int i = 0; i < rank; ++i) {
    if (image[2 + i] == TShape::kUnknown) continue;
    const size_t axis = static_cast<size_t>(3 - rank + i);
    positions[i] = WindowPositions(property.TypeString(), image[2 + i], window.kernel[axis],
                                   window.stride[axis], window.dilate[axis], window.pad[axis]);
    if (positions[i] == 0) {
      throw InvalidArgument(property.TypeString(), ": the kernel ", param.kernel,
                            " does not fit an image of shape ", image, " with pad=", param.pad,
                            " and dilate=", param.dilate);
    }
  }
  return ProductOfExtents(property, "positions", positions, 0, rank);
}

/// Completes the shapes of images and of their columns, whose names are those of the values.
bool InferWindows(const OperatorProperty& property, const Im2ColParameters& param,
                  std::string_view image_name, TShape* image, std::string_view columns_name,
                  TShape* columns) {
  const index_t taps = Taps(param);
  MergeShape(property, columns_name, columns, {(*image)[0], TShape::kUnknown, TShape::kUnknown});
  if ((*columns)[1] != TShape::kUnknown && (*columns)[1] % taps != 0) {
    throw InvalidArgument(property.TypeString(), ": ", columns_name, " of shape ", *columns,
                          " has ", (*columns)[1], " rows, which the ", taps,
                          " taps of kernel=", param.kernel, " do not divide");
  }
  TShape known = TShape::OfRank(image->ndim());
  known[0] = (*columns)[0];
  if ((*columns)[1] != TShape::kUnknown) known[1] = (*columns)[1] / taps;
  MergeShape(property, image_name, image, known);
  const index_t rows = ProductOfExtents(property, columns_name, {(*image)[1], taps}, 0, 2);
  MergeShape(property, columns_name, columns,
             {(*image)[0], rows, Positions(property, param, *image)});
  return image->known() && columns->known();
}

class Im2ColProperty final : public ParameterizedProperty<Im2ColParameters> {
 public:
  bool InferShape(std::vector<TShape>* in_shape, std::vector<TShape>* out_shape) const override {
    MergeDataRank(TypeString(), param_.kernel, &(*in_shape)[0]);
    return InferWindows(*this, param_, "data", &(*in_shape)[0], "output", &(*out_shape)[0]);
  }
  std::vector<int> DeclareBackwardDependency(std::span<const int> out_grad, std::span<const int>,
                                             std::span<const int>) const override {
    return {out_grad[0]};
  }
  bool BuildGradient(GradientBuilder* builder) const override {
    return BuildLinearGradient(*this, builder);
  }

 private:
  void CheckParameters() override { CheckWindow(*this, param_); }
};

class Col2ImProperty final : public ParameterizedProperty<Col2ImParameters> {
 public:
  bool InferShape(std::vector<TShape>* in_shape, std::vector<TShape>* out_shape) const override {
    TShape& out = (*out_shape)[0];
    TShape image = TShape::OfRank(2 + param_.kernel.ndim());
    for (int i = 2; i < image.ndim(); ++i) image[i] = param_.output_size[i - 2];
    MergeShape(*this, "output", &out, image);
    return InferWindows(*this, param_, "output", &out, "data", &(*in_shape)[0]);
  }
  std::vector<int> DeclareBackwardDependency(std::span<const int> out_grad, std::span<const int>,
                                             std::span<const int>) const override {
    return {out_grad[0]};
  }
  bool BuildGradient(GradientBuilder* builder) const override {
    return BuildLinearGradient(*this, builder);
  }

 private:
  void CheckParameters() override {
    CheckWindow(*this, param_);
    if (param_.output_size.ndim() != param_.kernel.ndim()) {
      throw InvalidArgument(TypeString(), ": parameter output_size=", param_.output_size, " has ",
                            param_.output_size.ndim(),
                            " dimensions, expected those of kernel=", param_.kernel);
    }
    static_cast<void>(
        ReadWindow(TypeString(), "output_size", param_.output_size, param_.kernel, 1, 1));
  }
};

/// Returns the loops over images of (samples, channels, …), each channel by itself.
ConvolutionLoops Loops(std::string_view op, const Im2ColParameters& param, const TShape& image,
                       DType dtype) {
  const ConvolutionWindow w(op, param);
  const WindowExtents extents = SpatialExtents(image);
  WindowExtents positions;
  for (size_t i = 0; i < positions.size(); ++i) {
    positions[i] = WindowPositions(op, extents[i], w.kernel[i], w.stride[i], w.dilate[i], w.pad[i]);
  }
  return {{.batch = image[0],
           .groups = 1,
           .channels = image[1],
           .filters = 0,
           .image = image.Size() == 0 ? WindowExtents{} : extents,
           .positions = positions,
           .kernel = w.kernel,
           .stride = w.stride,
           .dilate = w.dilate,
           .pad = w.pad},
          dtype};
}

class Im2ColOperator final : public Operator {
 public:
  explicit Im2ColOperator(const Im2ColParameters& param) : param_(param) {}

  void Forward(const OpContext&, std::span<const TBlob> in_data, std::span<const OpReqType> req,
               std::span<const TBlob> out_data) override {
    if (req[0] == kNullOp || out_data[0].shape_.Size() == 0) return;
    const TBlob& image = in_data[0];
    Loops("im2col", param_, image.shape_, image.type_flag_)
        .Unpack(image.dptr_, req[0], out_data[0].dptr_);
  }
  void Backward(const OpContext&, std::span<const TBlob> out_grad, std::span<const TBlob>,
                std::span<const TBlob>, std::span<const OpReqType> req,
                std::span<const TBlob> in_grad) override {
    if (req[0] == kNullOp || in_grad[0].shape_.Size() == 0) return;
    const TBlob& image = in_grad[0];
    Loops("im2col", param_, image.shape_, image.type_flag_)
        .Pack(out_grad[0].dptr_, req[0], image.dptr_);
  }

 private:
  const Im2ColParameters param_;
};

class Col2ImOperator final : public Operator {
 public:
  explicit Col2ImOperator(const Col2ImParameters& param) : param_(param) {}

  void Forward(const OpContext&, std::span<const TBlob> in_data, std::span<const OpReqType> req,
               std::span<const TBlob> out_data) override {
    if (req[0] == kNullOp || out_data[0].shape_.Size() == 0) return;
    const TBlob& image = out_data[0];
    Loops("col2im", param_, image.shape_, image.type_flag_)
        .Pack(in_data[0].dptr_, req[0], image.dptr_);
  }
  void Backward(const OpContext&, std::span<const TBlob> out_grad, std::span<const TBlob>,
                std::span<const TBlob>, std::span<const OpReqType> req,
                std::span<const TBlob> in_grad) override {
    if (req[0] == kNullOp || in_grad[0].shape_.Size() == 0) return;
    const TBlob& image = out_grad[0];
    Loops("col2im", param_, image.shape_, image.type_flag_)
        .Unpack(image.dptr_, req[0], in_grad[0].dptr_);
  }

 private:
  const Col2ImParameters param_;
};

[[maybe_unused]] const bool kIm2ColRegistered =
    RegisterTypedOperator<Im2ColProperty, Im2ColOperator>(
        TESSERA_TABLE_PLACE, "im2col", "The windows over images as columns of a matrix.");

[[maybe_unused]] const bool kCol2ImRegistered =
    RegisterTypedOperator<Col2ImProperty, Col2ImOperator>(TESSERA_TABLE_PLACE, "col2im",
                                                          "Columns of windows added up to images.");

}  // namespace
}  // namespace tessera
