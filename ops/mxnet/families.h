#ifndef TESSERA_OPS_MXNET_FAMILIES_H_
#define TESSERA_OPS_MXNET_FAMILIES_H_

#include <span>
#include <string_view>

// The families of Tessera's operators, whether or not the program links them. The table is read
// from the operators' sources when the library is built. Threads: all functions may be called from
// any thread.
namespace tessera {

/// A name under which a family registers an operator.
struct FamilyMember {
  std::string_view name;    ///< a name or an alias
  std::string_view family;  ///< the target @tessera//:operators_FAMILY has it: "core", "nn", …
};

/// Returns the names that all families register, in the order of their bytes.
std::span<const FamilyMember> FamilyMembers();

/// Returns the family of the operator with that name, alias or name in MXNet, or an empty text if
/// no family has it.
std::string_view FamilyOfOperator(std::string_view name);

}  // namespace tessera

#endif  // TESSERA_OPS_MXNET_FAMILIES_H_
