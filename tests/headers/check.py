#!/usr/bin/python3
"""Holds what users include against what they were promised: check.py [--include=DIR]

- Every public header compiles alone. Many are the first that some source includes, which every build
  proves; the others are compiled here, after what of their own includes is precompiled.
- None speaks of Abseil's string_view, optional, variant, any or Span, nor includes more of Abseil than
  its settings: distributions configure those types differently.
- Without C++20, the first thing that a compiler says of any of them is the flag that is missing.
- Of an expression that must not compile, a compiler says one error, which tells what to write.

With --include=DIR the headers are those installed below DIR, otherwise those of the source tree. Prints
what is wrong, one line each, and exits 1 if anything is.
"""

import argparse
import concurrent.futures
import dataclasses
import functools
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Iterator, Sequence

ROOT = Path(__file__).resolve().parents[2]
sys.dont_write_bytecode = True
sys.path.insert(0, str(ROOT / "tools" / "docs"))

import public_headers  # noqa: E402  pylint: disable=wrong-import-position

FIRST_INCLUDE = re.compile(r'^#include ["<]([^">]+)', re.MULTILINE)
VOCABULARY = re.compile(r"\babsl::(string_view|optional|nullopt|variant|any|Span)\b")
ABSEIL = re.compile(r'^#include ["<](absl/[^">]+)', re.MULTILINE)
ABSEIL_ALLOWED = frozenset(("absl/base/config.h",))
INCLUDE = re.compile(r'\s*#\s*include ["<]([^">]+)')
CONDITION = re.compile(r"\s*#\s*(if|endif)")
GUARD = re.compile(r"^#ifndef (\w+)\n#define \1\n", re.MULTILINE)
# How many headers are precompiled for others.
PRECOMPILED = 2
DIALECT = "tessera/base/dialect.h"
FLAG = "--cxxopt=-std=c++20"
# Statements that must not compile, and a word of the only error that each has.
REFUSED = (
    ("ints + 0.5f;", "ConvertThemWithTcast"),
    ("ints *= 0.5;", "ScalarOfTheirType"),
    ("max(0.5, ints);", "ConvertThemWithTcast"),
    ("ints + floats;", "ConvertOneWithTcast"),
    ("matrix[0] = floats;", "AssignPlusTheTensorOrUseCopyOrView"),
    ("matrix.Slice(0, 1) = matrix;", "AssignPlusTheTensorOrUseCopyOrView"),
    ("on_gpu = on_gpu + 1.0f;", "need nvcc"),
)
TENSORS = """#include "tessera/tensor/tensor.h"
using namespace tessera;
Tensor<cpu, 1, int> ints;
Tensor<cpu, 1> floats;
Tensor<cpu, 2> matrix;
Tensor<gpu, 2> on_gpu;
"""
SYSTEM_INCLUDES = ("-isystem", "/usr/include/eigen3")


def sources(root: Path) -> list[Path]:
    """What Bazel compiles, as far as git would take it, but for tests: they read headers precompiled."""
    listed = subprocess.run(
        ["git", "-c", f"safe.directory={root}", "ls-files", "--cached", "--others",
         "--exclude-standard", "*.cc"],
        cwd=root, capture_output=True, text=True, check=True).stdout.split()
    return [root / path for path in listed
            if not path.startswith("tests/consumer/") and not path.endswith("_test.cc")
            and (root / path).is_file()]


def included_first(root: Path) -> set[str]:
    """Headers that some source includes before anything else."""
    found = (FIRST_INCLUDE.search(path.read_text(encoding="utf-8")) for path in sources(root))
    return {match[1] for match in found if match}


@dataclasses.dataclass
class Include:
    """An #include of a header; on a condition if anything but the guard is around it."""
    name: str
    conditional: bool
    after_text: bool  # of the header's own


@dataclasses.dataclass
class Header:
    """What one of our headers includes."""
    includes: list[Include]

    def begins_with_includes(self) -> bool:
        return not any(include.after_text for include in self.includes)


