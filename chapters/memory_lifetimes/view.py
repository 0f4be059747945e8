"""The mountain of live bytes and what lies in its peak, the allocator's own curve, and the map of its segments."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from compile_lab.doors import check_whole, door
from compile_lab.memory.caching import CachingAllocator
from compile_lab.memory.ledger import Lifetimes, Tensor
from compile_lab.memory.measured import Peak
from compile_lab.memory.view import _peak_phase, at_peak
from compile_lab.page import marks
from compile_lab.page.figures import Drawing
from compile_lab.page.marks import Axis, Line, Row, Segment
from compile_lab.page.tables import Table
from compile_lab.page.units import unit_of, with_unit, without_namespace
from compile_lab.simulator.lifetimes import LivedStep
from compile_lab.simulator.lifetimes_view import layers

KINDS = {
    "activation": ("other activations", "blue"),
    "gradient": ("gradients of parameters", "vermillion"),
    "optimizer state": ("optimizer state", "grey"),
    "temporary": ("other temporaries", "sky"),
}
LARGEST = ("green", "purple", "orange")
"""Colours of the largest buffers, each a layer of its own."""
MOST_SEGMENTS = 24


@door
def live_bytes(
    lifetimes: Lifetimes, caption: str = "", provenance: object = None, most: int = 3, names: Sequence[str] = ()
) -> Drawing:
    """The live bytes of a step as layers: the ``most`` largest buffers alive at the peak, and the others by kind.

    ``names`` says in words what those largest are, the largest and earliest first; without, it is the operation that
    made each. Raises ValueError for a ``most`` that there are no colours for.

    >>> import torch
    >>> from chapters.memory_lifetimes.view import live_bytes
    >>> from compile_lab.memory import eager_lifetimes
    >>> live_bytes(eager_lifetimes(lambda: torch.ones(1000, requires_grad=True).exp().sum().backward())).title
    'The peak, 12 kB, is in the backward; its 3 largest buffers are 100 % of it.'
    """
    check_whole("most", most, 0, len(LARGEST))
    large = lifetimes.alive_at(lifetimes.peak_at)[:most]
    others = [each for each in lifetimes.tensors if not each.is_resident and each not in large]
    groups: dict[str, list[Tensor]] = {}
    colours: dict[str, str] = {}
    for kind, (name, colour) in KINDS.items():
        if mine := [each for each in others if each.kind == kind]:
            groups[name], colours[name] = mine, colour
        for at, each in enumerate(large):
            if each.kind == kind:
                name = names[at] if at < len(names) else f"{without_namespace(each.op)}, {at + 1}"
                groups[name], colours[name] = [each], LARGEST[at]
    count, (unit, size) = len(lifetimes.timeline), unit_of(lifetimes.peak_nbytes)
    phases = Counter(moment.phase for moment in lifetimes.timeline)
    share = 100 * sum(each.nbytes for each in large) / lifetimes.peak_nbytes
    return marks.lines(
        {"": layers(groups, count, size)},
        Axis(f"operation: {', then '.join(f'{n} {phase}' for phase, n in phases.items())}", until=count),
        Axis("live bytes", unit),
        title=f"The peak, {with_unit(lifetimes.peak_nbytes)}, is in the {_peak_phase(lifetimes)}; its {len(large)} "
        f"largest buffers are {share:.0f} % of it.",
        caption=caption,
        colours=dict(reversed(colours.items())),
        provenance=provenance,
        stacked=True,
        table=at_peak(lifetimes, 10),
    )


@door
def comparison(step: LivedStep, measured: Peak, caption: str = "", provenance: object = None) -> Drawing:
    """The live bytes of a step as computed, and what the allocator had given out, on one scale.

    The forward is as wide in both, and so is the backward: the one counts operations, the other what the allocator did.
    Raises ValueError for a measurement without a curve, or without the end of the forward.

    >>> from chapters.memory_lifetimes.view import comparison
    >>> from compile_lab.memory.measured import Peak
    >>> from compile_lab.simulator import joint_graphs, lifetimes
    >>> comparison(
    ...     lifetimes.lived(joint_graphs.stored_graphs()["MLP by hand"], budget=1),
    ...     Peak("cpu", 9_000_000, 3_000_000, 0, "mm", (), curve=(3_000_000, 9_000_000, 0), forward_events=1),
    ... ).table
    bytes                       computed   measured
    ────────────────────────  ──────────  ─────────
    alive between the passes   5,242,884  3,000,000
    peak                      13,173,000  9,000,000
    """
    if not measured.curve or not measured.forward_events:
        raise ValueError("this peak has no curve of a forward and a backward: measure it with measure_step")
    unit, size = unit_of(max(step.peak_nbytes, measured.peak_nbytes))
    off = abs(step.peak_nbytes - measured.peak_nbytes)
    there = f"{with_unit(off)} apart" if off else "the same to the byte"
    rows = [
        ("alive between the passes", step.held_nbytes, measured.held_nbytes),
        ("peak", step.peak_nbytes, measured.peak_nbytes),
    ]
    return marks.lines(
        {
            "computed": [_by_pass(step.live, step.forward, size)],
            f"given out by the allocator ({measured.device})": [
                _by_pass(measured.curve, measured.forward_events, size)
            ],
        },
        Axis("forward: 0 to 1, backward: 1 to 2 (share of each that has run)", until=2, ticks=(0, 1, 2)),
        Axis("live bytes", unit),
        title=f"The computed peak, {with_unit(step.peak_nbytes)}, and the allocator's are {there}.",
        caption=caption,
        provenance=provenance,
        stacked=True,
        table=Table(["bytes", "computed", "measured"], rows, align="lrr"),
    )


def _by_pass(curve: Sequence[int], forward: int, size: float) -> Line:
    backward = max(1, len(curve) - forward)
    places = [at / forward if at <= forward else 1 + (at - forward) / backward for at in range(len(curve) + 1)]
    return Line("live bytes", [*zip(places, [each / size for each in (*curve, curve[-1])], strict=True)], stepped=True)


@door
def memory_map(allocator: CachingAllocator) -> Drawing:
    """Each of the 24 largest segments to scale, block by block; the table has all of them by size.

    Raises ValueError for an allocator that has reserved nothing.

    >>> from chapters.memory_lifetimes.view import memory_map
    >>> from compile_lab.memory.caching import replay
    >>> figures, allocator = replay([[("weights", 3_000_000)]])
    >>> memory_map(allocator).title
    'Of 21 MB that are reserved, in 1 segments, 18 MB lie free, 86 %.'
    """
    segments = sorted(allocator.segments, key=lambda each: -each.nbytes)
    if not segments:
        raise ValueError("nothing is reserved: allocate something first")
    unit, size = unit_of(segments[0].nbytes)
    free = {id(each): sum(block.nbytes for block in each.blocks if block.owner is None) for each in segments}
    rows = [
        Row(
            with_unit(each.nbytes),
            [
                Segment("free" if block.owner is None else "in use", block.nbytes / size, block.start / size, words="")
                for block in each.blocks
            ],
            f"{with_unit(free[id(each)])} free",
            thin=True,
        )
        for each in segments[:MOST_SEGMENTS]
    ]
    counts: dict[int, list[int]] = {}
    for each in segments:
        counts.setdefault(each.nbytes, []).append(free[id(each)])
    by_size = [(with_unit(nbytes), len(several), with_unit(sum(several))) for nbytes, several in counts.items()]
    reserved, idle = allocator.reserved_nbytes, allocator.reserved_nbytes - allocator.allocated_nbytes
    return marks.segments(
        rows,
        Axis("", unit),
        title=f"Of {with_unit(reserved)} that are reserved, in {len(segments)} segments, {with_unit(idle)} lie free, "
        f"{100 * idle / reserved:.0f} %.",
        colours={"in use": "blue", "free": "grey"},
        table=Table(["segment", "how many", "free in them"], by_size, align="lrr"),
    )
