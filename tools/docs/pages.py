"""The written pages as Doxygen reads them: links that lead to its pages, headings with GitHub's anchors."""

import re
from pathlib import Path, PurePosixPath

_FENCED = re.compile(r"^(```.*?^```$)", re.MULTILINE | re.DOTALL)
_HEADING = re.compile(r"^(#+) (.+)$", re.MULTILINE)
_LINK = re.compile(r"(!?)\[([^\]]*)\]\(([^)\s]+)\)")
_MERMAID_NAMES = re.compile(r"(\w+)\[([^\]]+)\]")
_MERMAID_EDGE = re.compile(r"^\s*(\w+)(?:\[[^\]]*\])? --> (\w+)", re.MULTILINE)


def page_name(path: str) -> str:
    """The name of a page's file without .html; README is the first page."""
    return "index" if path == "README.md" else PurePosixPath(path).stem.lower()


def _anchor(path: str, heading: str) -> str:
    slug = re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")
    return f"{page_name(path)}-{slug}"


def _is_outside(target: str) -> bool:
    return "://" in target or target.startswith("mailto:")


def _linked_path(root: Path, path: str, target: str) -> str:
    """The file of the repository that a link of the page leads to."""
    file = target.partition("#")[0]
    return (root / path).parent.joinpath(file).resolve().relative_to(root).as_posix() if file else path


def linked_files(root: Path, path: str, pages: list[str]) -> list[str]:
    """Files that the page links to and that are no pages. Doxygen copies pictures by itself."""
    text = _FENCED.sub("", (root / path).read_text(encoding="utf-8"))
    linked = [_linked_path(root, path, target) for picture, _, target in _LINK.findall(text)
              if not picture and not _is_outside(target)]
    return [file for file in linked if file not in pages]


def _resolved(root: Path, path: str, target: str, pages: list[str]) -> str:
    """Where a link of the page leads in the site."""
    if _is_outside(target):
        return target
    linked = _linked_path(root, path, target)
    anchor = target.partition("#")[2]
    if linked not in pages:
        return linked.removeprefix("docs/")
    return f"{page_name(linked)}.html" + (f"#{_anchor(linked, anchor)}" if anchor else "")


def _table_of_components(block: str) -> str:
    """The picture of the components as a table, for which no browser needs a script."""
    names = dict(_MERMAID_NAMES.findall(block))
    below: dict[str, list[str]] = {name: [] for name in names}
    for upper, lower in _MERMAID_EDGE.findall(block):
        below[upper].append(lower)
    rows = []
    for name, text in names.items():
        title, _, purpose = text.partition(": ")
        rows.append(f"| {title} | {purpose} | {', '.join(below[name]) or '–'} |")
    return "\n".join(["| component | what it is | depends on |", "| --- | --- | --- |", *rows])


def translated(root: Path, path: str, pages: list[str]) -> str:
    """A page for Doxygen, line by line where no picture becomes a table."""
    parts = _FENCED.split((root / path).read_text(encoding="utf-8"))
    seen_title = False

    def heading(match: re.Match[str]) -> str:
        nonlocal seen_title
        label = _anchor(path, match[2])
        if not seen_title:
            seen_title = True
            label = page_name(path) if path != "README.md" else "mainpage"
        return f"{match[1]} {match[2]} {{#{label}}}"

    def link(match: re.Match[str]) -> str:
        target = _resolved(root, path, match[3], pages)
        return f"{match[1]}[{match[2]}]({target})"

    for number, part in enumerate(parts):
        if part.startswith("```mermaid\n"):
            parts[number] = _table_of_components(part)
        elif not part.startswith("```"):
            parts[number] = _LINK.sub(link, _HEADING.sub(heading, part))
    return "".join(parts)
