// Arrays whose operations run asynchronously; only reading a value waits.
#include <cstdio>

#include "tessera/ndarray/imperative.h"
#include "tessera/ndarray/ndarray.h"

using namespace tessera;  // NOLINT

int main() {
  NDArray a = NDArray::FromVector(std::vector<float>{1, 2, 3, 4}, {2, 2});
  NDArray b(TShape{2, 2});
  b = 10.0f;
  NDArray c = a * b + 1.0f;  // returns at once
  c += a.Slice(0, 2);
  const std::vector<NDArray> inputs = {c};
  const NDArray d = Invoke("Activation", inputs, {{"act_type", "relu"}})[0];
  for (const float value : d.ToVector()) std::printf("%g ", value);  // waits
  std::printf("\n");
}
