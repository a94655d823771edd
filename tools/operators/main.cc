// Prints what the registry of operators holds: see docs/settings.md for the flags.
#include <iostream>
#include <string>

#include "CLI/CLI.hpp"
#include "tessera/base/device.h"
#include "tessera/base/error.h"
#include "tessera/ops/mxnet/operators.h"
#include "tessera/ops/registry.h"

namespace tessera {
namespace {

void List() {
  for (const std::string& name : OperatorRegistry::Get().ListNames()) {
    std::cout << name << "\t" << OperatorRegistry::Get().Find(name)->description << "\n";
  }
}

void Describe(const std::string& name) {
  const OperatorEntry* const entry = OperatorRegistry::Get().Find(name);
  if (entry == nullptr) throw OperatorRegistry::Get().UnknownOperator(name);
  std::cout << entry->name << ": " << entry->description << "\n";
  for (const ParameterInfo& info : entry->describe_parameters()) {
    std::cout << "  " << info.name << ": " << info.type
              << (info.required ? ", required" : ", default " + info.default_value) << ". "
              << info.description << "\n";
  }
  std::cout << "implementations, in the order of the choice:\n";
  for (const auto& implementation : entry->implementations.Get()) {
    std::cout << "  " << implementation->name << " for "
              << (implementation->device == DeviceType::kCpu ? "cpu" : "gpu") << ", rank "
              << implementation->rank << ", " << implementation->place << "\n";
  }
}

/// Prints the names of MXNet whose operators are not registered, one for each operator.
void ListMissing() {
  for (const MxnetOperator& op : MxnetOperators()) {
    if (op.canonical_name != op.name) continue;
    if (OperatorRegistry::Get().Find(op.name) == nullptr) std::cout << op.name << "\n";
  }
}

int Main(int argc, char** argv) {
  CLI::App app("Prints the registered operators.", "operators");
  bool list = false, missing = false;
  std::string describe;
  app.add_flag("--list", list, "print each registered operator and what it does");
  app.add_flag("--missing", missing, "print the operators of MXNet 1.9.1 that are not registered");
  app.add_option("--describe", describe,
                 "print parameters and implementations of the operator of that name");
  app.require_option(1);
  CLI11_PARSE(app, argc, argv);
  try {
    if (list) List();
    if (missing) ListMissing();
    if (!describe.empty()) Describe(describe);
  } catch (const Error& error) {
    std::cerr << "operators: " << error.what() << "\n";
    return 1;
  }
  return 0;
}

}  // namespace
}  // namespace tessera

int main(int argc, char** argv) { return tessera::Main(argc, argv); }
