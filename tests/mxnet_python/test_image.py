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


def records(path, count, files=("half.jpg", "color.png")):
    writer = mx.recordio.MXRecordIO(str(path), "w")
    for i in range(count):
        header = mx.recordio.IRHeader(0, float(i), i, 0)
        writer.write(mx.recordio.pack(header, (DATA / files[i % len(files)]).read_bytes()))
    writer.close()
    return str(path)


def test_image_record_iter_makes_the_batches_of_mxnet(tmp_path):
    path = records(tmp_path / "images.rec", 7)
    iterator = mx.io.ImageRecordIter(path_imgrec=path, data_shape=(3, 12, 14), batch_size=3, preprocess_threads=1)
    seen = []
    for _ in range(2):
        seen += [(batch.label[0].asnumpy().tolist(), batch.pad) for batch in iterator]
        iterator.reset()
    assert seen == [([0, 1, 2], 0), ([3, 4, 5], 0), ([6, 0, 1], 2), ([2, 3, 4], 0), ([5, 6, 0], 1)]


@pytest.mark.parametrize("name, index", [("half.jpg", 0), ("color.png", 1)])
def test_examples_are_cut_out_mirrored_and_normalized(tmp_path, name, index):
    path = records(tmp_path / "images.rec", 2)
    color = netpbm(name + ".color.ppm").astype(float)
    part = color[3:15, 6:20].transpose(2, 0, 1)
    common = dict(path_imgrec=path, data_shape=(3, 12, 14), batch_size=2, preprocess_threads=1)
    plain = next(mx.io.ImageRecordIter(**common)).data[0].asnumpy()[index]
    assert np.abs(plain - part).max() <= 1
    mean, deviation = np.array([10, 20, 30]), np.array([2, 4, 5])
    changed = next(mx.io.ImageRecordIter(mean_r=10, mean_g=20, mean_b=30, std_r=2, std_g=4, std_b=5, scale=0.5,
                                         mirror=True, **common)).data[0].asnumpy()[index]
    expected = (part - mean[:, None, None]) * 0.5 / deviation[:, None, None]
    assert np.abs(changed[..., ::-1] - expected).max() <= 0.26
    for dtype, levels in (("uint8", part), ("int8", np.clip(part, -128, 127))):
        image = next(mx.io.ImageRecordIter(dtype=dtype, **common)).data[0]
        assert image.dtype == np.dtype(dtype)
        assert np.abs(image.asnumpy()[index] - levels).max() <= 1


@pytest.mark.parametrize("shape, options", [((3, 12, 14), {"resize": 16}), ((3, 30, 40), {}), ((1, 12, 14), {}),
                                            ((3, 23, 30), {"pad": 2, "fill_value": 77}),
                                            ((3, 12, 14), {"resize": 16, "inter_method": 9})])
def test_sizes_and_channels_of_examples(tmp_path, shape, options):
    path = records(tmp_path / "images.rec", 4)
    iterator = mx.io.ImageRecordIter(path_imgrec=path, data_shape=shape, batch_size=4, preprocess_threads=1, **options)
    image = next(iterator).data[0].asnumpy()[0]
    source = mx.image.imread(str(DATA / "half.jpg"), flag=int(shape[0] == 3))
    if "resize" in options:
        source = mx.image.imresize(source, 21, 16, interp=3 if "inter_method" in options else 1)
    elif "pad" in options:
        source = mx.image.copyMakeBorder(source, 2, 2, 2, 2, value=77)
    elif shape[1] == 30:
        source = mx.image.imresize(source, 41, 30)
    top, left = (source.shape[0] - shape[1]) // 2, (source.shape[1] - shape[2]) // 2
    expected = source.asnumpy()[top:top + shape[1], left:left + shape[2]].transpose(2, 0, 1)
    assert np.abs(image - expected).max() <= 1


def test_random_examples_by_statistics(tmp_path):
    path = records(tmp_path / "images.rec", 600, ["color.png"])
    color = netpbm("color.png.color.ppm").astype(float)
    iterator = mx.io.ImageRecordIter(path_imgrec=path, data_shape=(3, 12, 14), batch_size=200, rand_crop=True,
                                     rand_mirror=True, shuffle=True, preprocess_threads=1)
    batches = list(iterator)
    labels = np.concatenate([batch.label[0].asnumpy() for batch in batches])
    assert sorted(labels) == list(range(600))
    # Every example is a part of the image or of its mirror image, each of them in about half.
    parts = {}
    for y in range(8):
        for x in range(13):
            part = color[y:y + 12, x:x + 14].transpose(2, 0, 1)
            parts[part.astype(np.uint8).tobytes()] = (y, x, False)
            parts[np.ascontiguousarray(part[..., ::-1]).astype(np.uint8).tobytes()] = (y, x, True)
    places = [parts[image.astype(np.uint8).tobytes()] for batch in batches for image in batch.data[0].asnumpy()]
    assert 200 < sum(mirrored for _, _, mirrored in places) < 400
    assert {y for y, _, _ in places} == set(range(8)) and {x for _, x, _ in places} == set(range(13))


@pytest.mark.ours
def test_a_damaged_image_names_its_record(tmp_path):
    writer = mx.recordio.MXRecordIO(str(tmp_path / "broken.rec"), "w")
    writer.write(mx.recordio.pack(mx.recordio.IRHeader(0, 0, 0, 0), (DATA / "half.jpg").read_bytes()[:-300]))
    writer.close()
    with pytest.raises(mx.MXNetError, match="broken.rec: the record at byte 0: .*truncated at byte"):
        mx.io.ImageRecordIter(path_imgrec=str(tmp_path / "broken.rec"), data_shape=(3, 4, 4), batch_size=1).next()
