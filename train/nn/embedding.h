#ifndef TESSERA_TRAIN_NN_EMBEDDING_H_
#define TESSERA_TRAIN_NN_EMBEDDING_H_

#include <memory>

#include "tessera/ndarray/ndarray.h"
#include "tessera/train/initializer.h"
#include "tessera/train/nn/layer.h"

namespace tessera::nn {

/// Maps each number of the input to a vector: (…) to (…, output_dim). Numbers below 0 or above
/// input_dim - 1 take the nearest vector.
///
/// Parameter: `weight` (input_dim, output_dim). With `sparse_grad`, its gradient is row_sparse and
/// stores the vectors that a batch has used (docs/sparse.md).
class Embedding final : public UnaryLayer {
 public:
  /// Throws Error(kInvalidArgument) for an extent below 1.
  Embedding(index_t input_dim, index_t output_dim,
            std::shared_ptr<const Initializer> weight_initializer = nullptr,
            bool sparse_grad = false);

 private:
  NDArray Forward(const NDArray& x) const override;

  index_t input_dim_;
  index_t output_dim_;
  Parameter weight_;
};

}  // namespace tessera::nn

#endif  // TESSERA_TRAIN_NN_EMBEDDING_H_
