// The sample of docs/graphs.md.
#include <cstdio>
#include <map>
#include <string>
#include <vector>

#include "tessera/base/error.h"
#include "tessera/ndarray/autograd.h"
#include "tessera/ndarray/ndarray.h"
#include "tessera/symbol/cached_op.h"
#include "tessera/symbol/executor.h"
#include "tessera/symbol/op.h"
#include "tessera/symbol/summary.h"
#include "tessera/symbol/symbol.h"

using namespace tessera;  // NOLINT

void Print(const std::string& name, const NDArray& array) {
  std::printf("%-10s", name.c_str());
  for (const float value : array.ToVector()) std::printf(" %g", value);
  std::printf("\n");
}

void Fill(const std::map<std::string, NDArray>& arrays) {
  for (auto [name, array] : arrays) array = 0.5f;
}

int main() {
  // A graph of operators over named variables, without arrays.
  Symbol net = Symbol::Variable("data");
  net = ops::FullyConnected(net, {}, {}, {.num_hidden = 2}, "fc");  // {} becomes a variable
  net = Symbol::Apply("tanh", {net}, {}, "tanh");                   // the same by name
  for (const std::string& name : net.ListArguments()) std::printf("%s ", name.c_str());
  const InferredShapes shapes = net.InferShape({{"data", {4, 3}}});
  std::printf("-> %s\n", shapes.outputs[0].ToString().c_str());

  std::printf("%s", PrintSummary(net, {{"data", {4, 3}}}).c_str());

  // Bound to arrays: shapes, gradients and memory are planned once.
  const auto executor =
      SimpleBind(net, Device::Cpu(), {.shapes = {{"data", {1, 3}}}, .no_gradient = {"data"}});
  Fill(executor->arg_dict());
  executor->Forward(/*is_train=*/true);
  executor->Backward({NDArray::FromVector(std::vector<float>{1, -1}, {1, 2})});
  Print("output", executor->outputs()[0]);
  Print("fc_bias", executor->grad_dict().at("fc_bias"));

  // The results inside, one after the other.
  executor->SetMonitorCallback(
      [](const std::string& name, const NDArray& array) { Print(name, array); });
  executor->Forward(/*is_train=*/false);
  executor->SetMonitorCallback(nullptr);

  // For another batch, on the same parameters.
  const auto larger = executor->Reshape({.shapes = {{"data", {2, 3}}}, .allow_up_sizing = true});
  NDArray(larger->arg_dict().at("data")) = 1.0f;
  larger->Forward(/*is_train=*/false);
  Print("larger", larger->outputs()[0]);

  // As a function of arrays: compiled once for each signature, recorded as one node of the tape.
  const CachedOp function(net);
  NDArray x(TShape{1, 3});
  x = 0.5f;
  x.AttachGrad();
  NDArray y;
  {
    const autograd::Record record;
    y = function({x, executor->arg_dict().at("fc_weight"), executor->arg_dict().at("fc_bias")})[0];
  }
  y.Backward();
  Print("function", y);
  Print("gradient", x.grad());

  try {
    net.InferShape({{"data", {4, 3}}, {"fc_weight", {2, 5}}});
  } catch (const Error& error) {
    std::printf("%s\n", error.what());
  }
}
