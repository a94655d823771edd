#include "tessera/ops/mxnet/families.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>
#include <string_view>

#include "tessera/ops/mxnet/operators.h"
#include "tessera/ops/registry.h"

namespace tessera {
namespace {

/// Returns the family of a registration's place, "ops/vision/boxes/box_code.cc:198" for "vision".
std::string FamilyOfPlace(std::string_view place) {
  constexpr std::string_view kFolder = "ops/";
  const size_t begin = place.find(kFolder);
  if (begin == place.npos) return "";
  place.remove_prefix(begin + kFolder.size());
  const std::string folder(place.substr(0, place.find('/')));
  const std::set<std::string> core = {"adjoint", "elemwise", "index", "reduce", "shape"};
  return core.contains(folder) ? "core" : folder;
}

TEST(OperatorFamiliesTest, TheTableHasTheFamilyOfEachRegisteredNameAndAlias) {
  const auto& registry = OperatorRegistry::Get();
  for (const std::string& name : registry.ListNames()) {
    const OperatorEntry* const entry = registry.Find(name);
    ASSERT_NE(entry, nullptr) << name;
    const std::string family = FamilyOfPlace(entry->place);
    EXPECT_NE(family, "") << entry->place;
    EXPECT_EQ(FamilyOfOperator(name), family)
        << name << " of " << entry->place
        << "; ops/mxnet/families.awk finds a name that is a literal in a statement that begins "
           "with "
           "TESSERA_REGISTER_OPERATOR or TESSERA_TABLE_PLACE and ends at its first semicolon";
    for (const std::string& alias : entry->aliases) {
      EXPECT_EQ(FamilyOfOperator(alias), family) << alias << " of " << entry->place;
    }
  }
}

TEST(OperatorFamiliesTest, TheTableHasEachNameOnceAndNoOtherNames) {
  const auto members = FamilyMembers();
  EXPECT_FALSE(members.empty());
  EXPECT_TRUE(std::is_sorted(members.begin(), members.end(),
                             [](const auto& a, const auto& b) { return a.name < b.name; }));
  EXPECT_EQ(std::adjacent_find(members.begin(), members.end(),
                               [](const auto& a, const auto& b) { return a.name == b.name; }),
            members.end());
  for (const FamilyMember& member : members) {
    EXPECT_NE(OperatorRegistry::Get().Find(member.name), nullptr)
        << member.name << " of " << member.family;
  }
}

TEST(OperatorFamiliesTest, MxnetsNamesHaveTheFamilyOfTheirOperator) {
  for (const MxnetOperator& op : MxnetOperators()) {
    const OperatorEntry* const entry = OperatorRegistry::Get().Find(op.name);
    EXPECT_EQ(FamilyOfOperator(op.name), entry == nullptr ? "" : FamilyOfPlace(entry->place))
        << op.name;
  }
  EXPECT_EQ(FamilyOfOperator("_Plus"), "core");
  EXPECT_EQ(FamilyOfOperator("Softmax"), "loss");
  EXPECT_EQ(FamilyOfOperator("no_such_operator"), "");
}

}  // namespace
}  // namespace tessera
