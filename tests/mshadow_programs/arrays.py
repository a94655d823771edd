"""Arrays of numbers in plain Python, in double precision: what expected.py computes with."""

import itertools
import math
from typing import Callable, Iterator, Sequence, Union

Shape = tuple[int, ...]
Operand = Union["Array", float]


def indices(shape: Sequence[int]) -> Iterator[Shape]:
    """Every index into the shape, in row-major order."""
    return itertools.product(*map(range, shape))


class Array:
    """Numbers under indices. Operators go by elements, of arrays of one shape or with a number."""

    def __init__(self, shape: Sequence[int], numbers: Sequence[float]):
        self.shape = tuple(shape)
        self.numbers = list(numbers)
        assert len(self.numbers) == math.prod(self.shape), (len(self.numbers), shape)

    @classmethod
    def of(cls, shape: Sequence[int], formula: Callable[..., float]) -> "Array":
        """The array whose element at each index is formula(*index)."""
        return cls(shape, [formula(*index) for index in indices(shape)])

    @classmethod
    def full(cls, shape: Sequence[int], number: float) -> "Array":
        return cls(shape, [number] * math.prod(shape))

    def copy(self) -> "Array":
        return Array(self.shape, self.numbers)

    def _place(self, index: Sequence[int]) -> int:
        place = 0
        for extent, at in zip(self.shape, index, strict=True):
            assert 0 <= at < extent, (self.shape, index)
            place = place * extent + at
        return place

    def __getitem__(self, index: Sequence[int]) -> float:
        return self.numbers[self._place(index)]

    def __setitem__(self, index: Sequence[int], number: float) -> None:
        self.numbers[self._place(index)] = number

    def vector(self, i: int) -> "Array":
        """Part i of the first dimension."""
        size = math.prod(self.shape[1:])
        return Array(self.shape[1:], self.numbers[i * size:(i + 1) * size])

    def map(self, function: Callable[..., float], *others: Operand) -> "Array":
        """function(a, b, …) of the elements a of this array, b of the next operand, and so on."""
        columns = [self.numbers]
        for other in others:
            if isinstance(other, Array):
                assert other.shape == self.shape, (self.shape, other.shape)
                columns.append(other.numbers)
            else:
                columns.append([other] * len(self.numbers))
        return Array(self.shape, [function(*elements) for elements in zip(*columns)])

    def __add__(self, other: Operand) -> "Array":
        return self.map(lambda a, b: a + b, other)

    def __sub__(self, other: Operand) -> "Array":
        return self.map(lambda a, b: a - b, other)

    def __mul__(self, other: Operand) -> "Array":
        return self.map(lambda a, b: a * b, other)

    def __truediv__(self, other: Operand) -> "Array":
        return self.map(lambda a, b: a / b, other)

    __radd__ = __add__
    __rmul__ = __mul__

    def __rsub__(self, other: float) -> "Array":
        return self.map(lambda a: other - a)

    def __rtruediv__(self, other: float) -> "Array":
        return self.map(lambda a: other / a)

    def __neg__(self) -> "Array":
        return self.map(lambda a: -a)

    def reshape(self, *shape: int) -> "Array":
        """The same elements under another shape, in which -1 is the extent that remains."""
        rest = len(self.numbers) // abs(math.prod(shape))
        return Array([rest if extent == -1 else extent for extent in shape], self.numbers)

    def transpose(self, *axes: int) -> "Array":
        """Dimension i of the result is dimension axes[i]; without axes, all in reverse order."""
        axes = axes or tuple(reversed(range(len(self.shape))))
        place = [axes.index(i) for i in range(len(axes))]
        return Array.of([self.shape[axis] for axis in axes],
                        lambda *index: self[[index[i] for i in place]])

    @property
    def T(self) -> "Array":  # pylint: disable=invalid-name
        return self.transpose()

    def block(self, begin: Sequence[int], end: Sequence[int]) -> "Array":
        """The elements from begin up to, but not including, end."""
        return Array.of([e - b for b, e in zip(begin, end, strict=True)],
                        lambda *index: self[[b + i for b, i in zip(begin, index)]])

    def set_block(self, begin: Sequence[int], block: "Array") -> None:
        for index in indices(block.shape):
            self[[b + i for b, i in zip(begin, index, strict=True)]] = block[index]

    def flip(self, axis: int) -> "Array":
        return Array.of(self.shape, lambda *index: self[
            [self.shape[k] - 1 - i if k == axis else i for k, i in enumerate(index)]])

    def reduce(self, function: Callable[[list[float]], float], *axes: int) -> "Array":
        """function(elements) along the axes, which are kept, with extent 1."""
        shape = [1 if k in axes else extent for k, extent in enumerate(self.shape)]
        groups: list[list[float]] = [[] for _ in range(math.prod(shape))]
        target = Array(shape, range(len(groups)))
        for index, number in zip(indices(self.shape), self.numbers):
            group = target[[0 if k in axes else i for k, i in enumerate(index)]]
            groups[int(group)].append(number)
        return Array(shape, [function(group) for group in groups])

    def sum(self, *axes: int) -> "Array":
        return self.reduce(math.fsum, *axes)

    def sum_except(self, axis: int) -> "Array":
        """The sums over all other axes, as a vector."""
        others = [k for k in range(len(self.shape)) if k != axis]
        return self.sum(*others).reshape(self.shape[axis])

    def stretch(self, *shape: int) -> "Array":
        """Repeated along the axes of extent 1, to this shape."""
        assert all(a in (1, b) for a, b in zip(self.shape, shape, strict=True)), (self.shape, shape)
        return Array.of(shape, lambda *index: self[
            [0 if extent == 1 else i for extent, i in zip(self.shape, index)]])

    def along(self, axis: int, shape: Sequence[int]) -> "Array":
        """A vector spread over the shape: its element i wherever the index along the axis is i."""
        return self.reshape(*(extent if k == axis else 1
                              for k, extent in enumerate(shape))).stretch(*shape)


def dot(a: Array, b: Array) -> Array:
    """The product of two matrices; a vector on the left is a row."""
    rows = 1 if len(a.shape) == 1 else a.shape[0]
    inner, columns = b.shape
    assert a.shape[-1] == inner, (a.shape, b.shape)
    product = [math.fsum(a.numbers[i * inner + k] * b.numbers[k * columns + j]
                         for k in range(inner))
               for i in range(rows) for j in range(columns)]
    return Array((columns,) if len(a.shape) == 1 else (rows, columns), product)


def concat(axis: int, *parts: Array) -> Array:
    """The parts behind each other along the axis."""
    shape = list(parts[0].shape)
    shape[axis] = sum(part.shape[axis] for part in parts)
    whole = Array.full(shape, 0.0)
    begin = [0] * len(shape)
    for part in parts:
        whole.set_block(begin, part)
        begin[axis] += part.shape[axis]
    return whole


def softmax(energy: Array) -> Array:
    """The softmax of each row."""
    shifted = energy - energy.reduce(max, len(energy.shape) - 1).stretch(*energy.shape)
    exponential = shifted.map(math.exp)
    return exponential / exponential.sum(len(energy.shape) - 1).stretch(*energy.shape)
