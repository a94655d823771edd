"""Makes the documentation site: bazel run //tools/docs:site -- --out=DIR

Doxygen makes it of the public headers and the written pages; nothing is fetched from elsewhere. Exits 1,
with a line for each, where a public name has no comment (comments.py says which need one) or a comment or
page is not understood; and 2 where Doxygen is missing or DIR holds something else than an earlier site. Only
a site without faults takes an earlier one's place, as a whole.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Iterator, Sequence

import comments
import dialect
import pages
import public_headers

HERE = Path(__file__).resolve().parent
# By this a folder is known to be a site, whose files may go.
MARKER = ".tessera-documentation"


def doxygen_version() -> tuple[int, ...]:
    """What is installed; raises FileNotFoundError."""
    answer = subprocess.run(["doxygen", "--version"], capture_output=True, text=True, check=True).stdout
    return tuple(int(number) for number in re.findall(r"\d+", answer)[:3])


class Site:
    """One run: headers and pages are translated below `work`, and Doxygen started there."""

    def __init__(self, root: Path, work: Path, out: Path):
        self.root = root
        self.work = work
        self.out = out
        self.lines: dict[str, list[int]] = {}  # numbers in the headers, by path below `work`
        self.origins: dict[str, str] = {}
        self.inputs: list[str] = []
        self.linked_files: set[str] = set()

    def translate(self) -> None:
        for path, text in public_headers.public_headers(self.root).items():
            translated = dialect.translated(text)
            self._write(public_headers.include_of_path(path), path, "\n".join(l.text for l in translated))
            self.lines[public_headers.include_of_path(path)] = [l.number for l in translated]
        found = [path.relative_to(self.root).as_posix() for path in (self.root / "docs").glob("*.md")]
        # In the order in which the site lists them.
        found.sort(key=lambda path: (path != "docs/getting-started.md", path))
        found = ["README.md", *found, "CONTRIBUTING.md"]
        self.inputs = [*found, "tessera", "mshadow"]
        for path in found:
            self._write(path, path, pages.translated(self.root, path, found))
            self.linked_files.update(pages.linked_files(self.root, path, found))

    def _write(self, name: str, origin: str, text: str) -> None:
        (self.work / name).parent.mkdir(parents=True, exist_ok=True)
        (self.work / name).write_text(text, encoding="utf-8")
        self.origins[name] = origin

    def _origin(self, file: str, line: int) -> tuple[str, int]:
        """Where a line of a translated file stems from."""
        name = Path(os.path.relpath(self.work / file, self.work)).as_posix()
        numbers = self.lines.get(name)
        return self.origins.get(name, name), numbers[line - 1] if numbers else line

    def run(self, version: tuple[int, ...]) -> list[str]:
        """Makes the site. Returns what is wrong, sorted."""
        settings = (HERE / "Doxyfile").read_text(encoding="utf-8")
        settings += f"""
INPUT = {' '.join(self.inputs)}
IMAGE_PATH = "{self.root / 'docs'}"
STRIP_FROM_PATH = "{self.work}"
STRIP_FROM_INC_PATH = "{self.work}"
OUTPUT_DIRECTORY = "{self.work}"
HTML_OUTPUT = html
"""
        styles = [HERE / "site.css"]
        # Version 1.9.5 has colours for the dark of its own.
        if version >= (1, 9, 5):
            settings += "HTML_COLORSTYLE = AUTO_LIGHT\n"
        else:
            styles.append(HERE / "dark.css")
        settings += "HTML_EXTRA_STYLESHEET = " + " ".join(f'"{style}"' for style in styles) + "\n"
        messages = subprocess.run(
            ["doxygen", "-"], cwd=self.work, input=settings, text=True, capture_output=True, check=False)
        if messages.returncode != 0:
            return [messages.stderr.strip() or f"doxygen ended with {messages.returncode}"]
        problems = sorted({*self._warnings(messages.stderr), *self._uncommented()})
        if not problems:
            self._publish()
        return problems

    def _publish(self) -> None:
        """Puts the site in the place of an earlier one, of which no page stays."""
        made = self.work / "html"
        for path in self.linked_files:
            target = made / path.removeprefix("docs/")
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(self.root / path, target)
        (made / MARKER).touch()
        # The marker stays: whatever stops this on its way, the next run takes the folder for its own.
        if self.out.exists():
            for path in self.out.iterdir():
                if path.is_dir() and not path.is_symlink():
                    shutil.rmtree(path)
                elif path.name != MARKER:
                    path.unlink()
        shutil.copytree(made, self.out, dirs_exist_ok=True)

    def _uncommented(self) -> Iterator[str]:
        for found in comments.uncommented(self.work / "xml"):
            file, line = self._origin(found.file, found.line)
            yield f"{file}:{line}: {found.name} has no comment"

    def _warnings(self, text: str) -> Iterator[str]:
        for message in re.finditer(r"^(?:(\S+?):(\d+): )?(?:warning|error): (.*)$", text, re.MULTILINE):
            # What follows :: in a type is taken for a link.
            if "explicit link request" in message[3]:
                continue
            if message[1] is None:
                yield f"doxygen: {message[3]}"
            else:
                file, line = self._origin(message[1], int(message[2]))
                yield f"{file}:{line}: {message[3]}"


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="site", description=__doc__.partition("\n")[0])
    parser.add_argument("--out", type=Path, required=True, help="folder for the site")
    parser.add_argument("--root", type=Path, help="another source tree than this one")
    options = parser.parse_args(arguments)
    # Bazel says where the sources and where the person are.
    base = Path(os.environ.get("BUILD_WORKING_DIRECTORY", "."))
    root = base / (options.root or os.environ.get("BUILD_WORKSPACE_DIRECTORY", HERE.parents[1]))
    try:
        version = doxygen_version()
    except FileNotFoundError:
        print("site: doxygen is not installed; Debian's package doxygen provides it", file=sys.stderr)
        return 2
    out = (base / options.out).resolve()
    if out.exists() and not out.is_dir() or (
            out.is_dir() and any(out.iterdir()) and not (out / MARKER).exists()):
        print(f"site: {out} holds something else than a site; nothing was written", file=sys.stderr)
        return 2
    with tempfile.TemporaryDirectory() as work:
        site = Site(root.resolve(), Path(work).resolve(), out)
        site.translate()
        problems = site.run(version)
    if problems:
        print("\n".join(problems))
        return 1
    print(f"the documentation is in {out / 'index.html'}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
