#include "tessera/symbol/scope.h"

#include "absl/strings/str_cat.h"
#include "tessera/base/error.h"
#include "tessera/graph/node.h"

namespace tessera {
namespace {

thread_local const AttrScope* attr_scope = nullptr;
thread_local NameManager* name_manager = nullptr;

}  // namespace

AttrScope::AttrScope(const std::map<std::string, std::string>& attributes)
    : attributes_(Current()), outer_(attr_scope) {
  // Both spellings of an attribute are one, so that the inner one replaces the outer one.
  const graph::Node variable;
  for (const auto& [key, value] : attributes) {
    attributes_[std::string(AttributeName(variable, key))] = value;
  }
  attr_scope = this;
}

AttrScope::AttrScope(std::string key, std::string value)
    : AttrScope(std::map<std::string, std::string>{{std::move(key), std::move(value)}}) {}

AttrScope::~AttrScope() {
  TESSERA_DCHECK(attr_scope == this);
  attr_scope = outer_;
}

const std::map<std::string, std::string>& AttrScope::Current() {
  static const auto* const none = new std::map<std::string, std::string>();
  return attr_scope == nullptr ? *none : attr_scope->attributes_;
}

NameManager::NameManager(std::string prefix) : prefix_(std::move(prefix)), outer_(name_manager) {
  name_manager = this;
}

NameManager::~NameManager() {
  TESSERA_DCHECK(name_manager == this);
  name_manager = outer_;
}

std::string NameManager::Get(std::string_view name, std::string_view hint) {
  if (!name.empty()) return prefix_ + std::string(name);
  const std::string base(hint);
  return absl::StrCat(prefix_, base, counts_[base]++);
}

NameManager& NameManager::Current() {
  if (name_manager == nullptr) {
    // Registers itself as the thread's outermost manager.
    static thread_local NameManager outermost;
  }
  return *name_manager;
}

}  // namespace tessera
