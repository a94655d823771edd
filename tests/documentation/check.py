#!/usr/bin/python3
"""Holds the documentation against the code: check.py [ROOT]

- Every C++ block in README.md, CONTRIBUTING.md and docs/ is an excerpt of one C++ file that a BUILD
  file names and a test runs, or of a header, word for word but for indentation; every Python block is
  one of a BUILD, WORKSPACE, MODULE.bazel, .bzl or .py file, every CMake block one of a CMakeLists.txt,
  every block of `build` lines one of a .bazelrc, and of a text, which a program prints, a test knows every
  line. There are no other blocks, and what is indented is commands.
- Every command that a page shows gives programs and Bazel flags, settings and configurations that they know.
- Every environment variable that the code reads and every flag of a program have their rows in
  docs/settings.md, and every row names one that is read; ranges and defaults are the code's wherever they
  are numbers or literals there. docs/benchmarks.md says the same of a session's flags.
- Every error's code has its row in docs/errors.md. Every component has a benchmark that counts its work.
- Whatever docs/coming-from-mxnet.md offers instead of MXNet's names exists.
- The registry's files name every public target, and one version stands in all places. MODULE.bazel knows every
  repository that a BUILD or .bzl file names, and those that one loads from without development's dependencies.
- Each magic number of a file format stands in the sources.
- Every relative link leads to a file, and every label of Bazel's to a target or a file.

Prints what is wrong, one line each, and exits 1 if anything is.
"""

import ast
import json
import re
import shlex
import subprocess
import sys
import textwrap
from pathlib import Path
from types import MappingProxyType
from typing import Iterator, Mapping, Sequence

DOCUMENTS = ("README.md", "CONTRIBUTING.md", "docs/")
CPP_SUFFIXES = (".h", ".cc", ".cu")
DEVICES = ("CPU", "GPU", "CPU_PINNED", "CPU_SHARED")
# Set by Bazel, the system, or the tests themselves; no setting of Tessera's.
NO_SETTINGS = frozenset((
    "TESSERA_ENVIRONMENT_TEST", "BUILD_WORKING_DIRECTORY", "BUILD_WORKSPACE_DIRECTORY", "TEST_TMPDIR",
    "ASAN_OPTIONS", "HOME", "TMPDIR", "PATH", "LD_LIBRARY_PATH", "SUDO_REFUSES"))

# Programs with flags, the file that reads these, and how it names one.
_ARGPARSE = re.compile(r'add_argument\(\s*"(--[\w-]+)"')
_BOOL_FLAG = re.compile(r'bool_flag\(\s*name = "(\w+)"')
FLAGS = (
    ("the build", ".bazelrc", re.compile(r"^(?:build|test|run)():\w", re.MULTILINE)),
    ("the build", "tools/cuda/BUILD", _BOOL_FLAG),
    ("the build", "tools/precompiled/BUILD", _BOOL_FLAG),
    *((f"`//examples/{program}`", f"examples/{path}", re.compile(r'add_option\(\s*"(--[\w-]+)"')) for program, path in (
        ("characters:lstm", "characters/options.cc"), ("characters:transformer", "characters/options.cc"),
        ("digits", "digits/options.cc"), ("factorization_machine", "factorization_machine/main.cc"),
        ("resnet", "resnet/main.cc"), ("serve", "serve/main.cc"))),
    ("`//benchmarks:run`", "benchmarks/run.py", _ARGPARSE),
    ("`//benchmarks:compare`", "benchmarks/compare.py", _ARGPARSE),
    ("`//benchmarks:dashboard`", "benchmarks/dashboard.py", _ARGPARSE),
    ("`//benchmarks:compile_time`", "benchmarks/compile_time.py", _ARGPARSE),
    ("`//ndarray:sparse_benchmark`", "ndarray/benchmark/sparse_benchmark.cc", re.compile(r'starts_with\("(--\w+)="')),
    ("comparing benchmarks", "tools/benchmark/ratio_benchmark.cc",
     re.compile(r'(?:flag == |starts_with\()"(--\w+)=?"')),
    ("`//tools:operators`", "tools/operators/main.cc", re.compile(r'add_(?:option|flag)\(\s*"(--[\w-]+)"')),
    ("`//tools:im2rec`", "tools/im2rec/options.cc", re.compile(r'add_(?:option|flag)\(\s*"(--[\w-]+)"')),
    ("`//tools:install`", "tools/install.sh", re.compile(r"^\s*(--\w+)=\?\*\)", re.MULTILINE)),
    ("`tessera_mxnet.launch`", "compat/mxnet/python/tessera_mxnet/launch.py", _ARGPARSE),
    ("`//tools/docs:site`", "tools/docs/make_site.py", _ARGPARSE),
)
# Started by others alone.
NO_PROGRAMS = ("benchmarks/peers/python_peer.py", "tests/")
# What a test or .ci/run runs; headers are part of it, and operators, which operators_test runs.
RUN = re.compile(r"(_test|_example)\.cc$|^examples/|^tests/consumer/|^ops/|\.h$")

