#include "tessera/tests/graphs/saved_model.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <limits>
#include <map>
#include <memory>

#include "tessera/base/error.h"
#include "tessera/ndarray/ndarray.h"
#include "tessera/ndarray/serialization.h"
#include "tessera/ndarray/testing/array_values.h"
#include "tessera/symbol/executor.h"
#include "tessera/symbol/symbol.h"

namespace tessera {
namespace {

using ndarray_testing::Read;

constexpr char kExpected[] = "-expected.params";

double Difference(const NDArray& actual, const NDArray& expected) {
  constexpr double kInfinite = std::numeric_limits<double>::infinity();
  if (actual.shape() != expected.shape() || actual.dtype() != expected.dtype()) return kInfinite;
  const std::vector<double> a = Read(actual), e = Read(expected);
  double squares = 0;
  for (const double value : e) squares += value * value;
  const double size = std::max(std::sqrt(squares / static_cast<double>(e.size())),
                               std::numeric_limits<double>::min());
  double largest = 0;
  for (size_t i = 0; i < e.size(); ++i) {
    const double relative = std::abs(a[i] - e[i]) / std::max(size, std::abs(e[i]));
    if (std::isnan(relative)) return kInfinite;
    largest = std::max(largest, relative);
  }
  return largest;
}

}  // namespace

std::vector<OutputDifference> CompareWithMxnet(const std::string& prefix) {
  const Symbol symbol = Symbol::Load(prefix + "-symbol.json");
  const std::map<std::string, NDArray> parameters = LoadNDArrays(prefix + "-0000.params");
  const std::map<std::string, NDArray> expected = LoadNDArrays(prefix + kExpected);
  SimpleBindOptions options{.shapes = {}, .grad_req = kNullOp};
  for (const auto& [key, array] : expected) {
    if (!key.starts_with("input/")) continue;
    options.shapes[key.substr(6)] = array.shape();
    options.types[key.substr(6)] = array.dtype();
  }
  const auto executor = SimpleBind(symbol, Device::Cpu(), options);
  const auto fill = [](const std::map<std::string, NDArray>& from, const std::string& kind,
                       const std::map<std::string, NDArray>& to) {
    for (const auto& [name, array] : to) {
      const auto found = from.find(kind + name);
      if (found == from.end()) continue;
      if (found->second.shape() != array.shape()) {
        throw InvalidArgument(kind, name, " has shape ", found->second.shape(), ", expected ",
                              array.shape());
      }
      CopyFromTo(found->second, array);
    }
  };
  fill(parameters, "arg:", executor->arg_dict());
  fill(parameters, "aux:", executor->aux_dict());
  fill(expected, "input/", executor->arg_dict());
  executor->Forward(/*is_train=*/false);
  std::vector<OutputDifference> differences;
  const std::vector<std::string> names = symbol.ListOutputs();
  for (size_t i = 0; i < names.size(); ++i) {
    differences.push_back(
        {names[i], Difference(executor->outputs()[i], expected.at("output/" + std::to_string(i)))});
  }
  return differences;
}

std::vector<std::string> SavedModels(const std::string& folder) {
  std::vector<std::string> prefixes;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    const std::string path = entry.path();
    if (path.ends_with(kExpected)) {
      prefixes.push_back(path.substr(0, path.size() - (sizeof(kExpected) - 1)));
    }
  }
  std::sort(prefixes.begin(), prefixes.end());
  return prefixes;
}

}  // namespace tessera
