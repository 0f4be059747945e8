"""check says what is wrong with an answer, and takes a right one. The notebook's own solutions are checked by nbval."""

from importlib.util import find_spec

import pytest
from answers import judged_as

from chapters.exercises import check

pytestmark = pytest.mark.processes

needs_jax = pytest.mark.skipif(not find_spec("jax"), reason='jax is not installed: pip install "jax==0.10.2"')


def ring(kind, devices, nbytes):
    return (2 if kind == "all_reduce" else 1) * nbytes * (devices - 1) / devices


def matmul(a, b):
    known = {("R", "R"): "R", ("S(1)", "S(0)"): "P", ("S(0)", "S(1)"): "conflict"}
    return known.get((a, b), b if a == "R" else a)


test_a_wrong_answer_is_told_what_is_wrong_with_it = judged_as(
    ("15.1", lambda kind, devices, nbytes: 2 * ring(kind, devices, nbytes), "too much"),
    ("15.1", lambda kind, devices, nbytes: "all", "a number of bytes"),
    ("15.2", lambda hlo: 3, "a dictionary"),
    ("15.3", lambda a, b: "S(0)" if (a, b) == ("S(0)", "S(1)") else matmul(a, b), "for a in S(0) and b in S(1)"),
)


@needs_jax
def test_two_other_annotations_are_enough():
    assert check("15.4", ["out.weight", "down.weight"]).passed


@needs_jax
@pytest.mark.parametrize(
    ("answer", "wrong"),
    [
        (["q.weight"], "up.weight becomes R"),
        (["qkv.weight"], "no weight qkv.weight"),
    ],
)
def test_one_is_not_and_three_are_more_than_needed(answer, wrong):
    outcome = check("15.4", answer)
    assert not outcome.passed and wrong in outcome.wrong, outcome.wrong
