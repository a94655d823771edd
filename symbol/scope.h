#ifndef TESSERA_SYMBOL_SCOPE_H_
#define TESSERA_SYMBOL_SCOPE_H_

#include <map>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "tessera/base/dialect.h"

namespace tessera {

/// A scope whose attributes all variables and operators get that the thread makes in it, as with
/// MXNet's AttrScope:
///
///     const AttrScope scope("ctx_group", "dev1");  // or a ParameterMap of several
///     Symbol y = Symbol::Apply("FullyConnected", {x}, {{"num_hidden", "8"}});
///
/// The innermost scope wins, and an attribute that is given explicitly wins over all scopes. A
/// scope ends before those around it, on the thread that began it.
class AttrScope {
 public:
  AttrScope(std::string key, std::string value);
  explicit AttrScope(const std::map<std::string, std::string>& attributes);
  ~AttrScope();
  AttrScope(const AttrScope&) = delete;
  AttrScope& operator=(const AttrScope&) = delete;

  /// Returns the attributes of the thread's scopes; none outside of scopes.
  static const std::map<std::string, std::string>& Current();

 private:
  std::map<std::string, std::string> attributes_;  // with those of the scopes around it
  const AttrScope* outer_;
};

/// A scope in which the thread's operators without a name are numbered from 0, as with MXNet's
/// NameManager: "activation0", "activation1". Each thread has one manager outside of all scopes. A
/// scope ends before those around it, on the thread that began it.
class NameManager {
 public:
  NameManager() : NameManager(std::string()) {}
  ~NameManager();
  NameManager(const NameManager&) = delete;
  NameManager& operator=(const NameManager&) = delete;

  /// Returns the name of an operator: `name`, or `hint` with a number if `name` is empty, behind
  /// the scope's prefix.
  std::string Get(std::string_view name, std::string_view hint);

  /// Returns the thread's innermost manager.
  static NameManager& Current();

 protected:
  explicit NameManager(std::string prefix);

 private:
  const std::string prefix_;
  NameManager* const outer_;
  std::unordered_map<std::string, int> counts_;  // of each hint
};

/// A NameManager that puts a prefix before the names of operators, given or not, and before those
/// of the variables that they make. Variables that the user makes keep their names. A prefix
/// replaces that of the scopes around it, as in MXNet:
///
///     const NamePrefix prefix("stage1_");  // stage1_fullyconnected0, stage1_fc
class NamePrefix final : public NameManager {
 public:
  explicit NamePrefix(std::string prefix) : NameManager(std::move(prefix)) {}
};

}  // namespace tessera

#endif  // TESSERA_SYMBOL_SCOPE_H_
