#include "tessera/io/internal/iterator_state.h"

#include <vector>

#include "tessera/base/error.h"
#include "tessera/base/quote.h"

namespace tessera::io_internal {

TrainingState NewState(const char* iterator, std::span<const int64_t> setup) {
  TrainingState state;
  state.texts["iterator"] = iterator;
  state.integers["setup"].assign(setup.begin(), setup.end());
  return state;
}

void CheckState(const TrainingState& state, const char* iterator, std::span<const int64_t> setup) {
  const std::string& found = state.Text("iterator");
  if (found != iterator) {
    throw InvalidArgument(iterator, "::LoadState: the state is that of ", Excerpt(found),
                          ", expected ", iterator);
  }
  const std::vector<int64_t>& saved = state.Integers("setup");
  if (saved.size() != setup.size()) {
    throw DataLoss(iterator, "::LoadState: setup has ", saved.size(), " values, expected ",
                   setup.size());
  }
  for (size_t i = 0; i < setup.size(); ++i) {
    if (saved[i] != setup[i]) {
      throw DataLoss(iterator, "::LoadState: value ", i, " of setup is ", saved[i], ", expected ",
                     setup[i], "; the state is that of other data or other options");
    }
  }
}

int64_t IntegerUpTo(const TrainingState& state, const std::string& name, int64_t most) {
  const int64_t value = state.Integer(name);
  if (value < 0 || value > most) {
    throw DataLoss("LoadState: ", name, " is ", value, ", expected 0 to ", most);
  }
  return value;
}

}  // namespace tessera::io_internal
