// A maxout network on crops of images that move from step to step: blocks between two corners, read
// and written; the largest of every three channels, and normalization across channels, each with
// its gradient.
#include "mshadow/extension/channel_pool.h"
#include "mshadow/extension/channel_unpool.h"
#include "mshadow/extension/slice_ex.h"
#include "mshadow/tensor.h"

using namespace mshadow;
using namespace mshadow::expr;

struct square {
  MSHADOW_XINLINE static real_t Map(real_t a) { return a * a; }
};

void Show(const char* name, const Tensor<cpu, 1>& t) {
  printf("%s:", name);
  for (index_t i = 0; i < t.size(0); ++i) printf(" %.5f", t[i]);
  printf("\n");
}

int main() {
  InitTensorEngine<cpu>();
  const index_t batch = 3, crop = 4, groups = 4, pieces = 3, classes = 3;
  // Windows are counted as (channels - pieces + 1) / pieces: the last channels are in none.
  const index_t channels = groups * pieces + pieces - 1, hiddens = 2 * channels;
  TensorContainer<cpu, 4> image(Shape4(batch, 1, 5, 6)), gimage(image.shape_, 0.0f);
  TensorContainer<cpu, 4> patch(Shape4(batch, 1, crop, crop));
  TensorContainer<cpu, 4> hidden(Shape4(batch, channels, 1, 2)), ghidden(hidden.shape_);
  TensorContainer<cpu, 4> most(Shape4(batch, groups, 1, 2)), gmost(most.shape_);
  TensorContainer<cpu, 4> divisor(most.shape_), out(most.shape_);
  TensorContainer<cpu, 2> flat(Shape2(batch, crop * crop)), units(Shape2(batch, hiddens));
  TensorContainer<cpu, 2> z(Shape2(batch, 8)), pred(Shape2(batch, classes));
  TensorContainer<cpu, 2> w1(Shape2(16, hiddens)), gw1(w1.shape_), w2(Shape2(8, classes));
  TensorContainer<cpu, 2> gw2(w2.shape_);
  for (index_t n = 0; n < batch; ++n) {
    for (index_t y = 0; y < 5; ++y) {
      for (index_t x = 0; x < 6; ++x) {
        image[n][0][y][x] = sinf(0.9f * n + 0.5f * y * x + 0.3f * x);
      }
    }
  }
  for (index_t i = 0; i < 16; ++i) {
    for (index_t j = 0; j < hiddens; ++j) {
      w1[i][j] = 0.6f * sinf(0.5f * ((i * hiddens + j) % 41));
    }
  }
  for (index_t i = 0; i < 8; ++i) {
    for (index_t j = 0; j < classes; ++j) w2[i][j] = 0.5f * cosf(0.7f * (i * classes + j));
  }

  const real_t alpha = 0.1f, eta = 0.1f;
  for (int step = 0; step < 6; ++step) {
    const index_t y = step % 2, x = step % 3;
    const Shape<4> begin = Shape4(0, 0, y, x), end = Shape4(batch, 1, y + crop, x + crop);
    patch = slice(image, begin, end);
    flat = reshape(patch, flat.shape_);
    units = dot(flat, w1);
    hidden = reshape(units, hidden.shape_);
    most = chpool<red::maximum>(hidden, pieces, pieces, 0);
    divisor = chpool<red::sum>(F<square>(most), 3) * alpha + 1.0f;
    out = most / divisor;
    z = reshape(out, z.shape_);
    pred = dot(z, w2);
    Softmax(pred, pred);
    real_t loss = 0.0f;
    for (index_t n = 0; n < batch; ++n) {
      loss -= logf(pred[n][n]) / batch;
      pred[n][n] -= 1.0f;
    }
    printf("step %d loss %.5f\n", step, loss);
    pred *= 1.0f / batch;
    gw2 = dot(z.T(), pred);
    z = dot(pred, w2.T());
    out = reshape(z, out.shape_);
    gmost = out / divisor;
    out *= most / (divisor * divisor);
    gmost -= 2.0f * alpha * most * ch_unpool<red::sum>(most, divisor, out, 3);
    ghidden = ch_unpool<red::maximum>(hidden, most, gmost, pieces, pieces, 0);
    units = reshape(ghidden, units.shape_);
    gw1 = dot(flat.T(), units);
    flat = dot(units, w1.T());
    slice(gimage, begin, end) += reshape(flat, patch.shape_);
    w1 -= eta * gw1;
    w2 -= eta * gw2;
  }
  TensorContainer<cpu, 1> columns(Shape1(6)), by_channel(Shape1(channels));
  columns = sumall_except_dim<3>(gimage);
  Show("image gradient", columns);
  slice(gimage, Shape4(1, 0, 1, 1), Shape4(2, 1, 3, 4)) = 0.0f;
  columns = sumall_except_dim<3>(gimage);
  Show("a block cleared", columns);
  slice(gimage, Shape4(0, 0, 0, 0), Shape4(1, 1, 2, 6)) =
      slice(image, Shape4(2, 0, 3, 0), Shape4(3, 1, 5, 6)) * 2.0f;
  columns = sumall_except_dim<3>(gimage);
  Show("a block copied", columns);
  patch = 1.0f - slice(slice(image, Shape4(0, 0, 0, 1), Shape4(batch, 1, 5, 6)), Shape4(0, 0, 1, 1),
                       Shape4(batch, 1, 5, 5));
  columns.Resize(Shape1(crop));
  columns = sumall_except_dim<3>(patch);
  Show("a block of a block", columns);

  // windows that overlap, and reach beyond the first and the last channel
  TensorContainer<cpu, 4> wide(Shape4(batch, 6, 1, 2));
  by_channel = sumall_except_dim<1>(hidden);
  Show("channels", by_channel);
  wide = chpool<red::maximum>(hidden, 4, 2, 1);
  ghidden = ch_unpool<red::maximum>(hidden, wide, wide, 4, 2, 1);
  by_channel = sumall_except_dim<1>(ghidden);
  Show("largest", by_channel);
  wide = chpool<red::sum>(hidden, 4, 2, 1);
  ghidden = ch_unpool<red::sum>(hidden, wide, wide, 4, 2, 1);
  by_channel = sumall_except_dim<1>(ghidden);
  Show("sums", by_channel);
  ShutdownTensorEngine<cpu>();
  return 0;
}
