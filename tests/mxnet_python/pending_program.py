"""Ends while work and calls of Python are pending: pending_program.py HOW

HOW is return, exit, raise, or shutdown, which goes on after the library was told that the client ends.
"""

import sys
import time

import mxnet as mx
from mxnet import autograd, nd


class Slow(mx.operator.CustomOp):
    def forward(self, is_train, req, in_data, out_data, aux):
        time.sleep(0.002)
        self.assign(out_data[0], req[0], in_data[0] * 0.5)

    def backward(self, req, out_grad, in_data, out_data, in_grad, aux):
        time.sleep(0.002)
        self.assign(in_grad[0], req[0], out_grad[0] * 0.5)


@mx.operator.register("tests_slow")
class SlowProp(mx.operator.CustomOpProp):
    def create_operator(self, ctx, shapes, dtypes):
        return Slow()


class Halved(autograd.Function):
    def forward(self, x):
        return x * 0.5

    def backward(self, dy):
        return dy * 0.5


def push_work():
    """Matrix products, operators and functions in Python, an updater and a monitor."""
    x = nd.ones((256, 256))
    x.attach_grad()
    with autograd.record():
        y = nd.Custom(x, op_type="tests_slow")
        y = Halved()(y)
        for _ in range(10):
            y = nd.dot(y, y) * 1e-3
        y = nd.Custom(y, op_type="tests_slow")
    y.backward()

    store = mx.kv.create("local")
    store.init(0, x)

    def update(key, gradient, weight):
        weight += nd.Custom(gradient, op_type="tests_slow")

    store._set_updater(update)
    for _ in range(3):
        store.push(0, y)

    net = mx.sym.Custom(mx.sym.FullyConnected(mx.sym.Variable("data"), num_hidden=256), op_type="tests_slow")
    executor = net.simple_bind(mx.cpu(), data=(256, 256))
    executor.set_monitor_callback(lambda name, array: None)
    executor.forward(is_train=True, data=x)
    executor.backward(y)
    return x, y, store, executor


def main(how):
    kept = push_work()
    print("pushed", flush=True)
    if how == "exit":
        sys.exit(3)
    if how == "raise":
        raise RuntimeError("as planned")
    if how == "shutdown":
        mx.base.check_call(mx.base._LIB.MXNotifyShutdown())
        print(kept[1].shape, nd.ones(3).sum().asscalar(), flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
