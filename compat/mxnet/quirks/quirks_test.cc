#include "tessera/compat/mxnet/quirks/quirks.h"

#include <set>
#include <string>

#include "gtest/gtest.h"
#include "tessera/ops/mxnet/operators.h"
#include "tessera/ops/registry.h"

namespace tessera::mxnet {
namespace {

TEST(QuirksTest, EachHasOneRowWithAReason) {
  std::set<Quirk> seen;
  for (const QuirkRow& row : QuirkTable()) {
    EXPECT_TRUE(seen.insert(row.quirk).second) << row.why;
    EXPECT_TRUE(row.why.ends_with('.')) << row.why;
    EXPECT_FALSE(row.names.empty()) << row.why;
  }
}

TEST(QuirksTest, RowsNameOperatorsOfMxnetAsTheyAreRegistered) {
  for (const QuirkRow& row : QuirkTable()) {
    std::set<std::string_view> names;
    for (const std::string_view name : row.names) {
      EXPECT_TRUE(names.insert(name).second) << name << " stands twice";
      EXPECT_NE(FindMxnetOperator(name), nullptr) << name;
      const OperatorEntry* const entry = OperatorRegistry::Get().Find(name);
      if (row.quirk == Quirk::kShapeByValues || row.quirk == Quirk::kImageCall) {
        EXPECT_EQ(entry, nullptr) << name;
      } else {
        ASSERT_NE(entry, nullptr) << name;
        EXPECT_EQ(entry->name, name);
      }
    }
  }
}

TEST(QuirksTest, AnOperatorHasItsOwn) {
  EXPECT_TRUE(QuirksOf("max").Has(Quirk::kNeedsElements));
  EXPECT_FALSE(QuirksOf("max").Has(Quirk::kIndexError));
  EXPECT_TRUE(QuirksOf("gather_nd").Has(Quirk::kIndexError));
  EXPECT_FALSE(QuirksOf("take").Has(Quirk::kIndexError));
  EXPECT_FALSE(QuirksOf("").Has(Quirk::kFailsAtWait));
  EXPECT_TRUE(QuirksOf("_random_normal").Has(Quirk::kFailsAtWait));
  EXPECT_FALSE(QuirksOf("_random_pdf_normal").Has(Quirk::kFailsAtWait));
}

}  // namespace
}  // namespace tessera::mxnet
