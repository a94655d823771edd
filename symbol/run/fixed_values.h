#ifndef TESSERA_SYMBOL_RUN_FIXED_VALUES_H_
#define TESSERA_SYMBOL_RUN_FIXED_VALUES_H_

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "tessera/graph/passes/constants.h"
#include "tessera/ndarray/array_contents.h"
#include "tessera/ndarray/ndarray.h"
#include "tessera/symbol/executor.h"

namespace tessera::symbol_internal {

/// Values that the passes have split off from a graph, computed when the variables that they depend
/// on change.
class FixedValues {
 public:
  /// Binds the graphs of the values. `constants` depend on no variable, `parameters` on constants
  /// and on variables, whose arrays `array_of` returns by name. Throws what Bind throws.
  FixedValues(const std::vector<graph::FixedValue>& constants,
              const std::vector<graph::FixedValue>& parameters, Device device,
              const std::function<NDArray(const std::string& name)>& array_of);

  /// Pushes the computation of constants at the first call, and that of parameters if a variable
  /// may have been written since the last call (ArrayContents).
  void Update();

  /// Returns the array of value `index` of all: constants, then parameters.
  const NDArray& array(size_t index) const { return arrays_[index]; }

 private:
  struct Source {
    NDArray array;
    ndarray_internal::ArrayContents contents = {};  // of the last computation
  };

  std::unique_ptr<Executor> AddValues(
      const std::vector<graph::FixedValue>& values, Device device,
      const std::function<NDArray(const std::string& name)>& array_of);

  std::unique_ptr<Executor> constants_, parameters_;  // null for none
  bool has_constants_ = false;                        // whether they were computed
  std::vector<Source> sources_;
  std::vector<NDArray> arrays_;
};

}  // namespace tessera::symbol_internal

#endif  // TESSERA_SYMBOL_RUN_FIXED_VALUES_H_
