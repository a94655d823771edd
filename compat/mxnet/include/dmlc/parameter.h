#ifndef DMLC_PARAMETER_H_
#define DMLC_PARAMETER_H_

// Structs of parameters that describe themselves:
//
//     struct ScaleParam : public dmlc::Parameter<ScaleParam> {
//       float factor;
//       DMLC_DECLARE_PARAMETER(ScaleParam) {
//         DMLC_DECLARE_FIELD(factor).set_default(2).set_range(0, 8).describe("the factor");
//       }
//     };
//     DMLC_REGISTER_PARAMETER(ScaleParam);
//
// Fields are numbers, bool, std::string, optionals of these, shapes, tuples, int with names of
// values (add_enum), and other types that streams write and read.

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <limits>
#include <locale>
#include <map>
#include <memory>
#include <sstream>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "dmlc/base.h"
#include "dmlc/logging.h"
#include "dmlc/optional.h"
#include "tessera/base/error.h"
#include "tessera/ops/parameter.h"

namespace dmlc {

/// The error of parameters that do not fit. It names the struct, the parameter, its text and what
/// was expected, and is a tessera::Error(kInvalidArgument).
struct ParamError : public tessera::Error {
  explicit ParamError(const std::string& message) : Error(kInvalidArgument, message) {}
};

/// The documentation of a parameter.
struct ParamFieldInfo {
  std::string name;           ///< the name that callers write
  std::string type;           ///< "int", "float", "boolean", "shape", "{max, sum}", …
  std::string type_info_str;  ///< the type, then ", required" or ", optional, default=…"
  std::string description;    ///< the text that `describe` gave
};

namespace parameter {

/// The names that Parameter::Init takes besides those of the fields.
enum ParamInitOption {
  kAllowUnknown,  ///< all
  kAllMatch,      ///< none
  kAllowHidden,   ///< those that begin and end with two underscores
};

/// Converts values of a field's type to text and back, as tessera's ParameterText does. This
/// template is for types that streams write and read.
template <typename T>
struct FieldText {
  static constexpr std::string_view kType = "value";
  static T Parse(std::string_view text) {
    std::istringstream stream{std::string(text)};
    stream.imbue(std::locale::classic());
    T value{};
    if (!(stream >> value) || !(stream >> std::ws).eof()) {
      throw tessera::InvalidArgument("\"", text, "\" is not a value of the parameter's type");
    }
    return value;
  }
  static std::string Print(const T& value) {
    std::ostringstream stream;
    stream.imbue(std::locale::classic());
    stream << value;
    return stream.str();
  }
};

/// Satisfied if Tessera's operators have parameters of the type, too.
template <typename T>
concept IsOperatorsParameter = requires {
  tessera::ops_internal::ParameterText<T>::kType;
};
template <IsOperatorsParameter T>
struct FieldText<T> : tessera::ops_internal::ParameterText<T> {};

/// Converts other integers. Parse throws if the number does not fit in the type.
template <std::integral T>
requires(!IsOperatorsParameter<T>) struct FieldText<T> {
  static constexpr std::string_view kType = std::is_signed_v<T> ? "int" : "int (non-negative)";
  static T Parse(std::string_view text) {
    const int64_t value = tessera::ops_internal::ParameterText<int64_t>::Parse(text);
    if (!std::in_range<T>(value)) {
      throw tessera::InvalidArgument("\"", text, "\" is out of range; expected a value in [",
                                     +std::numeric_limits<T>::min(), ", ",
                                     +std::numeric_limits<T>::max(), "]");
    }
    return static_cast<T>(value);
  }
  static std::string Print(T value) { return std::to_string(+value); }
};

/// Converts values that may be absent, which "None" stands for.
template <typename T>
struct FieldText<optional<T>> {
  static constexpr std::string_view kType = FieldText<T>::kType;
  static optional<T> Parse(std::string_view text) {
    if (text == "None") return nullopt;
    return FieldText<T>::Parse(text);
  }
  static std::string Print(const optional<T>& value) {
    return value ? FieldText<T>::Print(*value) : "None";
  }
};

/// One field of a struct, whose address the functions receive.
struct Field {
  std::string name;
  std::string type;
  std::string description;
  std::string alias;                                        ///< a second name; empty if none
  std::vector<std::pair<std::string, int>> choices;         ///< the names of values; empty if none
  std::function<void(void* head, std::string_view)> parse;  ///< sets the field
  std::function<std::string(const void* head)> print;       ///< returns the field as text
  std::function<void(void* head)> set_default;              ///< null for a required field
  std::vector<std::function<std::string(const void*)>> checks;  ///< each returns what was expected,
                                                                ///< or an empty text
};

/// The fields of a struct. A struct's description is made once and never changes.
class Fields {
 public:
  explicit Fields(std::string owner) : owner_(std::move(owner)) {}

  /// Adds a field and returns it. The reference stays valid.
  Field& Add(std::string name);
  /// Returns the field of that name. Throws Error(kInternal) if there is none.
  Field& Get(std::string_view name);
  /// Ends the declaration. Sets the defaults of `defaults`, a struct whose texts document them.
  void Finish(std::shared_ptr<void> defaults);

