// Numbers beside arrays of integers, over all families: exact from 2^53 on, and beyond the range of
// the integers' type. The expected values are computed in long double, which holds every int64.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tessera/base/dtype.h"
#include "tessera/ops/registry.h"

namespace tessera {
namespace {

using testing::ElementsAre;

static_assert(std::numeric_limits<long double>::digits >= 64, "the expected values need 64 bits");

constexpr int64_t kLarge = (int64_t{1} << 53) + 1;  // no double is this number
constexpr const char* kLargeText = "9007199254740993";
constexpr int64_t kInt64Min = std::numeric_limits<int64_t>::min();
constexpr int64_t kInt64Max = std::numeric_limits<int64_t>::max();

/// Returns the output of an operator applied to arrays of T.
template <typename T, typename Out = T>
std::vector<Out> OutputOf(const std::string& name, const ParameterMap& parameters,
                          std::vector<std::vector<T>> inputs, std::vector<TShape> shapes = {}) {
  constexpr DType kType = kDTypeOf<T>;
  if (shapes.empty()) {
    for (const auto& input : inputs) shapes.push_back({static_cast<index_t>(input.size())});
  }
  const auto property = OperatorRegistry::Get().Create(name, parameters);
  std::vector<TShape> out_shape(1);
  EXPECT_TRUE(property->InferShape(&shapes, &out_shape)) << name;
  std::vector<TBlob> blobs;
  for (size_t i = 0; i < inputs.size(); ++i) {
    blobs.emplace_back(inputs[i].data(), shapes[i], kType, Device::Cpu());
  }
  const auto op =
      property->CreateOperator(Device::Cpu(), shapes, std::vector<DType>(inputs.size(), kType));
  std::vector<Out> out(static_cast<size_t>(out_shape[0].Size()));
  const TBlob target(out.data(), out_shape[0], kDTypeOf<Out>, Device::Cpu());
  const OpReqType req = kWriteTo;
  op->Forward({}, blobs, {&req, 1}, {&target, 1});
  return out;
}

const std::vector<std::string> kNumbers = {"-1e30",
                                           "-9223372036854775808",
                                           "-9007199254740993",
                                           "-2147483649",
                                           "-129",
                                           "-128.5",
                                           "-1",
                                           "-0.5",
                                           "0",
                                           "0.5",
                                           "1",
                                           "1.5",
                                           "127",
                                           "127.5",
                                           "128",
                                           "255",
                                           "300",
                                           "65535.5",
                                           "2147483647.5",
                                           "2147483648",
                                           "9007199254740993",
                                           "9007199254740994",
                                           "9223372036854775807",
                                           "9223372036854775808",
                                           "1e30",
                                           "inf",
                                           "-inf"};

/// Returns elements of T about its ends, 0 and 2^53.
template <typename T>
std::vector<T> Elements() {
  using Limits = std::numeric_limits<T>;
  std::vector<T> elements = {Limits::min(),     Limits::min() + 1, 0, 1, 2, 100,
                             Limits::max() - 1, Limits::max()};
  for (const int64_t about : {kLarge, -kLarge}) {
    for (const int64_t x : {about - 1, about, about + 1}) {
      if (static_cast<int64_t>(static_cast<T>(x)) == x) elements.push_back(static_cast<T>(x));
    }
  }
  return elements;
}

using Function = std::function<long double(long double x, long double number)>;

/// Tells that an operator of integers and a number gives f(x, number), cut off towards 0 and
/// limited to the integers' type.
template <typename T>
void ExpectNumbersAreExact(const std::string& name, const Function& f) {
  const std::vector<T> elements = Elements<T>();
  for (const std::string& text : kNumbers) {
    const std::vector<T> out = OutputOf<T>(name, {{"scalar", text}}, {elements});
    const long double number = std::strtold(text.c_str(), nullptr);
    for (size_t i = 0; i < elements.size(); ++i) {
      const long double expected =
          std::clamp(std::trunc(f(elements[i], number)),
                     static_cast<long double>(std::numeric_limits<T>::min()),
                     static_cast<long double>(std::numeric_limits<T>::max()));
      EXPECT_EQ(static_cast<long double>(out[i]), expected)
          << name << " of " << +elements[i] << " (" << kDTypeOf<T> << ") and " << text;
    }
  }
}

template <typename T>
class IntegerNumbersTest : public testing::Test {};
using IntegerTypes = testing::Types<uint8_t, int8_t, int16_t, int32_t, uint32_t, int64_t>;
TYPED_TEST_SUITE(IntegerNumbersTest, IntegerTypes);

TYPED_TEST(IntegerNumbersTest, ComparisonsAreExact) {
  const std::vector<std::pair<std::string, Function>> rows = {
      {"_equal_scalar", [](long double x, long double n) { return x == n; }},
      {"_not_equal_scalar", [](long double x, long double n) { return x != n; }},
      {"_greater_scalar", [](long double x, long double n) { return x > n; }},
      {"_greater_equal_scalar", [](long double x, long double n) { return x >= n; }},
      {"_lesser_scalar", [](long double x, long double n) { return x < n; }},
      {"_lesser_equal_scalar", [](long double x, long double n) { return x <= n; }},
      {"_logical_and_scalar", [](long double x, long double n) { return x != 0 && n != 0; }},
      {"_logical_or_scalar", [](long double x, long double n) { return x != 0 || n != 0; }},
      {"_logical_xor_scalar", [](long double x, long double n) { return (x != 0) != (n != 0); }}};
  for (const auto& [name, f] : rows) ExpectNumbersAreExact<TypeParam>(name, f);
}

TYPED_TEST(IntegerNumbersTest, ChoicesAreExactAndSaturate) {
  ExpectNumbersAreExact<TypeParam>("_maximum_scalar",
                                   [](long double x, long double n) { return std::max(x, n); });
  ExpectNumbersAreExact<TypeParam>("_minimum_scalar",
                                   [](long double x, long double n) { return std::min(x, n); });
}

TYPED_TEST(IntegerNumbersTest, ClipIsExactAndSaturates) {
  const std::vector<TypeParam> elements = Elements<TypeParam>();
  for (const std::string& low : kNumbers) {
    for (const std::string& high : kNumbers) {
      const long double a = std::strtold(low.c_str(), nullptr);
      const long double b = std::strtold(high.c_str(), nullptr);
      if (a > b) continue;
      const auto out = OutputOf<TypeParam>("clip", {{"a_min", low}, {"a_max", high}}, {elements});
      for (size_t i = 0; i < elements.size(); ++i) {
        const long double x = elements[i];
        const long double expected =
            std::clamp(std::trunc(std::clamp(x, a, b)),
                       static_cast<long double>(std::numeric_limits<TypeParam>::min()),
                       static_cast<long double>(std::numeric_limits<TypeParam>::max()));
        EXPECT_EQ(static_cast<long double>(out[i]), expected)
            << "clip of " << +elements[i] << " to [" << low << ", " << high << "]";
      }
    }
  }
}

TEST(IntegerArithmeticTest, NumbersOf64BitsAreExact) {
  EXPECT_THAT(OutputOf<int64_t>("_plus_scalar", {{"scalar", kLargeText}}, {{0, -1}}),
              ElementsAre(kLarge, kLarge - 1));
  EXPECT_THAT(OutputOf<int64_t>("_rminus_scalar", {{"scalar", kLargeText}}, {{1}}),
              ElementsAre(kLarge - 1));
  EXPECT_THAT(OutputOf<int64_t>("_mul_scalar", {{"scalar", kLargeText}}, {{3}}),
              ElementsAre(3 * kLarge));
  EXPECT_THAT(OutputOf<int64_t>("_div_scalar", {{"scalar", kLargeText}}, {{kLarge, kLarge - 1}}),
              ElementsAre(1, 0));
  EXPECT_THAT(OutputOf<int64_t>("_mod_scalar", {{"scalar", kLargeText}}, {{kLarge + 5, -1}}),
              ElementsAre(5, kLarge - 1));
  EXPECT_THAT(OutputOf<int64_t>("_rdiv_scalar", {{"scalar", "9223372036854775807"}}, {{1}}),
              ElementsAre(kInt64Max));
}

TEST(IntegerArithmeticTest, NumbersOutsideOfNarrowTypesWrapAroundTheResult) {
  EXPECT_THAT(OutputOf<uint8_t>("_plus_scalar", {{"scalar", "300"}}, {{1}}), ElementsAre(45));
  EXPECT_THAT(OutputOf<int8_t>("_div_scalar", {{"scalar", "300"}}, {{100}}), ElementsAre(0));
  EXPECT_THAT(OutputOf<int32_t>("_div_scalar", {{"scalar", "4294967296"}}, {{7}}), ElementsAre(0));
  EXPECT_THAT(OutputOf<int32_t>("_mod_scalar", {{"scalar", "4294967296"}}, {{7}}), ElementsAre(7));
  EXPECT_THAT(OutputOf<int32_t>("_plus_scalar", {{"scalar", "4294967297"}}, {{7}}), ElementsAre(8));
  // A fraction is cut off, as in MXNet.
  EXPECT_THAT(OutputOf<int32_t>("_mul_scalar", {{"scalar", "1.5"}}, {{3}}), ElementsAre(3));
}

TEST(IntegerArithmeticTest, PowersAreExactAndWrapAround) {
  EXPECT_THAT(OutputOf<int64_t>("_power", {},
                                {{3, -3, 2, 2, 0, 0, -1, 7, kInt64Min, 1},
                                 {35, 3, 63, 64, 0, -1, -3, -1, 1, kInt64Min}}),
              ElementsAre(50031545098999707, -27, kInt64Min, 0, 1, 0, -1, 0, kInt64Min, 1));
  EXPECT_THAT(OutputOf<int8_t>("_power", {}, {{7, -2}, {3, 7}}), ElementsAre(87, -128));
  EXPECT_THAT(OutputOf<int64_t>("_power_scalar", {{"scalar", "35"}}, {{3}}),
              ElementsAre(50031545098999707));
  EXPECT_THAT(OutputOf<int64_t>("_rpower_scalar", {{"scalar", "3"}}, {{35}}),
              ElementsAre(50031545098999707));
  EXPECT_THAT(OutputOf<int64_t>("_power_scalar", {{"scalar", "0.5"}}, {{16, 8}}),
              ElementsAre(4, 2));
  EXPECT_THAT(OutputOf<int32_t>("_rpower_scalar", {{"scalar", "2.5"}}, {{2, 0}}),
              ElementsAre(6, 1));
}

TEST(IntegerArithmeticTest, FunctionsOfLargeIntegersAreComputedInDouble) {
  constexpr int64_t kRoot = (int64_t{1} << 26) + 1;
  EXPECT_THAT(OutputOf<int64_t>("sqrt", {}, {{kRoot * kRoot}}), ElementsAre(kRoot));
  EXPECT_THAT(OutputOf<int32_t>("_hypot_scalar", {{"scalar", "0"}}, {{(1 << 30) + 1}}),
              ElementsAre((1 << 30) + 1));
}

TEST(IntegerArithmeticTest, NeighboursAreNotClose) {
  const auto are_close = [](int64_t a, int64_t b, const std::string& atol) {
    return OutputOf<int64_t, uint8_t>("_contrib_allclose", {{"rtol", "0"}, {"atol", atol}},
                                      {{a}, {b}})[0];
  };
  EXPECT_EQ(are_close(kLarge, kLarge - 1, "0"), 0);
  EXPECT_EQ(are_close(kLarge - 1, kLarge, "0"), 0);
  EXPECT_EQ(are_close(kLarge, kLarge - 1, "1"), 1);
  EXPECT_EQ(are_close(kInt64Min, kInt64Max, "1"), 0);
  EXPECT_EQ(are_close(kInt64Max, kInt64Max, "0"), 1);
  // As int64, these are -1 and 0.
  EXPECT_THAT((OutputOf<uint64_t, uint8_t>("_contrib_allclose", {{"rtol", "0"}, {"atol", "1"}},
                                           {{std::numeric_limits<uint64_t>::max()}, {0}})),
              ElementsAre(0));
}

TEST(IntegerFillTest, NumbersAreExact) {
  EXPECT_THAT(OutputOf<int64_t>("_full",
                                {{"shape", "(2,)"}, {"dtype", "int64"}, {"value", kLargeText}}, {}),
              ElementsAre(kLarge, kLarge));
  EXPECT_THAT(
      OutputOf<int64_t>("_slice_assign_scalar",
                        {{"begin", "(1,)"}, {"end", "(2,)"}, {"scalar", kLargeText}}, {{1, 2}}),
      ElementsAre(1, kLarge));
  EXPECT_THAT(OutputOf<int64_t>("one_hot",
                                {{"depth", "2"},
                                 {"on_value", kLargeText},
                                 {"off_value", "-9007199254740993"},
                                 {"dtype", "int64"}},
                                {{1}}),
              ElementsAre(-kLarge, kLarge));
  EXPECT_THAT(OutputOf<int64_t>("Pad",
                                {{"mode", "constant"},
                                 {"pad_width", "(0, 0, 0, 0, 0, 0, 1, 0)"},
                                 {"constant_value", kLargeText}},
                                {{5}}, {{1, 1, 1, 1}}),
              ElementsAre(kLarge, 5));
  EXPECT_THAT(
      OutputOf<int64_t>("SequenceMask", {{"use_sequence_length", "True"}, {"value", kLargeText}},
                        {{5, 6}, {1}}, {{2, 1}, {1}}),
      ElementsAre(5, kLarge));
}

TEST(IntegerFillTest, SetValueIsExact) {
  const auto property = OperatorRegistry::Get().Create("_set_value", {{"src", kLargeText}});
  const auto op = property->CreateOperator(Device::Cpu(), {}, {});
  int64_t out = 0;
  const TBlob target(&out, TShape{1}, DType::kInt64, Device::Cpu());
  const OpReqType req = kWriteTo;
  op->Forward({}, {}, {&req, 1}, {&target, 1});
  EXPECT_EQ(out, kLarge);
}

TEST(IntegerFillTest, NumbersConvertAsArraysDo) {
  const auto full = [](const std::string& value) {
    return OutputOf<uint8_t>("_full", {{"shape", "(1,)"}, {"dtype", "uint8"}, {"value", value}},
                             {})[0];
  };
  EXPECT_EQ(full("300"), 44);
  EXPECT_EQ(full("-1"), 255);
  EXPECT_EQ(full("2.9"), 2);
}

std::vector<int64_t> Arange(const std::string& start, const std::string& stop,
                            const std::string& step = "1") {
  return OutputOf<int64_t>(
      "_arange", {{"start", start}, {"stop", stop}, {"step", step}, {"dtype", "int64"}}, {});
}

TEST(IntegerRangeTest, ArangeIsExact) {
  EXPECT_THAT(Arange(kLargeText, "9007199254740995"), ElementsAre(kLarge, kLarge + 1));
  EXPECT_THAT(Arange(kLargeText, "9007199254740990", "-2"), ElementsAre(kLarge, kLarge - 2));
  EXPECT_THAT(Arange("-9223372036854775808", "9223372036854775807", "9223372036854775807"),
              ElementsAre(kInt64Min, -1, kInt64Max - 1));
  EXPECT_THAT(Arange("9223372036854775806", "9223372036854775807"), ElementsAre(kInt64Max - 1));
  // The count is that of the numbers, the values those of integers, as in MXNet.
  EXPECT_THAT(Arange("0", "5", "1.5"), ElementsAre(0, 1, 2, 3));
}

TEST(IntegerRangeTest, LinspaceIsExact) {
  const auto linspace = [](const std::string& start, const std::string& stop,
                           const std::string& num) {
    return OutputOf<int64_t>(
        "_linspace", {{"start", start}, {"stop", stop}, {"num", num}, {"dtype", "int64"}}, {});
  };
  EXPECT_THAT(linspace(kLargeText, "9007199254740997", "3"),
              ElementsAre(kLarge, kLarge + 2, kLarge + 4));
  EXPECT_THAT(linspace("-5", "0", "4"), ElementsAre(-5, -3, -1, 0));
  EXPECT_THAT(linspace("0", "-5", "4"), ElementsAre(0, -1, -3, -5));
  EXPECT_THAT(linspace("7", "9", "1"), ElementsAre(7));
}

}  // namespace
}  // namespace tessera
