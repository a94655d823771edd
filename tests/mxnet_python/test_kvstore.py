"""The key-value stores of one process, with updaters in Python."""

import mxnet as mx
import numpy as np
import pytest
from mxnet import nd

SHAPE = (3, 4)


def store_of(kind):
    store = mx.kv.create(kind)
    store.init(3, nd.ones(SHAPE))
    store.init([5, 7], [nd.zeros(SHAPE)] * 2)
    return store


def pulled(store, key):
    out = nd.zeros(SHAPE)
    store.pull(key, out=out)
    return out.asnumpy()


@pytest.mark.parametrize("kind", ["local", "device"])
def test_what_is_pushed_is_summed(kind):
    store = store_of(kind)
    assert store.type == kind and store.rank == 0 and store.num_workers == 1
    store.push(3, [nd.ones(SHAPE) * factor for factor in (1, 2, 3)])
    assert (pulled(store, 3) == 6).all()
    store.push([5, 7], [[nd.ones(SHAPE)], [nd.ones(SHAPE) * 2]])
    assert (pulled(store, 5) == 1).all() and (pulled(store, 7) == 2).all()
    outs = [nd.zeros(SHAPE), nd.zeros(SHAPE)]
    store.pushpull(3, [nd.ones(SHAPE)] * 2, out=outs)
    assert all((out.asnumpy() == 2).all() for out in outs)


def test_compressed_gradients_send_their_rests_later():
    store = mx.kv.create("device")
    store.set_gradient_compression({"type": "2bit", "threshold": 0.5})
    store.init(3, nd.zeros(5))
    out = nd.zeros(5)
    for expected in ([0, 0.5, -0.5, 0.5, 0], [0.5, 0.5, -0.5, 0.5, 0], [0, 0.5, -0.5, 0.5, 0]):
        store.push(3, nd.array([0.25, 0.5, -0.75, 1.5, -0.125]))
        store.pull(3, out=out)
        assert out.asnumpy().tolist() == expected
    store.init(5, nd.zeros(3))
    for expected in ([-0.5, 0, 0.5], [0, 0.5, 0]):
        store.push(5, [nd.array([-0.5, 0.25, 0.5]), nd.array([0.25, 0, -0.25])])
        store.pull(5, out=out[:3])
        assert out[:3].asnumpy().tolist() == expected


@pytest.mark.parametrize("parameters", [{"type": "1bit"}, {"type": "2bit", "threshold": 0}])
def test_compression_checks_its_parameters(parameters):
    with pytest.raises(mx.MXNetError):
        mx.kv.create("device").set_gradient_compression(parameters)


def test_keys_may_be_names():
    store = mx.kv.create("local")
    store.init("weight", nd.ones(SHAPE))
    store.push("weight", nd.ones(SHAPE) * 4)
    assert (pulled(store, "weight") == 4).all()
    with pytest.raises(mx.MXNetError):
        pulled(store, "bias")


@pytest.mark.parametrize("kind", ["local", "device"])
def test_an_updater_in_python(kind):
    store = store_of(kind)
    keys = []

    def update(key, gradient, weight):
        keys.append(key)
        weight -= 0.5 * gradient

    store._set_updater(update)
    store.push(3, [nd.ones(SHAPE)] * 2)
    store.push([5, 7], [nd.ones(SHAPE), nd.ones(SHAPE) * 2])
    assert (pulled(store, 3) == 0).all() and (pulled(store, 7) == -1).all()
    assert keys == [3, 5, 7]


def test_an_updater_may_wait_and_invoke():
    store = store_of("local")

    def update(key, gradient, weight):
        weight[:] = nd.array(np.sort(gradient.asnumpy(), axis=1)) + weight.sum().asscalar()

    store._set_updater(update)
    store.push(3, nd.array(np.arange(12)[::-1].reshape(SHAPE)))
    assert pulled(store, 3)[0].tolist() == [20, 21, 22, 23]


def test_an_updater_may_use_its_store():
    store = store_of("local")

    def update(key, gradient, weight):
        if key == 3:
            store.push(5, gradient)
        weight += gradient

    store._set_updater(update)
    store.push(3, nd.ones(SHAPE))
    assert (pulled(store, 3) == 2).all() and (pulled(store, 5) == 1).all()


def test_an_optimizer_in_the_store():
    store = store_of("local")
    store.set_optimizer(mx.optimizer.SGD(learning_rate=0.1))
    store.push(3, nd.ones(SHAPE))
    np.testing.assert_allclose(pulled(store, 3), 0.9, rtol=1e-6)


def test_a_trainer_on_a_store():
    net = mx.gluon.nn.Dense(1, in_units=2, use_bias=False)
    net.initialize(mx.init.One())
    trainer = mx.gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 1}, kvstore=mx.kv.create("device"),
                               update_on_kvstore=True)
    with mx.autograd.record():
        loss = net(nd.ones((1, 2)))
    loss.backward()
    trainer.step(1)
    assert net.weight.data().asnumpy().tolist() == [[0, 0]]
