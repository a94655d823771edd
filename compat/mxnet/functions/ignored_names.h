#ifndef TESSERA_COMPAT_MXNET_FUNCTIONS_IGNORED_NAMES_H_
#define TESSERA_COMPAT_MXNET_FUNCTIONS_IGNORED_NAMES_H_

#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/base/error.h"
#include "tessera/symbol/symbol.h"

namespace tessera::mxnet {

/// The names of a client's values that belong to no input of a symbol. Binding ignores them, as
/// MXNet does, because Python's modules give the shapes of labels that a network may not read.
class IgnoredNames {
 public:
  explicit IgnoredNames(const Symbol& symbol) : inputs_(symbol.ListInputs()) {}

  /// Removes the values whose names are no inputs.
  template <typename T>
  void RemoveFrom(std::map<std::string, T>* values) {
    const std::set<std::string_view> inputs(inputs_.begin(), inputs_.end());
    std::erase_if(*values, [&](const auto& item) {
      const bool is_input = inputs.contains(item.first);
      if (!is_input) ignored_.insert(item.first);
      return !is_input;
    });
  }

  /// Returns what `bind` returns. If it throws an Error, its message names what was ignored, which
  /// may be a misspelled input.
  template <typename Bind>
  auto Run(const Bind& bind) const {
    try {
      return bind();
    } catch (const Error& error) {
      throw error.WithMessage(error.what() + Describe());
    }
  }

 private:
  std::string Describe() const;

  const std::vector<std::string> inputs_;
  std::set<std::string> ignored_;
};

}  // namespace tessera::mxnet

#endif  // TESSERA_COMPAT_MXNET_FUNCTIONS_IGNORED_NAMES_H_
