// Convolution over one or two spatial dimensions, NCW or NCHW.
//
//   out[n][f][o] = bias[f] + sum_{c,t} weight[f][c][t] * data[n][c][o * stride + t * dilate - pad]
//
// The sum is over the channels of f's group and the kernel's taps. It is computed image by image as
// a product of matrices over unpacked patches (im2col; Chellapilla, Puri and Simard, 2006). W is
// the weight as (f, c * taps), and X the unpacked image as (c * taps, positions):
//
//   out = W X;   d W^T = sum over images of X d out^T;   d X = W^T d out, packed back into the
//   image.
//
// Shapes: data (n, channel, [height,] width); weight (num_filter, channel / num_group, kernel…);
// bias (num_filter); out (n, num_filter, positions…).
// Types: float32, float64, float16, bfloat16; the last two accumulate in float32, except for the
// taps that are added to one element of d X. Images are divided into chunks, each with its own
// workspace. The number of chunks depends only on the batch, so the sums do not depend on the
// number of threads.
#include <algorithm>
#include <type_traits>

#include "tessera/base/quote.h"
#include "tessera/ops/kernel.h"
#include "tessera/ops/nn/window_parameters.h"

namespace tessera {
namespace {

using ops_internal::ImageShape;
using ops_internal::ReadWindow;
using ops_internal::WindowExtents;

struct ConvolutionParameters {
  TShape kernel;
  TShape stride;
  TShape dilate;
  TShape pad;
  int64_t num_filter = 0;
  int64_t num_group = 1;
  int64_t workspace = 1024;
  bool no_bias = false;
  std::string cudnn_tune = "None";
  bool cudnn_off = false;
  std::string layout = "None";

  static void Declare(ParameterSchema<ConvolutionParameters>& schema) {
    using P = ConvolutionParameters;
    schema.Required("kernel", &P::kernel, "the window: (x) or (y, x)");
    schema.Required("num_filter", &P::num_filter, "output channels");
    schema.Range(1, 1 << 24);
    schema.Optional("stride", &P::stride, "distance between windows; 1 if left out");
    schema.Optional("dilate", &P::dilate, "distance between a window's taps; 1 if left out");
    schema.Optional("pad", &P::pad, "zeros added on every side; 0 if left out");
    schema.Optional("num_group", &P::num_group, "groups of channels that do not mix");
    schema.Range(1, 1 << 24);
    schema.Optional("workspace", &P::workspace, "accepted for old graphs; not used");
    schema.Optional("no_bias", &P::no_bias, "leave the bias out");
    schema.Optional("cudnn_tune", &P::cudnn_tune, "accepted for old graphs; not used");
    schema.Optional("cudnn_off", &P::cudnn_off, "accepted for old graphs; not used");
    schema.Optional("layout", &P::layout, "None, NCW or NCHW");
  }

  PatchGeometry Geometry(std::string_view op) const {
    const WindowExtents k = ReadWindow(op, "kernel", kernel, kernel, 1, 1);
    const WindowExtents s = ReadWindow(op, "stride", stride, kernel, 1, 1);
    const WindowExtents d = ReadWindow(op, "dilate", dilate, kernel, 1, 1);
    const WindowExtents p = ReadWindow(op, "pad", pad, kernel, 0, 0);
    return {.kernel_y = k.y,
            .kernel_x = k.x,
            .stride_y = s.y,
            .stride_x = s.x,
            .dilate_y = d.y,
            .dilate_x = d.x,
            .pad_y = p.y,
            .pad_x = p.x};
  }
};

class ConvolutionProperty final : public ParameterizedProperty<ConvolutionParameters> {
 public:
  std::vector<std::string> ListArguments() const override {
    if (param_.no_bias) return {"data", "weight"};
    return {"data", "weight", "bias"};
  }

