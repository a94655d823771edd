#ifndef TESSERA_OPS_PARAMETER_H_
#define TESSERA_OPS_PARAMETER_H_

#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "tessera/base/dtype.h"
#include "tessera/base/number.h"
#include "tessera/base/tshape.h"

namespace tessera {

/// Parameters as a graph file or a caller writes them: name to text.
using ParameterMap = std::map<std::string, std::string>;

/// The description of one parameter of an operator.
struct ParameterInfo {
  std::string name;           ///< the name that callers write
  std::string type;           ///< "int", "float", "boolean", "shape", "{max, sum}", …
  std::string default_value;  ///< the default as text; empty if the parameter is required
  bool required = false;      ///< whether there is no default
  std::string description;    ///< one sentence of documentation
};

namespace ops_internal {

/// Converts values of a parameter type to text and back. Parse throws Error(kInvalidArgument) that
/// quotes the text and states the expected form; the caller adds operator and parameter.
template <typename T>
struct ParameterText;
template <>
struct ParameterText<int64_t> {
  static constexpr std::string_view kType = "int";
  static int64_t Parse(std::string_view text);
  static std::string Print(int64_t value);
};
template <>
struct ParameterText<int> {
  static constexpr std::string_view kType = "int";
  static int Parse(std::string_view text);
  static std::string Print(int value);
};
template <>
struct ParameterText<double> {
  static constexpr std::string_view kType = "float";
  static double Parse(std::string_view text);
  static std::string Print(double value);
};
template <>
struct ParameterText<float> {
  static constexpr std::string_view kType = "float";
  static float Parse(std::string_view text);
  static std::string Print(float value);
};
template <>
struct ParameterText<Number> {
  static constexpr std::string_view kType = "float";
  static Number Parse(std::string_view text);
  static std::string Print(const Number& value);
};
template <>
struct ParameterText<bool> {
  static constexpr std::string_view kType = "boolean";
  static bool Parse(std::string_view text);
  static std::string Print(bool value);
};
template <>
struct ParameterText<std::string> {
  static constexpr std::string_view kType = "string";
  static std::string Parse(std::string_view text) { return std::string(text); }
  static std::string Print(const std::string& value) { return value; }
};
template <>
struct ParameterText<TShape> {
  static constexpr std::string_view kType = "shape";
  static TShape Parse(std::string_view text);
  static std::string Print(const TShape& value);
};
/// Axes or other integers, of either sign: "(0, -1)", "[2]", "()" or "3" for a single one.
template <>
struct ParameterText<std::vector<int>> {
  static constexpr std::string_view kType = "ints";
  static std::vector<int> Parse(std::string_view text);
  static std::string Print(const std::vector<int>& values);
};
template <typename T>
struct ParameterText<std::optional<T>> {
  static constexpr std::string_view kType = ParameterText<T>::kType;
  static std::optional<T> Parse(std::string_view text) {
    if (text == "None") return std::nullopt;
    return ParameterText<T>::Parse(text);
  }
  static std::string Print(const std::optional<T>& value) {
    return value ? ParameterText<T>::Print(*value) : "None";
  }
};

/// Tuples of integers: "(2, -3)", "[2]", "2", "()".
template <>
struct ParameterText<std::vector<int64_t>> {
  static constexpr std::string_view kType = "ints";
  static std::vector<int64_t> Parse(std::string_view text);
  static std::string Print(const std::vector<int64_t>& value);
};
/// Tuples of integers, some of which may be absent: "(None, 3)".
template <>
struct ParameterText<std::vector<std::optional<int64_t>>> {
  static constexpr std::string_view kType = "ints or None";
  static std::vector<std::optional<int64_t>> Parse(std::string_view text);
  static std::string Print(const std::vector<std::optional<int64_t>>& value);
};
/// Tuples of numbers: "(0.1, 2)", "[1]", "0.5", "()".
template <>
struct ParameterText<std::vector<float>> {
  static constexpr std::string_view kType = "floats";
  static std::vector<float> Parse(std::string_view text);
  static std::string Print(const std::vector<float>& values);
};

/// A field of a parameter struct with its type erased.
struct ParameterField {
  ParameterInfo info;
  std::function<void(void* parameters, std::string_view text)> parse;
  std::function<std::string(const void* parameters)> print;
  /// Returns the value as a number, or nothing for None; null if the parameter is no number.
  std::function<std::optional<double>(const void* parameters)> number = nullptr;
};

/// Sets fields from `values`. `owner` begins every error.
void ParseParameters(std::string_view owner, const std::vector<ParameterField>& fields,
                     const ParameterMap& values, void* parameters);

/// Limits a field to [low, high]. `defaults` are parameters with their defaults.
void LimitRange(ParameterField* field, double low, double high, const void* defaults);

[[noreturn]] void ThrowNotAChoice(std::string_view text, const std::string& choices);

}  // namespace ops_internal

/// The parameters of an operator, each declared once with name, default, range and description. A
/// parameter struct lists its fields; their initializers are the defaults:
///
///     struct PoolingParameters {
///       TShape kernel;
///       bool global_pool = false;
///       static void Declare(ParameterSchema<PoolingParameters>& schema) {
///         schema.Required("kernel", &PoolingParameters::kernel, "window: (y, x)");
///         schema.Optional("global_pool", &PoolingParameters::global_pool, "pool whole images");
///       }
///     };
template <typename Parameters>
class ParameterSchema {
 public:
  /// Returns the schema that Parameters::Declare describes, which is built on first use.
  static const ParameterSchema& Get() {
    static const ParameterSchema schema = [] {
      ParameterSchema declared;
      Parameters::Declare(declared);
      return declared;
    }();
    return schema;
  }

