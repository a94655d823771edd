"""A worker of test_many_workers.py: workers_program.py CASE. Prints "rank R of N: ok" at the end."""

import sys

import horovod.mxnet as hvd
import mxnet as mx
import numpy as np
from mxnet import nd

import digits

KINDS = ("dist_sync", "dist_device_sync", "dist", "dist_sync_device")
SHAPE = (3, 4)
BATCH = 8


def pulled(store, key, shape=SHAPE):
    out = nd.zeros(shape)
    store.pull(key, out=out)
    return out.asnumpy()


def assert_equal_on_all(arrays):
    """Every worker has the same bits: so the sum over a power of two of workers is exact."""
    store = mx.kv.create("dist_sync")
    for name, array in arrays.items():
        store.init(name, array)
        store.push(name, array)
        total = pulled(store, name, array.shape)
        assert (total == store.num_workers * array.asnumpy()).all(), name
    store.close()


def stores(number):
    for kind in KINDS:
        store = mx.kv.create(kind)
        assert isinstance(store, mx.kv.KVStore) and store.type == kind
        assert store.num_workers == number
        store.init(3, nd.ones(SHAPE) * (store.rank + 5))
        assert (pulled(store, 3) == 5).all()
        store.push(3, [nd.ones(SHAPE) * (store.rank + 1)] * 2)
        assert (pulled(store, 3) == number * (number + 1)).all()
        outs = [nd.zeros(SHAPE), nd.zeros(SHAPE)]
        store.pushpull(3, nd.ones(SHAPE), out=outs)
        assert all((out.asnumpy() == number).all() for out in outs)
        out = nd.zeros(SHAPE)
        store.broadcast(9, nd.ones(SHAPE) * (store.rank + 2), out)
        assert (out.asnumpy() == 2).all()
        store._barrier()
        if kind != KINDS[-1]:
            store.close()  # the last ends with the program


def optimizer(number):
    store = mx.kv.create("dist_sync")
    store.set_optimizer(mx.optimizer.SGD(learning_rate=0.5, momentum=0.5, rescale_grad=1 / number))
    store.init("w", nd.ones(SHAPE))
    weight, velocity = 1.0, 0.0
    for step in range(4):
        store.push("w", nd.ones(SHAPE) * (store.rank + step))
        velocity = 0.5 * velocity - 0.5 * ((number - 1) / 2 + step)
        weight += velocity
        np.testing.assert_allclose(pulled(store, "w"), weight, rtol=1e-6)
    store.save_optimizer_states("states_%d" % store.rank)
    store.load_optimizer_states("states_%d" % store.rank)


def batches(steps, workers):
    """The parts of each worker for each step."""
    images, labels = digits.arrays("train")
    for step in range(steps):
        begin = step * BATCH * workers
        yield [(nd.array(images[part:part + BATCH]), nd.array(labels[part:part + BATCH]))
               for part in range(begin, begin + BATCH * workers, BATCH)]


def network():
    mx.random.seed(7)
    net = mx.gluon.nn.HybridSequential()
    net.add(mx.gluon.nn.Conv2D(4, 3, in_channels=1), mx.gluon.nn.Activation("relu"), mx.gluon.nn.Dense(10))
    net.initialize(mx.init.Xavier())
    net(nd.zeros((1, 1, 8, 8)))
    return net


def backward(net, parts):
    loss = mx.gluon.loss.SoftmaxCrossEntropyLoss()
    for images, labels in parts:
        with mx.autograd.record():
            value = loss(net(images), labels)
        value.backward()


def weights_of(net):
    return {"weight %d" % i: value.data() for i, value in enumerate(net.collect_params().values())}


def trained_alone(workers, momentum):
    """The weights after three steps of one process with the batches of all workers."""
    net = network()
    net.collect_params().setattr("grad_req", "add")
    trainer = mx.gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.1, "momentum": momentum}, kvstore=None)
    for parts in batches(3, workers):
        net.collect_params().zero_grad()
        backward(net, parts)
        trainer.step(BATCH * workers)
    return weights_of(net)


def assert_close(found, expected):
    assert found.keys() == expected.keys()
    for name, array in expected.items():
        np.testing.assert_allclose(found[name].asnumpy(), array.asnumpy(), rtol=1e-4, atol=1e-6, err_msg=name)


def trainer(number):
    for update_on_kvstore in (True, False):
        store = mx.kv.create("dist_sync")
        net = network()
        if store.rank > 0:
            net.initialize(mx.init.Zero(), force_reinit=True)  # rank 0's weights replace these
        steps = mx.gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.1, "momentum": 0.9}, kvstore=store,
                                 update_on_kvstore=update_on_kvstore)
        steps._optimizer.rescale_grad = 1 / (BATCH * number)  # may not change once the store is there
        steps._init_kvstore()
        steps._init_params()
        for parts in batches(3, number):
            backward(net, [parts[store.rank]])
            steps.step(BATCH * number)
        assert_equal_on_all(weights_of(net))
        assert_close(weights_of(net), trained_alone(number, 0.9))


