#include "tessera/compat/mxnet/core/operators.h"

#include <algorithm>
#include <map>
#include <memory>
#include <set>
#include <utility>

#include "tessera/base/error.h"
#include "tessera/compat/mxnet/core/handle_table.h"
#include "tessera/graph/attributes.h"
#include "tessera/graph/make_loop.h"
#include "tessera/ops/mxnet/operators.h"
#include "tessera/ops/registry.h"

namespace tessera::mxnet {
namespace {

ApiOperator Describe(const std::string& name) {
  ApiOperator op;
  op.name = name;
  const OperatorEntry* const entry = OperatorRegistry::Get().Find(name);
  op.description = entry != nullptr                 ? entry->description
                   : graph::NumLoopGraphs(name) > 0 ? "Runs graphs, which are its first inputs."
                                                    : "Not implemented: a call is an error.";
  op.takes_parameters = graph::TakesParameters(name);
  op.quirks = QuirksOf(entry == nullptr ? name : entry->name);
  std::map<std::string, std::string> descriptions;
  if (entry != nullptr) {
    for (const ParameterInfo& info : entry->describe_parameters()) {
      descriptions[info.name] = info.description;
    }
  }
  const auto add = [&](std::string argument, std::string type) {
    op.argument_descriptions.push_back(descriptions[argument]);
    op.argument_names.push_back(std::move(argument));
    op.argument_types.push_back(std::move(type));
  };
  if (const MxnetOperator* const known = FindMxnetOperator(name)) {
    op.key_var_num_args = known->key_var_num_args;
    for (const MxnetOperator::Argument& argument : known->arguments) {
      add(std::string(argument.name), std::string(argument.type));
    }
    return op;
  }
  op.key_var_num_args = entry->key_var_num_args;
  try {
    const auto property = OperatorRegistry::Get().Create(name, {});
    for (const std::string& argument : property->ListArguments()) {
      add(argument, "NDArray-or-Symbol");
    }
  } catch (const Error&) {
    // The parameters, of which some are required, decide about the inputs.
  }
  for (const ParameterInfo& info : entry->describe_parameters()) {
    add(info.name,
        info.type + (info.required ? ", required" : ", optional, default=" + info.default_value));
  }
  return op;
}

/// The operators of the process, by handle.
class OperatorList {
 public:
  /// Returns the list, which is made at first use and never destroyed.
  static OperatorList& Get() {
    static auto* const list = new OperatorList;
    return *list;
  }

  const std::vector<std::string>& names() const { return names_; }
  const std::vector<std::string>& unique_names() const { return unique_names_; }
  const std::vector<void*>& unique_handles() const { return unique_handles_; }
  const ApiOperator& OperatorOf(const void* handle) const { return *operators_.Get(handle); }
  void* HandleOf(const std::string& name) const {
    const auto found = std::lower_bound(names_.begin(), names_.end(), name);
    if (found == names_.end() || *found != name) return nullptr;
    return handles_[static_cast<size_t>(found - names_.begin())];
  }

 private:
  OperatorList() {
    std::set<std::string> names;
    for (const MxnetOperator& op : MxnetOperators()) names.emplace(op.name);
    for (const std::string& name : OperatorRegistry::Get().ListNames()) names.insert(name);
    names_.assign(names.begin(), names.end());
    for (const std::string& name : names_) {
      handles_.push_back(operators_.Add(Describe(name)));
      const MxnetOperator* const known = FindMxnetOperator(name);
      if (known != nullptr && known->canonical_name != name) continue;
      unique_names_.push_back(name);
      unique_handles_.push_back(handles_.back());
    }
  }

  std::vector<std::string> names_;
  std::vector<void*> handles_;
  std::vector<std::string> unique_names_;
  std::vector<void*> unique_handles_;
  Handles<ApiOperator> operators_{"an operator", 2};
};

}  // namespace

const std::vector<std::string>& OperatorNames() { return OperatorList::Get().names(); }
const std::vector<std::string>& UniqueOperatorNames() { return OperatorList::Get().unique_names(); }
const std::vector<void*>& UniqueOperatorHandles() { return OperatorList::Get().unique_handles(); }
const ApiOperator& OperatorOf(const void* creator) {
  return OperatorList::Get().OperatorOf(creator);
}
void* OperatorHandleOf(const std::string& name) { return OperatorList::Get().HandleOf(name); }

}  // namespace tessera::mxnet
