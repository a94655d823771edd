#ifndef TESSERA_OPS_TESTING_WINDOW_REFERENCE_H_
#define TESSERA_OPS_TESTING_WINDOW_REFERENCE_H_

#include <algorithm>
#include <array>
#include <cstddef>
#include <string>
#include <vector>

#include "tessera/ops/testing/operator_row.h"

// The references of operators with windows share these.
namespace tessera::ops_testing {

/// Extents along (depth, height, width); those of fewer dimensions are at the end.
using Extents3 = std::array<index_t, 3>;

/// Returns the last extents of (batch, channel, …), with ones in front.
inline Extents3 Spatial(const TShape& shape) {
  Extents3 extents = {1, 1, 1};
  for (int i = 2; i < shape.ndim(); ++i) {
    extents[static_cast<size_t>(5 - shape.ndim() + i - 2)] = shape[i];
  }
  return extents;
}

/// Returns (batch, channels, extents…) of a rank.
inline TShape ImageOf(index_t batch, index_t channels, const Extents3& extents, int rank) {
  TShape shape = TShape::OfRank(rank);
  shape[0] = batch;
  shape[1] = channels;
  for (int i = 2; i < rank; ++i) shape[i] = extents[static_cast<size_t>(5 - rank + i - 2)];
  return shape;
}

/// Reads a parameter such as "(2, 3)". Axes in front have `front`; all others `absent` if it is
/// omitted.
inline Extents3 Extents(const ParameterReader& p, const std::string& name, int rank, index_t absent,
                        index_t front) {
  Extents3 extents = {front, front, front};
  std::vector<index_t> given;
  std::string digits;
  for (const char c : p.Text(name, "") + " ") {
    if (c >= '0' && c <= '9') {
      digits += c;
    } else if (!digits.empty()) {
      given.push_back(std::stoll(digits));
      digits.clear();
    }
  }
  for (int i = 0; i < rank - 2; ++i) {
    extents[static_cast<size_t>(5 - rank + i)] =
        given.empty() ? absent : given[static_cast<size_t>(i)];
  }
  return extents;
}

/// A convolution from images of `in` to results at `out` positions.
struct ConvolutionReference {
  index_t batch, groups, channels, filters;  ///< channels and filters of all groups
  Extents3 in, out, kernel, stride, dilate, pad;

