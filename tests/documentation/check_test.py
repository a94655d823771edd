#!/usr/bin/python3
"""check.py finds what it is for: each fault is planted in a copy of the sources, and must be told.

What it says of the sources themselves is its own run's business.
"""

import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path
from typing import Any

sys.dont_write_bytecode = True

import check  # noqa: E402  pylint: disable=wrong-import-position

ROOT = Path(__file__).resolve().parents[2]


class CheckTest(unittest.TestCase):
    folder: Any
    texts: dict[str, str]

    @classmethod
    def setUpClass(cls) -> None:
        cls.folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.folder.cleanup)
        cls.root = Path(cls.folder.name)
        for path in check.tracked(ROOT):
            (cls.root / path).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(ROOT / path, cls.root / path)
        subprocess.run(["git", "init", "-q"], cwd=cls.root, check=True)
        cls.texts = dict(check.Tree(cls.root).texts())

    def told(self, path: str, text: str, instead_of: str | None = None) -> list[str]:
        """What is wrong once a file has a text more, at its end or instead of another."""
        file = self.root / path
        before = file.read_text(encoding="utf-8") if file.exists() else None
        if instead_of is None:
            changed = (before or "") + text
        else:
            self.assertEqual((before or "").count(instead_of), 1, f"{path} has {instead_of} not once")
            changed = before.replace(instead_of, text)
        try:
            file.write_text(changed, encoding="utf-8")
            return check.problems(check.Tree(self.root, {**self.texts, path: changed}))
        finally:
            if before is None:
                file.unlink()
            else:
                file.write_text(before, encoding="utf-8")

    def plant(self, said: str, *planted: str) -> None:
        """Exactly one fault is told, and it reads so."""
        with self.subTest(said=said, planted=planted):
            (found,) = self.told(*planted)
            self.assertRegex(found, said)

    def test_the_copy_has_no_faults(self) -> None:
        self.assertEqual(check.problems(check.Tree(self.root)), [])

    def test_environment_variables(self) -> None:
        unknown = "reads TESSERA_PLANTED, which docs/settings.md does not list"
        for path, text in (
            ("base/planted.cc", 'const char* f() { return std::getenv("TESSERA_PLANTED"); }'),
            ("base/planted.cc", 'int f() { return EnvironmentInt(\n    "TESSERA_PLANTED", 1, 0, 2); }'),
            ("base/planted.cc", 'constexpr char kName[] = "TESSERA_PLANTED";'),
            ("base/planted.py", 'planted = os.environ["TESSERA_PLANTED"]'),
            ("base/planted.py", 'planted = os.environ.get("TESSERA_PLANTED")'),
            ("tools/planted.bzl", 'planted = ctx.os.environ["TESSERA_PLANTED"]'),
            ("tools/planted.sh", 'echo "$TESSERA_PLANTED"'),
            ("tools/planted", '#!/bin/bash\necho "${TESSERA_PLANTED:-}"')):
            self.plant(unknown, path, text + "\n")
        row = "| `TESSERA_XPU_CPU` | engine | 1 to 3 | 1 | nothing |\n"  # a macro of the build's
        self.plant("lists TESSERA_XPU_CPU, which nothing reads", "docs/settings.md", row + "| `TESSERA_NUM_THREADS`",
                   "| `TESSERA_NUM_THREADS`")

    def test_ranges_and_defaults(self) -> None:
        row = "| `TESSERA_CPU_TEMP_COPY` | resource | 1 to 1024 | 4 |"
        self.plant("has 4 as default of TESSERA_CPU_TEMP_COPY; docs/settings.md says 5", "docs/settings.md",
                   row.replace("| 4 |", "| 5 |"), row)
        self.plant("has 1024 as greatest of TESSERA_CPU_TEMP_COPY", "docs/settings.md",
                   row.replace("1024", "1023"), row)
        row = "| `--threshold` | `//benchmarks:compare` | a share | 0.05 |"
        self.plant("has 0.05 as default of --threshold", "docs/settings.md", row.replace("0.05", "0.5"), row)

        self.plant("has 20 as default of --repetitions; docs/settings.md says 10", "docs/benchmarks.md",
                   "| `--repetitions=N` | 20 |", "| `--repetitions=N` | 10 |")

    def test_flags(self) -> None:
        self.plant("reads --planted, which docs/settings.md does not list", "benchmarks/dashboard.py",
                   'add_argument("--planted")\n    parser.add_argument("--history"', 'add_argument("--history"')
        self.plant("lists --planted of `//tools:install`, which nothing reads", "docs/settings.md",
                   "| `--planted` | `//tools:install` | a folder | none | nothing |\n| `--prefix`", "| `--prefix`")
        self.plant("config=planted stands in only one of", ".bazelrc", "build:planted --copt=-O3\n")
        self.plant("planted.py reads flags", "tools/planted.py", 'parser.add_argument("--planted")\n')

    def test_samples(self) -> None:
        fence = "```"
        for language, text in (("cpp", "int planted = 1;"), ("python", 'cc_binary(name = "planted")'),
                               ("cmake", "project(planted)"), ("", "build --copt=-O3")):
            self.plant("is no excerpt of a file that is built", "docs/engine.md",
                       f"\n{fence}{language}\n{text}\n{fence}\n")
        for language, text in (("cc", "int planted = 1;"), ("C++", "int planted = 1;"), ("sh", "rm -rf planted"),
                               ("text", "planted"), ("", "planted")):
            self.plant("no test knows what to do with a block of", "docs/storage.md",
                       f"\n{fence}{language}\n{text}\n{fence}\n")
        self.plant("int planted = 1; is no command", "docs/storage.md", "\nSo:\n\n    int planted = 1;\n")

    def test_commands(self) -> None:
        for said, command in (
            ("//benchmarks:run knows no --planted", "./bazelw run //benchmarks:run -- --planted=1"),
            ("//examples/digits knows no --planted", "./bazelw run //examples/digits -- \\\n        --planted"),
            (".bazelrc has no --config=planted", "./bazelw build --config=planted //base"),
            ("nothing reads TESSERA_PLANTED=1", "./bazelw test --test_env=TESSERA_PLANTED=1 //base:error_test"),
            ("names //base:planted, which is no target", "./bazelw test //base:planted")):
            self.plant(said, "docs/storage.md", f"\n    {command}\n")

    def test_errors_and_names(self) -> None:
        self.plant("Error::kWriteTo stands in only one of", "docs/errors.md",
                   "| `kWriteTo` | nothing | none |\n| `kInternal` |", "| `kInternal` |")
        self.plant("offers PlantedName, which is not there", "docs/coming-from-mxnet.md",
                   "| `old` | `PlantedName` | |\n\n## What is not here", "## What is not here")

    def test_magic_numbers(self) -> None:
        self.plant("has the number 0xF993FACE, which no source has", "docs/file-formats.md", "0xF993FACE", "0xF993FAC9")

    def test_links_and_publishing(self) -> None:
        self.plant("links to planted.md, which is not there", "docs/storage.md", "\n[planted](planted.md)\n")
        self.plant("does not build @tessera//:engine", ".bcr/presubmit.yml", "", '      - "@tessera//:engine"\n')
        self.plant("names another archive than a release's own", ".bcr/source.template.json", "/archive/{TAG}/",
                   "/releases/download/{TAG}/")
        self.plant("third_party/tbb/BUILD names @planted, which", "third_party/tbb/BUILD", '"@planted//', '"@onetbb//')
        self.plant("engine/BUILD loads from @com_google_googletest, which", "engine/BUILD",
                   'load("@com_google_googletest//:planted.bzl", "planted")\n')
        self.plant("has another version than MODULE.bazel", "tools/install.sh", "version=0.1.1\n", "version=0.1.0\n")


if __name__ == "__main__":
    unittest.main()
