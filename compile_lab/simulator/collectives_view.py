"""How a ring adds up, and why a pair of matmuls needs one sum: two pictures."""

from dataclasses import dataclass

from ..doors import check_whole
from ..page.figures import Drawing
from ..page.marks import Cell, Node, cells, nodes

Chunks = tuple[tuple[frozenset[int], ...], ...]
"""For each rank and each chunk, whose contributions it has added up."""


@dataclass(frozen=True)
class RingStep:
    """What all ranks have after a step of a ring, and which chunk each sent to its neighbour in it."""

    chunks: Chunks
    sent: tuple[int, ...]


def ring(ranks: int) -> list[RingStep]:
    """An all-reduce on a ring, carried out: a reduce-scatter in n − 1 steps, then an all-gather in as many.

    In a step every rank sends one chunk, an n-th of the tensor, to the next rank: first that rank adds its own to it,
    later it replaces its own by the whole sum. ValueError for fewer than two ranks.
    """
    check_whole("ranks", ranks, 2)
    have = [[frozenset([rank])] * ranks for rank in range(ranks)]
    steps = [RingStep(tuple(map(tuple, have)), ())]
    for step in range(2 * (ranks - 1)):
        sent = tuple((rank - step) % ranks for rank in range(ranks))
        arriving = [have[rank][chunk] for rank, chunk in enumerate(sent)]
        for rank, chunk in enumerate(sent):
            to = (rank + 1) % ranks
            have[to][chunk] = arriving[rank] | have[to][chunk]
        steps.append(RingStep(tuple(map(tuple, have)), sent))
    return steps


def ring_all_reduce(ranks: int = 4) -> Drawing:
    """Every step of ``ring``: each rank's chunks, with the number of ranks whose values are in it."""
    colours = {"not whole": "grey", "a partial sum, just come": "orange", "the whole sum": "blue"}
    kept, partial, total = colours

    def field(step: RingStep, rank: int, chunk: int) -> Cell:
        added, came = len(step.chunks[rank][chunk]), bool(step.sent) and step.sent[rank - 1] == chunk
        return Cell(str(added), total if added == ranks else partial if came else kept, pale=not came)

    grids = {
        _moment(number, ranks): [[field(step, rank, chunk) for chunk in range(ranks)] for rank in range(ranks)]
        for number, step in enumerate(ring(ranks))
    }
    return cells(
        grids,
        rows=[f"rank {rank}" for rank in range(ranks)],
        title=f"A ring adds the values up in {ranks - 1} steps, and passes the sums around in {ranks - 1} more.",
        caption=f"In each step each rank sends one chunk to the rank below (the last to the first): {2 * (ranks - 1)} "
        f"chunks of 1/{ranks} each, 2 · {ranks - 1}/{ranks} of the tensor. The number: how many ranks' values are "
        "added up. Pale: the rank had it before.",
        colours=colours,
    )


def _moment(step: int, ranks: int) -> str:
    return f"{step}: {'reduce-scatter' if step < ranks else 'all-gather'}" if step else "start"


def pair(up: str = "up", down: str = "down") -> Drawing:
    """A pair of matmuls on two devices: the first split by columns, the second by rows; one sum at the end."""
    boxes, edges = [Node("y", 3, "the sum", "all-reduced: whole, on both")], []
    for device, half in enumerate(("first", "second")):
        path = [
            Node(f"x on device {device}", 0, note="whole"),
            Node(f"h, {half} half", 1, f"device {device}", f"x · {half} half of the columns of {up}"),
            Node(f"y, partial sum {device}", 2, f"device {device}", f"h · {half} half of the rows of {down}"),
        ]
        boxes += path
        edges += [(path[0].name, path[1].name), (path[1].name, path[2].name), (path[2].name, "y")]
    return nodes(
        boxes,
        edges,
        title="No device has h whole; of y each has a partial sum, and one all-reduce adds the two.",
        caption="GELU works number by number, so each half of h is final; attention's pair is the same, with heads in "
        "place of columns.",
        colours={"device 0": "blue", "device 1": "orange", "the sum": "green"},
    )
