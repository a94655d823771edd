#ifndef TESSERA_TESTS_GRAPHS_SAVED_MODEL_H_
#define TESSERA_TESTS_GRAPHS_SAVED_MODEL_H_

#include <string>
#include <vector>

namespace tessera {

/// One output of a network, compared with MXNet's.
struct OutputDifference {
  std::string output;  ///< its name
  /// The largest difference between two elements, relative to the larger of the expected element's
  /// absolute value and the root mean square of the expected output. Infinite if shapes or types
  /// differ, or if one of the elements is NaN.
  double relative = 0;
};

/// Runs a network that zoo.py has written and compares it: PREFIX-symbol.json and
/// PREFIX-0000.params, as MXNet exports them, and PREFIX-expected.params, which holds "input/NAME"
/// for each input and "output/I" for each output. Other arguments, such as labels, are zeros.
/// Throws Error.
std::vector<OutputDifference> CompareWithMxnet(const std::string& prefix);

/// Returns the prefixes of all such networks in a folder, in alphabetical order.
std::vector<std::string> SavedModels(const std::string& folder);

}  // namespace tessera

#endif  // TESSERA_TESTS_GRAPHS_SAVED_MODEL_H_