  bool InferShape(std::vector<TShape>* in_shape, std::vector<TShape>* out_shape) const override {
    const int rank = param_.kernel.ndim() + 2;
    TShape& data = (*in_shape)[0];
    if (!param_.no_bias) MergeShape(*this, "bias", &(*in_shape)[2], {param_.num_filter});
    ops_internal::MergeDataRank(TypeString(), param_.kernel, &data);
    TShape weight = TShape::OfRank(rank);
    weight[0] = param_.num_filter;
    for (int i = 2; i < rank; ++i) weight[i] = param_.kernel[i - 2];
    if (data[1] != TShape::kUnknown) {
      if (data[1] % param_.num_group != 0) {
        throw InvalidArgument(TypeString(), ": data of shape ", data, " has ", data[1],
                              " channels, which num_group=", param_.num_group, " does not divide");
      }
      weight[1] = data[1] / param_.num_group;
    }
    MergeShape(*this, "weight", &(*in_shape)[1], weight);
    TShape out = TShape::OfRank(rank);
    out[0] = data[0];
    out[1] = param_.num_filter;
    const PatchGeometry g = param_.Geometry(TypeString());
    for (int i = 2; i < rank; ++i) {
      if (data[i] == TShape::kUnknown) continue;
      const bool x_axis = i == rank - 1;
      out[i] = x_axis ? g.OutputX(data[i]) : g.OutputY(data[i]);
      if (out[i] == 0) {
        throw InvalidArgument(TypeString(), ": the kernel ", param_.kernel,
                              " does not fit data of shape ", data, " with pad=", param_.pad,
                              " and dilate=", param_.dilate);
      }
    }
    MergeShape(*this, "output", &(*out_shape)[0], out);
    data[0] = (*out_shape)[0][0];
    return data.known();
  }

  std::vector<int> DeclareBackwardDependency(std::span<const int> out_grad,
                                             std::span<const int> in_data,
                                             std::span<const int>) const override {
    return {out_grad[0], in_data[0], in_data[1]};
  }
  std::vector<ResourceRequest> ForwardResource(std::span<const TShape>) const override {
    return {{ResourceRequest::Type::kTempSpace}};
  }
  std::vector<ResourceRequest> BackwardResource(std::span<const TShape>) const override {
    return {{ResourceRequest::Type::kTempSpace}};
  }

 private:
  void CheckParameters() override {
    ops_internal::RequireKernelRank(TypeString(), param_.kernel);
    static_cast<void>(param_.Geometry(TypeString()));
    if (param_.num_filter % param_.num_group != 0) {
      throw InvalidArgument(TypeString(), ": num_group=", param_.num_group,
                            " does not divide num_filter=", param_.num_filter);
    }
    const std::string expected = param_.kernel.ndim() == 1 ? "NCW" : "NCHW";
    if (param_.layout != "None" && param_.layout != expected) {
      throw Unimplemented(TypeString(), ": layout=", Excerpt(param_.layout),
                          " is not implemented; expected ", expected);
    }
  }
};

template <typename Device, typename T>
class ConvolutionOp final : public Operator {
 public:
  explicit ConvolutionOp(const ConvolutionParameters& param)
      : param_(param), geometry_(param.Geometry("Convolution")) {}

  void Forward(const OpContext& context, std::span<const TBlob> in_data,
               std::span<const OpReqType> req, std::span<const TBlob> out_data) override {
    if (req[0] == kNullOp) return;
    auto* stream = context.get_stream<Device>();
    const Layout l(*this, in_data[0].shape_, out_data[0].shape_);
    const auto data = in_data[0].get_with_shape<Device, 4, T>(l.image, stream);
    const auto weight = in_data[1].get_with_shape<Device, 3, T>(l.weight, stream);
    const auto out = out_data[0].get_with_shape<Device, 4, T>(l.out, stream);
    const auto columns = context.requested[0]->template get_space_typed<Device, 3, T>(
        Shape3(l.chunks, l.taps, l.positions), stream);
    ForEachChunk(l, [&](index_t chunk, index_t n) {
      for (index_t g = 0; g < param_.num_group; ++g) {
        Tensor<Device, 2, T> image_out = out[n][g];
        AssignTo(image_out, req[0], dot(weight[g], Unpack(l, data, n, g, columns[chunk])));
        if (!param_.no_bias) {
          const auto bias =
              in_data[2].get_with_shape<Device, 2, T>(Shape2(param_.num_group, l.filters), stream);
          image_out += broadcast<0>(bias[g], image_out.shape_);
        }
      }
    });
  }

