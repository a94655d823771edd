#include "tessera/ops/registry.h"

#include <dlfcn.h>
#include <link.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <shared_mutex>
#include <tuple>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "tessera/base/error.h"
#include "tessera/base/quote.h"
#include "tessera/ops/mxnet/families.h"
#include "tessera/ops/mxnet/operators.h"

namespace tessera {
namespace {

/// Keeps the library that holds the address loaded until the process ends, even if it is closed:
/// the registry has functions of it. Does nothing for the program itself.
void KeepLoaded(const void* address) {
  struct Search {
    uintptr_t address;
    std::string library;
  } search{reinterpret_cast<uintptr_t>(address), ""};
  dl_iterate_phdr(
      [](dl_phdr_info* info, size_t, void* data) {
        auto* const wanted = static_cast<Search*>(data);
        for (int i = 0; i < info->dlpi_phnum; ++i) {
          const auto& segment = info->dlpi_phdr[i];
          const uintptr_t begin = info->dlpi_addr + segment.p_vaddr;
          if (segment.p_type != PT_LOAD || wanted->address < begin ||
              wanted->address - begin >= segment.p_memsz) {
            continue;
          }
          wanted->library = info->dlpi_name;
          return 1;
        }
        return 0;
      },
      &search);
  if (!search.library.empty()) {
    dlopen(search.library.c_str(), RTLD_NOW | RTLD_NOLOAD | RTLD_NODELETE);
  }
}

}  // namespace

struct OperatorRegistry::Impl {
  /// The operator of a name or alias.
  struct Meaning {
    OperatorEntry* entry;
    std::string rival;  // the other operator that has registered it, and where; empty without one
  };

  static std::string PlaceOf(const char* file, int line) {
    return std::string(file) + ":" + std::to_string(line);
  }

  static std::string Describe(std::string_view operator_name, std::string_view place) {
    return "\"" + std::string(operator_name) + "\" at " + std::string(place);
  }

  /// Counts the registrations, after which a name may mean something else.
  std::atomic<uint64_t> changes{0};
  std::shared_mutex mutex;  // libraries may be loaded in any thread
  std::map<std::string, std::unique_ptr<OperatorEntry>, std::less<>> entries ABSL_GUARDED_BY(mutex);
  std::map<std::string, Meaning, std::less<>> names ABSL_GUARDED_BY(mutex);
  /// Implementations of operators that are not registered yet, by name or alias.
  std::multimap<std::string, OperatorImplementation, std::less<>> waiting ABSL_GUARDED_BY(mutex);

  /// Adds an implementation in the order of the choice, which does not depend on the order of the
  /// registrations. Does nothing for a second copy of a statement.
  static void Add(OperatorEntry& entry, OperatorImplementation added) {
    const auto order = [](const auto& a, const auto& b) {
      if (a->rank != b->rank) return a->rank > b->rank;
      return std::tie(a->name, a->place) < std::tie(b->name, b->place);
    };
    const auto made = std::make_shared<const OperatorImplementation>(std::move(added));
    entry.implementations.With([&](auto& all) {
      for (const auto& other : all) {
        if (std::tie(other->device, other->name, other->place) ==
            std::tie(made->device, made->name, made->place)) {
          return;
        }
      }
      all.insert(std::upper_bound(all.begin(), all.end(), made, order), made);
    });
  }

  /// Gives an entry with a new name the implementations that wait for it. Requires: mutex is held.
  void AddWaiting(std::string_view name, OperatorEntry& entry) {
    const auto [begin, end] = waiting.equal_range(name);
    for (auto it = begin; it != end; ++it) Add(entry, std::move(it->second));
    waiting.erase(begin, end);
  }

