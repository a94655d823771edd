// Shared parameters: push gradients, pull weights.
#include <cstdio>

#include "tessera/kvstore/kvstore.h"

using namespace tessera;  // NOLINT

int main() {
  const std::unique_ptr<KVStore> store = KVStore::Create("local");
  NDArray weight(TShape{3}), gradient(TShape{3});
  weight = 1.0f;
  gradient = 0.5f;
  store->Init("w", weight);
  store->set_updater([](const KVKey&, const NDArray& sum, const NDArray& stored) {
    NDArray target = stored;  // a handle
    target -= sum * 0.1f;
  });
  store->Push("w", {gradient, gradient});  // from two devices: the store adds them
  store->Pull("w", weight);
  for (const float value : weight.ToVector()) std::printf("%g ", value);
  std::printf("\n");
}
