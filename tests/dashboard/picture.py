#!/usr/bin/python3
"""Takes the README's picture of the example in docs/dashboard: picture.py [SITE PICTURE]

Writes the overview of the site, by default docs/dashboard, as a PNG, by default docs/dashboard.png.
"""

import base64
import sys
from pathlib import Path
from typing import Sequence

from browser import Browser

DOCS = Path(__file__).resolve().parents[2] / "docs"
WIDTH, LARGEST_HEIGHT = 1100, 760


def main(arguments: Sequence[str]) -> int:
    if len(arguments) not in (0, 2):
        print(__doc__, file=sys.stderr)
        return 2
    site, picture = map(Path, arguments) if arguments else (DOCS / "dashboard", DOCS / "dashboard.png")
    with Browser() as browser:
        browser.call("Emulation.setDeviceMetricsOverride", width=WIDTH, height=LARGEST_HEIGHT,
                     deviceScaleFactor=1, mobile=False)
        browser.open((site.resolve() / "index.html").as_uri() + "#view=overview")
        browser.wait("document.getElementById('main').dataset.view === 'overview'")
        height = min(LARGEST_HEIGHT, browser.evaluate("Math.ceil(document.body.getBoundingClientRect().height)"))
        clip = {"x": 0, "y": 0, "width": WIDTH, "height": height, "scale": 1}
        data = browser.call("Page.captureScreenshot", format="png", clip=clip)["data"]
        if browser.errors:
            print("\n".join(browser.errors), file=sys.stderr)
            return 1
    picture.write_bytes(base64.b64decode(data))
    print(f"{picture} has {WIDTH}x{height}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
