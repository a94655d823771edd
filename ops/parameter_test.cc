#include "tessera/ops/parameter.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "tessera/base/error.h"

namespace tessera {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

enum class Colour { kRed, kGreen };

struct Everything {
  int64_t large = int64_t{1} << 40;
  int count = 3;
  double real = 0.1;
  double share = 0.5;
  float single = 0.1f;
  bool flag = true;
  std::string text = "plain";
  TShape window;
  std::optional<int> maybe;
  std::optional<int64_t> limited;
  Colour colour = Colour::kGreen;
  int needed = 0;

  static void Declare(ParameterSchema<Everything>& schema) {
    using P = Everything;
    schema.Optional("large", &P::large, "a 64-bit number");
    schema.Optional("count", &P::count, "a number from 1 to 10");
    schema.Range(1, 10);
    schema.Optional("real", &P::real, "a double");
    schema.Optional("share", &P::share, "a double from 0 to 1");
    schema.Range(0, 1);
    schema.Optional("single", &P::single, "a float");
    schema.Optional("flag", &P::flag, "yes or no");
    schema.Optional("text", &P::text, "anything");
    schema.Optional("window", &P::window, "a shape");
    schema.Optional("maybe", &P::maybe, "a number or None");
    schema.Optional("limited", &P::limited, "a number from 0 to 10 or None");
    schema.Range(0, 10);
    schema.Choice("colour", &P::colour, {{"red", Colour::kRed}, {"green", Colour::kGreen}},
                  "one of two");
    schema.Required("needed", &P::needed, "always given");
  }
};

Everything Parse(ParameterMap values) {
  values.emplace("needed", "1");
  return ParameterSchema<Everything>::Get().Parse("Test", values);
}

/// The message with which `values` are refused; the code must be kInvalidArgument.
std::string Refusal(const ParameterMap& values) {
  try {
    ParameterSchema<Everything>::Get().Parse("Test", values);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Error::kInvalidArgument);
    return error.what();
  }
  return "accepted";
}
std::string Refusal(const std::string& name, const std::string& text) {
  return Refusal({{"needed", "1"}, {name, text}});
}

TEST(ParameterTest, WhatIsNotGivenHasItsDefault) {
  const Everything p = Parse({});
  EXPECT_EQ(p.large, int64_t{1} << 40);
  EXPECT_EQ(p.count, 3);
  EXPECT_EQ(p.real, 0.1);
  EXPECT_TRUE(p.flag);
  EXPECT_EQ(p.text, "plain");
  EXPECT_FALSE(p.window.rank_known());
  EXPECT_EQ(p.maybe, std::nullopt);
  EXPECT_EQ(p.colour, Colour::kGreen);
}

TEST(ParameterTest, EveryTypeIsReadFromText) {
  const Everything p = Parse({{"large", "-9007199254740993"},
                              {"count", " 7 "},
                              {"real", "1e-300"},
                              {"single", "-2.5"},
                              {"flag", "False"},
                              {"text", "two words"},
                              {"window", "(3, 4)"},
                              {"maybe", "8"},
                              {"colour", "red"}});
  EXPECT_EQ(p.large, -9007199254740993);
  EXPECT_EQ(p.count, 7);
  EXPECT_EQ(p.real, 1e-300);
  EXPECT_EQ(p.single, -2.5f);
  EXPECT_FALSE(p.flag);
  EXPECT_EQ(p.text, "two words");
  EXPECT_EQ(p.window, (TShape{3, 4}));
  EXPECT_EQ(p.maybe, 8);
  EXPECT_EQ(p.colour, Colour::kRed);
}

TEST(ParameterTest, BooleansAreReadAsPythonAndCWriteThem) {
  for (const char* yes : {"True", "true", "TRUE", "1"}) EXPECT_TRUE(Parse({{"flag", yes}}).flag);
  for (const char* no : {"False", "false", "0"}) EXPECT_FALSE(Parse({{"flag", no}}).flag);
  EXPECT_EQ(Parse({{"count", "True"}}).count, 1);
}

TEST(ParameterTest, OptionalValuesAreNoneInText) {
  EXPECT_EQ(Parse({{"maybe", "None"}}).maybe, std::nullopt);
  EXPECT_EQ(ParameterSchema<Everything>::Get().Print(Parse({})).at("maybe"), "None");
}

