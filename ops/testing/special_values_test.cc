// Every operator at zeros, ties, huge and tiny values, infinities and NaN, without a stop at the
// first failure.
//
// - Results in float32 and float16 are those of the row's reference in double, and gradients are
//   those of a call in float64, wherever the element type can hold them. A sum of squares that
//   overflows on the way shows here.
// - A gradient is finite where all outputs are. At finite inputs, so is its derivative where the
//   gradient is.
// - Both forms of a gradient agree.
// - A call with NaN or infinity finishes.
//
// Exceptions() states what deviates and why; a line that is not needed is a failure. Values that
// people compare with PyTorch's and NumPy's stand in a table of their own, StatedValues().
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <optional>
#include <random>
#include <set>
#include <span>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/base/error.h"
#include "tessera/ops/registry.h"
#include "tessera/ops/testing/encoding.h"
#include "tessera/ops/testing/gradient_tape.h"
#include "tessera/ops/testing/operator_harness.h"
#include "tessera/ops/testing/operator_row.h"
#include "tessera/ops/testing/special_value_exceptions.h"
#include "tessera/ops/testing/stated_values.h"

namespace tessera::ops_testing {
namespace {

using Entry = GradientTape::Entry;
using Form = GradientTape::Form;

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNotANumber = std::numeric_limits<double>::quiet_NaN();

/// Larger cases take too long.
constexpr index_t kMostElements = 600;
/// Further failures of an operator are counted but not printed.
constexpr int kMostPrinted = 12;

// ----- special inputs -----

using enum Check;
using enum Pattern;

constexpr Pattern kPatterns[] = {kZeros, kSomeZeros, kTies,          kHuge,
                                 kTiny,  kInfinity,  kMinusInfinity, kNan};

std::string_view Name(Pattern pattern) {
  switch (pattern) {
    case kZeros:
      return "zeros";
    case kSomeZeros:
      return "some zeros";
    case kTies:
      return "ties";
    case kHuge:
      return "huge values";
    case kTiny:
      return "tiny values";
    case kInfinity:
      return "one infinity";
    case kMinusInfinity:
      return "one -infinity";
    default:
      return "one NaN";
  }
}

void Apply(Pattern pattern, DType dtype, Values* values) {
  const index_t n = values->size();
  if (n == 0) return;
  switch (pattern) {
    case kZeros:
      std::fill(values->data.begin(), values->data.end(), 0);
      break;
    case kSomeZeros:
      for (index_t i = 0; i < n; i += 3) (*values)[i] = 0;
      break;
    case kTies:
      std::fill(values->data.begin(), values->data.end(), (*values)[0]);
      break;
    case kHuge:
      for (double& x : values->data) x = std::ldexp(x, dtype == DType::kFloat16 ? 12 : 100);
      break;
    case kTiny:
      for (double& x : values->data) x = std::ldexp(x, -100);
      break;
    case kInfinity:
      (*values)[n / 2] = kInf;
      break;
    case kMinusInfinity:
      (*values)[n / 2] = -kInf;
      break;
    case kNan:
      (*values)[n / 2] = kNotANumber;
      break;
  }
}

bool ReferenceTakes(std::string_view op, Pattern pattern) {
  return !PositionsFromValues().contains(op) || pattern == kZeros || pattern == kSomeZeros ||
         pattern == kTies;
}

/// Reports failures of one operator, except those that Exceptions() states.
class Reporter {
 public:
  explicit Reporter(const OperatorRow& row) : row_(row) {
    for (const Exception& exception : Exceptions()) {
      if (exception.Names(row.name)) exceptions_.push_back({&exception, {}});
    }
  }

  void SetPlace(const std::string& place, Pattern pattern) {
    place_ = place;
    pattern_ = pattern;
  }

  void Report(Check check, const std::string& what) {
    for (auto& [exception, used] : exceptions_) {
      if (!exception->checks.contains(check) || !exception->patterns.contains(pattern_)) continue;
      used.insert(check);
      return;
    }
    if (++count_ <= kMostPrinted) ADD_FAILURE() << place_ << ": " << what;
  }

