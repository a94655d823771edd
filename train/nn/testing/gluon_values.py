"""Writes gluon_values.txt: outputs and gradients of Gluon's layers, for layers_test.cc beside it.

Needs MXNet 1.9.1: python3 gluon_values.py > gluon_values.txt

A line is CASE KIND NAME SHAPE VALUES...; KIND is output, gradient or state. Inputs, parameters and
head gradients are not in the file, because layers_test.cc has the same formulas. What Gluon has no
layer for is written with its operators.
"""
import numpy as np
from mxnet import autograd, nd
from mxnet.gluon import loss, nn, rnn


def fill(shape, name):
    """Values from -50/64 to 50/64 that depend on a name."""
    i = np.arange(np.prod(shape, dtype=np.int64), dtype=np.int64)
    seed = sum(map(ord, name))
    return (((i * 7919 + seed * 104729) % 101 - 50) / 64.0).reshape(shape).astype(np.float32)


def parameter(shape, name):
    values = fill(shape, name)
    return np.abs(values) + 0.5 if name.endswith('running_var') else values


def integers(shape, below):
    return (np.arange(np.prod(shape)) * 5 % below).reshape(shape).astype(np.float32)


def positive(shape, name):
    return np.abs(fill(shape, name)) + np.float32(0.125)


def write(case, kind, name, array):
    array = array.asnumpy()
    shape = ','.join(map(str, array.shape))
    print(case, kind, name, shape, *('%.9g' % value for value in array.ravel()))


def run(case, function, inputs, parameters, states, train):
    inputs = [nd.array(value) for value in inputs]
    variables = list(parameters.values())
    if case != 'embedding':  # whose input are integers
        variables.append(inputs[0])
    for array in variables:
        array.attach_grad()
    with autograd.record(train_mode=train):
        outputs = function(*inputs)
        if not isinstance(outputs, (list, tuple)):
            outputs = [outputs]
        flat = [o for output in outputs for o in (output if isinstance(output, list) else [output])]
        heads = [nd.array(fill(o.shape, 'head%d' % i)) for i, o in enumerate(flat)]
    autograd.backward(flat, heads, train_mode=train)
    for i, output in enumerate(flat):
        write(case, 'output', str(i), output)
    if inputs[0].grad is not None:
        write(case, 'gradient', 'data0', inputs[0].grad)
    for name, array in parameters.items():
        write(case, 'gradient', name, array.grad)
    for name, array in states.items():
        if name.startswith('running'):
            write(case, 'state', name, array)


def layer(case, net, *inputs, train=True):
    net.initialize()
    net(*map(nd.array, inputs))
    parameters, states = {}, {}
    for name, value in net._collect_params_with_prefix().items():
        value.set_data(nd.array(parameter(value.shape, name)))
        (states if value.grad_req == 'null' else parameters)[name] = value.data()
    with autograd.pause():
        inputs = [nd.array(value) for value in inputs]
    run(case, net, inputs, parameters, states, train)


def custom(case, function, shapes, *inputs, train=True):
    parameters = {name: nd.array(parameter(shape, name)) for name, shape in shapes.items()}
    run(case, lambda *arrays: function(parameters, *arrays), inputs, parameters, {}, train)


def rms_norm(p, x):
    mean = nd.mean(nd.square(x), axis=-1, keepdims=True)
    return nd.broadcast_mul(nd.broadcast_div(x, nd.sqrt(mean + 1e-6)), p['gamma'])


def rotate(x, base=10000.0):
    positions, channels = x.shape[-2:]
    half = channels // 2
    angles = np.outer(np.arange(positions), base ** (-2.0 * np.arange(half) / channels))
    cosine, sine = nd.array(np.cos(angles)[None]), nd.array(np.sin(angles)[None])
    low, high = x[:, :, :half], x[:, :, half:]
    return nd.concat(nd.broadcast_mul(low, cosine) - nd.broadcast_mul(high, sine),
                     nd.broadcast_mul(high, cosine) + nd.broadcast_mul(low, sine), dim=2)


