#include "tessera/ndarray/state.h"

#include "tessera/base/error.h"
#include "tessera/base/quote.h"

namespace tessera {
namespace {

template <typename Value>
const Value& Find(const std::map<std::string, Value>& values, const char* kind,
                  const std::string& name) {
  const auto found = values.find(name);
  if (found == values.end()) {
    throw DataLoss("TrainingState: no ", kind, " ", Excerpt(name), " was saved");
  }
  return found->second;
}

template <typename T>
T Only(const std::vector<T>& values, const std::string& name) {
  if (values.size() != 1) {
    throw DataLoss("TrainingState: ", Excerpt(name), " has ", values.size(),
                   " values, expected one");
  }
  return values[0];
}

template <typename Value>
void AddAll(const std::string& prefix, const std::map<std::string, Value>& from,
            std::map<std::string, Value>* to) {
  for (const auto& [name, value] : from) (*to)[prefix + name] = value;
}

template <typename Value>
std::map<std::string, Value> AllOf(const std::string& prefix,
                                   const std::map<std::string, Value>& from) {
  std::map<std::string, Value> found;
  for (auto entry = from.lower_bound(prefix);
       entry != from.end() && entry->first.starts_with(prefix); ++entry) {
    found.emplace(entry->first.substr(prefix.size()), entry->second);
  }
  return found;
}

}  // namespace

int64_t TrainingState::Integer(const std::string& name) const { return Only(Integers(name), name); }
double TrainingState::Number(const std::string& name) const { return Only(Numbers(name), name); }
const std::vector<int64_t>& TrainingState::Integers(const std::string& name) const {
  return Find(integers, "integers", name);
}
const std::vector<double>& TrainingState::Numbers(const std::string& name) const {
  return Find(numbers, "numbers", name);
}
const std::string& TrainingState::Text(const std::string& name) const {
  return Find(texts, "text", name);
}
const NDArray& TrainingState::Array(const std::string& name) const {
  return Find(arrays, "array", name);
}

void TrainingState::Add(std::string_view part, const TrainingState& state) {
  const std::string prefix = std::string(part) + "/";
  AddAll(prefix, state.integers, &integers);
  AddAll(prefix, state.numbers, &numbers);
  AddAll(prefix, state.texts, &texts);
  AddAll(prefix, state.arrays, &arrays);
}

TrainingState TrainingState::Part(std::string_view part) const {
  const std::string prefix = std::string(part) + "/";
  return {.integers = AllOf(prefix, integers),
          .numbers = AllOf(prefix, numbers),
          .texts = AllOf(prefix, texts),
          .arrays = AllOf(prefix, arrays)};
}

}  // namespace tessera
