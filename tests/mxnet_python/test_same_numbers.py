"""The programs of programs.py give what they give on MXNet's own library."""

import numpy as np
import pytest

import programs

# Sums of floats are not in the same order.
RELATIVE, ABSOLUTE = 1e-4, 1e-5


@pytest.mark.parametrize("name", list(programs.PROGRAMS))
def test_same_numbers(name, reference):
    ours = programs.results(name)
    theirs = reference.results(name)
    assert ours.keys() == theirs.keys()
    for key, expected in theirs.items():
        assert ours[key].dtype == expected.dtype, key
        assert ours[key].shape == expected.shape, key
        if expected.dtype.kind == "U":
            assert str(ours[key]) == str(expected), key
        else:
            np.testing.assert_allclose(ours[key], expected, RELATIVE, ABSOLUTE, err_msg=key)


def test_hybridized_is_the_same_as_layer_by_layer():
    found = programs.results("gluon_training")
    for step in range(3):
        np.testing.assert_allclose(found[f"loss_True_{step}"], found[f"loss_False_{step}"], RELATIVE, ABSOLUTE)
    np.testing.assert_allclose(found["output_True"], found["output_False"], RELATIVE, ABSOLUTE)
