#!/usr/bin/python3
"""Holds what users include against what they were promised: check.py [--include=DIR]

- Every public header compiles alone. Most are the first that some source includes, which every build
  proves; the others are compiled here.
- None speaks of Abseil's string_view, optional, variant, any or Span, nor includes more of Abseil than
  its settings: distributions configure those types differently.
- Without C++20, the first thing that a compiler says of any header of base, or of another component's, is
  the flag that is missing.

With --include=DIR the headers are those installed below DIR, otherwise those of the source tree. Prints
what is wrong, one line each, and exits 1 if anything is.
"""

import argparse
import concurrent.futures
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
FLAG = "--cxxopt=-std=c++20"
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


def errors_of(include: Path, header: str, dialect: str) -> str:
    """What the compiler says about a file that includes this header alone; empty where it is content."""
    command = [os.environ.get("CXX", "g++"), "-x", "c++", f"-std={dialect}", "-fsyntax-only",
               "-Wall", "-Wextra", "-Werror", "-Wno-missing-field-initializers", "-Wfatal-errors",
               "-I", str(include), *SYSTEM_INCLUDES, "-"]
    # Twice: guards hold too.
    line = f'#include "{header}"\n'
    result = subprocess.run(command, input=2 * line, capture_output=True, text=True, check=False,
                            env={**os.environ, "LC_ALL": "C"})
    return result.stderr if result.returncode else ""


def first_error(text: str) -> str:
    return next((line for line in text.splitlines() if "error:" in line), text[:200])


def check_alone(include: Path, headers: Sequence[str]) -> Iterator[str]:
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        answers = pool.map(lambda header: errors_of(include, header, "c++20"), headers)
        for header, answer in zip(headers, answers):
            if answer:
                yield f"{header} does not compile alone: {first_error(answer)}"


def check_vocabulary(headers: dict[str, str]) -> Iterator[str]:
    for path, text in headers.items():
        for match in VOCABULARY.finditer(text):
            yield f"{path} speaks of {match[0]}; the standard has one"
        for included in sorted(set(ABSEIL.findall(text)) - ABSEIL_ALLOWED):
            yield f"{path} includes {included}, which belongs in a source"


def check_dialect(include: Path, headers: Sequence[str]) -> Iterator[str]:
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        answers = pool.map(lambda header: errors_of(include, header, "c++17"), headers)
        for header, answer in zip(headers, answers):
            if FLAG not in first_error(answer):
                yield f"{header} as C++17 does not begin with the flag that is missing: {first_error(answer)}"


def doors(headers: Sequence[str]) -> list[str]:
    """All of base, and of each other component the header which has its name or else its first."""
    found: dict[str, str] = {}
    for header in headers:
        component = header.split("/")[-2]
        if component not in found or header.endswith(f"/{component}.h"):
            found[component] = header
    return sorted({*found.values(), *(h for h in headers if h.startswith("tessera/base/"))})


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="check", description=__doc__.partition("\n")[0])
    parser.add_argument("--include", type=Path, help="folder with installed headers")
    options = parser.parse_args(arguments)
    texts = public_headers.public_headers(ROOT)
    names = [public_headers.include_of_path(path) for path in texts]
    with tempfile.TemporaryDirectory() as folder:
        include = options.include
        if include is None:
            include = Path(folder)
            (include / "tessera").symlink_to(ROOT)
            (include / "mshadow").symlink_to(ROOT / "compat" / "mshadow")
        absent = [name for name in names if not (include / name).is_file()]
        proven = included_first(ROOT)
        alone = [name for name in names if name not in proven and name not in absent]
        problems = [f"{name} is not below {include}" for name in absent]
        problems += check_vocabulary(texts)
        problems += check_alone(include, alone)
        problems += check_dialect(include, doors(names))
    if not alone or len(names) == len(alone):
        problems.append("nothing was checked: no headers, or no sources")
    print("\n".join(problems) or
          f"{len(names)} public headers compile alone, {len(alone)} of them here")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