TEST(ParameterTest, PrintedParametersReadBackAsTheSame) {
  const auto& schema = ParameterSchema<Everything>::Get();
  for (const char* number : {"0.1", "1e-45", "3.4028234663852886e+38", "1.7976931348623157e+308",
                             "-0", "inf", "-inf", "0.3333333333"}) {
    const Everything p = Parse({{"real", number}, {"single", "0.1"}, {"window", "(1,None)"}});
    const ParameterMap text = schema.Print(p);
    const Everything again = schema.Parse("Test", text);
    EXPECT_EQ(again.real, p.real) << number;
    EXPECT_EQ(again.single, p.single);
    EXPECT_EQ(again.window, p.window);
    EXPECT_EQ(schema.Print(again), text);
  }
  // The shortest text, so that saved graphs stay readable.
  EXPECT_EQ(schema.Print(Parse({})).at("real"), "0.1");
  EXPECT_EQ(schema.Print(Parse({})).at("single"), "0.1");
}

TEST(ParameterTest, RefusalsNameOwnerParameterTextAndWhatIsExpected) {
  EXPECT_THAT(Refusal("count", "many"), AllOf(HasSubstr("Test: "), HasSubstr("parameter count"),
                                              HasSubstr("\"many\""), HasSubstr("integer")));
  EXPECT_THAT(Refusal("count", "2.5"), HasSubstr("\"2.5\" is not an integer"));
  EXPECT_THAT(Refusal("count", ""), HasSubstr("not an integer"));
  EXPECT_THAT(Refusal(ParameterMap{{"needed", "4294967297"}}), HasSubstr("32 bits"));
  EXPECT_THAT(Refusal("large", "9223372036854775808"), HasSubstr("9223372036854775808"));
  EXPECT_THAT(Refusal("real", "1.0x"), HasSubstr("\"1.0x\""));
  EXPECT_THAT(Refusal("flag", "yes"), HasSubstr("expected True, False, 1 or 0"));
  EXPECT_THAT(Refusal("window", "(3,"), HasSubstr("(3,"));
  EXPECT_THAT(Refusal("maybe", "perhaps"), HasSubstr("perhaps"));
  EXPECT_THAT(Refusal("colour", "blue"), HasSubstr("\"blue\" is not one of {red, green}"));
}

TEST(ParameterTest, InfinityAndNanAreNumbersWhereThereIsNoRange) {
  for (const char* text : {"nan", "NaN", "-nan", " nan "}) {
    const Everything p = Parse({{"real", text}, {"single", text}});
    EXPECT_TRUE(std::isnan(p.real)) << text;
    EXPECT_TRUE(std::isnan(p.single)) << text;
    EXPECT_EQ(ParameterSchema<Everything>::Get().Print(p).at("real"), "nan");
    EXPECT_THAT(Refusal("share", text), HasSubstr("is out of range")) << text;
  }
  for (const char* text : {"inf", "INF", "+inf", "Infinity"}) {
    EXPECT_EQ(Parse({{"real", text}}).real, std::numeric_limits<double>::infinity()) << text;
    EXPECT_EQ(Parse({{"single", text}}).single, std::numeric_limits<float>::infinity()) << text;
    EXPECT_THAT(Refusal("share", text), HasSubstr("is out of range")) << text;
  }
  EXPECT_EQ(Parse({{"real", "-inf"}}).real, -std::numeric_limits<double>::infinity());
}

TEST(ParameterTest, NumbersTooLargeForTheirTypeAreOutOfRange) {
  EXPECT_THAT(Refusal("real", "1e400"), HasSubstr("\"1e400\" is out of range"));
  EXPECT_THAT(Refusal("real", "-1e400"), HasSubstr("\"-1e400\" is out of range"));
  EXPECT_THAT(Refusal("single", "1e39"), HasSubstr("\"1e39\" is out of range"));
  EXPECT_EQ(Parse({{"real", "1e-400"}}).real, 0);
  EXPECT_EQ(Parse({{"real", "1e39"}}).real, 1e39);
}

TEST(ParameterTest, RefusalsQuoteLongTextsInPart) {
  const std::string large(1000000, '9');
  for (const char* name : {"large", "real", "flag", "window", "maybe", "colour"}) {
    EXPECT_LT(Refusal(ParameterMap{{"needed", "1"}, {name, large + "x"}}).size(), 1000u) << name;
  }
  EXPECT_LT(Refusal("real", large).size(), 1000u);
  EXPECT_LT(Refusal("count", "1" + std::string(1000000, ' ') + "1").size(), 1000u);
  EXPECT_LT(Refusal(large, "1").size(), 1000u);
}

