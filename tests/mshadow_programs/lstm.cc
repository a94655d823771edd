// A few steps of an LSTM. The four gates are rows of one matrix, of which slices are views.
#include "mshadow/tensor.h"

using namespace mshadow;
using namespace mshadow::expr;

namespace mshadow_op {
struct sigmoid {
  template <typename DType>
  MSHADOW_XINLINE static DType Map(DType a) {
    return DType(1.0f / (1.0f + expf(-a)));
  }
};
struct tanh {
  template <typename DType>
  MSHADOW_XINLINE static DType Map(DType a) {
    return DType(tanhf(a));
  }
};
}  // namespace mshadow_op

template <typename xpu, typename DType>
class Lstm {
 public:
  Lstm(index_t input, index_t hidden, index_t batch)
      : hidden_(hidden),
        wx(Shape2(4 * hidden, input)),
        wh(Shape2(4 * hidden, hidden)),
        bias(Shape1(batch)),
        gates(Shape2(4 * hidden, batch)),
        cell(Shape2(hidden, batch), DType(0)),
        state(Shape2(hidden, batch), DType(0)) {
    Fill(wx, 0.37);
    Fill(wh, 0.53);
    for (index_t i = 0; i < batch; ++i) bias[i] = DType(0.1 * (i + 1));
  }
  void Step(const Tensor<xpu, 2, DType>& x) {
    gates = dot(wx, x);
    gates += dot(wh, state);
    gates += repmat(bias, 4 * hidden_);
    Tensor<xpu, 2, DType> in = gates.Slice(0, hidden_);
    Tensor<xpu, 2, DType> forget = gates.Slice(hidden_, 2 * hidden_);
    Tensor<xpu, 2, DType> candidate = gates.Slice(2 * hidden_, 3 * hidden_);
    Tensor<xpu, 2, DType> out = gates.Slice(3 * hidden_, 4 * hidden_);
    in = F<mshadow_op::sigmoid>(in);
    forget = F<mshadow_op::sigmoid>(forget);
    candidate = F<mshadow_op::tanh>(candidate);
    out = F<mshadow_op::sigmoid>(out);
    cell = forget * cell + in * candidate;
    state = out * F<mshadow_op::tanh>(cell);
  }
  const TensorContainer<xpu, 2, DType>& h() const { return state; }
  const TensorContainer<xpu, 2, DType>& c() const { return cell; }

 private:
  static void Fill(Tensor<xpu, 2, DType> w, double step) {
    for (index_t i = 0; i < w.size(0); ++i) {
      for (index_t j = 0; j < w.size(1); ++j) w[i][j] = DType(sin(step * (i * w.size(1) + j + 1)));
    }
  }
  index_t hidden_;
  TensorContainer<xpu, 2, DType> wx, wh;
  TensorContainer<xpu, 1, DType> bias;
  TensorContainer<xpu, 2, DType> gates, cell, state;
};

template <typename DType>
void Run(const char* name) {
  Lstm<cpu, DType> lstm(3, 5, 2);
  TensorContainer<cpu, 2, DType> x(Shape2(3, 2));
  for (int t = 0; t < 4; ++t) {
    for (index_t i = 0; i < 3; ++i) {
      for (index_t j = 0; j < 2; ++j) x[i][j] = DType(cos(0.4 * t + i - 0.5 * j));
    }
    lstm.Step(x);
    printf("%s t=%d h %.5f %.5f c %.5f %.5f\n", name, t, static_cast<double>(lstm.h()[0][0]),
           static_cast<double>(lstm.h()[4][1]), static_cast<double>(lstm.c()[0][0]),
           static_cast<double>(lstm.c()[4][1]));
  }
}

int main() {
  Run<float>("float");
  Run<double>("double");
  return 0;
}
