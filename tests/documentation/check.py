#!/usr/bin/python3
"""Holds the documentation against the code: check.py [ROOT]

- Every C++ block in README.md, CONTRIBUTING.md and docs/ is an excerpt of one C++ file that a BUILD
  file names, word for word but for indentation; every Python block in docs/ is one of a BUILD,
  WORKSPACE, .bzl or .py file, every CMake block one of a CMakeLists.txt.
- Every environment variable that the code reads has its row in docs/settings.md, and every row names
  one that is read.
- Every relative link leads to a file.

Prints what is wrong, one line each, and exits 1 if anything is.
"""

import re
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Iterator, Sequence

DOCUMENTS = ("README.md", "CONTRIBUTING.md", "docs/")
CPP_SUFFIXES = (".h", ".cc", ".cu")
DEVICES = ("CPU", "GPU", "CPU_PINNED", "CPU_SHARED")
# Set by Bazel's flags or by the tests of reading itself; no setting of anybody's.
NO_SETTINGS = frozenset(("TESSERA_ENVIRONMENT_TEST",))

READ = re.compile(
    r'(?:getenv|EnvironmentInt|EnvironmentBool|EnvironmentString|environ\.get)\(\s*"(TESSERA_\w+)"')
READ_IN_SHELL = re.compile(r"\$\{(TESSERA_\w+)")
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\(([^)#\s]+)(?:#[^)]*)?\)")
ROW = re.compile(r"^\| `(TESSERA_\w+)` \|", re.MULTILINE)


def tracked(root: Path) -> list[str]:
    """The files that git knows or would take, as in a commit that is being made."""
    listed = subprocess.run(
        ["git", "-c", f"safe.directory={root}", "ls-files", "--cached", "--others",
         "--exclude-standard"],
        cwd=root, capture_output=True, text=True, check=True).stdout.split("\n")
    return [path for path in listed if path and (root / path).is_file()]


class Tree:
    """The files of the repository, each read once."""

    def __init__(self, root: Path):
        self.root = root
        self.paths = tracked(root)
        self._texts: dict[str, str] = {}

    def text(self, path: str) -> str:
        if path not in self._texts:
            self._texts[path] = (self.root / path).read_text(encoding="utf-8")
        return self._texts[path]

    def documents(self) -> list[str]:
        return [p for p in self.paths if p.endswith(".md") and p.startswith(DOCUMENTS)]

    def compiled(self) -> list[str]:
        """C++ files that the BUILD file beside or above them mentions, whole or by their stem."""
        return [p for p in self.paths
                if p.endswith(CPP_SUFFIXES) and not p.startswith("third_party/") and self._built(p)]

    def _built(self, path: str) -> bool:
        folder = Path(path).parent
        while True:
            build = str(folder / "BUILD")
            if build in self.paths:
                name = Path(path).relative_to(folder)
                # Lists in BUILD files may make names: component + "_example".
                stems = {str(name), name.stem, name.stem.partition("_")[0]}
                return any(f'"{stem}"' in self.text(build) for stem in stems)
            if folder == folder.parent:
                return False
            folder = folder.parent


def lines_of(text: str) -> list[str]:
    """Lines without indentation and without what stands at their ends; empty ones are left out."""
    return [line.strip() for line in text.splitlines() if line.strip()]


def contains(haystack: Sequence[str], needle: Sequence[str]) -> bool:
    first = needle[0]
    return any(line == first and list(haystack[i:i + len(needle)]) == list(needle)
               for i, line in enumerate(haystack))


def check_blocks(tree: Tree) -> Iterator[str]:
    cpp = [lines_of(tree.text(p)) for p in tree.compiled()]
    python = [lines_of(tree.text(p)) for p in tree.paths
              if p.endswith((".py", ".bzl", "BUILD", "WORKSPACE", "MODULE.bazel"))]
    cmake = [lines_of(tree.text(p)) for p in tree.paths if p.endswith("CMakeLists.txt")]
    for document in tree.documents():
        text = tree.text(document)
        for block in BLOCK.finditer(text):
            language, body = block[1], lines_of(textwrap.dedent(block[2]))
            where = f"{document}:{text.count(chr(10), 0, block.start()) + 1}"
            if language in ("cpp", "c++"):
                sources = cpp
            elif language == "cmake":
                sources = cmake
            elif language == "python" and document.startswith("docs/"):
                sources = python
            else:
                continue
            if not body or not any(contains(source, body) for source in sources):
                yield f"{where}: this block is no excerpt of a file that is built"


def variables_read(tree: Tree) -> dict[str, str]:
    """Each environment variable with a file that reads it."""
    found: dict[str, str] = {}
    for path in tree.paths:
        if path.endswith((*CPP_SUFFIXES, ".bzl", ".py")):
            pattern = READ
        elif path.endswith(".sh") or path in ("bazelw", ".ci/run"):
            pattern = READ_IN_SHELL
        else:
            continue
        if path.startswith("tests/documentation/"):
            continue
        text = tree.text(path)
        for name in pattern.findall(text):
            found.setdefault(name, path)
        # "TESSERA_CPU_MEM_" with "POOL_TYPE" added to it in the same file.
        prefixes = re.findall(r'return "(TESSERA_\w+_)";', text)
        for suffix in re.findall(r'prefix \+ "(\w+)"', text):
            for prefix in prefixes:
                found.setdefault(prefix + suffix, path)
    return {name: path for name, path in found.items() if name not in NO_SETTINGS}


def check_settings(tree: Tree) -> Iterator[str]:
    rows = set()
    for name in ROW.findall(tree.text("docs/settings.md")):
        if "_DEV_" in name:
            rows.update(name.replace("_DEV_", f"_{device}_") for device in DEVICES)
        else:
            rows.add(name)
    read = variables_read(tree)
    for name in sorted(read.keys() - rows):
        yield f"{read[name]} reads {name}, which docs/settings.md does not list"
    for name in sorted(rows - read.keys()):
        yield f"docs/settings.md lists {name}, which nothing reads"


def check_links(tree: Tree) -> Iterator[str]:
    for document in tree.documents():
        # C++ has brackets before parentheses too.
        for target in LINK.findall(BLOCK.sub("", tree.text(document))):
            if "://" in target or target.startswith("mailto:"):
                continue
            if not (tree.root / document).parent.joinpath(target).exists():
                yield f"{document} links to {target}, which is not there"


def main(arguments: Sequence[str]) -> int:
    root = Path(arguments[0] if arguments else Path(__file__).parents[2]).resolve()
    tree = Tree(root)
    problems = [*check_blocks(tree), *check_settings(tree), *check_links(tree)]
    if len(tree.documents()) < 2 or not variables_read(tree):
        problems.append("nothing was checked: no documents, or no environment variable is read")
    print("\n".join(problems) or f"{len(tree.documents())} documents agree with the code")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