  void Backward(const OpContext& context, std::span<const TBlob> out_grad,
                std::span<const TBlob> in_data, std::span<const TBlob>,
                std::span<const OpReqType> req, std::span<const TBlob> in_grad) override {
    auto* stream = context.get_stream<Device>();
    const Layout l(*this, in_data[0].shape_, out_grad[0].shape_);
    const auto data = in_data[0].get_with_shape<Device, 4, T>(l.image, stream);
    const auto weight = in_data[1].get_with_shape<Device, 3, T>(l.weight, stream);
    const auto grad = out_grad[0].get_with_shape<Device, 4, T>(l.out, stream);
    const bool weight_wanted = req[1] != kNullOp;
    const bool data_wanted = req[0] != kNullOp;
    Workspace space(l, weight_wanted, context.requested[0], stream);
    ForEachChunk(l, [&](index_t chunk, index_t n) {
      for (index_t g = 0; g < param_.num_group; ++g) {
        const auto columns = space.columns[chunk];
        if (weight_wanted) {
          const OpReqType sum_req = n == l.FirstImage(chunk) ? kWriteTo : kAddTo;
          // The operand is transposed, so that the product reads the large columns in their storage
          // order.
          const auto product = dot(Unpack(l, data, n, g, columns), grad[n][g].T());
          if constexpr (std::is_same_v<T, Accumulator>) {
            AssignTo(space.sums[chunk][g], sum_req, product);
          } else {
            Tensor<Device, 2, T> rounded = space.products[chunk];
            rounded = product;
            AssignTo(space.sums[chunk][g], sum_req, tcast<Accumulator>(rounded));
          }
        }
        if (data_wanted) {
          PackDataGradient(l, grad[n][g], weight[g], n, g, req[0], in_grad[0], columns);
        }
      }
    });
    if (weight_wanted) {
      Tensor<Device, 3, Accumulator> sum = space.sums[0];
      if (l.image[0] == 0) sum = Accumulator(0);
      for (index_t chunk = 1; chunk < l.chunks; ++chunk) sum += space.sums[chunk];
      const auto weight_grad = in_grad[1].get_with_shape<Device, 3, T>(l.weight, stream);
      for (index_t g = 0; g < param_.num_group; ++g) {
        Tensor<Device, 2, T> group_grad = weight_grad[g];
        AssignTo(group_grad, req[1], tcast<T>(sum[g].T()));
      }
    }
    if (!param_.no_bias && req[2] != kNullOp) {
      const auto by_filter = out_grad[0].get_with_shape<Device, 3, T>(
          Shape3(l.image[0], param_.num_filter, l.positions), stream);
      AssignTo(in_grad[2].get<Device, 1, T>(stream), req[2], sumall_except_dim<1>(by_filter));
    }
  }

 private:
  using Accumulator = typename expr::AccumulateIn<T>::type;

  /// The call's arrays in the shapes of the computation.
  struct Layout {
    Layout(const ConvolutionOp& op, const TShape& data, const TShape& result) {
      const index_t groups = op.param_.num_group;
      const Shape<4> whole = ImageShape(data);
      const Shape<4> whole_out = ImageShape(result);
      height = whole[2];
      width = whole[3];
      channels = whole[1] / groups;
      filters = op.param_.num_filter / groups;
      taps = channels * op.geometry_.kernel_y * op.geometry_.kernel_x;
      positions = whole_out[2] * whole_out[3];
      image = Shape4(whole[0], groups, channels, height * width);
      weight = Shape3(groups, filters, taps);
      out = Shape4(whole[0], groups, filters, positions);
      // Eight images justify a chunk's own gradient sum, and sixteen chunks keep sixteen cores
      // busy.
      chunks = Device::kDevCPU ? std::clamp<index_t>(whole[0] / 8, 1, 16) : 1;
      const PatchGeometry& g = op.geometry_;
      // A 1x1 window that reads every element once unpacks to the image itself.
      pointwise = g.kernel_y == 1 && g.kernel_x == 1 && g.stride_y == 1 && g.stride_x == 1 &&
                  g.pad_y == 0 && g.pad_x == 0;
    }
    index_t FirstImage(index_t chunk) const { return chunk * image[0] / chunks; }

