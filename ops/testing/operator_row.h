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

/// What an operator's test declares: its row in the table that operators_test goes through. A row
/// holds cases (parameters and shapes), the meaning of the operator as plain loops over doubles,
/// and the calls that it must refuse; the harness does the rest, for every element type.
namespace tessera::ops_testing {

/// An array of doubles: what references compute with.
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

/// How the elements of an input are chosen.
struct Fill {
  enum class Kind {
    kUniform,   ///< anything in [low, high)
    kIntegers,  ///< whole numbers in [low, high]
    kDistinct,  ///< evenly spaced over (low, high), none of them 0, shuffled
    kGiven,     ///< `values`, over and over
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

/// float64, float32, float16 and bfloat16.
const std::vector<DType>& RealDTypes();

/// One set of parameters and shapes under which an operator is tried.
struct OperatorCase {
  std::string name;  ///< letters, digits and underscores
  ParameterMap parameters{};
  std::vector<TShape> inputs;  ///< of every argument
  std::vector<Fill> fills{};   ///< of the first arguments, then aux states; uniform in [-1, 1) else
  std::vector<DType> dtypes = RealDTypes();
  /// Whether every other shape follows from that of the first argument.
  bool shapes_follow_from_first = true;
  /// Too large to take differences of the reference, which must then have its own gradient.
  bool large = false;
};

/// A call that must be refused, by Init if `inputs` is empty and else by InferShape.
struct ErrorCase {
  std::string name;
  ParameterMap parameters{};
  std::vector<TShape> inputs{};
  absl::StatusCode code = Error::kInvalidArgument;
  std::vector<std::string> words{};  ///< that the message must contain, besides the operator's name
};

/// Bounds of |actual - expected| / (1 + |expected|): some ten units in the last place of 1, and
/// three of the narrow types.
struct Tolerance {
  double float64 = 2e-15;
  double float32 = 1e-6;
  double float16 = 1.5e-3;
  double bfloat16 = 1.2e-2;
  /// Measures errors by the array's largest element, as suits long sums: where one comes out small
  /// because large terms cancel, its error is still theirs.
  bool of_largest = false;

  double For(DType dtype) const;
};

/// Parameters as a reference reads them, without the schema that is under test.
class ParameterReader {
 public:
  explicit ParameterReader(const ParameterMap& parameters) : parameters_(parameters) {}

  std::string Text(const std::string& name, std::string_view absent) const;
  double Real(const std::string& name, double absent) const;
  index_t Int(const std::string& name, index_t absent) const;
  bool Bool(const std::string& name, bool absent) const;
  /// "(y, x)"; of "(x,)" the first is `other_axis`; both `absent` if it is left out.
  std::array<index_t, 2> Window(const std::string& name, index_t absent, index_t other_axis) const;

 private:
  const ParameterMap& parameters_;
};

/// The outputs for given inputs; aux states are changed as the operator changes them.
using ForwardReference = std::function<std::vector<Values>(
    const ParameterMap& parameters, const std::vector<Values>& in, std::vector<Values>* aux)>;

/// The gradients of the inputs; `out` is what the forward reference gave. What stands in the place
/// of an input that has no gradient, such as a label, is not looked at.
using BackwardReference = std::function<std::vector<Values>(
    const ParameterMap& parameters, const std::vector<Values>& out_grad,
    const std::vector<Values>& in, const std::vector<Values>& out)>;

/// Everything that is tested of an operator.
struct OperatorRow {
  std::string name;
  std::vector<OperatorCase> cases;
  ForwardReference forward;
  /// If null, central differences of `forward` take its place.
  BackwardReference backward = nullptr;
  /// False for losses, whose gradient is not the derivative of what they put out. Where it is, the
  /// backward reference is itself checked against differences.
  bool gradient_is_derivative = true;
  /// Whether all shapes follow from that of the output, as in element-wise operators.
  bool shapes_follow_from_output = false;
  /// Whether the first argument's first extent follows from the output's.
  bool batch_follows_from_output = true;
  Tolerance forward_tolerance{};
  Tolerance backward_tolerance{};
  std::vector<ErrorCase> errors{};
};

/// At namespace scope in a row's file: const RowRegistration row(MakeRow());
class RowRegistration {
 public:
  explicit RowRegistration(OperatorRow row);
};

/// All rows that are linked in.
const std::vector<OperatorRow>& OperatorRows();

/// The gradients of the inputs by central differences of `forward`, accurate to about 1e-9 where
/// the operator is smooth within 1e-5 of the inputs.
std::vector<Values> DifferenceGradient(const ForwardReference& forward,
                                       const ParameterMap& parameters,
                                       const std::vector<Values>& out_grad,
                                       const std::vector<Values>& in,
                                       const std::vector<Values>& aux);

}  // namespace tessera::ops_testing

#endif  // TESSERA_OPS_TESTING_OPERATOR_ROW_H_
