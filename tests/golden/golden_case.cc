#include "tessera/tests/golden/golden_case.h"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <limits>
#include <map>
#include <sstream>
#include <string_view>

#include "nlohmann/json.hpp"
#include "tessera/base/at.h"
#include "tessera/base/error.h"
#include "tessera/ndarray/imperative.h"
#include "tessera/ndarray/serialization.h"
#include "tessera/ndarray/testing/array_values.h"
#include "tessera/symbol/executor.h"
#include "tessera/symbol/symbol.h"

namespace tessera {
namespace {

using base_internal::At;
using ndarray_testing::Read;

using Arrays = std::map<std::string, NDArray>;

/// The call that an exception looks at.
struct CallFacts {
  const ParameterMap& attributes;
  const std::vector<TShape>& inputs;

  bool Has(const std::string& name, const std::string& value) const {
    const auto found = attributes.find(name);
    return found != attributes.end() && found->second == value;
  }
};

/// Where an operator differs from MXNet, and why.
struct Exception {
  std::string_view op;
  std::string_view part;  ///< the array: "output 1", "gradient 0", "state 3", or empty for all
  double tolerance;       ///< of elements that are not 16-bit; infinity if nothing is compared
  std::string_view reason;
  bool (*applies)(const CallFacts& call) = nullptr;  ///< null: to all calls
};

constexpr double kAnything = std::numeric_limits<double>::infinity();

bool IsEmpty(const CallFacts& call) { return call.inputs[0].Size() == 0; }
bool HasOtherType(const CallFacts& call) { return call.Has("dtype", "float64"); }

constexpr Exception kExceptions[] = {
    {"degrees", "", 1e-6, "MXNet has pi in float"},
    {"radians", "", 1e-6, "MXNet has pi in float"},
    {"erf", "", 1e-6, "MXNet has the gradient's factor in float"},
    {"erfinv", "", 1e-6, "MXNet has the gradient's factor in float"},
    {"gamma", "", 1e-6, "MXNet has digamma in float"},
    {"gammaln", "", 1e-6, "MXNet has digamma in float"},
    {"_contrib_hawkesll", "", 1e-6, "MXNet has exp in float"},
    {"_random_pdf_gamma", "", 1e-6, "MXNet has digamma in float"},
    {"_random_pdf_negative_binomial", "", 1e-6, "MXNet has digamma in float"},
    {"_random_pdf_generalized_negative_binomial", "", 1e-6, "MXNet has digamma in float"},
    {"_random_pdf_dirichlet", "", 1e-5, "MXNet has digamma in float"},
    {"_random_pdf_normal", "", 1e-6, "MXNet has sqrt(2 pi) in float"},
    {"softmax", "", 1e-6, "MXNet computes in the type of data", HasOtherType},
    {"softmin", "", 1e-6, "MXNet computes in the type of data", HasOtherType},
    {"log_softmax", "", 1e-6, "MXNet computes in the type of data", HasOtherType},
    {"SoftmaxActivation", "gradient 0", kAnything,
     "MXNet sums along axis 1 for the gradient of softmax along the last axis",
     [](const CallFacts& call) {
       return !call.Has("mode", "channel") && call.inputs[0].ndim() > 2;
     }},
    {"BatchNorm", "state 3", kAnything, "MXNet makes statistics of no elements NaN", IsEmpty},
    {"BatchNorm", "state 4", kAnything, "MXNet makes statistics of no elements NaN", IsEmpty},
    {"SoftmaxOutput", "gradient 0", kAnything,
     "MXNet multiplies by the output where it promises to multiply by the output's gradient",
     [](const CallFacts& call) { return call.Has("out_grad", "True"); }},
    {"SoftmaxOutput", "gradient 0", 1e-6, "MXNet has the gradient's factor in float"},
    {"LinearRegressionOutput", "", 1e-6, "MXNet has the gradient's factor in float"},
    {"LogisticRegressionOutput", "", 1e-6, "MXNet has the gradient's factor in float"},
    {"MAERegressionOutput", "", 1e-6, "MXNet has the gradient's factor in float"},
    {"LeakyReLU", "", 1e-6, "MXNet multiplies in float"},
    {"LeakyReLU", "gradient 0", kAnything,
     "MXNet's gradient of selu for negative x is l (y + a), not the derivative, y + l a",
     [](const CallFacts& call) { return call.Has("act_type", "selu"); }},
    {"LeakyReLU", "output 1", kAnything, "MXNet does not write rrelu's mask outside of training"},
    {"sgd_update", "", 1e-6, "MXNet has the parameters in float"},
    {"sgd_mom_update", "", 1e-6, "MXNet has the parameters in float"},
    {"preloaded_multi_sgd_update", "", 1e-6, "MXNet has the parameters in float"},
    {"preloaded_multi_sgd_mom_update", "", 1e-6, "MXNet has the parameters in float"},
    {"_adamw_update", "", 1e-6, "MXNet has the parameters in float"},
    {"_adamw_update", "state 1", kAnything, "MXNet scales and clips the gradient in its place"},
    {"_multi_mp_lamb_update", "state 4", 1e-4, "MXNet rounds squares of weights to float16"},
    {"_multi_mp_lamb_update", "state 9", 1e-4, "MXNet rounds squares of weights to float16"},
    {"_multi_mp_lamb_update", "state 14", 1e-4, "MXNet rounds squares of weights to float16"},
    {"_multi_lamb_update", "", 1e-6, "MXNet has the parameters and norms in float"},
};

/// Operators that Invoke, which does not train, calls otherwise than a bound graph in training.
constexpr std::string_view kTrainsOnlyBound[] = {
    "BatchNorm", "BatchNorm_v1", "Dropout", "_contrib_BatchNormWithReLU", "_contrib_SyncBatchNorm"};

double Tolerance(DType dtype) {
  switch (dtype) {
    case DType::kFloat64:
      return 1e-9;
    case DType::kFloat32:
      return 1e-5;
    case DType::kFloat16:
      return 2e-3;
    default:
      return 0;
  }
}

bool Agrees(double actual, double expected, double tolerance) {
  if (std::isinf(tolerance)) return true;
  if (std::isnan(expected)) return std::isnan(actual);
  return actual == expected || std::abs(actual - expected) <= tolerance * (1 + std::abs(expected));
}

class GoldenCase {
 public:
  GoldenCase(const nlohmann::json& json, const Arrays& arrays, double slack)
      : json_(json), arrays_(arrays), slack_(slack) {
    for (const auto& [key, value] : json["attrs"].items()) {
      attributes_[key] = value.get<std::string>();
    }
  }

