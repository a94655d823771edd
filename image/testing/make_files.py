#!/usr/bin/python3
"""Makes the files in data/, what OpenCV makes of them, and images that OpenCV has changed: make_files.py

Needs opencv-python-headless 4.10, numpy and Pillow. Beside each file NAME.jpg or NAME.png lie NAME.color.ppm and
NAME.gray.pgm, OpenCV's imdecode of it. The other images are made of source.ppm:

    resize-INTERPOLATION-WIDTHxHEIGHT.ppm       cv2.resize
    border-TYPE-TOP-BOTTOM-LEFT-RIGHT.ppm       cv2.copyMakeBorder with the value (200, 100, 50)
"""

import struct
import zlib
from pathlib import Path

import cv2
import numpy as np
from PIL import Image

FOLDER = Path(__file__).parent / "data"


def write_netpbm(name: str, image: np.ndarray) -> None:
    """Writes red, green and blue, or gray."""
    kind = b"P6" if image.ndim == 3 else b"P5"
    header = kind + b"\n%d %d\n255\n" % (image.shape[1], image.shape[0])
    (FOLDER / name).write_bytes(header + image.tobytes())


def picture(height: int, width: int, channels: int) -> np.ndarray:
    """A smooth image with an edge and some noise."""
    random = np.random.RandomState(height * width)
    y, x = np.mgrid[0:height, 0:width]
    planes = [120 + 100 * np.sin(0.31 * (c + 1) * x / 2 + 0.17 * y * (3 - c)) for c in range(channels)]
    image = np.stack(planes, -1) + random.randint(-12, 13, (height, width, channels))
    image[height // 3:, width // 2:] = 255 - image[height // 3:, width // 2:]
    return np.clip(image, 0, 255).astype(np.uint8)


def interlaced_png(image: np.ndarray) -> bytes:
    """A PNG file in the seven passes of Adam7, without filters."""
    passes = ((0, 0, 8, 8), (0, 4, 8, 8), (4, 0, 8, 4), (0, 2, 4, 4), (2, 0, 4, 2), (0, 1, 2, 2), (1, 0, 2, 1))
    rows = b""
    for y, x, step_y, step_x in passes:
        part = image[y::step_y, x::step_x]
        if part.size:
            rows += b"".join(b"\0" + row.tobytes() for row in part)

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", image.shape[1], image.shape[0], 8, 2, 0, 0, 1)
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(rows)) +
            chunk(b"IEND", b""))


def write_files() -> None:
    color, gray = Image.fromarray(picture(19, 26, 3)), Image.fromarray(picture(18, 21, 1)[..., 0])
    color.save(FOLDER / "half.jpg", quality=90, subsampling=2)
    color.save(FOLDER / "full.jpg", quality=95, subsampling=0)
    color.save(FOLDER / "progressive.jpg", quality=85, progressive=True)
    color.convert("CMYK").save(FOLDER / "cmyk.jpg", quality=95)
    gray.save(FOLDER / "gray.jpg", quality=90)
    color.save(FOLDER / "color.png")
    gray.save(FOLDER / "gray.png")
    gray.convert("1").save(FOLDER / "bit.png")
    Image.fromarray(picture(17, 12, 4), "RGBA").save(FOLDER / "alpha.png")
    color.quantize(20).save(FOLDER / "palette.png", transparency=3)
    wide = picture(9, 14, 3).astype(np.uint16) * 257 + 100
    cv2.imwrite(str(FOLDER / "wide.png"), wide)
    (FOLDER / "interlaced.png").write_bytes(interlaced_png(picture(13, 11, 3)))


def main() -> None:
    FOLDER.mkdir(exist_ok=True)
    write_files()
    for path in sorted([*FOLDER.glob("*.jpg"), *FOLDER.glob("*.png")]):
        contents = np.frombuffer(path.read_bytes(), np.uint8)
        write_netpbm(path.stem + path.suffix + ".color.ppm", cv2.imdecode(contents, cv2.IMREAD_COLOR)[..., ::-1])
        write_netpbm(path.stem + path.suffix + ".gray.pgm", cv2.imdecode(contents, cv2.IMREAD_GRAYSCALE))
    source = picture(14, 22, 3)
    write_netpbm("source.ppm", source)
    for interpolation in range(5):
        for width, height in ((11, 7), (7, 5), (31, 40), (22, 9), (9, 30), (1, 1)):
            resized = cv2.resize(source, (width, height), interpolation=interpolation)
            write_netpbm(f"resize-{interpolation}-{width}x{height}.ppm", resized)
    for kind in range(5):
        for top, bottom, left, right in ((2, 3, 1, 4), (0, 17, 30, 0)):
            bordered = cv2.copyMakeBorder(source, top, bottom, left, right, kind, value=(200, 100, 50))
            write_netpbm(f"border-{kind}-{top}-{bottom}-{left}-{right}.ppm", bordered)


if __name__ == "__main__":
    main()
