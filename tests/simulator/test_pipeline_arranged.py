"""A schedule in the making: each block that may not stand where it stands is named, and what it shows agrees."""

from compile_lab.simulator.pipeline import simulate, table
from compile_lab.simulator.pipeline_arranged import Fault, faults, held, lean_fault, orders_of, so_far

GPIPE = "F0 F1 F2 F3 B0 B1 B2 B3"
BEST = "F0 F1 F2 B0 F3 B1 B2 B3 | F0 F1 B0 F2 B1 F3 B2 B3 | F0 B0 F1 B1 F2 B2 F3 B3"


def test_1f1b_is_what_the_judge_accepts_and_gpipe_holds_too_much():
    assert orders_of(BEST) == table("1F1B", 3, 4) and lean_fault(orders_of(BEST), 3, 4) is None
    assert faults(orders_of(BEST), 3) == [] and [held(order) for order in orders_of(BEST)] == [3, 2, 1]
    three = orders_of(" | ".join([GPIPE] * 3))
    assert "a rank holds 4 activations" in lean_fault(three, 3, 4)
    assert faults(three, 3) == [Fault(rank, 3, "F3: would be the 4th held, 3 are allowed") for rank in range(3)]
    assert faults(three, 4) == []
    assert max(action.end for action in so_far(three)) == simulate("GPipe", 3, 4).span


def test_a_backward_before_its_forward_is_named_and_holds_nothing():
    (order,) = orders_of("B0 F0 F1 B1")
    assert faults([order], 2) == [Fault(0, 0, "B0 stands before its own F0")] and held(order) == 1


def test_ranks_that_wait_for_each_other_are_each_told_for_what():
    orders = orders_of("F0 B0 F1 B1 | F1 F0 B0 B1")
    assert [str(action) for action in so_far(orders)] == ["0F0"]
    assert faults(orders, 2) == [
        Fault(0, 1, "B0 waits for B0 of rank 1, which never comes"),
        Fault(1, 0, "F1 waits for F1 of rank 0, which never comes"),
    ]
    assert "deadlock" in lean_fault(orders, 2, 2)