  GoldenResult Run() {
    result_ = {Name(), Op(), Name() + ": " + Op() + " " + json_["attrs"].dump(), {}};
    try {
      if (!TrainsOnlyBound()) CheckInvoke();
      CheckBound();
    } catch (const Error& error) {
      result_.differences.push_back(error.what());
    }
    return result_;
  }

 private:
  std::string Name() const { return json_["name"]; }
  std::string Op() const { return json_["op"]; }

  bool TrainsOnlyBound() const {
    return json_["train"] && std::find(std::begin(kTrainsOnlyBound), std::end(kTrainsOnlyBound),
                                       Op()) != std::end(kTrainsOnlyBound);
  }

  const NDArray* Find(const std::string& kind, size_t i) const {
    const auto found = arrays_.find(Name() + "/" + kind + "/" + std::to_string(i));
    return found == arrays_.end() ? nullptr : &found->second;
  }
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

  void CheckInvoke() {
    const std::vector<NDArray> outputs = Invoke(Op(), Inputs(), attributes_);
    if (static_cast<int>(outputs.size()) != json_["outputs"]) {
      result_.differences.push_back("Invoke: " + std::to_string(outputs.size()) +
                                    " outputs, MXNet has " + json_["outputs"].dump());
      return;
    }
    for (size_t i = 0; i < outputs.size(); ++i) Compare("out", "output", i, outputs[i], "Invoke");
  }

