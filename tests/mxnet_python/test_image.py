"""Images: mx.image and Gluon's transforms, which MXNet computes by OpenCV."""

import subprocess
from pathlib import Path

import mxnet as mx
import numpy as np
import pytest
from mxnet import gluon, nd

# Files, and what OpenCV makes of them.
DATA = Path(__file__).parents[2] / "image/testing/data"
IM2REC = Path(__file__).parents[2] / "bazel-bin/tools/im2rec/im2rec"


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


def test_squares_and_noise_of_colors(tmp_path):
    path = records(tmp_path / "images.rec", 300, ["color.png"])
    part = netpbm("color.png.color.ppm").astype(float)[3:15, 7:19].transpose(2, 0, 1)
    common = dict(path_imgrec=path, data_shape=(3, 12, 12), batch_size=300, preprocess_threads=1)
    square = next(mx.io.ImageRecordIter(min_crop_size=12, max_crop_size=12, **common)).data[0].asnumpy()
    assert np.abs(square - part).max() <= 1
    noisy = next(mx.io.ImageRecordIter(pca_noise=0.1, **common)).data[0].asnumpy()
    # Of levels that the noise cannot cut off.
    middle = (part > 60) & (part < 195)
    change = np.array([[(image - part)[c][middle[c]].mean() for c in range(3)] for image in noisy])
    assert np.abs(change.mean(0)).max() < 1
    assert ((2.5 < change.std(0)) & (change.std(0) < 4)).all()
    assert np.corrcoef(change.T).min() > 0.9


@pytest.mark.ours
def test_a_damaged_image_names_its_record(tmp_path):
    writer = mx.recordio.MXRecordIO(str(tmp_path / "broken.rec"), "w")
    writer.write(mx.recordio.pack(mx.recordio.IRHeader(0, 0, 0, 0), (DATA / "half.jpg").read_bytes()[:-300]))
    writer.close()
    with pytest.raises(mx.MXNetError, match="broken.rec: the record at byte 0: .*truncated at byte"):
        mx.io.ImageRecordIter(path_imgrec=str(tmp_path / "broken.rec"), data_shape=(3, 4, 4), batch_size=1).next()


@pytest.mark.ours
def test_a_damaged_image_may_be_left_out(tmp_path):
    writer = mx.recordio.MXRecordIO(str(tmp_path / "broken.rec"), "w")
    whole = (DATA / "half.jpg").read_bytes()
    for i, contents in enumerate([whole, whole[:-300], whole]):
        writer.write(mx.recordio.pack(mx.recordio.IRHeader(0, i, i, 0), contents))
    writer.close()
    batch = mx.io.ImageRecordIter(path_imgrec=str(tmp_path / "broken.rec"), data_shape=(3, 4, 4), batch_size=3,
                                  damaged="skip").next()
    assert batch.pad == 1 and batch.label[0].asnumpy().tolist() == [0, 2, 0]


def detection_records(path, labels, name="color.png"):
    writer = mx.recordio.MXRecordIO(str(path), "w")
    for i, label in enumerate(labels):
        header = mx.recordio.IRHeader(len(label), np.array(label, np.float32), i, 0)
        writer.write(mx.recordio.pack(header, (DATA / name).read_bytes()))
    writer.close()
    return str(path)


def detection_iter(path, size, batch_size, **options):
    return mx.io.ImageDetRecordIter(path_imgrec=path, data_shape=(3, *size), batch_size=batch_size, verbose=False,
                                    preprocess_threads=1, **options)


OBJECTS = [[2, 5, 0, .1, .2, .5, .6],
           [2, 5, 1, .2, .2, .5, .6, 2, .3, .3, .9, .95],
           [4, 6, 77, 78, 1, .2, .2, .5, .6, 9]]


def test_detection_batches_are_those_of_mxnet(tmp_path):
    path = detection_records(tmp_path / "objects.rec", OBJECTS)
    iterator = detection_iter(path, (8, 9), 2, mean_r=10, std_r=2, scale=0.5)
    assert iterator.provide_label[0].shape == (2, 16)
    resized = mx.image.imresize(mx.image.imread(str(DATA / "color.png")), 9, 8).asnumpy().astype(float)
    expected = resized.transpose(2, 0, 1) * 0.5
    expected[0] = (expected[0] - 5) / 2
    batches = list(iterator)
    assert [batch.pad for batch in batches] == [0, 1]
    for batch in batches:
        for image in batch.data[0].asnumpy():
            assert np.abs(image - expected).max() <= 0.51
    labels = np.concatenate([batch.label[0].asnumpy() for batch in batches])
    for label, numbers in zip(labels, OBJECTS):
        row = [3, 8, 9, len(numbers)] + numbers
        assert np.allclose(label, row + [-1] * (16 - len(row)))


