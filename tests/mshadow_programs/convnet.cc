// Convolution, bias, relu, max pooling and a fully connected layer with softmax, forward and back,
// by the im2col of the guide: all images at once. Weights start from a formula.
#include <vector>

#include "mshadow/tensor.h"

using namespace mshadow;
using namespace mshadow::expr;

struct relu {
  MSHADOW_XINLINE static real_t Map(real_t a) {
    using namespace std;
    return max(a, 0.0f);
  }
};
struct relu_grad {
  MSHADOW_XINLINE static real_t Map(real_t a) { return a > 0.0f ? 1.0f : 0.0f; }
};

template <typename xpu>
class ConvNet {
 public:
  ConvNet(int batch_size, int insize, int nchannel, int ksize, int kstride, int psize, int num_out)
      : ksize(ksize), kstride(kstride), psize(psize) {
    ninput.Resize(Shape4(batch_size, 1, insize, insize));
    nhidden.Resize(Shape4(batch_size, nchannel, (insize - ksize) / kstride + 1,
                          (insize - ksize) / kstride + 1));
    nhiddenbak.Resize(nhidden.shape_);
    npool.Resize(Shape4(batch_size, nchannel, (nhidden.size(2) + 1 - psize) / psize,
                        (nhidden.size(3) + 1 - psize) / psize));
    npoolbak.Resize(npool.shape_);
    nflat.Resize(Shape2(batch_size, npool.size(1) * npool.size(2) * npool.size(3)));
    nout.Resize(Shape2(batch_size, num_out));
    hbias.Resize(Shape1(nchannel));
    g_hbias.Resize(hbias.shape_);
    obias.Resize(Shape1(num_out));
    g_obias.Resize(obias.shape_);
    hbias = 0.0f;
    obias = 0.0f;
    Ki2h.Resize(Shape2(nchannel, ksize * ksize));
    g_Ki2h.Resize(Ki2h.shape_);
    Wh2o.Resize(Shape2(nflat.size(1), num_out));
    g_Wh2o.Resize(Wh2o.shape_);
    Fill(Ki2h, 0.31f);
    Fill(Wh2o, 0.17f);
    printf("conv=%d, pool=%d\n", static_cast<int>(nhidden.size(3)),
           static_cast<int>(npool.size(3)));
  }
  void Forward(const Tensor<cpu, 4, real_t>& inbatch, Tensor<cpu, 2, real_t>& oubatch) {
    index_t batch_size = inbatch.size(0);
    Copy(ninput, inbatch);
    ConvForward(ninput, Ki2h, nhidden, ksize, kstride, tmp_col, tmp_dst);
    nhidden += broadcast<1>(hbias, nhidden.shape_);
    nhidden = F<relu>(nhidden);
    Copy(nhiddenbak, nhidden);
    npool = pool<red::maximum>(nhiddenbak, npool[0][0].shape_, psize, psize, psize);
    Copy(npoolbak, npool);
    nflat = reshape(npool, nflat.shape_);
    nout = dot(nflat, Wh2o);
    nout += repmat(obias, batch_size);
    Softmax(nout, nout);
    Copy(oubatch, nout);
  }
  void Backprop(const Tensor<cpu, 2, real_t>& gradout) {
    Copy(nout, gradout);
    g_obias = sum_rows(nout);
    g_Wh2o = dot(nflat.T(), nout);
    nflat = dot(nout, Wh2o.T());
    npool = reshape(nflat, npool.shape_);
    nhiddenbak = unpool<red::maximum>(nhiddenbak, npoolbak, npool, psize, psize, psize);
    nhidden = F<relu_grad>(nhidden) * nhiddenbak;
    g_hbias = sumall_except_dim<1>(nhidden);
    ConvBackward(nhidden, Ki2h, g_Ki2h, ninput, ksize, kstride, tmp_col, tmp_dst);
  }
  void Update() {
    const float eta = 0.1;
    const float wd = 0.001;
    Ki2h -= eta * (wd * Ki2h + g_Ki2h);
    Wh2o -= eta * (wd * Wh2o + g_Wh2o);
    hbias -= eta * g_hbias;
    obias -= eta * g_obias;
  }
  void Report() {
    TensorContainer<cpu, 2, real_t> kernel(Ki2h.shape_);
    TensorContainer<cpu, 1, real_t> bias(hbias.shape_);
    TensorContainer<cpu, 4, real_t> input(ninput.shape_);
    Copy(kernel, Ki2h);
    Copy(bias, hbias);
    Copy(input, ninput);
    printf("kernel %.5f %.5f bias %.5f %.5f\n", kernel[0][0], kernel[1][8], bias[0], bias[1]);
    printf("input gradient %.5f %.5f\n", input[0][0][3][3], input[3][0][2][5]);
  }

