// An operator of one's own in one file, which arrays and graphs call at once:
//
//   my_smooth_l1(x) = (s x)^2 / 2 if |x| < 1 / s^2, else |x| - 1 / (2 s^2);  s is `scalar`
#include <cmath>
#include <cstdio>
#include <vector>

#include "tessera/ndarray/imperative.h"
#include "tessera/ops/simple_op.h"
#include "tessera/symbol/executor.h"

namespace {

using namespace tessera;  // NOLINT

struct SmoothL1 {
  static constexpr double kScalar = 1;

  template <typename T>
  TESSERA_HD static T Map(T x, T scalar) {
    const T slope = scalar * scalar, magnitude = x < T(0) ? -x : x;
    return magnitude * slope < T(1) ? T(0.5) * x * x * slope : magnitude - T(0.5) / slope;
  }
  template <typename T>
  TESSERA_HD static T Derivative(T x, T scalar) {
    const T scaled = x * scalar * scalar;
    return scaled > T(1) ? T(1) : scaled < T(-1) ? T(-1) : scaled;
  }
};

TESSERA_REGISTER_SIMPLE_OP(my_smooth_l1, ElementwiseOp<SmoothL1>())
    .Describe("The absolute value, rounded by a parabola near 0.");

void Print(const char* what, const NDArray& array) {
  std::printf("%s", what);
  for (const float value : array.ToVector()) std::printf(" %g", value);
  std::printf("\n");
}

}  // namespace

int main() {
  const NDArray x = NDArray::FromVector(std::vector<float>{-2, -0.25, 0, 0.5, 3}, {5});
  Print("array", Invoke("my_smooth_l1", {x})[0]);

  const Symbol y = Symbol::Apply("my_smooth_l1", {Symbol::Variable("x")}, {{"scalar", "2"}});
  const auto executor = SimpleBind(y, Device::Cpu(), {.shapes = {{"x", {5}}}});
  CopyFromTo(x, executor->arg_dict().at("x"));
  executor->Forward(/*is_train=*/true);
  executor->Backward({NDArray::FromVector(std::vector<float>{1, 1, 1, 1, 1}, {5})});
  Print("graph", executor->outputs()[0]);
  Print("gradient", executor->grad_dict().at("x"));
}
