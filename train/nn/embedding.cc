#include "tessera/train/nn/embedding.h"

#include <utility>

#include "tessera/train/nn/operator_call.h"

namespace tessera::nn {

using nn_internal::Text;

Embedding::Embedding(index_t input_dim, index_t output_dim,
                     std::shared_ptr<const Initializer> weight_initializer, bool sparse_grad)
    : input_dim_(input_dim),
      output_dim_(output_dim),
      weight_(AddParameter(
          "weight", {.shape = {input_dim, output_dim},
                     .grad_storage = sparse_grad ? StorageType::kRowSparse : StorageType::kDefault,
                     .initializer = std::move(weight_initializer)})) {
  nn_internal::RequireAtLeast("Embedding", "input_dim", input_dim, 1);
  nn_internal::RequireAtLeast("Embedding", "output_dim", output_dim, 1);
}

NDArray Embedding::Forward(const NDArray& x) const {
  return nn_internal::CallOne("Embedding", {x, weight_.Use(x.device(), {input_dim_, output_dim_})},
                              {{"input_dim", Text(input_dim_)}, {"output_dim", Text(output_dim_)}});
}

}  // namespace tessera::nn
