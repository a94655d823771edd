"""The handwritten digits that lie in this repository: 1437 to train with, 360 to test with."""

import os
import struct

import mxnet as mx
import numpy as np

FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "examples", "digits", "data")
LARGEST = 16.0  # a pixel's value


def _path(part, kind):
    return os.path.join(FOLDER, "%s-%s-ubyte" % (part, kind))


def iterator(part, batch_size=32, flat=True, shuffle=False):
    """MXNet's iterator over IDX files, which divides pixels by 256; its values are up to 1/16."""
    return mx.io.MNISTIter(image=_path(part, "images-idx3"), label=_path(part, "labels-idx1"), batch_size=batch_size,
                           flat=flat, shuffle=shuffle, silent=True, seed=1)


def _read(path):
    with open(path, "rb") as file:
        rank = struct.unpack(">I", file.read(4))[0] % 256
        shape = struct.unpack(">%dI" % rank, file.read(4 * rank))
        return np.frombuffer(file.read(), np.uint8).reshape(shape)


def arrays(part):
    """Images of shape (count, 1, 8, 8) with values from 0 to 1, and labels."""
    images = _read(_path(part, "images-idx3")).astype("float32") / LARGEST
    return images[:, None], _read(_path(part, "labels-idx1")).astype("float32")