def attention(heads, causal, rotary):
    def function(p, q, *others):
        k, v = others or (q, q)

        def project(x, name):
            return nd.FullyConnected(x, p[name + '.weight'], p[name + '.bias'], flatten=False,
                                     num_hidden=p[name + '.bias'].shape[0])

        def split(x):
            x = nd.transpose(nd.reshape(x, (0, 0, heads, -1)), (0, 2, 1, 3))
            return nd.reshape(x, (-3, 0, 0))
        q, k, v = split(project(q, 'query')), split(project(k, 'key')), split(project(v, 'value'))
        if rotary:
            q, k = rotate(q), rotate(k)
        scores = nd.batch_dot(q, k, transpose_b=True) / np.sqrt(q.shape[-1])
        if causal:
            hidden = np.triu(np.full(scores.shape[1:], -1e30), k=scores.shape[2] - scores.shape[1] + 1)
            scores = nd.broadcast_add(scores, nd.array(hidden[None]))
        y = nd.batch_dot(nd.softmax(scores), v)
        y = nd.transpose(nd.reshape(y, (-4, -1, heads, 0, 0)), (0, 2, 1, 3))
        return project(nd.reshape(y, (0, 0, -3)), 'output')
    return function


def attention_shapes(units, channels):
    shapes = {}
    for name in ('query', 'key', 'value', 'output'):
        shapes[name + '.weight'] = (units, units if name == 'output' else channels)
        shapes[name + '.bias'] = (units,)
    return shapes


def data(*shape):
    return fill(shape, 'data0')


def label(*shape):
    return fill(shape, 'data1')


def signs(*shape):
    return np.where(fill(shape, 'data1') > 0, 1, -1).astype(np.float32)


layer('dense', nn.Dense(3), data(2, 2, 2))
layer('dense_rows', nn.Dense(3, flatten=False, use_bias=False, activation='tanh'), data(2, 2, 4))
layer('flatten', nn.Flatten(), data(2, 3, 2))
for name in ('relu', 'sigmoid', 'tanh', 'softrelu', 'softsign'):
    layer('activation_' + name, nn.Activation(name), data(3, 4))
layer('gelu', nn.GELU(), data(3, 4))
layer('silu', nn.Swish(), data(3, 4))
layer('selu', nn.SELU(), data(3, 4))
layer('elu', nn.ELU(0.7), data(3, 4))
layer('leaky_relu', nn.LeakyReLU(0.2), data(3, 4))
layer('prelu', nn.PReLU(), data(3, 4))
layer('dropout', nn.Dropout(0.5), data(3, 4), train=False)
layer('embedding', nn.Embedding(5, 3), integers((2, 4), 5))
layer('conv1d', nn.Conv1D(4, 3, padding=1, groups=2), data(2, 2, 5))
layer('conv2d', nn.Conv2D(3, (3, 2), strides=(2, 1), dilation=(1, 2), activation='relu'), data(2, 2, 5, 6))
layer('conv3d', nn.Conv3D(2, 2, use_bias=False), data(1, 2, 3, 3, 4))
layer('conv1d_transpose', nn.Conv1DTranspose(3, 3, strides=2, padding=1, output_padding=1), data(2, 2, 4))
layer('conv2d_transpose', nn.Conv2DTranspose(2, (2, 3), groups=2, in_channels=4), data(1, 4, 3, 2))
layer('conv3d_transpose', nn.Conv3DTranspose(2, 2), data(1, 1, 2, 2, 3))
layer('max_pool1d', nn.MaxPool1D(), data(2, 2, 5))
layer('max_pool2d', nn.MaxPool2D(3, 2, 1), data(1, 2, 5, 6))
layer('max_pool3d', nn.MaxPool3D(2, 1), data(1, 1, 3, 3, 3))
layer('avg_pool1d', nn.AvgPool1D(2, 2, ceil_mode=True), data(2, 2, 5))
layer('avg_pool2d', nn.AvgPool2D((3, 2), 2, 1, count_include_pad=False), data(1, 2, 5, 6))
layer('avg_pool3d', nn.AvgPool3D(), data(1, 1, 4, 2, 2))
layer('global_max_pool1d', nn.GlobalMaxPool1D(), data(2, 2, 5))
layer('global_max_pool2d', nn.GlobalMaxPool2D(), data(2, 2, 3, 2))
layer('global_max_pool3d', nn.GlobalMaxPool3D(), data(1, 2, 2, 3, 2))
layer('global_avg_pool1d', nn.GlobalAvgPool1D(), data(2, 2, 5))
layer('global_avg_pool2d', nn.GlobalAvgPool2D(), data(2, 2, 3, 2))
layer('global_avg_pool3d', nn.GlobalAvgPool3D(), data(1, 2, 2, 3, 2))
layer('batch_norm', nn.BatchNorm(), data(3, 2, 4))
layer('batch_norm_predict', nn.BatchNorm(axis=2, epsilon=1e-3), data(3, 2, 4), train=False)
layer('batch_norm_fixed', nn.BatchNorm(momentum=0.5, scale=False, center=False), data(3, 2, 4))
layer('layer_norm', nn.LayerNorm(), data(3, 2, 4))
layer('layer_norm_axis', nn.LayerNorm(axis=1, epsilon=1e-3), data(3, 2, 4))
layer('group_norm', nn.GroupNorm(2), data(3, 4, 3))
custom('rms_norm', rms_norm, {'gamma': (4,)}, data(3, 2, 4))
layer('rnn', rnn.RNN(3), data(4, 2, 3))
layer('rnn_tanh', rnn.RNN(3, 2, activation='tanh', layout='NTC'), data(2, 4, 3))
layer('lstm', rnn.LSTM(3, 2), data(4, 2, 3))
layer('lstm_both', rnn.LSTM(2, bidirectional=True), data(3, 2, 3))
layer('gru', rnn.GRU(3, 2, bidirectional=True), data(3, 2, 2))
custom('rotary', lambda p, x: rotate(x), {}, data(2, 3, 4))
custom('attention', attention(2, False, False), attention_shapes(4, 3), data(2, 3, 3))
custom('attention_causal', attention(2, True, True), attention_shapes(8, 3), data(2, 4, 3))
custom('attention_cross', attention(1, False, False), attention_shapes(4, 3), data(2, 2, 3),
       fill((2, 3, 3), 'data1'), fill((2, 3, 3), 'data2'))

