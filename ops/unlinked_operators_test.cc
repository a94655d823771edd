// Tests of the errors that a program gets which links the registry, but no family of operators.
#include <gtest/gtest.h>

#include <string>
#include <string_view>

#include "tessera/base/error.h"
#include "tessera/ops/registry.h"

namespace tessera {
namespace {

/// Returns the error of creating an operator.
std::string Refusal(std::string_view name) {
  try {
    OperatorRegistry::Get().Create(name, {});
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Error::kNotFound);
    return error.what();
  }
  return "found";
}

TEST(UnlinkedOperatorsTest, TheErrorNamesTheTargetToAdd) {
  EXPECT_TRUE(OperatorRegistry::Get().ListNames().empty());
  EXPECT_EQ(Refusal("Convolution"),
            "operator \"Convolution\" is not linked into this program; add "
            "@tessera//:operators_nn to its deps");
  EXPECT_EQ(Refusal("_contrib_box_nms"),
            "operator \"_contrib_box_nms\" is not linked into this program; add "
            "@tessera//:operators_vision to its deps");
  EXPECT_EQ(Refusal("sum"),
            "operator \"sum\" is not linked into this program; add @tessera//:operators_core to "
            "its deps");
}

TEST(UnlinkedOperatorsTest, TheErrorNamesTheTargetOfAnAliasToo) {
  EXPECT_EQ(Refusal("_Plus"),
            "operator \"_Plus\" is not linked into this program; add @tessera//:operators_core to "
            "its deps");
  EXPECT_EQ(Refusal("Softmax"),
            "operator \"Softmax\" is not linked into this program; add @tessera//:operators_loss "
            "to its deps");
}

TEST(UnlinkedOperatorsTest, AnOperatorThatNoFamilyHasIsNotImplemented) {
  EXPECT_EQ(Refusal("Custom"), "operator \"Custom\" of MXNet is not implemented");
}

TEST(UnlinkedOperatorsTest, AnUnknownNameIsAnsweredWithTheNearestOfAllFamilies) {
  EXPECT_EQ(Refusal("Convolutoin"),
            "unknown operator \"Convolutoin\"; did you mean \"Convolution\"?");
  EXPECT_EQ(Refusal("_Minu"), "unknown operator \"_Minu\"; did you mean \"_Minus\"?");
  EXPECT_EQ(Refusal("NothingOfTheKind"),
            "unknown operator \"NothingOfTheKind\"; expected the name of a registered operator");
}

}  // namespace
}  // namespace tessera
