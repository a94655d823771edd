#include "tessera/train/training_parts.h"

#include <algorithm>
#include <cstddef>

#include "tessera/base/device.h"
#include "tessera/base/error.h"
#include "tessera/base/quote.h"
#include "tessera/resource/resource_manager.h"
#include "tessera/tensor/philox.h"

namespace tessera {
namespace {

/// The generators of the process. Seeds and positions are uint64, whose bits int64 keeps.
class RandomGenerators final : public Stateful {
 public:
  TrainingState SaveState() const override {
    const RandomState random = ResourceManager::Get()->GetRandomState();
    TrainingState state;
    state.integers["seed"] = {static_cast<int64_t>(random.seed)};
    state.integers["count"] = {static_cast<int64_t>(random.generators.size())};
    for (size_t i = 0; i < random.generators.size(); ++i) {
      const auto& [device, philox] = random.generators[i];
      state.texts[DeviceName(i)] = device.ToString();
      state.integers[PositionName(i)] = {static_cast<int64_t>(philox.seed),
                                         static_cast<int64_t>(philox.stream),
                                         static_cast<int64_t>(philox.next_block)};
    }
    return state;
  }

  void LoadState(const TrainingState& state) override {
    RandomState random{.seed = static_cast<uint64_t>(state.Integer("seed"))};
    const int64_t count = state.Integer("count");
    for (size_t i = 0; static_cast<int64_t>(i) < count; ++i) {
      const std::vector<int64_t>& position = state.Integers(PositionName(i));
      if (position.size() != 3) {
        throw DataLoss("TrainingParts: the position of generator ", i, " has ", position.size(),
                       " numbers, expected 3");
      }
      random.generators.emplace_back(Device::Parse(state.Text(DeviceName(i))),
                                     PhiloxState{.seed = static_cast<uint64_t>(position[0]),
                                                 .stream = static_cast<uint64_t>(position[1]),
                                                 .next_block = static_cast<uint64_t>(position[2])});
    }
    ResourceManager::Get()->SetRandomState(random);
  }

 private:
  static std::string DeviceName(size_t i) { return "device_" + std::to_string(i); }
  static std::string PositionName(size_t i) { return "position_" + std::to_string(i); }
};

/// A number of the program, as one value of a kind of values in a state.
template <typename T, auto kKind>
class NumberPart final : public Stateful {
 public:
  explicit NumberPart(T* number) : number_(number) {}

  TrainingState SaveState() const override {
    TrainingState state;
    (state.*kKind)[kValue] = {*number_};
    return state;
  }
  void LoadState(const TrainingState& state) override {
    const auto found = (state.*kKind).find(kValue);
    if (found == (state.*kKind).end() || found->second.size() != 1) {
      throw DataLoss("TrainingParts: the state is that of another part, expected a number");
    }
    *number_ = found->second[0];
  }

 private:
  static constexpr const char* kValue = "value";

  T* const number_;
};

/// Arrays of the program.
class ArraysPart final : public Stateful {
 public:
  explicit ArraysPart(std::vector<NDArray>* arrays) : arrays_(arrays) {}

  TrainingState SaveState() const override {
    TrainingState state;
    state.integers["count"] = {static_cast<int64_t>(arrays_->size())};
    for (size_t i = 0; i < arrays_->size(); ++i) {
      NDArray& copy = state.arrays[NameOf(i)] = (*arrays_)[i].Copy(Device::Cpu());
      copy.WaitToRead();
    }
    return state;
  }
  void LoadState(const TrainingState& state) override {
    std::vector<NDArray> arrays;
    const int64_t count = state.Integer("count");
    for (size_t i = 0; static_cast<int64_t>(i) < count; ++i) {
      arrays.push_back(state.Array(NameOf(i)).Copy(Device::Cpu()));
    }
    *arrays_ = std::move(arrays);
  }

 private:
  static std::string NameOf(size_t i) { return "array_" + std::to_string(i); }

  std::vector<NDArray>* const arrays_;
};

}  // namespace

void TrainingParts::AddOwned(std::string name, std::shared_ptr<Stateful> part) {
  const bool is_known = std::any_of(parts_.begin(), parts_.end(),
                                    [&name](const auto& known) { return known.first == name; });
  if (name.empty() || name.find('/') != std::string::npos || is_known) {
    throw InvalidArgument("TrainingParts::Add: name '", Excerpt(name),
                          "', expected one without '/' that no other part has");
  }
  parts_.emplace_back(std::move(name), std::move(part));
}

void TrainingParts::Add(std::string name, Stateful* part) {
  // Does not own the part.
  AddOwned(std::move(name), std::shared_ptr<Stateful>(std::shared_ptr<void>(), part));
}

void TrainingParts::Add(std::string name, int64_t* number) {
  AddOwned(std::move(name),
           std::make_shared<NumberPart<int64_t, &TrainingState::integers>>(number));
}

void TrainingParts::Add(std::string name, double* number) {
  AddOwned(std::move(name), std::make_shared<NumberPart<double, &TrainingState::numbers>>(number));
}

void TrainingParts::Add(std::string name, std::vector<NDArray>* arrays) {
  AddOwned(std::move(name), std::make_shared<ArraysPart>(arrays));
}

void TrainingParts::AddRandom(std::string name) {
  AddOwned(std::move(name), std::make_shared<RandomGenerators>());
}

TrainingState TrainingParts::SaveState() const {
  TrainingState state;
  for (const auto& [name, part] : parts_) state.Add(name, part->SaveState());
  return state;
}

void TrainingParts::LoadState(const TrainingState& state) {
  for (const auto& [name, part] : parts_) part->LoadState(state.Part(name));
}

}  // namespace tessera