  /// Reports the number of failures, and exceptions without need.
  void Finish() const {
    if (count_ > kMostPrinted) {
      ADD_FAILURE() << row_.name << " has " << count_ << " failures in all";
    }
    for (const auto& [exception, used] : exceptions_) {
      // One line may be for several operators.
      if (exception->op.ends_with('*') || used.size() == exception->checks.size()) continue;
      ADD_FAILURE() << row_.name << ": the exception \"" << exception->reason << "\" has "
                    << exception->checks.size() << " checks, of which " << used.size()
                    << " are needed";
    }
  }

 private:
  struct Use {
    const Exception* exception;
    std::set<Check> used;
  };

  const OperatorRow& row_;
  std::vector<Use> exceptions_;
  std::string place_;
  Pattern pattern_ = kZeros;
  int count_ = 0;
};

// ----- comparison -----

struct Range {
  double smallest, largest, tolerance;

  bool Holds(double x) const {
    return x == 0 || (std::abs(x) >= smallest && std::abs(x) <= largest);
  }
};

/// The normal numbers of a type and the error of a result, relative to the array's largest element.
Range RangeOf(DType dtype) {
  switch (dtype) {
    case DType::kFloat16:
      return {6.2e-5, 65000, 2e-2};
    case DType::kFloat32:
      return {1.2e-38, 3.4e38, 2e-4};
    default:
      return {2.3e-308, 1.7e308, 1e-9};
  }
}

/// Returns a sentence for the first element that differs from what the type holds of `expected`.
/// An element that is NaN or outside of the type's range has no expected value. Unless values are
/// huge or tiny, terms of magnitude 1 may have cancelled each other.
std::optional<std::string> Difference(const Values& actual, const Values& expected, DType dtype,
                                      Pattern pattern) {
  const Range range = RangeOf(dtype);
  const bool is_scaled = pattern == kHuge || pattern == kTiny;
  const double floor = is_scaled ? range.smallest : range.tolerance / 20;
  double largest = 0;
  for (const double x : expected.data) {
    if (range.Holds(x)) largest = std::max(largest, std::abs(x));
  }
  for (index_t i = 0; i < expected.size(); ++i) {
    const double a = actual[i], e = expected[i];
    if (a == e || std::isnan(e)) continue;
    if (!std::isinf(e)) {
      if (std::abs(e) > range.largest) continue;
      if (std::abs(a - e) <= range.tolerance * largest + floor) continue;
    }
    std::ostringstream text;
    text << "element " << i << " of shape " << expected.shape << " is " << a << ", expected " << e;
    return text.str();
  }
  return std::nullopt;
}

bool IsFinite(const Values& values) {
  return std::all_of(values.data.begin(), values.data.end(),
                     [](double x) { return std::isfinite(x); });
}
bool IsFinite(const std::vector<Values>& list) {
  return std::all_of(list.begin(), list.end(), [](const Values& v) { return IsFinite(v); });
}
bool HoldsAll(const std::vector<Values>& list, DType dtype) {
  const Range range = RangeOf(dtype);
  return std::all_of(list.begin(), list.end(), [&](const Values& values) {
    return std::all_of(values.data.begin(), values.data.end(),
                       [&](double x) { return range.Holds(x); });
  });
}

std::string Text(const Values& values) {
  std::ostringstream text;
  text << values.shape << " {";
  for (index_t i = 0; i < std::min<index_t>(values.size(), 8); ++i) {
    text << (i > 0 ? ", " : "") << values[i];
  }
  text << (values.size() > 8 ? ", ...}" : "}");
  return text.str();
}

// ----- a call -----

enum class Weights { kDifferent, kOne };

/// A call of one element type, with all its derivatives.
class Calculation {
 public:
  Calculation(const OperatorRow& row, const OperatorCase& test_case, DType dtype)
      : property_(OperatorRegistry::Get().Create(row.name, test_case.parameters)),
        test_case_(test_case),
        in_shape_(test_case.inputs),
        out_shape_(test_case.outputs) {
    out_shape_.resize(property_->ListOutputs().size());
    in_type_.assign(in_shape_.size(), dtype);
    for (size_t i = 0; i < std::min(in_type_.size(), test_case.fixed_types.size()); ++i) {
      if (test_case.fixed_types[i] != DType::kUnknown) in_type_[i] = test_case.fixed_types[i];
    }
    std::vector<TShape> out_shape = out_shape_;
    std::vector<DType> out_type(out_shape_.size(), DType::kUnknown);
    property_->InferShape(&in_shape_, &out_shape);
    property_->InferType(&in_type_, &out_type);
  }

