"""A schedule in the making: which of its blocks cannot stand where they are, and why, and what the others do meanwhile.

``lean_fault`` is the judge of exercise 12.3, in the notebook and in the page.
"""

from collections.abc import Sequence
from contextlib import suppress
from typing import NamedTuple

from .pipeline import BACKWARD, FORWARD, Action, Order, delays_nothing, simulate, timeline_of


class Fault(NamedTuple):
    """A block that may not stand where it stands: its rank, its place in the rank's order from 0, and why not."""

    rank: int
    at: int
    why: str


def lean_fault(orders: Sequence[Order], ranks: int, microbatches: int) -> str | None:
    """What is wrong with a schedule that is to hold at most ``ranks`` activations and be no slower than GPipe.

    None if nothing is. A forward takes 1, a whole backward 2.
    """
    try:
        found = timeline_of(orders)
    except ValueError as error:
        return f"with {ranks} ranks and {microbatches} micro-batches it is no schedule: {error}."
    if (found.ranks, found.stages, found.microbatches) != (ranks, ranks, microbatches):
        asked = f"{microbatches} micro-batches on {ranks}"
        return f"given {asked} ranks, it runs {found.microbatches} through {found.stages} stages."
    if (most := max(found.peak_activations)) > min(ranks, microbatches):
        return f"with {ranks} ranks and {microbatches} micro-batches a rank holds {most} activations at a time."
    if found.span > (limit := simulate("GPipe", ranks, microbatches).span):
        return f"with {ranks} ranks and {microbatches} micro-batches it takes {found.span:g}; GPipe takes {limit:g}."
    return None


def orders_of(text: str) -> list[Order]:
    """``"F0 F1 B0 B1 | F0 B0 F1 B1"``: each rank's blocks, as orders. ValueError for what is no such text."""
    orders = []
    for rank, row in enumerate(text.split("|")):
        for block in row.split():
            if block[0] not in (FORWARD, BACKWARD) or not (block[1:].isascii() and block[1:].isdigit()):
                raise ValueError(f"{block!r} is no block: it is F or B and a micro-batch's number, as in F0")
        orders.append([(block[0], rank, int(block[1:])) for block in row.split()])
    if not all(orders):
        raise ValueError(f"rank {orders.index([])} has no block: give each rank its own, divided by |")
    return orders


def so_far(orders: Sequence[Order]) -> list[Action]:
    """What the ranks get done, in order, until they are through or all wait: a deadlock is no error here."""
    actions: list[Action] = []
    with suppress(ValueError):
        actions.extend(delays_nothing(orders))  # keeps what came before the error
    return actions


def faults(orders: Sequence[Order], most: int) -> list[Fault]:
    """Every block that may not stand where it stands, if a rank may hold ``most`` activations."""
    found = {fault[:2]: fault for fault in _waiting(orders)}
    found |= {fault[:2]: fault for rank, order in enumerate(orders) for fault in _own(rank, order, most)}
    return sorted(found.values())


def _own(rank: int, order: Order, most: int) -> list[Fault]:
    """What a rank's own order says: a backward before its forward, more activations than there is room for."""
    found: list[Fault] = []
    begun: set[int] = set()
    sent: set[int] = set()
    for at, (kind, _, m) in enumerate(order):
        (begun if kind == FORWARD else sent).add(m)
        if kind == FORWARD and len(begun - sent) == most + 1:
            found.append(Fault(rank, at, f"F{m}: would be the {most + 1}th held, {most} are allowed"))
        elif kind == BACKWARD and m not in begun:
            found.append(Fault(rank, at, f"B{m} stands before its own F{m}"))
    return found


def _waiting(orders: Sequence[Order]) -> list[Fault]:
    """The blocks for which ranks wait for ever, each for what another rank never comes to."""
    done = [0] * len(orders)
    for action in so_far(orders):
        done[action.rank] += 1
    found = []
    for rank, (order, at) in enumerate(zip(orders, done, strict=True)):
        if at < len(order):
            kind, _, m = order[at]
            other = rank - 1 if kind == FORWARD else rank + 1
            found.append(Fault(rank, at, f"{kind}{m} waits for {kind}{m} of rank {other}, which never comes"))
    return found


def held(order: Order) -> int:
    """The most activations that the rank holds, whatever is wrong with its order."""
    begun: set[int] = set()
    sent: set[int] = set()
    most = 0
    for kind, _, m in order:
        (begun if kind == FORWARD else sent).add(m)
        most = max(most, len(begun - sent))
    return most
