#!/usr/bin/python3
"""What the programs in this folder have to print, from the arithmetic that they stand for.

    expected.py            compares every .expected file with it; exit status 1 if one differs
    expected.py --write    writes the files anew

A program's numbers are computed here a second time, in double precision and without Tessera, from
the formulas that its source states; compare_output.sh then compares the program with its file,
within what single precision may differ. Whoever adds a program adds a function of its name that
yields its lines. The programs that are not here (blobs, containers, dropout, mlp, streams) print
sizes, sums of equal numbers, and whether something holds; their files are written by hand.
"""

import cmath
import math
import struct
import sys
from itertools import zip_longest
from pathlib import Path
from typing import Callable, Iterable, Iterator, Sequence

from arrays import Array, concat, dot, indices, softmax

FOLDER = Path(__file__).parent
Lines = Iterator[str]
Numbers = list[list[complex]]
PROGRAMS: dict[str, Callable[[], Lines]] = {}


def program(lines: Callable[[], Lines]) -> Callable[[], Lines]:
    """Enters a function under its name, that of the program."""
    PROGRAMS[lines.__name__] = lines
    return lines


def listed(numbers: Array | Iterable[float], digits: int = 5) -> str:
    """The numbers, each with a space before it."""
    return "".join(f" {number:.{digits}f}"
                   for number in (numbers.numbers if isinstance(numbers, Array) else numbers))


def shown(shape: Sequence[int]) -> str:
    """A shape as C++ prints it."""
    return f"({shape[0]},)" if len(shape) == 1 else f"({','.join(map(str, shape))})"


def sigmoid(a: float) -> float:
    return 1 / (1 + math.exp(-a))


def square(a: float) -> float:
    return a * a


@program
def basic() -> Lines:
    def print_matrix(name: str, m: Array) -> Lines:
        yield f"{name} {m.shape[0]} x {m.shape[1]}"
        for i in range(m.shape[0]):
            yield listed(m.vector(i), 4).strip()

    mat = Array.full((5, 2), 0.0)
    mat[0, 1], mat[1, 0] = 1.0, 2.0
    mat += (mat + 10) / 10 + 2
    yield from print_matrix("handle", mat)
    second = (1 - 2 * mat) * 0.5 / 4 - mat
    yield from print_matrix("second", second)
    yield from print_matrix("flat", concat(0, mat, second))
    mat.set_block((1, 0), Array.full((1, 2), 7.0))
    yield f"element {mat[1, 0]:.1f} {mat[1, 1]:.1f}"
    mat.set_block((1, 0), mat.block((1, 0), (3, 2)).map(lambda a: a * a - 1))
    yield from print_matrix("slice", mat)
    yield "sizes 20 10 20 10"
    yield "contiguous 1 stride 2"
    yield "(2,5,2) (2,) (5,2) (10,2)"
    left = Array.full((2, 3), 1.5)
    right = -left
    right[0, 2] = 4.0
    yield from print_matrix("out", 2 * left - right / left + (1 + right) * (right - 1))


@program
def batch_gemm() -> Lines:
    def filled(shape: Sequence[int], step: float) -> Array:
        return Array(shape, [math.sin(step * (i + 1)) for i in range(math.prod(shape))])

    for _ in ("float", "double"):
        a, b = filled((3, 4), 0.3), filled((4, 2), 0.7)
        c = dot(a, b)
        yield "plain:" + listed(c, 4)
        c += 0.5 * dot(a, b)
        yield "left:" + listed(c, 4)
        c -= 2 * dot(a, b)
        yield "right:" + listed(c, 4)
        c = dot(a, b)
        yield "both:" + listed(c, 4)
        yield "lazy:" + listed(2 * dot(a, b) + c, 4)
        v = Array((3,), (1, -2, 1))
        w = dot(v, a)
        yield "vector:" + listed(w, 4)
        v += dot(w, a.T)
        yield "vector back:" + listed(v, 4)
        yield "outer:" + listed(dot(v.reshape(3, 1), w.reshape(1, 4)), 4)
        yield f"inner {sum((i + 1) * (2 - i) for i in range(5)):.1f}"
        left, right = filled((2, 3, 4), 0.2), filled((2, 4, 2), 0.9)
        products = concat(0, *(dot(left.vector(n), right.vector(n)) for n in range(2)))
        yield "batch:" + listed(products, 4)
        yield "batch again:" + listed(2 * products - products, 4)


@program
def batch_norm() -> Lines:
    shape = (2, 3, 4, 5)
    data = Array.of(shape, lambda n, c, y, x: math.sin(1 + n * 60 + c * 20 + y * 5 + x) * (c + 1)
                    + 0.5 * c)
    grad = Array.of(shape, lambda n, c, y, x: math.cos(0.5 * (n * 60 + c * 20 + y * 5 + x)))
    slope, eps = 1.5, 1e-3
    scale = 1 / (2 * 4 * 5)

    def spread(v: Array) -> Array:
        return v.along(1, shape)

    mean = scale * data.sum_except(1)
    centred = data - spread(mean)
    var = scale * (centred * centred).sum_except(1)
    deviation = (var + eps).map(math.sqrt)
    out = centred / spread(deviation) * slope + 0.25
    yield "mean" + listed(mean)
    yield "var" + listed(var)
    places = [(0, 0, 0, 0), (1, 1, 3, 4), (1, 2, 2, 1)]
    yield "out" + listed(out[place] for place in places)
    gvar = (grad * slope * centred * -0.5 / spread(deviation.map(lambda d: d ** 3))).sum_except(1)
    gmean = (grad * slope).sum_except(1) * (-1 / deviation)
    gmean += scale * (-2 * centred).sum_except(1) * gvar
    gslope = (grad * centred / spread(deviation)).sum_except(1)
    gdata = (grad * slope / spread(deviation) + spread(gvar) * scale * 2 * centred
             + spread(gmean) * scale)
    yield "gslope" + listed(gslope, 4)
    yield "gbias" + listed(grad.sum_except(1), 4)
    yield "gdata" + listed(gdata[place] for place in places)
    zero = gdata.sum_except(1)
    yield f"sums to zero {int(sum(map(abs, zero.numbers)) < 1e-3)}"