layer('l1', loss.L1Loss(), data(3, 4), label(3, 4))
layer('l2', loss.L2Loss(weight=0.5), data(3, 4), label(3, 4), positive((3, 1), 'data2'))
layer('huber', loss.HuberLoss(0.25), data(3, 4), label(3, 4))
layer('hinge', loss.HingeLoss(), data(3, 4), signs(3, 4))
layer('softmax_ce', loss.SoftmaxCrossEntropyLoss(), data(3, 4), integers((3,), 4))
layer('softmax_ce_axis', loss.SoftmaxCrossEntropyLoss(axis=1), data(2, 3, 4), integers((2, 4), 3))
layer('softmax_ce_dense', loss.SoftmaxCrossEntropyLoss(sparse_label=False), data(3, 4), positive((3, 4), 'data1'))
layer('sigmoid_ce', loss.SigmoidBinaryCrossEntropyLoss(), data(3, 4), positive((3, 4), 'data1'))
layer('sigmoid_ce_p', loss.SigmoidBinaryCrossEntropyLoss(from_sigmoid=True), positive((3, 4), 'data0'),
      positive((3, 4), 'data1'))
layer('kl', loss.KLDivLoss(), data(3, 4), positive((3, 4), 'data1'))
layer('kl_numbers', loss.KLDivLoss(from_logits=False), data(3, 4), positive((3, 4), 'data1'))
layer('ctc', loss.CTCLoss(), data(2, 5, 4), np.array([[0, 1, 2], [2, 2, -1]], np.float32))
layer('ctc_lengths', loss.CTCLoss(), data(2, 5, 4), np.array([[0, 1, 2], [2, 2, 0]], np.float32),
      np.array([5, 4], np.float32), np.array([3, 2], np.float32))
layer('triplet', loss.TripletLoss(), data(3, 4), label(3, 4), fill((3, 4), 'data2'))


def lstm_with_states():
    """Gluon takes the states as a list."""
    net = rnn.LSTM(3)
    net.initialize()
    x, h, c = data(3, 2, 2), fill((1, 2, 3), 'data1'), fill((1, 2, 3), 'data2')
    net(nd.array(x), [nd.array(h), nd.array(c)])
    parameters = {}
    for name, value in net._collect_params_with_prefix().items():
        value.set_data(nd.array(parameter(value.shape, name)))
        parameters[name] = value.data()
    run('lstm_states', lambda a, b, d: net(a, [b, d]), [x, h, c], parameters, {}, True)


lstm_with_states()
