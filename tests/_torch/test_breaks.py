"""What breaks graphs: a torch that moved a name is told here."""

import pytest
import torch

from compile_lab._torch import breaks, dynamo


def test_the_registry_lies_beside_dynamo():
    assert dynamo.break_registry.is_file()


@pytest.mark.parametrize("name", breaks.__all__)
def test_a_name_is_there(name):
    assert getattr(breaks, name) is not None


@pytest.mark.parametrize("name", ["graph_break", "skip_frame", "step_unsupported"])
def test_what_asks_for_a_break_does_nothing_in_eager(name):
    assert getattr(breaks, name)() is None


def test_a_check_that_fails_raises():
    with pytest.raises(RuntimeError, match="three"):
        breaks.check(False, lambda: "three")


def test_the_common_dtype_is_the_wider():
    pair = torch.ones(1), torch.ones(1, dtype=torch.float64)
    assert breaks.elementwise_dtypes(*pair, type_promotion_kind=breaks.promotion)[1] is torch.float64
