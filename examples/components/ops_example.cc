// Operators without arrays or graphs: look one up, infer shapes, run it on memory of your own.
#include <cstdio>

#include "tessera/ops/registry.h"

using namespace tessera;  // NOLINT

int main() {
  const auto property = OperatorRegistry::Get().Create("FullyConnected", {{"num_hidden", "2"}});
  std::vector<TShape> in = {{3, 4}, TShape(), TShape()}, out(1);
  property->InferShape(&in, &out);  // completes weight, bias and output
  std::vector<float> x(12, 1.0f), w(8, 0.5f), b(2, 0.25f), y(6);
  const auto blob = [](std::vector<float>& data, const TShape& shape) {
    return TBlob(data.data(), shape, DType::kFloat32, Device::Cpu());
  };
  const std::vector<TBlob> inputs = {blob(x, in[0]), blob(w, in[1]), blob(b, in[2])};
  const std::vector<TBlob> outputs = {blob(y, out[0])};
  const std::vector<OpReqType> req = {kWriteTo};
  const std::vector<DType> types(3, DType::kFloat32);
  const auto op = property->CreateOperator(Device::Cpu(), in, types);
  op->Forward(OpContext(), inputs, req, outputs);
  std::printf("%s %.2f\n", out[0].ToString().c_str(), y[0]);
}
