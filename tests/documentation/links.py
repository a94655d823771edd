#!/usr/bin/python3
"""Finds links of a site's pages that lead nowhere: links.py SITE

Of the pages that were written by hand every anchor is checked too; Doxygen's own lists name some friends
and private classes that it shows nowhere.
"""

import html
import re
import sys
from pathlib import Path
from typing import Iterator

REFERENCE = re.compile(r'(?:href|src)="([^"]+)"')
ANCHOR = re.compile(r'(?:id|name)="([^"]+)"')
GENERATED = re.compile(r"^(class|struct|union|concept|namespace|functions|globals)|_8h")


class Site:
    """A folder of pages, each read once."""

    def __init__(self, folder: Path):
        self.folder = folder
        self._anchors: dict[str, frozenset[str]] = {}

    def anchors(self, page: str) -> frozenset[str]:
        if page not in self._anchors:
            text = (self.folder / page).read_text(encoding="utf-8", errors="replace")
            self._anchors[page] = frozenset(ANCHOR.findall(text))
        return self._anchors[page]

    def broken(self, page: Path) -> Iterator[str]:
        for found in REFERENCE.findall(page.read_text(encoding="utf-8", errors="replace")):
            target = html.unescape(found)
            if "://" in target or target.startswith(("javascript:", "mailto:")):
                continue
            file, _, anchor = target.partition("#")
            file = file or page.name
            if not (self.folder / file).exists():
                yield f"{page.name} links to {target}, which is not there"
            elif (anchor and file.endswith(".html") and not GENERATED.search(page.name) and
                  anchor not in self.anchors(file)):
                yield f"{page.name} links to {target}: there is no such place in {file}"


def main() -> int:
    site = Site(Path(sys.argv[1]))
    pages = sorted(site.folder.glob("*.html"))
    problems = sorted({problem for page in pages for problem in site.broken(page)})
    if not pages:
        problems.append(f"{site.folder} has no pages")
    print("\n".join(problems) or f"the links of {len(pages)} pages lead somewhere")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