  const OperatorProperty& property() const { return *property_; }
  const std::vector<TShape>& in_shape() const { return in_shape_; }
  DType in_type(size_t i) const { return in_type_[i]; }

  /// Returns the case's values, rounded to the element types.
  std::vector<Values> CaseValues() const {
    std::mt19937_64 random(TestSeed());
    std::vector<Values> values;
    for (size_t i = 0; i < in_shape_.size(); ++i) {
      const Fill fill = i < test_case_.fills.size() ? test_case_.fills[i]
                        : IsReal(in_type_[i])       ? Fill()
                                                    : Fill::Integers(0, 9);
      values.push_back(Rounded(fill.Make(in_shape_[i], &random), in_type_[i]));
    }
    return values;
  }

  static Values Rounded(const Values& values, DType dtype) {
    return Decode(Encode(values, dtype), values.shape, dtype);
  }

  /// Computes the outputs.
  void Forward(const std::vector<Values>& in) {
    for (size_t i = 0; i < in.size(); ++i) {
      inputs_.push_back(tape_.AddVariable(Encode(in[i], in_type_[i]), in_shape_[i], in_type_[i]));
      if (IsReal(in_type_[i]) && property_->ArgumentHasGradient(static_cast<int>(i))) {
        wanted_.push_back(inputs_.back());
      }
    }
    outputs_ = tape_.Call(property_, inputs_, out_shape_);
    for (const Entry output : outputs_) {
      if (IsReal(tape_.dtype(output))) heads_.push_back(output);
    }
  }

  /// Returns the visible outputs.
  const std::vector<Entry>& outputs() const { return outputs_; }
  DType dtype(Entry entry) const { return tape_.dtype(entry); }
  Values Read(Entry entry) const { return tape_.Read(entry); }
  std::vector<Values> Heads() const { return ReadAll(heads_); }
  /// Returns the inputs whose gradients are computed.
  const std::vector<Entry>& wanted() const { return wanted_; }

  /// Returns the gradients of wanted(), or nothing if there are none of the form. The outputs have
  /// the given weights: of different values, or all 1.
  std::optional<std::vector<Values>> Gradients(Form form, Weights weights = Weights::kDifferent) {
    if (wanted_.empty() || !property_->HasGradient()) return std::nullopt;
    const auto gradients = tape_.Differentiate(heads_, WeightsOf(heads_, weights), wanted_, form);
    if (!gradients) return std::nullopt;
    gradients_ = *gradients;
    return ReadAll(gradients_);
  }

  /// Returns the derivatives of the first `count` gradients that Gradients has returned, of the
  /// form kGraph.
  std::optional<std::vector<Values>> SecondDerivatives(size_t count,
                                                       Weights weights = Weights::kDifferent) {
    std::vector<Entry> heads;
    for (const Entry gradient : std::span(gradients_).first(count)) {
      if (gradient != GradientTape::kZero) heads.push_back(gradient);
    }
    const auto second =
        tape_.Differentiate(heads, WeightsOf(heads, weights), wanted_, Form::kGraph);
    if (!second) return std::nullopt;
    return ReadAll(*second);
  }

 private:
  // Reads entries; one that is kZero, among gradients of wanted(), is zeros.
  std::vector<Values> ReadAll(const std::vector<Entry>& entries) const {
    std::vector<Values> values;
    for (size_t i = 0; i < entries.size(); ++i) {
      values.push_back(entries[i] == GradientTape::kZero ? Values(tape_.shape(wanted_[i]))
                                                         : tape_.Read(entries[i]));
    }
    return values;
  }
  // Multiples of 1/8, which every type holds.
  std::vector<Entry> WeightsOf(const std::vector<Entry>& heads, Weights weights) {
    std::vector<Entry> list;
    for (const Entry head : heads) {
      Values values(tape_.shape(head), 1);
      for (index_t i = 0; weights == Weights::kDifferent && i < values.size(); ++i) {
        values[i] = static_cast<double>(i * 7 % 11 + 1) / 8 * (i % 3 == 1 ? -1 : 1);
      }
      const DType dtype = tape_.dtype(head);
      list.push_back(tape_.AddVariable(Encode(values, dtype), values.shape, dtype));
    }
    return list;
  }

