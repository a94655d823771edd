#ifndef TESSERA_OPS_REGISTRY_H_
#define TESSERA_OPS_REGISTRY_H_

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/base/error.h"
#include "tessera/ops/operator_entry.h"
#include "tessera/ops/property.h"

namespace tessera {

/// All operators of the process, by name. They register themselves before main. Threads: after that
/// the registry is only read, from any thread.
class OperatorRegistry {
 public:
  /// Returns the process's registry.
  static OperatorRegistry& Get();

  /// Returns the property of the operator with that name or alias, with its parameters set. Throws
  /// UnknownOperator's error, and what Init throws.
  std::unique_ptr<OperatorProperty> Create(std::string_view name,
                                           const ParameterMap& parameters) const;

  /// Returns the entry with that name or alias, or null.
  const OperatorEntry* Find(std::string_view name) const;

  /// Returns the error to throw for a name that Find does not know: Error(kNotFound) with the
  /// nearest known name. For an operator of MXNet, the error states instead that it is not
  /// implemented.
  Error UnknownOperator(std::string_view name) const;

  /// Returns every name, without aliases, in alphabetical order.
  std::vector<std::string> ListNames() const;

  /// Returns the entry with that name, which is created if it does not exist. Only registrations
  /// call it.
  OperatorEntry& FindOrAdd(std::string_view name);
  void AddAlias(OperatorEntry& entry, std::string_view alias);

 private:
  OperatorRegistry();
  ~OperatorRegistry();
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace tessera

#endif  // TESSERA_OPS_REGISTRY_H_
