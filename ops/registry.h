#ifndef TESSERA_OPS_REGISTRY_H_
#define TESSERA_OPS_REGISTRY_H_

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/base/error.h"
#include "tessera/ops/operator_entry.h"
#include "tessera/ops/property.h"

namespace tessera {

/// A statement that registers an operator with an implementation.
struct OperatorRegistration {
  std::string_view name;  ///< the operator's name
  const char* file;       ///< __FILE__ of the statement, a literal of its library
  int line;               ///< __LINE__; file and line tell the statement from others
  /// Null in the device's compilation of the statement, whose implementation alone is added.
  std::function<std::unique_ptr<OperatorProperty>()> create_property = nullptr;
  std::function<std::vector<ParameterInfo>()> describe_parameters = nullptr;
  OperatorImplementation implementation = {};
};

/// All operators of the process, by name. They register themselves before main, or when a library
/// that holds them is loaded. Threads: every member may be called from any thread.
///
/// A name or alias that two operators register stands for neither: each use of it throws
/// Error(kFailedPrecondition) with the places of both. Which of them came first would depend on the
/// order of linking.
class OperatorRegistry {
 public:
  /// Returns the process's registry.
  static OperatorRegistry& Get();

  /// Returns the property of the operator with that name or alias, with its parameters set. Throws
  /// UnknownOperator's error, that of a name of two operators, and what Init throws.
  std::unique_ptr<OperatorProperty> Create(std::string_view name,
                                           const ParameterMap& parameters) const;

  /// Returns what Create returns, shared with other calls: the properties of recent calls are
  /// kept, so that their parameters are parsed once. Throws what Create throws.
  std::shared_ptr<const OperatorProperty> FindOrCreate(std::string_view name,
                                                       const ParameterMap& parameters) const;

  /// Returns the entry with that name or alias, or null. Throws for a name of two operators.
  const OperatorEntry* Find(std::string_view name) const;

  /// Returns the error to throw for a name that Find does not know: Error(kNotFound). If a family
  /// that the program does not link has the operator, the error names the target to add. For
  /// another operator of MXNet, it states that the operator is not implemented. Otherwise it has
  /// the nearest name of an operator.
  Error UnknownOperator(std::string_view name) const;

  /// Returns every name, without aliases, in alphabetical order.
  std::vector<std::string> ListNames() const;

  /// Adds what the statement registers, whose library then stays loaded. The host's and the
  /// device's compilation of one statement make one operator. A second copy of a statement, in
  /// another library, adds nothing. Returns the entry, or null if the name is another statement's.
  OperatorEntry* Register(OperatorRegistration registration);

  /// Adds an implementation to the operator with that name or alias, which may be registered before
  /// or after it. Calls that are prepared from then on may use the implementation. `file` and
  /// `line` are __FILE__ and __LINE__ of the statement, whose library then stays loaded. A second
  /// copy of the statement, in another library, adds nothing. Returns true, for a statement at
  /// namespace scope.
  bool AddImplementation(std::string_view op, OperatorImplementation implementation,
                         const char* file, int line);

  /// Makes `alias` a further name of the entry.
  void AddAlias(OperatorEntry& entry, std::string_view alias);

 private:
  OperatorRegistry();
  ~OperatorRegistry();
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace tessera

#endif  // TESSERA_OPS_REGISTRY_H_