  const std::shared_ptr<const OperatorProperty> property_;
  const OperatorCase& test_case_;
  std::vector<TShape> in_shape_, out_shape_;
  std::vector<DType> in_type_;
  GradientTape tape_;
  std::vector<Entry> inputs_, wanted_, outputs_, heads_, gradients_;
};

// ----- every operator -----

class SpecialValuesTest : public ::testing::TestWithParam<const OperatorRow*> {
 protected:
  SpecialValuesTest() : row_(*GetParam()), reporter_(row_) {}

  static bool HasType(const OperatorCase& test_case, DType dtype) {
    return std::find(test_case.dtypes.begin(), test_case.dtypes.end(), dtype) !=
           test_case.dtypes.end();
  }

  /// Returns the inputs that become special: those with a gradient, or else those of arbitrary
  /// values, together and alone.
  static std::vector<std::vector<size_t>> Selections(const Calculation& call,
                                                     const OperatorCase& test_case) {
    std::vector<size_t> with_gradient, arbitrary;
    for (size_t i = 0; i < call.in_shape().size(); ++i) {
      if (!IsReal(call.in_type(i))) continue;
      if (call.property().ArgumentHasGradient(static_cast<int>(i))) with_gradient.push_back(i);
      const bool is_arbitrary = i >= test_case.fills.size() ||
                                test_case.fills[i].kind == Fill::Kind::kUniform ||
                                test_case.fills[i].kind == Fill::Kind::kDistinct;
      if (is_arbitrary) arbitrary.push_back(i);
    }
    const std::vector<size_t>& all = with_gradient.empty() ? arbitrary : with_gradient;
    std::vector<std::vector<size_t>> selections;
    if (!all.empty()) selections.push_back(all);
    if (all.size() > 1 && all.size() <= 4) {
      for (const size_t i : all) selections.push_back({i});
    }
    return selections;
  }

  /// Runs one case in one element type.
  void RunCase(const OperatorCase& test_case, DType dtype) {
    const Calculation shapes(row_, test_case, dtype);
    index_t elements = 0;
    for (const TShape& shape : shapes.in_shape()) elements += shape.Size();
    if (elements > kMostElements) return;
    for (const std::vector<size_t>& selection : Selections(shapes, test_case)) {
      for (const Pattern pattern : kPatterns) {
        if (dtype == DType::kFloat16 && pattern != kHuge) continue;
        std::vector<Values> in = shapes.CaseValues();
        std::ostringstream place;
        place << row_.name << "(";
        for (const auto& [name, value] : test_case.parameters) place << name << "=" << value << " ";
        place << ") of " << dtype << ", case " << test_case.name << ", " << Name(pattern) << " in";
        for (const size_t i : selection) {
          Apply(pattern, dtype, &in[i]);
          in[i] = Calculation::Rounded(in[i], dtype);
          place << " input " << i << " of " << Text(in[i]);
        }
        reporter_.SetPlace(place.str(), pattern);
        RunGuarded([&] { RunCall(test_case, dtype, pattern, in); });
      }
    }
  }

  template <typename Function>
  void RunGuarded(const Function& function) {
    try {
      function();
    } catch (const Error& error) {
      reporter_.Report(kRefused, std::string("refused: ") + error.what());
    } catch (const std::exception& exception) {
      ADD_FAILURE() << row_.name << ": another exception than an Error: " << exception.what();
    }
  }

