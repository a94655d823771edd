#include "tessera/ops/testing/operator_row.h"

#include <algorithm>
#include <cstdlib>

namespace tessera::ops_testing {
namespace {

std::vector<OperatorRow>& MutableRows() {
  static auto* const rows = new std::vector<OperatorRow>();
  return *rows;
}

double WeightedSum(const std::vector<Values>& outputs, const std::vector<Values>& weights) {
  double sum = 0;
  for (size_t k = 0; k < outputs.size(); ++k) {
    for (index_t i = 0; i < outputs[k].size(); ++i) sum += outputs[k][i] * weights[k][i];
  }
  return sum;
}

}  // namespace

Values Fill::Make(const TShape& shape, std::mt19937_64* random) const {
  Values result(shape);
  const index_t n = result.size();
  switch (kind) {
    case Kind::kUniform: {
      std::uniform_real_distribution<double> draw(low, high);
      for (double& x : result.data) x = draw(*random);
      break;
    }
    case Kind::kIntegers: {
      std::uniform_int_distribution<int64_t> draw(static_cast<int64_t>(low),
                                                  static_cast<int64_t>(high));
      for (double& x : result.data) x = static_cast<double>(draw(*random));
      break;
    }
    case Kind::kDistinct: {
      // An offset that is no simple fraction of the step keeps 0 out.
      const double step = (high - low) / static_cast<double>(std::max<index_t>(1, n));
      for (index_t i = 0; i < n; ++i) result[i] = low + (static_cast<double>(i) + 0.37) * step;
      std::shuffle(result.data.begin(), result.data.end(), *random);
      break;
    }
    case Kind::kGiven:
      for (index_t i = 0; i < n; ++i) {
        result[i] = values[static_cast<size_t>(i) % values.size()];
      }
      break;
  }
  return result;
}

const std::vector<DType>& RealDTypes() {
  static const auto* const dtypes =
      new std::vector<DType>{DType::kFloat64, DType::kFloat32, DType::kFloat16, DType::kBFloat16};
  return *dtypes;
}

double Tolerance::For(DType dtype) const {
  switch (dtype) {
    case DType::kFloat64:
      return float64;
    case DType::kFloat32:
      return float32;
    case DType::kFloat16:
      return float16;
    default:
      return bfloat16;
  }
}

std::string ParameterReader::Text(const std::string& name, std::string_view absent) const {
  const auto found = parameters_.find(name);
  return found == parameters_.end() ? std::string(absent) : found->second;
}

double ParameterReader::Real(const std::string& name, double absent) const {
  const auto found = parameters_.find(name);
  return found == parameters_.end() ? absent
                                    : ops_internal::ParameterText<double>::Parse(found->second);
}

index_t ParameterReader::Int(const std::string& name, index_t absent) const {
  return static_cast<index_t>(Real(name, static_cast<double>(absent)));
}

bool ParameterReader::Bool(const std::string& name, bool absent) const {
  const std::string text = Text(name, absent ? "True" : "False");
  return text == "True" || text == "1";
}

std::array<index_t, 2> ParameterReader::Window(const std::string& name, index_t absent,
                                               index_t other_axis) const {
  const std::string text = Text(name, "");
  if (text.empty()) return {absent, absent};
  const TShape shape = TShape::Parse(text);
  if (shape.ndim() == 1) return {other_axis, shape[0]};
  return {shape[0], shape[1]};
}

RowRegistration::RowRegistration(OperatorRow row) { MutableRows().push_back(std::move(row)); }

const std::vector<OperatorRow>& OperatorRows() { return MutableRows(); }

std::vector<Values> DifferenceGradient(const ForwardReference& forward,
                                       const ParameterMap& parameters,
                                       const std::vector<Values>& out_grad,
                                       const std::vector<Values>& in,
                                       const std::vector<int>& mutated) {
  constexpr double kStep = 1e-5;
  std::vector<Values> point = in;
  std::vector<Values> gradient;
  for (Values& x : point) {
    Values& slope = gradient.emplace_back(x.shape);
    for (index_t i = 0; i < x.size(); ++i) {
      const double centre = x[i];
      const auto value_at = [&](double there) {
        x[i] = there;
        std::vector<Values> states;
        for (const int input : mutated) states.push_back(point[static_cast<size_t>(input)]);
        return WeightedSum(forward(parameters, point, &states), out_grad);
      };
      slope[i] = (value_at(centre + kStep) - value_at(centre - kStep)) / (2 * kStep);
      x[i] = centre;
    }
  }
  return gradient;
}

}  // namespace tessera::ops_testing
