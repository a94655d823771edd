#include "tessera/train/nn/sequential.h"

namespace tessera::nn {

NDArray Sequential::Forward(const NDArray& x) const {
  NDArray y = x;
  for (const std::shared_ptr<Layer>& layer : layers_) y = (*layer)(y);
  return y;
}

NDArray Residual::Forward(const NDArray& x) const {
  return (*body_)(x) + (shortcut_ == nullptr ? x : (*shortcut_)(x));
}

}  // namespace tessera::nn
