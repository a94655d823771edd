"""Files that either library writes and the other reads."""

import os

import mxnet as mx
import numpy as np
from mxnet import nd

import networks

TYPES = ("float32", "float64", "float16", "uint8", "int8", "int32", "int64")
IMAGE_SHAPE = (2, 3, 8, 8)


def by_name():
    """Arrays of every type and of several ranks."""
    found = {"of_" + kind: nd.array(np.arange(6).reshape(2, 3), dtype=kind) for kind in TYPES}
    found["arg:weight"] = nd.array(np.linspace(-1, 1, 24).reshape(2, 3, 4))
    found["aux:number"] = nd.array([7])
    return found


def write(folder):
    """Writes arrays, a list of them, a graph, a checkpoint of Module's, and Gluon's two kinds of files."""

    def path(name):
        return os.path.join(folder, name)

    nd.save(path("dict.params"), by_name())
    nd.save(path("list.params"), [nd.arange(4), nd.ones((2, 2))])
    networks.convolutional_symbol().save(path("graph-symbol.json"))

    module = mx.mod.Module(networks.convolutional_symbol(), label_names=("softmax_label",))
    module.bind([("data", IMAGE_SHAPE)], [("softmax_label", IMAGE_SHAPE[:1])])
    module.init_params(mx.init.One())
    module.init_optimizer(optimizer="sgd", optimizer_params={"momentum": 0.9})
    module.save_checkpoint(path("module"), 3, save_optimizer_states=True)

    net = networks.hybrid_network()
    net.save_parameters(path("block.params"))
    net.hybridize()
    output = net(nd.ones(IMAGE_SHAPE))
    net.export(path("exported"), epoch=1)
    np.savez(path("exported.npz"), output=output.asnumpy())
