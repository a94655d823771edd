#!/usr/bin/env python3
"""Writes training_traces.inc: what one training step of three networks asks of an allocator.

    python3 storage/testing/traces/record_traces.py > storage/testing/traces/training_traces.inc

needs PyTorch (`pip install torch==2.1.2 "numpy<2"`), whose profiler sees each allocation and each free on
the CPU with its address and size. Recorded are the sizes and the order of a step with automatic
differentiation: forward, backward, the optimizer's update, the gradients given up. (A bound executor of
Tessera's plans all this ahead and asks for nothing in a step, so there would be nothing to record.) The
first steps are left out, because an optimizer allocates its state in them. What the library behind the
convolutions takes past PyTorch's allocator is not seen.

A trace is a list of numbers: a positive one allocates so many bytes; -k frees what the k-th positive
one, counted from 1, allocated. `setup` holds what is live before a step and after it (data, weights,
the optimizer's state), `step` is repeated and ends with everything that it allocated freed.
"""

import torch
from torch import nn
from torch.autograd.profiler import profile, record_function

WARM_UP_STEPS = 3
STEP_NAME = "recorded step"


class Perceptron(nn.Module):
    """Digits of 28 x 28 pixels through three hidden layers, with dropout."""

    def __init__(self, widths=(784, 1024, 1024, 512), classes=10):
        super().__init__()
        layers = []
        for below, width in zip(widths, widths[1:]):
            layers += [nn.Linear(below, width), nn.ReLU(), nn.Dropout(0.5)]
        self.layers = nn.Sequential(*layers, nn.Linear(widths[-1], classes))

    def forward(self, images):
        return self.layers(images)


class Convolutional(nn.Module):
    """A small VGG (Simonyan and Zisserman, 2014) for images of 32 x 32, with batch normalization."""

    def __init__(self, stages=((64, 2), (128, 2), (256, 3), (256, 3)), classes=10):
        super().__init__()
        layers = []
        channels = 3
        for width, count in stages:
            for _ in range(count):
                layers += [nn.Conv2d(channels, width, 3, padding=1), nn.BatchNorm2d(width), nn.ReLU()]
                channels = width
            layers.append(nn.MaxPool2d(2))
        self.features = nn.Sequential(*layers)
        self.head = nn.Sequential(nn.Linear(channels * 4, 512), nn.ReLU(), nn.Linear(512, classes))

    def forward(self, images):
        return self.head(self.features(images).flatten(1))


class Recurrent(nn.Module):
    """A language model of two layers of long short-term memory, unrolled cell by cell."""

    def __init__(self, words=2000, hidden=200, layers=2):
        super().__init__()
        self.embedding = nn.Embedding(words, hidden)
        self.cells = nn.ModuleList(nn.LSTMCell(hidden, hidden) for _ in range(layers))
        self.scores = nn.Linear(hidden, words)

    def forward(self, words):
        """words (time, batch); returns the scores of each next word, (time * batch, words)."""
        states = [None] * len(self.cells)
        outputs = []
        for inputs in self.embedding(words):
            for i, cell in enumerate(self.cells):
                states[i] = cell(inputs, states[i])
                inputs = states[i][0]
            outputs.append(inputs)
        return self.scores(torch.cat(outputs))


def perceptron():
    data = torch.rand(256, 784), torch.randint(10, (256,))
    network = Perceptron()
    return network, data, torch.optim.SGD(network.parameters(), lr=0.01, momentum=0.9)


def convolutional():
    data = torch.rand(32, 3, 32, 32), torch.randint(10, (32,))
    network = Convolutional()
    return network, data, torch.optim.SGD(network.parameters(), lr=0.01, momentum=0.9)


def recurrent():
    data = torch.randint(2000, (24, 20)), torch.randint(2000, (24 * 20,))
    network = Recurrent()
    return network, data, torch.optim.Adam(network.parameters())


def train_step(network, data, optimizer):
    inputs, labels = data
    loss = nn.functional.cross_entropy(network(inputs), labels)
    loss.backward()
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)


def memory_events(results):
    """Lists (time, address, change of bytes) of each allocation and free; and the step's two times."""
    events = []
    step = None
    pending = list(results.experimental_event_tree())
    while pending:
        event = pending.pop()
        pending += event.children
        if event.name == STEP_NAME:
            step = event.start_time_ns, event.end_time_ns
        if event.name == "[memory]":
            fields = event.extra_fields
            events.append((event.start_time_ns, fields.ptr, fields.alloc_size))
    events.sort(key=lambda event: event[0])  # nanoseconds; no two events of a thread share one
    return events, step


def record(make_training):
    """The setup and the step of one network's training, as lists of numbers."""
    torch.manual_seed(1)
    with profile(profile_memory=True, use_kineto=True) as profiler:
        training = make_training()
        for _ in range(WARM_UP_STEPS):
            train_step(*training)
        with record_function(STEP_NAME):
            train_step(*training)
    events, (begin, end) = memory_events(profiler.kineto_results)

    live = {}  # by address: the number in the step's list, None for what is older, and the bytes
    setup, step = {}, []
    count = 0
    for time, address, change in events:
        if time > end:
            break
        if change > 0:
            assert address not in live, "two live blocks at one address"
            if time < begin:
                live[address] = None, change
                setup[address] = change
            else:
                count += 1
                step.append(change)
                live[address] = count, change
        elif address in live:
            number, size = live.pop(address)
            assert size == -change, "a block is freed with another size"
            if number is None:
                assert time < begin, "the step frees what it has not allocated"
                del setup[address]
            else:
                step.append(-number)
    assert all(number is None for number, _ in live.values()), "the step leaves blocks behind"
    assert sum(size > 0 for size in step) == sum(size < 0 for size in step)
    return list(setup.values()), step


def write(name, events):
    print("inline constexpr int32_t k%s[] = {" % name)
    line = "   "
    for event in events:
        text = " %d," % event
        if len(line) + len(text) > 100:
            print(line)
            line = "   "
        line += text
    print(line)
    print("};")


def main():
    torch.set_num_threads(1)
    print("// Generated by storage/testing/traces/record_traces.py, which says what the numbers mean.")
    print("// PyTorch %s." % torch.__version__.split("+")[0])
    for make_training in (perceptron, convolutional, recurrent):
        name = make_training.__name__.capitalize()
        setup, step = record(make_training)
        write(name + "Setup", setup)
        write(name + "Step", step)


if __name__ == "__main__":
    main()
