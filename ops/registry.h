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

/// All operators of the process, by name. They register themselves before main; afterwards the
/// registry is only read, from any thread.
class OperatorRegistry {
 public:
  /// The process's registry.
  static OperatorRegistry& Get();

  /// The property of the operator with that name or alias, with its parameters set.
  /// Throws UnknownOperator's error, and what Init throws.
  std::unique_ptr<OperatorProperty> Create(std::string_view name,
                                           const ParameterMap& parameters) const;

  /// The entry with that name or alias, or null.
  const OperatorEntry* Find(std::string_view name) const;

  /// What to throw for a name that Find does not know: Error(kNotFound) with the nearest known
  /// name, unless it is an operator of MXNet, which is then said not to be implemented.
  Error UnknownOperator(std::string_view name) const;

  /// Every name, without aliases, in alphabetical order.
  std::vector<std::string> ListNames() const;

  /// For registrations: the entry with that name, made if it is not there.
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
