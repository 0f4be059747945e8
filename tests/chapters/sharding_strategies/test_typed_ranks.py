"""What types refuse goes wrong on real ranks, and what they accept is right there."""

import pytest
import torch

from chapters.sharding_strategies.typed_ranks import gradient_errors
from compile_lab.simulator.spmd_types import GRADIENT, I, P, R, V, WrongType, check

pytestmark = pytest.mark.processes

TYPES = {"x": I, "first": I, "up": V, "down": V}


def right(c, x, first, up, down):
    h = c.gelu(x @ first)
    y = c.gelu(c.replicate(h) @ up) @ down
    return c.mean_of_squares(c.all_reduce(c.partial(y), to="I"))


def forgotten(c, x, first, up, down):
    h = c.gelu(x @ first)
    y = c.gelu(h @ up) @ down
    return c.mean_of_squares(c.all_reduce(c.partial(y), to="I"))


def twice(c, x, first, up, down):
    h = c.gelu(x @ first)
    y = c.gelu(c.replicate(h) @ up) @ down
    return c.mean_of_squares(c.all_reduce(c.partial(y), to="R"))


def sequence(c, x, scale, up, down):
    h = c.all_gather(x * c.replicate(scale), to="R")
    y = c.reduce_scatter(c.partial(c.gelu(h @ up) @ down))
    return c.mean_of_squares(c.all_gather(x + y, to="I"))


def scale_forgotten(c, x, scale, up, down):
    h = c.all_gather(x * scale, to="R")
    y = c.reduce_scatter(c.partial(c.gelu(h @ up) @ down))
    return c.mean_of_squares(c.all_gather(x + y, to="I"))


def bent(c, x, first, up, down):
    y = c.gelu(c.replicate(x @ first) @ up) @ down
    return c.mean_of_squares(c.gelu(c.partial(y)))


def values(**shapes):
    torch.manual_seed(0)
    return {name: torch.randn(*shape, dtype=torch.float64) for name, shape in shapes.items()}


MLP = values(x=(4, 6), first=(6, 6), up=(6, 8), down=(8, 6))
SEQUENCE = values(x=(4, 6), scale=(6,), up=(6, 8), down=(8, 6))
SEQUENCE_TYPES = {"x": V, "scale": I, "up": V, "down": V}


def is_right(error):
    return error < 1e-7


def test_a_right_program_has_types_and_its_gradients_are_one_process_s():
    steps = check(right, **TYPES)
    assert [each.operation for each in steps if each.backward] == ["replicate"]
    assert [each.output for each in steps] == [I, I, R, V, V, V, P, I, I]
    assert all(map(is_right, gradient_errors(right, MLP, {"up": 1, "down": 0}).values()))
    check(sequence, **SEQUENCE_TYPES)
    assert all(map(is_right, gradient_errors(sequence, SEQUENCE, {"x": 0, "up": 1, "down": 0}).values()))


def test_a_forgotten_all_reduce_of_the_backward_is_refused_and_gives_a_wrong_gradient():
    with pytest.raises(WrongType, match=r"line \d+: y = c.gelu\(h @ up\) @ down\nI @ V: .*Way out: replicate") as told:
        check(forgotten, **TYPES)
    assert told.value.line.line == forgotten.__code__.co_firstlineno + 2
    errors = gradient_errors(forgotten, MLP, {"up": 1, "down": 0})
    assert {name for name, error in errors.items() if not is_right(error)} == {"x", "first"}
    assert is_right(errors["loss"])  # the forward is right: nobody sees it there


def test_a_norm_s_weight_under_sequence_parallel_is_caught_too():
    with pytest.raises(WrongType, match=r"V \* I"):
        check(scale_forgotten, **SEQUENCE_TYPES)
    errors = gradient_errors(scale_forgotten, SEQUENCE, {"x": 0, "up": 1, "down": 0})
    assert {name for name, error in errors.items() if not is_right(error)} == {"scale"}


def test_a_loss_whose_gradient_is_added_up_twice_is_refused():
    with pytest.raises(WrongType, match=r"the loss is R, replicated, and it must be I.*to=I"):
        check(twice, **TYPES)
    errors = gradient_errors(twice, MLP, {"up": 1, "down": 0})
    assert errors["first"] == pytest.approx(1) and is_right(errors["loss"])  # twice what it should be


def test_what_bends_takes_no_partial_sum_and_collectives_take_what_they_are_for():
    with pytest.raises(WrongType, match=r"gelu\(P\): it bends.*Way out: all_reduce"):
        check(bent, **TYPES)
    with pytest.raises(WrongType, match=r"all_reduce of V to R: it goes from P to R or P to I; .*partial"):
        check(lambda c, x: c.all_reduce(x), x=V)
    with pytest.raises(ValueError, match="x is replicated, and its gradient would be a part on each rank: give I"):
        check(lambda c, x: x, x=R)
    with pytest.raises(ValueError, match="the program's values are x; the types are of y"):
        check(lambda c, x: x, y=V)
    assert {GRADIENT[GRADIENT[kind]] for kind in GRADIENT} == set(GRADIENT)
