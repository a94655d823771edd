"""The golden cases of CTCLoss."""

from typing import Dict, List

import numpy as np

from case import Case


def ctc() -> List[Case]:
    cases = []

    def add(data: tuple, labels: list, attrs: Dict[str, str], *lengths: list, dtype: str = "float32",
            gradient: bool = True) -> None:
        inputs = [data, np.array(labels, dtype)] + [np.array(given, "float32") for given in lengths]
        cases.append(Case("CTCLoss", inputs, attrs, gradients=[gradient] + [False] * (len(inputs) - 1)))

    add((5, 3, 4), [[1, 2, 0], [3, 0, 1], [2, 2, 1]], {})
    add((5, 3, 4), [[1, 2, 0], [3, 0, 1], [2, 2, 1]], {}, dtype="int32")
    add((4, 2, 5), [[0, 3, -1], [2, 2, 1]], {"blank_label": "last"})
    add((4, 2, 5), [[0, 3, -1], [-1, 2, 1]], {"blank_label": "last"}, dtype="float64")
    add((7, 2, 3), [[1, 1, 1, 2], [2, 1, 2, 0]], {"blank_label": "first"}, dtype="uint8")
    add((3, 2, 4), [[1, 1, 2], [1, 2, 3]], {}, gradient=False)  # MXNet does not write the first sample's
    lengths = {"use_data_lengths": "True", "use_label_lengths": "True"}
    add((6, 3, 4), [[1, 2, 3], [2, 2, 1], [3, 1, 2]], lengths, [6, 4, 3], [3, 2, 1])
    add((6, 3, 4), [[1, 2, 0], [2, 2, 1], [0, 1, 2]], {**lengths, "blank_label": "last"}, [6, 5, 2], [3, 3, 0])
    add((6, 2, 4), [[1, 2, 0], [3, 2, 1]], {"use_data_lengths": "True"}, [4, 5])
    add((6, 2, 4), [[1, 2, 3], [3, 2, 1]], {"use_label_lengths": "True"}, [2, 3])
    # The blank as a label, of which MXNet's gradient is not the derivative.
    add((6, 2, 4), [[2, 1, 2, 2], [3, 2, 2, 2]], {"use_label_lengths": "True", "blank_label": "last"}, [2, 3],
        gradient=False)
    steep = np.random.RandomState(9).uniform(-50, 50, (6, 2, 5)).astype("float32")
    add(steep, [[1, 2, 4], [3, 3, 0]], {})
    return cases


FAMILIES = {"ctc": ctc}
