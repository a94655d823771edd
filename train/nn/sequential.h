#ifndef TESSERA_TRAIN_NN_SEQUENTIAL_H_
#define TESSERA_TRAIN_NN_SEQUENTIAL_H_

#include <concepts>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "tessera/ndarray/ndarray.h"
#include "tessera/train/nn/layer.h"

namespace tessera::nn {

/// Layers that follow each other, each on the first output of the one before. They are named "0",
/// "1", …
class Sequential final : public UnaryLayer {
 public:
  Sequential() = default;
  /// Constructs the layers in order: each is an rvalue, or a std::shared_ptr to a layer that may
  /// also be a part of others.
  template <typename First, typename... Rest>
  requires(!std::same_as<std::remove_cvref_t<First>, Sequential> ||
           sizeof...(Rest) > 0) explicit Sequential(First&& first, Rest&&... rest) {
    Add(std::forward<First>(first));
    (Add(std::forward<Rest>(rest)), ...);
  }

  /// Appends a layer and returns a pointer to it. Throws Error(kInvalidArgument) for null.
  template <typename Added>
  auto Add(Added&& layer) {
    auto added = AddLayer(std::to_string(layers_.size()), std::forward<Added>(layer));
    layers_.push_back(added);
    return added;
  }

  /// Returns the layers in order.
  const std::vector<std::shared_ptr<Layer>>& layers() const { return layers_; }

 private:
  NDArray Forward(const NDArray& x) const override;

  std::vector<std::shared_ptr<Layer>> layers_;
};

/// Adds a shortcut around a layer: y = body(x) + shortcut(x), or body(x) + x without a shortcut (K.
/// He et al., Deep Residual Learning for Image Recognition, CVPR 2016, equation 1). Both terms have
/// one shape. The layers are named "body" and "shortcut".
class Residual final : public UnaryLayer {
 public:
  template <typename Body>
  requires(!std::same_as<std::remove_cvref_t<Body>, Residual>) explicit Residual(Body&& body)
      : body_(AddLayer("body", std::forward<Body>(body))) {}
  template <typename Body, typename Shortcut>
  Residual(Body&& body, Shortcut&& shortcut)
      : body_(AddLayer("body", std::forward<Body>(body))),
        shortcut_(AddLayer("shortcut", std::forward<Shortcut>(shortcut))) {}

 private:
  NDArray Forward(const NDArray& x) const override;

  std::shared_ptr<Layer> body_;
  std::shared_ptr<Layer> shortcut_;  // null: the input itself
};

}  // namespace tessera::nn

#endif  // TESSERA_TRAIN_NN_SEQUENTIAL_H_