TEST(ParameterTest, TuplesAreReadInEveryFormThatGraphsHave) {
  using Ints = std::vector<int64_t>;
  using Text = ops_internal::ParameterText<Ints>;
  EXPECT_EQ(Text::Parse("(2, -3)"), (Ints{2, -3}));
  EXPECT_EQ(Text::Parse("[2L,]"), Ints{2});
  EXPECT_EQ(Text::Parse("-4"), Ints{-4});
  EXPECT_EQ(Text::Parse("()"), Ints{});
  EXPECT_EQ(Text::Print({2, -3}), "(2,-3)");
  EXPECT_EQ(Text::Print({2}), "(2,)");
  for (const char* const wrong : {"(2", "", "(2,,3)", "(None,)", "(2.5,)", "[2)"}) {
    EXPECT_THROW(Text::Parse(wrong), Error) << wrong;
  }
  using Optional = std::vector<std::optional<int64_t>>;
  using OptionalText = ops_internal::ParameterText<Optional>;
  EXPECT_EQ(OptionalText::Parse("(None, 3)"), (Optional{std::nullopt, 3}));
  EXPECT_EQ(OptionalText::Print({std::nullopt, 3}), "(None,3)");
}

TEST(ParameterTest, TuplesOfNumbersAreReadInEveryFormThatGraphsHave) {
  using Floats = std::vector<float>;
  using Text = ops_internal::ParameterText<Floats>;
  EXPECT_EQ(Text::Parse("(0.1, -2e-3)"), (Floats{0.1f, -2e-3f}));
  EXPECT_EQ(Text::Parse("[1,]"), Floats{1});
  EXPECT_EQ(Text::Parse(" 0.5 "), Floats{0.5f});
  EXPECT_EQ(Text::Parse("()"), Floats{});
  EXPECT_EQ(Text::Print({0.1f, -2}), "(0.1,-2)");
  EXPECT_EQ(Text::Print({0.5f}), "(0.5,)");
  for (const char* const wrong : {"(2", "", "(2,,3)", "(None,)", "(1e39,)", "[2)", "(0.1x,)"}) {
    EXPECT_THROW(Text::Parse(wrong), Error) << wrong;
  }
}

TEST(ParameterTest, RangesAreClosedIntervals) {
  EXPECT_EQ(Parse({{"count", "1"}}).count, 1);
  EXPECT_EQ(Parse({{"count", "10"}}).count, 10);
  EXPECT_THAT(Refusal("count", "0"),
              HasSubstr("\"0\" is out of range; expected a value in [1, 10]"));
  EXPECT_THAT(Refusal("count", "11"), HasSubstr("out of range"));
}

TEST(ParameterTest, ARangeLimitsNumbersAndNotNone) {
  EXPECT_EQ(Parse({{"limited", "None"}}).limited, std::nullopt);
  EXPECT_EQ(Parse({{"limited", "10"}}).limited, 10);
  EXPECT_THAT(Refusal("limited", "11"), HasSubstr("\"11\" is out of range"));
  const auto& schema = ParameterSchema<Everything>::Get();
  for (const ParameterInfo& info : schema.Describe()) {
    if (info.required) continue;
    EXPECT_NO_THROW(Parse({{info.name, info.default_value}})) << info.name;
  }
}

struct TooSmall {
  float size = 0;
  static void Declare(ParameterSchema<TooSmall>& schema) {
    schema.Optional("size", &TooSmall::size, "a size");
    schema.Range(1);
  }
};
struct NoNumber {
  TShape window;
  static void Declare(ParameterSchema<NoNumber>& schema) {
    schema.Optional("window", &NoNumber::window, "a shape");
    schema.Range(1);
  }
};

TEST(ParameterTest, ARangeThatItsOwnDefaultBreaksIsRefusedAtTheDeclaration) {
  const auto refusal = [](const auto& declare) -> std::string {
    try {
      declare();
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Error::kInternal);
      return error.what();
    }
    return "declared";
  };
  EXPECT_THAT(refusal([] { ParameterSchema<TooSmall>::Get(); }),
              AllOf(HasSubstr("size"), HasSubstr("default 0"), HasSubstr("[1, inf]")));
  EXPECT_THAT(refusal([] { ParameterSchema<NoNumber>::Get(); }), HasSubstr("window"));
}

