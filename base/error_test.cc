#include "tessera/base/error.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <locale>
#include <ostream>
#include <string>
#include <string_view>

namespace tessera {
namespace {

TEST(ErrorTest, CarriesCodeAndThePiecesInOrder) {
  const Error error = InvalidArgument("dot: k is ", 3, ", expected ", 4.5);
  EXPECT_EQ(error.code(), Error::kInvalidArgument);
  EXPECT_STREQ(error.what(), "dot: k is 3, expected 4.5");
}

TEST(ErrorTest, AnOperatorsErrorKeepsItsNameWhenTheMessageChanges) {
  EXPECT_EQ(OutOfRange("index 7").op(), "");
  const Error error = Error(Error::kOutOfRange, "index 7", "take").WithMessage("take: index 7");
  EXPECT_EQ(error.code(), Error::kOutOfRange);
  EXPECT_EQ(error.op(), "take");
  EXPECT_STREQ(error.what(), "take: index 7");
}

enum Plain { kOne = 1 };

struct Streamed {
  friend std::ostream& operator<<(std::ostream& os, Streamed) {
    return os << 1234567 << '/' << 0.5;
  }
};

TEST(ErrorTest, PiecesReadAsInAStream) {
  const std::string text = "text";
  const char* const pointer = "pointer";
  EXPECT_STREQ(NotFound(text, pointer, std::string_view("view"), 'c', true, kOne, -1, 2u,
                        std::numeric_limits<int64_t>::min(), std::numeric_limits<uint64_t>::max())
                   .what(),
               "textpointerviewc11-12-922337203685477580818446744073709551615");
  const double infinity = std::numeric_limits<double>::infinity();
  EXPECT_STREQ(NotFound(1.0, ' ', 0.1f, ' ', 1.0 / 3, ' ', 1e20, ' ', 1e-5, ' ', -infinity).what(),
               "1 0.1 0.333333 1e+20 1e-05 -inf");
}

TEST(ErrorTest, NoLocaleChangesNumbers) {
  struct Commas : std::numpunct<char> {
    char do_decimal_point() const override { return ','; }
    char do_thousands_sep() const override { return '.'; }
    std::string do_grouping() const override { return "\3"; }
  };
  const std::locale before = std::locale::global(std::locale(std::locale::classic(), new Commas));
  const Error error = NotFound(1234567, ' ', 0.5, ' ', Streamed());
  std::locale::global(before);
  EXPECT_STREQ(error.what(), "1234567 0.5 1234567/0.5");
}

TEST(ErrorTest, EachBuilderHasItsCode) {
  EXPECT_EQ(NotFound("").code(), Error::kNotFound);
  EXPECT_EQ(FailedPrecondition("").code(), Error::kFailedPrecondition);
  EXPECT_EQ(OutOfRange("").code(), Error::kOutOfRange);
  EXPECT_EQ(DataLoss("").code(), Error::kDataLoss);
  EXPECT_EQ(ResourceExhausted("").code(), Error::kResourceExhausted);
  EXPECT_EQ(Unimplemented("").code(), Error::kUnimplemented);
  EXPECT_EQ(Internal("").code(), Error::kInternal);
}

TEST(ErrorTest, IsAStandardException) {
  try {
    throw NotFound("no such thing");
  } catch (const std::exception& error) {
    EXPECT_STREQ(error.what(), "no such thing");
  }
}

}  // namespace
}  // namespace tessera