  /// Sets the struct at `head` from texts by name, and returns the texts whose names the option
  /// admits besides those of the fields. With `sets_defaults`, other fields get their defaults, and
  /// a required field must be given. Throws ParamError; the struct is then partly set.
  std::map<std::string, std::string> Parse(void* head,
                                           const std::map<std::string, std::string>& values,
                                           ParamInitOption option, bool sets_defaults) const;
  /// Returns the fields of the struct at `head` as texts, which Parse reads.
  std::map<std::string, std::string> Print(const void* head) const;
  /// Returns the documentation of the fields, in the order of declaration.
  std::vector<ParamFieldInfo> Describe() const;

 private:
  void ParseField(const Field& field, void* head, std::string_view text) const;

  std::string owner_;
  std::vector<std::unique_ptr<Field>> fields_;
  std::shared_ptr<void> defaults_;
};

/// The declaration of a field of type T.
template <typename T>
class FieldEntry {
 public:
  FieldEntry(Field* field, ptrdiff_t offset) : field_(field), offset_(offset) {}

  /// Makes the parameter optional.
  FieldEntry& set_default(const T& value) {
    field_->set_default = [*this, value](void* head) { At(head) = value; };
    return *this;
  }
  /// Limits a number, or an optional one that is present, to [low, high].
  template <typename Low, typename High>
  FieldEntry& set_range(Low low, High high) {
    set_lower_bound(low);
    return set_upper_bound(high);
  }
  template <typename Low>
  FieldEntry& set_lower_bound(Low low) {
    const Number limit = static_cast<Number>(low);
    return Check([limit](const Number& value) {
      return value >= limit ? "" : "a value of at least " + Shown(limit);
    });
  }
  template <typename High>
  FieldEntry& set_upper_bound(High high) {
    const Number limit = static_cast<Number>(high);
    return Check([limit](const Number& value) {
      return value <= limit ? "" : "a value of at most " + Shown(limit);
    });
  }
  /// Names a value of an int, or of an optional one. Callers then write names only.
  FieldEntry& add_enum(const std::string& name, int value) {
    field_->choices.emplace_back(name, value);
    return *this;
  }
  /// Requires a shape or a tuple of that many extents, and extents other than 0.
  FieldEntry& set_expect_ndim(int64_t ndim) {
    return Check([ndim](const T& value) {
      return static_cast<int64_t>(value.ndim()) == ndim ? "" : std::to_string(ndim) + " extents";
    });
  }
  FieldEntry& enforce_nonzero() {
    return Check([](const T& value) {
      for (const auto extent : value) {
        if (extent == 0) return "extents other than 0";
      }
      return "";
    });
  }
  /// Documents the parameter.
  FieldEntry& describe(const std::string& text) {
    field_->description = text;
    return *this;
  }

 private:
  template <typename U>
  struct NumberOf {
    using type = U;
  };
  template <typename U>
  struct NumberOf<optional<U>> {
    using type = U;
  };
  using Number = typename NumberOf<T>::type;

  /// Returns a limit as people write it: FieldText prints 100.0 as 1e+02.
  static std::string Shown(Number limit) {
    std::ostringstream stream;
    stream.imbue(std::locale::classic());
    stream << +limit;
    return stream.str();
  }

  T& At(void* head) const { return *reinterpret_cast<T*>(static_cast<char*>(head) + offset_); }
  const T& At(const void* head) const { return At(const_cast<void*>(head)); }

  /// Adds a condition of the value: a function that returns what is expected, or an empty text.
  template <typename Condition>
  FieldEntry& Check(Condition condition) {
    field_->checks.push_back([*this, condition](const void* head) -> std::string {
      const T& value = At(head);
      if constexpr (std::is_same_v<T, Number>) {
        return condition(value);
      } else {
        return value ? condition(*value) : "";
      }
    });
    return *this;
  }

