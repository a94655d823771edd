#include "tessera/ops/testing/parameter_texts.h"

#include <algorithm>
#include <cstddef>

namespace tessera::ops_testing {

const std::vector<std::string>& HostileTexts() {
  static const auto* const texts = new std::vector<std::string>{"-1",
                                                                "0",
                                                                "-2",
                                                                "-128",
                                                                "2147483647",
                                                                "2147483648",
                                                                "-2147483648",
                                                                "4294967297",
                                                                "4611686018427387904",
                                                                "9223372036854775807",
                                                                "-9223372036854775808",
                                                                "1",
                                                                "1e30",
                                                                "-1e30",
                                                                "3.4028234663852886e+38",
                                                                "-3.4028234663852886e+38",
                                                                "1.7976931348623157e+308",
                                                                "1.1754943508222875e-38",
                                                                "1e999",
                                                                "1e-320",
                                                                "nan",
                                                                "-nan",
                                                                "inf",
                                                                "-inf",
                                                                "",
                                                                " ",
                                                                "None",
                                                                "True",
                                                                "()",
                                                                "(0,)",
                                                                "(0, 0)",
                                                                "(-1, -1)",
                                                                "(None, 3)",
                                                                "(2147483647, 2147483647)",
                                                                "(9223372036854775807,)",
                                                                "(-9223372036854775808, 1)",
                                                                "(4611686018427387904, 4)",
                                                                "(1, 2, 3, 4, 5, 6, 7, 8, 9)",
                                                                "(1.5, 2)",
                                                                "((",
                                                                "(1,,2)",
                                                                "abc",
                                                                "float16",
                                                                "\xff\x80",
                                                                "1 2",
                                                                "0x10"};
  return *texts;
}

Edges EdgesOf(const ParameterInfo& info, const std::string& given) {
  static const std::vector<std::string> units = {"0", "1", "-1"};
  static const std::vector<std::string> integers = {"2147483647", "-2147483648",
                                                    "9223372036854775807", "-9223372036854775808"};
  static const std::vector<std::string> reals = {"3.4028234663852886e+38",
                                                 "-3.4028234663852886e+38",
                                                 "1.1754943508222875e-38",
                                                 "1.401298464324817e-45",
                                                 "1.7976931348623157e+308",
                                                 "-1.7976931348623157e+308",
                                                 "2.2250738585072014e-308",
                                                 "4.9406564584124654e-324",
                                                 "inf",
                                                 "-inf",
                                                 "nan"};
  if (info.type.starts_with("{")) {
    Edges edges;
    std::string choices = info.type.substr(1, info.type.size() - 2);
    for (size_t begin = 0; begin <= choices.size();) {
      const size_t end = std::min(choices.find(", ", begin), choices.size());
      edges.moderate.push_back(choices.substr(begin, end - begin));
      begin = end + 2;
    }
    return edges;
  }
  if (info.type == "boolean") return {{"0", "1"}, {"-1"}};
  if (info.type == "int") return {units, integers};
  if (info.type == "float") return {units, reals};
  if (info.type == "string") return {{}, {"", "0", "1", "-1"}};
  // A tuple of as many numbers as the case has, or else two.
  const size_t commas = static_cast<size_t>(std::count(given.begin(), given.end(), ','));
  const bool ends_in_comma = given.find(",)") != given.npos || given.find(", )") != given.npos;
  const size_t count = given.empty() ? 2 : commas + (ends_in_comma ? 0 : 1);
  const auto tuples = [&](const std::vector<std::string>& numbers) {
    std::vector<std::string> texts;
    for (const std::string& number : numbers) {
      std::string text = "(";
      for (size_t i = 0; i < count; ++i) text += number + ",";
      texts.push_back(text + ")");
    }
    return texts;
  };
  return {tuples(units), tuples(info.type == "floats" ? reals : integers)};
}

}  // namespace tessera::ops_testing
