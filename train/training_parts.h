#ifndef TESSERA_TRAIN_TRAINING_PARTS_H_
#define TESSERA_TRAIN_TRAINING_PARTS_H_

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tessera/ndarray/ndarray.h"
#include "tessera/ndarray/state.h"

namespace tessera {

/// The parts of a training whose states make up that of the whole.
///
///     TrainingParts parts;
///     parts.Add("optimizer", trainer.optimizer().get());
///     parts.Add("data", &train);
///     parts.AddRandom("random");
///     folder.Save(step, {.parameters = net.GetParams(), .state = parts.SaveState()});
///
/// The parts outlive the object. Threads: one thread at a time calls an object, and no other
/// changes the parts meanwhile.
class TrainingParts final : public Stateful {
 public:
  /// Adds a part under a name. Throws Error(kInvalidArgument) for a name that another part has,
  /// that is empty or has the character '/'.
  void Add(std::string name, Stateful* part);
  /// Add a number or arrays of a loop of one's own, such as the epoch, a sum of losses or the
  /// states of a recurrent network. No array is_none(). LoadState sets the arrays to copies in host
  /// memory, as many as were saved.
  void Add(std::string name, int64_t* number);
  void Add(std::string name, double* number);
  void Add(std::string name, std::vector<NDArray>* arrays);
  /// Adds the random generators of the process: those of ResourceManager::Get(), from which Dropout
  /// and operators that sample draw.
  void AddRandom(std::string name);

  /// Returns the states of all parts. Throws what they throw.
  TrainingState SaveState() const override;
  /// Sets the states of the parts in their order. If a part throws an error, earlier ones are set.
  void LoadState(const TrainingState& state) override;

 private:
  void AddOwned(std::string name, std::shared_ptr<Stateful> part);

  std::vector<std::pair<std::string, std::shared_ptr<Stateful>>> parts_;
};

}  // namespace tessera

#endif  // TESSERA_TRAIN_TRAINING_PARTS_H_