  void RunCall(const OperatorCase& test_case, DType dtype, Pattern pattern,
               const std::vector<Values>& in) {
    Calculation call(row_, test_case, dtype);
    call.Forward(in);
    if (pattern == kNan) {
      call.Gradients(Form::kBackward);
      return;
    }
    if (ReferenceTakes(row_.name, pattern)) CompareWithReference(test_case, call, pattern, in);
    if (!HasType(test_case, DType::kFloat64) || call.wanted().empty()) return;

    Calculation exact(row_, test_case, DType::kFloat64);
    exact.Forward(in);
    const auto expected = exact.Gradients(Form::kBackward);
    if (!expected) return;
    const bool is_finite = IsFinite(exact.Heads());
    if (is_finite && dtype == DType::kFloat32) {
      for (size_t i = 0; i < expected->size(); ++i) {
        if (IsFinite((*expected)[i])) continue;
        reporter_.Report(kFiniteGradient, "in float64, gradient " + std::to_string(i) + " is " +
                                              Text((*expected)[i]) + " where outputs are finite");
      }
      CheckGraph(&exact, *expected, pattern);
    }
    // A graph of operators has values of 16 bits on its way.
    if (dtype == DType::kFloat16 && !call.property().HasBackward()) return;
    if (!IsFinite(in) || !HoldsAll(exact.Heads(), dtype) || !IsFinite(call.Heads())) return;
    const auto actual = call.Gradients(Form::kBackward);
    for (size_t i = 0; actual && i < actual->size(); ++i) {
      if (const auto difference = Difference((*actual)[i], (*expected)[i], dtype, pattern)) {
        reporter_.Report(kGradient, "gradient " + std::to_string(i) + ": " + *difference);
      }
    }
  }

  void CompareWithReference(const OperatorCase& test_case, const Calculation& call, Pattern pattern,
                            const std::vector<Values>& in) {
    std::vector<Values> mutated;
    for (const int i : call.property().MutatedInputs()) {
      mutated.push_back(in[static_cast<size_t>(i)]);
    }
    const std::vector<Values> expected = row_.forward(test_case.parameters, in, &mutated);
    for (size_t i = 0; i < call.outputs().size(); ++i) {
      const Entry output = call.outputs()[i];
      if (!IsReal(call.dtype(output))) continue;
      if (const auto difference =
              Difference(call.Read(output), expected[i], call.dtype(output), pattern)) {
        reporter_.Report(kForward, "output " + std::to_string(i) + ": " + *difference);
      }
    }
  }

  /// Checks the gradient by a graph, and its derivative, in float64.
  void CheckGraph(Calculation* exact, const std::vector<Values>& expected, Pattern pattern) {
    std::optional<std::vector<Values>> by_graph;
    try {
      by_graph = exact->Gradients(Form::kGraph);
    } catch (const Error& error) {
      reporter_.Report(kForms, std::string("gradient by a graph: ") + error.what());
    }
    if (!by_graph) return;
    for (size_t i = 0; i < expected.size(); ++i) {
      if (const auto difference =
              Difference((*by_graph)[i], expected[i], DType::kFloat64, pattern)) {
        reporter_.Report(kForms, "gradient " + std::to_string(i) +
                                     " by a graph, and expected by Backward: " + *difference);
      }
    }
    if (pattern == kInfinity || pattern == kMinusInfinity) return;
    if (IsFinite(expected) && IsFinite(*by_graph)) CheckSecondDerivatives(exact, expected.size());
  }

  void CheckSecondDerivatives(Calculation* exact, size_t num_gradients) {
    try {
      const auto second = exact->SecondDerivatives(num_gradients);
      for (size_t i = 0; second && i < second->size(); ++i) {
        if (IsFinite((*second)[i])) continue;
        reporter_.Report(kSecondDerivative, "in float64, second derivative " + std::to_string(i) +
                                                " is " + Text((*second)[i]));
      }
    } catch (const Error& error) {
      reporter_.Report(kSecondDerivative, std::string("second derivative: ") + error.what());
    }
  }