@program
def blas() -> Lines:
    def filled(shape: Sequence[int], start: float) -> Array:
        rows = math.prod(shape[:-1])
        flat = Array.of((rows, shape[-1]), lambda i, j: math.sin(start + 1.7 * i + 0.6 * j))
        return flat.reshape(*shape)

    def column(m: Array, j: int) -> Array:
        return Array((m.shape[0],), [m[i, j] for i in range(m.shape[0])])

    def set_column(m: Array, j: int, v: Array) -> None:
        m.set_block((0, j), v.reshape(v.shape[0], 1))

    m, n, k = 3, 4, 2
    for _ in ("float", "double"):
        for form in range(4):
            a = filled((k, m), 0.2 + form).T if form & 1 else filled((m, k), 0.2 + form)
            b = filled((n, k), 0.9 - form).T if form & 2 else filled((k, n), 0.9 - form)
            c = 0.5 * dot(a, b) + form * 0.5 * filled((m, n), 0.5)
            yield "gemm:" + listed(c)
        x, y = filled((n, 2), 0.1), filled((m, 3), 0.4)
        set_column(y, 0, 2 * dot(column(x, 0), c.T) - column(y, 0))
        yield "gemv:" + listed(y)
        set_column(x, 1, dot(column(y, 1), c))
        yield "gemv:" + listed(x)
        # Both from their ends: each vector in reverse order.
        backwards = dot(column(y, 0).flip(0), c) + 0.5 * column(x, 0).flip(0)
        set_column(x, 0, backwards.flip(0))
        yield "backwards:" + listed(x)
        c -= 0.5 * dot(column(y, 0).reshape(m, 1), column(x, 0).reshape(1, n))
        yield "ger:" + listed(c)
        inner = sum(p * q for p, q in zip(column(c, 0).numbers, column(y, 2).numbers))
        yield f"dot: {inner:.5f}"

        left, right = filled((3, m, k), 0.3), filled((3, k, n), 0.7)
        product = filled((3, m, n), 1.1)
        product += concat(0, *(dot(left.vector(i), right.vector(i)) for i in range(3))).reshape(
            3, m, n)
        yield "batched gemm:" + listed(product)
        xs = filled((3, n), 0.8)
        ys = concat(0, *(dot(xs.vector(i), product.vector(i).T) for i in range(3))).reshape(3, m)
        yield "batched gemv:" + listed(ys)
        product += 0.1 * Array.of((3, m, n), lambda i, y, x: ys[i, y] * xs[i, x])
        yield "batched ger:" + listed(product)


def padded(image: Array, y: int, x: int) -> Array:
    """Zeros around the last two axes."""
    *outer, height, width = image.shape
    whole = Array.full((*outer, height + 2 * y, width + 2 * x), 0.0)
    whole.set_block([0] * len(outer) + [y, x], image)
    return whole


def windows(extent: int, size: int, stride: int) -> list[range]:
    """The places of a window that moves through the extent."""
    return [range(begin, begin + size) for begin in range(0, extent - size + 1, stride)]


def pool(function: Callable[[list[float]], float], image: Array, size: int, stride: int,
         count: int | None = None) -> Array:
    """Squares of the last two axes, as many as fit, or `count` in each direction."""
    ys, xs = (windows(extent, size, stride)[:count] for extent in image.shape[-2:])
    return Array.of((*image.shape[:-2], len(ys), len(xs)), lambda *at: function(
        [image[(*at[:-2], y, x)] for y in ys[at[-2]] for x in xs[at[-1]]]))


def unpool_maximum(image: Array, grad: Array, size: int, stride: int) -> Array:
    """The gradient of pool(max, …): a window's goes to every element that is its largest."""
    ys, xs = (windows(extent, size, stride) for extent in image.shape[-2:])
    result = Array.full(image.shape, 0.0)
    for *outer, py, px in indices(grad.shape):
        places = [(*outer, y, x) for y in ys[py] for x in xs[px]]
        largest = max(image[place] for place in places)
        for place in places:
            result[place] += grad[(*outer, py, px)] * (image[place] == largest)
    return result


