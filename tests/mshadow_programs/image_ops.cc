// Functions of images in data augmentation and multi-branch networks: pad, crop, mirror, slice,
// concat, pooling of several kinds, across channels too.
#include "mshadow/extension.h"
#include "mshadow/tensor.h"

using namespace mshadow;
using namespace mshadow::expr;

struct square {
  MSHADOW_XINLINE static real_t Map(real_t a) { return a * a; }
};
struct power {
  MSHADOW_XINLINE static real_t Map(real_t a, real_t b) { return powf(a, b); }
};

// a number in which every element and its place matter
template <int dim>
void Digest(const char* name, const Tensor<cpu, dim>& t) {
  Tensor<cpu, 2> m = t.FlatTo2D();
  double digest = 0;
  index_t k = 0;
  for (index_t i = 0; i < m.size(0); ++i) {
    for (index_t j = 0; j < m.size(1); ++j) digest += m[i][j] * (1 + k++ % 7);
  }
  std::cout << name << ' ' << t.shape_ << ' ';
  printf("%.3f\n", digest);
  fflush(stdout);
}

int main() {
  InitTensorEngine<cpu>();
  TensorContainer<cpu, 4> image(Shape4(2, 3, 6, 6)), copy(Shape4(2, 3, 6, 6));
  for (index_t n = 0; n < 2; ++n) {
    for (index_t c = 0; c < 3; ++c) {
      for (index_t y = 0; y < 6; ++y) {
        for (index_t x = 0; x < 6; ++x) {
          image[n][c][y][x] = sinf(0.5f + n * 108 + c * 36 + y * 6 + x);
        }
      }
    }
  }
  Digest<4>("image", image);
  TensorContainer<cpu, 4> big(Shape4(2, 3, 8, 8)), wide(Shape4(2, 3, 6, 10));
  big = pad(image, 1);
  Digest<4>("pad", big);
  wide = pad(image, 0, 2);
  Digest<4>("pad x", wide);
  copy = crop(big, Shape2(6, 6));
  Digest<4>("crop centre", copy);
  copy = crop(big, Shape2(6, 6), 2, 0);
  Digest<4>("crop corner", copy);
  copy = mirror(image);
  Digest<4>("mirror", copy);
  copy = flip(image, 2);
  Digest<4>("flip", copy);

  TensorContainer<cpu, 4> up(Shape4(2, 3, 12, 12)), half(Shape4(2, 3, 3, 3)), q(Shape4(2, 3, 5, 5));
  up = upsampling_nearest(image, 2);
  Digest<4>("upsampled", up);
  half = pool<red::maximum>(image, half[0][0].shape_, 2, 2, 2);
  Digest<4>("max", half);
  half = pool<red::sum>(image, 2, 2, 2) * 0.25f;
  Digest<4>("average", half);
  q = pool<red::maximum>(image, 2, 2, 1, 1);
  Digest<4>("overlapping", q);
  copy = unpool<red::maximum>(image, q, q, 2, 2, 1, 1);
  Digest<4>("unpooled", copy);
  half = pool<red::maximum>(pad(image, 1), Shape2(3, 3), 3, 3, 2, 2);
  Digest<4>("padded max", half);

  // response normalization across channels, as in AlexNet
  TensorContainer<cpu, 4> norm(image.shape_), grad(image.shape_);
  const real_t salpha = 0.01f / 3, beta = 0.75f;
  norm = chpool<red::sum>(F<square>(image), 3) * salpha + 1.0f;
  copy = image * F<power>(norm, -beta);
  Digest<4>("lrn", copy);
  grad = F<power>(norm, -beta);
  grad -= 2.0f * beta * salpha * image * chpool<red::sum>(image * F<power>(norm, -beta - 1.0f), 3);
  Digest<4>("lrn gradient", grad);

  TensorContainer<cpu, 4> two(Shape4(2, 2, 6, 6)), one(Shape4(2, 1, 6, 6)), joined(image.shape_);
  two = slice<1>(image, 0, 2);
  one = slice<1>(image, 2, 3);
  Digest<4>("slice", two);
  joined = concat<1>(one, two);
  Digest<4>("concat", joined);
  concat<1>(two, one) = image * 2.0f;
  Digest<4>("left concat", one);
  slice<1>(joined, 1, 2) = one;
  Digest<4>("left slice", joined);

  TensorContainer<cpu, 4> swapped(Shape4(3, 2, 6, 6)), moved(Shape4(2, 6, 6, 3));
  swapped = swapaxis<1, 0>(image);
  Digest<4>("swapped", swapped);
  moved = transpose(image, Shape4(0, 2, 3, 1));
  Digest<4>("channels last", moved);
  TensorContainer<cpu, 3> joint(Shape3(2, 3, 36));
  joint = reshape(image, joint.shape_);
  Digest<3>("reshaped", joint);
  TensorContainer<cpu, 2> mean(Shape2(2, 3));
  mean = reduce_with_axis<red::sum, false>(joint, 2) / 36.0f;
  Digest<2>("means", mean);
  joint -= broadcast_with_axis(mean, 1, 36);
  Digest<3>("centred", joint);
  TensorContainer<cpu, 1> single(Shape1(1), 2.5f);
  mean = broadcast_scalar(single, mean.shape_) * mean;
  Digest<2>("scaled", mean);

  TensorContainer<cpu, 2> col(Shape2(3 * 3 * 3, 2 * 4 * 4)), dilated(Shape2(3 * 2 * 2, 2 * 4 * 4));
  col = unpack_patch2col(image, 3, 3, 1);
  Digest<2>("columns", col);
  dilated = unpack_patch2col(image, 2, 2, 1, 2);
  Digest<2>("dilated", dilated);
  copy = pack_col2patch(col, copy.shape_, 3, 3, 1);
  Digest<4>("packed", copy);
  col.Resize(Shape2(3 * 3 * 3, 2 * 3 * 3));
  col = unpack_patch2col(pad(image, 1), 3, 3, 2, 2, 1, 1);
  Digest<2>("strided", col);
  ShutdownTensorEngine<cpu>();
  return 0;
}
