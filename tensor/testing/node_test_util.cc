#include "tessera/tensor/testing/node_test_util.h"

#include <cmath>

namespace tessera {

std::vector<double> RandomWholeNumbers(index_t count, int low, uint64_t stream) {
  const std::vector<int32_t> values = RandomValues<int32_t>(count, low, 9, stream);
  return {values.begin(), values.end()};
}

void ExpectValues(std::span<const index_t> shape, const std::vector<double>& actual,
                  const std::function<double(const index_t*)>& expected, const std::string& what,
                  const char* how, double relative) {
  std::vector<index_t> index(shape.size());
  for (size_t i = 0; i < actual.size(); ++i) {
    auto rest = static_cast<index_t>(i);
    for (size_t k = shape.size(); k-- > 0;) {
      index[k] = rest % shape[k];
      rest /= shape[k];
    }
    const double value = actual[i];
    const double right = expected(index.data());
    // Equality is tested separately, because infinities have no difference.
    if (value == right || std::abs(value - right) <= relative * std::abs(right)) continue;
    if (std::isnan(value) && std::isnan(right)) continue;
    ADD_FAILURE() << what << how << ": element " << testing::PrintToString(index) << " is " << value
                  << ", not " << right;
    return;
  }
}

}  // namespace tessera
