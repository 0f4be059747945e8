"""Each silent error of torch 2.13 is still one: a torch that fixes it fails here, by name. What is told of it holds."""

import re
import sys
from pathlib import Path

import pytest
import torch.distributed.tensor

from chapters.sharding_strategies.silent import Finding, SilentError
from chapters.sharding_strategies.silent_errors import ERRORS, findings

ranks_are_forked = pytest.mark.skipif(sys.platform == "win32", reason="ranks are forked")
SAID = {
    "mse_loss_gradient": "off by 1 of",
    "binary_cross_entropy_gradient": "off by 1 of",
    "conv2d_over_height": "shape (2, 4, 4, 8) for (2, 4, 8, 8)",
    "conv2d_of_fewer_images_than_ranks": "shape (0, 4, 6, 6) for (1, 4, 6, 6)",
    "logsumexp_keepdim": "shape (1, 2) for (1, 4)",
    "amax_gradient": "NaN in 11 of 12",
    "fill_of_partial_sums": "off by 1 of",
    "vector_times_matrix": "shape (1, 3) for (3,)",
    "histogram_after_another": "shape (100,) for (3,)",
    "one_hot_without_a_number_of_classes": "shape (4, 2) for (4, 4)",
}


@pytest.fixture(scope="module")
def found():
    return findings(2)


@ranks_are_forked
@pytest.mark.slow
@pytest.mark.parametrize("name", ERRORS)
def test_it_is_wrong_and_says_nothing(found, name):
    told = found[name].difference
    assert told and not told.startswith("refused"), f"{name} is no silent error here: {told!r}"
    assert told.startswith(SAID.get(name, "")), told
    assert found[name].ranks != found[name].alone


@pytest.mark.parametrize("name", ERRORS)
def test_its_place_is_in_torch_and_its_cause_is_told(name):
    file, place = ERRORS[name].place.split(": ")
    text = (Path(torch.distributed.tensor.__file__).parent / file).read_text()
    assert re.search(rf"^\s*(def|class) {place}\b", text, re.M), f"torch has no {place} in {file}"
    assert len(ERRORS[name].cause.splitlines()[0]) > 40 and ERRORS[name].call
    mentioned = re.findall(r"(?<!`)`(\w+)`(?!`)", ERRORS[name].cause)
    assert set(mentioned) <= set(ERRORS), f"{name} refers to what is no silent error"
    assert "return" in ERRORS[name].source and '"""' not in ERRORS[name].source


def right(mesh):
    """A program that is right."""
    return torch.ones(2), torch.ones(2)


def refused(mesh):
    raise ValueError("no")


@ranks_are_forked
def test_what_is_fixed_or_refused_is_said_so():
    from chapters.sharding_strategies.silent import run_all

    told = run_all({f.__name__: SilentError(f, "f()", "a: b") for f in (right, refused)})
    assert told["right"] == Finding("", "1, 1", "1, 1") and told["refused"].difference == "refused: ValueError: no"
