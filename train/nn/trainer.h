#ifndef TESSERA_TRAIN_NN_TRAINER_H_
#define TESSERA_TRAIN_NN_TRAINER_H_

#include <memory>
#include <vector>

#include "tessera/base/tshape.h"
#include "tessera/kvstore/kvstore.h"
#include "tessera/train/nn/parameter.h"
#include "tessera/train/optimizer.h"

namespace tessera::nn {

/// Options of Trainer.
struct TrainerOptions {
  /// Sums the gradients of the devices, and of the workers, and keeps the weights, under the keys
  /// 0, 1, … It has none of them before. Null: the optimizer updates in place, or, if there are
  /// several devices, a store of the kind "local" is used.
  std::shared_ptr<KVStore> kvstore = nullptr;
  /// Skips parameters whose gradient Backward has not written since the last step, in place of an
  /// error.
  bool ignore_stale_grad = false;
};

/// Updates the parameters of a network by their gradients.
///
///     nn::Trainer trainer(net.Parameters(), std::make_shared<Sgd>());
///     {
///       const autograd::Record record;
///       loss = loss_function(net(data), label);
///     }
///     loss.Backward();
///     trainer.Step(batch_size);
///
/// Weights on several devices stay equal: Step adds the gradients of all of them, in the order of
/// the devices. A store of many workers gives all of them the weights of rank 0 at the first step,
/// whose gradients belong to these if all workers initialize by one seed. Threads: one thread at a
/// time calls a trainer.
class Trainer {
 public:
  /// Takes the parameters that have gradients; one that has several names counts once. Sets the
  /// optimizer's names and factors: lr_mult and wd_mult of the parameters, so that biases decay
  /// too, as with Gluon's. Throws Error(kInvalidArgument) without an optimizer or a parameter.
  Trainer(const std::vector<NamedParameter>& parameters, std::shared_ptr<Optimizer> optimizer,
          TrainerOptions options = {});

  /// Updates the parameters by their gradients divided by `batch_size`, the number of examples of
  /// which the loss is the sum. An optimizer that had a rescale_grad keeps that instead. Returns at
  /// once. Of many workers, each steps equally often, with the number of its own examples, which is
  /// the same for all, and skips the same parameters. Throws Error(kInvalidArgument) for a
  /// batch_size below 1, and Error(kFailedPrecondition) that names a parameter without values, with
  /// other devices than the others, or with a gradient that is not new; nothing is then updated.
  /// With a store, also throws what Optimizer::CheckUpdatesOneByOne throws.
  void Step(index_t batch_size);

  /// Returns the optimizer.
  const std::shared_ptr<Optimizer>& optimizer() const { return optimizer_; }

 private:
  /// The arrays of one parameter on all devices.
  struct Arrays {
    std::vector<NDArray> weights;
    std::vector<NDArray> gradients;
  };

  std::vector<Arrays> CollectArrays() const;
  void UseStore(const std::vector<Arrays>& arrays);

  std::vector<NamedParameter> parameters_;
  std::shared_ptr<Optimizer> optimizer_;
  TrainerOptions options_;
  bool divides_by_batch_;
  bool has_store_ = false;  // whether the store has the parameters
};

}  // namespace tessera::nn

#endif  // TESSERA_TRAIN_NN_TRAINER_H_
