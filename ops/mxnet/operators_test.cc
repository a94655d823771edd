#include "tessera/ops/mxnet/operators.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace tessera {
namespace {

TEST(MxnetOperatorsTest, AllNamesOfTheLastReleaseAreKnown) {
  const auto all = MxnetOperators();
  EXPECT_EQ(all.size(), 1167u);
  EXPECT_TRUE(std::is_sorted(all.begin(), all.end(),
                             [](const auto& a, const auto& b) { return a.name < b.name; }));
  for (const MxnetOperator& op : all) {
    EXPECT_EQ(FindMxnetOperator(op.name), &op) << op.name;
    EXPECT_NE(FindMxnetOperator(op.canonical_name), nullptr) << op.name;
    for (const MxnetOperator::Argument& argument : op.arguments) {
      EXPECT_FALSE(argument.name.empty()) << op.name;
      EXPECT_FALSE(argument.type.empty()) << op.name;
    }
  }
  EXPECT_EQ(FindMxnetOperator("no_such_operator"), nullptr);
}

TEST(MxnetOperatorsTest, ArgumentsHaveNamesAndTypes) {
  const MxnetOperator* const op = FindMxnetOperator("LeakyReLU");
  ASSERT_NE(op, nullptr);
  ASSERT_EQ(op->arguments.size(), 6u);
  EXPECT_EQ(op->arguments[1].name, "gamma");
  EXPECT_TRUE(op->arguments[1].is_input());
  EXPECT_EQ(op->arguments[3].name, "slope");
  EXPECT_EQ(op->arguments[3].type, "float, optional, default=0.25");
  EXPECT_EQ(FindMxnetOperator("_Plus")->canonical_name, "elemwise_add");
  EXPECT_EQ(FindMxnetOperator("Concat")->key_var_num_args, "num_args");
}

}  // namespace
}  // namespace tessera