  /// A property that a recent call used.
  struct Recent {
    std::mutex mutex;
    uint64_t changes ABSL_GUARDED_BY(mutex) = 0;
    std::string name ABSL_GUARDED_BY(mutex);
    ParameterMap parameters ABSL_GUARDED_BY(mutex);
    std::shared_ptr<const OperatorProperty> property ABSL_GUARDED_BY(mutex);
  };
  /// By hash, one each: parameters that change with every call replace one another.
  std::array<Recent, 256> recent;
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

std::shared_ptr<const OperatorProperty> OperatorRegistry::FindOrCreate(
    std::string_view name, const ParameterMap& parameters) const {
  const std::hash<std::string_view> hash_of;
  size_t hash = hash_of(name);
  for (const auto& [key, text] : parameters) hash = hash * 31 + hash_of(key) * 7 + hash_of(text);
  Impl::Recent& recent = impl_->recent[hash % impl_->recent.size()];
  const uint64_t changes = impl_->changes.load(std::memory_order_acquire);
  {
    const std::lock_guard<std::mutex> lock(recent.mutex);
    if (recent.property != nullptr && recent.changes == changes && recent.name == name &&
        recent.parameters == parameters) {
      return recent.property;
    }
  }
  std::shared_ptr<const OperatorProperty> made = Create(name, parameters);
  // The calls of such an operator may differ by more than the parameters.
  if (made->purity() == Purity::kSynchronous) return made;
  std::shared_ptr<const OperatorProperty> replaced;  // destroyed after the lock
  const std::lock_guard<std::mutex> lock(recent.mutex);
  recent.changes = changes;
  recent.name = name;
  recent.parameters = parameters;
  replaced = std::exchange(recent.property, made);
  return made;
}

Error OperatorRegistry::UnknownOperator(std::string_view name) const {
  if (const std::string_view family = FamilyOfOperator(name); !family.empty()) {
    return NotFound("operator \"", name,
                    "\" is not linked into this program; add @tessera//:operators_", family,
                    " to its deps");
  }
  if (FindMxnetOperator(name) != nullptr) {
    return NotFound("operator \"", name, "\" of MXNet is not implemented");
  }
  std::vector<std::string> known;
  for (const FamilyMember& member : FamilyMembers()) known.emplace_back(member.name);
  {
    const std::shared_lock<std::shared_mutex> lock(impl_->mutex);
    for (const auto& [known_name, meaning] : impl_->names) known.push_back(known_name);
    for (const MxnetOperator& op : MxnetOperators()) {
      if (impl_->names.contains(op.canonical_name) || !FamilyOfOperator(op.name).empty()) {
        known.emplace_back(op.name);
      }
    }
  }
  const std::string nearest = NearestName(name, known);
  return NotFound("unknown operator \"", Excerpt(name), "\"",
                  nearest.empty() ? "; expected the name of a registered operator"
                                  : "; did you mean \"" + nearest + "\"?");
}

const OperatorEntry* OperatorRegistry::Find(std::string_view name) const {
  const std::shared_lock<std::shared_mutex> lock(impl_->mutex);
  auto found = impl_->names.find(name);
  if (found == impl_->names.end()) {
    // Every name that MXNet gives an operator finds it.
    const MxnetOperator* const known = FindMxnetOperator(name);
    if (known == nullptr) return nullptr;
    found = impl_->names.find(known->canonical_name);
    if (found == impl_->names.end()) return nullptr;
  }
  const auto& [entry, rival] = found->second;
  if (!rival.empty()) {
    throw FailedPrecondition("operator name \"", name, "\" is registered twice: by ",
                             Impl::Describe(entry->name, entry->place), " and by ", rival,
                             "; expected one operator of that name in the process");
  }
  return entry->create_property ? entry : nullptr;
}

std::vector<std::string> OperatorRegistry::ListNames() const {
  const std::shared_lock<std::shared_mutex> lock(impl_->mutex);
  std::vector<std::string> names;
  for (const auto& [name, entry] : impl_->entries) names.push_back(name);
  return names;
}

OperatorEntry* OperatorRegistry::Register(OperatorRegistration registration) {
  KeepLoaded(registration.file);  // a literal, which lies beside the functions
  const std::string place = Impl::PlaceOf(registration.file, registration.line);
  const std::unique_lock<std::shared_mutex> lock(impl_->mutex);
  impl_->changes.fetch_add(1, std::memory_order_release);
  const auto found = impl_->names.find(registration.name);
  OperatorEntry* entry = nullptr;
  if (found == impl_->names.end()) {
    auto made = std::make_unique<OperatorEntry>();
    made->name = registration.name;
    made->place = place;
    entry = made.get();
    impl_->entries.emplace(made->name, std::move(made));
    impl_->names.emplace(entry->name, Impl::Meaning{entry, ""});
    impl_->AddWaiting(entry->name, *entry);
  } else if (found->second.entry->name == registration.name &&
             found->second.entry->place == place) {
    entry = found->second.entry;
  } else {
    if (found->second.rival.empty()) {
      found->second.rival = Impl::Describe(registration.name, place);
    }
    return nullptr;
  }
  if (!entry->create_property) {
    entry->create_property = std::move(registration.create_property);
    entry->describe_parameters = std::move(registration.describe_parameters);
  }
  registration.implementation.place = place;
  Impl::Add(*entry, std::move(registration.implementation));
  return entry;
}

bool OperatorRegistry::AddImplementation(std::string_view op, OperatorImplementation implementation,
                                         const char* file, int line) {
  KeepLoaded(file);
  implementation.place = Impl::PlaceOf(file, line);
  const std::unique_lock<std::shared_mutex> lock(impl_->mutex);
  const auto found = impl_->names.find(op);
  if (found == impl_->names.end()) {
    impl_->waiting.emplace(op, std::move(implementation));
  } else {
    Impl::Add(*found->second.entry, std::move(implementation));
  }
  return true;
}

void OperatorRegistry::AddAlias(OperatorEntry& entry, std::string_view alias) {
  const std::unique_lock<std::shared_mutex> lock(impl_->mutex);
  impl_->changes.fetch_add(1, std::memory_order_release);
  const auto [found, added] =
      impl_->names.try_emplace(std::string(alias), Impl::Meaning{&entry, ""});
  if (added) {
    entry.aliases.emplace_back(alias);
    impl_->AddWaiting(alias, entry);
  }
  // The host's and the device's compilations of a statement add the same aliases.
  Impl::Meaning& meaning = found->second;
  if (meaning.entry != &entry && meaning.rival.empty()) {
    meaning.rival = Impl::Describe(entry.name, entry.place);
  }
}

}  // namespace tessera
