#!/usr/bin/python3
"""Takes a picture of a dashboard's overview, as README shows one: picture.py SITE PICTURE.png"""

import base64
import sys
from pathlib import Path
from typing import Sequence

from browser import Browser

WIDTH, LARGEST_HEIGHT = 1100, 760


def main(arguments: Sequence[str]) -> int:
    if len(arguments) != 2:
        print(__doc__, file=sys.stderr)
        return 2
    site, picture = map(Path, arguments)
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
