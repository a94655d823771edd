// Looks an operator of one's own up by its name, and holds its gradient against a difference.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <vector>

#include "tessera/ops/registry.h"

using namespace tessera;  // NOLINT

int main() {
  const auto property = OperatorRegistry::Get().Create("Swish", {{"beta", "1.5"}});
  std::vector<TShape> in = {{2, 3}}, out(1);
  property->InferShape(&in, &out);
  const std::vector<DType> types(1, DType::kFloat64);
  const auto op = property->CreateOperator(Device::Cpu(), in, types);

  const auto blob = [&](std::vector<double>& data) {
    return TBlob(data.data(), out[0], DType::kFloat64, Device::Cpu());
  };
  const std::vector<OpReqType> req = {kWriteTo};
  const auto forward = [&](std::vector<double> x) {
    std::vector<double> y(x.size());
    const std::vector<TBlob> inputs = {blob(x)}, outputs = {blob(y)};
    op->Forward(OpContext(), inputs, req, outputs);
    return y;
  };

  std::vector<double> x = {-2, -1, 0, 0.5, 1, 3}, y = forward(x), g(6, 1.0), gradient(6);
  const std::vector<TBlob> out_grad = {blob(g)}, in_data = {blob(x)}, out_data = {blob(y)},
                           in_grad = {blob(gradient)};
  op->Backward(OpContext(), out_grad, in_data, out_data, req, in_grad);

  const double step = 1e-6;
  double worst = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    std::vector<double> above = x, below = x;
    above[i] += step;
    below[i] -= step;
    const double difference = (forward(above)[i] - forward(below)[i]) / (2 * step);
    worst = std::max(worst, std::abs(difference - gradient[i]));
  }
  std::printf("%s %.4f, gradient %s\n", out[0].ToString().c_str(), y[4],
              worst < 1e-8 ? "agrees" : "differs");
}
