#ifndef TESSERA_OPS_NN_CONVOLUTION_GPU_H_
#define TESSERA_OPS_NN_CONVOLUTION_GPU_H_

#include <type_traits>

#include "tessera/ops/kernel.h"
#include "tessera/ops/windows/convolution_parameters.h"
#include "tessera/ops/windows/window_parameters.h"

// Convolution over one or two dimensions on a GPU, as tensor expressions: image by image a product
// of matrices over unpacked patches. W is the weight as (f, c * taps), and X the unpacked image as
// (c * taps, positions):
//
//   out = W X;   d W^T = sum over images of X d out^T;   d X = W^T d out, packed back into the
//   image.
namespace tessera::ops_internal {
inline namespace TESSERA_ISA_NAMESPACE {

/// The implementation for elements of T.
template <typename Device, typename T>
class ConvolutionOp final : public Operator {
 public:
  explicit ConvolutionOp(const ConvolutionParameters& param)
      : param_(param), geometry_(Geometry(param)) {
    if (IsChannelsLast(param.layout)) {
      throw Unimplemented("Convolution: layout=", param.layout, " is not implemented on a GPU");
    }
  }

  void Forward(const OpContext& context, std::span<const TBlob> in_data,
               std::span<const OpReqType> req, std::span<const TBlob> out_data) override {
    if (req[0] == kNullOp) return;
    auto* stream = context.get_stream<Device>();
    const Layout l(*this, in_data[0].shape_, out_data[0].shape_);
    const auto data = in_data[0].get_with_shape<Device, 4, T>(l.image, stream);
    const auto weight = in_data[1].get_with_shape<Device, 3, T>(l.weight, stream);
    const auto out = out_data[0].get_with_shape<Device, 4, T>(l.out, stream);
    const auto columns = context.requested[0]->template get_space_typed<Device, 2, T>(
        Shape2(l.taps, l.positions), stream);
    for (index_t n = 0; n < l.image[0]; ++n) {
      for (index_t g = 0; g < param_.num_group; ++g) {
        Tensor<Device, 2, T> image_out = out[n][g];
        AssignTo(image_out, req[0], dot(weight[g], Unpack(l, data, n, g, columns)));
        if (!param_.no_bias) {
          const auto bias =
              in_data[2].get_with_shape<Device, 2, T>(Shape2(param_.num_group, l.filters), stream);
          image_out += broadcast<0>(bias[g], image_out.shape_);
        }
      }
    }
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
    for (index_t n = 0; n < l.image[0]; ++n) {
      for (index_t g = 0; g < param_.num_group; ++g) {
        if (weight_wanted) {
          const OpReqType sum_req = n == 0 ? kWriteTo : kAddTo;
          // The operand is transposed, so that the product reads the large columns in their storage
          // order.
          const auto product = dot(Unpack(l, data, n, g, space.columns), grad[n][g].T());
          if constexpr (std::is_same_v<T, Accumulator>) {
            AssignTo(space.sums[g], sum_req, product);
          } else {
            space.product = product;
            AssignTo(space.sums[g], sum_req, tcast<Accumulator>(space.product));
          }
        }
        if (data_wanted) {
          PackDataGradient(l, grad[n][g], weight[g], n, g, req[0], in_grad[0], space.columns);
        }
      }
    }
    if (weight_wanted) {
      if (l.image[0] == 0) space.sums = Accumulator(0);
      const auto weight_grad = in_grad[1].get_with_shape<Device, 3, T>(l.weight, stream);
      for (index_t g = 0; g < param_.num_group; ++g) {
        Tensor<Device, 2, T> group_grad = weight_grad[g];
        AssignTo(group_grad, req[1], tcast<T>(space.sums[g].T()));
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

  static PatchGeometry Geometry(const ConvolutionParameters& param) {
    const ConvolutionWindow w("Convolution", param);
    if (param.kernel.ndim() > 2) {
      throw Unimplemented("Convolution: kernel=", param.kernel,
                          " has three dimensions, which are not implemented on a GPU");
    }
    return {.kernel_y = w.kernel[1],
            .kernel_x = w.kernel[2],
            .stride_y = w.stride[1],
            .stride_x = w.stride[2],
            .dilate_y = w.dilate[1],
            .dilate_x = w.dilate[2],
            .pad_y = w.pad[1],
            .pad_x = w.pad[2]};
  }

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
      const PatchGeometry& g = op.geometry_;
      // A 1x1 window that reads every element once unpacks to the image itself.
      pointwise = g.kernel_y == 1 && g.kernel_x == 1 && g.stride_y == 1 && g.stride_x == 1 &&
                  g.pad_y == 0 && g.pad_x == 0;
    }

    index_t height, width, channels, filters, taps, positions;
    bool pointwise;
    Shape<4> image;   // (n, group, channel of the group, pixel)
    Shape<3> weight;  // (group, filter of the group, channel and tap)
    Shape<4> out;     // (n, group, filter of the group, position)
  };

  /// The workspace of Backward in one request: the sum of weight gradients, the columns, and for
  /// 16-bit types one product.
  struct Workspace {
    Workspace(const Layout& l, bool weight_wanted, Resource* resource, Stream<Device>* stream) {
      constexpr bool kRounds = !std::is_same_v<T, Accumulator>;
      const index_t sum_size = weight_wanted ? l.weight.Size() : 0;
      const index_t column_size = l.taps * l.positions;
      const index_t product_size = kRounds && weight_wanted ? l.filters * l.taps : 0;
      constexpr index_t kRatio = sizeof(Accumulator) / sizeof(T);
      const index_t size = sum_size + (column_size + product_size + kRatio - 1) / kRatio;
      Accumulator* const begin =
          resource->template get_space_typed<Device, 1, Accumulator>(Shape1(size), stream).dptr_;
      T* const rest = reinterpret_cast<T*>(begin + sum_size);
      sums = {begin, Shape3(l.weight[0], l.taps, l.filters), stream};
      columns = {rest, Shape2(l.taps, l.positions), stream};
      product = {rest + column_size, Shape2(l.taps, l.filters), stream};
    }

    Tensor<Device, 3, Accumulator> sums;  // (group, taps, filters)
    Tensor<Device, 2, T> columns;
    Tensor<Device, 2, T> product;
  };

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

}  // namespace TESSERA_ISA_NAMESPACE
}  // namespace tessera::ops_internal

#endif  // TESSERA_OPS_NN_CONVOLUTION_GPU_H_
