// The sample of docs/arrays-and-gradients.md.
#include <cstdio>
#include <iostream>
#include <memory>
#include <vector>

#include "tessera/base/error.h"
#include "tessera/ndarray/autograd.h"
#include "tessera/ndarray/ndarray.h"
#include "tessera/ndarray/op.h"
#include "tessera/ndarray/print.h"

using namespace tessera;  // NOLINT

NDArray Array(const std::vector<float>& values, const TShape& shape) {
  return NDArray::FromVector(values, shape);
}

void Print(const char* name, const NDArray& array) {
  std::printf("%-10s", name);
  for (const float value : array.ToVector()) std::printf(" %g", value);
  std::printf("\n");
}

// A function with a gradient of its own: the identity, whose gradient is at most 1.
class ClipGradient final : public autograd::Function {
 public:
  std::vector<NDArray> Forward(const std::vector<NDArray>& inputs) override { return inputs; }
  std::vector<NDArray> Backward(const std::vector<NDArray>& out_grads) override {
    return {ops::clip(out_grads[0], {.a_min = -1, .a_max = 1})};
  }
};

void Arrays() {
  NDArray a = Array({1, 2, 3, 4, 5, 6}, {2, 3});
  NDArray row = a.At(1);                       // shares the elements of a
  row += 10.0f;                                // pushed; nothing has been waited for
  std::cout << a << "\n";                      // waits
  Print("column", a.Index({AxisSlice{}, 1}));  // not contiguous: a copy
  a.Assign({0, AxisSlice{.begin = 1}}, 0.0f);
  Print("assigned", a);
  Print("broadcast", a * Array({1, 10}, {2, 1}) - 1.0f);
  Print("reshaped", ops::sum(a.Reshape({-1, 2}), {.axis = 1}));
}

void Gradients() {
  NDArray x = Array({1, 2, 3}, {3});
  x.AttachGrad();
  NDArray loss;
  {
    const autograd::Record record;
    loss = ops::sum(x * x * x);
  }
  loss.Backward();
  Print("3 x^2", x.grad());

  // A gradient is an array like any other, and so is its gradient.
  std::vector<NDArray> slope;
  {
    const autograd::Record record;
    slope = autograd::Grad({x * x * x}, {x}, {}, {.create_graph = true});
  }
  slope[0].Backward();
  Print("6 x", x.grad());

  NDArray w = Array({2}, {1});
  w.AttachGrad(kAddTo);
  for (int batch = 1; batch <= 3; ++batch) {  // the gradients of batches add up
    NDArray y;
    {
      const autograd::Record record;
      y = w * w.Detach() * static_cast<float>(batch);  // one factor is a constant
    }
    y.Backward();
  }
  Print("2 * 6", w.grad());

  NDArray clipped;
  {
    const autograd::Record record;
    clipped = autograd::Call(std::make_shared<ClipGradient>(), {x})[0] * 5.0f;
  }
  clipped.Backward();
  Print("clipped", x.grad());
}

void Errors() {
  NDArray x = Array({1, 2}, {2});
  x.AttachGrad();
  NDArray y;
  {
    const autograd::Record record;
    y = x * x;
  }
  x += 1.0f;  // the gradient of x * x needs what x was
  try {
    y.Backward();
  } catch (const Error& error) {
    std::printf("%s\n", error.what());
  }
}

int main() {
  Arrays();
  Gradients();
  Errors();
}