  /// Calls visit(i_out, i_weight, i_in) for each product.
  template <typename Visit>
  void ForEachProduct(const Visit& visit) const {
    const index_t group_channels = channels / groups;
    const auto volume = [](const Extents3& e) { return e[0] * e[1] * e[2]; };
    const auto at = [](const Extents3& e, index_t i) {
      return Extents3{i / (e[1] * e[2]), i / e[2] % e[1], i % e[2]};
    };
    for (index_t i = 0; i < batch * filters * volume(out); ++i) {
      const index_t n = i / volume(out) / filters, f = i / volume(out) % filters;
      const Extents3 o = at(out, i % volume(out));
      const index_t first_channel = f / (filters / groups) * group_channels;
      for (index_t t = 0; t < volume(kernel); ++t) {
        const Extents3 k = at(kernel, t);
        Extents3 x;
        bool inside = true;
        for (size_t d = 0; d < 3; ++d) {
          x[d] = o[d] * stride[d] + k[d] * dilate[d] - pad[d];
          inside = inside && x[d] >= 0 && x[d] < in[d];
        }
        if (!inside) continue;
        for (index_t c = 0; c < group_channels; ++c) {
          visit(
              i, (f * group_channels + c) * volume(kernel) + t,
              (((n * channels + first_channel + c) * in[0] + x[0]) * in[1] + x[1]) * in[2] + x[2]);
        }
      }
    }
  }
};

/// Returns the convolution that Convolution's parameters describe.
inline ConvolutionReference ReadConvolution(const ParameterMap& parameters, const TShape& data) {
  const ParameterReader p(parameters);
  const int rank = data.ndim();
  ConvolutionReference c = {.batch = data[0],
                            .groups = p.Int("num_group", 1),
                            .channels = data[1],
                            .filters = p.Int("num_filter", 0),
                            .in = Spatial(data),
                            .kernel = Extents(p, "kernel", rank, 1, 1),
                            .stride = Extents(p, "stride", rank, 1, 1),
                            .dilate = Extents(p, "dilate", rank, 1, 1),
                            .pad = Extents(p, "pad", rank, 0, 0)};
  for (size_t d = 0; d < 3; ++d) {
    const index_t window = (c.kernel[d] - 1) * c.dilate[d] + 1;
    c.out[d] = (c.in[d] + 2 * c.pad[d] - window) / c.stride[d] + 1;
  }
  return c;
}

/// Returns the channel of element i of (batch, channel, …).
inline index_t ChannelOf(const TShape& shape, index_t i) {
  return i / shape.ProdShape(2, shape.ndim()) % shape[1];
}

/// Returns the output of in[0], the data, in[1], the weight, and in[2], the bias, if there is one.
/// products(visit) calls visit(i_out, i_weight, i_data) for each product. `out` has the output's
/// shape and zeros.
template <typename Products>
std::vector<Values> SumProducts(const std::vector<Values>& in, Values out,
                                const Products& products) {
  if (in.size() > 2) {
    for (index_t i = 0; i < out.size(); ++i) out[i] = in[2][ChannelOf(out.shape, i)];
  }
  products([&](index_t o, index_t w, index_t d) { out[o] += in[1][w] * in[0][d]; });
  return {out};
}

/// Returns the gradients of SumProducts's inputs.
template <typename Products>
std::vector<Values> SumProductsGradient(const Values& out_grad, const std::vector<Values>& in,
                                        const Products& products) {
  std::vector<Values> grad;
  for (const Values& x : in) grad.emplace_back(x.shape);
  products([&](index_t o, index_t w, index_t d) {
    grad[0][d] += out_grad[o] * in[1][w];
    grad[1][w] += out_grad[o] * in[0][d];
  });
  if (in.size() > 2) {
    for (index_t i = 0; i < out_grad.size(); ++i) {
      grad[2][ChannelOf(out_grad.shape, i)] += out_grad[i];
    }
  }
  return grad;
}

/// Returns an image (batch, position…, channel) as (batch, channel, position…), or the inverse.
inline Values WithChannels(bool last, const Values& image) {
  const TShape& s = image.shape;
  const int rank = s.ndim();
  TShape shape = s;
  for (int i = 2; i < rank; ++i) shape[last ? i - 1 : i] = s[last ? i : i - 1];
  shape[last ? rank - 1 : 1] = s[last ? 1 : rank - 1];
  const index_t channels = shape[last ? rank - 1 : 1];
  const index_t positions = s.ProdShape(1, rank) / std::max<index_t>(channels, 1);
  Values result(shape);
  for (index_t i = 0; i < result.size(); ++i) {
    const index_t n = i / (channels * positions), rest = i % (channels * positions);
    const index_t c = last ? rest % channels : rest / positions;
    const index_t p = last ? rest / channels : rest % positions;
    result[i] = image[n * channels * positions + (last ? c * positions + p : p * channels + c)];
  }
  return result;
}

/// Returns the arrays, of which the first `count` are images whose channels move.
inline std::vector<Values> WithChannels(bool last, std::vector<Values> arrays, size_t count) {
  for (size_t i = 0; i < std::min(count, arrays.size()); ++i) {
    arrays[i] = WithChannels(last, arrays[i]);
  }
  return arrays;
}

/// Returns whether the parameters ask for NWC, NHWC or NDHWC.
inline bool HasChannelsLast(const ParameterMap& parameters) {
  return ParameterReader(parameters).Text("layout", "None").back() == 'C';
}

/// Return references for all layouts of references for channels in front. The first `num_images`
/// inputs and all outputs are images.
inline ForwardReference OfAllLayouts(const ForwardReference& forward, size_t num_images) {
  return [=](const ParameterMap& parameters, const std::vector<Values>& in,
             std::vector<Values>* mutated) {
    if (!HasChannelsLast(parameters)) return forward(parameters, in, mutated);
    const auto out = forward(parameters, WithChannels(false, in, num_images), mutated);
    return WithChannels(true, out, out.size());
  };
}
inline BackwardReference GradientOfAllLayouts(const BackwardReference& backward,
                                              size_t num_images) {
  return [=](const ParameterMap& parameters, const std::vector<Values>& out_grad,
             const std::vector<Values>& in, const std::vector<Values>& out) {
    if (!HasChannelsLast(parameters)) return backward(parameters, out_grad, in, out);
    return WithChannels(
        true,
        backward(parameters, WithChannels(false, out_grad, out_grad.size()),
                 WithChannels(false, in, num_images), WithChannels(false, out, out.size())),
        num_images);
  };
}

}  // namespace tessera::ops_testing

#endif  // TESSERA_OPS_TESTING_WINDOW_REFERENCE_H_
