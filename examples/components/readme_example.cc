#include <iostream>

#include "tessera/tensor/tensor.h"

using namespace tessera;  // NOLINT

int main() {
  TensorContainer<cpu, 2> x(Shape2(3, 4), 0.5f), w(Shape2(2, 4), 1.0f), y(Shape2(3, 2));
  y = dot(x, w.T());                    // a matrix product
  y = tanh(y - 2.0f) * 3.0f + 1.0f;     // one pass over memory, without temporaries
  std::cout << sum(square(y)) << '\n';  // another pass
  try {
    y = x + w;
  } catch (const Error& error) {
    std::cout << error.what() << '\n';
  }
}