TEST(ParameterTest, AnUnknownNameIsAnsweredWithTheNearest) {
  EXPECT_THAT(Refusal("colur", "red"),
              HasSubstr("unknown parameter \"colur\"; did you mean \"colour\"?"));
  EXPECT_THAT(Refusal("entirely_different", "1"),
              AllOf(HasSubstr("unknown parameter \"entirely_different\"; expected one of "),
                    HasSubstr("limited"), HasSubstr(" and 2 more")));
}

TEST(ParameterTest, AMissingRequiredParameterIsNamed) {
  EXPECT_THAT(Refusal(ParameterMap{}), HasSubstr("required parameter \"needed\" (int) is missing"));
}

TEST(ParameterTest, TheDescriptionKnowsTypesAndDefaults) {
  std::vector<std::string> lines;
  for (const ParameterInfo& info : ParameterSchema<Everything>::Get().Describe()) {
    lines.push_back(info.name + ": " + info.type +
                    (info.required ? "!" : "=" + info.default_value));
    EXPECT_FALSE(info.description.empty());
  }
  EXPECT_THAT(lines,
              ElementsAre("large: int=1099511627776", "count: int=3", "real: float=0.1",
                          "share: float=0.5", "single: float=0.1", "flag: boolean=True",
                          "text: string=plain", "window: shape=()", "maybe: int=None",
                          "limited: int=None", "colour: {red, green}=green", "needed: int!"));
}

TEST(NearestNameTest, FindsSmallSlipsAndNothingElse) {
  const std::vector<std::string> names = {"FullyConnected", "Flatten", "Pooling"};
  EXPECT_EQ(NearestName("fullyconnected", names), "FullyConnected");
  EXPECT_EQ(NearestName("FullConnected", names), "FullyConnected");
  EXPECT_EQ(NearestName("Poling", names), "Pooling");
  EXPECT_EQ(NearestName("Convolution", names), "");
  EXPECT_EQ(NearestName("", {}), "");
}

TEST(NearestNameTest, ReadsTheFirst64Characters) {
  const std::string prefix(64, 'a');
  EXPECT_EQ(NearestName(prefix + std::string(1000000, 'x'), {"b", prefix + "yyy"}), prefix + "yyy");
  // Edit distances of the whole names would take minutes.
  const std::vector<std::string> names(20000, std::string(1000, 'b'));
  EXPECT_EQ(NearestName(std::string(10000, 'a'), names), "");
}

TEST(NearestNameTest, FindsTheFirstOfTheNearest) {
  EXPECT_EQ(NearestName("weight", {"weigth", "weights", "height", "eight"}), "weights");
  EXPECT_EQ(NearestName("abcdef", {"abcxyz", "abcdxy"}), "abcdxy");
  EXPECT_EQ(NearestName("abcdef", {"abcxyz", "xyzabc"}), "");
}

TEST(ParameterTest, NumbersKeepIntegersOf64Bits) {
  using Text = ops_internal::ParameterText<Number>;
  for (const char* const text :
       {"9007199254740993", "-9007199254740993", "9223372036854775807", "-9223372036854775807",
        "18446744073709551615", "300", "0.1", "inf", "-0", "nan"}) {
    const Number number = Text::Parse(text);
    const Number again = Text::Parse(Text::Print(number));
    EXPECT_EQ(again.IsInt64(), number.IsInt64()) << text;
    EXPECT_EQ(again.BitsIn(DType::kUint64), number.BitsIn(DType::kUint64)) << text;
    EXPECT_EQ(Text::Print(again), Text::Print(number)) << text;
  }
  EXPECT_EQ(Text::Parse(" 9007199254740993").As<int64_t>(), (int64_t{1} << 53) + 1);
  EXPECT_EQ(Text::Print(int64_t{9007199254740993}), "9007199254740993");
  EXPECT_EQ(Text::Print(0.5), "0.5");
  EXPECT_TRUE(std::signbit(Text::Parse("-0").value()));
  EXPECT_THROW(Text::Parse("1e400"), Error);
  EXPECT_THROW(Text::Parse("one"), Error);
}

}  // namespace
}  // namespace tessera