@pytest.mark.parametrize("mode, size", [("force", (16, 16)), ("shrink", (11, 16)), ("fit", (11, 16))])
def test_detection_sizes(tmp_path, mode, size):
    path = detection_records(tmp_path / "objects.rec", OBJECTS[:1])
    batch = next(detection_iter(path, (16, 16), 1, resize_mode=mode, rand_mirror_prob=1, label_pad_width=9,
                                label_pad_value=-3))
    label = batch.label[0].asnumpy()[0]
    assert np.allclose(label, [3, *size, 7, 2, 5, 0, .5, .2, .9, .6, -3, -3])
    image = batch.data[0].asnumpy()[0]
    assert image[:, size[0]:].sum() == 0 and image[:, size[0] - 1].sum() > 0
    resized = mx.image.imresize(mx.image.imread(str(DATA / "color.png")), size[1], size[0]).asnumpy()
    assert np.abs(image[:, :size[0], ::-1] - resized.transpose(2, 0, 1)).max() <= 1


def boxes(tmp_path, count=400, **options):
    path = detection_records(tmp_path / "objects.rec", [[2, 5, 0, .4, .4, .6, .6]] * count)
    return next(detection_iter(path, (8, 8), count, **options)).label[0].asnumpy()[:, 7:11]


def test_parts_with_objects_by_statistics(tmp_path):
    found = boxes(tmp_path, rand_crop_prob=0.5, min_crop_scales=(0.5,), max_crop_scales=(0.501,))
    cropped = found[np.abs(found - [.4, .4, .6, .6]).max(1) > 1e-3]
    assert 150 < len(cropped) < 250
    assert cropped.min() >= 0 and cropped.max() <= 1
    # A square part of a quarter of the area of 19 x 26 pixels, which objects at its sides are clipped by.
    whole = cropped[(cropped.min(1) > 0) & (cropped.max(1) < 1)]
    assert np.abs(whole[:, 2] - whole[:, 0] - .2 * 26 / 11.1).max() < 0.02
    assert np.abs(whole[:, 3] - whole[:, 1] - .2 * 19 / 11.1).max() < 0.02
    assert whole[:, 0].std() > 0.05


def test_padding_around_objects_by_statistics(tmp_path):
    found = boxes(tmp_path, rand_pad_prob=1, max_pad_scale=3)
    scale = .2 / (found[:, 2] - found[:, 0])
    assert scale.min() > 0.95 and scale.max() < 3.05
    assert abs(scale.mean() - 2) < 0.12
    # The place is uniform in what is left.
    free = (scale - 1)[scale > 1.2]
    place = (found[:, 0] * scale - .4)[scale > 1.2] / free
    assert -0.05 < place.min() and place.max() < 1.05 and abs(place.mean() - .5) < 0.08


def test_rows_of_libsvm_files(tmp_path):
    path = tmp_path / "rows.svm"
    path.write_text("1.0 0:0.5 2:1.2\n-2.0\n-3.0 0:0.6 1:2.4 2:1.2\n4 2:-1.2\n5 1:1e2")
    iterator = mx.io.LibSVMIter(data_libsvm=str(path), data_shape=(3,), batch_size=2)
    assert iterator.provide_data[0].shape == (2, 3)
    batches = [(batch.data[0].asnumpy(), batch.label[0].asnumpy().tolist(), batch.pad) for batch in iterator]
    assert [labels for _, labels, _ in batches] == [[1, -2], [-3, 4], [5, 1]]
    assert [pad for _, _, pad in batches] == [0, 0, 1]
    rows = np.concatenate([data for data, _, _ in batches])
    assert np.allclose(rows, [[.5, 0, 1.2], [0, 0, 0], [.6, 2.4, 1.2], [0, 0, -1.2], [0, 100, 0], [.5, 0, 1.2]])


def test_im2rec_makes_data_sets(tmp_path):
    for name, files in {"cat": ["half.jpg", "gray.jpg"], "dog": ["color.png"]}.items():
        (tmp_path / "images" / name).mkdir(parents=True)
        for file in files:
            (tmp_path / "images" / name / file).write_bytes((DATA / file).read_bytes())
    where = [str(tmp_path / "set"), str(tmp_path / "images")]
    subprocess.run([IM2REC, "--list", "--recursive", "--no-shuffle", *where], check=True)
    subprocess.run([IM2REC, "--resize=12", "--quality=100", "--num-thread=2", *where], check=True)
    reader = mx.recordio.MXIndexedRecordIO(str(tmp_path / "set.idx"), str(tmp_path / "set.rec"), "r")
    headers = [mx.recordio.unpack(reader.read_idx(i))[0] for i in range(3)]
    assert [(header.id, header.label) for header in headers] == [(0, 0), (1, 0), (2, 1)]
    iterator = mx.io.ImageRecordIter(path_imgrec=str(tmp_path / "set.rec"), data_shape=(3, 12, 12), batch_size=3,
                                     preprocess_threads=1)
    batch = next(iterator)
    assert batch.label[0].asnumpy().tolist() == [0, 0, 1]
    # gray.jpg comes first; half.jpg is next.
    source = mx.image.resize_short(mx.image.imread(str(DATA / "half.jpg")), 12, interp=1)
    middle = mx.image.center_crop(source, (12, 12), interp=1)[0].asnumpy().astype(float)
    # Of colours, JPEG files keep a quarter.
    luma = np.array([0.299, 0.587, 0.114])
    found = np.tensordot(luma, batch.data[0].asnumpy()[1], axes=1)
    assert np.abs(found - middle @ luma).mean() < 2