def parsed(text: str) -> Header:
    includes: list[Include] = []
    depth = -1 if GUARD.search(text) else 0
    has_text = False
    for line in re.sub(r"/\*.*?\*/|//[^\n]*", "", text.replace("\\\n", " "), flags=re.DOTALL).splitlines():
        included = INCLUDE.match(line)
        condition = CONDITION.match(line)
        if included:
            includes.append(Include(included[1], depth > 0, has_text))
        elif condition:
            depth += 1 if condition[1] == "if" else -1
        elif line.strip() and not line.lstrip().startswith("#"):
            has_text = True
    return Header(includes)


class Headers:
    """Our headers below a folder, by the names under which they are included."""

    def __init__(self, include: Path):
        self._include = include

    @functools.lru_cache(maxsize=None)
    def get(self, name: str) -> Header | None:
        """Nothing for a header of somebody else's."""
        path = self._include / name
        if not name.startswith(("tessera/", "mshadow/")) or not path.is_file():
            return None
        return parsed(path.read_text(encoding="utf-8"))

    @functools.lru_cache(maxsize=None)
    def reads(self, name: str, always: bool) -> frozenset[str]:
        """The header and whatever it includes, always or on any condition."""
        found: set[str] = set()
        waiting = [name]
        while waiting:
            name = waiting.pop()
            header = self.get(name)
            if name in found:
                continue
            found.add(name)
            waiting += [i.name for i in header.includes if not (always and i.conditional)] if header else []
        return frozenset(found)

    def may_precede(self, first: str, second: str) -> bool:
        """Whether `second` compiles alone if it compiles after `first`.

        Then everything that `first` reads is part of what `second` itself includes, always, and above all of
        its text: that text sees what it would see alone, read in another order. The order says nothing if
        whatever is included compiles alone too, which is why what public headers include is checked like them.
        """
        header = self.get(second)
        return (header is not None and header.begins_with_includes() and
                self.reads(first, False) <= self.reads(second, True) and
                second not in self.reads(first, False))

    def before_dialect(self, name: str) -> list[str] | None:
        """Headers of others that are read before the dialect is asked for; None if it is not, or late."""
        header = self.get(name)
        if name == DIALECT:
            return []
        if header is None:
            return None
        found: list[str] = []
        for include in header.includes:
            if include.after_text:
                return None
            if self.get(include.name) is None:
                found.append(include.name)
            elif include.conditional:
                return None
            else:
                rest = self.before_dialect(include.name)
                return None if rest is None else found + rest
        return None


def choose_precompiled(headers: Headers, names: Sequence[str]) -> list[str]:
    """Headers that are worth precompiling: they read much, and may precede many."""
    def length(name: str) -> int:
        # A library's header reads some hundred files more.
        return sum(100 if headers.get(read) is None and "/" in read else 1 for read in headers.reads(name, True))

    chosen: list[str] = []
    waiting = list(names)
    for _ in range(PRECOMPILED):
        chosen.append(max(names, key=lambda name: length(name) * sum(
            headers.may_precede(name, other) for other in waiting)))
        waiting = [name for name in waiting if not headers.may_precede(chosen[-1], name)]
    return chosen


def errors_of(include: Path, lines: str, dialect: str, *options: str) -> str:
    """What the compiler says about a file of these lines, or about those in options; empty where it is content."""
    command = [os.environ.get("CXX", "g++"), f"-std={dialect}", "-Wall", "-Wextra", "-Werror",
               "-Wno-missing-field-initializers", "-Wfatal-errors", "-Winvalid-pch", "-I", str(include),
               *SYSTEM_INCLUDES, *(options or ("-fsyntax-only",))]
    if lines:
        command += ["-x", "c++", "-"]
    result = subprocess.run(command, input=lines, capture_output=True, text=True, check=False,
                            env={**os.environ, "LC_ALL": "C"})
    return result.stderr if result.returncode else ""


def lines_of(*names: str) -> str:
    return "".join(f'#include "{name}"\n' for name in names)


def first_error(text: str) -> str:
    return next((line for line in text.splitlines() if "error:" in line), text[:200])


