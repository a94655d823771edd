"""Golden cases of batches of sequences."""

from typing import Callable, Dict, List

import numpy as np

from cases_order import distinct
from case import Case, no_gradients


def sequence() -> List[Case]:
    cases = []
    for op in ("SequenceMask", "SequenceLast", "SequenceReverse"):
        axes = ("0",) if op == "SequenceReverse" else ("0", "1")
        cases.append(Case(op, [(4, 3, 2)]))
        for axis in axes:
            cases.append(Case(op, [(4, 3)], {"axis": axis}))
            for shape in ((4, 3), (4, 3, 2), (5, 4, 2, 3)):
                batch, steps = (shape[1], shape[0]) if axis == "0" else shape[:2]
                lengths = np.random.RandomState(3).randint(1, steps + 1, batch)
                for dtype in ("float32", "int32"):
                    cases.append(Case(op, [shape, lengths.astype(dtype)], {"use_sequence_length": "True", "axis": axis},
                                      gradients=[True, False]))
        for dtype in ("float64", "float16", "int32", "int64", "uint8", "int8"):
            data = distinct((4, 3), dtype)
            for of_lengths in ("float32", dtype):
                lengths = np.array([2, 4, 1], of_lengths)
                cases.append(no_gradients(Case(op, [data, lengths], {"use_sequence_length": "1"})))
            lengths = np.array([3, 1, 4], dtype)
            cases.append(Case(op, [(4, 3, 2), lengths], {"use_sequence_length": "1"}, gradients=[True, False]))
        fractions = np.array([1.5, 2.75, 3.99], "float32")
        cases.append(Case(op, [(4, 3), fractions], {"use_sequence_length": "1"}, gradients=[True, False]))
    zeros = np.array([0, 9, 2], "float32")
    for value in ("-1.5", "0", "7"):
        cases.append(Case("SequenceMask", [(4, 3, 2), zeros], {"use_sequence_length": "1", "value": value},
                          gradients=[True, False]))
        cases.append(no_gradients(Case("SequenceMask", [distinct((4, 3), "int32"), zeros],
                                       {"use_sequence_length": "1", "value": value})))
    cases.append(Case("SequenceReverse", [(4, 3), np.array([0, 3, 4], "int32")], {"use_sequence_length": "1"},
                      gradients=[True, False]))
    return cases


FAMILIES: Dict[str, Callable[[], List[Case]]] = {"sequence": sequence}
