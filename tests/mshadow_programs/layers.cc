// Layers behind an interface, put together at run time, as the toolkits on mshadow were built:
// in-place activations, nodes that share memory, gradients checked against differences.
#include <memory>
#include <vector>

#include "mshadow/tensor.h"

namespace net {
using namespace mshadow;
using namespace mshadow::expr;

namespace op {
struct relu {
  MSHADOW_XINLINE static real_t Map(real_t a) { return a > 0.0f ? a : 0.0f; }
};
struct relu_grad {
  MSHADOW_XINLINE static real_t Map(real_t a) { return a > 0.0f ? 1.0f : 0.0f; }
};
struct tanh {
  MSHADOW_XINLINE static real_t Map(real_t a) { return tanhf(a); }
};
struct tanh_grad {
  MSHADOW_XINLINE static real_t Map(real_t a) { return 1.0f - a * a; }
};
}  // namespace op

template <typename xpu>
struct Node {
  TensorContainer<xpu, 4> data;
  Tensor<xpu, 2> mat() { return data.FlatTo2D(); }
};

template <typename xpu>
class ILayer {
 public:
  virtual ~ILayer() {}
  virtual void Init(Node<xpu>& in, Node<xpu>& out) = 0;
  virtual void Forward(Node<xpu>& in, Node<xpu>& out) = 0;
  virtual void Backprop(Node<xpu>& in, Node<xpu>& out) = 0;
};

template <typename xpu>
class FullConnect : public ILayer<xpu> {
 public:
  explicit FullConnect(int num_hidden) : num_hidden_(num_hidden) {}
  virtual void Init(Node<xpu>& in, Node<xpu>& out) {
    utils::Check(in.data.size(1) == 1 && in.data.size(2) == 1, "FullConnect: input is a matrix");
    out.data.Resize(Shape4(in.data.size(0), 1, 1, num_hidden_));
    wmat.Resize(Shape2(num_hidden_, in.data.size(3)));
    gwmat.Resize(wmat.shape_, 0.0f);
    bias.Resize(Shape1(num_hidden_), 0.1f);
    gbias.Resize(bias.shape_, 0.0f);
    for (index_t i = 0; i < wmat.size(0); ++i) {
      for (index_t j = 0; j < wmat.size(1); ++j) wmat[i][j] = 0.4f * cosf(1.0f + 3 * i + j);
    }
  }
  virtual void Forward(Node<xpu>& in, Node<xpu>& out) {
    Tensor<xpu, 2> m_out = out.mat();
    m_out = dot(in.mat(), wmat.T());
    m_out += repmat(bias, m_out.size(0));
  }
  virtual void Backprop(Node<xpu>& in, Node<xpu>& out) {
    gwmat += dot(out.mat().T(), in.mat());
    gbias += sum_rows(out.mat());
    Tensor<xpu, 2> m_in = in.mat();
    m_in = dot(out.mat(), wmat);
  }
  TensorContainer<xpu, 2> wmat, gwmat;
  TensorContainer<xpu, 1> bias, gbias;

 private:
  int num_hidden_;
};

template <typename xpu, typename ForwardOp, typename BackOp>
class Activation : public ILayer<xpu> {
 public:
  virtual void Init(Node<xpu>& in, Node<xpu>& out) { out.data.Resize(in.data.shape_); }
  virtual void Forward(Node<xpu>& in, Node<xpu>& out) {
    in.data = F<ForwardOp>(in.data);
    Copy(out.data, in.data);
  }
  virtual void Backprop(Node<xpu>& in, Node<xpu>& out) { in.data = F<BackOp>(in.data) * out.data; }
};

template <typename xpu>
class Net {
 public:
  Net() : first(new FullConnect<xpu>(6)), last(new FullConnect<xpu>(2)) {
    layers.push_back(first);
    layers.push_back(std::make_shared<Activation<xpu, op::tanh, op::tanh_grad> >());
    layers.push_back(std::make_shared<FullConnect<xpu> >(5));
    layers.push_back(std::make_shared<Activation<xpu, op::relu, op::relu_grad> >());
    layers.push_back(last);
    nodes.resize(layers.size() + 1);
    nodes[0].data.Resize(Shape4(3, 1, 1, 4));
    for (size_t i = 0; i < layers.size(); ++i) layers[i]->Init(nodes[i], nodes[i + 1]);
  }
  float Loss(const Tensor<cpu, 4>& x, bool backprop) {
    Copy(nodes[0].data, x);
    for (size_t i = 0; i < layers.size(); ++i) layers[i]->Forward(nodes[i], nodes[i + 1]);
    Tensor<xpu, 2> out = nodes.back().mat();
    float loss = 0;
    for (index_t i = 0; i < out.size(0); ++i) {
      for (index_t j = 0; j < out.size(1); ++j) loss += 0.5f * out[i][j] * out[i][j];
    }
    if (backprop) {
      for (size_t i = layers.size(); i > 0; --i) layers[i - 1]->Backprop(nodes[i - 1], nodes[i]);
    }
    return loss;
  }
  std::vector<std::shared_ptr<ILayer<xpu> > > layers;
  std::vector<Node<xpu> > nodes;
  std::shared_ptr<FullConnect<xpu> > first, last;
};

}  // namespace net

int main() {
  using net::cpu;
  net::Net<cpu> n;
  net::TensorContainer<cpu, 4> x(net::Shape4(3, 1, 1, 4));
  for (int i = 0; i < 3; ++i) {
    for (int j = 0; j < 4; ++j) x[i][0][0][j] = 0.3f * (i + 1) - 0.2f * j;
  }
  printf("loss %.5f\n", n.Loss(x, true));
  printf("output bias gradient %.5f %.5f\n", n.last->gbias[0], n.last->gbias[1]);
  printf("weight gradient %.5f %.5f\n", n.first->gwmat[0][0], n.first->gwmat[5][3]);
  const float eps = 5e-3f;
  float worst = 0;
  for (int i = 0; i < 6; ++i) {
    for (int j = 0; j < 4; ++j) {
      float& w = n.first->wmat[i][j];
      const float w0 = w;
      w = w0 + eps;
      const float up = n.Loss(x, false);
      w = w0 - eps;
      const float down = n.Loss(x, false);
      w = w0;
      worst = std::max(worst, fabsf((up - down) / (2 * eps) - n.first->gwmat[i][j]));
    }
  }
  printf("gradient right %d\n", worst < 2e-3f ? 1 : 0);
  return 0;
}
