#include "tessera/compat/mxnet/core/api_call.h"

#include <new>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tessera/base/error.h"
#include "tessera/compat/mxnet/core/callbacks.h"

namespace tessera::mxnet {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

std::string LastError() { return Results::OfThread().error(); }

/// Two functions of an API, which return texts.
int First(const char* text, const char*** out) {
  return ApiCall([&] {
    *out = Results::OfThread().Keep(std::vector<std::string>{NotNull(text, "text"), "1"});
  });
}
int Second(const char* text, const char** out) {
  return ApiCall([&] { *out = Results::OfThread().Keep(std::string(NotNull(text, "text"))); });
}

// Longer than what a string holds in itself.
constexpr const char* kText = "a text that is longer than sixteen characters";
constexpr const char* kOther = "another text of more than sixteen characters";

TEST(ApiCallTest, ResultsLiveUntilTheThreadCallsTheFunctionAgain) {
  const char** list = nullptr;
  const char* text = nullptr;
  ASSERT_EQ(First(kText, &list), 0);
  for (int i = 0; i < 3; ++i) ASSERT_EQ(Second(kOther, &text), 0);
  std::thread([] {
    const char** others = nullptr;
    EXPECT_EQ(First(kOther, &others), 0);
  }).join();
  EXPECT_STREQ(list[0], kText);
  EXPECT_STREQ(list[1], "1");
  EXPECT_STREQ(text, kOther);
}

TEST(ApiCallTest, ResultsMayBeArgumentsOfTheNextCall) {
  const char** list = nullptr;
  const char* text = nullptr;
  ASSERT_EQ(First(kText, &list), 0);
  ASSERT_EQ(First(list[0], &list), 0);
  EXPECT_STREQ(list[0], kText);
  ASSERT_EQ(Second(list[0], &text), 0);
  ASSERT_EQ(Second(text, &text), 0);
  EXPECT_STREQ(text, kText);
}

TEST(ApiCallTest, AFunctionMayCallAnother) {
  const char* inner = nullptr;
  const char* outer = nullptr;
  const auto call = [&] {
    return ApiCall([&] {
      if (Second(kOther, &inner) != 0) throw Internal(LastError());
      outer = Results::OfThread().Keep(std::string(kText));
    });
  };
  ASSERT_EQ(call(), 0);
  ASSERT_EQ(Second(kOther, &inner), 0);
  EXPECT_STREQ(outer, kText);
}

TEST(ApiCallTest, ErrorsAreThoseOfTheThread) {
  const char* text = nullptr;
  EXPECT_EQ(Second(nullptr, &text), -1);
  EXPECT_EQ(LastError(), "the argument text is a null pointer");
  std::thread([&] {
    EXPECT_EQ(LastError(), "");
    EXPECT_EQ(ApiCall([] { throw NotFound("nothing is there"); }), -1);
    EXPECT_EQ(LastError(), "nothing is there");
  }).join();
  EXPECT_EQ(LastError(), "the argument text is a null pointer");
  EXPECT_EQ(Second(kText, &text), 0);
  EXPECT_EQ(LastError(), "the argument text is a null pointer");
}

TEST(ApiCallTest, EveryExceptionBecomesAMessage) {
  EXPECT_EQ(ApiCall([] { throw std::bad_alloc(); }), -1);
  EXPECT_EQ(LastError(), "out of memory");
  EXPECT_EQ(ApiCall([] { throw std::out_of_range("a range"); }), -1);
  EXPECT_EQ(LastError(), "a range");
  EXPECT_EQ(ApiCall([] { throw 7; }), -1);
  EXPECT_EQ(LastError(), "an exception of an unknown type");
}

TEST(ApiCallTest, ACallbackLeavesItsCallersResultsAlone) {
  const char** list = nullptr;
  const char** inner = nullptr;
  ASSERT_EQ(ApiCall([] { throw NotFound("the caller's error"); }), -1);
  ASSERT_EQ(First(kText, &list), 0);
  const int status = ApiCall([&] {
    const char* const kept = Results::OfThread().Keep(std::string(kText));
    {
      const CallbackScope scope;
      EXPECT_EQ(LastError(), "");
      EXPECT_EQ(First(kOther, &inner), 0);
      EXPECT_STREQ(inner[0], kOther);
      EXPECT_EQ(First(nullptr, &inner), -1);
    }
    EXPECT_STREQ(kept, kText);
    EXPECT_STREQ(Results::OfThread().Keep(std::string(kOther)), kOther);
    EXPECT_STREQ(kept, kText);
  });
  EXPECT_EQ(status, 0);
  EXPECT_STREQ(list[0], kText);
  EXPECT_EQ(LastError(), "the caller's error");
}

/// Calls a function when it is destroyed, as global objects of clients do.
struct LateCaller {
  ~LateCaller() {
    const char* text = nullptr;
    if (Second(kText, &text) != 0 || std::string(text) != kText) std::abort();
    if (Second(nullptr, &text) != -1 || LastError().empty()) std::abort();
  }
};

TEST(ApiCallTest, FunctionsMayBeCalledWhileTheThreadEnds) {
  std::thread([] {
    // Destroyed after the thread's results, which are made later.
    thread_local const LateCaller caller;
    static_cast<void>(caller);
    const char* text = nullptr;
    EXPECT_EQ(Second(kOther, &text), 0);
  }).join();
}

TEST(ApiCallTest, ListsOfTheCallerMayBeNullIfTheyAreEmpty) {
  EXPECT_TRUE(ListOf(static_cast<int*>(nullptr), 0, "values").empty());
  EXPECT_TRUE(TextsOf(nullptr, 0, "texts").empty());
  EXPECT_THROW(ListOf(static_cast<int*>(nullptr), 1, "values"), Error);
  EXPECT_THROW(TextsOf(nullptr, 1, "texts"), Error);
  const char* const texts[] = {"one", nullptr};
  EXPECT_EQ(TextsOf(texts, 1, "texts"), std::vector<std::string>{"one"});
  try {
    TextsOf(texts, 2, "texts");
    ADD_FAILURE() << "a null text was taken";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), StartsWith("the argument texts is a null"));
  }
}

