"""What is told of each silent error: its place is in this torch. Chapter 14 runs all of them, and shows causes."""

import re
import sys
from pathlib import Path

import pytest
import torch.distributed.tensor

from chapters.sharding_strategies.silent import Finding, SilentError
from chapters.sharding_strategies.silent_errors import ERRORS

ranks_are_forked = pytest.mark.skipif(sys.platform == "win32", reason="ranks are forked")


@pytest.mark.parametrize("name", ERRORS)
def test_its_place_is_in_torch_and_it_refers_to_others_that_there_are(name):
    file, place = ERRORS[name].place.split(": ")
    text = (Path(torch.distributed.tensor.__file__).parent / file).read_text()
    assert re.search(rf"^\s*(def|class) {place}\b", text, re.M), f"torch has no {place} in {file}"
    mentioned = re.findall(r"(?<!`)`(\w+)`(?!`)", ERRORS[name].cause)
    assert set(mentioned) <= set(ERRORS), f"{name} refers to what is no silent error"


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
