"""The requests of steps of varying size: each step asks for what its batch needs, and lets go of what the last left."""

from chapters.memory_lifetimes.experiments.fragmentation import demand
from compile_lab.memory.caching import replay


def test_larger_steps_ask_for_more_and_equal_ones_for_the_same():
    figures, _ = replay(demand((1, 2, 1)))
    first, second, third = (each.allocated_nbytes for each in figures)
    assert first == third < second
    assert figures[0].reserved_nbytes < figures[1].reserved_nbytes <= figures[2].reserved_nbytes
