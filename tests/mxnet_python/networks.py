"""The networks of several tests, with parameters that depend on their names alone."""

import zlib

import mxnet as mx
import numpy as np
from mxnet import gluon, nd
from mxnet.gluon.model_zoo import vision


def set_parameters(block):
    """Gives every parameter values that follow from its name behind the block's prefix."""
    block.initialize(mx.init.Zero(), force_reinit=True)
    for name, parameter in block.collect_params().items():
        if not parameter.shape or 0 in parameter.shape:
            raise ValueError("%s has no shape yet: %s" % (name, parameter.shape))
        random = np.random.RandomState(zlib.crc32(name[len(block.prefix):].encode()) % 1000)
        low, high = (0.5, 1.5) if name.endswith(("gamma", "var")) else (-0.3, 0.3)
        parameter.set_data(nd.array(random.uniform(low, high, parameter.shape).astype("float32")))


def convolutional_symbol():
    net = mx.sym.Variable("data")
    net = mx.sym.Convolution(net, kernel=(3, 3), num_filter=4, pad=(1, 1), name="conv")
    net = mx.sym.BatchNorm(net, fix_gamma=False, name="norm")
    net = mx.sym.Activation(net, act_type="relu", name="act")
    net = mx.sym.Pooling(net, kernel=(2, 2), stride=(2, 2), pool_type="max", name="pool")
    net = mx.sym.FullyConnected(mx.sym.Flatten(net), num_hidden=5, name="fc")
    return mx.sym.SoftmaxOutput(net, name="softmax")


def perceptron_symbol():
    net = mx.sym.Variable("data")
    net = mx.sym.Activation(mx.sym.FullyConnected(net, num_hidden=64, name="fc1"), act_type="relu", name="relu1")
    net = mx.sym.FullyConnected(net, num_hidden=10, name="fc2")
    return mx.sym.SoftmaxOutput(net, name="softmax")


def hybrid_network():
    net = gluon.nn.HybridSequential()
    with net.name_scope():
        net.add(gluon.nn.Conv2D(4, 3, padding=1, in_channels=3), gluon.nn.BatchNorm(in_channels=4),
                gluon.nn.Activation("relu"), gluon.nn.MaxPool2D(), gluon.nn.Flatten(),
                gluon.nn.Dense(8, activation="tanh", in_units=64), gluon.nn.LayerNorm(in_channels=8),
                gluon.nn.Dense(4, in_units=8))
    set_parameters(net)
    return net


def zoo_networks():
    """Yields names and networks: residual blocks with both kinds of normalization, and inverted bottlenecks."""
    for name, net in (
            ("resnet_v1", vision.ResNetV1(vision.BasicBlockV1, [1, 1], [8, 8, 16], classes=10, thumbnail=True)),
            ("resnet_v2", vision.ResNetV2(vision.BottleneckV2, [1, 1], [8, 16, 32], classes=10, thumbnail=True)),
            ("mobilenet_v2", vision.MobileNetV2(0.25, classes=10))):
        # Layers learn their numbers of channels from the first input.
        net.initialize(mx.init.Zero())
        net(nd.zeros((1, 3, 32, 32)))
        set_parameters(net)
        yield name, net
