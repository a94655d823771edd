#include "tessera/base/quote.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace tessera {
namespace {

TEST(QuoteTest, TextsOfAtMost200BytesStayWhole) {
  EXPECT_EQ(Excerpt(""), "");
  EXPECT_EQ(Excerpt("abc"), "abc");
  EXPECT_EQ(Excerpt(std::string(200, 'a')), std::string(200, 'a'));
}

TEST(QuoteTest, LongerTextsAreCutAndTheirSizeIsStated) {
  EXPECT_EQ(Excerpt(std::string(201, 'a')), std::string(200, 'a') + "… (201 bytes)");
  EXPECT_EQ(Excerpt(std::string(1000000, 'a')), std::string(200, 'a') + "… (1000000 bytes)");
}

TEST(QuoteTest, CharactersAreNotCut) {
  // Characters of two, three and four bytes, at every place around the limit.
  for (const std::string character : {"é", "…", "😀"}) {
    for (size_t before = 195; before <= 200; ++before) {
      std::string text(before, 'a');
      while (text.size() < 300) text += character;
      const std::string excerpt = Excerpt(text);
      const std::string kept = excerpt.substr(0, excerpt.rfind("… ("));
      EXPECT_LE(kept.size(), 200u);
      EXPECT_GE(kept.size(), 197u);
      EXPECT_EQ((kept.size() - before) % character.size(), 0u) << excerpt;
    }
  }
  // Bytes that continue nothing are cut all the same.
  EXPECT_EQ(Excerpt(std::string(300, '\x80')), std::string(197, '\x80') + "… (300 bytes)");
}

TEST(QuoteTest, TenNamesAreListed) {
  std::vector<std::string> names;
  EXPECT_EQ(ListNames(names), "");
  names = {"a", "b"};
  EXPECT_EQ(ListNames(names), "a, b");
  names.assign(10, "n");
  EXPECT_EQ(ListNames(names), "n, n, n, n, n, n, n, n, n, n");
  names.assign(100000, std::string(300, 'n'));
  EXPECT_LT(ListNames(names).size(), 2300u);
  EXPECT_TRUE(ListNames(names).ends_with(" and 99990 more"));
}

}  // namespace
}  // namespace tessera
