#ifndef TESSERA_TRAIN_NN_COMPILED_LAYER_H_
#define TESSERA_TRAIN_NN_COMPILED_LAYER_H_

#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "tessera/base/device.h"
#include "tessera/base/dtype.h"
#include "tessera/base/tshape.h"
#include "tessera/ndarray/ndarray.h"
#include "tessera/symbol/cached_op.h"
#include "tessera/train/nn/layer_trace.h"

namespace tessera::nn_internal {

/// The traced graphs of a layer, one for each signature of its inputs.
///
/// Threads: calls may overlap.
class CompiledLayer {
 public:
  /// Computes a layer's outputs.
  using Forward = std::function<std::vector<NDArray>(std::span<const NDArray> inputs)>;

  /// Throws Error(kInvalidArgument) for options that are out of range.
  explicit CompiledLayer(CachedOpOptions options);

  /// Calls the graph of the inputs' signature; the first time, calls `forward` and traces it.
  std::vector<NDArray> Call(std::span<const NDArray> inputs, const Forward& forward);

 private:
  /// The properties of a call on which its traced graph depends.
  struct Signature {
    std::vector<TShape> shapes;
    std::vector<DType> types;
    Device device;
    bool is_training = false;

    friend bool operator==(const Signature&, const Signature&) = default;
  };
  /// A traced graph, with the sources of its inputs in order.
  struct TracedLayer {
    Signature signature;
    CachedOp op;
    std::vector<InputSource> sources;
  };

  std::shared_ptr<const TracedLayer> Find(const Signature& signature);
  void Add(std::shared_ptr<const TracedLayer> traced);
  std::vector<NDArray> TraceCall(Signature signature, std::span<const NDArray> inputs,
                                 const Forward& forward);

  const CachedOpOptions options_;
  std::mutex mutex_;
  // The latest used one is the first.
  std::vector<std::shared_ptr<const TracedLayer>> traced_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace tessera::nn_internal

#endif  // TESSERA_TRAIN_NN_COMPILED_LAYER_H_
