"""Data: loaders with processes of their own, iterators, and record files."""

import os

import mxnet as mx
import numpy as np
import pytest
from mxnet import gluon, nd

import digits

BEFORE_THE_FORK = nd.arange(40).reshape((10, 4))


class Dataset(gluon.data.Dataset):
    """Reads an array of the parent's in the workers, and computes with it there."""

    def __len__(self):
        return len(BEFORE_THE_FORK)

    def __getitem__(self, index):
        return BEFORE_THE_FORK[index] * 2 + 1, index


@pytest.mark.parametrize("workers", [0, 1, 2])
def test_workers_give_every_batch_in_its_order(workers):
    BEFORE_THE_FORK.wait_to_read()
    loader = gluon.data.DataLoader(Dataset(), batch_size=4, num_workers=workers, last_batch="keep")
    for _ in range(2):
        batches = list(loader)
        assert [len(batch[1]) for batch in batches] == [4, 4, 2]
        data = np.concatenate([batch[0].asnumpy() for batch in batches])
        np.testing.assert_array_equal(data, np.arange(40).reshape(10, 4) * 2 + 1)
        assert np.concatenate([batch[1].asnumpy() for batch in batches]).tolist() == list(range(10))


def test_batches_of_workers_are_arrays_like_others():
    images, labels = digits.arrays("t10k")
    loader = gluon.data.DataLoader(gluon.data.ArrayDataset(nd.array(images), labels), 100, num_workers=2)
    total = sum((image.sum() + 0 * label.sum()).asscalar() for image, label in loader)
    assert total == pytest.approx(images.sum(), rel=1e-5)


def test_an_error_in_a_worker_reaches_the_program():
    class Broken(Dataset):
        def __getitem__(self, index):
            raise KeyError("no such sample")

    with pytest.raises(KeyError, match="no such sample"):
        list(gluon.data.DataLoader(Broken(), batch_size=4, num_workers=1))


def test_transforms_of_images():
    transform = gluon.data.vision.transforms.Compose([
        gluon.data.vision.transforms.Cast("float32"), gluon.nn.HybridLambda(lambda F, image: F.transpose(image / 255))])
    images = gluon.data.SimpleDataset([nd.ones((4, 5, 3), dtype="uint8") * 255] * 3)
    dataset = images.transform(transform)
    assert dataset[0].shape == (3, 5, 4) and dataset[0].asnumpy().max() == 1


def test_tensors_of_images_are_normalized_in_batches():
    images = np.random.RandomState(1).randint(0, 256, (10, 6, 5, 3)).astype("uint8")
    mean, std = (0.49, 0.48, 0.45), (0.25, 0.24, 0.26)
    transform = gluon.data.vision.transforms.Compose([
        gluon.data.vision.transforms.ToTensor(), gluon.data.vision.transforms.Normalize(mean, std)])
    dataset = gluon.data.ArrayDataset(nd.array(images, dtype="uint8"), np.arange(10)).transform_first(transform)
    for workers in (0, 2):
        loader = gluon.data.DataLoader(dataset, batch_size=4, num_workers=workers)
        data = np.concatenate([batch[0].asnumpy() for batch in loader])
        expected = ((images / 255 - mean) / std).transpose(0, 3, 1, 2)
        np.testing.assert_allclose(data, expected, rtol=1e-5, atol=1e-5)


def test_images_are_augmented():
    transforms = gluon.data.vision.transforms
    image = nd.array(np.random.RandomState(2).randint(0, 256, (8, 6, 3)), dtype="uint8")
    for transform in (transforms.RandomFlipLeftRight(), transforms.RandomFlipTopBottom(),
                      transforms.RandomBrightness(0.5), transforms.RandomContrast(0.5),
                      transforms.RandomSaturation(0.5), transforms.RandomHue(0.5),
                      transforms.RandomColorJitter(0.1, 0.2, 0.3, 0.4), transforms.RandomLighting(0.1)):
        mx.random.seed(5)
        first = transform(image).asnumpy()
        assert first.shape == image.shape and first.dtype == np.uint8
        others = [transform(image).asnumpy() for _ in range(20)]
        assert any((other != first).any() for other in others), transform
        mx.random.seed(5)
        np.testing.assert_array_equal(transform(image).asnumpy(), first)
    small = transforms.Compose([transforms.Resize((4, 5)), transforms.CenterCrop(3)])(image)
    assert small.shape == (3, 3, 3)
    np.testing.assert_array_equal(transforms.CropResize(1, 2, 4, 3)(image).asnumpy(), image.asnumpy()[2:5, 1:5])