 private:
  static void Fill(Tensor<xpu, 2, real_t> weight, float step) {
    Tensor<cpu, 2, real_t> host = NewTensor<cpu>(weight.shape_, 0.0f);
    for (index_t i = 0; i < host.size(0); ++i) {
      for (index_t j = 0; j < host.size(1); ++j) {
        host[i][j] = 0.5f * sinf(step * (i * host.size(1) + j + 1));
      }
    }
    Copy(weight, host);
    FreeSpace(&host);
  }
  inline static void ConvForward(const Tensor<xpu, 4, real_t>& in,
                                 const Tensor<xpu, 2, real_t>& kernel, Tensor<xpu, 4, real_t>& out,
                                 int ksize, int kstride, TensorContainer<xpu, 2, real_t>& tmp_col,
                                 TensorContainer<xpu, 2, real_t>& tmp_dst) {
    index_t oheight = (in.size(2) - ksize) / kstride + 1;
    index_t owidth = (in.size(3) - ksize) / kstride + 1;
    index_t nbatch = in.size(0);
    index_t nchannel = out.size(1);
    tmp_col.Resize(Shape2(in.size(1) * ksize * ksize, nbatch * oheight * owidth));
    tmp_dst.Resize(Shape2(nchannel, nbatch * oheight * owidth));
    tmp_col = unpack_patch2col(in, ksize, ksize, kstride);
    tmp_dst = dot(kernel, tmp_col);
    out = swapaxis<1, 0>(reshape(tmp_dst, Shape4(nchannel, nbatch, oheight, owidth)));
  }
  inline static void ConvBackward(const Tensor<xpu, 4, real_t>& out,
                                  const Tensor<xpu, 2, real_t>& kernel,
                                  Tensor<xpu, 2, real_t>& g_kernel, Tensor<xpu, 4, real_t>& in,
                                  int ksize, int kstride, TensorContainer<xpu, 2, real_t>& tmp_col,
                                  TensorContainer<xpu, 2, real_t>& tmp_dst) {
    index_t oheight = (in.size(2) - ksize) / kstride + 1;
    index_t owidth = (in.size(3) - ksize) / kstride + 1;
    index_t nbatch = in.size(0);
    index_t nchannel = out.size(1);
    tmp_col.Resize(Shape2(in.size(1) * ksize * ksize, nbatch * oheight * owidth));
    tmp_dst.Resize(Shape2(nchannel, nbatch * oheight * owidth));
    tmp_col = unpack_patch2col(in, ksize, ksize, kstride);
    tmp_dst = reshape(swapaxis<1, 0>(out), tmp_dst.shape_);
    g_kernel = dot(tmp_dst, tmp_col.T());
    tmp_col = dot(kernel.T(), tmp_dst);
    in = pack_col2patch(tmp_col, in.shape_, ksize, ksize, kstride);
  }

  int ksize, kstride, psize;
  TensorContainer<xpu, 4, real_t> ninput, nhidden, nhiddenbak, npool, npoolbak;
  TensorContainer<xpu, 2, real_t> nflat, nout;
  TensorContainer<xpu, 2, real_t> tmp_col, tmp_dst;
  TensorContainer<xpu, 1, real_t> hbias, obias, g_hbias, g_obias;
  TensorContainer<xpu, 2, real_t> Ki2h, Wh2o, g_Ki2h, g_Wh2o;
};

int main() {
  InitTensorEngine<cpu>();
  const int batch = 4, insize = 10, num_out = 3;
  ConvNet<cpu> net(batch, insize, 2, 3, 1, 2, num_out);
  TensorContainer<cpu, 4, real_t> x(Shape4(batch, 1, insize, insize));
  std::vector<int> label(batch);
  for (index_t n = 0; n < batch; ++n) {
    label[n] = n % num_out;
    for (index_t i = 0; i < insize; ++i) {
      for (index_t j = 0; j < insize; ++j) x[n][0][i][j] = cosf(0.3f * (n + 1) * i + 0.7f * j);
    }
  }
  TensorContainer<cpu, 2, real_t> pred(Shape2(batch, num_out));
  for (int step = 0; step < 10; ++step) {
    net.Forward(x, pred);
    float loss = 0;
    for (int k = 0; k < batch; ++k) {
      loss -= logf(pred[k][label[k]]) / batch;
      pred[k][label[k]] -= 1.0f;
    }
    printf("step %d loss %.5f\n", step, loss);
    pred *= 1.0f / batch;
    net.Backprop(pred);
    net.Update();
  }
  net.Report();
  ShutdownTensorEngine<cpu>();
  return 0;
}
