#include "tessera/graph/json/json_value.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tessera/base/error.h"

namespace tessera::graph {
namespace {

using testing::HasSubstr;

bool Accepts(std::string_view text) {
  try {
    JsonValue::Parse("test", text);
    return true;
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Error::kDataLoss);
    return false;
  }
}

/// Expects the same values from another library.
void ExpectEqual(JsonValue value, const nlohmann::ordered_json& expected) {
  EXPECT_EQ(value.is_null(), expected.is_null());
  ASSERT_EQ(value.is_string(), expected.is_string());
  ASSERT_EQ(value.is_array(), expected.is_array());
  ASSERT_EQ(value.is_object(), expected.is_object());
  if (value.is_string()) {
    EXPECT_EQ(value.string(), expected.get<std::string>());
  }
  if (value.integer()) {
    EXPECT_EQ(*value.integer(), expected.get<int64_t>());
  }
  if (expected.is_number_integer() && !expected.is_number_unsigned()) {
    EXPECT_TRUE(value.integer().has_value()) << value.text();
  }
  if (value.is_array()) {
    ASSERT_EQ(value.size(), static_cast<int64_t>(expected.size()));
    size_t i = 0;
    for (JsonWalker child(value); child.Next(); ++i) ExpectEqual(child.value(), expected[i]);
  }
  if (value.is_object()) {
    nlohmann::ordered_json keys;  // the last of equal keys counts
    for (JsonWalker child(value); child.Next();) {
      keys[child.key()] = nlohmann::ordered_json::parse(child.value().text());
    }
    if (value.size() > 0) {
      EXPECT_EQ(keys, expected);
    }
  }
}

const std::vector<std::string>& Texts() {
  static const std::vector<std::string> texts = {
      R"({"nodes": [{"op": "null", "name": "x", "inputs": []}], "heads": [[0, 0, 0]], "a": null})",
      R"( [ 1 , -2, 0, -0, 3.5, 1e5, -1.25E-3, 1E+2, true, false, null, "", {}, [ ] ] )",
      R"(["\"\\\/\b\f\n\r\t", "\u0041\u00e9\u2026\ud83d\ude00\u0000", "é…😀", "]}[{,:"])",
      R"({"a": 1, "b": {"a": "x", "a": "y"}, "": [[[]]], "a": 2})",
      "9223372036854775807",
      "-9223372036854775808",
      "9223372036854775808",
      "\"text\"",
      " null\n",
      "\xef\xbb\xbf[1]"};
  return texts;
}

TEST(JsonValueTest, ReadsWhatAnotherLibraryReads) {
  for (const std::string& text : Texts()) {
    SCOPED_TRACE(text);
    ExpectEqual(JsonValue::Parse("test", text), nlohmann::ordered_json::parse(text));
  }
}

TEST(JsonValueTest, RefusesWhatAnotherLibraryRefuses) {
  for (const std::string text : {"",
                                 " ",
                                 "nul",
                                 "nulll",
                                 "tru",
                                 "01",
                                 "-",
                                 "1.",
                                 ".5",
                                 "1e",
                                 "1e+",
                                 "+1",
                                 "0x1",
                                 "1 2",
                                 "[1,]",
                                 "[,1]",
                                 "[1 2]",
                                 "[",
                                 "]",
                                 "{",
                                 "{\"a\"}",
                                 "{\"a\":}",
                                 "{a: 1}",
                                 "{\"a\": 1,}",
                                 "{1: 1}",
                                 "\"",
                                 "\"\\\"",
                                 "\"\\x\"",
                                 "\"\\u12\"",
                                 "\"\\ud800\"",
                                 "\"\\udc00\"",
                                 "\"\\ud800\\u0041\"",
                                 "\"\n\"",
                                 "\"\x01\"",
                                 "\"\x80\"",
                                 "\"\xc0\xaf\"",
                                 "\"\xe0\x80\x80\"",
                                 "\"\xed\xa0\x80\"",
                                 "\"\xf5\x80\x80\x80\"",
                                 "\"\xf4\x90\x80\x80\"",
                                 "\"\xc3",
                                 "'a'",
                                 "[1}",
                                 "NaN",
                                 "// a\n1"}) {
    EXPECT_FALSE(nlohmann::json::accept(text)) << text;
    EXPECT_FALSE(Accepts(text)) << text;
  }
  EXPECT_FALSE(Accepts(std::string_view("1\0", 2)));
  EXPECT_FALSE(Accepts(std::string_view("\"\0\"", 3)));
}

/// Returns whether there is an `e` with three digits after it.
bool HasLargeExponent(const std::string& text) {
  for (size_t at = text.find_first_of("eE"); at != text.npos;
       at = text.find_first_of("eE", at + 1)) {
    const size_t digits = text.find_first_not_of("+", at + 1);
    if (text.find_first_not_of("0123456789", digits) - digits >= 3) return true;
  }
  return false;
}

TEST(JsonValueTest, JudgesDamagedTextsAsAnotherLibrary) {
  const char* const given = std::getenv("TESSERA_TEST_SEED");
  const uint64_t seed = given == nullptr ? 1 : std::strtoull(given, nullptr, 10);
  SCOPED_TRACE("TESSERA_TEST_SEED=" + std::to_string(seed));
  std::mt19937_64 random(seed);
  constexpr std::string_view kBytes = "{}[]\",:\\u0123456789.eE+-truefalsn \n\xc3\xa9\xf0\x80";
  int accepted = 0;
  for (int round = 0; round < 20000; ++round) {
    std::string text = Texts()[random() % Texts().size()];
    for (uint64_t n = 1 + random() % 3; n > 0 && !text.empty(); --n) {
      const size_t at = random() % text.size();
      if (random() % 2 == 0) text.erase(at, 1 + random() % 2);
      if (random() % 2 == 0) text.insert(at, 1, kBytes[random() % kBytes.size()]);
    }
    if (HasLargeExponent(text)) continue;  // the other library refuses numbers beyond double
    // An exact copy, past whose end AddressSanitizer sees.
    const std::vector<char> copy(text.begin(), text.end());
    const bool accepts = Accepts(std::string_view(copy.data(), copy.size()));
    ASSERT_EQ(accepts, nlohmann::json::accept(text)) << text;
    if (!accepts) continue;
    ++accepted;
    ExpectEqual(JsonValue::Parse("test", text), nlohmann::ordered_json::parse(text));
    ASSERT_FALSE(HasFailure()) << text;
  }
  EXPECT_GT(accepted, 1000);
}

TEST(JsonValueTest, ErrorsStatePlaceFoundAndExpected) {
  for (const auto& [text, words] : std::initializer_list<std::pair<std::string_view, const char*>>{
           {"", "test: not JSON: line 1, column 1: the text ends, expected a value"},
           {"[1,\n 2 3]", "line 2, column 4: found '3', expected ',' or ']'"},
           {"{\"a\" 1}", "line 1, column 6: found '1', expected ':'"},
           {"[\"\x01\"]", "column 3: found the byte 0x1, expected a character of a string"},
           {"[\"\xff\"]", "column 3: found the byte 0xff, expected a character in UTF-8"},
           {"\n\n  x", "line 3, column 3: found 'x', expected a value"},
           {"é", "found 'é', expected a value"},
           {"1 1", "column 3: found '1', expected the end"}}) {
    try {
      JsonValue::Parse("test", text);
      ADD_FAILURE() << text;
    } catch (const Error& error) {
      EXPECT_THAT(error.what(), HasSubstr(words));
    }
  }
}

}  // namespace
}  // namespace tessera::graph