def test_the_iterator_over_idx_files():
    batches = digits.iterator("t10k", batch_size=50, flat=False)
    images, labels = digits.arrays("t10k")
    first = next(batches)
    np.testing.assert_allclose(first.data[0].asnumpy() * 16, images[:50], rtol=1e-6)
    np.testing.assert_array_equal(first.label[0].asnumpy(), labels[:50])
    assert len(list(batches)) == 6
    batches.reset()
    assert len(list(batches)) == 7
    assert batches.provide_data[0].shape == (50, 1, 8, 8)


def test_the_iterator_over_csv_files(tmp_path):
    table = np.arange(14).reshape(7, 2)
    for name, values in (("data.csv", table), ("label.csv", np.arange(7)[:, None])):
        np.savetxt(str(tmp_path / name), values, delimiter=",", fmt="%g")
    batches = mx.io.CSVIter(data_csv=str(tmp_path / "data.csv"), data_shape=(2,), label_csv=str(tmp_path / "label.csv"),
                            batch_size=3, round_batch=True)
    found = list(batches)
    assert [batch.pad for batch in found] == [0, 0, 2]
    np.testing.assert_array_equal(found[1].data[0].asnumpy(), table[3:6])
    np.testing.assert_array_equal(found[2].label[0].asnumpy().ravel()[:1], [6])


def test_the_iterator_over_arrays():
    batches = mx.io.NDArrayIter({"a": np.arange(10), "b": np.ones((10, 2))}, np.arange(10), 4, last_batch_handle="pad")
    assert [batch.pad for batch in batches] == [0, 0, 2]
    resized = mx.io.ResizeIter(mx.io.NDArrayIter(np.arange(10), batch_size=5), 5)
    assert len(list(resized)) == 5
    prefetched = mx.io.PrefetchingIter(mx.io.NDArrayIter(np.arange(10), batch_size=5))
    assert [batch.data[0].asnumpy()[0] for batch in prefetched] == [0, 5]


def test_records_go_both_ways(tmp_path):
    path = str(tmp_path / "records.rec")
    magic = np.array([0xCED7230A], "<u4").tobytes()  # splits a record that holds it
    records = [b"first", b"", magic, b"abcd" + magic + magic + b"end", os.urandom(1000)]
    writer = mx.recordio.MXIndexedRecordIO(str(tmp_path / "records.idx"), path, "w")
    for index, record in enumerate(records):
        writer.write_idx(index, record)
    writer.close()
    reader = mx.recordio.MXRecordIO(path, "r")
    assert [reader.read() for _ in records] == records and reader.read() is None
    reader.reset()
    assert reader.read() == b"first"
    indexed = mx.recordio.MXIndexedRecordIO(str(tmp_path / "records.idx"), path, "r")
    assert [indexed.read_idx(index) for index in (3, 0, 4)] == [records[3], records[0], records[4]]
    header, content = mx.recordio.unpack(mx.recordio.pack(mx.recordio.IRHeader(0, [1, 2], 7, 0), b"image"))
    assert content == b"image" and header.label.tolist() == [1, 2] and header.id == 7


def test_a_damaged_record_is_an_error(tmp_path):
    path = str(tmp_path / "records.rec")
    writer = mx.recordio.MXRecordIO(path, "w")
    writer.write(b"some bytes")
    writer.close()
    with open(path, "r+b") as file:
        file.write(b"\0\0\0\0")
    with pytest.raises(mx.MXNetError):
        mx.recordio.MXRecordIO(path, "r").read()
