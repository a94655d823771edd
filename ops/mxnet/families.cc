#include "tessera/ops/mxnet/families.h"

#include <algorithm>
#include <vector>

#include "tessera/ops/mxnet/operators.h"

namespace tessera {
namespace {

/// Lines of a name and its family, separated by a tab.
constexpr std::string_view kTable =
#include "tessera/ops/mxnet/families.inc"
    ;

std::vector<FamilyMember> Parse() {
  std::vector<FamilyMember> members;
  for (std::string_view rest = kTable; !rest.empty();) {
    const size_t tab = rest.find('\t'), end = rest.find('\n');
    members.push_back({rest.substr(0, tab), rest.substr(tab + 1, end - tab - 1)});
    rest.remove_prefix(end + 1);
  }
  return members;
}

/// Returns the family that registers the name, or an empty text.
std::string_view RegisteredBy(std::string_view name) {
  const std::span<const FamilyMember> all = FamilyMembers();
  const auto found = std::lower_bound(
      all.begin(), all.end(), name,
      [](const FamilyMember& member, std::string_view wanted) { return member.name < wanted; });
  return found != all.end() && found->name == name ? found->family : std::string_view();
}

}  // namespace

std::span<const FamilyMember> FamilyMembers() {
  static const auto* const members = new std::vector<FamilyMember>(Parse());
  return *members;
}

std::string_view FamilyOfOperator(std::string_view name) {
  const std::string_view family = RegisteredBy(name);
  if (!family.empty()) return family;
  const MxnetOperator* const known = FindMxnetOperator(name);
  return known == nullptr ? std::string_view() : RegisteredBy(known->canonical_name);
}

}  // namespace tessera