TEST(PlainTextTest, NumbersOfPythonAndNumpyBecomePlain) {
  const std::vector<std::vector<std::string>> cases = {
      {"(2,3)", "(2,3)"},
      {"[2, 3]", "[2, 3]"},
      {"()", "()"},
      {"(2L,)", "(2,)"},
      {"(2L, 3L)", "(2, 3)"},
      {"[-12L]", "[-12]"},
      {"7L", "7"},
      {"(np.int64(7),)", "(7,)"},
      {"(np.int64(7), np.int32(-8))", "(7, -8)"},
      {"np.float32(0.5)", "0.5"},
      {"[np.float64(1e-05), (np.int64(1), 2)]", "[1e-05, (1, 2)]"},
      {"np.True_", "True"},
      {"(np.False_, np.True_)", "(False, True)"},
      {"None", "None"},
      {"True", "True"},
      {"1", "1"},
      {"1e-3", "1e-3"},
      {"", ""},
      // Words are no numbers.
      {"layer1L", "layer1L"},
      {"a.2L", "a.2L"},
      {"2LSTM", "2LSTM"},
      {"L", "L"},
      {"my_np.int64(7)", "my_np.int64(7)"},
      {"np.newaxis", "np.newaxis"},
      {"np.(7)", "np.(7)"},
      {"np.int64(", ""},
      {"f(x)", "f(x)"},
  };
  for (const auto& texts : cases) EXPECT_EQ(PlainText(texts[0]), texts[1]) << texts[0];
}

TEST(PlainTextTest, ParametersAreReadByTheirNames) {
  const char* const keys[] = {"shape", "axis"};
  const char* const values[] = {"(np.int64(2),)", "1L"};
  const ParameterMap parameters = ParametersOf(2, keys, values);
  EXPECT_EQ(parameters, (ParameterMap{{"shape", "(2,)"}, {"axis", "1"}}));
  EXPECT_THROW(ParametersOf(1, nullptr, values), Error);
  EXPECT_THROW(ParametersOf(1, keys, nullptr), Error);
}

}  // namespace
}  // namespace tessera::mxnet