    index_t height, width, channels, filters, taps, positions, chunks;
    bool pointwise;
    Shape<4> image;   // (n, group, channel of the group, pixel)
    Shape<3> weight;  // (group, filter of the group, channel and tap)
    Shape<4> out;     // (n, group, filter of the group, position)
  };

  /// The workspace of Backward for each chunk, in one request: the sum of its weight gradients, the
  /// columns, and for 16-bit types one product.
  struct Workspace {
    Workspace(const Layout& l, bool weight_wanted, Resource* resource, Stream<Device>* stream) {
      constexpr bool kRounds = !std::is_same_v<T, Accumulator>;
      const index_t sum_size = weight_wanted ? l.chunks * l.weight.Size() : 0;
      const index_t column_size = l.chunks * l.taps * l.positions;
      const index_t product_size = kRounds && weight_wanted ? l.chunks * l.filters * l.taps : 0;
      constexpr index_t kRatio = sizeof(Accumulator) / sizeof(T);
      const index_t size = sum_size + (column_size + product_size + kRatio - 1) / kRatio;
      Accumulator* const begin =
          resource->template get_space_typed<Device, 1, Accumulator>(Shape1(size), stream).dptr_;
      T* const rest = reinterpret_cast<T*>(begin + sum_size);
      sums = {begin, Shape4(l.chunks, l.weight[0], l.taps, l.filters), stream};
      columns = {rest, Shape3(l.chunks, l.taps, l.positions), stream};
      products = {rest + column_size, Shape3(l.chunks, l.taps, l.filters), stream};
    }

    Tensor<Device, 4, Accumulator> sums;  // (chunk, group, taps, filters)
    Tensor<Device, 3, T> columns;
    Tensor<Device, 3, T> products;
  };

  /// Calls body(chunk, image) for every image. Chunks may run in parallel; a chunk's images run in
  /// order.
  template <typename Body>
  static void ForEachChunk(const Layout& l, const Body& body) {
    const auto run = [&](index_t begin, index_t end) {
      for (index_t chunk = begin; chunk < end; ++chunk) {
        for (index_t n = l.FirstImage(chunk); n < l.FirstImage(chunk + 1); ++n) body(chunk, n);
      }
    };
    if constexpr (Device::kDevCPU) {
      ParallelFor(l.chunks, 1, run);
    } else {
      run(0, l.chunks);
    }
  }

  Tensor<Device, 2, T> Unpack(const Layout& l, const Tensor<Device, 4, T>& data, index_t n,
                              index_t g, Tensor<Device, 2, T> columns) const {
    const Tensor<Device, 2, T> image = data[n][g];
    if (l.pointwise) return image;
    columns = unpack_patch2col(Planes(l, image), geometry_);
    return columns;
  }

  void PackDataGradient(const Layout& l, const Tensor<Device, 2, T>& grad,
                        const Tensor<Device, 2, T>& weight, index_t n, index_t g, OpReqType req,
                        const TBlob& data_grad, Tensor<Device, 2, T> columns) const {
    Tensor<Device, 2, T> image =
        data_grad.get_with_shape<Device, 4, T>(l.image, grad.stream_)[n][g];
    if (l.pointwise) {
      AssignTo(image, req, dot(weight.T(), grad));
      return;
    }
    columns = dot(weight.T(), grad);
    const auto planes = Planes(l, image);
    AssignTo(planes, req, pack_col2patch(columns, planes.shape_, geometry_));
  }

  static Tensor<Device, 3, T> Planes(const Layout& l, const Tensor<Device, 2, T>& image) {
    return {image.dptr_, Shape3(l.channels, l.height, l.width), image.stream_};
  }

  const ConvolutionParameters param_;
  const PatchGeometry geometry_;
};

TESSERA_REGISTER_OPERATOR(Convolution, ConvolutionProperty, ConvolutionOp)
    .Alias("Convolution_v1")
    .Describe("Convolution over one or two spatial dimensions.");

}  // namespace
}  // namespace tessera
