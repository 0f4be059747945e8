"""Each silent error of torch 2.13 is still one: a torch that mends it fails here, by name."""

import inspect
import sys

import pytest

from compile_lab.devices.silent_errors import ERRORS, confirmed

pytestmark = [
    pytest.mark.skipif(sys.platform == "win32", reason="ranks are forked"),
    pytest.mark.slow,
]
RIGHT_SHAPES = {
    "mse_loss_gradient": "off by 1 of",
    "conv2d_over_height": "shape (2, 4, 4, 8) for (2, 4, 8, 8)",
    "conv2d_of_fewer_images_than_ranks": "shape (0, 4, 6, 6) for (1, 4, 6, 6)",
    "logsumexp_keepdim": "shape (1, 2) for (1, 4)",
    "amax_gradient": "NaN in 11 of 12",
    "fill_of_partial_sums": "off by 1 of",
}


@pytest.fixture(scope="module")
def told():
    return confirmed(2)


@pytest.mark.parametrize("name", ERRORS)
def test_it_is_wrong_and_says_nothing(told, name):
    assert told[name] and not told[name].startswith("refused"), f"{name} is no silent error here: {told[name]!r}"
    assert told[name].startswith(RIGHT_SHAPES.get(name, ""))


def test_each_says_where_it_comes_from():
    for name, program in ERRORS.items():
        said = inspect.getdoc(program)
        assert "``_" in said or "`" in said, f"{name} names no cause"