def check_alone(include: Path, headers: Headers, names: Sequence[str]) -> Iterator[str]:
    with (tempfile.TemporaryDirectory() as folder,
          concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool):
        precompiled = {name: Path(folder) / f"{number}.h"
                       for number, name in enumerate(choose_precompiled(headers, names))}

        def precompile(name: str) -> str:
            precompiled[name].write_text(lines_of(name), encoding="utf-8")
            # g++ takes none from its standard input.
            return errors_of(include, "", "c++20", "-x", "c++-header", str(precompiled[name]), "-o",
                             f"{precompiled[name]}.gch")

        def compile_alone(name: str) -> str:
            before = [p for p in precompiled if not broken[p] and headers.may_precede(p, name)]
            options = ["-fsyntax-only"]
            if before:
                best = max(before, key=lambda p: len(headers.reads(p, True)))
                options += ["-include", str(precompiled[best])]
            # Twice: guards hold too.
            return errors_of(include, lines_of(name, name), "c++20", *options)

        broken = dict(zip(precompiled, pool.map(precompile, precompiled)))
        answers = pool.map(compile_alone, names)
        for name, answer in [*broken.items(), *zip(names, answers)]:
            if answer:
                yield f"{name} does not compile alone: {first_error(answer)}"


def check_vocabulary(headers: dict[str, str]) -> Iterator[str]:
    for path, text in headers.items():
        for match in VOCABULARY.finditer(text):
            yield f"{path} speaks of {match[0]}; the standard has one"
        for included in sorted(set(ABSEIL.findall(text)) - ABSEIL_ALLOWED):
            yield f"{path} includes {included}, which belongs in a source"


def check_dialect(include: Path, headers: Headers, names: Sequence[str]) -> Iterator[str]:
    """Before the header that asks for the dialect only what is content with C++17 may be read."""
    others: set[str] = set()
    for name in names:
        found = headers.before_dialect(name)
        if found is None:
            yield f"{name} includes {DIALECT} nowhere, or after something else of Tessera's"
        others.update(found or ())
    answer = errors_of(include, lines_of(*sorted(others)), "c++17")
    if answer:
        yield f"something is included before {DIALECT} that is not C++17: {first_error(answer)}"
    answer = errors_of(include, lines_of(DIALECT), "c++17")
    if FLAG not in first_error(answer):
        yield f"{DIALECT} as C++17 does not speak of the flag that is missing: {first_error(answer)}"


def check_refused(include: Path) -> Iterator[str]:
    functions = "".join(f"void refused{number}() {{ {statement} }}\n"
                        for number, (statement, _) in enumerate(REFUSED))
    answer = errors_of(include, TENSORS + functions, "c++20", "-Wno-fatal-errors", "-fsyntax-only")
    errors = [line for line in answer.splitlines() if "error:" in line]
    for statement, word in REFUSED:
        if not any(word in error for error in errors):
            yield f"'{statement}' has no error with '{word}': {first_error(answer)}"
    if len(errors) != len(REFUSED):
        yield f"{len(errors)} errors, not one for each of {len(REFUSED)} statements: " + "; ".join(errors)


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="check", description=__doc__.partition("\n")[0])
    parser.add_argument("--include", type=Path, help="folder with installed headers")
    options = parser.parse_args(arguments)
    texts = public_headers.public_headers(ROOT)
    # Headers that are written while building exist below DIR alone.
    names = [public_headers.include_of_path(path) for path in texts
             if options.include is not None or (ROOT / path).is_file()]
    with tempfile.TemporaryDirectory() as folder:
        include = options.include
        if include is None:
            include = Path(folder)
            (include / "tessera").symlink_to(ROOT)
            (include / "mshadow").symlink_to(ROOT / "compat" / "mshadow")
        absent = [name for name in names if not (include / name).is_file()]
        proven = included_first(ROOT)
        headers = Headers(include)
        # With what they include: Headers.may_precede tells why.
        ours = {read for name in names for read in headers.reads(name, True) if headers.get(read)}
        alone = sorted(name for name in ours if name not in proven)
        problems = [f"{name} is not below {include}" for name in absent]
        problems += check_vocabulary(texts)
        problems += check_alone(include, headers, alone)
        problems += check_dialect(include, headers, [name for name in names if name not in absent])
        problems += check_refused(include)
    if not alone or not proven.intersection(names):
        problems.append("nothing was checked: no headers, or no sources")
    print("\n".join(problems) or
          f"{len(names)} public headers compile alone; {len(alone)} headers compiled here")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