def patch_places(shape: Sequence[int], size: int, stride: int,
                 dilation: int) -> dict[tuple[int, int], tuple[int, ...]]:
    """Of each (row, column) of the matrix of patches, the place in images of that shape."""
    batch, channels, height, width = shape
    reach = dilation * (size - 1) + 1
    rows = list(indices((channels, size, size)))
    columns = list(indices((batch, (height - reach) // stride + 1, (width - reach) // stride + 1)))
    return {(i, j): (n, c, y * stride + ky * dilation, x * stride + kx * dilation)
            for i, (c, ky, kx) in enumerate(rows) for j, (n, y, x) in enumerate(columns)}


def patches(image: Array, size: int, stride: int, dilation: int = 1) -> Array:
    places = patch_places(image.shape, size, stride, dilation)
    rows, columns = max(places)
    return Array((rows + 1, columns + 1), [image[place] for place in places.values()])


def images_from(columns: Array, shape: Sequence[int], size: int, stride: int) -> Array:
    """The gradient of patches."""
    image = Array.full(shape, 0.0)
    for at, place in patch_places(shape, size, stride, 1).items():
        image[place] += columns[at]
    return image


def chpool(function: Callable[[list[float]], float], image: Array, size: int, stride: int = 1,
           pad: int | None = None) -> Array:
    """Windows over the channels, by default as many as there are channels, each in the middle.

    With a stride and padding mshadow counts the windows in this way, and may leave out a last one.
    """
    batch, channels, height, width = image.shape
    pad, count = ((size // 2, channels) if pad is None
                  else (pad, (channels + 2 * pad - size + 1) // stride))
    return Array.of((batch, count, height, width), lambda n, p, y, x: function(
        [image[n, c, y, x] for c in range(p * stride - pad, p * stride - pad + size)
         if 0 <= c < channels]))


def ch_unpool(share: Callable[[float, float], float], image: Array, pooled: Array, grad: Array,
              size: int, stride: int, pad: int) -> Array:
    """Each window's gradient goes to its channels, to each the share(pooled, element) of it."""
    result = Array.full(image.shape, 0.0)
    for n, p, y, x in indices(grad.shape):
        for c in range(max(0, p * stride - pad), min(p * stride - pad + size, image.shape[1])):
            result[n, c, y, x] += share(pooled[n, p, y, x], image[n, c, y, x]) * grad[n, p, y, x]
    return result


@program
def convnet() -> Lines:
    def weights(shape: Sequence[int], step: float) -> Array:
        return Array(shape, [0.5 * math.sin(step * (i + 1)) for i in range(math.prod(shape))])

    batch, size, classes, channels, eta, decay = 4, 10, 3, 2, 0.1, 0.001
    kernel, weight = weights((channels, 9), 0.31), weights((channels * 9, classes), 0.17)
    hidden_bias, out_bias = Array.full((channels,), 0.0), Array.full((classes,), 0.0)
    x = Array.of((batch, 1, size, size), lambda n, c, i, j: math.cos(0.3 * (n + 1) * i + 0.7 * j))
    columns = patches(x, 3, 1)
    hidden_shape = (batch, channels, 8, 8)
    yield "conv=8, pool=3"
    for step in range(10):
        hidden = dot(kernel, columns).reshape(channels, batch, 8, 8).transpose(1, 0, 2, 3)
        hidden = (hidden + hidden_bias.along(1, hidden_shape)).map(lambda a: max(a, 0.0))
        pooled = pool(max, hidden, 2, 2, 3)  # although a fourth window fits
        flat = pooled.reshape(batch, -1)
        out = softmax(dot(flat, weight) + out_bias.along(1, (batch, classes)))
        loss = -sum(math.log(out[n, n % classes]) for n in range(batch)) / batch
        yield f"step {step} loss {loss:.5f}"
        grad = (out - Array.of(out.shape, lambda n, c: float(c == n % classes))) / batch
        g_weight = dot(flat.T, grad)
        g_pooled = dot(grad, weight.T).reshape(*pooled.shape)
        g_hidden = (unpool_maximum(hidden, g_pooled, 2, 2)
                    * hidden.map(lambda a: float(a > 0)))
        g_rows = g_hidden.transpose(1, 0, 2, 3).reshape(channels, -1)
        g_input = images_from(dot(kernel.T, g_rows), x.shape, 3, 1)
        hidden_bias -= eta * g_hidden.sum_except(1)
        out_bias -= eta * grad.sum_except(1)
        kernel -= eta * (decay * kernel + dot(g_rows, columns.T))
        weight -= eta * (decay * weight + g_weight)
    yield f"kernel{listed([kernel[0, 0], kernel[1, 8]])} bias{listed(hidden_bias)}"
    yield "input gradient" + listed([g_input[0, 0, 3, 3], g_input[3, 0, 2, 5]])


@program
def defop() -> Lines:
    def show(name: str, values: Array | Iterable[float]) -> str:
        return f"{name}:{listed(values)}"

    shape = (2, 3)
    mat = Array.of(shape, lambda i, j: 0.5 * i - 0.25 * j)
    other = Array.of(shape, lambda i, j: 0.1 * (i + 1) * j)
    yield show("addone", mat + 1)
    yield show("max", mat.map(max, other + 1) - 0.5)
    yield show("relu", mat.map(max, 0.0))
    yield show("scalar left", mat.map(max, 0.1) * other.map(sigmoid))
    yield show("nested", mat.map(sigmoid).map(lambda a: a * (1 - a)) + (mat - other).map(square))
    yield show("clipped", (mat + 1 + other).map(min, 1.0))
    out = Array.of(shape, lambda i, j: mat[i, j] if (i + j) % 2 == 0 else other[i, j])
    yield show("blend", out)
    yield show("accumulated", out + out.map(square) / 2)
    yield show("power", [math.sqrt(x) for x in (1, 2, 3, 4)])
    yield show("power of two", [2 ** x / x ** 2 for x in (1, 2, 3, 4)])
    yield show("integers", [(5 - 3) ** 2 + 5 * 2] * 4)


@program
def embedding() -> Lines:
    def show(name: str, m: Array) -> str:
        return name + "".join(" |" + listed(m.vector(i), 2) for i in range(m.shape[0]))

    vocabulary, width, chosen = 6, 3, (4, 0, 4, 5, 2)
    weight = Array.of((vocabulary, width), lambda i, j: i + 0.1 * j)
    grad = Array.of((5, width), lambda i, j: (i + 1.0) * (j + 1))
    hot = Array.of((5, vocabulary), lambda i, j: float(chosen[i] == j))
    yield show("take", dot(hot, weight))
    yield show("take_grad", dot(hot.T, grad))
    added = dot(hot.T, grad) + 1
    yield show("AddTakeGrad", added)
    weight -= 0.5 * added
    yield show("updated", weight)
    yield show("one hot", hot)
    yield show("by product", dot(hot, weight))
    picked = [grad[i, i % width] for i in range(5)]
    yield "chosen" + listed(picked, 1)
    for i in range(5):
        grad[i, i % width] = -picked[i]
    yield show("filled", grad)
    yield show("masked", grad * Array((5,), (1, 0, 1, 0.5, 1)).along(0, grad.shape))
    yield show("IndexFill", Array((4, 2), (0, 0, 8, 8, 0, 0, 7, 7)))


@program
def extension() -> Lines:
    def difference(src: Array, step: int = 1) -> Array:
        width = src.shape[-1]
        return Array.of(src.shape, lambda *at: 0.0 if at[-1] + step >= width
                        else src[(*at[:-1], at[-1] + step)] - src[at])

    def difference_grad(grad: Array, step: int = 1) -> Array:
        width = grad.shape[-1]
        return Array.of(grad.shape, lambda *at:
                        (grad[(*at[:-1], at[-1] - step)] if at[-1] >= step else 0.0)
                        - (grad[at] if at[-1] + step < width else 0.0))

    def read_from(u: float, height: int, width: int, y: int, x: int) -> tuple[int, int]:
        if u < 0.2:
            return max(y - 1, 0), x
        if u < 0.4:
            return min(y + 1, height - 1), x
        if u < 0.6:
            return y, max(x - 1, 0)
        return y, min(x + 1, width - 1) if u < 0.8 else x

    def window_places(mask: Array, size: int) -> Iterator[tuple[tuple[int, ...], tuple[int, ...]]]:
        """Each place of the result with each place of the source that it is reduced from."""
        n, c, height, width = mask.shape
        for at in indices((n, c, height // size * size, width // size * size)):
            y, x = read_from(mask[at], height, width, *at[2:])
            yield (*at[:2], at[2] // size, at[3] // size), (*at[:2], y, x)

    def jitter_pool(function: Callable[[list[float]], float], src: Array, mask: Array,
                    size: int) -> Array:
        groups: dict[tuple[int, ...], list[float]] = {}
        for target, source in window_places(mask, size):
            groups.setdefault(target, []).append(src[source])
        return Array.of((*src.shape[:2], src.shape[2] // size, src.shape[3] // size),
                        lambda *at: function(groups[at]))

    def jitter_unpool(share: Callable[[float, float], float], src: Array, pooled: Array,
                      grad: Array, mask: Array, size: int) -> Array:
        result = Array.full(src.shape, 0.0)
        for target, source in window_places(mask, size):
            result[source] += share(src[source], pooled[target]) * grad[target]
        return result

    a = Array.of((3, 5), lambda i, j: math.sin(1 + 5 * i + j))
    b = Array.of((3, 5), lambda i, j: 0.1 * (i + 1) * j)
    w = Array.of((5, 2), lambda i, j: 0.2 * i - 0.3 * j)
    out = difference(a)
    yield "difference:" + listed(out)
    out += 2 * difference(a, 2) + b
    yield "in a sum:" + listed(out)
    out -= difference(difference(a * b))
    yield "nested:" + listed(out)
    out *= (difference(a - b).flip(1) + 1).map(math.tanh)
    yield "mapped:" + listed(out)
    out /= b.flip(1) + 1
    yield "divided:" + listed(out)
    yield "columns:" + listed(difference(a).sum_except(1))
    yield "rows:" + listed(0.5 * difference(a, 3).map(math.tanh).sum_except(0))
    product = dot(difference(a), w)
    yield "dot:" + listed(product)
    yield "added:" + listed(out + 0.5 * difference(b) + 2 * a)
    yield "added dot:" + listed(product - dot(a, w))

    shape = (2, 2, 6, 6)
    image = Array(shape, [math.cos(0.7 * i) + 0.01 * i for i in range(math.prod(shape))])
    mask = Array(shape, [0.5 + 0.5 * math.sin(1.3 * i) for i in range(math.prod(shape))])
    weight = Array((18, 3), [0.3 * math.sin(0.9 * i) for i in range(18 * 3)])
    for step in range(6):
        largest = step % 2 == 0
        diff = difference(image)
        pooled = (jitter_pool(max, diff, mask, 2) if largest
                  else 0.25 * jitter_pool(sum, diff, 1 - mask, 2))
        flat = pooled.reshape(2, 18)
        act = dot(flat, weight).map(math.tanh)
        yield f"step {step} loss {0.5 * sum(map(square, act.numbers)):.5f}"
        act_grad = act * (1 - act * act)
        weight_grad = dot(flat.T, act_grad)
        pooled_grad = dot(act_grad, weight.T).reshape(*pooled.shape)
        if largest:
            grad = difference_grad(jitter_unpool(lambda element, best: float(element == best),
                                                 diff, pooled, pooled_grad, mask, 2))
        else:
            grad = 0.25 * difference_grad(jitter_unpool(lambda element, best: 1.0, diff, pooled,
                                                        pooled_grad, 1 - mask, 2))
        weight -= 0.2 * weight_grad
        image -= 0.2 * grad
    yield "gradient:" + listed((grad * mask).sum_except(1))
    yield "image:" + listed(jitter_pool(max, image, mask, 3).sum_except(1))


def rounded_to_half(a: float) -> float:
    return struct.unpack("e", struct.pack("e", a))[0]


def rounded_to_bfloat16(a: float) -> float:
    """The upper half of a float, to the nearest, ties to even."""
    bits = struct.unpack("I", struct.pack("f", a))[0]
    return struct.unpack("f", struct.pack("I", (bits + 0x7fff + (bits >> 16 & 1)) & ~0xffff))[0]


@program
def half_precision() -> Lines:
    yield f"half{listed([1.5 * 2 + 0.25 + 1.5], 3)} 1 1 flag 2 size 2"
    yield "limits -65504 65504"
    for name, rounded, thousandths in (("half", rounded_to_half, 1),
                                       ("bf16", rounded_to_bfloat16, 4)):
        master = Array.of((4, 3), lambda i, j: 0.25 * i - 0.5 * j)
        grad = Array.of((4, 3), lambda i, j: 0.125 * (i + j))
        data = Array.of((2, 4), lambda i, j: 0.5 * j - i)
        product = dot(data, master.map(rounded)).map(rounded)
        yield f"{name} out{listed((product.map(max, 0.0) * 2 + 0.5).map(rounded), 3)}"
        weight = (master - 0.1 * grad).map(rounded)
        yield f"{name} rounding below {thousandths}/1000"
        yield f"{name} sums{listed(weight.sum_except(1).map(rounded), 2)}"
    yield "converted 1 -2 200 4 0 203"


@program
def image_ops() -> Lines:
    def digest(name: str, t: Array) -> str:
        total = math.fsum(a * (1 + k % 7) for k, a in enumerate(t.numbers))
        return f"{name} {shown(t.shape)} {total:.3f}"

    shape = (2, 3, 6, 6)
    image = Array.of(shape, lambda n, c, y, x: math.sin(0.5 + n * 108 + c * 36 + y * 6 + x))
    yield digest("image", image)
    big = padded(image, 1, 1)
    yield digest("pad", big)
    yield digest("pad x", padded(image, 0, 2))
    yield digest("crop centre", big.block((0, 0, 1, 1), (2, 3, 7, 7)))
    yield digest("crop corner", big.block((0, 0, 2, 0), (2, 3, 8, 6)))
    yield digest("mirror", image.flip(3))
    yield digest("flip", image.flip(2))
    yield digest("upsampled", Array.of((2, 3, 12, 12),
                                       lambda n, c, y, x: image[n, c, y // 2, x // 2]))
    yield digest("max", pool(max, image, 2, 2))
    yield digest("average", pool(sum, image, 2, 2) / 4)
    overlapping = pool(max, image, 2, 1)
    yield digest("overlapping", overlapping)
    yield digest("unpooled", unpool_maximum(image, overlapping, 2, 1))
    yield digest("padded max", pool(max, big, 3, 2))

    alpha, beta = 0.01 / 3, 0.75
    norm = chpool(sum, image.map(square), 3) * alpha + 1
    yield digest("lrn", image * norm.map(lambda a: a ** -beta))
    gradient = norm.map(lambda a: a ** -beta) - 2 * beta * alpha * image * chpool(
        sum, image * norm.map(lambda a: a ** (-beta - 1)), 3)
    yield digest("lrn gradient", gradient)

    two = image.block((0, 0, 0, 0), (2, 2, 6, 6))
    one = image.block((0, 2, 0, 0), (2, 3, 6, 6))
    yield digest("slice", two)
    joined = concat(1, one, two)
    yield digest("concat", joined)
    yield digest("left concat", 2 * one)
    joined.set_block((0, 1, 0, 0), 2 * one)
    yield digest("left slice", joined)
    yield digest("swapped", image.transpose(1, 0, 2, 3))
    yield digest("channels last", image.transpose(0, 2, 3, 1))
    joint = image.reshape(2, 3, 36)
    yield digest("reshaped", joint)
    mean = joint.sum(2) / 36
    yield digest("means", mean.reshape(2, 3))
    yield digest("centred", joint - mean.stretch(2, 3, 36))
    yield digest("scaled", 2.5 * mean.reshape(2, 3))

    columns = patches(image, 3, 1)
    yield digest("columns", columns)
    yield digest("dilated", patches(image, 2, 1, 2))
    yield digest("packed", images_from(columns, shape, 3, 1))
    yield digest("strided", patches(big, 3, 2))


@program
def layer_norm() -> Lines:
    def show(name: str, t: Array) -> str:
        return f"{name} {shown(t.shape)}{listed(t)}"

    shape, eta = (2, 3, 4), 0.03
    data = Array.of(shape, lambda n, i, j: math.sin(1 + 12 * n + 4 * i + j) + 0.5 * i)
    target = Array.of(shape, lambda n, i, j: 0.4 * n - 0.3 * i + 0.2 * j)
    for axis, extent in enumerate(shape):
        others = [k for k in range(3) if k != axis]
        gain = Array.full([extent if k == axis else 1 for k in range(3)], 1.0)
        bias = Array.full(gain.shape, 0.0)
        x = data.copy()
        yield f"axis {axis}"
        for step in range(5):
            centred = x - (x.sum(axis) / extent).stretch(*shape)
            deviation = ((centred * centred).sum(axis) / extent + 0.1).map(math.sqrt)
            normal = centred / deviation.stretch(*shape)
            grad = normal * gain.stretch(*shape) + bias.stretch(*shape) - target
            yield f"step {step} loss {0.5 * math.fsum(map(square, grad.numbers)):.5f}"
            # By the chain rule through the mean and the deviation.
            inner = grad * gain.stretch(*shape)
            slope = (inner * normal).sum(axis) / extent
            gradient = (inner - (inner.sum(axis) / extent).stretch(*shape)
                        - normal * slope.stretch(*shape)) / deviation.stretch(*shape)
            if step == 0:
                yield show("deviations", deviation)
                yield show("gradient", gradient)
            gain -= eta * (grad * normal).sum(*others)
            bias -= eta * grad.sum(*others)
            x -= eta * gradient
        yield show("gain", gain)
        yield show("bias", bias)


@program
def layers() -> Lines:
    def weights(rows: int, columns: int) -> Array:
        return Array.of((rows, columns), lambda i, j: 0.4 * math.cos(1 + 3 * i + j))

    x = Array.of((3, 4), lambda i, j: 0.3 * (i + 1) - 0.2 * j)
    w = [weights(6, 4), weights(5, 6), weights(2, 5)]

    def forward() -> tuple[Array, Array, Array]:
        first = (dot(x, w[0].T) + 0.1).map(math.tanh)
        second = (dot(first, w[1].T) + 0.1).map(max, 0.0)
        return first, second, dot(second, w[2].T) + 0.1

    def loss() -> float:
        return 0.5 * math.fsum(map(square, forward()[-1].numbers))

    first, second, out = forward()
    grad = dot(out, w[2]) * second.map(lambda a: float(a > 0))
    grad = dot(grad, w[1]) * (1 - first * first)
    gradient = dot(grad.T, x)
    yield f"loss {loss():.5f}"
    yield "output bias gradient" + listed(out.sum_except(1))
    yield "weight gradient" + listed([gradient[0, 0], gradient[5, 3]])
    worst, step = 0.0, 5e-3
    for place in indices((6, 4)):
        weight = w[0][place]
        w[0][place] = weight + step
        up = loss()
        w[0][place] = weight - step
        down = loss()
        w[0][place] = weight
        worst = max(worst, abs((up - down) / (2 * step) - gradient[place]))
    yield f"gradient right {int(worst < 2e-3)}"


@program
def logistic_regression() -> Lines:
    n = 8
    x = Array.of((n, 3), lambda i, j: (1.0, math.sin(i), math.cos(2 * i))[j])
    y = Array((n,), [float(x[i, 1] + 0.5 * x[i, 2] > 0.2) for i in range(n)])
    w = Array.full((3,), 0.0)
    for step in range(50):
        p = dot(w, x.T).map(sigmoid) - y
        w -= 0.5 * dot(p, x) / n
        if step % 10 == 9:
            yield f"step {step} error {sum(map(square, p.numbers)):.5f}"
    yield "weights" + listed(w, 4)
    yield "3 elements, expected 4"
    yield "check failed"


@program
def lstm() -> Lines:
    def weights(rows: int, columns: int, step: float) -> Array:
        return Array((rows, columns), [math.sin(step * (i + 1)) for i in range(rows * columns)])

    hidden, batch = 5, 2
    wx, wh = weights(4 * hidden, 3, 0.37), weights(4 * hidden, hidden, 0.53)
    bias = Array((batch,), (0.1, 0.2)).along(1, (4 * hidden, batch))
    for name in ("float", "double"):
        cell = state = Array.full((hidden, batch), 0.0)
        for t in range(4):
            x = Array.of((3, batch), lambda i, j: math.cos(0.4 * t + i - 0.5 * j))
            gates = dot(wx, x) + dot(wh, state) + bias
            into, forget, candidate, out = (
                gates.block((k * hidden, 0), ((k + 1) * hidden, batch)) for k in range(4))
            cell = forget.map(sigmoid) * cell + into.map(sigmoid) * candidate.map(math.tanh)
            state = out.map(sigmoid) * cell.map(math.tanh)
            h, c = ([m[0, 0], m[4, 1]] for m in (state, cell))
            yield f"{name} t={t} h{listed(h)} c{listed(c)}"


@program
def maxout() -> Lines:
    batch, crop, groups, pieces, classes, alpha, eta = 3, 4, 4, 3, 3, 0.1, 0.1
    image = Array.of((batch, 1, 5, 6),
                     lambda n, c, y, x: math.sin(0.9 * n + 0.5 * y * x + 0.3 * x))
    image_grad = Array.full(image.shape, 0.0)
    channels = groups * pieces + pieces - 1
    hiddens = 2 * channels
    w1 = Array((16, hiddens), [0.6 * math.sin(0.5 * (i % 41)) for i in range(16 * hiddens)])
    w2 = Array((8, classes), [0.5 * math.cos(0.7 * i) for i in range(8 * classes)])

    def of_largest(pooled: float, element: float) -> float:
        return float(pooled == element)

    def of_sum(pooled: float, element: float) -> float:
        return 1.0

    for step in range(6):
        y, x = step % 2, step % 3
        flat = image.block((0, 0, y, x), (batch, 1, y + crop, x + crop)).reshape(batch, -1)
        hidden = dot(flat, w1).reshape(batch, channels, 1, 2)
        most = chpool(max, hidden, pieces, pieces, 0)
        divisor = chpool(sum, most.map(square), 3) * alpha + 1
        z = (most / divisor).reshape(batch, -1)
        pred = softmax(dot(z, w2))
        loss = -sum(math.log(pred[n, n]) for n in range(batch)) / batch
        yield f"step {step} loss {loss:.5f}"
        pred = (pred - Array.of(pred.shape, lambda n, c: float(n == c))) / batch
        out = dot(pred, w2.T).reshape(*most.shape)
        # The quotient rule; a channel's square stands in the divisors of its neighbours.
        most_grad = out / divisor - 2 * alpha * most * ch_unpool(
            of_sum, most, divisor, out * most / (divisor * divisor), 3, 1, 1)
        units = ch_unpool(of_largest, hidden, most, most_grad, pieces, pieces, 0).reshape(batch, -1)
        flat_grad = dot(units, w1.T).reshape(batch, 1, crop, crop)
        moved = Array.full(image.shape, 0.0)
        moved.set_block((0, 0, y, x), flat_grad)
        image_grad += moved
        w1 -= eta * dot(flat.T, units)
        w2 -= eta * dot(z.T, pred)
    yield "image gradient:" + listed(image_grad.sum_except(3))
    image_grad.set_block((1, 0, 1, 1), Array.full((1, 1, 2, 3), 0.0))
    yield "a block cleared:" + listed(image_grad.sum_except(3))
    image_grad.set_block((0, 0, 0, 0), 2 * image.block((2, 0, 3, 0), (3, 1, 5, 6)))
    yield "a block copied:" + listed(image_grad.sum_except(3))
    inner = image.block((0, 0, 1, 2), (batch, 1, 5, 6))
    yield "a block of a block:" + listed((1 - inner).sum_except(3))
    yield "channels:" + listed(hidden.sum_except(1))
    for name, function, share in (("largest", max, of_largest), ("sums", math.fsum, of_sum)):
        wide = chpool(function, hidden, 4, 2, 1)
        yield f"{name}:{listed(ch_unpool(share, hidden, wide, wide, 4, 2, 1).sum_except(1))}"


@program
def optimizers() -> Lines:
    rate, decay, momentum, eps = 0.1, 0.01, 0.9, 1e-6
    for kind in ("sgd", "clipped", "momentum", "nesterov", "adagrad", "rmsprop", "adam"):
        final = []
        for target, scale in ((0.5 * i - 1, 1 + 0.25 * i) for i in range(5)):
            w, a, b = 1.0, 0.0, 0.0
            for step in range(1, 21):
                g = scale * (w - target)
                if kind == "sgd":
                    w -= rate * (g + decay * w)
                elif kind == "clipped":
                    w -= rate * (min(max(g, -0.5), 0.5) + decay * w)
                elif kind == "momentum":
                    a = momentum * a - rate * (g + decay * w)
                    w += a
                elif kind == "nesterov":
                    b, a = a, momentum * a - rate * (g + decay * w)
                    w += (1 + momentum) * a - momentum * b
                elif kind == "adagrad":
                    a += g * g
                    w -= rate * (g / math.sqrt(a + eps) + decay * w)
                elif kind == "rmsprop":
                    a = 0.95 * a + 0.05 * g * g
                    w -= rate * g / math.sqrt(a + eps)
                else:
                    a += 0.1 * (g - a)
                    b += 0.001 * (g * g - b)
                    w -= (rate * math.sqrt(1 - 0.999 ** step) / (1 - 0.9 ** step)
                          * a / (math.sqrt(b) + eps))
            final.append(w)
        yield kind + listed(final, 4)


@program
def softmax_loss() -> Lines:
    def show(name: str, t: Array) -> str:
        return f"{name}:{listed(t)}"

    energy = Array.of((3, 4), lambda i, j: 3 * math.sin(1 + i * 4 + j))
    energy[1, 2] = 90.0
    label = [(2 * i + 1) % 4 for i in range(3)]
    hot = Array.of((3, 4), lambda i, j: float(label[i] == j))
    prob = softmax(energy)
    yield show("softmax", prob)
    yield show("gradient", prob - hot)
    yield show("ignoring 3", Array.of((3, 4), lambda i, j: 0.0 if label[i] == 3
                                      else prob[i, j] - hot[i, j]))
    # A tenth of each label is dealt out to the three others.
    yield show("smoothed", prob - (0.9 * hot + 0.1 / 3 * (1 - hot)))
    yield show("vector", softmax(Array((4,), (0, 0.5, 1, 1.5))))

    shape = (2, 3, 2)
    image = softmax(Array.of(shape, lambda n, c, p: math.cos(n * 6 + c * 2 + p))
                    .transpose(0, 2, 1)).transpose(0, 2, 1)
    hot = Array.of(shape, lambda n, c, p: float((n + p) % 3 == c))
    yield show("image", image)
    yield show("image gradient", image - hot)
    yield show("image ignoring 1", Array.of(shape, lambda n, c, p: 0.0 if (n + p) % 3 == 1
                                            else image[n, c, p] - hot[n, c, p]))


@program
def sorting() -> Lines:
    def pairs(order: Iterable[int]) -> str:
        return " ".join(f"{given[i]}:{i}" for i in order)

    given = (3, 1, 4, 1, 5, 9, 2, 6)
    yield pairs(sorted(range(8), key=lambda i: given[i]))
    yield pairs(sorted(range(8), key=lambda i: -given[i]))
    yield " ".join(str(i) for i in range(1, 7, 2) for _ in range(2))
    scores = [[(i * 7 + j * 5) % 11 for j in range(4)] for i in range(3)]
    for row in scores:
        yield f"best {max(row)} at {row.index(max(row))}"
    for column in zip(*scores):
        yield f"column {min(column)} {sum(column)}"
    yield "largest " + " ".join(str(max(row)) for row in scores)
    yield " ".join(map(str, sorted(given[:3]) + sorted(given[3:6])))


@program
def spectra() -> Lines:
    def numbers(formula: Callable[[int, int], complex]) -> Numbers:
        return [[formula(i, k) for k in range(size)] for i in range(signals)]

    def parts(z: Numbers) -> Iterator[float]:
        return (part for row in z for number in row for part in (number.real, number.imag))

    def signal(z: Numbers) -> Array:
        return Array.of((signals, size), lambda i, t: sum(
            (number * cmath.exp(2j * math.pi * k * t / size)).real / size
            for k, number in enumerate(z[i])))

    def show(name: str, shown_numbers: Array | Iterable[float]) -> str:
        return f"{name}:{listed(shown_numbers, 4)}"

    signals, size = 3, 5
    x = Array.of((signals, size), lambda i, t: math.sin(0.8 * (i + 1) * (t + 1)) + 0.25 * i)
    gain = Array.of((signals, size), lambda i, t: 1 / (1 + i + t))
    spectrum = numbers(lambda i, k: sum(
        x[i, t] * cmath.exp(-2j * math.pi * k * t / size) for t in range(size)))
    power = Array.of((signals, size), lambda i, k: abs(spectrum[i][k]) ** 2)
    yield show("power", power)
    yield show("there and back", x)
    filtered = numbers(lambda i, k: spectrum[i][k] * gain[i, k])
    yield show("filtered", signal(filtered))
    yield show("filtered again", signal(filtered))
    yield show("correlation",
               parts(numbers(lambda i, k: spectrum[i][k] * filtered[i][k].conjugate())))
    moved = numbers(lambda i, k: spectrum[i][k] + 4 + 4j)
    yield show("quotient", parts(numbers(lambda i, k: filtered[i][k] / moved[i][k])))
    yield show("real parts",
               Array.of((signals, size), lambda i, k: spectrum[i][k].real / gain[i, k]))
    quotients = numbers(lambda i, k: gain[i, k] / moved[i][k])
    yield show("sums of parts", Array.of(
        (signals, size), lambda i, k: quotients[i][k].real + quotients[i][k].imag))
    exchanged = numbers(
        lambda i, k: complex(spectrum[i][k].imag, spectrum[i][k].real) + x[i, k])
    yield show("exchanged", parts(exchanged))
    yield show("half", parts(numbers(lambda i, k: x[i, k] * exchanged[i][k] / 2)))
    squared = numbers(lambda i, k: spectrum[i][k] ** 2)
    yield show("squared in place", parts(squared))
    energy = [sum(abs(number) ** 2 for number in row) for row in squared]
    yield show("energy", energy)
    volume = [0.5 * (i % 7) - 1 for i in range(24)]
    yield show("volume", [number * (3 if i % 2 == 0 else -1) for i, number in enumerate(volume)])

    yield show("decibel", x.map(
        lambda a, b: 10 * math.log10(math.hypot(a, 3 * b) + 1) - 1, gain))
    yield show("chosen", Array.of(
        (signals, size), lambda i, k: gain[i, k] if x[i, k] > 0 else 0.1 * power[i, k]))
    yield show("products", dot(x, gain.T) + dot(x, x.T) * 0.5)
    yield show("larger", x.map(lambda a, b: max(0.75, 2 * a - b), gain))
    yield show("halved", [number / 2 for number in energy])
    yield show("memory", [0.1 * i + (10 if i % 8 < 2 else 0) for i in range(24)])
    yield "shape of 20 bytes: 1 7 1 300 loaded 1 0 equal 1"
    yield "seeds ffffffff differ 49 repeat 50"


def main(arguments: Sequence[str]) -> int:
    if list(arguments) not in ([], ["--write"]):
        print(__doc__)
        return 2
    status = 0
    for name, lines in PROGRAMS.items():
        path = FOLDER / f"{name}.expected"
        computed = list(lines())
        if arguments:
            path.write_text("\n".join(computed) + "\n", encoding="utf-8")
            continue
        held = path.read_text(encoding="utf-8").splitlines()
        for number, (has, should) in enumerate(zip_longest(held, computed, fillvalue=""), 1):
            if has != should:
                print(f"{path.name}:{number}: has \"{has}\", computed was \"{should}\"")
                status = 1
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
