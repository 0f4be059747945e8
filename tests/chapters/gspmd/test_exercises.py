"""check says what is wrong with an answer, and takes a right one. The notebook's own solutions are checked by nbval."""

from importlib.util import find_spec

import pytest
from answers import judged_as

pytestmark = pytest.mark.processes

needs_jax = pytest.mark.skipif(not find_spec("jax"), reason='jax is not installed: pip install "jax==0.10.2"')


def matmul(a, b):
    known = {("R", "R"): "R", ("S(1)", "S(0)"): "P", ("S(0)", "S(1)"): "conflict"}
    return known.get((a, b), b if a == "R" else a)


test_a_wrong_answer_is_told_what_is_wrong_with_it = judged_as(
    ("15.1", lambda kind, devices, nbytes: 2 * nbytes, "too much"),
    ("15.1", lambda kind, devices, nbytes: "all", "a number of bytes"),
    ("15.2", lambda hlo: 3, "a dictionary"),
    ("15.3", lambda a, b: "S(0)" if (a, b) == ("S(0)", "S(1)") else matmul(a, b), "for a in S(0) and b in S(1)"),
)


test_annotations_that_are_enough_and_others = needs_jax(
    judged_as(
        (["out.weight", "down.weight"], "right."),
        (["q.weight"], "up.weight becomes R"),
        (["qkv.weight"], "no weight qkv.weight"),
        name="15.4",
    )
)
