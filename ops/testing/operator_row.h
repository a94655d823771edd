#ifndef TESSERA_OPS_TESTING_OPERATOR_ROW_H_
#define TESSERA_OPS_TESTING_OPERATOR_ROW_H_

#include <array>
#include <cstdint>
#include <functional>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/base/dtype.h"
#include "tessera/base/tshape.h"
#include "tessera/ops/parameter.h"

/// The declaration of an operator's test: its row in the table that operators_test processes. A row
/// holds cases (parameters and shapes), the operator's reference as plain loops over doubles, and
/// the calls that it must refuse. The harness does the rest, for every element type.
namespace tessera::ops_testing {

/// An array of doubles, in which references compute.
struct Values {
  TShape shape;
  std::vector<double> data;

  Values() = default;
  explicit Values(const TShape& extents, double initial = 0)
      : shape(extents), data(static_cast<size_t>(extents.Size()), initial) {}

  index_t size() const { return static_cast<index_t>(data.size()); }
  double& operator[](index_t i) { return data[static_cast<size_t>(i)]; }
  double operator[](index_t i) const { return data[static_cast<size_t>(i)]; }
};

/// The rule by which the elements of an input are chosen.
struct Fill {
  enum class Kind {
    kUniform,   ///< any value in [low, high)
    kIntegers,  ///< integers in [low, high]
    kDistinct,  ///< evenly spaced over (low, high), none of them 0, shuffled
    kGiven,     ///< `values`, repeated
  };
  Kind kind = Kind::kUniform;
  double low = -1;
  double high = 1;
  std::vector<double> values{};

  static Fill Uniform(double low, double high) { return {Kind::kUniform, low, high}; }
  static Fill Integers(double low, double high) { return {Kind::kIntegers, low, high}; }
  static Fill Distinct(double low = -1, double high = 1) { return {Kind::kDistinct, low, high}; }
  static Fill Given(std::vector<double> values) {
    return {.kind = Kind::kGiven, .values = std::move(values)};
  }

  Values Make(const TShape& shape, std::mt19937_64* random) const;
};

/// Returns float64, float32, float16 and bfloat16.
const std::vector<DType>& RealDTypes();

/// One set of parameters and shapes for the test of an operator.
struct OperatorCase {
  std::string name;  ///< letters, digits and underscores
  ParameterMap parameters{};
  std::vector<TShape> inputs;  ///< the shape of every argument
  std::vector<Fill> fills{};   ///< of every argument; by default in [-1, 1)
  std::vector<DType> dtypes = RealDTypes();
  /// Element types of arguments that do not have the case's type, such as indices. kUnknown, and
  /// what is left out, is the case's type.
  std::vector<DType> fixed_types{};
  /// Shapes of the outputs where no argument determines them.
  std::vector<TShape> outputs{};
  /// Tells whether all other shapes follow from the first argument's.
  bool shapes_follow_from_first = true;
  /// Tells that the case is too large for differences of the reference, which must then have its
  /// own gradient.
  bool large = false;
};

/// A call that must be refused: by Init if `inputs` is empty, else by InferShape.
struct ErrorCase {
  std::string name;
  ParameterMap parameters{};
  std::vector<TShape> inputs{};
  absl::StatusCode code = Error::kInvalidArgument;
  std::vector<std::string> words{};  ///< words of the message besides the operator's name
};

/// Bounds of |actual - expected| / (1 + |expected|): about ten units in the last place of 1, and
/// three for 16-bit types.
struct Tolerance {
  double float64 = 2e-15;
  double float32 = 1e-6;
  double float16 = 1.5e-3;
  double bfloat16 = 1.2e-2;
  /// Tells that errors are relative to the array's largest element, which suits long sums: if large
  /// terms cancel, the small result has the error of the large terms.
  bool of_largest = false;

  double For(DType dtype) const;
};

/// Parameters for a reference, read without the schema that is under test.
class ParameterReader {
 public:
  explicit ParameterReader(const ParameterMap& parameters) : parameters_(parameters) {}

  std::string Text(const std::string& name, std::string_view absent) const;
  double Real(const std::string& name, double absent) const;
  index_t Int(const std::string& name, index_t absent) const;
  bool Bool(const std::string& name, bool absent) const;
  /// Returns "(y, x)". If the text is "(x,)", the first is `other_axis`. Both are `absent` if it is
  /// omitted.
  std::array<index_t, 2> Window(const std::string& name, index_t absent, index_t other_axis) const;

 private:
  const ParameterMap& parameters_;
};

/// Returns the outputs for given inputs. `mutated` holds copies of the inputs that the operator
/// changes, in the order of MutatedInputs, which the function changes likewise.
using ForwardReference = std::function<std::vector<Values>(
    const ParameterMap& parameters, const std::vector<Values>& in, std::vector<Values>* mutated)>;

/// Returns the gradients of the inputs; `out` is the forward reference's result. The value for an
/// input without a gradient, such as a label, is ignored.
using BackwardReference = std::function<std::vector<Values>(
    const ParameterMap& parameters, const std::vector<Values>& out_grad,
    const std::vector<Values>& in, const std::vector<Values>& out)>;

/// The complete test of an operator.
struct OperatorRow {
  std::string name;
  std::vector<OperatorCase> cases;
  ForwardReference forward;
  /// If null, central differences of `forward` are used.
  BackwardReference backward = nullptr;
  /// False for losses, whose gradient is not the derivative of their output. If true, the backward
  /// reference is itself checked against differences.
  bool gradient_is_derivative = true;
  /// Tells whether all shapes follow from the output's, as in element-wise operators.
  bool shapes_follow_from_output = false;
  /// Tells whether the first argument's first extent follows from the output's.
  bool batch_follows_from_output = true;
  /// Tells whether the operator also takes integers.
  bool takes_integers = false;
  Tolerance forward_tolerance{};
  Tolerance backward_tolerance{};
  std::vector<ErrorCase> errors{};
};

/// Registers a row, at namespace scope in its file: const RowRegistration row(MakeRow());
class RowRegistration {
 public:
  explicit RowRegistration(OperatorRow row);
};

/// Returns all rows that are linked in.
const std::vector<OperatorRow>& OperatorRows();

/// Returns the gradients of the inputs by central differences of `forward`, accurate to about 1e-9
/// if the operator is smooth within 1e-5 of the inputs.
std::vector<Values> DifferenceGradient(const ForwardReference& forward,
                                       const ParameterMap& parameters,
                                       const std::vector<Values>& out_grad,
                                       const std::vector<Values>& in,
                                       const std::vector<int>& mutated);

}  // namespace tessera::ops_testing

#endif  // TESSERA_OPS_TESTING_OPERATOR_ROW_H_
