#!/usr/bin/env python3
"""Holds the sources that .bazelrc gives a sanitizer's flags against what they are to be.

- AddressSanitizer looks at every source but tests and what lies in testing/, and with --config=asan_all at these
  too; ThreadSanitizer at every test, and at every other source outside of ops/ but tensors' kernels for one
  instruction set.
- A test that asks for AddressSanitizer, itself or in a header of ours, is compiled with it. A test that does not
  ask is not, except in folders of templates.
- In every configuration, a test whose flags differ from those of the tests' precompiled header is told not to
  read it, and the header itself is not.
- What leaves a source out of a pattern matches its path and its label alike, as Bazel wants it.

Prints what is wrong, one line each, and exits 1 if anything is.
"""

import functools
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Iterator, NamedTuple

ROOT = Path(__file__).resolve().parent.parent.parent
SOURCE = re.compile(r"\.(c|cc|cpp)$")
OF_TESTS = re.compile(r"_test\.cc$|/testing/")
ASKS = re.compile(r"__SANITIZE_ADDRESS__|address_sanitizer|sanitizer/\w+_interface\.h")
OWN_INCLUDE = re.compile(r'^\s*#\s*include\s*"tessera/([^"]+)"', re.MULTILINE)
# Their tests compile the templates that they test.
TEMPLATES = re.compile(r"^(tensor|compat/mshadow)/")
NOT_THREADED = re.compile(r"^ops/(?!.*_test\.cc$)|^tensor/.*_(avx2|avx512|baseline)\.cc$")
CONFIGS = ("", "unoptimized", "asan", "asan_without_lines", "asan_all", "ubsan", "tsan")
# The source that tools/precompiled/precompiled.bzl makes, which gets the flags of an ordinary test.
PRECOMPILED = "tools/precompiled/tests/precompiled_test.cc"
NOT_PRECOMPILED = "-DTESSERA_NOT_PRECOMPILED"


class PerFile(NamedTuple):
    """One --per_file_copt."""

    included: list[re.Pattern]
    excluded: list[re.Pattern]
    flags: list[str]

    def matches(self, name: str) -> bool:
        return not self.leaves_out(name) and any(p.search(name) for p in self.included)

    def leaves_out(self, name: str) -> bool:
        return any(p.search(name) for p in self.excluded)


def per_file_options(config: str) -> list[PerFile]:
    """Returns the options of `build:CONFIG`, with those of the configurations that it names, or of `build` for "",
    as Bazel reads them."""
    options = []
    for line in (ROOT / ".bazelrc").read_text().splitlines():
        words = shlex.split(line, comments=True)
        if words[:1] != [f"build:{config}" if config else "build"]:
            continue
        for word in words[1:]:
            if word.startswith("--config="):
                options += per_file_options(word.partition("=")[2])
            if not word.startswith("--per_file_copt="):
                continue
            patterns, _, flags = word.partition("=")[2].partition("@")
            pieces = patterns.split(",")
            options.append(PerFile([re.compile(p) for p in pieces if not p.startswith("-")],
                                   [re.compile(p[1:]) for p in pieces if p.startswith("-")], flags.split(",")))
    return options


def label_of(path: str) -> str:
    package = next(p for p in Path(path).parents if (ROOT / p / "BUILD").exists())
    name = Path(path).relative_to(package)
    return f"//{'' if package == Path('.') else package}:{name}"


def flags_of(path: str, options: list[PerFile]) -> list[str]:
    names = (path, label_of(path))
    return [flag for option in options if any(map(option.matches, names)) for flag in option.flags]


@functools.lru_cache(None)
def asks_and_includes(path: str) -> tuple[bool, tuple[str, ...]]:
    text = (ROOT / path).read_text()
    return bool(ASKS.search(text)), tuple(p for p in OWN_INCLUDE.findall(text) if (ROOT / p).exists())


def who_asks(path: str) -> str | None:
    """Returns the source, or the header that it includes, which asks for AddressSanitizer."""
    seen, left = set(), [path]
    while left:
        current = left.pop()
        if current in seen:
            continue
        seen.add(current)
        asks, includes = asks_and_includes(current)
        if asks:
            return current
        left += includes
    return None


def complaints(path: str, configs: dict[str, list[PerFile]]) -> Iterator[str]:
    watched = "-fsanitize=address" in flags_of(path, configs["asan"])
    if not OF_TESTS.search(path):
        if not watched:
            yield "--config=asan does not look at it"
    else:
        asking = who_asks(path)
        if asking and not watched:
            yield f"{asking} asks for AddressSanitizer, and --config=asan has no pattern for it"
        if watched and not asking and not TEMPLATES.search(path):
            yield "--config=asan has a pattern for it, and it does not ask for AddressSanitizer"
    if "-fsanitize=address" not in flags_of(path, configs["asan_all"]):
        yield "--config=asan_all does not look at it"
    threads = "-fsanitize=thread" in flags_of(path, configs["tsan"])
    if threads == bool(NOT_THREADED.search(path)):
        yield f"--config=tsan {'looks' if threads else 'does not look'} at it"
    if path.endswith("_test.cc"):
        for name, options in configs.items():
            # Each configuration comes after the plain build.
            everything = configs[""] + options if name else options
            flags = flags_of(path, everything)
            if flags != flags_of(PRECOMPILED, everything) and NOT_PRECOMPILED not in flags:
                yield f"--config={name} gives it flags, and a precompiled header that has others"


def main() -> int:
    paths = subprocess.run(["git", "-c", f"safe.directory={ROOT}", "ls-files"], cwd=ROOT, check=True,
                           capture_output=True, text=True).stdout.split()
    # The consumers' workspaces have flags of their own.
    paths = [p for p in paths if SOURCE.search(p) and not p.startswith("tests/consumer/")]
    configs = {name: per_file_options(name) for name in CONFIGS}
    found = 0

    def complain(text: str) -> None:
        nonlocal found
        found += 1
        print(text)

    for path in paths:
        for complaint in complaints(path, configs):
            complain(f"{path}: {complaint}")
    for name, options in configs.items():
        if NOT_PRECOMPILED in flags_of(PRECOMPILED, options):
            complain(f".bazelrc, {name or 'build'}: {NOT_PRECOMPILED} is among the precompiled header's own flags")
        for option in options:
            halves = [p for p in paths if option.leaves_out(p) != option.leaves_out(label_of(p))]
            for path in halves:
                complain(f".bazelrc, {name or 'build'}: a pattern leaves {path} out by its path or its label alone")
    if not paths or found:
        print(f"{found} complaints about {len(paths)} sources")
        return 1
    print(f"{len(paths)} sources have the sanitizers' flags that they are to have")
    return 0


if __name__ == "__main__":
    sys.exit(main())
