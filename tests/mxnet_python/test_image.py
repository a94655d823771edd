"""Images: mx.image and Gluon's transforms, which MXNet computes by OpenCV."""

from pathlib import Path

import mxnet as mx
import numpy as np
import pytest
from mxnet import gluon, nd

# Files, and what OpenCV makes of them.
DATA = Path(__file__).parents[2] / "image/testing/data"


def netpbm(name):
    header = (DATA / name).read_bytes().split(b"\n", 3)
    width, height = map(int, header[1].split())
    return np.frombuffer(header[3], np.uint8).reshape(height, width, -1)


def assert_levels(image, expected):
    assert image.shape == expected.shape
    assert np.abs(image.asnumpy().astype(int) - expected.astype(int)).max() <= 1


@pytest.mark.parametrize("name", ["half.jpg", "gray.jpg", "color.png", "palette.png"])
def test_files_have_the_levels_of_opencv(name):
    contents = (DATA / name).read_bytes()
    color, gray = netpbm(name + ".color.ppm"), netpbm(name + ".gray.pgm")
    assert_levels(mx.image.imdecode(contents), color)
    assert_levels(mx.image.imdecode(contents, to_rgb=False), color[..., ::-1])
    assert_levels(mx.image.imdecode(contents, flag=0), gray)
    assert_levels(mx.image.imread(str(DATA / name)), color)
    out = nd.zeros(color.shape, dtype="uint8")
    mx.image.imdecode(contents, out=out)
    assert_levels(out, color)


def test_sizes_and_borders_are_those_of_opencv():
    source = nd.array(netpbm("source.ppm"), dtype="uint8")
    for interpolation in range(5):
        assert_levels(mx.image.imresize(source, 31, 40, interpolation),
                      netpbm(f"resize-{interpolation}-31x40.ppm"))
        bordered = mx.image.copyMakeBorder(source, 2, 3, 1, 4, type=interpolation, values=(200, 100, 50))
        assert_levels(bordered, netpbm(f"border-{interpolation}-2-3-1-4.ppm"))
    assert mx.image.resize_short(source, 10, interp=9).shape == (10, 15, 3)


@pytest.mark.parametrize("contents", [b"abc", b""])
def test_other_bytes_are_an_error(contents):
    with pytest.raises(mx.MXNetError):
        mx.image.imdecode(contents or np.zeros((1,), dtype=np.uint8))


def test_image_iter_reads_a_list_of_files():
    files = [[float(i), name] for i, name in enumerate(["half.jpg", "full.jpg", "color.png"])]
    iterator = mx.image.ImageIter(2, (3, 12, 14), imglist=files, path_root=str(DATA), last_batch_handle="pad")
    batches = list(iterator)
    assert [batch.pad for batch in batches] == [0, 1]
    assert batches[0].data[0].shape == (2, 3, 12, 14)
    assert batches[0].label[0].asnumpy().tolist() == [0, 1]


def test_folders_and_transforms(tmp_path):
    for name in ["cat", "dog"]:
        (tmp_path / name).mkdir()
        (tmp_path / name / "image.png").write_bytes((DATA / "color.png").read_bytes())
    transforms = gluon.data.vision.transforms
    dataset = gluon.data.vision.ImageFolderDataset(str(tmp_path)).transform_first(transforms.Compose([
        transforms.RandomResizedCrop(16), transforms.RandomFlipLeftRight(), transforms.ToTensor()]))
    assert [label for _, label in dataset] == [0, 1]
    loader = gluon.data.DataLoader(dataset, batch_size=2, num_workers=1)
    (images, labels), = list(loader)
    assert images.shape == (2, 3, 16, 16) and 0 <= images.min().asscalar() < images.max().asscalar() <= 1
    assert labels.asnumpy().tolist() == [0, 1]
