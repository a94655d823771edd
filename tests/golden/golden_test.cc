// Every operator against MXNet 1.9.1: the cases that make_cases.py wrote, called imperatively and
// in a bound graph with gradients.
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "nlohmann/json.hpp"
#include "tessera/base/error.h"
#include "tessera/ndarray/imperative.h"
#include "tessera/ndarray/serialization.h"
#include "tessera/symbol/executor.h"
#include "tessera/symbol/symbol.h"

namespace tessera {
namespace {

constexpr char kFolder[] = "tests/golden/cases";

using Arrays = std::map<std::string, NDArray>;

std::vector<double> Read(const NDArray& array) {
  std::vector<double> values;
  VisitDType(array.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const index_t size = array.shape().Size();
    const auto elements = std::make_unique<T[]>(static_cast<size_t>(size));
    array.SyncCopyToCPU(elements.get(), size);
    for (index_t i = 0; i < size; ++i) values.push_back(static_cast<double>(elements[i]));
  });
  return values;
}

/// Operators whose float64 results have only the digits of float in MXNet, which has pi, a factor
/// or digamma in float.
const std::set<std::string> kFloatInMxnet = {"degrees", "radians", "erf",
                                             "erfinv",  "gamma",   "gammaln"};

/// The largest error allowed, relative to 1 + |expected|.
double Tolerance(const std::string& op, DType dtype) {
  switch (dtype) {
    case DType::kFloat64:
      return kFloatInMxnet.contains(op) ? 1e-6 : 1e-9;
    case DType::kFloat32:
      return 1e-5;
    case DType::kFloat16:
      return 2e-3;
    default:
      return 0;
  }
}

void ExpectSame(const std::string& op, const NDArray& actual, const NDArray& expected,
                const std::string& what) {
  ASSERT_EQ(actual.shape(), expected.shape()) << what;
  ASSERT_EQ(actual.dtype(), expected.dtype()) << what;
  const std::vector<double> a = Read(actual), e = Read(expected);
  for (size_t i = 0; i < e.size(); ++i) {
    if (std::isnan(e[i]) ? std::isnan(a[i]) : a[i] == e[i]) continue;
    ASSERT_LE(std::abs(a[i] - e[i]), Tolerance(op, expected.dtype()) * (1 + std::abs(e[i])))
        << what << ", element " << i << ": got " << a[i] << ", MXNet has " << e[i];
  }
}

/// One case of a file.
class GoldenCase {
 public:
  GoldenCase(const nlohmann::json& json, const Arrays& arrays) : json_(json), arrays_(arrays) {
    for (const auto& [key, value] : json["attrs"].items()) {
      attributes_[key] = value.get<std::string>();
    }
  }

  std::string Describe() const { return Name() + ": " + Op() + " " + json_["attrs"].dump(); }

  void CheckInvoke() const {
    const std::vector<NDArray> inputs = Inputs();
    const std::vector<NDArray> outputs = Invoke(Op(), inputs, attributes_);
    ASSERT_EQ(static_cast<int>(outputs.size()), json_["outputs"].get<int>());
    for (size_t i = 0; i < outputs.size(); ++i) {
      ExpectSame(Op(), outputs[i], Array("out", i), "output " + std::to_string(i) + " of Invoke");
    }
  }

  void CheckBound() const {
    std::vector<Symbol> variables;
    for (int i = 0; i < json_["inputs"]; ++i) {
      variables.push_back(Symbol::Variable("x" + std::to_string(i)));
    }
    const Symbol symbol = Symbol::Apply(Op(), variables, attributes_, "node");
    std::map<std::string, NDArray> by_name;
    const std::vector<NDArray> inputs = Inputs();
    for (size_t i = 0; i < inputs.size(); ++i) by_name["x" + std::to_string(i)] = inputs[i];
    std::map<std::string, int> gradients;
    for (const int i : json_["gradients"]) gradients["x" + std::to_string(i)] = i;
    BindArguments bound;
    for (const std::string& name : symbol.ListArguments()) {
      const NDArray& array = by_name.at(name);
      bound.arguments.push_back(array);
      const bool wanted = gradients.contains(name);
      bound.gradients.push_back(wanted ? NDArray(array.shape(), Device::Cpu(), array.dtype())
                                       : NDArray());
    }
    for (const std::string& name : symbol.ListAuxiliaryStates()) {
      bound.aux_states.push_back(by_name.at(name));
    }
    const auto executor = Bind(symbol, Device::Cpu(), bound);
    executor->Forward(json_["train"]);
    for (size_t i = 0; i < executor->outputs().size(); ++i) {
      ExpectSame(Op(), executor->outputs()[i], Array("out", i),
                 "output " + std::to_string(i) + " of Forward");
    }
    if (!gradients.empty()) {
      std::vector<NDArray> heads;
      for (int i = 0; i < json_["outputs"]; ++i) heads.push_back(Array("head", At(i)));
      executor->Backward(heads);
      for (const auto& [name, array] : executor->grad_dict()) {
        ExpectSame(Op(), array, Array("grad", At(gradients.at(name))), "the gradient of " + name);
      }
    }
    for (const int i : json_["states"]) {
      ExpectSame(Op(), by_name.at("x" + std::to_string(i)), Array("state", At(i)),
                 "input " + std::to_string(i) + " afterwards");
    }
  }

 private:
  static size_t At(int i) { return static_cast<size_t>(i); }
  std::string Name() const { return json_["name"]; }
  std::string Op() const { return json_["op"]; }
  const NDArray& Array(const std::string& kind, size_t i) const {
    return arrays_.at(Name() + "/" + kind + "/" + std::to_string(i));
  }
  /// Copies of the inputs, which an operator may change.
  std::vector<NDArray> Inputs() const {
    std::vector<NDArray> inputs;
    for (int i = 0; i < json_["inputs"]; ++i) {
      const NDArray& given = Array("in", At(i));
      NDArray copy(given.shape(), Device::Cpu(), given.dtype());
      CopyFromTo(given, copy);
      inputs.push_back(copy);
    }
    return inputs;
  }

  const nlohmann::json& json_;
  const Arrays& arrays_;
  ParameterMap attributes_;
};

class GoldenTest : public testing::TestWithParam<std::string> {};

TEST_P(GoldenTest, EveryCaseGivesTheNumbersOfMxnet) {
  const std::string path = std::string(kFolder) + "/" + GetParam();
  std::ifstream file(path + ".json");
  ASSERT_TRUE(file.is_open()) << path;
  const nlohmann::json json = nlohmann::json::parse(file);
  const Arrays arrays = LoadNDArrays(path + ".params");
  ASSERT_FALSE(json["cases"].empty());
  for (const nlohmann::json& entry : json["cases"]) {
    const GoldenCase golden(entry, arrays);
    SCOPED_TRACE(golden.Describe());
    try {
      golden.CheckInvoke();
      golden.CheckBound();
    } catch (const Error& error) {
      ADD_FAILURE() << error.what();
    }
  }
}

std::vector<std::string> Families() {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(kFolder)) {
    if (entry.path().extension() == ".json") names.push_back(entry.path().stem().string());
  }
  return names;
}

INSTANTIATE_TEST_SUITE_P(All, GoldenTest, testing::ValuesIn(Families()),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace tessera
