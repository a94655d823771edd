#!/usr/bin/env python3
"""Holds the sources that .bazelrc gives a sanitizer's flags against what they are to be.

- AddressSanitizer looks at every source but tests and what lies in testing/; ThreadSanitizer at every test,
  and at every other source outside of ops/ and of the kernels of tensors.
- A test that asks for AddressSanitizer, itself or in a header of ours, is compiled with it, and without the
  tests' precompiled header, which is not. A test that does not ask is not, except in folders of templates.
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
NOT_THREADED = re.compile(r"^(ops|tensor/(linalg|nn|packet|random))/(?!.*_test\.cc$)")


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
    """Returns the options of `build:CONFIG`, or of `build` for "", as Bazel reads them."""
    options = []
    for line in (ROOT / ".bazelrc").read_text().splitlines():
        words = shlex.split(line, comments=True)
        if words[:1] != [f"build:{config}" if config else "build"]:
            continue
        for word in words[1:]:
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


def complaints(path: str, asan: list[PerFile], tsan: list[PerFile]) -> Iterator[str]:
    address = flags_of(path, asan)
    watched = "-fsanitize=address" in address
    if not OF_TESTS.search(path):
        if not watched:
            yield "--config=asan does not look at it"
    else:
        asking = who_asks(path)
        if asking and not watched:
            yield f"{asking} asks for AddressSanitizer, and --config=asan has no pattern for it"
        if watched and not asking and not TEMPLATES.search(path):
            yield "--config=asan has a pattern for it, and it does not ask for AddressSanitizer"
        if address and "-DTESSERA_NOT_PRECOMPILED" not in address and path.endswith("_test.cc"):
            yield "--config=asan gives it flags and a precompiled header that has others"
    threads = "-fsanitize=thread" in flags_of(path, tsan)
    if threads == bool(NOT_THREADED.search(path)):
        yield f"--config=tsan {'looks' if threads else 'does not look'} at it"


def main() -> int:
    paths = subprocess.run(["git", "-c", f"safe.directory={ROOT}", "ls-files"], cwd=ROOT, check=True,
                           capture_output=True, text=True).stdout.split()
    # The consumers' workspaces have flags of their own.
    paths = [p for p in paths if SOURCE.search(p) and not p.startswith("tests/consumer/")]
    configs = {name: per_file_options(name) for name in ("", "unoptimized", "asan", "ubsan", "tsan")}
    found = 0

    def complain(text: str) -> None:
        nonlocal found
        found += 1
        print(text)

    for path in paths:
        for complaint in complaints(path, configs["asan"], configs["tsan"]):
            complain(f"{path}: {complaint}")
    for name, options in configs.items():
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
