"""Exercises of chapter 18, where to put torch.compile, that plain Python can judge."""

from collections.abc import Callable, Sequence
from itertools import combinations

from ..exercises.judging import exercise

BLOCKS, MICROBATCHES = 24, 8


@exercise("18.1", takes=int)
def forwards(answer: int) -> str | None:
    """Compiled forwards of blocks in a step, where each block is compiled and then wrapped in checkpointing."""
    if answer == 2 * BLOCKS * MICROBATCHES:
        return None
    if answer == BLOCKS * MICROBATCHES:
        return "that is the forward's share; what does the backward begin with?"
    return "how often does one block run for one micro-batch, and for how many is it asked?"


@exercise("18.2", takes=Callable)
def order_of_steps(answer: Callable[[set[str]], Sequence[str]]) -> str | None:
    """order(steps): the steps that a program needs, in the order in which to write them."""
    known = "TP", "SP", "AC", "compile", "FSDP2", "DDP"
    for count in range(1, 5):
        for steps in map(set, combinations(known, count)):
            if {"TP", "SP"} <= steps or {"FSDP2", "DDP"} <= steps or ({"TP", "SP"} & steps and "DDP" in steps):
                continue
            got = answer(set(steps))
            if wrong := _wrong(list(got), steps):
                return f"for {', '.join(sorted(steps))} it says {', '.join(map(str, got)) or 'nothing'}: {wrong}"
    return None


STAGES, STAGE_MICROBATCHES, BACKWARD_MS = 8, 16, 10


@exercise("18.4", takes=float)
def cost_of_the_cure(answer: float) -> str | None:
    """Milliseconds of backward that a zero-bubble schedule adds over all compiled stages, without donated buffers."""
    twice = (STAGES - 1) * STAGE_MICROBATCHES * BACKWARD_MS
    every = STAGES * STAGE_MICROBATCHES * BACKWARD_MS
    if answer == twice:
        return None
    if answer == every:
        return "the first stage sends no input gradient: how many backwards does it run for a micro-batch?"
    if answer == every + twice:
        return "that is all backwards; how many of them are more than one for each?"
    return "which stages run their backward twice, and for how many micro-batches?"


def _wrong(got: list[str], steps: set[str]) -> str | None:
    if sorted(got) != sorted(steps):
        return "each step once, and no other."
    at = {step: number for number, step in enumerate(got)}
    split = {"TP", "SP"} & steps
    if any(at[each] for each in split):
        return "what slices the parameters of a block?"
    if {"AC", "compile"} <= steps and (at["AC"] < at["compile"]) == bool(split):
        return "what does torch 2.13 say to this?" if split else "how often does the compiled forward run in a step?"
    if any(at[each] != len(got) - 1 for each in {"FSDP2", "DDP"} & steps):
        return "what wraps the finished blocks?"
    return None
