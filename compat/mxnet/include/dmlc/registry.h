#ifndef DMLC_REGISTRY_H_
#define DMLC_REGISTRY_H_

// Lists of named entries that programs make of their own factories.

#include <memory>
#include <mutex>
#include <string>
#include <type_traits>
#include <vector>

#include "dmlc/base.h"
#include "dmlc/logging.h"
#include "dmlc/parameter.h"

namespace dmlc {

/// The entries of one type, by name. EntryType has a member `std::string name`. An entry is never
/// removed. Threads: every member may be called from any thread.
template <typename EntryType>
class Registry {
 public:
  /// Returns the program's entries of the type.
  static Registry* Get() {
    static auto* const registry = new Registry;  // statements of other files may outlive main
    return registry;
  }

  /// Returns the entry of that name or alias, or null.
  static const EntryType* Find(const std::string& name) { return Get()->FindEntry(name); }
  /// Returns the entries, in the order of their registration.
  static std::vector<const EntryType*> List() {
    Registry& self = *Get();
    const std::lock_guard lock(self.mutex_);
    std::vector<const EntryType*> entries;
    for (const Named& named : self.names_) {
      if (!named.is_alias) entries.push_back(named.entry);
    }
    return entries;
  }
  /// Returns the names, aliases included, in the order of their registration.
  static std::vector<std::string> ListAllNames() {
    Registry& self = *Get();
    const std::lock_guard lock(self.mutex_);
    std::vector<std::string> names;
    for (const Named& named : self.names_) names.push_back(named.name);
    return names;
  }

  /// Adds an entry. Throws Error(kInvalidArgument) if there is one of that name.
  EntryType& __REGISTER__(const std::string& name) {
    CHECK(FindEntry(name) == nullptr) << "\"" << name << "\" is registered twice";
    return Add(name);
  }
  /// Returns the entry of that name, which is added if there is none.
  EntryType& __REGISTER_OR_FIND__(const std::string& name) {
    EntryType* const found = FindEntry(name);
    return found != nullptr ? *found : Add(name);
  }
  /// Makes `alias` a further name of an entry. Throws Error(kInvalidArgument) if there is no entry
  /// of that name, or if the alias is the name of another one.
  void AddAlias(const std::string& name, const std::string& alias) {
    EntryType* const entry = FindEntry(name);
    CHECK(entry != nullptr) << "alias \"" << alias << "\": there is no \"" << name << "\"";
    EntryType* const known = FindEntry(alias);
    CHECK(known == nullptr || known == entry) << "\"" << alias << "\" is registered twice";
    if (known != nullptr) return;
    const std::lock_guard lock(mutex_);
    names_.push_back({alias, entry, true});
  }

 private:
  struct Named {
    std::string name;
    EntryType* entry;
    bool is_alias;
  };

  EntryType* FindEntry(const std::string& name) {
    const std::lock_guard lock(mutex_);
    for (const Named& named : names_) {
      if (named.name == name) return named.entry;
    }
    return nullptr;
  }
  EntryType& Add(const std::string& name) {
    const std::lock_guard lock(mutex_);
    entries_.push_back(std::make_unique<EntryType>());
    EntryType& entry = *entries_.back();
    entry.name = name;
    names_.push_back({name, &entry, false});
    return entry;
  }

  std::mutex mutex_;
  std::vector<std::unique_ptr<EntryType>> entries_;
  std::vector<Named> names_;
};

/// The base of an entry that holds a function and its documentation.
template <typename EntryType, typename FunctionType>
class FunctionRegEntryBase {
 public:
  std::string name;                       ///< the registered name
  std::string description;                ///< what the function does
  std::vector<ParamFieldInfo> arguments;  ///< what it takes
  FunctionType body;                      ///< the function
  std::string return_type;                ///< what it returns

  EntryType& set_body(FunctionType function) {
    body = function;
    return self();
  }
  EntryType& describe(const std::string& text) {
    description = text;
    return self();
  }
  EntryType& add_argument(const std::string& argument, const std::string& type,
                          const std::string& text) {
    arguments.push_back({argument, type, type, text});
    return self();
  }
  EntryType& add_arguments(const std::vector<ParamFieldInfo>& more) {
    arguments.insert(arguments.end(), more.begin(), more.end());
    return self();
  }
  EntryType& set_return_type(const std::string& type) {
    return_type = type;
    return self();
  }

 protected:
  /// Returns the entry itself, for the next call of a chain.
  EntryType& self() { return *static_cast<EntryType*>(this); }
};

}  // namespace dmlc

/// States that programs register entries of the type.
#define DMLC_REGISTRY_ENABLE(EntryType) \
  static_assert(::std::is_class_v<EntryType>, "an entry of a registry is a class")

/// Registers an entry at namespace scope.
#define DMLC_REGISTRY_REGISTER(EntryType, EntryTypeName, Name)       \
  [[maybe_unused]] static EntryType& make_##EntryTypeName##_##Name = \
      ::dmlc::Registry<EntryType>::Get()->__REGISTER__(#Name)

/// Name a file of registrations, and require it. Bazel's `alwayslink` keeps such files here.
#define DMLC_REGISTRY_FILE_TAG(Tag) \
  int dmlc_registry_file_tag_##Tag() { return 0; }
#define DMLC_REGISTRY_LINK_TAG(Tag)   \
  int dmlc_registry_file_tag_##Tag(); \
  [[maybe_unused]] static int dmlc_registry_link_tag_##Tag = dmlc_registry_file_tag_##Tag()

#endif  // DMLC_REGISTRY_H_