  void CheckBound() {
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
      Compare("out", "output", i, executor->outputs()[i], "bound");
    }
    if (!gradients.empty()) {
      std::vector<NDArray> heads;
      for (int i = 0; i < json_["outputs"]; ++i) heads.push_back(Array("head", At(i)));
      executor->Backward(heads);
      for (const auto& [name, array] : executor->grad_dict()) {
        Compare("grad", "gradient", At(gradients.at(name)), array, "bound");
      }
    }
    for (const int i : json_["states"]) {
      Compare("state", "state", At(i), by_name.at("x" + std::to_string(i)), "bound");
    }
  }

  /// Adds a sentence to the result if the array differs from the file's.
  void Compare(const std::string& kind, const std::string& word, size_t i, const NDArray& array,
               const std::string& call) {
    const NDArray& wanted = Array(kind, i);
    const std::string part = word + " " + std::to_string(i);
    std::ostringstream text;
    text << call << ", " << part << ": ";
    if (array.shape() != wanted.shape() || array.dtype() != wanted.dtype()) {
      text << array.dtype() << " of shape " << array.shape() << ", MXNet has " << wanted.dtype()
           << " of shape " << wanted.shape();
      result_.differences.push_back(text.str());
      return;
    }
    const double tolerance = ToleranceOf(part, wanted.dtype());
    const std::vector<double> actual = Read(array), expected = Read(wanted);
    const NDArray* const exact_array = Find("exact_" + kind, i);
    const std::vector<double> exact = exact_array == nullptr ? expected : Read(*exact_array);
    size_t count = 0, first = 0;
    for (size_t k = actual.size(); k-- > 0;) {
      if (Agrees(actual[k], expected[k], tolerance) || Agrees(actual[k], exact[k], tolerance)) {
        continue;
      }
      ++count;
      first = k;
    }
    if (count == 0) return;
    text.precision(10);
    text << count << " of " << actual.size() << " elements of shape " << wanted.shape()
         << ", element " << first << ": got " << actual[first] << ", MXNet has " << expected[first];
    if (exact_array != nullptr) text << ", in float64 " << exact[first];
    result_.differences.push_back(text.str());
  }

  double ToleranceOf(const std::string& part, DType dtype) const {
    double tolerance = Tolerance(dtype) * slack_;
    std::vector<TShape> inputs;
    for (int i = 0; i < json_["inputs"]; ++i) inputs.push_back(Array("in", At(i)).shape());
    for (const Exception& exception : kExceptions) {
      if (exception.op != Op() || (!exception.part.empty() && exception.part != part)) continue;
      if (exception.applies != nullptr && !exception.applies({attributes_, inputs})) continue;
      tolerance = std::max(tolerance, exception.tolerance);
    }
    return tolerance;
  }

  const nlohmann::json& json_;
  const Arrays& arrays_;
  const double slack_;
  ParameterMap attributes_;
  GoldenResult result_;
};

nlohmann::json ReadJson(const std::string& path) {
  std::ifstream stream(path);
  if (!stream.is_open()) throw NotFound(path, " cannot be opened");
  return nlohmann::json::parse(stream);
}

}  // namespace

int RunGoldenCases(const std::string& file, double slack,
                   const std::function<void(const std::string&)>& begin,
                   const std::function<void(const GoldenResult&)>& end) {
  const nlohmann::json json = ReadJson(file + ".json");
  const Arrays arrays = LoadNDArrays(file + ".params");
  for (const nlohmann::json& entry : json["cases"]) {
    begin(entry["name"]);
    end(GoldenCase(entry, arrays, slack).Run());
  }
  return static_cast<int>(json["cases"].size());
}

std::set<std::string> OperatorsOfGoldenCases(const std::string& file) {
  std::set<std::string> operators;
  const nlohmann::json json = ReadJson(file + ".json");
  for (const nlohmann::json& entry : json["cases"]) {
    operators.insert(entry["op"].get<std::string>());
  }
  return operators;
}

}  // namespace tessera
