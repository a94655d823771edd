#include "tessera/examples/training_folder/training_folder.h"

#include <cstdint>
#include <cstdio>

namespace tessera::training_folder {

TrainingFolder::TrainingFolder(const std::string& path, nn::Layer* network, nn::Trainer* trainer)
    : network_(network), trainer_(trainer) {
  if (!path.empty()) folder_.emplace(path);
  parts_.Add("optimizer", trainer->optimizer().get());
  parts_.AddRandom("random");
}

void TrainingFolder::Continue() {
  const std::optional<int64_t> latest = folder_ ? folder_->Latest() : std::nullopt;
  if (!latest) return;
  const TrainingSnapshot snapshot = folder_->Load(*latest);
  network_->SetParams(snapshot.parameters);
  parts_.LoadState(snapshot.state);
  std::printf("continued from update %lld\n", static_cast<long long>(*latest));
}

void TrainingFolder::Save() {
  if (!folder_) return;
  folder_->Save(trainer_->optimizer()->num_update(),
                {.parameters = network_->GetParams(), .state = parts_.SaveState()});
}

void TrainingFolder::Stop(int epoch) {
  Save();
  std::printf("stopped in epoch %d", epoch);
  if (folder_) std::printf("; the same command goes on from %s", folder_->path().c_str());
  std::printf("\n");
}

}  // namespace tessera::training_folder
