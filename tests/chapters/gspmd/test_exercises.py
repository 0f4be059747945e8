"""check says what is wrong with an answer, and takes a right one. The notebook's own solutions are checked by nbval."""

import re
from importlib.util import find_spec

import pytest

from chapters.exercises import check

pytestmark = pytest.mark.processes

needs_jax = pytest.mark.skipif(not find_spec("jax"), reason='jax is not installed: pip install "jax==0.10.2"')


def ring(kind, devices, nbytes):
    return (2 if kind == "all_reduce" else 1) * nbytes * (devices - 1) / devices


def by_call(hlo):
    found = re.findall(r"= .*? (all-\w+)(?:-start)?\(", hlo)
    return {kind: found.count(kind) for kind in found}


def product(a, b):
    known = {("R", "R"): "R", ("S(1)", "S(0)"): "P", ("S(0)", "S(1)"): "conflict"}
    return known.get((a, b), b if a == "R" else a)


@pytest.mark.parametrize(
    ("name", "answer", "wrong"),
    [
        ("15.1", lambda kind, devices, nbytes: nbytes, "too little"),
        ("15.1", lambda kind, devices, nbytes: 2 * ring(kind, devices, nbytes), "too much"),
        ("15.1", lambda kind, devices, nbytes: "all", "a number of bytes"),
        ("15.1", 3, "asks for a function, not int"),
        ("15.1", ..., "no answer yet"),
        ("15.2", lambda hlo: {"all-reduce": hlo.count("all-reduce")}, "it counts 3 times all-reduce"),
        ("15.2", lambda hlo: 3, "a dictionary"),
        ("15.3", lambda a, b: a, "for a in R and b in S(1) it says 'R'"),
        ("15.3", lambda a, b: "S(0)" if (a, b) == ("S(0)", "S(1)") else product(a, b), "for a in S(0) and b in S(1)"),
        ("15.4", "q.weight", "a list of names"),
    ],
)
def test_a_wrong_answer_is_told_what_is_wrong_with_it(name, answer, wrong):
    outcome = check(name, answer)
    assert not outcome.passed and wrong in outcome.wrong, outcome.wrong


@pytest.mark.parametrize(("name", "answer"), [("15.1", ring), ("15.2", by_call), ("15.3", product)])
def test_a_right_answer_passes(name, answer):
    assert check(name, answer).passed, check(name, answer).wrong


@needs_jax
@pytest.mark.parametrize("answer", [["q.weight", "up.weight"], ["out.weight", "down.weight"]])
def test_two_annotations_are_enough(answer):
    assert check("15.4", answer).passed, check("15.4", answer).wrong


@needs_jax
@pytest.mark.parametrize(
    ("answer", "wrong"),
    [
        (["q.weight"], "up.weight becomes R"),
        (["q.weight", "k.weight", "up.weight"], "fewer than 3"),
        (["qkv.weight"], "no weight qkv.weight"),
    ],
)
def test_one_is_not_and_three_are_more_than_needed(answer, wrong):
    outcome = check("15.4", answer)
    assert not outcome.passed and wrong in outcome.wrong, outcome.wrong
