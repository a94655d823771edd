"""One call of an operator, as make_cases.py asks MXNet for it."""

import dataclasses
from typing import Dict, List, Optional, Sequence, Tuple

import numpy as np

Shape = Tuple[int, ...]


@dataclasses.dataclass
class Case:
    """One call of an operator. Each input is a shape with a range and a type, or an array.

    Empty arrays and scalars exist in MXNet under its NumPy semantics only, which a case with such an input gets
    by itself and another one by `np_shape`."""

    op: str
    inputs: List
    attrs: Dict[str, str] = dataclasses.field(default_factory=dict)
    low: float = -2
    high: float = 2
    dtype: str = "float32"
    gradients: Optional[Sequence[bool]] = None
    train: bool = True
    seed: int = 1
    np_shape: bool = False

    def __post_init__(self) -> None:
        if self.gradients is None:
            self.gradients = [True] * len(self.inputs)

    def arrays(self) -> List[np.ndarray]:
        random = np.random.RandomState(self.seed)
        made = []
        for value in self.inputs:
            if isinstance(value, np.ndarray):
                made.append(value)
            elif np.issubdtype(np.dtype(self.dtype), np.integer):
                made.append(random.randint(int(self.low), int(self.high) + 1, value).astype(self.dtype))
            elif np.dtype(self.dtype) == np.bool_:
                made.append(random.randint(0, 2, value).astype(self.dtype))
            else:
                made.append(np.asarray(random.uniform(self.low, self.high, value)).astype(self.dtype))
        return made


def no_gradients(case: Case) -> Case:
    case.gradients = [False] * len(case.inputs)
    return case


def integers(shape: Shape, low: int, high: int, dtype: str = "float32", seed: int = 5) -> np.ndarray:
    """Integers from low to high, both included."""
    return np.random.RandomState(seed).randint(low, high + 1, shape).astype(dtype)


def reals(shape: Shape, low: float, high: float, dtype: str = "float32", seed: int = 6) -> np.ndarray:
    return np.asarray(np.random.RandomState(seed).uniform(low, high, shape)).astype(dtype)
