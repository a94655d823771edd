"""Symbol and Module: training as programs from before Gluon do it."""

import logging

import mxnet as mx
import numpy as np
import pytest

import digits
import networks


def scaled(symbol_of_data):
    """MNISTIter divides pixels by 256, and these go up to 16."""
    return symbol_of_data * (256 / digits.LARGEST)


def perceptron():
    net = networks.perceptron_symbol()
    return net(data=scaled(mx.sym.Variable("data")))


@pytest.fixture(scope="module")
def trained():
    mx.random.seed(1)
    module = mx.mod.Module(perceptron())
    module.fit(digits.iterator("train", shuffle=True), eval_data=digits.iterator("t10k"), num_epoch=25,
               optimizer="sgd", optimizer_params={"learning_rate": 0.1, "momentum": 0.9, "wd": 0.0003},
               initializer=mx.init.Xavier(), eval_metric="acc",
               batch_end_callback=mx.callback.Speedometer(32, frequent=1000))
    return module


def test_fit_learns_the_digits(trained):
    assert dict(trained.score(digits.iterator("t10k"), "acc"))["accuracy"] >= 0.9


def test_predict_gives_probabilities_of_every_image(trained):
    found = trained.predict(digits.iterator("t10k", batch_size=50)).asnumpy()
    assert found.shape == (350, 10)  # MNISTIter leaves out the batch that is not full
    np.testing.assert_allclose(found.sum(axis=1), 1, rtol=1e-5)
    images, labels = digits.arrays("t10k")
    every = trained.predict(mx.io.NDArrayIter(images.reshape(-1, 64) / 16, labels, 32)).asnumpy()
    assert every.shape == (360, 10)
    assert (every.argmax(axis=1) == labels).mean() >= 0.9


def test_training_goes_on_from_a_checkpoint(trained, tmp_path):
    prefix = str(tmp_path / "digits")
    trained.save_checkpoint(prefix, 25)
    symbol, arguments, states = mx.model.load_checkpoint(prefix, 25)
    module = mx.mod.Module(symbol)
    module.fit(digits.iterator("train"), num_epoch=27, begin_epoch=25, arg_params=arguments, aux_params=states,
               optimizer="sgd", optimizer_params={"learning_rate": 0.05})
    assert dict(module.score(digits.iterator("t10k"), "acc"))["accuracy"] >= 0.9


def test_a_monitor_sees_every_output(caplog):
    module = mx.mod.Module(networks.perceptron_symbol())
    module.bind([("data", (4, 6))], [("softmax_label", (4,))])
    module.init_params(mx.init.One())
    monitor = mx.mon.Monitor(1, stat_func=lambda x: x.abs().mean(), pattern=".*output|.*weight")
    module.install_monitor(monitor)
    monitor.tic()
    module.forward(mx.io.DataBatch([mx.nd.ones((4, 6))], [mx.nd.zeros(4)]), is_train=True)
    with caplog.at_level(logging.INFO):
        seen = {name: value for _, name, value in monitor.toc()}
    assert {"fc1_output", "relu1_output", "fc2_output", "softmax_output", "fc1_weight"} <= seen.keys()
    assert float(seen["fc1_output"]) == 6  # the bias is zero


def test_a_monitor_of_inputs_numbers_those_without_a_name():
    executor = networks.perceptron_symbol().simple_bind(mx.cpu(), data=(4, 6))
    seen = []
    executor.set_monitor_callback(lambda name, _: seen.append(mx.base.py_str(name)), monitor_all=True)
    executor.forward()
    assert seen[:8] == ["data", "fc1_data", "fc1_weight", "fc1_weight", "fc1_bias", "fc1_bias", "fc1_output",
                        "relu1_input0"]


def test_bind_on_shapes_that_change():
    executor = networks.convolutional_symbol().simple_bind(mx.cpu(), data=(2, 3, 8, 8))
    executor.arg_dict["fc_bias"][:] = 3
    smaller = executor.reshape(data=(1, 3, 8, 8), softmax_label=(1,))
    assert smaller.forward()[0].shape == (1, 5)
    assert (smaller.arg_dict["fc_bias"].asnumpy() == 3).all()


def test_outputs_of_inner_nodes_and_attributes():
    net = networks.convolutional_symbol()
    inner = net.get_internals()["pool_output"]
    assert inner.infer_shape(data=(1, 3, 8, 8))[1] == [(1, 4, 4, 4)]
    with mx.AttrScope(ctx_group="first"):
        marked = mx.sym.FullyConnected(mx.sym.Variable("data"), num_hidden=2, name="fc")
    assert marked.attr("ctx_group") == "first"
    assert net.attr_dict()["conv"]["num_filter"] == "4"


def test_shapes_that_do_not_fit_are_an_error():
    with pytest.raises(mx.MXNetError, match="conv"):
        networks.convolutional_symbol().infer_shape(data=(2, 3))


def test_binding_uses_stated_shapes_and_infers_the_rest():
    dense = mx.sym.FullyConnected(mx.sym.Variable("data"), num_hidden=4)
    prelu = mx.sym.LeakyReLU(dense, mx.sym.Variable("slope", shape=(1,)), act_type="prelu")
    executor = mx.sym.pick(prelu, mx.sym.Variable("index")).simple_bind(mx.cpu(), data=(2, 3))
    shapes = {name: value.shape for name, value in executor.arg_dict.items()}
    assert (shapes["slope"], shapes["index"]) == ((1,), (2,))
    assert executor.forward()[0].shape == (2,)


@pytest.mark.parametrize("infer", ["infer_shape", "infer_shape_partial", "infer_type", "infer_type_partial"])
def test_a_name_that_the_graph_does_not_have_is_an_error(infer):
    value = (2, 3, 8, 8) if "shape" in infer else "float32"
    with pytest.raises(mx.MXNetError, match="dta(.|\n)*data"):
        getattr(networks.convolutional_symbol(), infer)(dta=value)


def test_binding_ignores_labels_that_the_graph_does_not_have():
    net = networks.convolutional_symbol().get_internals()["pool_output"]
    executor = net.simple_bind(mx.cpu(), data=(2, 3, 8, 8), softmax_label=(2,))
    assert executor.reshape(data=(1, 3, 8, 8), softmax_label=(1,)).forward()[0].shape == (1, 4, 4, 4)


def test_bucketing_shares_parameters():
    def net_of(length):
        net = mx.sym.mean(mx.sym.Embedding(mx.sym.Variable("data"), input_dim=5, output_dim=3, name="embed"), axis=1)
        return mx.sym.SoftmaxOutput(mx.sym.FullyConnected(net, num_hidden=2), name="softmax"), ("data",), (
            "softmax_label",)

    module = mx.mod.BucketingModule(net_of, default_bucket_key=6)
    module.bind([("data", (2, 6))], [("softmax_label", (2,))])
    module.init_params(mx.init.Uniform(0.1))
    module.init_optimizer(optimizer="sgd", optimizer_params={"learning_rate": 0.5})
    for length in (6, 3, 6, 4):
        module.forward_backward(mx.io.DataBatch(
            [mx.nd.ones((2, length))], [mx.nd.array([0, 1])], bucket_key=length,
            provide_data=[("data", (2, length))], provide_label=[("softmax_label", (2,))]))
        module.update()
        assert module.get_outputs()[0].shape == (2, 2)
