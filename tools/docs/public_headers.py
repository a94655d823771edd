"""Which headers users include, read from the BUILD files.

The root package's aliases name the facades. A facade's own headers, those of the targets of its package
that it depends on, and what these include are public; left out are folders named internal/, headers that
only nvcc reads (*_cuda.h), and those with nothing but names in a namespace *_internal.
"""

import re
from pathlib import Path
from typing import Any, Iterator

Targets = dict[str, dict[str, Any]]

_INCLUDE = re.compile(r'^#include "((?:tessera|mshadow)/[^"]+)"', re.MULTILINE)
_NAMESPACE = re.compile(r"^namespace ([\w:]+) \{", re.MULTILINE)
_MACRO = re.compile(r"^#define \w+\(", re.MULTILINE)


def targets(build: Path) -> Targets:
    """The targets of a BUILD file, which is Python as far as it goes here."""
    text = build.read_text(encoding="utf-8")
    found: Targets = {}

    def record(*_: Any, **arguments: Any) -> list[Any]:
        if "name" in arguments:
            found[arguments["name"]] = arguments
        return []

    names: dict[str, Any] = {name: record for name in re.findall(r"\b(\w+)\(", text)}
    # What a .bzl file lends it names no public header.
    names.update({name: {} for name in re.findall(r'"([A-Z_]+)"', text)})
    names["range"] = range
    exec(compile(text, str(build), "exec"), names)  # pylint: disable=exec-used
    return found


def _facade(root: Path, folder: str) -> dict[str, Any]:
    """The target that is named after a folder; empty if there is none. One below another folder has a
    header: families of operators are no facades."""
    target = targets(root / folder / "BUILD").get(folder.rpartition("/")[2], {})
    return target if "/" not in folder or "hdrs" in target else {}


def facades(root: Path) -> list[str]:
    """The folders that the root package's aliases lead to and that have a facade of their name."""
    folders = {target["actual"].removeprefix("//").partition(":")[0]
               for target in targets(root / "BUILD").values() if "actual" in target}
    return sorted(folder for folder in folders if _facade(root, folder))


def _declared(root: Path, folder: str) -> Iterator[str]:
    def split(label: str) -> tuple[str, str]:
        """The package and name of a label in a component's own BUILD file."""
        package, colon, name = label.removeprefix("//").partition(":")
        return package or folder, name if colon else package.rpartition("/")[2]

    for label in [f":{folder.rpartition('/')[2]}", *_facade(root, folder)["deps"]]:
        package, name = split(label)
        if package != folder and not package.startswith(f"{folder}/"):
            continue
        for header in targets(root / package / "BUILD")[name].get("hdrs", []):
            yield f"{package}/{header}"


def path_of_include(include: str) -> str:
    """Where a header lies that is included by this name."""
    return include.removeprefix("tessera/") if include.startswith("tessera/") else f"compat/{include}"


def include_of_path(path: str) -> str:
    """The name by which a header is included."""
    return path.removeprefix("compat/") if path.startswith("compat/") else f"tessera/{path}"


def _hidden(path: str, text: str) -> bool:
    namespaces = _NAMESPACE.findall(text)
    return ("/internal/" in path or path.endswith("_cuda.h") or
            bool(namespaces) and all(name.endswith("_internal") for name in namespaces) and
            not _MACRO.search(text))


def public_headers(root: Path) -> dict[str, str]:
    """The text of each public header by its path."""
    found: dict[str, str] = {}
    waiting = [path for folder in facades(root) for path in _declared(root, folder)]
    seen = set(waiting)
    while waiting:
        path = waiting.pop()
        # What is written while building is read where it was built. What a genrule writes only includes
        # another header.
        file = next((file for file in (root / path, root / "bazel-bin" / path) if file.is_file()), None)
        if file is None or path.startswith("compat/") and file != root / path:
            continue
        text = file.read_text(encoding="utf-8")
        if _hidden(path, text):
            continue
        found[path] = text
        for include in _INCLUDE.findall(text):
            if path_of_include(include) not in seen:
                seen.add(path_of_include(include))
                waiting.append(path_of_include(include))
    return dict(sorted(found.items()))
