#!/usr/bin/env python3
"""Writes training_traces.inc: what one training step of three networks asks of an allocator.

    python3 storage/traces/make_traces.py > storage/traces/training_traces.inc

The sizes and their order are those of a step that runs operator by operator, as imperative code with
automatic differentiation does: each output is allocated when its operator runs and freed after its
last use, forward outputs that the backward pass needs stay until then, workspaces live for one
operator, gradients of weights live until the update. (A bound executor plans all this ahead and asks
for nothing in a step, so there would be nothing to record.) Elements have four bytes.

A trace is a list of numbers: a positive one allocates so many bytes; -k frees what the k-th positive
one, counted from 1, allocated. `setup` holds what lives through all steps, `step` is repeated and
ends with everything that it allocated freed.
"""


class Recorder:
    def __init__(self):
        self.events = []
        self.count = 0
        self.live = set()

    def alloc(self, elements):
        self.count += 1
        self.events.append(elements * 4)
        self.live.add(self.count)
        return self.count

    def free(self, *blocks):
        for block in blocks:
            self.live.remove(block)
            self.events.append(-block)


class Step(Recorder):
    """A step: operators with their saved outputs, then the way back, then the update."""

    def __init__(self):
        super().__init__()
        self.tape = []  # (backward function, what it saved)
        self.gradients = []

    def forward(self, out, saved_extra=0, workspace=0):
        space = self.alloc(workspace) if workspace else None
        block = self.alloc(out)
        extra = self.alloc(saved_extra) if saved_extra else None
        if space:
            self.free(space)
        return block, extra

    def layer(self, inputs, out, weights=(), saved_extra=0, workspace=0):
        """One operator with its backward: gradient of its input, gradients of its weights."""
        block, extra = self.forward(out, saved_extra, workspace)
        self.tape.append((inputs, block, extra, weights, workspace))
        return block

    def finish(self, batch, classes, momentum=True):
        probabilities = self.alloc(batch * classes)
        loss = self.alloc(batch)
        gradient = self.alloc(batch * classes)
        self.free(loss, probabilities)
        for inputs, block, extra, weights, workspace in reversed(self.tape):
            for weight in weights:
                space = self.alloc(workspace) if workspace else None
                self.gradients.append((self.alloc(weight), weight))
                if space:
                    self.free(space)
            below = None
            if inputs:
                space = self.alloc(workspace) if workspace else None
                below = self.alloc(inputs)
                if space:
                    self.free(space)
            if gradient:  # none where a gradient comes with its output, as for an embedding
                self.free(gradient)
            self.free(block)
            if extra:
                self.free(extra)
            gradient = below
        if gradient:
            self.free(gradient)
        for block, weight in self.gradients:
            scratch = self.alloc(weight)  # learning rate * gradient + decay * weight
            if not momentum:
                second = self.alloc(weight)
                self.free(second)
            self.free(scratch, block)
        assert not self.live


def perceptron(batch=256, widths=(784, 1024, 1024, 512, 10)):
    setup, step = Recorder(), Step()
    setup.alloc(batch * widths[0])
    setup.alloc(batch)
    for below, width in zip(widths, widths[1:]):
        for size in (below * width, width):
            setup.alloc(size), setup.alloc(size)  # a weight and its momentum
    for i, (below, width) in enumerate(zip(widths, widths[1:])):
        step.layer(batch * below if i else 0, batch * width, (below * width, width))
        if width != widths[-1]:
            step.layer(batch * width, batch * width)  # activation
            step.layer(batch * width, batch * width, saved_extra=batch * width // 4)  # dropout
    step.finish(batch, widths[-1])
    return setup, step


def convolutional(batch=32, size=32, stages=((64, 2), (128, 2), (256, 3), (256, 3))):
    setup, step = Recorder(), Step()
    channels = 3
    setup.alloc(batch * channels * size * size)
    setup.alloc(batch)
    first = True
    for width, layers in stages:
        for _ in range(layers):
            weight = width * channels * 9
            for parameter in (weight, width, width):
                setup.alloc(parameter), setup.alloc(parameter)
            inputs = 0 if first else batch * channels * size * size
            out = batch * width * size * size
            columns = 2 * channels * 9 * size * size  # two images at a time
            step.layer(inputs, out, (weight,), workspace=columns)
            step.layer(out, out, (width, width), saved_extra=2 * width)  # batch norm
            step.layer(out, out)  # activation
            channels, first = width, False
        pooled = batch * channels * (size // 2) ** 2
        step.layer(batch * channels * size * size, pooled, saved_extra=pooled)
        size //= 2
    features = channels * size * size
    for below, width in ((features, 512), (512, 10)):
        for parameter in (below * width, width):
            setup.alloc(parameter), setup.alloc(parameter)
        step.layer(batch * below, batch * width, (below * width, width))
    step.finish(batch, 10)
    return setup, step


def recurrent(batch=20, steps=24, hidden=200, layers=2, words=2000):
    """A long short-term memory, unrolled; Adam's update."""
    setup, step = Recorder(), Step()
    setup.alloc(batch * steps)
    setup.alloc(words * hidden)
    for _ in range(layers):
        for parameter in (8 * hidden * hidden, 8 * hidden):
            for _ in range(3):
                setup.alloc(parameter)
    for _ in range(3):
        setup.alloc(words * hidden)
    state = batch * hidden
    for time in range(steps):
        # Sequences in a batch end at different times: later steps have smaller batches.
        rows = max(4, batch - time // 3)
        state = rows * hidden
        step.layer(0, state)  # embedding
        for _ in range(layers):
            step.layer(state, 4 * state, workspace=4 * state)  # input and state to gates
            step.layer(4 * state, 4 * state)  # activations of gates
            step.layer(4 * state, state, saved_extra=state)  # cell, and its tanh
            step.layer(state, state)  # output
        step.layer(state, rows * words)  # scores of words
    step.layer(rows * words, rows * words, (words * hidden, 8 * hidden * hidden, 8 * hidden))
    step.finish(rows, words, momentum=False)
    return setup, step


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
    print("// Generated by storage/traces/make_traces.py, which says what the numbers mean.")
    for network in (perceptron, convolutional, recurrent):
        setup, step = network()
        name = network.__name__.capitalize()
        write(name + "Setup", setup.events)
        write(name + "Step", step.events)


if __name__ == "__main__":
    main()
