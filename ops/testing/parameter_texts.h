#ifndef TESSERA_OPS_TESTING_PARAMETER_TEXTS_H_
#define TESSERA_OPS_TESTING_PARAMETER_TEXTS_H_

#include <string>
#include <vector>

#include "tessera/ops/parameter.h"

namespace tessera::ops_testing {

/// Returns texts that few parameters accept.
const std::vector<std::string>& HostileTexts();

/// Texts for a parameter: 0, 1, -1 and the limits of its type.
struct Edges {
  std::vector<std::string> moderate;  ///< values with which results have usual magnitudes
  std::vector<std::string> limits;
};

/// Returns the edges of a parameter. Those of a tuple have as many numbers as `given`, the text of
/// some case.
Edges EdgesOf(const ParameterInfo& info, const std::string& given);

}  // namespace tessera::ops_testing

#endif  // TESSERA_OPS_TESTING_PARAMETER_TEXTS_H_
