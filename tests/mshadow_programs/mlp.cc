// A two-layer perceptron that is written for any device and trained by gradient descent, as in the
// guide of 2014: `mlp cpu`, or `mlp gpu` where it was compiled for one.
#include <cstring>
#include <vector>

#include "mshadow/tensor.h"

using namespace mshadow;
using namespace mshadow::expr;

struct sigmoid {
  MSHADOW_XINLINE static real_t Map(real_t a) { return 1.0f / (1.0f + expf(-a)); }
};

class INNet {
 public:
  virtual void Forward(const Tensor<cpu, 2, real_t>& inbatch, Tensor<cpu, 2, real_t>& oubatch) = 0;
  virtual void Backprop(const Tensor<cpu, 2, real_t>& gradout) = 0;
  virtual void Update(void) = 0;
  virtual ~INNet() {}
};

template <typename xpu>
class NNet : public INNet {
 public:
  NNet(int batch_size, int num_in, int num_hidden, int num_out) : rnd(0) {
    stream = NewStream<xpu>();
    ninput.set_stream(stream);
    nhidden.set_stream(stream);
    nhiddenbak.set_stream(stream);
    nout.set_stream(stream);
    hbias.set_stream(stream);
    obias.set_stream(stream);
    g_hbias.set_stream(stream);
    g_obias.set_stream(stream);
    Wi2h.set_stream(stream);
    Wh2o.set_stream(stream);
    g_Wi2h.set_stream(stream);
    g_Wh2o.set_stream(stream);
    rnd.set_stream(stream);
    ninput.Resize(Shape2(batch_size, num_in));
    nhidden.Resize(Shape2(batch_size, num_hidden));
    nhiddenbak.Resize(nhidden.shape_);
    nout.Resize(Shape2(batch_size, num_out));
    hbias.Resize(Shape1(num_hidden));
    g_hbias.Resize(hbias.shape_);
    obias.Resize(Shape1(num_out));
    g_obias.Resize(obias.shape_);
    hbias = 0.0f;
    obias = 0.0f;
    Wi2h.Resize(Shape2(num_in, num_hidden));
    g_Wi2h.Resize(Wi2h.shape_);
    Wh2o.Resize(Shape2(num_hidden, num_out));
    g_Wh2o.Resize(Wh2o.shape_);
    rnd.SampleGaussian(&Wi2h, 0, 1.0f);
    rnd.SampleGaussian(&Wh2o, 0, 0.5);
  }
  virtual ~NNet() { DeleteStream(stream); }
  virtual void Forward(const Tensor<cpu, 2, real_t>& inbatch, Tensor<cpu, 2, real_t>& oubatch) {
    index_t batch_size = inbatch.size(0);
    Copy(ninput, inbatch, stream);
    nhidden = dot(ninput, Wi2h);
    nhidden += repmat(hbias, batch_size);
    nhidden = F<sigmoid>(nhidden);
    Copy(nhiddenbak, nhidden, stream);
    nout = dot(nhiddenbak, Wh2o);
    nout += repmat(obias, batch_size);
    Softmax(nout, nout);
    Copy(oubatch, nout, stream);
    stream->Wait();
  }
  virtual void Backprop(const Tensor<cpu, 2, real_t>& gradout) {
    Copy(nout, gradout, stream);
    g_obias = sum_rows(nout);
    g_Wh2o = dot(nhiddenbak.T(), nout);
    nhiddenbak = dot(nout, Wh2o.T());
    nhidden = nhidden * (1.0f - nhidden) * nhiddenbak;
    g_hbias = sum_rows(nhidden);
    g_Wi2h = dot(ninput.T(), nhidden);
  }
  virtual void Update(void) {
    const float eta = 0.8;
    const float wd = 0.00001;
    Wi2h -= eta * (wd * Wi2h + g_Wi2h);
    Wh2o -= eta * (wd * Wh2o + g_Wh2o);
    hbias -= eta * g_hbias;
    obias -= eta * g_obias;
  }

 private:
  Stream<xpu>* stream;
  Random<xpu, real_t> rnd;
  TensorContainer<xpu, 2, real_t> ninput, nhidden, nhiddenbak, nout;
  TensorContainer<xpu, 1, real_t> hbias, obias, g_hbias, g_obias;
  TensorContainer<xpu, 2, real_t> Wi2h, Wh2o, g_Wi2h, g_Wh2o;
};

inline int MaxIndex(Tensor<cpu, 1, real_t> pred) {
  int maxidx = 0;
  for (index_t i = 1; i < pred.size(0); ++i) {
    if (pred[i] > pred[maxidx]) maxidx = (int)i;
  }
  return maxidx;
}

// The exclusive or of two bits, with a little noise around each corner.
void MakeData(std::vector<int>* labels, TensorContainer<cpu, 2>* x) {
  const int n = 200;
  x->Resize(Shape2(n, 2));
  for (int i = 0; i < n; ++i) {
    const int p = i % 2, q = i / 2 % 2;
    (*x)[i][0] = p + 0.2f * ((i * 7919) % 101 / 100.0f - 0.5f);
    (*x)[i][1] = q + 0.2f * ((i * 104729) % 97 / 96.0f - 0.5f);
    labels->push_back(p ^ q);
  }
}

template <typename xpu>
int Run() {
  InitTensorEngine<xpu>();
  const int batch_size = 20;
  INNet* net = new NNet<xpu>(batch_size, 2, 16, 2);
  TensorContainer<cpu, 2, real_t> pred(Shape2(batch_size, 2));
  std::vector<int> y;
  TensorContainer<cpu, 2, real_t> x;
  MakeData(&y, &x);
  float first_loss = 0, loss = 0;
  long nerr = 0;
  for (int round = 0; round < 150; ++round) {
    loss = 0;
    nerr = 0;
    for (index_t j = 0; j + batch_size <= x.size(0); j += batch_size) {
      net->Forward(x.Slice(j, j + batch_size), pred);
      for (int k = 0; k < batch_size; ++k) {
        nerr += MaxIndex(pred[k]) != y[k + j];
        loss -= logf(pred[k][y[k + j]]);
        pred[k][y[k + j]] -= 1.0f;
      }
      pred *= 1.0f / batch_size;
      net->Backprop(pred);
      net->Update();
    }
    if (round == 0) first_loss = loss / x.size(0);
  }
  loss /= x.size(0);
  printf("started near ln 2: %d\n", first_loss > 0.5f && first_loss < 1.2f ? 1 : 0);
  printf("loss below 0.1: %d\n", loss < 0.1f ? 1 : 0);
  printf("errors %ld of %d\n", nerr, static_cast<int>(x.size(0)));
  delete net;
  ShutdownTensorEngine<xpu>();
  return 0;
}

int main(int argc, char* argv[]) {
  if (argc > 1 && !strcmp(argv[1], "gpu")) {
#if MSHADOW_USE_CUDA
    return Run<gpu>();
#else
    printf("compiled without a gpu\n");
    return 1;
#endif
  }
  return Run<cpu>();
}