  /// Declares a parameter that every caller must give.
  template <typename T>
  void Required(std::string name, T Parameters::*member, std::string description) {
    Add(std::move(name), member, std::move(description)).required = true;
  }
  /// Declares a parameter whose default is the member's initializer.
  template <typename T>
  void Optional(std::string name, T Parameters::*member, std::string description) {
    ParameterInfo& info = Add(std::move(name), member, std::move(description));
    const Parameters defaults;
    info.default_value = ops_internal::ParameterText<T>::Print(defaults.*member);
  }

  /// Limits the parameter declared last, a number, to [low, high]; None stays allowed where the
  /// parameter may be None. Throws Error(kInternal) if it is no number or its default is outside.
  ParameterSchema& Range(double low, double high = std::numeric_limits<double>::infinity()) {
    const Parameters defaults;
    ops_internal::LimitRange(&fields_.back(), low, high, &defaults);
    return *this;
  }

  /// Declares a parameter that names one of several choices.
  template <typename T>
  void Choice(std::string name, T Parameters::*member,
              std::vector<std::pair<std::string, T>> choices, std::string description,
              bool required = false) {
    std::string type = "{";
    for (const auto& [text, value] : choices) {
      if (type.size() > 1) type += ", ";
      type += text;
    }
    type += "}";
    ops_internal::ParameterField field;
    field.info.name = std::move(name);
    field.info.description = std::move(description);
    field.info.type = type;
    field.info.required = required;
    field.parse = [member, choices, type](void* parameters, std::string_view given) {
      for (const auto& [text, value] : choices) {
        if (text == given) {
          static_cast<Parameters*>(parameters)->*member = value;
          return;
        }
      }
      ops_internal::ThrowNotAChoice(given, type);
    };
    field.print = [member, choices](const void* parameters) {
      for (const auto& [text, value] : choices) {
        if (static_cast<const Parameters*>(parameters)->*member == value) return text;
      }
      return std::string();
    };
    const Parameters defaults;
    if (!required) field.info.default_value = field.print(&defaults);
    fields_.push_back(std::move(field));
  }

  /// Returns parameters with `values` set over the defaults. Throws Error(kInvalidArgument) that
  /// names `owner`, the parameter, its text and the expected form. It is thrown for an unknown name
  /// (with the nearest known one), for a text that does not parse or is out of range, and for a
  /// missing required parameter.
  Parameters Parse(std::string_view owner, const ParameterMap& values) const {
    Parameters parameters;
    ops_internal::ParseParameters(owner, fields_, values, &parameters);
    return parameters;
  }

  /// Returns every parameter as text. Parse converts it to equal parameters.
  ParameterMap Print(const Parameters& parameters) const {
    ParameterMap values;
    for (const auto& field : fields_) values[field.info.name] = field.print(&parameters);
    return values;
  }

  /// Returns the description of every parameter, in the order of declaration.
  std::vector<ParameterInfo> Describe() const {
    std::vector<ParameterInfo> infos;
    for (const auto& field : fields_) infos.push_back(field.info);
    return infos;
  }

 private:
  template <typename T>
  ParameterInfo& Add(std::string name, T Parameters::*member, std::string description) {
    using Text = ops_internal::ParameterText<T>;
    ops_internal::ParameterField field;
    field.info.name = std::move(name);
    field.info.description = std::move(description);
    field.info.type = std::string(Text::kType);
    field.parse = [member](void* parameters, std::string_view text) {
      static_cast<Parameters*>(parameters)->*member = Text::Parse(text);
    };
    field.print = [member](const void* parameters) {
      return Text::Print(static_cast<const Parameters*>(parameters)->*member);
    };
    using Value = std::conditional_t<std::is_arithmetic_v<T>, std::optional<T>, T>;
    if constexpr (std::is_convertible_v<Value, std::optional<double>> &&
                  !std::is_same_v<Value, std::optional<bool>>) {
      field.number = [member](const void* parameters) -> std::optional<double> {
        return Value(static_cast<const Parameters*>(parameters)->*member);
      };
    }
    fields_.push_back(std::move(field));
    return fields_.back().info;
  }

  std::vector<ops_internal::ParameterField> fields_;
};

/// The parameters of an operator without parameters.
struct NoParameters {
  /// Declares nothing.
  static void Declare(ParameterSchema<NoParameters>&) {}
};

/// Returns the name in `names` that is nearest to `name` by edit distance, or an empty string if
/// none is near. Compares the first 64 bytes of each name.
std::string NearestName(std::string_view name, const std::vector<std::string>& names);

}  // namespace tessera

#endif  // TESSERA_OPS_PARAMETER_H_