def module(number):
    store = mx.kv.create("dist_sync")
    x = mx.sym.FullyConnected(mx.sym.var("data"), num_hidden=32, name="fc1")
    x = mx.sym.FullyConnected(mx.sym.Activation(x, act_type="relu"), num_hidden=10, name="fc2")
    images, labels = digits.arrays("train")
    images = images.reshape((len(images), -1))
    count = len(images) // number
    own = slice(store.rank * count, (store.rank + 1) * count)
    data = mx.io.NDArrayIter(images[own], labels[own], 32, last_batch_handle="discard")
    mx.random.seed(store.rank + 1)
    fitted = mx.mod.Module(mx.sym.SoftmaxOutput(x, name="softmax"))
    fitted.fit(data, num_epoch=12, kvstore=store, optimizer="sgd", initializer=mx.init.Xavier(),
               optimizer_params={"learning_rate": 0.1, "momentum": 0.9})
    assert_equal_on_all(fitted.get_params()[0])
    images, labels = digits.arrays("t10k")
    test = mx.io.NDArrayIter(images.reshape((len(images), -1)), labels, 30)
    assert fitted.score(test, "acc")[0][1] >= 0.85


def horovod(number):
    try:
        hvd.rank()
        raise AssertionError("hvd.rank() has worked before hvd.init()")
    except ValueError:
        pass
    hvd.init()
    hvd.init()
    rank = hvd.rank()
    assert hvd.size() == number and hvd.local_size() == number and hvd.local_rank() == rank
    own = nd.ones(SHAPE) * rank
    assert (hvd.allreduce(own, name="own").asnumpy() == (number - 1) / 2).all()
    assert (hvd.allreduce(own, average=False).asnumpy() == number * (number - 1) / 2).all()
    assert (own.asnumpy() == rank).all()
    hvd.allreduce_(own, average=False, name="in place")
    assert (own.asnumpy() == number * (number - 1) / 2).all()
    gathered = hvd.allgather(nd.ones((rank, 2)) * rank if rank else nd.zeros((1, 2)))
    lengths = [1] + list(range(1, number))
    assert gathered.asnumpy()[:, 0].tolist() == [i for i, length in enumerate(lengths) for _ in range(length)]
    assert (hvd.broadcast(nd.ones(SHAPE) * rank, root_rank=number - 1).asnumpy() == number - 1).all()

    net = network()
    if rank > 0:
        net.initialize(mx.init.Zero(), force_reinit=True)
    hvd.broadcast_parameters(net.collect_params(), root_rank=0)
    steps = hvd.DistributedTrainer(net.collect_params(), "sgd", {"learning_rate": 0.1, "momentum": 0.9})
    for parts in batches(3, number):
        backward(net, [parts[rank]])
        steps.step(BATCH)
    assert_close(weights_of(net), trained_alone(number, 0.9))

    later = mx.gluon.nn.Dense(3)  # its shape is known after the first batch
    later.initialize(mx.init.Constant(rank + 1))
    hvd.broadcast_parameters(later.collect_params(), root_rank=1)
    later(nd.zeros((1, 2)))
    assert (later.weight.data().asnumpy() == 2).all()

    weight, gradient = nd.ones(SHAPE), nd.ones(SHAPE) * rank
    update = mx.optimizer.get_updater(hvd.DistributedOptimizer(mx.optimizer.SGD(learning_rate=1)))
    update(0, gradient, weight)
    np.testing.assert_allclose(weight.asnumpy(), 1 - (number - 1) / 2)
    hvd.shutdown()
    assert not hvd.is_initialized()


def raises(_):
    store = mx.kv.create("dist_sync")
    store.init("w", nd.ones(SHAPE))
    if store.rank == 1:
        raise KeyError("no such column")
    store._barrier()


def exits(_):
    store = mx.kv.create("dist_sync")
    store.init("w", nd.ones(SHAPE))
    if store.rank == 1:
        sys.exit(3)
    store._barrier()


def compressed(number):
    store = mx.kv.create("dist_sync")
    store.set_gradient_compression({"type": "2bit", "threshold": 0.5})
    store.init("w", nd.zeros(SHAPE))
    for sent in (0, 0.5):
        store.push("w", nd.full(SHAPE, 0.25))
        out = nd.zeros(SHAPE)
        store.pull("w", out=out)
        assert (out.asnumpy() == number * sent).all(), out


def no_servers(_):
    store = mx.kv.create("dist_sync")
    for call in (lambda: store._send_command_to_servers(0, "body"),
                 lambda: mx.kv.create("dist_async")):
        try:
            call()
        except mx.MXNetError as error:
            assert "dist" in str(error), error
        else:
            raise AssertionError("no error")


def main():
    case = globals()[sys.argv[1]]
    probe = mx.kv.create("dist_sync")
    rank, number = probe.rank, probe.num_workers
    case(number)
    print("rank %d of %d: ok" % (rank, number), flush=True)


if __name__ == "__main__":
    main()