READ = re.compile(
    r'(?:(?:getenv|EnvironmentInt|EnvironmentBool|EnvironmentString|environ\.get)\(|environ\[)\s*"([A-Z]\w+)"')
# However it is read then; without the compiler's macros.
NAMED = re.compile(r'"(TESSERA_(?!XPU_)[A-Z0-9_]*[A-Z0-9])"')
# Of names that are not Tessera's, those that may come from outside: they have a default.
READ_IN_SHELL = re.compile(r"\$(?=\{?TESSERA_|\{\w+:?-)\{?([A-Z][A-Z0-9_]+)")
SHELL_SCRIPT = re.compile(r"#!/bin/(?:ba)?sh\b")
# What a benchmark counts, in the words of tools/benchmark and in Google Benchmark's.
WORK = re.compile(r"\.(bytes|flops|items) = |Set(Bytes|Items)Processed|flop/s")
BLOCK = re.compile(r"^```(\S*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
INDENTED = re.compile(r"(?<=\n\n)(?: {4}.*\n|\n(?= {4}))+")
COMMAND = re.compile(r"(?:git|\./bazelw|\.ci/(?:run|extended)|tools/\S+\.sh|python3)\b")
PICTURES = ("mermaid",)
LINK = re.compile(r"\]\(([^)#\s]+)(?:#[^)]*)?\)")
LABEL = re.compile(r"(?:(?<=[\s`\"'(={])|@tessera|@runtime)//([\w/]*\w)?(?::([\w.]+\w))?(?![\w/]*(?:\.\.\.|<))")
# Of Bazel itself, or of a workspace that a page tells of.
NO_LABELS = ("//visibility:", "//own:", "//:clusters")
ROW = re.compile(r"^\| `([A-Z]\w+)` \| [^|]+ \| ([^|]*) \| ([^|]*) \|", re.MULTILINE)
# A number with its default, least and greatest value.
RANGE = re.compile(r'EnvironmentInt\(\s*"(TESSERA_\w+)",')
FLAG_ROW = re.compile(r"^\| `(--[^`]+)` \| ([^|]+) \| ([^|]*) \| ([^|]*) \|", re.MULTILINE)


def tracked(root: Path) -> list[str]:
    """The files that git knows or would take, as in a commit that is being made."""
    listed = subprocess.run(
        ["git", "-c", f"safe.directory={root}", "ls-files", "--cached", "--others",
         "--exclude-standard"],
        cwd=root, capture_output=True, text=True, check=True).stdout.split("\n")
    return [path for path in listed if path and (root / path).is_file()]


class Tree:
    """The files of the repository, each read once, or not at all where its text is known."""

    def __init__(self, root: Path, known: Mapping[str, str] = MappingProxyType({})):
        self.root = root
        self.paths = tracked(root)
        self._texts = {**known}

    def texts(self) -> Iterator[tuple[str, str]]:
        """Every file that is one."""
        for path in self.paths:
            try:
                yield path, self.text(path)
            except UnicodeDecodeError:
                continue

    def text(self, path: str) -> str:
        if path not in self._texts:
            self._texts[path] = (self.root / path).read_text(encoding="utf-8")
        return self._texts[path]

    def is_shell_script(self, path: str) -> bool:
        if path.endswith(".sh"):
            return True
        with (self.root / path).open("rb") as file:
            return bool(SHELL_SCRIPT.match(file.readline(80).decode("utf-8", errors="replace")))

    def documents(self) -> list[str]:
        return [p for p in self.paths if p.endswith(".md") and p.startswith(DOCUMENTS)]

    def compiled(self) -> list[str]:
        """C++ files that the BUILD file beside or above them mentions, whole or by their stem."""
        return [p for p in self.paths
                if p.endswith(CPP_SUFFIXES) and not p.startswith("third_party/") and RUN.search(p) and
                self._built(p)]

    def _built(self, path: str) -> bool:
        folder = Path(path).parent
        while True:
            build = str(folder / "BUILD")
            if build in self.paths:
                name = Path(path).relative_to(folder)
                # Lists in BUILD files may make names: component + "_example".
                stems = {str(name), name.stem, name.stem.removesuffix("_example")}
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


def is_held(tree: Tree, document: str, printed: Sequence[str]) -> bool:
    """Whether a test compares the page with what is printed, or the lines' beginnings stand in a docs_test.cc."""
    if any(path.endswith("_test.sh") and document in tree.text(path) for path in tree.paths):
        return True
    known = tuple(literal for path in tree.paths if path.endswith("/docs_test.cc")
                  for literal in re.findall(r'HasSubstr\("(.{16,})"\)', tree.text(path)))
    return bool(printed) and all(line.startswith(known) for line in printed)


def check_blocks(tree: Tree) -> Iterator[str]:
    cpp = [lines_of(tree.text(p)) for p in tree.compiled()]
    python = [lines_of(tree.text(p)) for p in tree.paths
              if p.endswith((".py", ".bzl", "BUILD", "WORKSPACE", "MODULE.bazel"))]
    cmake = [lines_of(tree.text(p)) for p in tree.paths if p.endswith("CMakeLists.txt")]
    bazelrc = [lines_of(tree.text(p)) for p in tree.paths if p.endswith(".bazelrc")]
    for document in tree.documents():
        text = tree.text(document)
        for block in BLOCK.finditer(text):
            language, body = block[1], lines_of(textwrap.dedent(block[2]))
            where = f"{document}:{text.count(chr(10), 0, block.start()) + 1}"
            if language in ("cpp", "c++"):
                sources = cpp
            elif language == "cmake":
                sources = cmake
            elif language == "python":
                sources = python
            elif language == "" and body[:1] and body[0].startswith("build "):
                sources = bazelrc
            elif language in PICTURES or language == "text" and is_held(tree, document, body):
                continue
            else:
                yield f"{where}: no test knows what to do with a block of {language or 'no language'}"
                continue
            if not body or not any(contains(source, body) for source in sources):
                yield f"{where}: this block is no excerpt of a file that is built"


def commands(tree: Tree) -> Iterator[tuple[str, str]]:
    """Every line of an indented block with its place; one that ends in a backslash goes on in the next."""
    for document in tree.documents():
        text = BLOCK.sub(lambda block: "\n" * block[0].count("\n"), tree.text(document))
        for block in INDENTED.finditer(text):
            line = text.count("\n", 0, block.start()) + 1
            for number, command in enumerate(re.sub(r"\\\n\s*", "", block[0]).splitlines()):
                if command:
                    yield f"{document}:{line + number}", command.strip()


def check_commands(tree: Tree) -> Iterator[str]:
    settings = {name for name, _, _ in setting_rows(tree)}
    configs = set(re.findall(r"^(?:build|test|run):(\w+)", tree.text(".bazelrc"), re.MULTILINE))
    programs = flags_read(tree)
    for where, command in commands(tree):
        if not COMMAND.match(command):
            yield f"{where}: {command} is no command, and code in another block than ``` is not tested"
            continue
        words = shlex.split(command, comments=True)
        options, _, arguments = (list(part) for part in partition(words, "--"))
        for option in options:
            name, _, value = option.partition("=")
            if name == "--config" and value not in configs:
                yield f"{where}: .bazelrc has no {option}"
            elif name in ("--test_env", "--repo_env") and value.partition("=")[0] not in settings:
                yield f"{where}: nothing reads {value}"
        if options[:2] != ["./bazelw", "run"]:
            continue
        label = options[-1]
        known = {name for name, program in programs if program == f"`{label}`" or
                 program == "comparing benchmarks" and label.endswith("_benchmark")}
        for argument in arguments:
            name = argument.partition("=")[0]
            if name.startswith("--") and name not in known and not (
                    label.endswith("_benchmark") and name.startswith("--benchmark_")):
                yield f"{where}: {label} knows no {name}"


def partition(words: Sequence[str], separator: str) -> tuple[Sequence[str], Sequence[str], Sequence[str]]:
    """What stands before the first such word, the word, and what stands behind it."""
    at = words.index(separator) if separator in words else len(words)
    return words[:at], words[at:at + 1], words[at + 1:]


def setting_rows(tree: Tree) -> Iterator[tuple[str, str, str]]:
    """Each environment variable of docs/settings.md with its values and its default."""
    for name, values, default in ROW.findall(tree.text("docs/settings.md")):
        for device in DEVICES if "_DEV_" in name else ("",):
            yield name.replace("_DEV_", f"_{device}_"), values, default


def variables_read(tree: Tree, pattern: re.Pattern[str] = READ) -> dict[str, str]:
    """Each environment variable with a file that reads it; in programs a pattern tells them."""
    found: dict[str, str] = {}
    for path in tree.paths:
        if path.startswith("tests/documentation/"):
            continue
        if path.endswith((*CPP_SUFFIXES, ".bzl", ".py")):
            text = tree.text(path)
            names = pattern.findall(text)
        elif tree.is_shell_script(path):
            text = tree.text(path)
            names = READ_IN_SHELL.findall(text)
        else:
            continue
        for name in names:
            found.setdefault(name, path)
        # "TESSERA_CPU_MEM_" with "POOL_TYPE" added to it in the same file.
        prefixes = re.findall(r'return "(TESSERA_\w+_)";', text)
        for suffix in re.findall(r'prefix \+ "(\w+)"', text):
            for prefix in prefixes:
                found.setdefault(prefix + suffix, path)
    return {name: path for name, path in found.items() if name not in NO_SETTINGS}


def arguments_at(text: str, start: int) -> list[str]:
    """The arguments of a call from there to its end."""
    found, depth = [""], 0
    for character in text[start:]:
        depth += (character in "([{") - (character in ")]}")
        if depth < 0:
            break
        if character == "," and depth == 0:
            found.append("")
        else:
            found[-1] += character
    return found


def number_in(text: str, source: str) -> int | None:
    """The value of a C++ expression that is a number, a shifted one, or the name of such a constant."""
    text = text.strip()
    number = re.fullmatch(r"(?:int64_t\{(\d+)\} << )?(\d+)", text)
    if number:
        return int(number[1]) << int(number[2]) if number[1] else int(number[2])
    constant = re.search(rf"constexpr [\w:]+ {re.escape(text)} = ([^;]+);", source) if text else None
    return number_in(constant[1], source) if constant else None


def check_settings(tree: Tree) -> Iterator[str]:
    rows = {name: (values, default) for name, values, default in setting_rows(tree)}
    read = variables_read(tree)
    named = {**variables_read(tree, NAMED), **read}
    for name in sorted(named.keys() - rows):
        yield f"{named[name]} reads {name}, which docs/settings.md does not list"
    for name in sorted(rows - read.keys()):
        yield f"docs/settings.md lists {name}, which nothing reads"
    for path in tree.paths:
        if not path.endswith(CPP_SUFFIXES):
            continue
        for call in RANGE.finditer(tree.text(path)):
            name = call[1]
            values, said_default = rows.get(name, ("", ""))
            said = re.match(r"(\d+) (?:to (\d+)|and above)", values)
            found = [number_in(text, tree.text(path)) for text in arguments_at(tree.text(path), call.end())]
            expected = (said_default, *(said.groups() if said else (None, None)))
            for what, one, other in zip(("default", "least", "greatest"), found, expected):
                if one is not None and other and other.isdecimal() and one != int(other):
                    yield f"{path} has {one} as {what} of {name}; docs/settings.md says {other}"


def flags_read(tree: Tree) -> dict[tuple[str, str], str]:
    """Each flag and its program, with the file that reads it."""
    found = {}
    for program, path, pattern in FLAGS:
        for name in pattern.findall(tree.text(path)):
            if path == ".bazelrc":
                name = "--config"
            elif path.endswith("/BUILD"):
                name = f"--//{path.removesuffix('/BUILD')}:{name}"
            found[name, program] = path
    return found


def check_flags(tree: Tree) -> Iterator[str]:
    rows = {(name, program): values
            for name, program, values, _ in FLAG_ROW.findall(tree.text("docs/settings.md"))}
    read = flags_read(tree)
    for name, program in sorted(read.keys() - rows.keys()):
        yield f"{read[name, program]} reads {name}, which docs/settings.md does not list"
    for name, program in sorted(rows.keys() - read.keys()):
        yield f"docs/settings.md lists {name} of {program}, which nothing reads"
    configs = set(re.findall(r"^(?:build|test|run):(\w+)", tree.text(".bazelrc"), re.MULTILINE))
    listed = set(re.findall(r"`(\w+)`", rows.get(("--config", "the build"), "")))
    for name in sorted(configs ^ listed):
        yield f"--config={name} stands in only one of .bazelrc and docs/settings.md"
    known = {path for _, path, _ in FLAGS}
    for path in tree.paths:
        if (path.endswith((".py", ".cc")) and not path.startswith(NO_PROGRAMS) and path not in known and
                re.search(r'add_(argument|option|flag)\(\s*"--', tree.text(path))):
            yield f"{path} reads flags, and FLAGS in tests/documentation/check.py does not know it"
        if path.endswith("/BUILD") and path not in known and _BOOL_FLAG.search(tree.text(path)):
            yield f"{path} has flags, and FLAGS in tests/documentation/check.py does not know it"


def defaults_of(tree: Tree, path: str) -> Iterator[tuple[str, str]]:
    """Flags with the default that their program gives them, where that is a literal."""
    text = tree.text(path)
    if path.endswith(".cc") and path[:-2] + "h" in tree.paths:
        fields = dict(re.findall(r"^  [\w:]+ (\w+) = ([^;]+);", tree.text(path[:-2] + "h"), re.MULTILINE))
        for name, field in re.findall(r'add_option\(\s*"(--[\w-]+)", options\.(\w+)', text):
            if field in fields:
                yield name, fields[field].strip('"')
    if not path.endswith(".py"):
        return
    constants = {}
    for source in [text, *(tree.text(str(Path(path).with_name(f"{module}.py")))
                           for module in re.findall(r"^import (comparison)$", text, re.MULTILINE))]:
        constants.update(re.findall(r"^([A-Z_]+) = ([\d.]+)\b", source, re.MULTILINE))
    for call in ast.walk(ast.parse(text)):
        if not (isinstance(call, ast.Call) and getattr(call.func, "attr", "") == "add_argument"):
            continue
        name = getattr(call.args[0], "value", "")
        given = {keyword.arg: keyword.value for keyword in call.keywords}
        default = given.get("default")
        if "required" in given:
            yield name, "required"
        elif getattr(given.get("action"), "value", "") == "store_true":
            yield name, "off"
        elif isinstance(default, ast.Constant):
            yield name, str(default.value)
        elif isinstance(default, ast.Attribute):
            yield name, constants[default.attr]


def check_defaults(tree: Tree) -> Iterator[str]:
    rows = {(name, program): default.strip("`")
            for name, program, _, default in FLAG_ROW.findall(tree.text("docs/settings.md"))}
    for program, path, _ in FLAGS:
        for name, default in defaults_of(tree, path):
            said = rows.get((name, program), "")
            try:
                same = float(said) == float(default)
            except ValueError:
                # Nothing, and 0 where it means nothing, are told in words.
                same = said == default or default in ("", "0")
            if not same:
                yield f"{path} has {default} as default of {name}; docs/settings.md says {said or 'nothing'}"


def check_flag_tables(tree: Tree) -> Iterator[str]:
    """Flags of a session stand once more on the page about sessions, with the same defaults."""
    program = "`//benchmarks:run`"
    rows = {name: default.strip("`") for name, its, _, default in
            FLAG_ROW.findall(tree.text("docs/settings.md")) if its == program}
    shown = dict(re.findall(r"^\| `(--[\w-]+)=[A-Z]+` \| ([^|]*) \|", tree.text("docs/benchmarks.md"), re.MULTILINE))
    for name in sorted(rows.keys() | shown.keys()):
        if rows.get(name) != shown.get(name):
            yield (f"docs/benchmarks.md has {shown.get(name, 'nothing')} as default of {name}; "
                   f"docs/settings.md says {rows.get(name, 'nothing')}")


def check_errors(tree: Tree) -> Iterator[str]:
    codes = set(re.findall(r"absl::StatusCode (k\w+)\{", tree.text("base/error.h")))
    rows = set(re.findall(r"^\| `(k\w+)` \|", tree.text("docs/errors.md"), re.MULTILINE))
    for code in sorted(codes ^ rows):
        yield f"Error::{code} stands in only one of base/error.h and docs/errors.md"
    if not codes:
        yield "no code was found in base/error.h"


def check_names_for_mxnet(tree: Tree) -> Iterator[str]:
    offered = tree.text("docs/coming-from-mxnet.md").partition("## What is not here")[0]
    registered = {
        name for path in tree.paths if path.startswith("ops/") and path.endswith(".cc") and
        not path.endswith("_test.cc")
        for name in re.findall(r"^TESSERA_REGISTER_OPERATOR\((\w+)", tree.text(path), re.MULTILINE)}
    known = registered | variables_read(tree).keys() | set(re.findall(r"\w+", " ".join(
        tree.text(path) for path in tree.paths if path.endswith(".h") or path == "BUILD")))
    cells = re.findall(r"^\| [^|]+ \| ([^|]+) \|", offered, re.MULTILINE)
    names = {name for cell in cells for code in re.findall(r"`([^`]+)`", cell)
             for name in re.findall(r"[A-Za-z_]\w{3,}", code)}
    for name in sorted(names - known):
        yield f"docs/coming-from-mxnet.md offers {name}, which is not there"


def check_magic_numbers(tree: Tree) -> Iterator[str]:
    sources = "\n".join(text for path, text in tree.texts() if path.endswith(CPP_SUFFIXES)).lower()
    for number in re.findall(r"0x[0-9A-Fa-f]+", tree.text("docs/file-formats.md")):
        if not re.search(rf"\b{number.lower()}\b", sources):
            yield f"docs/file-formats.md has the number {number}, which no source has"


def public_targets(tree: Tree) -> dict[str, str]:
    """The root package's aliases and what they stand for."""
    return dict(re.findall(r'alias\(\s*name = "(\w+)",\s*actual = "//(\w+)"', tree.text("BUILD")))


def check_benchmarks(tree: Tree) -> Iterator[str]:
    # Below the component's folder, or whole calls of it in benchmarks/components.
    whole = tree.text("benchmarks/components/BUILD")
    for component in sorted(set(public_targets(tree).values())):
        builds = [tree.text(path) for path in tree.paths
                  if path.startswith(f"{component}/") and path.endswith("/BUILD")]
        if (not any("tessera_cc_benchmark(" in build for build in builds) and
                f'"{component}": [' not in whole):
            yield f"{component} has no benchmark"
        elif not any(WORK.search(tree.text(path)) for path in tree.paths
                     if path.startswith(f"{component}/") and path.endswith("_benchmark.cc") or
                     path == f"benchmarks/components/{component}_benchmark.cc"):
            yield f"no benchmark of {component} counts bytes, flops or items"


def check_publishing(tree: Tree) -> Iterator[str]:
    json.loads(tree.text(".bcr/metadata.template.json"))
    source = json.loads(tree.text(".bcr/source.template.json"))
    # The registry's check of new versions refuses what GitHub makes of a tag when it is asked.
    if "/releases/download/{TAG}/" not in source["url"]:
        yield ".bcr/source.template.json names another archive than a release's own"
    presubmit = tree.text(".bcr/presubmit.yml")
    for name in public_targets(tree):
        if f'"@tessera//:{name}"' not in presubmit:
            yield f".bcr/presubmit.yml does not build @tessera//:{name}"
    module_path = re.search(r'module_path: "(.*)"', presubmit)
    if not module_path or f"{module_path[1]}/MODULE.bazel" not in tree.paths:
        yield ".bcr/presubmit.yml tests a module that is not there"
    versions = {path: re.search(pattern, tree.text(path)) for path, pattern in (
        ("MODULE.bazel", r'name = "tessera",\s*version = "([\d.]+)"'),
        ("tests/consumer/module/MODULE.bazel", r'name = "tessera", version = "([\d.]+)"'),
        ("docs/importing.md", r"git archive --prefix=tessera-([\d.]+)/"),
        ("tools/install.sh", r"(?m)^version=([\d.]+)$"),
        ("compat/mxnet/python/BUILD", r'version = "([\d.]+)"'),
        ("compat/mxnet/python/tessera_mxnet/__init__.py", r'__version__ = "([\d.]+)"'))}
    for path, version in versions.items():
        if version is None or version[1] != versions["MODULE.bazel"][1]:
            yield f"{path} has another version than MODULE.bazel, or none"


def repositories(module: str, development: bool) -> set[str]:
    """What a MODULE.bazel calls the repositories that it declares, with those for development or without."""
    found = {"bazel_tools"}
    for statement in ast.parse(module).body:
        call = getattr(statement, "value", None)
        if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Name):
            continue
        if call.func.id == "use_repo":
            found.update(ast.literal_eval(name) for name in call.args[1:])
        elif call.func.id in ("module", "bazel_dep"):
            words = {word.arg: ast.literal_eval(word.value) for word in call.keywords}
            if development or not words.get("dev_dependency", False):
                found.add(words.get("repo_name", words["name"]))
    return found