  const OperatorRow& row_;
  Reporter reporter_;
};

TEST_P(SpecialValuesTest, HasRightValuesAndGradients) {
  for (const OperatorCase& test_case : row_.cases) {
    if (test_case.large) continue;
    for (const DType dtype : {DType::kFloat32, DType::kFloat16}) {
      if (HasType(test_case, dtype)) RunCase(test_case, dtype);
    }
  }
  reporter_.Finish();
}

INSTANTIATE_TEST_SUITE_P(All, SpecialValuesTest, ::testing::ValuesIn([] {
                           std::vector<const OperatorRow*> rows;
                           for (const OperatorRow& row : OperatorRows()) rows.push_back(&row);
                           return rows;
                         }()),
                         [](const auto& info) { return info.param->name; });

TEST(SpecialValuesTableTest, ExceptionsNameOperators) {
  for (const Exception& exception : Exceptions()) {
    const auto& rows = OperatorRows();
    EXPECT_TRUE(std::any_of(rows.begin(), rows.end(), [&](const OperatorRow& row) {
      return exception.Names(row.name);
    })) << exception.op;
  }
  for (const std::string_view name : PositionsFromValues()) {
    EXPECT_NE(OperatorRegistry::Get().Find(name), nullptr) << name;
  }
}

// ----- stated values -----

class StatedValuesTest : public ::testing::TestWithParam<DType> {
 protected:
  /// Expects each element, within the type's rounding. Values below its range may be 0.
  static void ExpectElements(const std::string& what, const Values& actual,
                             const std::vector<double>& expected) {
    const DType dtype = GetParam();
    // Parameters such as eps are rounded to float.
    const double tolerance = dtype == DType::kFloat32 ? 4e-6 : 1e-8;
    ASSERT_EQ(static_cast<size_t>(actual.size()), expected.size()) << what;
    for (index_t i = 0; i < actual.size(); ++i) {
      const double a = actual[i], e = expected[static_cast<size_t>(i)];
      const bool agrees = a == e || (std::isnan(a) && std::isnan(e)) ||
                          std::abs(a - e) <= tolerance * std::abs(e) + RangeOf(dtype).smallest;
      EXPECT_TRUE(agrees) << what << ", element " << i << ": got " << a << ", expected " << e;
    }
  }

  static void RunOne(const Stated& stated) {
    std::ostringstream text;
    text << stated.op << "(";
    for (const auto& [name, value] : stated.parameters) text << name << "=" << value << " ";
    text << ") of " << GetParam();
    OperatorRow row;
    row.name = stated.op;
    OperatorCase test_case;
    test_case.parameters = stated.parameters;
    std::vector<Values> in;
    for (const auto& [shape, data] : stated.inputs) {
      in.emplace_back(shape).data = data;
      text << ", " << Text(in.back());
      test_case.inputs.push_back(shape);
    }
    Calculation call(row, test_case, GetParam());
    call.Forward(in);
    ExpectElements(text.str(), call.Read(call.outputs().front()), stated.output);
    if (stated.gradients.empty()) return;
    for (const Form form : {Form::kBackward, Form::kGraph}) {
      const auto gradients = call.Gradients(form, Weights::kOne);
      if (!gradients) continue;
      size_t next = 0;
      for (size_t i = 0; i < stated.gradients.size(); ++i) {
        if (!call.property().ArgumentHasGradient(static_cast<int>(i))) continue;
        const Values& gradient = (*gradients)[next++];
        if (stated.gradients[i].empty()) continue;
        ExpectElements(text.str() +
                           (form == Form::kBackward ? ": gradient " : ": graph gradient ") +
                           std::to_string(i),
                       gradient, stated.gradients[i]);
      }
    }
    if (stated.second.empty()) return;
    ASSERT_TRUE(call.Gradients(Form::kGraph, Weights::kOne).has_value()) << text.str();
    const auto second = call.SecondDerivatives(1, Weights::kOne);
    ASSERT_TRUE(second.has_value()) << text.str();
    ExpectElements(text.str() + ": second derivative", second->front(), stated.second);
  }
};

TEST_P(StatedValuesTest, AreThose) {
  for (const Stated& stated : StatedValues()) {
    try {
      RunOne(stated);
    } catch (const Error& error) {
      ADD_FAILURE() << stated.op << ": " << error.what();
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, StatedValuesTest, ::testing::Values(DType::kFloat32, DType::kFloat64),
                         [](const auto& info) { return std::string(DTypeName(info.param)); });

}  // namespace
}  // namespace tessera::ops_testing