  Field* field_;
  ptrdiff_t offset_;
};

namespace internal {

template <typename T>
inline constexpr bool kHasChoices = std::is_same_v<T, int> || std::is_same_v<T, optional<int>>;

/// Return the number of a name, and the name of a number.
int ParseChoice(const Field& field, std::string_view text);
std::string PrintChoice(const Field& field, int value);

}  // namespace internal

/// Adds the field `value` of the struct at `head` to its description.
template <typename T>
FieldEntry<T> DeclareField(Fields* fields, const char* name, const void* head, const T& value) {
  const ptrdiff_t offset = reinterpret_cast<const char*>(&value) - static_cast<const char*>(head);
  Field* const field = &fields->Add(name);
  field->type = FieldText<T>::kType;
  field->parse = [field, offset](void* at, std::string_view text) {
    T& target = *reinterpret_cast<T*>(static_cast<char*>(at) + offset);
    if constexpr (internal::kHasChoices<T>) {
      if (!field->choices.empty()) {
        if constexpr (!std::is_same_v<T, int>) {
          if (text == "None") {
            target = nullopt;
            return;
          }
        }
        target = internal::ParseChoice(*field, text);
        return;
      }
    }
    target = FieldText<T>::Parse(text);
  };
  field->print = [field, offset](const void* at) -> std::string {
    const T& source = *reinterpret_cast<const T*>(static_cast<const char*>(at) + offset);
    if constexpr (std::is_same_v<T, int>) {
      if (!field->choices.empty()) return internal::PrintChoice(*field, source);
    } else if constexpr (internal::kHasChoices<T>) {
      if (!field->choices.empty() && source) return internal::PrintChoice(*field, *source);
    }
    return FieldText<T>::Print(source);
  };
  return FieldEntry<T>(field, offset);
}

/// Returns the description of a struct, which is made at first use.
template <typename PType>
const Fields& FieldsOf() {
  static const Fields* const fields = [] {
    const auto defaults = std::make_shared<PType>();
    auto* const made = new Fields(PType::DmlcName());
    defaults->DmlcDeclare(made);
    made->Finish(defaults);
    return made;
  }();
  return *fields;
}

}  // namespace parameter

/// Returns the value of an environment variable, or the default if the variable is unset or empty.
/// Throws Error(kInvalidArgument) that quotes a text that does not parse.
template <typename T>
T GetEnv(const char* name, T default_value) {
  const char* const text = std::getenv(name);
  if (text == nullptr || *text == '\0') return default_value;
  return parameter::FieldText<T>::Parse(text);
}

/// The base of a struct of parameters, `struct P : public dmlc::Parameter<P>`, which declares its
/// fields with DMLC_DECLARE_PARAMETER.
template <typename PType>
struct Parameter {
  /// Sets all fields from pairs of name and text. Throws ParamError for an unknown name (with the
  /// nearest known one), unless the option admits it, for a text that does not parse or is out of
  /// range, and for a missing required parameter.
  template <typename Container>
  void Init(const Container& kwargs, parameter::ParamInitOption option = parameter::kAllowHidden) {
    Set(kwargs, option, true);
  }
  /// Sets all fields and returns the pairs of unknown names.
  template <typename Container>
  std::vector<std::pair<std::string, std::string>> InitAllowUnknown(const Container& kwargs) {
    return Set(kwargs, parameter::kAllowUnknown, true);
  }
  /// Sets the fields that are given, leaves the others unchanged, and returns the pairs of unknown
  /// names.
  template <typename Container>
  std::vector<std::pair<std::string, std::string>> UpdateAllowUnknown(const Container& kwargs) {
    return Set(kwargs, parameter::kAllowUnknown, false);
  }

  /// Returns all fields as text. Init with the result gives an equal struct.
  std::map<std::string, std::string> __DICT__() const { return Fields().Print(head()); }
  /// Writes all fields as text into a map.
  template <typename Container>
  void UpdateDict(Container* dict) const {
    for (const auto& [name, text] : __DICT__()) (*dict)[name] = text;
  }
  /// Returns the documentation of the fields, in the order of declaration.
  static std::vector<ParamFieldInfo> __FIELDS__() { return Fields().Describe(); }
  /// Returns the documentation as lines of text.
  static std::string __DOC__() {
    std::string text;
    for (const ParamFieldInfo& info : __FIELDS__()) {
      text += info.name + " : " + info.type_info_str + "\n    " + info.description + "\n";
    }
    return text;
  }

 private:
  static const parameter::Fields& Fields() { return parameter::FieldsOf<PType>(); }
  const void* head() const { return static_cast<const PType*>(this); }

  template <typename Container>
  std::vector<std::pair<std::string, std::string>> Set(const Container& kwargs,
                                                       parameter::ParamInitOption option,
                                                       bool sets_defaults) {
    std::map<std::string, std::string> values;
    for (const auto& pair : kwargs) values[pair.first] = pair.second;
    const auto unknown = Fields().Parse(static_cast<PType*>(this), values, option, sets_defaults);
    return {unknown.begin(), unknown.end()};
  }
};

}  // namespace dmlc

/// Begins the declarations of a struct's fields, which follow in braces.
#define DMLC_DECLARE_PARAMETER(PType)              \
  static const char* DmlcName() { return #PType; } \
  void DmlcDeclare([[maybe_unused]] ::dmlc::parameter::Fields* dmlc_fields)
/// Declares a field. FieldEntry has what may follow.
#define DMLC_DECLARE_FIELD(FieldName) \
  ::dmlc::parameter::DeclareField(dmlc_fields, #FieldName, this, this->FieldName)
/// Gives a declared field a second name, which callers may write.
#define DMLC_DECLARE_ALIAS(FieldName, AliasName) dmlc_fields->Get(#FieldName).alias = #AliasName
/// States that a struct of parameters is used. Its description is made at first use.
#define DMLC_REGISTER_PARAMETER(PType)                                \
  static_assert(::std::is_base_of_v<::dmlc::Parameter<PType>, PType>, \
                #PType " derives from dmlc::Parameter<" #PType ">")

#endif  // DMLC_PARAMETER_H_
