#ifndef TESSERA_COMPAT_MXNET_QUIRKS_QUIRKS_H_
#define TESSERA_COMPAT_MXNET_QUIRKS_QUIRKS_H_

#include <span>
#include <string_view>

namespace tessera::mxnet {

/// The ways in which MXNet's clients expect other behavior from one operator than from the rest.
enum class Quirk {
  kFailsAtWait,     ///< parameters without meaning are an error of the wait, not of the call
  kNeedsElements,   ///< an input without elements is an error
  kShapeByValues,   ///< the output's shape depends on the inputs' values
  kImageCall,       ///< decodes or changes an image outside of any graph
  kIndexError,      ///< a wrong index raises Python's IndexError
  kPrecisionCast,   ///< a cast that automatic mixed precision has inserted
  kNamedDataInput,  ///< monitors call the only input "data", and not "input0"
  kUnnamedInputs,   ///< monitors call the inputs "input0", "input1", …
  kNamedOutputs,    ///< hooks call the outputs by their names, and not "0", "1", …
};

/// Operators that share a quirk.
struct QuirkRow {
  Quirk quirk;
  std::string_view why;                     ///< the reason in MXNet, as a sentence
  std::span<const std::string_view> names;  ///< names under which operators are registered
};

/// Returns the table of all quirks, with one row each.
std::span<const QuirkRow> QuirkTable();

/// The quirks of an operator.
class QuirkSet {
 public:
  constexpr bool Has(Quirk quirk) const { return (bits_ & Bit(quirk)) != 0; }
  constexpr void Add(Quirk quirk) { bits_ |= Bit(quirk); }

 private:
  static constexpr unsigned Bit(Quirk quirk) { return 1u << static_cast<unsigned>(quirk); }

  unsigned bits_ = 0;
};

/// Returns the quirks of the operator that is registered under a name, without aliases. An operator
/// that the table does not name has none.
QuirkSet QuirksOf(std::string_view name);

}  // namespace tessera::mxnet

#endif  // TESSERA_COMPAT_MXNET_QUIRKS_QUIRKS_H_
