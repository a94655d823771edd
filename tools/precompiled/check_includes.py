#!/usr/bin/env python3
"""Names each test that uses a precompiled header's names without including the header.

Tests read the headers of tools/precompiled/BUILD before their own first line (precompiled.bzl), so a
forgotten include would show only where nothing is precompiled. check_includes.py [FILE...]; without
arguments all tests that git lists. Exits 1 where a file lacks an include.
"""

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent

# What a test names of each header; not all that the header has, but all that tests have use for.
NAMES = {
    "algorithm": r"std::(ranges::)?(sort|stable_sort|max|min|minmax|minmax_element|clamp|fill|fill_n|copy|copy_n|equal|find|find_if|count|"
    r"count_if|all_of|any_of|none_of|reverse|rotate|shuffle|generate|transform|unique|remove_if|max_element|"
    r"min_element|is_sorted|nth_element|lower_bound|upper_bound|next_permutation|for_each|replace)\b(?=\s*[(<])",
    "atomic": r"std::(atomic\b|atomic_|memory_order)",
    "cmath": r"std::(abs|fabs|nan|sqrt|cbrt|exp|exp2|expm1|log|log2|log10|log1p|pow|sin|cos|tan|asin|acos|atan|atan2|sinh|cosh|"
    r"tanh|asinh|acosh|atanh|erf|erfc|tgamma|lgamma|floor|ceil|round|trunc|fmod|fma|fmax|fmin|hypot|isnan|isinf|isfinite|"
    r"signbit|nextafter|ldexp|frexp|nearbyint|copysign)\b(?=\s*\()",
    "cstdint": r"(?<![\w:])(std::)?u?int(8|16|32|64|ptr)_t\b",
    "functional": r"std::(function|reference_wrapper|ref|cref|bind|hash|plus|minus|multiplies|divides|less|greater|invoke)\b",
    "limits": r"std::numeric_limits\b",
    "memory": r"std::(unique_ptr|shared_ptr|weak_ptr|make_unique|make_shared|allocator|align|addressof)\b",
    "random": r"std::(mt19937|mt19937_64|uniform_\w+_distribution|normal_distribution|bernoulli_distribution|random_device|"
    r"minstd_rand|discrete_distribution)\b",
    "string": r"std::(string|to_string|getline|stoi|stol|stoll|stoul|stoull|stof|stod)\b",
    "thread": r"std::(thread|jthread|this_thread)\b",
    "type_traits": r"std::(is_\w+_v|is_same|enable_if_t|conditional_t|remove_\w+_t|decay_t|make_unsigned_t|make_signed_t|"
    r"underlying_type_t|true_type|false_type|integral_constant|invoke_result_t|type_identity)\b",
    "utility": r"std::(move|forward|pair|make_pair|swap|exchange|index_sequence|make_index_sequence|integer_sequence|"
    r"make_integer_sequence|as_const|in_place|declval)\b",
    "vector": r"std::vector\b",
    "Eigen/Core": r"\bEigen::",
    "gmock/gmock.h": r"\b(HasSubstr|ElementsAre|ElementsAreArray|UnorderedElementsAre|EXPECT_THAT|ASSERT_THAT|MATCHER_?P?2?|"
    r"MOCK_METHOD|AllOf|AnyOf|Not|Each|Pointwise|FloatEq|DoubleEq|FloatNear|DoubleNear|StartsWith|EndsWith|IsEmpty|SizeIs|Pair|Contains|MatchesRegex|ContainsRegex)\s*\(",
    "gtest/gtest.h": r"\b(TEST|TEST_F|TEST_P|TYPED_TEST|TYPED_TEST_SUITE|EXPECT_EQ|ASSERT_EQ)\s*\(",
}


def precompiled_headers() -> set[str]:
    build = (ROOT / "tools/precompiled/BUILD").read_text()
    return set(re.findall(r'"([^"]+)"', re.search(r"includes = \[(.*?)\]", build, re.S).group(1)))


def code_of(text: str) -> str:
    """The text without comments and the insides of literals."""
    pattern = r'//[^\n]*|/\*.*?\*/|R"(\w*)\(.*?\)\1"|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])\''
    return re.sub(pattern, lambda match: " " if match[0][0] == "/" else '""', text, flags=re.S)


def missing_includes(text: str) -> list[str]:
    included = set(re.findall(r'^\s*#\s*include\s*[<"]([^>"]+)[>"]', text, re.M))
    code = code_of(text)
    missing = [header for header, names in NAMES.items() if header not in included and re.search(names, code)]
    # gmock.h promises gtest.h.
    return [h for h in missing if not (h == "gtest/gtest.h" and "gmock/gmock.h" in included)]


def main() -> int:
    if precompiled_headers() != set(NAMES):
        print(f"tools/precompiled/BUILD and {Path(__file__).name} differ in: "
              f"{sorted(precompiled_headers() ^ set(NAMES))}")
        return 1
    paths = sys.argv[1:] or subprocess.run(
        ["git", "-c", f"safe.directory={ROOT}", "ls-files", "*_test.cc"],
        cwd=ROOT, check=True, capture_output=True, text=True).stdout.split()
    failed = 0
    for path in paths:
        for header in missing_includes((ROOT / path).read_text()):
            print(f"{path}: uses what <{header}> declares and does not include it")
            failed += 1
    if not paths or failed:
        print(f"{failed} includes are missing in {len(paths)} tests")
        return 1
    print(f"{len(paths)} tests include what they use of the precompiled headers")
    return 0


if __name__ == "__main__":
    sys.exit(main())
