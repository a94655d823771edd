// Operators without parameters ignore those that they are given, and their nodes keep them.
#include <cstdint>
#include <map>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "mxnet/c_api.h"
#include "tessera/compat/mxnet/testing/client.h"

namespace tessera::mxnet {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsSupersetOf;
using ::testing::Pair;

/// Returns an attribute, or "none".
std::string AttributeOf(SymbolHandle symbol, const char* key) {
  const char* value = nullptr;
  int success = 0;
  Check(MXSymbolGetAttr(symbol, key, &value, &success));
  return success == 0 ? "none" : value;
}

/// Returns the attributes of the symbol's node.
std::map<std::string, std::string> AttributesOf(SymbolHandle symbol) {
  uint32_t size = 0;
  const char** texts = nullptr;
  Check(MXSymbolListAttrShallow(symbol, &size, &texts));
  std::map<std::string, std::string> attributes;
  for (uint32_t i = 0; i < size; ++i) attributes[texts[2 * i]] = texts[2 * i + 1];
  return attributes;
}

void ExpectKept(SymbolHandle symbol) {
  EXPECT_EQ(AttributeOf(symbol, "mine"), "m");
  EXPECT_EQ(AttributeOf(symbol, "shape"), "(7,)");
  EXPECT_EQ(AttributeOf(symbol, "__note__"), "n");
  EXPECT_THAT(AttributesOf(symbol),
              IsSupersetOf({Pair("mine", "m"), Pair("shape", "(7,)"), Pair("__note__", "n")}));
}

TEST(IgnoredParametersTest, TheyStayAttributes) {
  const Owned x = MakeVariable("x");
  const Owned relu = Apply("relu", "relu", {x.get()},
                           {{"mine", "m"}, {"shape", "(7,)"}, {"__note__", "n"}, {"lr_mult", "2"}});
  ExpectKept(relu.get());
  const char* json = nullptr;
  Check(MXSymbolSaveToJSON(relu.get(), &json));
  EXPECT_THAT(json, HasSubstr("\"mine\": \"m\""));
  SymbolHandle handle = nullptr;
  Check(MXSymbolCreateFromJSON(json, &handle));
  const Owned loaded(handle, MXSymbolFree);
  ExpectKept(loaded.get());
  Check(MXSymbolSetAttr(loaded.get(), "mine", "changed"));
  EXPECT_EQ(AttributeOf(loaded.get(), "mine"), "changed");
}

TEST(IgnoredParametersTest, AnAtomicSymbolOfTheNodeHasThem) {
  const Owned x = MakeVariable("x"), y = MakeVariable("y");
  const Owned relu = Apply("relu", "relu", {x.get()}, {{"mine", "m"}});
  SymbolHandle handle = nullptr;
  Check(MXGenAtomicSymbolFromSymbol(relu.get(), &handle));
  const Owned atomic(handle, MXSymbolFree);
  const char* key = "data";
  SymbolHandle input = y.get();
  Check(MXSymbolCompose(atomic.get(), "second", 1, &key, &input));
  EXPECT_EQ(AttributeOf(atomic.get(), "mine"), "m");
}

TEST(IgnoredParametersTest, VariablesOfMissingInputsAndCallsDoNotHaveThem) {
  const Owned relu = Apply("relu", "relu", {}, {{"shape", "(7,)"}, {"dtype", "none"}});
  SymbolHandle* inputs = nullptr;
  int count = 0;
  Check(MXSymbolGetInputSymbols(relu.get(), &inputs, &count));
  ASSERT_EQ(count, 1);
  const Owned variable(inputs[0], MXSymbolFree);
  EXPECT_EQ(AttributeOf(variable.get(), "__shape__"), "none");
  EXPECT_EQ(AttributeOf(variable.get(), "__dtype__"), "none");
  const Owned array = MakeArray({-1, 2}, {2});
  EXPECT_THAT(ValuesOf(Call("relu", {array.get()}, {{"mine", "m"}})[0].get()), ElementsAre(0, 2));
}

}  // namespace
}  // namespace tessera::mxnet
