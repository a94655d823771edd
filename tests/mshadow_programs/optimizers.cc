// SGD, momentum, Nesterov, AdaGrad, RMSProp and Adam on one small quadratic, each a fused update.
#include <string>

#include "mshadow/tensor.h"

using namespace mshadow;
using namespace mshadow::expr;

struct square {
  MSHADOW_XINLINE static real_t Map(real_t a) { return a * a; }
};
struct square_root {
  MSHADOW_XINLINE static real_t Map(real_t a) { return sqrtf(a); }
};
struct clip {
  MSHADOW_XINLINE static real_t Map(real_t a, real_t bound) {
    return a > bound ? bound : (a < -bound ? -bound : a);
  }
};

template <typename xpu>
class Updater {
 public:
  explicit Updater(const std::string& kind) : kind_(kind), step_(0) {
    a.Resize(Shape1(5), 0.0f);
    b.Resize(Shape1(5), 0.0f);
  }
  void Update(Tensor<xpu, 1> w, Tensor<xpu, 1> g) {
    const float lr = 0.1f, wd = 0.01f, momentum = 0.9f, eps = 1e-6f;
    ++step_;
    if (kind_ == "sgd") {
      w -= lr * (g + wd * w);
    } else if (kind_ == "clipped") {
      w += -lr * (F<clip>(g, 0.5f) + wd * w);
    } else if (kind_ == "momentum") {
      a *= momentum;
      a += (-lr) * (g + wd * w);
      w += a;
    } else if (kind_ == "nesterov") {
      Copy(b, a);
      a *= momentum;
      a += -lr * (g + wd * w);
      w += (1 + momentum) * a - momentum * b;
    } else if (kind_ == "adagrad") {
      a += F<square>(g);
      w -= lr * (g / F<square_root>(a + eps) + wd * w);
    } else if (kind_ == "rmsprop") {
      a = 0.95f * a + 0.05f * F<square>(g);
      w -= lr * g / F<square_root>(a + eps);
    } else {
      const float beta1 = 0.9f, beta2 = 0.999f;
      a += (1.0f - beta1) * (g - a);
      b += (1.0f - beta2) * (F<square>(g) - b);
      const float fix1 = 1.0f - powf(beta1, step_), fix2 = 1.0f - powf(beta2, step_);
      w -= lr * sqrtf(fix2) / fix1 * (a / (F<square_root>(b) + eps));
    }
  }

 private:
  std::string kind_;
  int step_;
  TensorContainer<xpu, 1> a, b;
};

int main() {
  InitTensorEngine<cpu>();
  const char* kinds[] = {"sgd", "clipped", "momentum", "nesterov", "adagrad", "rmsprop", "adam"};
  for (size_t k = 0; k < sizeof(kinds) / sizeof(kinds[0]); ++k) {
    TensorContainer<cpu, 1> w(Shape1(5)), g(Shape1(5)), target(Shape1(5)), scale(Shape1(5));
    for (index_t i = 0; i < 5; ++i) {
      w[i] = 1.0f;
      target[i] = 0.5f * i - 1.0f;
      scale[i] = 1.0f + 0.25f * i;
    }
    Updater<cpu> updater(kinds[k]);
    for (int i = 0; i < 20; ++i) {
      g = scale * (w - target);
      updater.Update(w, g);
    }
    printf("%s %.4f %.4f %.4f %.4f %.4f\n", kinds[k], w[0], w[1], w[2], w[3], w[4]);
  }
  ShutdownTensorEngine<cpu>();
  return 0;
}
