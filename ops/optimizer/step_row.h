#ifndef TESSERA_OPS_OPTIMIZER_STEP_ROW_H_
#define TESSERA_OPS_OPTIMIZER_STEP_ROW_H_

#include <functional>
#include <string>
#include <vector>

#include "tessera/ops/testing/operator_row.h"

namespace tessera::ops_testing {

/// The parameters of an optimizer step, which are floats, for a reference in double.
class StepReader {
 public:
  explicit StepReader(const ParameterMap& parameters) : reader_(parameters) {}

  double Real(const std::string& name, float absent) const {
    return static_cast<double>(static_cast<float>(reader_.Real(name, static_cast<double>(absent))));
  }
  const ParameterReader& reader() const { return reader_; }

  /// Returns x limited to [-bound, bound], or x if the bound is negative.
  double Clip(const std::string& name, double x) const;
  /// Returns clip(rescale_grad * grad).
  double Gradient(double grad) const;
  /// Returns clip(rescale_grad * grad + wd * weight).
  double DecayedGradient(double weight, double grad) const;

 private:
  const ParameterReader reader_;
};

/// Returns the new weight of one element and changes its states.
using ElementStep =
    std::function<double(const StepReader& p, double weight, double grad, double* states)>;

/// Returns the numbers of a parameter in brackets, as floats.
std::vector<double> NumbersOf(const std::string& text);

/// The test of a step.
struct StepRow {
  std::string name;
  int num_states = 0;
  /// Tells that the last state is a float32 copy of the weight; all states are float32 then.
  bool master = false;
  ElementStep step;
  ParameterMap required = {{"lr", "0.5"}};  ///< added to every case
  std::vector<ParameterMap> cases{};        ///< of parameters besides the common ones
  std::string clip = "clip_gradient";       ///< the name of the gradient's bound
};

/// Returns the row of a step, with cases of the common parameters and shapes. States are in
/// [0.5, 2).
OperatorRow MakeStepRow(const StepRow& row);

}  // namespace tessera::ops_testing

#endif  // TESSERA_OPS_OPTIMIZER_STEP_ROW_H_