def check_repositories(tree: Tree) -> Iterator[str]:
    """A label of what is not there harms whoever builds it; a load, whoever wants anything of the package."""
    module = tree.text("MODULE.bazel")
    for does, pattern, development, whom in (
            ("names", r'"@(\w+)//', True, "Tessera"),
            ("loads from", r'\bload\(\s*"@(\w+)//', False, "those who depend on Tessera")):
        known = repositories(module, development)
        for path in tree.paths:
            if path.startswith("tests/consumer/") or not (path.endswith(".bzl") or Path(path).name == "BUILD"):
                continue
            for name in sorted(set(re.findall(pattern, tree.text(path))) - known):
                yield f"{path} {does} @{name}, which MODULE.bazel does not give {whom}"


def check_links(tree: Tree) -> Iterator[str]:
    for document in tree.documents():
        # C++ has brackets before parentheses too.
        for target in LINK.findall(BLOCK.sub("", tree.text(document))):
            if "://" in target or target.startswith("mailto:"):
                continue
            if not (tree.root / document).parent.joinpath(target).exists():
                yield f"{document} links to {target}, which is not there"


def _makes_target(tree: Tree, build: str, name: str) -> bool:
    """Whether a BUILD file says the name, in quotes, or the parts that tessera_cc_test_variants joins.

    The variants may stand in a .bzl file. A list of tests may name them by their paths.
    """
    variant = re.fullmatch(r"(\w+)_([a-z0-9]+)_test", name)
    return re.search(rf'["/]{re.escape(name)}"', build) is not None or bool(
        variant and re.search(rf'test_variants\(\s*name = "{variant[1]}"', build) and
        any(f'"{variant[2]}"' in text
            for text in (build, *(tree.text(path) for path in tree.paths if path.endswith(".bzl")))))


