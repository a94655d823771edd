#include "tessera/ops/registry.h"

#include <map>

#include "tessera/base/error.h"
#include "tessera/base/quote.h"
#include "tessera/ops/mxnet/operators.h"

namespace tessera {

struct OperatorRegistry::Impl {
  std::map<std::string, std::unique_ptr<OperatorEntry>, std::less<>> entries;
  std::map<std::string, OperatorEntry*, std::less<>> aliases;
};

OperatorRegistry::OperatorRegistry() : impl_(std::make_unique<Impl>()) {}
OperatorRegistry::~OperatorRegistry() = default;

OperatorRegistry& OperatorRegistry::Get() {
  // Never destroyed, because operators may be looked up while other static objects are destroyed.
  static OperatorRegistry* const registry = new OperatorRegistry();
  return *registry;
}

std::unique_ptr<OperatorProperty> OperatorRegistry::Create(std::string_view name,
                                                           const ParameterMap& parameters) const {
  const OperatorEntry* entry = Find(name);
  if (entry == nullptr) throw UnknownOperator(name);
  std::unique_ptr<OperatorProperty> property = entry->create_property();
  property->entry_ = entry;
  property->Init(parameters);
  return property;
}

Error OperatorRegistry::UnknownOperator(std::string_view name) const {
  if (FindMxnetOperator(name) != nullptr) {
    return NotFound("operator \"", name, "\" of MXNet is not implemented");
  }
  std::vector<std::string> known = ListNames();
  for (const auto& [alias, target] : impl_->aliases) known.push_back(alias);
  for (const MxnetOperator& op : MxnetOperators()) {
    if (Find(op.name) != nullptr) known.emplace_back(op.name);
  }
  const std::string nearest = NearestName(name, known);
  return NotFound("unknown operator \"", Excerpt(name), "\"",
                  nearest.empty() ? "; expected the name of a registered operator"
                                  : "; did you mean \"" + nearest + "\"?");
}

const OperatorEntry* OperatorRegistry::Find(std::string_view name) const {
  if (const auto found = impl_->entries.find(name); found != impl_->entries.end()) {
    return found->second->create_property ? found->second.get() : nullptr;
  }
  if (const auto found = impl_->aliases.find(name); found != impl_->aliases.end()) {
    return found->second;
  }
  // Every name that MXNet gives an operator finds it.
  const MxnetOperator* const known = FindMxnetOperator(name);
  if (known == nullptr || known->canonical_name == name) return nullptr;
  const auto found = impl_->entries.find(known->canonical_name);
  if (found == impl_->entries.end() || !found->second->create_property) return nullptr;
  return found->second.get();
}

std::vector<std::string> OperatorRegistry::ListNames() const {
  std::vector<std::string> names;
  for (const auto& [name, entry] : impl_->entries) names.push_back(name);
  return names;
}

OperatorEntry& OperatorRegistry::FindOrAdd(std::string_view name) {
  auto found = impl_->entries.find(name);
  if (found == impl_->entries.end()) {
    found = impl_->entries.emplace(std::string(name), std::make_unique<OperatorEntry>()).first;
    found->second->name = name;
  }
  return *found->second;
}

void OperatorRegistry::AddAlias(OperatorEntry& entry, std::string_view alias) {
  // The host's and the device's compilations of a file register the same aliases.
  if (impl_->aliases.emplace(std::string(alias), &entry).second) entry.aliases.emplace_back(alias);
}

}  // namespace tessera
