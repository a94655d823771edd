#include "tessera/tools/op_functions/operator_form.h"

#include <algorithm>
#include <map>
#include <memory>
#include <set>
#include <tuple>

#include "tessera/base/error.h"
#include "tessera/ops/registry.h"
#include "tessera/tools/op_functions/cpp_text.h"

namespace tessera::op_functions {
namespace {

/// Prefixes that become namespaces, as they become modules in MXNet's Python.
constexpr std::string_view kSpaces[] = {"contrib", "image", "linalg", "random", "sparse"};

/// Names of the functions' own arguments.
constexpr std::string_view kTaken[] = {"parameters", "out", "name"};

void SetNames(const std::string& registered, OperatorForm* form) {
  form->registered = registered;
  std::string_view rest = registered;
  if (rest.starts_with('_')) {
    rest.remove_prefix(1);
    for (const std::string_view space : kSpaces) {
      if (!rest.starts_with(std::string(space) + "_")) continue;
      form->space = space;
      rest.remove_prefix(space.size() + 1);
      break;
    }
  }
  form->function = Identifier(std::string(rest));
}

/// Adds the names that `known` lacks, each behind its predecessor in `names`.
void Merge(const std::vector<std::string>& names, std::vector<std::string>* known) {
  auto place = known->begin();
  for (const std::string& name : names) {
    const auto found = std::find(known->begin(), known->end(), name);
    place = (found != known->end() ? found : known->insert(place, name)) + 1;
  }
}

void SetInputs(const std::vector<std::shared_ptr<const OperatorProperty>>& properties,
               OperatorForm* form) {
  std::vector<std::vector<std::string>> lists;
  std::set<std::string> changed;
  for (const auto& property : properties) {
    lists.push_back(property->ListArguments());
    for (const int i : property->MutatedInputs()) {
      changed.insert(lists.back()[static_cast<size_t>(i)]);
    }
  }
  // The longest list has the best order.
  std::vector<std::string> all = *std::max_element(
      lists.begin(), lists.end(), [](const auto& a, const auto& b) { return a.size() < b.size(); });
  for (const auto& names : lists) Merge(names, &all);
  for (const std::string& name : all) {
    InputForm input;
    input.argument = name;
    input.variable = Identifier(name);
    if (std::find(std::begin(kTaken), std::end(kTaken), name) != std::end(kTaken)) {
      input.variable += "_input";
    }
    input.is_changed = changed.contains(name);
    input.is_optional = std::any_of(lists.begin(), lists.end(), [&name](const auto& names) {
      return std::find(names.begin(), names.end(), name) == names.end();
    });
    form->inputs.push_back(input);
  }
}

void SetOutputs(const Probe& probe, OperatorForm* form) {
  for (const auto& property : probe.properties()) {
    std::vector<std::string> names = property->ListOutputs();
    names.resize(static_cast<size_t>(property->NumVisibleOutputs()));
    if (names.size() != 1) form->has_one_output = false;
    if (!form->outputs.empty() && names != form->outputs) form->has_fixed_outputs = false;
    if (names.size() > form->outputs.size()) form->outputs = names;
  }
}

OperatorForm MakeOperatorForm(const std::string& name) {
  const OperatorEntry& entry = *OperatorRegistry::Get().Find(name);
  OperatorForm form;
  SetNames(name, &form);
  form.description = Sentence(entry.description);
  const Probe probe(entry);
  form.count_parameter = probe.count_parameter();
  if (form.TakesVector()) {
    SetInputs({probe.single()}, &form);
  } else {
    SetInputs(probe.properties(), &form);
  }
  SetOutputs(probe, &form);
  const std::string owner = CamelCase(form.function);
  for (const bool required : {true, false}) {
    for (const ParameterInfo& info : entry.describe_parameters()) {
      if (info.required != required || info.name == form.count_parameter) continue;
      form.parameters.push_back(MakeParameterForm(info, probe, owner));
    }
  }
  if (!form.parameters.empty()) form.structure = owner + "Parameters";
  return form;
}

/// Throws if two declarations of one namespace have one name.
void CheckNames(const std::vector<OperatorForm>& forms) {
  std::map<std::pair<std::string, std::string>, std::string> owners;
  for (const std::string_view space : kSpaces) owners[{"", std::string(space)}] = "a namespace";
  for (const OperatorForm& form : forms) {
    std::vector<std::string> names = {form.function};
    if (!form.structure.empty()) names.push_back(form.structure);
    for (const ParameterForm& parameter : form.parameters) {
      if (!parameter.enumeration.empty()) names.push_back(parameter.enumeration);
    }
    for (const std::string& name : names) {
      const auto [found, added] = owners.try_emplace({form.space, name}, form.registered);
      if (!added) {
        throw Internal("operator ", form.registered, " and ", found->second,
                       " would both declare tessera::ops::", form.space.empty() ? "" : form.space,
                       form.space.empty() ? "" : "::", name);
      }
    }
  }
}

}  // namespace

bool OperatorForm::NeedsParameters() const {
  return std::any_of(parameters.begin(), parameters.end(),
                     [](const ParameterForm& parameter) { return parameter.info.required; });
}

std::vector<OperatorForm> ReadRegistry() {
  std::vector<OperatorForm> forms;
  for (const std::string& name : OperatorRegistry::Get().ListNames()) {
    // The gradient of another operator, which is one of its parameters: graphs alone call it.
    if (name == "_adjoint") continue;
    forms.push_back(MakeOperatorForm(name));
  }
  std::sort(forms.begin(), forms.end(), [](const OperatorForm& a, const OperatorForm& b) {
    return std::tie(a.space, a.function) < std::tie(b.space, b.function);
  });
  CheckNames(forms);
  return forms;
}

}  // namespace tessera::op_functions