def check_labels(tree: Tree) -> Iterator[str]:
    for document in tree.documents():
        for label in LABEL.finditer(tree.text(document)):
            package = label[1] or ""
            name = label[2] or package.rpartition("/")[2]
            if not name or label[0].startswith(NO_LABELS):
                continue
            build = f"{package}/BUILD".lstrip("/")
            if not (build in tree.paths and _makes_target(tree, tree.text(build), name) or
                    f"{package}/{name}" in tree.paths):
                yield f"{document} names {label[0]}, which is no target"


def problems(tree: Tree) -> list[str]:
    """Everything that is wrong."""
    found = [problem for check in (
        check_blocks, check_commands, check_settings, check_flags, check_defaults, check_flag_tables, check_errors,
        check_names_for_mxnet, check_magic_numbers, check_benchmarks, check_publishing, check_repositories, check_links,
        check_labels)
        for problem in check(tree)]
    if len(tree.documents()) < 2 or not variables_read(tree):
        found.append("nothing was checked: no documents, or no environment variable is read")
    return found


def main(arguments: Sequence[str]) -> int:
    root = Path(arguments[0] if arguments else Path(__file__).parents[2]).resolve()
    tree = Tree(root)
    found = problems(tree)
    print("\n".join(found) or f"{len(tree.documents())} documents agree with the code")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
